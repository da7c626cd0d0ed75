"""The only way for a reconciler to write: limited by the lease, and never over a newer state.

A request is not retried here. A 429 of a busy server is an error, and the reconciler decides again whether
the write is still needed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from podium.api.groups import CONTROLLER_MANAGER
from podium.controllers.actions import Action, ApplyConditions, ApplyGroup, CreateGroup, SetFinalizers
from podium.errors import PodiumError
from podium.kube.connection import Connection
from podium.kube.preconditions import StaleError, conditions_document, fenced, group_path
from podium.kube.reading import decode

# The field manager of auto groups; other fields belong to the reconciler's manager.
GROUP_MANAGER = "podium-auto-groups"

# The metric label of each action.
_WHAT: Mapping[type[Action], str] = {
    ApplyConditions: "conditions",
    SetFinalizers: "finalizer",
    CreateGroup: "group",
    ApplyGroup: "group",
}


# All values of the metric's labels.
WRITES = frozenset(_WHAT.values())
RESULTS = ("written", "gone", "conflict", "failed")


class _WrittenMetadata(msgspec.Struct):
    resourceVersion: str = "0"


class _Answer(msgspec.Struct):
    metadata: _WrittenMetadata


class Writer:
    """Performs actions while `remaining` (seconds) is positive, and counts each result."""

    def __init__(
        self, connection: Connection, remaining: Callable[[], float], counted: Callable[[str, str], None]
    ) -> None:
        """`counted` receives the kind of write and its result, from WRITES and RESULTS."""
        self._connection = connection
        self._remaining = remaining
        self._counted = counted

    async def perform(self, action: Action) -> int:
        """Write, and return the object's new resourceVersion.

        Raises StaleError if the object changed after the decision, and RefusedError if the server refuses.
        Raises LeaseOverError if the lease ended first, and PodiumError without an answer.
        """
        kind = _WHAT[type(action)]
        try:
            body = await fenced(self._remaining, lambda: self._send(action))
        except StaleError as error:
            self._counted(kind, "gone" if error.gone else "conflict")
            raise
        except PodiumError:
            self._counted(kind, "failed")
            raise
        self._counted(kind, "written")
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
