"""The AdmissionReview around objects: bytes to a request with raw objects, and a response to bytes.

A body that is not a review is a ReviewError, which the server answers with 400. The API server then applies
failurePolicy.
"""

import re
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from podium import jsontext
from podium.errors import PodiumError

API_VERSION = "admission.k8s.io/v1"
# The exceptions of msgspec for bytes that are not JSON of the wanted type.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
# Go writes the fields of a review in the order of their type: the uid first, the namespace before the
# objects. Quotation marks in strings are escaped, so neither pattern matches inside a name.
_UID = re.compile(rb'"request":\{"uid":"([^"\\]{1,128})"')
_NAMESPACE = re.compile(rb'"namespace":"([^"\\]{1,253})"')


class ReviewError(PodiumError):
    """A body that cannot be answered as a review: HTTP 400, one line."""


class Beginning(NamedTuple):
    """The uid and namespace in the first bytes of a review; the namespace is empty if it is not in them."""

    uid: str
    namespace: str


class GroupVersion(msgspec.Struct, gc=False):
    """A kind, or a resource by its plural."""

    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""


class Asked(msgspec.Struct, gc=False):
    """The request in an AdmissionReview; the objects are JSON."""

    uid: str
    kind: GroupVersion
    operation: str
    resource: GroupVersion = msgspec.field(default_factory=GroupVersion)
    subResource: str | None = None
    namespace: str | None = None
    name: str | None = None
    dryRun: bool | None = None
    object: Raw = Raw(b"null")
    oldObject: Raw = Raw(b"null")


class _ReviewEnvelope(msgspec.Struct, gc=False):
    apiVersion: str
    kind: str
    request: Asked


_reviews = jsontext.Decoder(_ReviewEnvelope)
_encoder = msgspec.json.Encoder()


def peek_identity(body: bytes) -> Beginning | None:
    """Return uid and namespace from the first bytes of an AdmissionReview; None for any other text."""
    uid, namespace = _UID.search(body), _NAMESPACE.search(body)
    if uid is None:
        return None
    return Beginning(
        uid[1].decode(errors="replace"), namespace[1].decode(errors="replace") if namespace else ""
    )


def unwrap(body: bytes | bytearray) -> Asked:
    """Return the request in an AdmissionReview. Raises ReviewError.

    A body of any nesting is decoded, because a refusal would admit the object if the failure policy is
    Ignore. The last of duplicate keys counts, as in Go.
    """
    try:
        review: _ReviewEnvelope = _reviews.decode(body)
    except UNREADABLE as error:
        raise ReviewError(f"not an AdmissionReview: {error}") from None
    if review.apiVersion != API_VERSION or review.kind != "AdmissionReview":
        raise ReviewError(f"not an AdmissionReview of {API_VERSION}: {review.apiVersion} {review.kind}")
    if not review.request.uid:
        raise ReviewError("AdmissionReview: request.uid: empty")
    return review.request


def respond(response: dict[str, Any]) -> bytes:
    """Return an AdmissionReview with a response."""
    return _encoder.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


_REASONS = {413: "RequestEntityTooLarge", 429: "TooManyRequests"}


def admission(uid: str) -> bytes:
    """Return a response that allows a request."""
    return respond({"uid": uid, "allowed": True})


def denial(uid: str, message: str) -> bytes:
    """Return a response that denies a request with 403."""
    status = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    return respond({"uid": uid, "allowed": False, "status": status})


def refusal(uid: str, code: int, message: str) -> bytes:
    """Return a response that denies a request without judging it.

    Without a review in the response, the API server admits the request where failurePolicy is Ignore. It
    treats every status but 200 as a failed call (apiserver, pkg/admission/plugin/webhook).
    """
    status: dict[str, Any] = {
        "status": "Failure",
        "code": code,
        "reason": _REASONS.get(code, "Timeout"),
        "message": message,
    }
    if code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        # The API server turns this into a Retry-After header.
        status["details"] = {"retryAfterSeconds": 1}
    return respond({"uid": uid, "allowed": False, "status": status})
