"""ConversionReview: the API server asks for stored objects in the version that a client reads.

A conversion that fails makes every list of the kind fail, so what is converted is whatever decodes, valid or
not, and one object that does not is named in the answer.
"""

from typing import Any

import msgspec

from podium.api.convert import VERSIONS, convert
from podium.api.groups import PODIUM_GROUP
from podium.api.reads import READS
from podium.findings import group_of
from podium.webhooks.review import UNREADABLE, ReviewError

API_VERSION = "apiextensions.k8s.io/v1"
KINDS = ("PodGroup", "Workload")


class _Request(msgspec.Struct, gc=False):
    uid: str
    desiredAPIVersion: str = ""
    objects: list[dict[str, Any]] | None = None


class _Review(msgspec.Struct, gc=False):
    apiVersion: str
    kind: str
    request: _Request


_reviews = msgspec.json.Decoder(_Review)
_encoder = msgspec.json.Encoder()


class _FailedError(Exception):
    """Why an object was not converted."""


def convert_review(body: bytes) -> bytes:
    """Answer a ConversionReview of v1; raises ReviewError where there is no uid to answer to."""
    try:
        review = _reviews.decode(body)
    except UNREADABLE as error:
        raise ReviewError(f"not a ConversionReview: {error}") from None
    if (review.apiVersion, review.kind) != (API_VERSION, "ConversionReview") or not review.request.uid:
        raise ReviewError(f"not a ConversionReview of {API_VERSION}: {review.apiVersion} {review.kind}")
    response: dict[str, Any] = {"uid": review.request.uid, "convertedObjects": []}
    try:
        response["convertedObjects"] = _all_converted(review.request)
        response["result"] = {"status": "Success"}
    except _FailedError as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    return _encoder.encode({"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response})


def _all_converted(request: _Request) -> list[dict[str, Any]]:
    target = request.desiredAPIVersion
    if target not in VERSIONS or group_of(target) != PODIUM_GROUP:
        raise _FailedError(f"cannot convert to {target}: no version of {PODIUM_GROUP}")
    return [_converted(document, target) for document in request.objects or ()]


def _converted(document: dict[str, Any], target: str) -> dict[str, Any]:
    version, kind = document.get("apiVersion"), document.get("kind")
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    read = READS.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if read is None or kind not in KINDS or group_of(version or "") != PODIUM_GROUP:
        raise _FailedError(f"cannot convert {version} {kind} {name}: no kind of {PODIUM_GROUP}")
    try:
        msgspec.convert(document, read.type)
        return convert(document, target).document
    except (msgspec.ValidationError, RecursionError) as error:
        raise _FailedError(f"cannot convert {kind} {name}: {error}") from None
