"""Requests to the simulated API server, its answers, and the calls of admission webhooks between them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

Document = dict[str, Any]
JSON = "application/json"


class ApiRequest(NamedTuple):
    """An HTTP request. `query` has the last value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = JSON
    user: str = "admin"


class ApiResponse(NamedTuple):
    """An HTTP response with a whole body."""

    code: int
    body: bytes
    headers: Mapping[str, str] = {}


class WebhookCall(NamedTuple):
    """A call of an admission webhook, by `url` or by `service` (namespace/name:port); the other is empty."""

    webhook: str
    url: str
    service: str
    path: str
    body: bytes
    timeout_seconds: int


class WebhookFailure(NamedTuple):
    """A webhook that gave no answer: the words of the client, such as "context deadline exceeded"."""

    message: str


class ApiError(Exception):
    """A refusal of the API server, which becomes a metav1.Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[Mapping[str, str]] = (),
        retry_seconds: int = 0,
    ) -> None:
        """`causes` are those of the details; `retry_seconds` is also the header Retry-After."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_seconds = retry_seconds

    def status(self) -> Document:
        """Return the metav1.Status."""
        details: Document = {}
        if self.causes:
            details["causes"] = list(self.causes)
        if self.retry_seconds:
            details["retryAfterSeconds"] = self.retry_seconds
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }
        return {name: value for name, value in status.items() if value or name == "metadata"}

    def response(self) -> ApiResponse:
        """Return the HTTP response."""
        headers = {"Retry-After": str(self.retry_seconds)} if self.retry_seconds else {}
        return ApiResponse(self.code, msgspec.json.encode(self.status()), headers)


def conflict(resource: str, name: str, text: str) -> ApiError:
    """Return the 409 of a write whose precondition does not hold."""
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {text}')


def missing(resource: str, name: str) -> ApiError:
    """Return the 404 of an object that does not exist."""
    return ApiError(404, "NotFound", f'{resource} "{name}" not found')


def bad_request(text: str) -> ApiError:
    """Return the 400 of a request that cannot be read."""
    return ApiError(400, "BadRequest", text)


def expired(text: str) -> ApiError:
    """Return the 410 of a version that was compacted."""
    return ApiError(410, "Expired", text)


def success(code: int, details: Mapping[str, str] | None = None) -> Document:
    """Return the Status of a write whose answer is no object."""
    status: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": dict(details)} if details else {"code": code})
