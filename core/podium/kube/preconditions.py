"""Preconditions for writes that only a leader may make, each about one object identified by its UID.

The timeout of a request is the remaining time of the lease, read immediately before the request. A request
that is in flight when the lease ends is harmless, because it names the object by UID.
"""

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any
from urllib.parse import quote

import msgspec

from podium.api.findings import ObjectRef
from podium.api.meta import Condition
from podium.errors import PodiumError
from podium.kube.connection import RefusedError, SilentError
from podium.kube.timeouts import within


class LeaseOverError(PodiumError, TimeoutError):
    """The lease ended before the request was sent, or before an answer arrived."""

    def __init__(self) -> None:
        super().__init__("the lease has expired: another process may lead")


class StaleError(PodiumError):
    """The object changed after the decision; `gone` says that it was deleted or replaced by another."""

    def __init__(self, error: RefusedError, *, gone: bool) -> None:
        """`error` is the answer of the API server."""
        super().__init__(str(error))
        self.gone = gone


async def fenced(remaining: Callable[[], float], send: Callable[[], Awaitable[bytes]]) -> bytes:
    """Send while `remaining` (seconds) is positive, and return the answer.

    Raises StaleError when the object changed after the decision, and LeaseOverError when the lease ended
    first. Raises SilentError when the answer took longer than the remaining time and the lease was renewed
    meanwhile. Also raises what `send` raises.
    """
    left = remaining()
    if left <= 0:
        # A timeout of zero would cancel only after the request is sent.
        raise LeaseOverError
    try:
        # Some event loops do not accept infinity as a time.
        return await within(None if left == inf else left, send())
    except TimeoutError:
        if remaining() > 0:
            raise SilentError(f"no answer within {left:.0f} s, the remaining time of the lease") from None
        raise LeaseOverError from None
    except RefusedError as error:
        if error.by_webhook:
            # It may choose any code, and knows nothing of the object that is stored.
            raise
        if error.code == 409:
            raise StaleError(error, gone=False) from None
        # A patch with a wrong UID is invalid (422), not a conflict: a new object has this name.
        if error.code == 404 or (error.code == 422 and "metadata.uid" in error.message):
            raise StaleError(error, gone=True) from None
        raise


def conditions_document(
    ref: ObjectRef, uid: str, conditions: Sequence[Condition], **metadata: str
) -> dict[str, Any]:
    """Return the document to apply to a status, with all our conditions; `metadata` adds preconditions."""
    return {
        "apiVersion": ref.apiVersion,
        "kind": ref.kind,
        "metadata": {"namespace": ref.namespace, "name": ref.name, "uid": uid, **metadata},
        "status": {"conditions": [condition_value(condition) for condition in conditions]},
    }


def condition_value(condition: Condition) -> dict[str, Any]:
    """Return a condition as written to the API server: unset fields are omitted, not null."""
    return {key: value for key, value in msgspec.to_builtins(condition).items() if value is not None}


def group_path(ref: ObjectRef) -> str:
    """Return the URL path of a PodGroup or CompositePodGroup."""
    namespace, name = quote(ref.namespace, safe=""), quote(ref.name, safe="")
    return f"/apis/{ref.apiVersion}/namespaces/{namespace}/{ref.kind.lower()}s/{name}"
