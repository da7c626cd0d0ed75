"""What the pages and lines of one resource mean, given what is known of it: no I/O, any history can be tried.

A list says what there is at one moment; a watch says what happened since a moment. The server forgets
moments: then only another list helps, and what vanished between the two is what the new one does not hold.
While that list is under way the old objects stay where readers see them; its end is one change.

resourceVersions are decimal and grow with every write to a resource, so what is not newer than the moment we
know was told before. State holds exactly the objects that can be read: one that cannot (a field of a foreign
type, say) is left out and said once, and the rest goes on.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from podium.errors import PodiumError
from podium.kube.discovery import Served
from podium.kube.listing import PAGE, ListMeta
from podium.state import Readable
from podium.view import Name

Say = Callable[[str, dict[str, Any]], None]
Keep = Callable[[Readable], Readable]

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# kubectl apply's copy of the whole object: half of what a group would cost in memory, and nobody's to read.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ExpiredError(PodiumError):
    """The server forgot the moment we know: list again."""


class WatchError(PodiumError):
    """A watch went wrong in another way: it may go on from the moment we know."""


def whole(obj: Readable) -> Readable:
    """Keep all of an object that its read names."""
    return obj


class Sink(Protocol):
    """Where the objects go: the State, as far as it is written to here."""

    def apply(self, obj: Readable) -> None:
        """Add an object, or replace the one of the same identity."""

    def remove(self, obj: Readable) -> None:
        """Take out the object of the same identity."""


class _Identity(msgspec.Struct):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resourceVersion: str = ""
    annotations: dict[str, str] | None = None

    @property
    def key(self) -> Name:
        return (self.namespace or "", self.name or "")


class _Thing(msgspec.Struct):
    metadata: _Identity = msgspec.field(default_factory=_Identity)


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Unreadable(NamedTuple):
    """An object that its read cannot decode, and why."""

    identity: _Identity
    why: str


class Reader:
    """How the bytes of one served kind become neutral objects."""

    def __init__(self, served: Served, keep: Keep) -> None:
        self.served = served
        self._keep = keep
        self._decoder = msgspec.json.Decoder(_named(served))

    def read(self, raw: bytes | msgspec.Raw) -> Readable | Unreadable:
        """Decode one object, as small as it can be kept."""
        try:
            value: Any = self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            return Unreadable(identify(raw), str(error))
        metadata = value.metadata
        # One text for all objects instead of one each.
        value.apiVersion, value.kind = self.served.api_version, self.served.kind
        if metadata.namespace is not None:
            metadata.namespace = sys.intern(metadata.namespace)
        if metadata.annotations is not None:
            metadata.annotations.pop(_LAST_APPLIED, None)
            metadata.annotations = metadata.annotations or None
        neutral: Readable = self.served.read.neutral(value)
        return self._keep(neutral)


def _named(served: Served) -> type[msgspec.Struct]:
    """Give the type of an object whose apiVersion and kind may be left out, as in a typed List."""
    read = served.read.type
    names = {"apiVersion": served.api_version, "kind": served.kind}
    required = [field.name for field in msgspec.structs.fields(read) if field.required]
    if not required:
        return read
    return msgspec.defstruct(
        served.kind, [(name, str, names[name]) for name in required], bases=(read,), gc=False
    )


class Follower:
    """What is known of one resource, and what each page and line makes of it.

    `version` is the moment up to which everything is known; `listed` says whether the first list is in the
    sink; `needs_list` whether only a list can help now. After an error the request is over: ask anew.
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
        self._unreadable: set[str] = set()

    @property
    def known(self) -> Mapping[Name, Readable]:
        """Give the objects that this resource has in the sink."""
        return self._known

    def clear(self) -> None:
        """Take all objects out of the sink: the API is gone."""
        for obj in self._known.values():
            self._sink.remove(obj)
        self._known.clear()
        self.listed, self.needs_list, self.version = False, True, 0

    def list_query(self) -> dict[str, str]:
        """Begin a list: the parameters of its first page."""
        self._coming = {}
        return {"limit": str(PAGE)}

    def stream_query(self) -> dict[str, str]:
        """Begin a list that goes on as a watch: the parameters of the one request."""
        self._coming = {}
        return {**_WATCH, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    def watch_query(self) -> dict[str, str]:
        """Give the parameters of a watch from the moment we know."""
        self._coming = None
        return {**_WATCH, "resourceVersion": str(self.version)}

    def take_page(self, body: bytes) -> str:
        """Take one page of the list; give the token of the next one, empty when this was the last.

        Raises WatchError for what is not a List.
        """
        assert self._coming is not None
        page = _decode(body, _Page)
        for raw in page.items or ():
            found = self._reader.read(raw)
            if isinstance(found, Unreadable):
                self._lament(found)
            else:
                self._come(found)
        if not page.metadata.continue_:
            self._arrive(_version(page.metadata.resourceVersion))
        return page.metadata.continue_ or ""

    def take_line(self, line: bytes) -> None:
        """Take one line of a watch.

        Raises ExpiredError when the server forgot the moment we know, and WatchError for any other error it
        reports and for what is not a watch event.
        """
        event = _decode(line, _Line)
        match event.type:
            case "ADDED" | "MODIFIED":
                self._take_object(event.object)
            case "DELETED":
                self._take_deletion(identify(event.object))
            case "BOOKMARK":
                self._take_bookmark(identify(event.object))
            case "ERROR":
                self._fail(_decode(event.object, _Status))
            case unknown:
                raise WatchError(f"a watch event of type {unknown!r}")

    def expire(self) -> None:
        """Note that the server refused our moment as forgotten."""
        self.needs_list = True

    def _take_object(self, raw: msgspec.Raw) -> None:
        found = self._reader.read(raw)
        if isinstance(found, Unreadable):
            # Whatever it was before, it is not that any more.
            self._lament(found)
            self._take_deletion(found.identity, is_gone=False)
            return
        if self._coming is not None:
            self._come(found)
            return
        version = _version(found.metadata.resourceVersion)
        if version > self.version:
            self._known[_key(found)] = found
            self._sink.apply(found)
            self.version = version

    def _take_deletion(self, identity: _Identity, *, is_gone: bool = True) -> None:
        if is_gone:
            self._unreadable.discard(identity.uid or "")
        if self._coming is not None:
            self._coming.pop(identity.key, None)
            return
        version = _version(identity.resourceVersion)
        if version > self.version:
            obj = self._known.pop(identity.key, None)
            if obj is not None:
                self._sink.remove(obj)
            self.version = version

    def _take_bookmark(self, identity: _Identity) -> None:
        version = _version(identity.resourceVersion)
        if self._coming is not None:
            if (identity.annotations or {}).get(_INITIAL_EVENTS_END) == "true":
                self._arrive(version)
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

    def _come(self, found: Readable) -> None:
        """Keep one object of a list under way; where it is the one we know, that one."""
        assert self._coming is not None
        known = self._known.get(_key(found)) if self.listed else None
        self._coming[_key(found)] = known if known is not None and _same(known, found) else found

    def _arrive(self, version: int) -> None:
        """End a list: what it does not hold has vanished, what it holds is so."""
        assert self._coming is not None
        before, self._known, self._coming = self._known, self._coming, None
        for name, obj in before.items():
            # What another version left is of another identity, perhaps, so it goes in any case.
            if name not in self._known or not self.listed:
                self._sink.remove(obj)
        for name, obj in self._known.items():
            if before.get(name) is not obj:
                self._sink.apply(obj)
        self.version = version
        self.listed, self.needs_list = True, False

    def _lament(self, found: Unreadable) -> None:
        identity = found.identity
        uid = identity.uid or "/".join(identity.key)
        if uid not in self._unreadable:
            self._unreadable.add(uid)
            self._say(
                "object not readable",
                {
                    "resource": self._reader.served.resource,
                    "namespace": identity.namespace or "",
                    "name": identity.name or "",
                    "uid": identity.uid or "",
                    "error": found.why,
                },
            )


_WATCH = {"watch": "1", "allowWatchBookmarks": "true"}


def identify(raw: bytes | msgspec.Raw) -> _Identity:
    """Read as much of an object as says which one it is. Raises WatchError."""
    thing: _Thing = _decode(raw, _Thing)
    return thing.metadata


def _decode(raw: Any, type: Any) -> Any:  # noqa: A002
    try:
        return msgspec.json.decode(raw, type=type)
    except msgspec.DecodeError as error:
        raise WatchError(f"not what an API server answers ({error})") from None


def _version(text: str | None) -> int:
    if not text or not text.isdecimal():
        raise WatchError(f"resourceVersion {text!r} is no decimal number")
    return int(text)


def _key(obj: Readable) -> Name:
    return (obj.metadata.namespace or "", obj.metadata.name or "")


def _same(one: Readable, other: Readable) -> bool:
    """Whether two reads in one version are of one object at one moment."""
    return (one.metadata.uid, one.metadata.resourceVersion) == (
        other.metadata.uid,
        other.metadata.resourceVersion,
    )
