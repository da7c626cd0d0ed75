"""Discovery: the kinds Podium reads that a server has, and the best version of each.

Podium reads several versions of one kind, and custom resources may appear or go at any time, so callers ask
the server instead of assuming a list.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from podium import jsontext
from podium.api.findings import group_of
from podium.api.reads import READS, Kind, Read, Reads
from podium.documents.load import NOT_SERVED
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError

T = TypeVar("T")

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"alpha": 0, "beta": 1, None: 2}
# An object is listed after the objects that refer to it, so the target of a reference is in the result.
_ORDER = (
    Kind.POD,
    Kind.OWNER,
    Kind.JOB,
    Kind.KUEUE_WORKLOAD,
    Kind.FOREIGN_GROUP,
    Kind.POD_GROUP,
    Kind.COMPOSITE_GROUP,
    Kind.WORKLOAD,
    Kind.BUDGET,
    Kind.CLAIM,
    Kind.ATTACHMENT,
    Kind.VOLUME,
    Kind.STORAGE_CAPACITY,
    Kind.STORAGE_CLASS,
    Kind.CSI_NODE,
    Kind.CSI_DRIVER,
    Kind.RESOURCE_CLAIM,
    Kind.CLAIM_TEMPLATE,
    Kind.DEVICE_CLASS,
    Kind.RESOURCE_SLICE,
    Kind.PRIORITY_CLASS,
    Kind.NODE,
    Kind.NAMESPACE,
    Kind.PREEMPTION_RECORD,
    Kind.EVENT,
)


class Served(NamedTuple):
    """One resource as this server serves it."""

    api_version: str
    kind: str
    read: Read
    plural: str
    namespaced: bool

    @property
    def resource(self) -> str:
        """Return the name that RBAC uses: `podgroups.scheduling.k8s.io`, `pods`."""
        group = group_of(self.api_version)
        return f"{self.plural}.{group}" if group else self.plural

    def path(self, namespace: str) -> str:
        """Return the URL path of the list; an empty namespace means all namespaces."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        if self.namespaced and namespace:
            return f"{root}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{root}/{self.plural}"


class Discovery(NamedTuple):
    """The resources of a server. `unread` has a reason for each kind without a readable version."""

    server: str
    served: list[Served]
    unread: dict[str, str]

    def serves(self, group: str, kind: str) -> bool:
        """Return whether a kind is served in a version that Podium reads."""
        return any(group_of(served.api_version) == group and served.kind == kind for served in self.served)


class ServerVersion(msgspec.Struct):
    """The answer to /version. A server may emulate an older minor version."""

    gitVersion: str = ""
    minor: str = ""
    emulationMinor: str = ""

    def __str__(self) -> str:
        # In builds of cloud providers the minor is `37+`.
        if self.emulationMinor in ("", self.minor.rstrip("+")):
            return self.gitVersion
        return f"1.{self.emulationMinor} (emulated by {self.gitVersion})"


