"""PreemptionRecord: what was preempted for whom, or would have been, many plans an object.

Conditions of pods are what a scheduler goes by after a restart; these are for people, who ask weeks later who
lost what to whom. So they say all that names would not tell any more: priorities, numbers and owners as they
were. Words are plain text here, for a newer scheduler may know more of them.
"""

from enum import StrEnum

import msgspec

from podium.api.groups import PODIUM_GROUP
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind, Read, Reads, same

RECORD_VERSION = f"{PODIUM_GROUP}/v1beta1"
RECORD_KIND = "PreemptionRecord"
RECORD_PLURAL = "preemptionrecords"

# The domain of a plan that was not made for one node.
CLUSTER = "cluster"

# How much one object holds: the schema's limits, and what a writer keeps to.
MAX_PLANS = 100
MAX_UNITS = 100
MAX_RESOURCES = 32
MAX_TEXT = 1024


class Mode(StrEnum):
    """Whether a plan was carried out, only observed, or made for a pod of another scheduler."""

    ENFORCED = "Enforced"
    OBSERVED = "Observed"
    SHADOW = "Shadow"


class Result(StrEnum):
    """What became of a plan: all of it was done, not all of it, or nothing was to be done."""

    EVICTED = "Evicted"
    FAILED = "Failed"
    PLANNED = "Planned"


class Agreement(StrEnum):
    """What the other scheduler did where a shadow planned."""

    SAME = "Same"
    # As many other pods, of the same priorities: where several plans cost the same, chance decides.
    ALIKE = "Alike"
    OTHER_VICTIMS = "OtherVictims"
    # It preempted nobody while the pod waited.
    THEY_DID_NOT = "TheyDidNot"
    # It preempted where there was no plan, or no need of one.
    WE_WOULD_NOT = "WeWouldNot"
    # Its victims were told to go before the plan was made, so the two saw another cluster.
    TOO_LATE = "TooLate"
    # The pod was gone before it could be told.
    UNKNOWN = "Unknown"


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """What makes a pod or group, and makes it anew."""

    kind: str
    name: str
    uid: str = ""


class Party(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who preempts, or is preempted: a Pod or a PodGroup, how many pods of it, and its controller, if any."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    priority: int = 0
    pods: int = 1
    owner: Owner | None = None


class RecordedPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One plan. `time` is RFC 3339 in UTC; the words are those of Mode, Result and Agreement.

    `units` names at most MAX_UNITS of `unitCount`, with `podCount` pods in all, which hold `accelerators` by
    resource. `violations` and `acceleratorSeconds` are its harm. `milliseconds` is how long it took to carry
    out. `theirPods` is how many pods the other scheduler preempted where a shadow planned.
    """

    time: str
    mode: str
    result: str
    message: str = ""
    preemptor: Party
    domain: str = ""
    units: tuple[Party, ...] = ()
    unitCount: int = 0
    podCount: int = 0
    accelerators: dict[str, int] = {}
    violations: int = 0
    acceleratorSeconds: int = 0
    milliseconds: int = 0
    agreement: str = ""
    theirPods: int = 0


class PreemptionRecord(msgspec.Struct):
    """scheduling.podium.dev/v1beta1 PreemptionRecord; the one of the highest `sequence` is being filled."""

    apiVersion: str = RECORD_VERSION
    kind: str = RECORD_KIND
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    sequence: int = 0
    plans: list[RecordedPlan] = []


# Apart from READS: no rule and no plan looks at the past.
RECORD_READS: Reads = {
    (RECORD_VERSION, RECORD_KIND): Read(Kind.PREEMPTION_RECORD, PreemptionRecord, RECORD_PLURAL, same),
}
