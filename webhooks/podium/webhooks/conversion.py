"""ConversionReview: convert stored objects to the version that a client requests.

API servers 1.36 and 1.37 request the conversion of each object that they read from etcd separately; the
interface allows lists. A failed conversion fails every list of the kind. So every decodable object is
converted, valid or not, and the answer names an object that cannot be decoded.

Objects are converted one after another, from bytes to bytes, and only the parts that a conversion changes are
decoded. So a list needs memory for itself, its answer and the parts of one object.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from podium import jsontext
from podium.api.convert import VERSIONS, convert
from podium.api.findings import group_of
from podium.api.groups import PODIUM_GROUP
from podium.api.reads import READS
from podium.webhooks.envelope import UNREADABLE, ReviewError
from podium.webhooks.review import MAX_DETAILS, is_large

API_VERSION = "apiextensions.k8s.io/v1"
KINDS = ("PodGroup", "Workload")
# An API server accepts 3 MiB from a client, and adds managedFields of at most that size. etcd stores 1.5 MiB
# by default.
OBJECT_BYTES = 6 << 20
# All annotations of an object have at most 256 KiB, and JSON may need six bytes for each.
_ANNOTATIONS_BYTES = 6 * (256 << 10)
# Arrays up to this size are decoded at once, which needs twenty times their size.
_SHORT = 256 << 10


class _ConversionRequest(msgspec.Struct, gc=False):
    uid: str
    desiredAPIVersion: str = ""
    objects: Raw = Raw(b"null")


class _ConversionReview(msgspec.Struct, gc=False):
    apiVersion: str
    kind: str
    request: _ConversionRequest


class _Name(msgspec.Struct, gc=False):
    name: str | None = None


class _ConvertedMetadata(msgspec.Struct, gc=False):
    annotations: Raw = Raw(b"null")
    labels: Raw = Raw(b"")
    managedFields: Raw = Raw(b"")
    ownerReferences: Raw = Raw(b"")
    finalizers: Raw = Raw(b"")


class _Header(msgspec.Struct, gc=False):
    apiVersion: Raw = Raw(b"null")
    kind: Raw = Raw(b"null")
    metadata: Raw = Raw(b"{}")
    spec: Raw = Raw(b"null")
    status: Raw = Raw(b"null")


_reviews = jsontext.Decoder(_ConversionReview)
_listed = jsontext.Decoder(list[Raw] | None)
_headers = jsontext.Decoder(_Header)
_metadata = jsontext.Decoder(_ConvertedMetadata | None)
_names = jsontext.Decoder(_Name | None)
_texts = jsontext.Decoder(str)
_parts = jsontext.Decoder(dict[str, Raw])
_annotations = jsontext.Decoder(dict[str, str] | None)
_any = jsontext.Decoder(object, refuses=True)
_encoder = msgspec.json.Encoder()


class _FailedError(Exception):
    """The reason why an object was not converted."""


def convert_review(body: bytes | bytearray) -> bytearray:
    """Return the answer to a ConversionReview of v1. Raises ReviewError if it has no uid."""
    try:
        review = _reviews.decode(body)
    except UNREADABLE as error:
        raise ReviewError(f"not a ConversionReview: {error}") from None
    if (review.apiVersion, review.kind) != (API_VERSION, "ConversionReview") or not review.request.uid:
        raise ReviewError(f"not a ConversionReview of {API_VERSION}: {review.apiVersion} {review.kind}")
    head = {"apiVersion": API_VERSION, "kind": "ConversionReview"}
    response: dict[str, Any] = {"uid": review.request.uid, "result": {"status": "Success"}}
    # The objects are inserted before the two closing braces.
    answer = bytearray(_encoder.encode({**head, "response": response})[:-2] + b',"convertedObjects":[')
    start = len(answer)
    try:
        for converted in _all_converted(review.request):
            if len(answer) > start:
                answer += b","
            answer += converted
    except _FailedError as error:
        response = {
            "uid": review.request.uid,
            "convertedObjects": [],
            "result": {"status": "Failure", "message": str(error)},
        }
        return bytearray(_encoder.encode({**head, "response": response}))
    answer += b"]}}"
    return answer


def _all_converted(request: _ConversionRequest) -> Iterator[bytes | memoryview]:
    target = request.desiredAPIVersion
    if target not in VERSIONS or group_of(target) != PODIUM_GROUP:
        raise _FailedError(f"cannot convert to {target}: not a version of {PODIUM_GROUP}")
    for document in _objects(request.objects):
        yield _converted(document, target)


def _objects(array: Raw) -> Iterator[Raw | memoryview]:
    """Yield the objects of a request. Raises ReviewError if it is not a list of objects."""
    view = memoryview(array)
    if bytes(view[:1]) not in (b"[", b"n"):
        raise ReviewError("not a ConversionReview: request.objects is not a list")
    if len(view) > _SHORT:
        try:
            yield from slices(view, OBJECT_BYTES)
        except LongError as error:
            raise _FailedError(f"cannot convert: an object has {error}") from None
        return
    for raw in _listed.decode(array) or ():
        if bytes(memoryview(raw)[:1]) != b"{":
            raise ReviewError("not a ConversionReview: an element of request.objects is not an object")
        yield raw


def _converted(given: Raw | memoryview, target: str) -> bytes:
    try:
        given, deep = _shallow(given)
        header: _Header = _headers.decode(given)
    except UNREADABLE as error:
        raise _FailedError(f"cannot convert: {error}") from None
    version, kind, name = _text(header.apiVersion), _text(header.kind), _name(header.metadata)
    read = READS.get((version, kind)) if version is not None and kind is not None else None
    if read is None or kind not in KINDS or group_of(version or "") != PODIUM_GROUP:
        if deep:
            raise ReviewError(f"not a ConversionReview: an object's {deep} is {jsontext.TOO_DEEP}")
        raise _FailedError(f"cannot convert {version} {kind} {name}: not a kind of {PODIUM_GROUP}")
    if deep:
        raise _FailedError(f"cannot convert {kind} {name}: {deep} is {jsontext.TOO_DEEP}")
    try:
        document = _opened(given, header)
        msgspec.convert({**document, "metadata": {}}, read.type)
        return _encoder.encode(convert(document, target).document)
    except (*UNREADABLE, LongError) as error:
        raise _FailedError(f"cannot convert {kind} {name}: {error}") from None


def _shallow(given: Raw | memoryview) -> tuple[Raw | memoryview, str]:
    """Return an object without the deepest values of its metadata, and the other field that is too deep.

    API servers store managedFields of any nesting, and keep their own whatever a conversion answers. No
    schema admits so deep a spec or status.
    """
    if jsontext.cut(given) is given:
        return given, ""
    parts = _parts.decode(given)
    deep = (field for field, raw in parts.items() if field != "metadata" and jsontext.cut(raw) is not raw)
    shallow = parts | {field: Raw(jsontext.cut(raw)) for field, raw in parts.items() if field == "metadata"}
    return Raw(_encoder.encode(shallow)), next(deep, "")


def _opened(given: Raw | memoryview, header: _Header) -> dict[str, Any]:
    """Decode the parts that a conversion reads: spec, status and annotations. The rest stays bytes.

    Raises LongError for an object whose parts need more memory than any that can be stored.
    """
    known = sum(len(memoryview(field)) for field in (header.metadata, header.spec, header.status))
    if len(memoryview(given)) - known > _SHORT or is_large(header.spec) or is_large(header.status):
        raise LongError(f"more than {MAX_DETAILS} values in spec or status")
    document: dict[str, Any] = dict(_parts.decode(given))
    document |= {field: _any.decode(raw) for field, raw in document.items() if field != "metadata"}
    metadata = _metadata.decode(header.metadata)
    if metadata is None:
        document["metadata"] = None
        return document
    large = (metadata.annotations, metadata.labels, metadata.managedFields)
    known = sum(len(memoryview(field)) for field in (*large, metadata.ownerReferences, metadata.finalizers))
    if len(memoryview(header.metadata)) - known > _SHORT:
        raise LongError("more metadata than an object may have")
    if len(memoryview(metadata.annotations)) > _ANNOTATIONS_BYTES:
        raise LongError(f"more than {_ANNOTATIONS_BYTES} bytes of annotations")
    parts: dict[str, Any] = dict(_parts.decode(header.metadata))
    if "annotations" in parts:
        parts["annotations"] = _annotations.decode(metadata.annotations)
    document["metadata"] = parts
    return document


def _text(raw: Raw) -> str | None:
    try:
        return _texts.decode(raw)
    except UNREADABLE:
        return None


def _name(metadata: Raw) -> str | None:
    """Return the name, or None if there is no text in its place."""
    try:
        named = _names.decode(metadata)
    except UNREADABLE:
        return None
    return named.name if named is not None else None


# Matches up to the next bracket outside of strings. Possessive, so there is no backtracking.
_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{\[]|[}\]])', re.DOTALL)
_OPEN = frozenset(b"{[")


class LongError(ValueError):
    """An element that exceeds the maximum length."""


def slices(array: memoryview, longest: int) -> Iterator[memoryview]:
    """Yield the objects and arrays in a valid JSON array; strings and numbers are skipped.

    msgspec decodes all elements of an array at once, which for an array of millions of `{}` needs twenty
    times its size. Here an element needs no memory until it is requested. Raises LongError, and stops
    reading, at an element of more than `longest` bytes.
    """
    depth = start = 0
    for bracket in _BRACKET.finditer(array):
        end = bracket.end()
        if depth > 1 and end - start > longest:
            raise LongError(f"more than {longest} bytes")
        if array[end - 1] in _OPEN:
            if depth == 1:
                start = end - 1
            depth += 1
        else:
            depth -= 1
            if depth == 1:
                yield array[start:end]
