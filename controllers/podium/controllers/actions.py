"""Actions of the reconcilers, as values: deciding is pure, and only the writer sends requests.

Every write names the object that it was decided from by UID and resourceVersion. If the decision is outdated,
the API server refuses the write, so that no newer state is overwritten. That includes a leader that was
suspended past its lease.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from podium.api.findings import ObjectRef
from podium.api.meta import Condition


class ApplyConditions(msgspec.Struct, frozen=True):
    """Apply all our conditions to a group; the stored ones are all among them."""

    ref: ObjectRef
    uid: str
    resource_version: str
    conditions: tuple[Condition, ...]


class SetFinalizers(msgspec.Struct, frozen=True):
    """Set the whole list of finalizers of an object."""

    ref: ObjectRef
    uid: str
    resource_version: str
    finalizers: tuple[str, ...]


class CreateGroup(msgspec.Struct, frozen=True):
    """Create a PodGroup or CompositePodGroup if none has its name."""

    ref: ObjectRef
    document: Mapping[str, Any]


class ApplyGroup(msgspec.Struct, frozen=True):
    """Apply all of Podium's fields to a PodGroup of Podium's; the metadata has uid and resourceVersion."""

    ref: ObjectRef
    document: Mapping[str, Any]


Action = ApplyConditions | SetFinalizers | CreateGroup | ApplyGroup


class Reconciliation(msgspec.Struct, frozen=True):
    """The actions to perform now; `again` is the seconds to a decision without a change, or None."""

    actions: tuple[Action, ...] = ()
    again: float | None = None
