"""What the pages and lines of one resource mean, given what is known of it: no I/O, any history can be tried.

A list says what there is at one moment; a watch says what happened since a moment. The server forgets
moments: then only another list helps, and what vanished between the two is what the new one does not hold.
While that list is under way the old objects stay where readers see them. What it changes arrives at its end,
in parts if it is much.

resourceVersions are decimal and grow with every write to a resource, so what is not newer than the moment we
know was told before. An object that cannot be decoded keeps its last known state (see Reader.salvage), is
logged once and counted, and the rest goes on.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

import msgspec

from podium.api.meta import ObjectMeta
from podium.errors import PodiumError
from podium.kube.discovery import Served
from podium.kube.listing import ListMeta
from podium.kube.reading import Identity, Keep, Reader, Undecodable, WatchError, decode, event, identify
from podium.state import Readable
from podium.view import Name

Say = Callable[[str, dict[str, Any]], None]

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ExpiredError(PodiumError):
    """The server forgot the moment we know: list again."""


def whole(obj: Readable) -> Readable:
    """Keep all of an object that its read names."""
    return obj


class Sink(Protocol):
    """Where the objects go: the State, as far as it is written to here."""

    def apply(self, obj: Readable) -> None:
        """Add an object, or replace the one of the same identity."""

    def remove(self, obj: Readable) -> None:
        """Take out the object of the same identity."""


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Follower:
    """What is known of one resource, and what each page and line makes of it.

    `version` is the moment up to which everything is known; `listed` says whether the first list is in the
    sink; `needs_list` whether only a list can help now. After an error the request is over: ask anew.
    `undecodable` are the objects that are there and could not be decoded, by name, and
    `undecodable_reads` counts how often one was read.
    """

    def __init__(
        self,
        served: Served,
        sink: Sink,
        say: Say,
        *,
        keep: Keep = whole,
        heirloom: Mapping[Name, Readable] | None = None,
    ) -> None:
        """`keep` gives what is kept of an object: its name, namespace, uid and resourceVersion at least.

        `heirloom` is what another served version of this resource left in the sink.
        """
        self.version = 0
        self.listed = False
        self.needs_list = True
        self._reader = Reader(served, keep)
        self._sink = sink
        self._say = say
        self._known: dict[Name, Readable] = dict(heirloom or {})
        self._coming: dict[Name, Readable] | None = None
        self.undecodable: dict[Name, Undecodable] = {}
        self.undecodable_reads = 0
        self._coming_undecodable: dict[Name, Undecodable] = {}
        # The changes at the end of a list that are not in the sink yet.
        self._arriving: Iterator[None] | None = None
        # By uid, those that the log has named.
        self._named: set[str] = set()

    @property
    def known(self) -> Mapping[Name, Readable]:
        """Give the objects that this resource has in the sink."""
        return self._known

    def clear(self) -> None:
        """Take all objects out of the sink: the API is gone."""
        for obj in self._known.values():
            self._sink.remove(obj)
        self._known.clear()
        self._arriving = None
        self.undecodable.clear()
        self.listed, self.needs_list, self.version = False, True, 0

    def list_query(self) -> dict[str, str]:
        """Begin a list: the parameters of its first page."""
        self._begin_list()
        return {}

    def stream_query(self) -> dict[str, str]:
        """Begin a list that goes on as a watch: the parameters of the one request."""
        self._begin_list()
        return {**_WATCH, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    def watch_query(self) -> dict[str, str]:
        """Give the parameters of a watch from the moment we know."""
        self._coming = None
        return {**_WATCH, "resourceVersion": str(self.version)}

    @property
    def arriving(self) -> bool:
        """Whether a list has ended and not all of it is in the sink: call `arrive` before taking more."""
        return self._arriving is not None

    def arrive(self, most: int | None = None) -> None:
        """Bring at most so many objects at the end of a list into the sink; None for all.

        To add 100,000 pods at once takes a second, in which nothing else runs.
        """
        assert self._arriving is not None
        if sum(1 for _ in islice(self._arriving, most)) != most:
            self._arriving = None

    def take_page(self, body: bytes, most: int | None = None) -> str:
        """Take one page of the list; give the token of the next one, empty when this was the last.

        Of the last one, at most so many objects reach the sink; see `arrive`.

        Raises WatchError for what is not a List.
        """
        assert self._coming is not None
        page: _Page = decode(body, _Page)
        for raw in page.items or ():
            self._come(self._reader.read(raw))
        if not page.metadata.continue_:
            self._arrive(_version(page.metadata.resourceVersion), most)
        return page.metadata.continue_ or ""

    def take_line(self, line: bytes, most: int | None = None) -> None:
        """Take one line of a watch. Of the end of a list only so many objects reach the sink; see `arrive`.

        Raises ExpiredError when the server forgot the moment we know, and WatchError for any other error it
        reports and for what is not a watch event.
        """
        told = event(line)
        match told.type:
            case "ADDED" | "MODIFIED":
                self._take_object(self._reader.read(told.object, whole=line.endswith(b"\n")))
            case "DELETED":
                self._take_deletion(identify(told.object))
            case "BOOKMARK":
                self._take_bookmark(identify(told.object), most)
            case "ERROR":
                self._fail(decode(told.object, _Status))
            case unknown:
                raise WatchError(f"a watch event of type {unknown!r}")

    def expire(self) -> None:
        """Note that the server refused our moment as forgotten."""
        self.needs_list = True

    def _begin_list(self) -> None:
        self._coming, self._coming_undecodable, self._arriving = {}, {}, None

    def _take_object(self, found: Readable | Undecodable) -> None:
        if self._coming is not None:
            self._come(found)
            return
        version = _version(found.metadata.resourceVersion)
        if version <= self.version:
            return
        key = _key(found.metadata)
        obj = self._resolve(found, self.undecodable)
        if obj is None:
            # It was another object of the name, if any, that was known before.
            self._drop(key)
        elif obj is not self._known.get(key):
            self._known[key] = obj
            self._sink.apply(obj)
        self.version = version

    def _take_deletion(self, identity: Identity) -> None:
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
            self._sink.remove(obj)

    def _take_bookmark(self, identity: Identity, most: int | None) -> None:
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

    def _fail(self, status: _Status) -> None:
        text = f"{status.code} {status.reason}: {status.message}"
        if status.code == 410:
            self.needs_list = True
            raise ExpiredError(text)
        raise WatchError(text)

    def _resolve(
        self, found: Readable | Undecodable, undecodable: dict[Name, Undecodable]
    ) -> Readable | None:
        """Return the object to be known after a read, and note whether it could be decoded.

        None where nothing is known of an object that cannot be.
        """
        key = _key(found.metadata)
        if not isinstance(found, Undecodable):
            undecodable.pop(key, None)
            return found
        self.undecodable_reads += 1
        undecodable[key] = found._replace(raw=b"")
        self._name(found)
        known = self._known.get(key)
        if known is not None and known.metadata.uid != found.metadata.uid:
            known = None
        return self._reader.salvage(found, known)

    def _come(self, found: Readable | Undecodable) -> None:
        """Keep one object of a list under way; where it is the one we know, that one."""
        assert self._coming is not None
        key = _key(found.metadata)
        obj = self._resolve(found, self._coming_undecodable)
        if obj is None:
            self._coming.pop(key, None)
            return
        known = self._known.get(key) if self.listed else None
        self._coming[key] = known if known is not None and _same(known, obj) else obj

    def _arrive(self, version: int, most: int | None) -> None:
        """End a list: what it does not hold has vanished, what it holds is so."""
        assert self._coming is not None
        coming, self._coming = self._coming, None
        self.undecodable = self._coming_undecodable
        self._named &= {_uid(each.metadata) for each in self.undecodable.values()}
        self._arriving = self._changes(coming, version)
        self.arrive(most)

    def _changes(self, coming: Mapping[Name, Readable], version: int) -> Iterator[None]:
        """Bring the sink to the end of a list, one object a step."""
        for name, obj in coming.items():
            known = self._known.get(name)
            if known is not obj:
                if known is not None and not self.listed:
                    # An object that another version left may be of another identity.
                    self._sink.remove(known)
                self._known[name] = obj
                self._sink.apply(obj)
            yield
        # At the end: a pod that is gone meanwhile holds its room, so no reader sees more room than there is.
        for name in list(self._known) if len(self._known) > len(coming) else ():
            if name not in coming:
                self._drop(name)
            yield
        self.version = version
        self.listed, self.needs_list = True, False

    def _name(self, found: Undecodable) -> None:
        """Name an object in the log, once until it is gone."""
        identity = found.metadata
        uid = _uid(identity)
        if uid in self._named:
            return
        self._named.add(uid)
        self._say(
            "object not decodable",
            {
                "resource": self._reader.served.resource,
                "namespace": identity.namespace or "",
                "name": identity.name or "",
                "uid": identity.uid or "",
                "error": found.why,
            },
        )


_WATCH = {"watch": "1", "allowWatchBookmarks": "true"}


def _version(text: str | None) -> int:
    if not text or not text.isdecimal():
        raise WatchError(f"resourceVersion {text!r} is no decimal number")
    return int(text)


def _key(metadata: ObjectMeta | Identity) -> Name:
    return (metadata.namespace or "", metadata.name or "")


def _uid(identity: Identity) -> str:
    return identity.uid or "/".join(_key(identity))


def _same(one: Readable, other: Readable) -> bool:
    """Whether two reads in one version are of one object at one moment."""
    return (one.metadata.uid, one.metadata.resourceVersion) == (
        other.metadata.uid,
        other.metadata.resourceVersion,
    )
