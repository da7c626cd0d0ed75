"""The one way by which a reconciler writes: fenced by the lease, and never over anything newer.

A request is given no more time than the lease has left, and is not repeated behind the back of whoever
decided it: a busy server's 429 comes back as an error, and whether the write is still wanted is decided anew.
What the API server makes of a request that was under way when the lease went is harmless: it names the moment
it was decided from.
"""

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from typing import Any
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


# What each action is counted as.
_WHAT: Mapping[type[Action], str] = {
    ApplyConditions: "conditions",
    SetFinalizers: "finalizer",
    CreateGroup: "group",
    ApplyGroup: "group",
}


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
        what = _WHAT[type(action)]
        try:
            version = await self._write(action)
        except StaleError as error:
            self._counted(what, "gone" if error.gone else "conflict")
            raise
        except (PodiumError, TimeoutError):
            self._counted(what, "failed")
            raise
        self._counted(what, "written")
        return version

    async def _write(self, action: Action) -> int:
        remaining = self._remaining()
        if remaining <= 0:
            # A timeout that is over strikes when the request is on its way.
            raise TimeoutError
        try:
            # Not every event loop takes infinity for a time.
            async with asyncio.timeout(remaining if remaining < inf else None):
                body = await self._send(action)
        except RefusedError as error:
            if error.code == 409:
                raise StaleError(error, gone=False) from None
            # An apply that names another UID is invalid (422), not a conflict: a group of this name is new.
            if error.code == 404 or (error.code == 422 and "metadata.uid" in error.message):
                raise StaleError(error, gone=True) from None
            raise
        return int(msgspec.json.decode(body, type=_Answer).metadata.resourceVersion)

    async def _send(self, action: Action) -> bytes:
        path = _path(action.ref)
        match action:
            case ApplyConditions():
                return await self._apply(f"{path}/status", _status(action), STATUS_MANAGER)
            case SetFinalizers():
                kind = "application/merge-patch+json"
                return await self._connection.send(
                    "PATCH",
                    path,
                    _finalizers(action),
                    content_type=kind,
                    patient=False,
                    fieldManager=STATUS_MANAGER,
                )
            case CreateGroup():
                parent = path.rpartition("/")[0]
                return await self._connection.send(
                    "POST", parent, action.document, patient=False, fieldManager=GROUP_MANAGER
                )
            case ApplyGroup():
                return await self._apply(path, action.document, GROUP_MANAGER)

    async def _apply(self, path: str, document: Mapping[str, Any], manager: str) -> bytes:
        return await self._connection.apply(path, document, manager=manager, force=True, patient=False)


def _status(action: ApplyConditions) -> dict[str, Any]:
    ref = action.ref
    conditions = [
        {key: value for key, value in msgspec.to_builtins(condition).items() if value is not None}
        for condition in action.conditions
    ]
    metadata = {
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": action.uid,
        "resourceVersion": action.resource_version,
    }
    return {
        "apiVersion": ref.apiVersion,
        "kind": ref.kind,
        "metadata": metadata,
        "status": {"conditions": conditions},
    }


def _finalizers(action: SetFinalizers) -> dict[str, Any]:
    metadata = {
        "uid": action.uid,
        "resourceVersion": action.resource_version,
        "finalizers": list(action.finalizers) or None,
    }
    return {"metadata": metadata}


def _path(ref: ObjectRef) -> str:
    namespace, name = quote(ref.namespace, safe=""), quote(ref.name, safe="")
    return f"/apis/{ref.apiVersion}/namespaces/{namespace}/podgroups/{name}"
