"""Which API server, and as whom: what kubectl would find in files, the environment or the pod it runs in.

The library reads the files and asks credential plugins. It chooses another context than kubectl where there
are several files, and trips over a bad one in any way it likes, which is said here in one line.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from podium.errors import NoKubeconfigError, PodiumError
from podium.wording import one_line, some

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Target(NamedTuple):
    """What a kubeconfig says: the library's configuration, the context's name and its namespace."""

    configuration: Any
    context: str
    namespace: str


async def chosen(kubeconfig: str | None, context: str | None) -> Target:
    """Choose as kubectl would: the named files and context, or those of the environment, or the pod's own.

    Raises PodiumError when they cannot be used.
    """
    from kubernetes_asyncio import config  # noqa: PLC0415 - slow to import; only live commands pay
    from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415 - as above

    # It logs what it also raises; one line is enough.
    logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())
    configuration = Configuration()
    files = _files(kubeconfig)
    if files is None:
        return _in_cluster(config, configuration)
    with _in_words(files):
        loader = await config.load_kube_config(
            config_file=files, context=_context(files, context), client_configuration=configuration
        )
        current: Any = loader.current_context
        return Target(configuration, current["name"], _namespace(current))


def namespace(kubeconfig: str | None, context: str | None) -> str:
    """Give the namespace of the context that would be chosen, and ask no credential plugin for it.

    Raises PodiumError as `chosen` does.
    """
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger  # noqa: PLC0415 - as above

    files = _files(kubeconfig)
    if files is None:
        return _namespace_of_pod()
    with _in_words(files):
        loader = KubeConfigLoader(KubeConfigMerger(files).config, _context(files, context))
        return _namespace(loader.current_context)


def _namespace(context: Any) -> str:
    found: str = context["context"].get("namespace") or "default"
    return found


def _files(kubeconfig: str | None) -> str | None:
    """Give the files to read, None where the pod's own account is meant. Raises NoKubeconfigError."""
    files = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if _exists(files):
        return files
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    raise NoKubeconfigError(f"{files}: no such kubeconfig; name another with --kubeconfig")


@contextmanager
def _in_words(files: str) -> Iterator[None]:
    """Say in one line of whatever is wrong with kubeconfig files."""
    try:
        yield
    except PodiumError:
        raise
    except Exception as error:  # noqa: BLE001 - the library trips over a bad file in any way it likes
        said = _said(error)
        raise PodiumError(one_line(f"{files}: cannot be used as a kubeconfig: {said}")) from None


def _context(files: str, asked: str | None) -> str | None:
    """Give the context that is asked for, or the current-context of the first file that has one.

    So does kubectl (the library: the last). Raises PodiumError for one that is not there.
    """
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger  # noqa: PLC0415 - as above

    contents = KubeConfigMerger(files).config_files.values()
    if asked is None:
        return next((each["current-context"] for each in contents if each.get("current-context")), None)
    there = [each["name"] for content in contents for each in content.get("contexts") or ()]
    if asked not in there:
        raise PodiumError(f"{files}: there is no context {asked}; there is {some(there) or 'none'}")
    return asked


def _said(error: Exception) -> str:
    """Say in a few words what the library trips over in a kubeconfig."""
    match error:
        case AttributeError() | TypeError() | LookupError() | AssertionError():
            return "it is malformed"
        case UnicodeError():
            return "it is not text"
        case FileNotFoundError():
            return f"{error.filename}, which gives the credential, is not found; install it, or see PATH"
        case OSError(strerror=str(reason)):
            return reason
        case _:
            return str(error)


def _exists(files: str) -> bool:
    return any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file)


def _in_cluster(config: Any, configuration: Any) -> Target:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise _without_account(error) from None
    return Target(configuration, "in-cluster", _namespace_of_pod())


def _namespace_of_pod() -> str:
    try:
        return (_SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError as error:
        raise _without_account(error) from None


def _without_account(error: Exception) -> PodiumError:
    return PodiumError(one_line(f"no kubeconfig, and the pod's service account: {error}"))
