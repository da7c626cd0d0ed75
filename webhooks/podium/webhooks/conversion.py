"""ConversionReview: the API server asks for stored objects in the version that a client reads.

API servers 1.36 and 1.37 ask for each object that they read from etcd by itself; their interface allows
whole lists. A conversion that fails makes every list of the kind fail, so what is converted is whatever
decodes, valid or not, and one object that does not is named in the answer.

Objects are converted one after another, from bytes to bytes, and of each only what a conversion changes is
decoded: a list takes its own size, its answer's, and one object's parts.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from podium.api.convert import VERSIONS, convert
from podium.api.groups import PODIUM_GROUP
from podium.api.reads import READS
from podium.findings import group_of
from podium.webhooks.review import MAX_DETAILS, UNREADABLE, ReviewError, is_large
from podium.webhooks.slices import LongError, slices

API_VERSION = "apiextensions.k8s.io/v1"
KINDS = ("PodGroup", "Workload")
# An API server takes 3 MiB of a client, and adds managedFields of as much at most; etcd stores 1.5 MiB by
# default.
OBJECT_BYTES = 6 << 20
# All annotations of an object are 256 KiB at most, of which each byte may be written as six.
_ANNOTATIONS_BYTES = 6 * (256 << 10)
# Arrays of up to this many bytes are decoded to all their elements at once, which takes twenty times as much.
_SHORT = 256 << 10


class _Request(msgspec.Struct, gc=False):
    uid: str
    desiredAPIVersion: str = ""
    objects: Raw = Raw(b"null")


class _Review(msgspec.Struct, gc=False):
    apiVersion: str
    kind: str
    request: _Request


class _Name(msgspec.Struct, gc=False):
    name: str | None = None


class _Metadata(msgspec.Struct, gc=False):
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


_reviews = msgspec.json.Decoder(_Review)
_listed = msgspec.json.Decoder(list[Raw] | None)
_headers = msgspec.json.Decoder(_Header)
_metadata = msgspec.json.Decoder(_Metadata | None)
_names = msgspec.json.Decoder(_Name | None)
_parts = msgspec.json.Decoder(dict[str, Raw])
_annotations = msgspec.json.Decoder(dict[str, str] | None)
_encoder = msgspec.json.Encoder()


class _FailedError(Exception):
    """Why an object was not converted."""


def convert_review(body: bytes | bytearray) -> bytearray:
    """Answer a ConversionReview of v1; raises ReviewError where there is no uid to answer to."""
    try:
        review = _reviews.decode(body)
    except UNREADABLE as error:
        raise ReviewError(f"not a ConversionReview: {error}") from None
    if (review.apiVersion, review.kind) != (API_VERSION, "ConversionReview") or not review.request.uid:
        raise ReviewError(f"not a ConversionReview of {API_VERSION}: {review.apiVersion} {review.kind}")
    head = {"apiVersion": API_VERSION, "kind": "ConversionReview"}
    response: dict[str, Any] = {"uid": review.request.uid, "result": {"status": "Success"}}
    # Two closing braces end it, before which the objects go.
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


def _all_converted(request: _Request) -> Iterator[bytes | memoryview]:
    target = request.desiredAPIVersion
    if target not in VERSIONS or group_of(target) != PODIUM_GROUP:
        raise _FailedError(f"cannot convert to {target}: no version of {PODIUM_GROUP}")
    for document in _objects(request.objects):
        yield _converted(document, target)


def _objects(array: Raw) -> Iterator[Raw | memoryview]:
    """Give the objects of a request; raises ReviewError for what is no list of objects."""
    view = memoryview(array)
    if bytes(view[:1]) not in (b"[", b"n"):
        raise ReviewError("not a ConversionReview: request.objects is no list")
    if len(view) > _SHORT:
        try:
            yield from slices(view, OBJECT_BYTES)
        except LongError as error:
            raise _FailedError(f"cannot convert: an object has {error}") from None
        return
    for each in _listed.decode(array) or ():
        if bytes(memoryview(each)[:1]) != b"{":
            raise ReviewError("not a ConversionReview: request.objects holds what is no object")
        yield each


def _converted(given: Raw | memoryview, target: str) -> bytes:
    try:
        header = _headers.decode(given)
    except UNREADABLE as error:
        raise _FailedError(f"cannot convert: {error}") from None
    version, kind, name = _text(header.apiVersion), _text(header.kind), _name(header.metadata)
    read = READS.get((version, kind)) if version is not None and kind is not None else None
    if read is None or kind not in KINDS or group_of(version or "") != PODIUM_GROUP:
        raise _FailedError(f"cannot convert {version} {kind} {name}: no kind of {PODIUM_GROUP}")
    try:
        document = _opened(given, header)
        msgspec.convert({**document, "metadata": {}}, read.type)
        return _encoder.encode(convert(document, target).document)
    except (*UNREADABLE, LongError) as error:
        raise _FailedError(f"cannot convert {kind} {name}: {error}") from None


def _opened(given: Raw | memoryview, header: _Header) -> dict[str, Any]:
    """Decode what a conversion looks at: the spec, the status and the annotations; the rest stays as bytes.

    Raises LongError for an object whose parts would take more memory than any that can be stored.
    """
    known = sum(len(memoryview(each)) for each in (header.metadata, header.spec, header.status))
    if len(memoryview(given)) - known > _SHORT or is_large(header.spec) or is_large(header.status):
        raise LongError(f"more than {MAX_DETAILS} values in spec or status")
    document: dict[str, Any] = dict(_parts.decode(given))
    document |= {field: msgspec.json.decode(raw) for field, raw in document.items() if field != "metadata"}
    metadata = _metadata.decode(header.metadata)
    if metadata is None:
        document["metadata"] = None
        return document
    large = (metadata.annotations, metadata.labels, metadata.managedFields)
    known = sum(len(memoryview(each)) for each in (*large, metadata.ownerReferences, metadata.finalizers))
    if len(memoryview(header.metadata)) - known > _SHORT:
        raise LongError("more metadata than an object has")
    if len(memoryview(metadata.annotations)) > _ANNOTATIONS_BYTES:
        raise LongError(f"more than {_ANNOTATIONS_BYTES} bytes of annotations")
    parts: dict[str, Any] = dict(_parts.decode(header.metadata))
    if "annotations" in parts:
        parts["annotations"] = _annotations.decode(metadata.annotations)
    document["metadata"] = parts
    return document


def _text(raw: Raw) -> str | None:
    value = msgspec.json.decode(raw) if bytes(memoryview(raw)[:1]) == b'"' else None
    return value if isinstance(value, str) else None


def _name(metadata: Raw) -> str | None:
    """Give the name, if there is a text of one."""
    try:
        found = _names.decode(metadata)
    except UNREADABLE:
        return None
    return found.name if found is not None else None
