"""PreemptionRecord: the preemptors and victims of preemptions, real or planned; one object holds many plans.

A scheduler uses the conditions of pods after a restart. Records are for people, who look up preemptors and
victims weeks later. Names alone would not be enough then, so records store the priorities, numbers and owners
of that time. Enumerations are plain text here, because a newer scheduler may have more values.
"""

from enum import StrEnum

import msgspec

from podium.api.groups import PODIUM_GROUP
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind, Read, Reads, same

RECORD_VERSION = f"{PODIUM_GROUP}/v1beta1"
RECORD_KIND = "PreemptionRecord"
RECORD_PLURAL = "preemptionrecords"

# The domain of a plan that is not for one node.
CLUSTER = "cluster"

# The maximum size of one object: the schema's limits, which a writer observes.
MAX_PLANS = 100
MAX_UNITS = 100
MAX_RESOURCES = 32
MAX_TEXT = 1024


class PlanMode(StrEnum):
    """The mode of a plan: carried out, or only observed."""

    ENFORCED = "Enforced"
    OBSERVED = "Observed"


class Result(StrEnum):
    """The result of a plan: carried out, carried out in part, or not meant to be carried out."""

    EVICTED = "Evicted"
    FAILED = "Failed"
    PLANNED = "Planned"


class Saving(StrEnum):
    """The answer of a unit that was asked to save its work: a checkpoint in time, or none."""

    SAVED = "Saved"
    FAILED = "Failed"


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """The owner of a pod or group, which recreates it."""

    kind: str
    name: str
    uid: str = ""


class Party(msgspec.Struct, frozen=True, omit_defaults=True):
    """A preemptor or victim: a Pod or a PodGroup, its number of pods, and its controller, if any.

    `saving` is one of Saving for a victim that was asked to save its work and had the time that it declares,
    else empty.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    priority: int = 0
    pods: int = 1
    owner: Owner | None = None
    saving: str = ""


class RecordedPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A recorded plan. `time` is RFC 3339 in UTC; enumerations are those of PlanMode and Result.

    `units` lists at most MAX_UNITS of `unitCount` victims, with `podCount` pods in all, which hold
    `accelerators` by resource or driver. `violations` and `acceleratorSeconds` are its harm, and
    `acceleratorSecondsSaved` is what it would be more without declarations. `milliseconds` is the duration of
    its execution, and `waitedMilliseconds` the part of it for the `askedPods`, of which `savedPods` saved.
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
    acceleratorSecondsSaved: int = 0
    milliseconds: int = 0
    askedPods: int = 0
    savedPods: int = 0
    waitedMilliseconds: int = 0


class PreemptionRecord(msgspec.Struct):
    """scheduling.podium.dev/v1beta1 PreemptionRecord; the scheduler appends to the highest `sequence`."""

    apiVersion: str = RECORD_VERSION
    kind: str = RECORD_KIND
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    sequence: int = 0
    plans: list[RecordedPlan] = []


# Not part of READS, because no rule and no plan reads records.
RECORD_READS: Reads = {
    (RECORD_VERSION, RECORD_KIND): Read(Kind.PREEMPTION_RECORD, PreemptionRecord, RECORD_PLURAL, same),
}
