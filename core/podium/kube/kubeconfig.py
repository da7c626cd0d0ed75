"""Find the API server and the credential as kubectl does: in files, the environment or the pod.

kubernetes_asyncio reads the files and runs credential plugins. With several files it chooses another context
than kubectl, and for a bad file it raises arbitrary exceptions. This module corrects the choice and reports
one line.
"""

import importlib
import logging
import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from podium.errors import NoKubeconfigError, PodiumError
from podium.text import one_line, some

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class LoadedKubeconfig(NamedTuple):
    """The content of a kubeconfig: the library's configuration, the context's name and its namespace."""

    configuration: Any
    context: str
    namespace: str


class Transport(NamedTuple):
    """The parameters of connections to an API server: the SSL context, the name in TLS and the proxy."""

    certificates: Any
    server_hostname: str | None
    proxy: str | None
    proxy_headers: Any


async def transport(target: LoadedKubeconfig) -> Transport:
    """Return the parameters that the library derives from a configuration.

    Raises PodiumError when the certificates cannot be used.
    """
    without_models()
    from kubernetes_asyncio.client.rest import RESTClientObject  # noqa: PLC0415 - slow to import

    try:
        client = RESTClientObject(target.configuration)
    except OSError as error:
        why = "not readable" if isinstance(error, ssl.SSLError) else str(error)
        raise PodiumError(one_line(f"context {target.context}: certificates: {why}")) from None
    # The library has no public attribute for the SSL context that it built.
    certificates = getattr(client.pool_manager.connector, "_ssl")  # noqa: B009
    await client.close()
    return Transport(certificates, client.server_hostname, client.proxy, client.proxy_headers)


async def chosen(kubeconfig: str | None, context: str | None) -> LoadedKubeconfig:
    """Return the target kubectl would choose: by arguments, by environment, or the pod's own account.

    Raises PodiumError when the files cannot be used.
    """
    without_models()
    from kubernetes_asyncio import config  # noqa: PLC0415 - slow to import; only live commands pay
    from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415 - as above

    # The library logs the errors that it raises; one line is enough.
    logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())
    configuration = Configuration()
    # Python 3.13 requires extensions that Go does not, such as the CA's keyUsage. kubectl accepts CAs without
    # them, and some clusters have such a CA.
    configuration.disable_strict_ssl_verification = True
    files = _files(kubeconfig)
    if files is None:
        return _in_cluster(config, configuration)
    with _in_words(files):
        loader = await config.load_kube_config(
            config_file=files, context=_context(files, context), client_configuration=configuration
        )
        current: Any = loader.current_context
        return LoadedKubeconfig(configuration, current["name"], _namespace(current))


def namespace(kubeconfig: str | None, context: str | None) -> str:
    """Return the namespace of the context that `chosen` would choose, without running a credential plugin.

    Raises PodiumError as `chosen` does.
    """
    without_models()
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger  # noqa: PLC0415 - as above

    files = _files(kubeconfig)
    if files is None:
        return _namespace_of_pod()
    with _in_words(files):
        loader = KubeConfigLoader(KubeConfigMerger(files).config, _context(files, context))
        return _namespace(loader.current_context)


def _namespace(context: Any) -> str:
    chosen: str = context["context"].get("namespace") or "default"
    return chosen


def _files(kubeconfig: str | None) -> str | None:
    """Return the files to read, or None for the pod's own account. Raises NoKubeconfigError."""
    files = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if _exists(files):
        return files
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    raise NoKubeconfigError(f"{files}: kubeconfig not found. Name another with --kubeconfig")


@contextmanager
def _in_words(files: str) -> Iterator[None]:
    """Convert any error in kubeconfig files into a PodiumError of one line."""
    try:
        yield
    except PodiumError:
        raise
    except Exception as error:  # noqa: BLE001 - for a bad file the library may raise anything
        why = _short_reason(error)
        raise PodiumError(one_line(f"{files}: cannot be used as a kubeconfig: {why}")) from None


def _context(files: str, asked: str | None) -> str | None:
    """Return the requested context, or the current-context of the first file that has one, as kubectl does.

    (The library takes the last file.) Raises PodiumError for a context that does not exist.
    """
    without_models()
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger  # noqa: PLC0415 - as above

    contents = KubeConfigMerger(files).config_files.values()
    if asked is None:
        return next((file["current-context"] for file in contents if file.get("current-context")), None)
    there = [entry["name"] for content in contents for entry in content.get("contexts") or ()]
    if asked not in there:
        raise PodiumError(f"{files}: context {asked} not found; the contexts are: {some(there) or 'none'}")
    return asked


def _short_reason(error: Exception) -> str:
    """Return a short reason for an error of the library about a kubeconfig."""
    match error:
        case AttributeError() | TypeError() | LookupError() | AssertionError():
            return "malformed"
        case UnicodeError():
            return "not text"
        case FileNotFoundError():
            return f"credential plugin {error.filename} not found. Install it, or check PATH"
        case OSError(strerror=str(reason)):
            return reason
        case _:
            return str(error)


def _exists(files: str) -> bool:
    return any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file)


def _in_cluster(config: Any, configuration: Any) -> LoadedKubeconfig:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise _without_account(error) from None
    return LoadedKubeconfig(configuration, "in-cluster", _namespace_of_pod())


def _namespace_of_pod() -> str:
    try:
        return (_SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError as error:
        raise _without_account(error) from None


def _without_account(error: Exception) -> PodiumError:
    return PodiumError(one_line(f"no kubeconfig found, and the pod's service account is not usable: {error}"))


# Import kubernetes_asyncio without its classes for the kinds of the API.
#
# The package imports 900 modules with such classes, whichever of its modules is wanted. That takes 0.2 s and
# 35 MiB in every process that talks to an API server. Podium uses the library for kubeconfig files and TLS,
# and has its own types for objects. So two packages of the library are created here without their
# `__init__`, which runs when an attribute is wanted that Podium does not need.


_LIBRARY = "kubernetes_asyncio"
_CLIENT = f"{_LIBRARY}.client"


def without_models() -> None:
    """Make later imports of the library's modules fast; has no effect if it was imported already."""
    if _LIBRARY in sys.modules or find_spec(_LIBRARY) is None:
        return
    library, client = _bare(_LIBRARY), _bare(_CLIENT)
    vars(library)["client"] = client
    # The names that the library's own modules import from there. They need ApiClient in functions only that
    # Podium does not call.
    vars(client)["Configuration"] = importlib.import_module(f"{_CLIENT}.configuration").Configuration
    vars(client)["ApiClient"] = object


def _bare(name: str) -> ModuleType:
    """Register a package without running its `__init__`."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module, loader = module_from_spec(spec), spec.loader

    def attribute(member: str) -> Any:
        """Return a submodule, or an attribute of the package, whose `__init__` runs for that."""
        if member.startswith("__"):
            raise AttributeError(member)
        if find_spec(f"{name}.{member}") is not None:
            return importlib.import_module(f"{name}.{member}")
        del vars(module)["__getattr__"]
        loader.exec_module(module)
        return getattr(module, member)

    vars(module)["__getattr__"] = attribute
    sys.modules[name] = module
    return module
