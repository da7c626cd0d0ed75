"""The reflector's state machine: apply pages and watch lines of one resource to the state, without I/O.

Tests can therefore try any history. A list has the objects at one version; a watch has the changes since a
version. The server compacts old versions. Then only a new list helps, and the objects missing from it were
deleted meanwhile. While the list is read, readers keep the old objects. Its changes are applied at its end,
in batches if they are many.

resourceVersions are decimal and grow with every write to a resource, so an event that is not newer than the
known version was applied before. An undecodable object keeps its last known state (see Reader.recover), is
logged once and counted, and the other objects continue.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from podium.api.meta import ObjectMeta
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState, Readable
from podium.errors import PodiumError
from podium.kube.connection import Status
from podium.kube.discovery import Served
from podium.kube.listing import ListMeta
from podium.kube.reading import Keep, ObjectIdentity, Reader, Undecodable, WatchError, decode, event, identify

EventLogger = Callable[[str, dict[str, Any]], None]

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ExpiredError(PodiumError):
    """The server compacted the known version: list again."""


def whole(obj: Readable) -> Readable:
    """Return the object unchanged: the transform that keeps all fields of a read."""
    return obj


class _ListPage(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Reflector:
    """The known objects of one resource, and the effect of each page and line on them.

    `version` is the resourceVersion up to which everything is known. `listed` says whether the first list is
    in the state, `needs_list` whether only a list can help now. After an error the request is over: send a
    new one. `undecodable` holds the objects that exist and could not be decoded, by name; `undecodable_reads`
    counts their reads.
    """

    def __init__(
        self,
        served: Served,
        state: ClusterState,
        log_event: EventLogger,
        *,
        transform: Keep = whole,
        inherited: Mapping[Name, Readable] | None = None,
    ) -> None:
        """`transform` returns the kept part of an object: at least name, namespace, uid and resourceVersion.

        `inherited` holds the objects that another served version of this resource left in the state.
        """
        self.version = 0
        self.listed = False
        self.needs_list = True
        self._reader = Reader(served, transform)
        self._state = state
        self._log_event = log_event
        self._known: dict[Name, Readable] = dict(inherited or {})
        self._coming: dict[Name, Readable] | None = None
        self.undecodable: dict[Name, Undecodable] = {}
        self.undecodable_reads = 0
        self._coming_undecodable: dict[Name, Undecodable] = {}
        # The changes at the end of a list that the state does not have yet.
        self._arriving: Iterator[None] | None = None
        # UIDs of the undecodable objects in the log.
        self._named: set[str] = set()

    @property
    def known(self) -> Mapping[Name, Readable]:
        """Return the objects of this resource in the state."""
        return self._known

    def clear(self) -> None:
        """Remove all objects from the state, because the API is gone."""
        for obj in self._known.values():
            self._state.remove(obj)
        self._known.clear()
        self._arriving = None
        self.undecodable.clear()
        self.listed, self.needs_list, self.version = False, True, 0

    def list_query(self) -> dict[str, str]:
        """Begin a list, and return the parameters of its first page."""
        self._begin_list()
        return {}

    def stream_query(self) -> dict[str, str]:
        """Begin a streaming list that continues as a watch, and return the parameters of the request."""
        self._begin_list()
        return {**_WATCH, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    def watch_query(self) -> dict[str, str]:
        """Return the parameters of a watch from the known version."""
        self._coming = None
        return {**_WATCH, "resourceVersion": str(self.version)}

    @property
    def arriving(self) -> bool:
        """Return whether a list has ended and part of it is not in the state yet: call `arrive` first."""
        return self._arriving is not None

    def arrive(self, most: int | None = None) -> None:
        """Apply at most `most` objects of an ended list to the state; None applies all.

        To add 100,000 pods at once would block the event loop for a second.
        """
        assert self._arriving is not None
        if sum(1 for _ in islice(self._arriving, most)) != most:
            self._arriving = None

    def take_page(self, body: bytes, most: int | None = None) -> str:
        """Apply one page of the list, and return the token of the next page, empty after the last.

        At most `most` objects of the last page reach the state; see `arrive`.

        Raises WatchError for an answer that is not a List.
        """
        assert self._coming is not None
        page: _ListPage = decode(body, _ListPage)
        for raw in page.items or ():
            self._come(self._reader.read(raw))
        if not page.metadata.continue_:
            self._arrive(_version(page.metadata.resourceVersion), most)
        return page.metadata.continue_ or ""

    def take_line(self, line: bytes, most: int | None = None) -> None:
        """Apply one line of a watch. If it ends a list, at most `most` objects reach the state; see `arrive`.

        Raises ExpiredError when the server compacted the known version. Raises WatchError for any other
        reported error and for a line that is not a watch event.
        """
        change = event(line)
        match change.type:
            case "ADDED" | "MODIFIED":
                self._take_object(self._reader.read(change.object, whole=line.endswith(b"\n")))
            case "DELETED":
                self._take_deletion(identify(change.object))
            case "BOOKMARK":
                self._take_bookmark(identify(change.object), most)
            case "ERROR":
                self._fail(decode(change.object, Status))
            case unknown:
                raise WatchError(f"a watch event of type {unknown!r}")

    def expire(self) -> None:
        """Record that the server refused the known version as expired."""
        self.needs_list = True

    def _begin_list(self) -> None:
        self._coming, self._coming_undecodable, self._arriving = {}, {}, None

    def _take_object(self, received: Readable | Undecodable) -> None:
        if self._coming is not None:
            self._come(received)
            return
        version = _version(received.metadata.resourceVersion)
        if version <= self.version:
            return
        key = _key(received.metadata)
        obj = self._resolve(received, self.undecodable)
        if obj is None:
            # The known object of this name, if any, was another object.
            self._drop(key)
        elif obj is not self._known.get(key):
            self._known[key] = obj
            self._state.apply(obj)
        self.version = version

    def _take_deletion(self, identity: ObjectIdentity) -> None:
        self._named.discard(_uid(identity))
        key = _key(identity)
        if self._coming is not None:
            self._coming.pop(key, None)
            self._coming_undecodable.pop(key, None)
            return
        version = _version(identity.resourceVersion)
        if version > self.version:
            self.undecodable.pop(key, None)
            self._drop(key)
            self.version = version

    def _drop(self, key: Name) -> None:
        obj = self._known.pop(key, None)
        if obj is not None:
            self._state.remove(obj)

    def _take_bookmark(self, identity: ObjectIdentity, most: int | None) -> None:
        version = _version(identity.resourceVersion)
        if self._coming is not None:
            if (identity.annotations or {}).get(_INITIAL_EVENTS_END) == "true":
                self._arrive(version, most)
        elif version < self.version:
            self.needs_list = True
            raise ExpiredError(
                f"the server is at {version}, behind the {self.version} we know: restored from a backup?"
            )
        else:
            self.version = version

    def _fail(self, status: Status) -> None:
        text = f"{status.code} {status.reason}: {status.message}"
        if status.code == 410:
            self.needs_list = True
            raise ExpiredError(text)
        raise WatchError(text)

    def _resolve(
        self, received: Readable | Undecodable, undecodable: dict[Name, Undecodable]
    ) -> Readable | None:
        """Return the object to store after a read, and record whether it could be decoded.

        None if the object is undecodable and nothing is known about it.
        """
        key = _key(received.metadata)
        if not isinstance(received, Undecodable):
            undecodable.pop(key, None)
            return received
        self.undecodable_reads += 1
        undecodable[key] = received._replace(raw=b"")
        self._name(received)
        known = self._known.get(key)
        if known is not None and known.metadata.uid != received.metadata.uid:
            known = None
        return self._reader.recover(received, known)

    def _come(self, received: Readable | Undecodable) -> None:
        """Add one object to the list in progress. An unchanged object keeps the known instance."""
        assert self._coming is not None
        key = _key(received.metadata)
        obj = self._resolve(received, self._coming_undecodable)
        if obj is None:
            self._coming.pop(key, None)
            return
        known = self._known.get(key) if self.listed else None
        self._coming[key] = known if known is not None and _same(known, obj) else obj

    def _arrive(self, version: int, most: int | None) -> None:
        """End a list: prepare the changes from the known objects to those of the list."""
        assert self._coming is not None
        coming, self._coming = self._coming, None
        self.undecodable = self._coming_undecodable
        self._named &= {_uid(entry.metadata) for entry in self.undecodable.values()}
        self._arriving = self._changes(coming, version)
        self.arrive(most)

    def _changes(self, coming: Mapping[Name, Readable], version: int) -> Iterator[None]:
        """Apply a list to the state, one object a step."""
        for name, obj in coming.items():
            known = self._known.get(name)
            if known is not obj:
                if known is not None and not self.listed:
                    # An object left by another version may have another identity.
                    self._state.remove(known)
                self._known[name] = obj
                self._state.apply(obj)
            yield
        # Deletions come last: until then a deleted pod still counts, so no reader sees more free resources
        # than exist.
        for name in list(self._known) if len(self._known) > len(coming) else ():
            if name not in coming:
                self._drop(name)
            yield
        self.version = version
        self.listed, self.needs_list = True, False

    def _name(self, undecodable: Undecodable) -> None:
        """Log an undecodable object once until it is gone."""
        identity = undecodable.metadata
        uid = _uid(identity)
        if uid in self._named:
            return
        self._named.add(uid)
        self._log_event(
            "object not decodable",
            {
                "resource": self._reader.served.resource,
                "namespace": identity.namespace or "",
                "name": identity.name or "",
                "uid": identity.uid or "",
                "error": undecodable.why,
            },
        )


_WATCH = {"watch": "1", "allowWatchBookmarks": "true"}


def list_version(body: bytes) -> int:
    """Return the resourceVersion of a List. Raises WatchError for an answer that is none."""
    return _version(decode(body, _ListPage).metadata.resourceVersion)


def _version(text: str | None) -> int:
    if not text or not text.isdecimal():
        raise WatchError(f"resourceVersion {text!r} is not a decimal number")
    return int(text)


def _key(metadata: ObjectMeta | ObjectIdentity) -> Name:
    return (metadata.namespace or "", metadata.name or "")


def _uid(identity: ObjectIdentity) -> str:
    return identity.uid or "/".join(_key(identity))


def _same(first: Readable, second: Readable) -> bool:
    """Return whether two reads of one name are the same object in the same version."""
    return (first.metadata.uid, first.metadata.resourceVersion) == (
        second.metadata.uid,
        second.metadata.resourceVersion,
    )
