"""The one way by which a reconciler writes: fenced by the lease, and never over anything newer.

A request is given no more time than the lease has left, and is not repeated behind the back of whoever
decided it: a busy server's 429 comes back as an error, and whether the write is still wanted is decided anew.
What the API server makes of a request that was under way when the lease went is harmless: it names the moment
it was decided from.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from podium.controllers.actions import Action, ApplyConditions, ApplyGroup, CreateGroup, SetFinalizers
from podium.errors import PodiumError
from podium.findings import ObjectRef
from podium.kube.connection import Connection, RefusedError

# Whose the fields are that we write, by what writes them.
STATUS_MANAGER = "podium-controller"
GROUP_MANAGER = "podium-auto-groups"


class StaleError(PodiumError):
    """The object is not what it was when this was decided: `gone` says that it is no more, or another."""

    def __init__(self, error: RefusedError, *, gone: bool) -> None:
        """`error` is the API server's own word."""
        super().__init__(str(error))
        self.gone = gone


class _Request(NamedTuple):
    what: str
    method: str
    path: str
    body: dict[str, Any]
    content_type: str
    query: dict[str, str]


class _Meta(msgspec.Struct):
    resourceVersion: str = "0"


class _Answer(msgspec.Struct):
    metadata: _Meta


class Writer:
    """Performs actions for as long as `remaining` (seconds) says that we may; `counted` hears of each end."""

    def __init__(
        self, connection: Connection, remaining: Callable[[], float], counted: Callable[[str, str], None]
    ) -> None:
        """`counted` takes what was written and how it ended, both of closed sets."""
        self._connection = connection
        self._remaining = remaining
        self._counted = counted

    async def perform(self, action: Action) -> int:
        """Write; give the resourceVersion that the object has now.

        Raises StaleError when the object is another than was decided about, RefusedError when the server
        refuses, TimeoutError when the lease ended first, and PodiumError when no answer came.
        """
        request = _request(action)
        try:
            version = await self._send(request)
        except StaleError as error:
            self._counted(request.what, "gone" if error.gone else "conflict")
            raise
        except (PodiumError, TimeoutError):
            self._counted(request.what, "failed")
            raise
        self._counted(request.what, "written")
        return version

    async def _send(self, request: _Request) -> int:
        remaining = self._remaining()
        if remaining <= 0:
            # A timeout that is over strikes when the request is on its way.
            raise TimeoutError
        try:
            # Not every event loop takes infinity for a time.
            async with asyncio.timeout(remaining if remaining < inf else None):
                body = await self._connection.send(
                    request.method,
                    request.path,
                    request.body,
                    content_type=request.content_type,
                    patient=False,
                    **request.query,
                )
        except RefusedError as error:
            if error.code == 409:
                raise StaleError(error, gone=False) from None
            # An apply that names another UID is invalid (422), not a conflict: a group of this name is new.
            if error.code == 404 or (error.code == 422 and "metadata.uid" in error.message):
                raise StaleError(error, gone=True) from None
            raise
        return int(msgspec.json.decode(body, type=_Answer).metadata.resourceVersion)


def _request(action: Action) -> _Request:
    match action:
        case ApplyConditions():
            conditions = [
                {key: value for key, value in msgspec.to_builtins(condition).items() if value is not None}
                for condition in action.conditions
            ]
            body = _named(action.ref, action.uid, action.resource_version)
            return _apply(
                "conditions",
                action.ref,
                "/status",
                body | {"status": {"conditions": conditions}},
                STATUS_MANAGER,
            )
        case SetFinalizers():
            metadata = {
                "uid": action.uid,
                "resourceVersion": action.resource_version,
                "finalizers": list(action.finalizers) or None,
            }
            kind = "application/merge-patch+json"
            query = {"fieldManager": STATUS_MANAGER}
            return _Request("finalizer", "PATCH", _path(action.ref), {"metadata": metadata}, kind, query)
        case CreateGroup():
            query = {"fieldManager": GROUP_MANAGER}
            path = _path(action.ref).rpartition("/")[0]
            return _Request("group", "POST", path, dict(action.document), "application/json", query)
        case ApplyGroup():
            return _apply("group", action.ref, "", dict(action.document), GROUP_MANAGER)


def _apply(what: str, ref: ObjectRef, subresource: str, body: dict[str, Any], manager: str) -> _Request:
    query = {"fieldManager": manager, "force": "true"}
    path = _path(ref) + subresource
    return _Request(what, "PATCH", path, body, "application/apply-patch+yaml", query)


def _named(ref: ObjectRef, uid: str, resource_version: str) -> dict[str, Any]:
    metadata = {"namespace": ref.namespace, "name": ref.name, "uid": uid, "resourceVersion": resource_version}
    return {"apiVersion": ref.apiVersion, "kind": ref.kind, "metadata": metadata}


def _path(ref: ObjectRef) -> str:
    namespace, name = quote(ref.namespace, safe=""), quote(ref.name, safe="")
    return f"/apis/{ref.apiVersion}/namespaces/{namespace}/podgroups/{name}"
