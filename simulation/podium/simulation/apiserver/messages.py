"""Requests to the simulated API server, its answers, and the calls of admission webhooks between them."""

from collections.abc import Mapping
from typing import NamedTuple

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
