"""Decode the objects of pages and watch events; an undecodable object is a value, never an exception.

An object may be too long, nested too deeply, invalid Unicode or of an unexpected type. Readers of the cluster
must not stop at such an object, and must not treat it as absent: an undecodable pod still uses its node.
"""

import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from podium import jsontext
from podium.api.core import Pod
from podium.api.reads import Kind
from podium.cluster.state import Readable
from podium.documents import jsondoc
from podium.errors import PodiumError
from podium.kube import lenient
from podium.kube.connection import LONGEST_LINE
from podium.kube.discovery import Served
from podium.text import cut, one_line

Keep = Callable[[Readable], Readable]

# kubectl apply's copy of the whole object: half of a group's memory, and Podium does not read it.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The limit of a reason in bytes: it may quote a key that a tenant chose.
_LONGEST_WHY = 300
# The exceptions of msgspec for text that a tenant controls.
_REFUSALS = (msgspec.DecodeError, UnicodeError)
# A pair of surrogates, or one alone.
_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})"
)
_ESCAPED_BACKSLASH = rb"\\"
# The placeholder for it: JSON text contains no NUL.
_MARK = b"\0\0"


class WatchError(PodiumError):
    """A watch failed for another reason than an expired version: it may continue from the known version."""


class ObjectIdentity(msgspec.Struct):
    """The part of an object's metadata that identifies the object and its version."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resourceVersion: str = ""
    annotations: dict[str, str] | None = None


class _Thing(msgspec.Struct):
    metadata: ObjectIdentity = msgspec.field(default_factory=ObjectIdentity)


class Undecodable(NamedTuple):
    """An object that cannot be decoded, and why; `raw` is its text, empty if the text is incomplete."""

    metadata: ObjectIdentity
    why: str
    raw: bytes = b""


class NamedUndecodable(msgspec.Struct, frozen=True):
    """An undecodable object, and why, as a process shows it at /undecodable."""

    resource: str
    namespace: str
    name: str
    error: str


class WatchEvent(msgspec.Struct):
    """A line of a watch; if the line was too long, `object` holds the metadata only."""

    type: str
    object: msgspec.Raw


_EVENT = jsontext.Decoder(WatchEvent)
_THING = jsontext.Decoder(_Thing)


class Reader:
    """Converts the bytes of one served kind into neutral objects."""

    def __init__(self, served: Served, transform: Keep) -> None:
        self.served = served
        self._transform = transform
        self._type = _named(served)
        self._decoder = jsontext.Decoder(self._type)

    def read(self, raw: bytes | msgspec.Raw, *, whole: bool = True) -> Readable | Undecodable:
        """Return one decoded object, reduced by `transform`. Raises WatchError without an identity."""
        if not whole:
            return Undecodable(identify(raw), f"more than {LONGEST_LINE >> 20} MiB of JSON")
        try:
            return self._neutral(_decode_repaired(raw, self._decoder))
        except Exception as error:  # noqa: BLE001 - any failure concerns this object only
            return Undecodable(identify(raw), cut(one_line(str(error)), _LONGEST_WHY), bytes(raw))

    def recover(self, undecodable: Undecodable, known: Readable | None) -> Readable | None:
        """Return the object to use instead of an undecodable one; `known` is its last known state.

        For most kinds this is `known`. For a pod it is the decodable part, with `known` for the other fields,
        so that the pod uses its node from the moment of its binding. A pod that was never decodable and has
        no node uses nothing, and must not be scheduled by a part of its spec.
        """
        if self.served.read.kind is not Kind.POD or not undecodable.raw:
            return known
        try:
            spare = None if known is None else msgspec.json.encode(known)
            pod: Pod = lenient.decode(repair(undecodable.raw), self._type, spare)
            return self._neutral(pod) if known is not None or pod.spec.nodeName else None
        except Exception:  # noqa: BLE001 - as above: the last known state remains
            return known

    def _neutral(self, value: Any) -> Readable:
        metadata = value.metadata
        # One shared string for all objects saves memory.
        value.apiVersion, value.kind = self.served.api_version, self.served.kind
        if metadata.namespace is not None:
            metadata.namespace = sys.intern(metadata.namespace)
        if metadata.annotations is not None:
            metadata.annotations.pop(_LAST_APPLIED, None)
            metadata.annotations = metadata.annotations or None
        neutral: Readable = self.served.read.neutral(value)
        return self._transform(neutral)


def decode(raw: Any, type: Any) -> Any:  # noqa: A002
    """Return the decoded answer of an API server. Raises WatchError."""
    return _decode_answer(raw, jsontext.decoder(type))


def event(line: bytes) -> WatchEvent:
    r"""Return a decoded watch line; one without `\n` is the beginning of a longer one. Raises WatchError."""
    if not line.endswith(b"\n"):
        return _begun(line)
    watch_event: WatchEvent = _decode_answer(line, _EVENT)
    return watch_event


def identify(raw: bytes | msgspec.Raw) -> ObjectIdentity:
    """Return the identity of an object, decoding as little as possible. Raises WatchError."""
    try:
        thing: _Thing = _decode_repaired(raw, _THING)
    except _REFUSALS:
        try:
            thing = lenient.decode(repair(bytes(raw)), _Thing)
        except msgspec.DecodeError as error:
            raise WatchError(f"an object without metadata ({error})") from None
    return thing.metadata


def _decode_answer(raw: Any, decoder: jsontext.Decoder[Any]) -> Any:
    try:
        return _decode_repaired(raw, decoder)
    except _REFUSALS as error:
        raise WatchError(f"unexpected answer of the API server ({error})") from None


def _decode_repaired(raw: bytes | msgspec.Raw, decoder: jsontext.Decoder[Any]) -> Any:
    """Return the decoded value; repair the text if msgspec refuses its encoding."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        raise
    except _REFUSALS:
        return decoder.decode(repair(bytes(raw)))


