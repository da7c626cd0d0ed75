"""Stores for the certificates that replicas share: a Secret, or a folder on one machine.

A store has one document and one operation: replace it if it is unchanged since it was read. `state.json` is
that document, and the only part that is read back. ca.crt, tls.crt and tls.key are copies for people and
tools (curl --cacert), under the usual names.
"""

import base64
import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from podium import jsontext
from podium.documents import files
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, get_or_none
from podium.webhooks import certificates
from podium.webhooks.rotation import Stored

_STATE = "state.json"
_LABELS = {
    "app.kubernetes.io/name": "podium",
    "app.kubernetes.io/component": "webhook",
    "app.kubernetes.io/managed-by": "podium",
}


class StoreContent(NamedTuple):
    """The content of a store, or None, and its version for `write`.

    `damage` is the reason why content that exists cannot be read. It counts as absent, and is replaced.
    """

    stored: Stored | None
    version: str
    damage: str = ""


class Store(Protocol):
    """One shared document, replaced by compare-and-swap."""

    async def read(self) -> StoreContent:
        """Return the stored state. Raises PodiumError if the store cannot be read, or is not Podium's."""
        ...

    async def write(self, stored: Stored, version: str) -> bool:
        """Replace the version that was read. Return False if it has changed since. Raises PodiumError."""
        ...


class FolderStore:
    """A folder with access for its owner only, on a file system where flock and rename work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self) -> StoreContent:
        """Return the content of state.json."""
        try:
            body = self._body()
        except OSError as error:
            raise PodiumError(f"{self._folder / _STATE}: {error.strerror}") from None
        if not body:
            return StoreContent(None, "")
        return _content(body, _digest(body), str(self._folder / _STATE))

    async def write(self, stored: Stored, version: str) -> bool:
        """Replace the files; state.json first, because the others are its copies."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _lock(self._folder / ".lock") as locked:
                body = self._body() if locked else b""
                if not locked or (_digest(body) if body else "") != version:
                    return False
                for name, content in _files(stored).items():
                    _write_file(self._folder / name, content)
        except OSError as error:
            raise PodiumError(f"{self._folder}: cannot store certificates: {error.strerror}") from None
        return True

    def _body(self) -> bytes:
        try:
            return (self._folder / _STATE).read_bytes()
        except FileNotFoundError:
            return b""


class SecretStore:
    """A Secret. It may exist empty beforehand, so that the verb `create` is not needed.

    Needs get, create and patch on it. Labels and other fields of other writers are kept.
    """

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self._path = f"/api/v1/namespaces/{namespace}/secrets"
        self._name = name
        self._where = f"Secret {namespace}/{name}"

    async def read(self) -> StoreContent:
        """Return the content of the Secret; its resourceVersion is the version."""
        body = await get_or_none(self._connection, f"{self._path}/{self._name}")
        if body is None:
            return StoreContent(None, "")
        secret = jsontext.parse(body, _StoredSecret)
        if secret.data and _STATE not in secret.data:
            raise PodiumError(f"{self._where}: contains data that is not Podium's. Name another Secret")
        state = base64.b64decode(secret.data[_STATE]) if secret.data else b""
        return _content(state, secret.metadata.resourceVersion, f"{self._where}: {_STATE}")

    async def write(self, stored: Stored, version: str) -> bool:
        """Create the Secret, or patch it if it is unchanged since it was read."""
        data = {name: base64.b64encode(content).decode() for name, content in _files(stored).items()}
        try:
            if version:
                patch = {"metadata": {"resourceVersion": version}, "data": data}
                await self._connection.send(
                    "PATCH",
                    f"{self._path}/{self._name}",
                    patch,
                    content_type="application/merge-patch+json",
                )
            else:
                metadata = {"name": self._name, "labels": _LABELS}
                secret = {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "Opaque",
                    "metadata": metadata,
                    "data": data,
                }
                await self._connection.send("POST", self._path, secret)
        except RefusedError as error:
            # 409: created or changed since the read; 404 to a patch: deleted.
            if error.code == 409 or (error.code == 404 and version):
                return False
            raise
        return True


class _SecretMetadata(msgspec.Struct):
    resourceVersion: str


class _StoredSecret(msgspec.Struct):
    metadata: _SecretMetadata
    data: dict[str, str] | None = None


def _files(stored: Stored) -> Mapping[str, bytes]:
    return {
        _STATE: msgspec.json.encode(stored),
        "ca.crt": stored.bundle,
        "tls.crt": stored.serving.certificate,
        "tls.key": stored.serving.key,
    }


def _content(body: bytes, version: str, where: str) -> StoreContent:
    if not body:
        return StoreContent(None, version)
    try:
        stored = jsontext.parse(body, Stored)
        # The CAs must be valid; an invalid leaf is replaced.
        for ca in (stored.signer, stored.next):
            if ca is not None:
                certificates.verify_pair(ca, (), certificates.facts(ca.certificate).start)
        if stored.retired:
            certificates.facts(stored.retired)
    except (msgspec.DecodeError, PodiumError) as error:
        return StoreContent(None, version, damage=f"{where}: {error}")
    if any(not report.names or report.end.tzinfo is None for report in stored.reports):
        return StoreContent(None, version, damage=f"{where}: a report has no name, or a time without a zone")
    return StoreContent(stored, version)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _write_file(path: Path, content: bytes) -> None:
    files.replace(path, lambda file: file.write(content), mode=files.PRIVATE)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Take the folder's lock and yield True. Yield False if another process holds it.

    Waiting could last forever, because the holder may be suspended, and this process must serve.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, files.PRIVATE), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
