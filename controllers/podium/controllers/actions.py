"""What a reconciler wants done, as values: deciding is pure, and only the writer talks to the API server.

Every write names the object it was decided from by UID and resourceVersion. Whoever decided from an older
moment, a leader that was paused past its lease among them, is refused by the API server and can overwrite
nothing that is newer.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from podium.api.meta import Condition
from podium.findings import ObjectRef


class ApplyConditions(msgspec.Struct, frozen=True):
    """All conditions of ours that a group shall have; none takes away those that it has."""

    ref: ObjectRef
    uid: str
    resource_version: str
    conditions: tuple[Condition, ...]


class SetFinalizers(msgspec.Struct, frozen=True):
    """The whole list of finalizers that an object shall have."""

    ref: ObjectRef
    uid: str
    resource_version: str
    finalizers: tuple[str, ...]


class CreateGroup(msgspec.Struct, frozen=True):
    """A PodGroup that shall be made, if none has its name."""

    ref: ObjectRef
    document: Mapping[str, Any]


class ApplyGroup(msgspec.Struct, frozen=True):
    """All that we say of a PodGroup of ours; its metadata has uid and resourceVersion."""

    ref: ObjectRef
    document: Mapping[str, Any]


Action = ApplyConditions | SetFinalizers | CreateGroup | ApplyGroup


class Decision(msgspec.Struct, frozen=True):
    """What to do now; `again` is in how many seconds to look anew though nothing changes, None for never."""

    actions: tuple[Action, ...] = ()
    again: float | None = None