def repair(text: bytes) -> bytes:
    """Return the text in valid Unicode: what is none becomes U+FFFD, as Go's encoder writes it."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
    marked = text.replace(_ESCAPED_BACKSLASH, _MARK)
    whole = _SURROGATE.sub(lambda match: match[0] if match[1] else rb"\ufffd", marked)
    return whole.replace(_MARK, _ESCAPED_BACKSLASH)


def _begun(line: bytes) -> WatchEvent:
    """Return the event in the beginning of a line; API servers write the metadata before all long fields."""
    text = memoryview(line)
    try:
        kind = jsontext.parse(_value(text, "type"), str)
        metadata = bytes(_value(text, "object", "metadata"))
    except (*_REFUSALS, jsondoc.JsonError):
        raise WatchError(f"a line of more than {LONGEST_LINE >> 20} MiB without metadata") from None
    return WatchEvent(kind, msgspec.Raw(b'{"metadata":' + metadata + b"}"))


def _value(text: memoryview, *path: str) -> memoryview:
    """Return the text of a member, ignoring what follows it. Raises JsonError."""
    place = jsondoc.Walk(text).find(0, path)
    key = msgspec.json.encode(path[-1])
    if text[place : place + len(key)] != key:
        raise jsondoc.JsonError(f"no {path[-1]}", place)
    colon = jsondoc.skip_space(text, place + len(key))
    start = jsondoc.skip_space(text, colon + 1)
    return text[start : jsondoc.end_of_value(text, start)]


def _named(served: Served) -> type[msgspec.Struct]:
    """Return a type in which apiVersion and kind may be missing, as in the items of a typed List."""
    read = served.read.type
    names = {"apiVersion": served.api_version, "kind": served.kind}
    required = [field.name for field in msgspec.structs.fields(read) if field.required]
    if not required:
        return read
    return msgspec.defstruct(
        served.kind, [(name, str, names[name]) for name in required], bases=(read,), gc=False
    )
