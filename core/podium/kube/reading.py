"""Decode the objects of pages and watch events; an undecodable object is a value, never an exception.

An object may be too long, nested too deeply, invalid Unicode or of an unexpected type. Readers of the cluster
must not stop at such an object, and must not treat it as absent: an undecodable pod still uses its node.
"""

import re
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec

from podium import jsontext
from podium.api.core import Pod
from podium.api.reads import Kind
from podium.cluster.state import Readable
from podium.documents import jsondoc
from podium.errors import PodiumError
from podium.kube.connection import LONGEST_LINE, Connection, TooLargeError
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
            pod: Pod = decode_parts(repair(undecodable.raw), self._type, spare)
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
            thing = decode_parts(repair(bytes(raw)), _Thing)
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


# Lists are read page by page. 500 objects of 7 MB would be one answer of 3.6 GB, so the limit of the next
# page follows from the bytes of the last. If an answer is still too long, it is abandoned and requested again
# with fewer objects. One object always fits (see LONGEST_ANSWER). A continue token is a position in the list,
# so the limit may change between pages.

# The page size of client-go.
MOST_OBJECTS = 500
# The target size of a page: the cost of a request is small, and so is its share of the process' memory.
PAGE_BYTES = 8 << 20
# The divisor of the limit after a page that was too long.
_FEWER = 8


class Pager:
    """Requests the pages of one list; `query` is part of every request."""

    def __init__(
        self, connection: Connection, path: str, query: dict[str, str], most: int | None = None
    ) -> None:
        """`most` is the maximum number of objects in a page; None means MOST_OBJECTS."""
        self._connection = connection
        self._path = path
        self._query = query
        self._most = self.limit = MOST_OBJECTS if most is None else most

    async def page(self, token: str = "") -> bytes:
        """Return the body of the page at a continue token. Raises PodiumError."""
        query = {**self._query, "continue": token} if token else self._query
        while True:
            try:
                body = await self._connection.get(self._path, **query, limit=str(self.limit))
            except TooLargeError:
                if self.limit == 1:
                    raise
                self.limit = max(1, self.limit // _FEWER)
                continue
            self._adapt(len(body))
            return body

    def _adapt(self, size: int) -> None:
        """Set the limit of the next page to what fits PAGE_BYTES, and at most twice the limit before."""
        fits = self.limit * PAGE_BYTES // max(size, 1)
        self.limit = max(1, min(fits, 2 * self.limit, self._most))


# Lenient decoding: one invalid field leaves the others readable.
#
# A strict decoder refuses a whole pod for one field of a wrong type. A user who may create such a pod could
# then hide the resources that the pod uses on its node. Here each struct, list and mapping is decoded part by
# part. A part that cannot be decoded keeps its value from the last successful decoding, or else its default.


_Raw = msgspec.Raw | bytes


class _BrokenError(Exception):
    """A value of which no part can be decoded."""


def decode_parts(raw: _Raw, target: Any, spare: _Raw | None = None) -> Any:
    """Return the decodable parts of a JSON value as a type; `spare` is an earlier version of the value.

    Raises msgspec.DecodeError when nothing can be decoded.
    """
    try:
        return _decode(raw, target, spare)
    except _BrokenError:
        raise msgspec.DecodeError("no part of it can be decoded") from None


def _decode(raw: _Raw, target: Any, spare: _Raw | None) -> Any:
    value = _strict(raw, target)
    if value is not msgspec.UNSET:
        return value
    for choice in _choices(target):
        origin, arguments = get_origin(choice), get_args(choice)
        if isinstance(choice, type) and issubclass(choice, msgspec.Struct):
            members = _strict(raw, dict[str, msgspec.Raw])
            if isinstance(members, dict):
                return _struct(members, choice, spare)
        elif origin is list:
            elements = _strict(raw, list[msgspec.Raw])
            if isinstance(elements, list):
                return _list(elements, arguments[0], spare)
        elif origin is dict:
            members = _strict(raw, dict[str, msgspec.Raw])
            if isinstance(members, dict):
                return _mapping(members, arguments[1], spare)
    raise _BrokenError


def _struct(members: dict[str, msgspec.Raw], target: type[msgspec.Struct], spare: _Raw | None) -> Any:
    before = _parts(spare, dict[str, msgspec.Raw])
    values = {}
    for field in msgspec.structs.fields(target):
        text = members.get(field.encode_name)
        if text is not None:
            value = _part(text, field.type, before.get(field.encode_name))
            if value is not msgspec.UNSET:
                values[field.name] = value
    try:
        return target(**values)
    except TypeError:
        # A field without a default is missing or broken.
        raise _BrokenError from None


def _list(elements: list[msgspec.Raw], target: Any, spare: _Raw | None) -> list[Any]:
    before = _parts(spare, list[msgspec.Raw])
    values = []
    for index, text in enumerate(elements):
        value = _part(text, target, before[index] if index < len(before) else None)
        if value is not msgspec.UNSET:
            values.append(value)
    return values


def _mapping(members: dict[str, msgspec.Raw], target: Any, spare: _Raw | None) -> dict[str, Any]:
    """Return a decoded mapping. An entry that was never decodable keeps its JSON text if text is allowed.

    An invalid quantity is then treated like a wrongly written one, which every reader handles.
    """
    before = _parts(spare, dict[str, msgspec.Raw])
    values = {}
    for name, text in members.items():
        value = _part(text, target, before.get(name))
        if value is not msgspec.UNSET:
            values[name] = value
        elif str in _choices(target):
            values[name] = bytes(memoryview(text)).decode(errors="replace")
    return values


def _part(text: msgspec.Raw, target: Any, spare: _Raw | None) -> Any:
    """Return the decodable parts of a value, else its earlier version, else UNSET."""
    try:
        return _decode(text, target, spare)
    except _BrokenError:
        return msgspec.UNSET if spare is None else _strict(spare, target)


def _parts(spare: _Raw | None, target: Any) -> Any:
    """Return the parts of an earlier value; empty if there is none of this type."""
    value = msgspec.UNSET if spare is None else _strict(spare, target)
    return target() if value is msgspec.UNSET else value


def _strict(raw: _Raw, target: Any) -> Any:
    """Return the strictly decoded value, or UNSET if it cannot be decoded."""
    try:
        return jsontext.parse(raw, target)
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.UNSET


def _choices(target: Any) -> tuple[Any, ...]:
    """Return the types of a union; a single type without its annotation."""
    origin = get_origin(target)
    if origin is Annotated:
        return _choices(get_args(target)[0])
    if origin in (Union, types.UnionType):
        return tuple(choice for member in get_args(target) for choice in _choices(member))
    return (target,)
