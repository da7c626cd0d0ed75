"""Read the objects in pages and watch events; what cannot be decoded is a value here, never an exception.

An object may be too long, too deep, no Unicode or of a type that no read expects. Readers of the cluster must
not stop at it, and must not take it for absent: a pod that cannot be decoded occupies its node all the same.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.reads import Kind
from podium.documents import jsondoc
from podium.errors import PodiumError
from podium.kube import lenient
from podium.kube.discovery import Served
from podium.kube.lines import LONGEST_LINE
from podium.kube.sanitize import sanitize
from podium.state import Readable
from podium.wording import cut, one_line

Keep = Callable[[Readable], Readable]

# kubectl apply's copy of the whole object: half of what a group would cost in memory, and nobody's to read.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Of the reason, in bytes; it may quote a key that a tenant chose.
_LONGEST_WHY = 300
# What msgspec raises for a text that a tenant has written.
_REFUSALS = (msgspec.DecodeError, RecursionError, UnicodeError)


class WatchError(PodiumError):
    """A watch went wrong in another way: it may go on from the moment we know."""


class Identity(msgspec.Struct):
    """As much of an object's metadata as says which one it is, at which moment."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resourceVersion: str = ""
    annotations: dict[str, str] | None = None


class _Thing(msgspec.Struct):
    metadata: Identity = msgspec.field(default_factory=Identity)


class Undecodable(NamedTuple):
    """An object that its read cannot decode, and why; `raw` is its text, empty if not all of it is there."""

    metadata: Identity
    why: str
    raw: bytes = b""


class Event(msgspec.Struct):
    """A line of a watch; where the line was too long, `object` has its metadata alone."""

    type: str
    object: msgspec.Raw


_EVENT = msgspec.json.Decoder(Event)
_THING = msgspec.json.Decoder(_Thing)


class Reader:
    """Turns the bytes of one served kind into neutral objects."""

    def __init__(self, served: Served, keep: Keep) -> None:
        self.served = served
        self._keep = keep
        self._type = _named(served)
        self._decoder = msgspec.json.Decoder(self._type)

    def read(self, raw: bytes | msgspec.Raw, *, whole: bool = True) -> Readable | Undecodable:
        """Decode one object, as small as it can be kept. Raises WatchError for what has no identity."""
        if not whole:
            return Undecodable(identify(raw), f"more than {LONGEST_LINE >> 20} MiB of JSON")
        try:
            return self._neutral(_mended(raw, self._decoder))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this object's fault and no other's
            return Undecodable(identify(raw), cut(one_line(str(error)), _LONGEST_WHY), bytes(raw))

    def salvage(self, found: Undecodable, known: Readable | None) -> Readable | None:
        """Return what stands for an object that cannot be decoded; `known` is how it was known before.

        That is its last known state. Of a pod it is what can be decoded now, so that it occupies its node
        from the moment that it has one, and `known` gives the fields that cannot be. A pod that was never
        decoded and has no node occupies nothing, and is not to be scheduled by half of what it says.
        """
        if self.served.read.kind is not Kind.POD or not found.raw:
            return known
        try:
            spare = None if known is None else msgspec.json.encode(known)
            pod: Pod = lenient.decode(sanitize(found.raw), self._type, spare)
            return self._neutral(pod) if known is not None or pod.spec.nodeName else None
        except Exception:  # noqa: BLE001 - as above: nothing can be decoded, so what was known is all
            return known

    def _neutral(self, value: Any) -> Readable:
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


def decode(raw: Any, type: Any) -> Any:  # noqa: A002
    """Decode what an API server answers. Raises WatchError."""
    return _decode(raw, msgspec.json.Decoder(type))


def event(line: bytes) -> Event:
    r"""Decode one line of a watch; one without `\n` is the beginning of a longer one. Raises WatchError."""
    if not line.endswith(b"\n"):
        return _begun(line)
    found: Event = _decode(line, _EVENT)
    return found


def identify(raw: bytes | msgspec.Raw) -> Identity:
    """Read as much of an object as says which one it is. Raises WatchError."""
    try:
        thing: _Thing = _mended(raw, _THING)
    except _REFUSALS:
        try:
            thing = lenient.decode(sanitize(bytes(raw)), _Thing)
        except msgspec.DecodeError as error:
            raise WatchError(f"an object without metadata ({error})") from None
    return thing.metadata


def _decode(raw: Any, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return _mended(raw, decoder)
    except _REFUSALS as error:
        raise WatchError(f"not what an API server answers ({error})") from None


def _mended(raw: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode, and once more sanitized what is refused for its nesting or its encoding."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        raise
    except _REFUSALS:
        return decoder.decode(sanitize(bytes(raw)))


def _begun(line: bytes) -> Event:
    """Read the metadata out of the beginning of a line: API servers write them before all that is long."""
    text = memoryview(line)
    try:
        kind = msgspec.json.decode(_value(text, "type"), type=str)
        metadata = bytes(_value(text, "object", "metadata"))
    except (*_REFUSALS, jsondoc.JsonError):
        raise WatchError(f"a line of more than {LONGEST_LINE >> 20} MiB without metadata") from None
    return Event(kind, msgspec.Raw(b'{"metadata":' + metadata + b"}"))


def _value(text: memoryview, *path: str) -> memoryview:
    """Give the text of a member, whatever follows it. Raises JsonError."""
    place = jsondoc.Walk(text).find(0, path)
    key = msgspec.json.encode(path[-1])
    if text[place : place + len(key)] != key:
        raise jsondoc.JsonError(f"no {path[-1]}", place)
    colon = jsondoc.skip_space(text, place + len(key))
    start = jsondoc.skip_space(text, colon + 1)
    return text[start : jsondoc.end_of_value(text, start)]


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
