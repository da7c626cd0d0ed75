"""The one way by which a reconciler writes: fenced by the lease, and never over anything newer.

A request is not repeated behind the back of whoever decided it: a busy server's 429 comes back as an error,
and whether the write is still wanted is decided anew.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from podium.api.groups import CONTROLLER_MANAGER
from podium.controllers.actions import Action, ApplyConditions, ApplyGroup, CreateGroup, SetFinalizers
from podium.errors import PodiumError
from podium.kube.connection import Connection
from podium.kube.fenced import StaleError, conditions_document, fenced, group_path
from podium.kube.reading import decode

# Whose the fields of auto groups are; all else is the reconciler's.
GROUP_MANAGER = "podium-auto-groups"

# What each action is counted as.
_WHAT: Mapping[type[Action], str] = {
    ApplyConditions: "conditions",
    SetFinalizers: "finalizer",
    CreateGroup: "group",
    ApplyGroup: "group",
}


# And all those, with how a write may end.
WRITES = frozenset(_WHAT.values())
RESULTS = ("written", "gone", "conflict", "failed")


class _Meta(msgspec.Struct):
    resourceVersion: str = "0"


class _Answer(msgspec.Struct):
    metadata: _Meta


class Writer:
    """Performs actions for as long as `remaining` (seconds) says that we may; `counted` hears of each end."""

    def __init__(
        self, connection: Connection, remaining: Callable[[], float], counted: Callable[[str, str], None]
    ) -> None:
        """`counted` takes what was written and how it ended: of WRITES and of RESULTS."""
        self._connection = connection
        self._remaining = remaining
        self._counted = counted

    async def perform(self, action: Action) -> int:
        """Write; give the resourceVersion that the object has now.

        Raises StaleError when the object is another than was decided about, RefusedError when the server
        refuses, LeaseOverError when the lease ended first, and PodiumError when no answer came.
        """
        what = _WHAT[type(action)]
        try:
            body = await fenced(self._remaining, lambda: self._send(action))
        except StaleError as error:
            self._counted(what, "gone" if error.gone else "conflict")
            raise
        except PodiumError:
            self._counted(what, "failed")
            raise
        self._counted(what, "written")
        return int(decode(body, _Answer).metadata.resourceVersion)

    async def _send(self, action: Action) -> bytes:
        path = group_path(action.ref)
        match action:
            case ApplyConditions():
                document = conditions_document(
                    action.ref, action.uid, action.conditions, resourceVersion=action.resource_version
                )
                return await self._apply(f"{path}/status", document, CONTROLLER_MANAGER)
            case SetFinalizers():
                kind = "application/merge-patch+json"
                return await self._connection.send(
                    "PATCH",
                    path,
                    _finalizers(action),
                    content_type=kind,
                    patient=False,
                    fieldManager=CONTROLLER_MANAGER,
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


def _finalizers(action: SetFinalizers) -> dict[str, Any]:
    metadata = {
        "uid": action.uid,
        "resourceVersion": action.resource_version,
        "finalizers": list(action.finalizers) or None,
    }
    return {"metadata": metadata}
