"""The parts that every Kubernetes object has: identity, labels, owners, conditions.

Reads have only fields that Podium uses, and no constraints: a limit is a rule with upstream's text.
Kubernetes treats null in any field as absent, so every optional field may be None.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from podium.api.times import written

# The width in JSON, not a rule: an API server cannot decode a wider number either (400).
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """The owner of an object."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, gc=False):
    """metadata, as far as it is read; times are RFC 3339 strings as stored (UTC, so they compare as text)."""

    name: str | None = None
    generateName: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None
    generation: Int64 | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: Int64 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[OwnerReference] | None = None

    def identity(self) -> "ObjectMeta":
        """Return the part that identifies the object and its version, with its deletion timestamp."""
        return ObjectMeta(
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            resourceVersion=self.resourceVersion,
            deletionTimestamp=self.deletionTimestamp,
        )

    def controller(self) -> OwnerReference | None:
        """Return the owner that controls this object, or None."""
        for owner in self.ownerReferences or ():
            if owner.controller:
                return owner
        return None


class Condition(msgspec.Struct, gc=False):
    """metav1.Condition; an absent field is its Go zero value for validation, None here."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    lastTransitionTime: str | None = None
    observedGeneration: Int64 | None = None


class LabelSelectorRequirement(msgspec.Struct, gc=False):
    """An expression of a selector."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, gc=False):
    """metav1.LabelSelector: empty selects everything, absent nothing (its reader decides)."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[LabelSelectorRequirement] | None = None


def instant(text: str) -> datetime:
    """Return a time as in objects (RFC 3339, with a zone). Raises msgspec.ValidationError."""
    return msgspec.convert(text, _Time)


def timed(condition: Condition, stored: Condition | None, now: datetime) -> Condition:
    """Return a condition with the time of its last change; a clock that runs behind never moves it back."""
    moment = written(now)
    if stored is not None and stored.lastTransitionTime:
        held = stored.lastTransitionTime
        moment = held if stored.status == condition.status else max(moment, held)
    return msgspec.structs.replace(condition, lastTransitionTime=moment)
