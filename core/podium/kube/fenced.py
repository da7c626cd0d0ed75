"""Writes that only a leader makes, each about one object and never about a later one of its name.

A request is given no more time than the lease has left, which is looked at right before it is sent. What the
API server makes of a request that was under way when the lease went is harmless: it names the object by UID.
"""

from asyncio import timeout
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any
from urllib.parse import quote

import msgspec

from podium.api.meta import Condition
from podium.errors import PodiumError
from podium.findings import ObjectRef
from podium.kube.connection import RefusedError, SilentError


class LeaseOverError(PodiumError, TimeoutError):
    """The lease ended before an answer came, or before the request was sent."""

    def __init__(self) -> None:
        super().__init__("the lease is over: another process may lead")


class StaleError(PodiumError):
    """The object is not what it was when this was decided: `gone` says that it is no more, or another."""

    def __init__(self, error: RefusedError, *, gone: bool) -> None:
        """`error` is the API server's own word."""
        super().__init__(str(error))
        self.gone = gone


async def fenced(remaining: Callable[[], float], send: Callable[[], Awaitable[bytes]]) -> bytes:
    """Send while `remaining` (seconds) says that we may; give the answer.

    Raises StaleError when the object is another than was decided about, LeaseOverError when the lease ended
    first, SilentError when the answer took longer than the lease had left and the lease was renewed, and what
    `send` raises.
    """
    left = remaining()
    if left <= 0:
        # A timeout that is over strikes when the request is on its way.
        raise LeaseOverError
    try:
        if left == inf:
            # Not every event loop takes infinity for a time.
            return await send()
        async with timeout(left):
            return await send()
    except TimeoutError:
        if remaining() > 0:
            # The lease was renewed meanwhile.
            raise SilentError(f"no answer within {left:.0f} s, which the lease had left") from None
        raise LeaseOverError from None
    except RefusedError as error:
        if error.code == 409:
            raise StaleError(error, gone=False) from None
        # A patch that names another UID is invalid (422), not a conflict: an object of this name is new.
        if error.code == 404 or (error.code == 422 and "metadata.uid" in error.message):
            raise StaleError(error, gone=True) from None
        raise


def conditions_document(
    ref: ObjectRef, uid: str, conditions: Sequence[Condition], **metadata: str
) -> dict[str, Any]:
    """Give what is applied to an object's status to say all our conditions; `metadata` may guard it more."""
    return {
        "apiVersion": ref.apiVersion,
        "kind": ref.kind,
        "metadata": {"namespace": ref.namespace, "name": ref.name, "uid": uid, **metadata},
        "status": {"conditions": [condition_value(each) for each in conditions]},
    }


def condition_value(condition: Condition) -> dict[str, Any]:
    """Give a condition as it is written: what it leaves out is left out, not null."""
    return {key: value for key, value in msgspec.to_builtins(condition).items() if value is not None}


def group_path(ref: ObjectRef) -> str:
    """Give the path of a PodGroup."""
    namespace, name = quote(ref.namespace, safe=""), quote(ref.name, safe="")
    return f"/apis/{ref.apiVersion}/namespaces/{namespace}/podgroups/{name}"
