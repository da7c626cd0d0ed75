"""One way to an API server: kubernetes_asyncio says where it is and who we are, and lends its connection.

The library knows kubeconfig files, credential plugins and TLS; its call path and its models cost more than
the request itself, so `get` goes straight to the aiohttp session underneath and gives bytes. It asks the
library for the credential at every request, for tokens expire while a large cluster is being read.

Nothing here writes: `get` is the only verb.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from podium.errors import PodiumError

_CONNECT_SECONDS = 30.0
# Longer than the 60 s an API server gives a list before it answers 504 itself.
_SILENCE_SECONDS = 75.0
_ATTEMPTS = 6
_LONGEST_WAIT_SECONDS = 30.0
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Sleep = Callable[[float], Awaitable[None]]


class RefusedError(PodiumError):
    """The API server answered no: `code` is the HTTP status, `reason` Kubernetes' word for it."""

    def __init__(self, server: str, path: str, code: int, reason: str, message: str) -> None:
        super().__init__(_one_line(f"{server}: GET {path}: {code} {reason}: {message}"))
        self.code = code
        self.reason = reason
        self.message = message


class Target(NamedTuple):
    """What a kubeconfig says: the library's configuration, the context's name and its namespace."""

    configuration: Any
    context: str
    namespace: str


class _Status(msgspec.Struct):
    """metav1.Status, as far as a refusal is told by it."""

    message: str = ""
    reason: str = ""


class Connection:
    """An open connection; made by `connect`."""

    def __init__(self, target: Target, session: Any, options: dict[str, Any], sleep: Sleep) -> None:
        self.context = target.context
        self.namespace = target.namespace
        self.server: str = target.configuration.host
        self._configuration = target.configuration
        self._session = session
        self._options = options
        self._sleep = sleep

    async def get(self, path: str, **query: str) -> bytes:
        """Give the body of a 200. A server that asks to come back later is asked again, as late as it says.

        Raises RefusedError for any other answer and PodiumError when there is none.
        """
        for _ in range(_ATTEMPTS - 1):
            code, headers, body = await self._request(path, query)
            if code != 429 and not (code in (500, 503, 504) and "Retry-After" in headers):
                break
            await self._sleep(_wait(headers.get("Retry-After", "1")))
        else:
            code, headers, body = await self._request(path, query)
        if code == 200:
            return body
        status = _status(body)
        raise RefusedError(self.server, path, code, status.reason, status.message)

    async def _request(self, path: str, query: dict[str, str]) -> tuple[int, Any, bytes]:
        import aiohttp  # noqa: PLC0415 - slow to import; only live commands pay

        headers = {"Accept": "application/json", "User-Agent": "podium"}
        credential = (await self._configuration.auth_settings()).get("BearerToken")
        if credential is not None:
            headers["Authorization"] = credential["value"]
        try:
            async with self._session.get(
                self.server + path, params=query, headers=headers, **self._options
            ) as response:
                return response.status, response.headers, await response.read()
        except TimeoutError:
            raise PodiumError(_one_line(f"{self.server}: no answer to GET {path} in time")) from None
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, ConnectionError) as error:
            raise PodiumError(
                _one_line(f"{self.server}: the connection was lost during GET {path} ({error})")
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PodiumError(_one_line(f"{self.server}: GET {path} failed: {error}")) from None


@asynccontextmanager
async def connect(
    kubeconfig: str | None, context: str | None, *, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[Connection]:
    """Open a connection as kubectl would choose it: the named files and context, or those of the environment.

    Raises PodiumError when the kubeconfig or its credentials cannot be used.
    """
    import aiohttp  # noqa: PLC0415 - slow to import; only live commands pay
    from kubernetes_asyncio.client.rest import RESTClientObject  # noqa: PLC0415 - as above, 0.6 s

    target = await _target(kubeconfig, context)
    try:
        client = RESTClientObject(target.configuration)
    except OSError as error:
        raise PodiumError(_one_line(f"context {target.context}: its certificates: {error}")) from None
    options: dict[str, Any] = {
        "timeout": aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS),
        "proxy": client.proxy,
        "proxy_headers": client.proxy_headers,
    }
    if client.server_hostname:
        options["server_hostname"] = client.server_hostname
    try:
        yield Connection(target, client.pool_manager, options, sleep)
    finally:
        await client.close()


async def _target(kubeconfig: str | None, context: str | None) -> Target:
    from kubernetes_asyncio import config  # noqa: PLC0415 - slow to import; only live commands pay
    from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415 - as above

    # It logs what it also raises; one line is enough.
    logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())
    files = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    configuration = Configuration()
    if not _exists(files):
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            return _in_cluster(config, configuration)
        raise PodiumError(f"{files}: no such kubeconfig; give -f FILE for a dump, or --kubeconfig")
    try:
        loader = await config.load_kube_config(
            config_file=files, context=context or _current_context(files), client_configuration=configuration
        )
        current: Any = loader.current_context
        namespace = current["context"].get("namespace") or "default"
        return Target(configuration, current["name"], namespace)
    except Exception as error:  # noqa: BLE001 - the library trips over a bad file in any way it likes
        tripped = isinstance(error, AttributeError | TypeError | LookupError | AssertionError)
        said = "it is malformed" if tripped else str(error)
        raise PodiumError(_one_line(f"{files}: cannot be used as a kubeconfig: {said}")) from None


def _current_context(files: str) -> str | None:
    """Give the current-context of the first file that has one, as kubectl does (the library: the last)."""
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger  # noqa: PLC0415 - as above

    contents = KubeConfigMerger(files).config_files.values()
    return next((each["current-context"] for each in contents if each.get("current-context")), None)


def _exists(files: str) -> bool:
    return any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file)


def _in_cluster(config: Any, configuration: Any) -> Target:
    try:
        config.load_incluster_config(client_configuration=configuration)
        namespace = (_SERVICE_ACCOUNT / "namespace").read_text().strip()
    except (config.ConfigException, OSError) as error:
        raise PodiumError(_one_line(f"no kubeconfig, and the pod's service account: {error}")) from None
    return Target(configuration, "in-cluster", namespace)


def _status(body: bytes) -> _Status:
    try:
        return msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        return _Status(message=body[:200].decode(errors="replace"))


def _wait(seconds: str) -> float:
    """Give how long to wait by a Retry-After header; a date in it (no API server sends one) is one second."""
    return min(float(seconds) if seconds.isdigit() else 1.0, _LONGEST_WAIT_SECONDS)


def _one_line(text: str) -> str:
    return " ".join(text.split())