class _ListedVersion(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    name: str
    versions: list[_ListedVersion] = []


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool
    verbs: list[str] = []


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


_ResourcesByKind = Mapping[tuple[str, str], _Resource]


async def server_version(connection: Connection) -> ServerVersion:
    """Return the version, which every API server shows to all users. Raises PodiumError."""
    return version_of(connection.server, await connection.get("/version"))


def version_of(server: str, body: bytes) -> ServerVersion:
    """Return the version in an answer to GET /version. Raises PodiumError if no API server sent it."""
    version = _decoded(server, "/version", body, ServerVersion)
    if not version.gitVersion:
        raise PodiumError(f"{server}: GET /version: no version returned; is this a Kubernetes API server?")
    return version


async def discover(connection: Connection, reads: Reads = READS) -> Discovery:
    """Return which kinds of `reads` a server serves. Raises PodiumError."""
    # Sequential requests give the same error each time if the server answers neither.
    version = await server_version(connection)
    groups = await _decode(connection, "/apis", _Groups)
    group_names = {group_of(api_version) for api_version, _ in reads}
    served_versions = {group.name: [entry.version for entry in group.versions] for group in groups.groups}
    api_versions = ["v1"] if "" in group_names else []
    api_versions += [
        f"{group}/{group_version}"
        for group, versions in served_versions.items()
        if group in group_names
        for group_version in versions
    ]
    answers = await asyncio.gather(*(_resources(connection, api_version) for api_version in api_versions))
    by_kind = {
        (api_version, resource.kind): resource
        for api_version, resources in zip(api_versions, answers, strict=True)
        for resource in resources
    }
    return Discovery(version.gitVersion, _served(reads, by_kind), _unread(reads, by_kind))


def settle(
    held: Discovery | None, now: Discovery, missed: frozenset[str], answering: frozenset[str]
) -> tuple[Discovery, frozenset[str]]:
    """Return the resources to treat as served after a new discovery, and those that this discovery missed.

    A resource is served as soon as one discovery finds it. It is gone when two consecutive discoveries missed
    it and requests for the resource fail too. With several API servers one may lag, and dropping a resource
    drops its objects. `missed` is from the discovery before, `answering` holds the resources that still
    answer.
    """
    seen = {served.resource for served in now.served}
    absent = [served for served in (held.served if held is not None else ()) if served.resource not in seen]
    kept = [served for served in absent if served.resource not in missed or served.resource in answering]
    unread = {
        kind: why for kind, why in now.unread.items() if kind not in {served.read.kind for served in kept}
    }
    adopted = Discovery(now.server, _in_order([*now.served, *kept]), unread)
    return adopted, frozenset(served.resource for served in absent)


def newest_first(api_version: str) -> tuple[int, int, int]:
    """Return a sort key in Kubernetes' version order: stable, beta, alpha, and the newer first in each."""
    match = _VERSION.fullmatch(api_version.rpartition("/")[2])
    if match is None:
        return (1, 0, 0)
    return (-_STAGES[match[2]], -int(match[1]), -int(match[3] or 0))


def _served(reads: Reads, by_kind: _ResourcesByKind) -> list[Served]:
    best: dict[tuple[str, str], Served] = {}
    for (api_version, kind), read in sorted(reads.items(), key=lambda entry: newest_first(entry[0][0])):
        resource = by_kind.get((api_version, kind))
        if resource is not None and "list" in resource.verbs:
            served = Served(api_version, kind, read, resource.name, resource.namespaced)
            best.setdefault((group_of(api_version), kind), served)
    return _in_order(best.values())


def _in_order(served: Iterable[Served]) -> list[Served]:
    return sorted(served, key=lambda entry: _ORDER.index(entry.read.kind))


def _unread(reads: Reads, by_kind: _ResourcesByKind) -> dict[str, str]:
    """Return the reason for each kind that cannot be read: not served, or served only in other versions."""
    readable: dict[Kind, bool] = {}
    unread: dict[str, str] = {}
    for (api_version, kind), read in reads.items():
        group = group_of(api_version)
        here = sorted(version for version, name in by_kind if name == kind and group_of(version) == group)
        readable[read.kind] = readable.get(read.kind, False) or (api_version, kind) in by_kind
        if here and not any((version, kind) in reads for version in here):
            unread[read.kind] = f"{kind} is served only as {', '.join(here)}, which Podium does not read"
    for read_kind, is_readable in readable.items():
        if not is_readable:
            unread.setdefault(read_kind, NOT_SERVED)
    return unread


async def _resources(connection: Connection, api_version: str) -> list[_Resource]:
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        answer = await _decode(connection, path, _Resources)
    except RefusedError as error:
        if error.code == 404:  # The group was removed after it was listed.
            return []
        raise
    return [resource for resource in answer.resources if "/" not in resource.name]


async def _decode(connection: Connection, path: str, type: type[T]) -> T:  # noqa: A002
    return _decoded(connection.server, path, await connection.get(path), type)


def _decoded(server: str, path: str, body: bytes, type: type[T]) -> T:  # noqa: A002
    try:
        return jsontext.parse(body, type)
    except msgspec.DecodeError as error:
        raise PodiumError(
            f"{server}: GET {path}: unexpected answer; is this a Kubernetes API server? ({error})"
        ) from None
