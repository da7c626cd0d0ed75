"""What a plan says: values for a reader, a report or an executor, free of the snapshot's rows.

They are the JSON of `podium whatif` too, so the field names are the wire's. Names of pods are
`namespace/name`; a plan tells everything that was decided, and nothing else has to be asked to explain it.
"""

from enum import StrEnum

import msgspec

from podium.findings import Finding

API_VERSION = "cli.podium.dev/v1"


class Outcome(StrEnum):
    """What becomes of the preemptor."""

    FITS = "Fits"
    FITS_AFTER_PREEMPTION = "FitsAfterPreemption"
    DOES_NOT_FIT = "DoesNotFit"
    # It may not preempt, or cannot be judged; the message says why.
    NOT_ELIGIBLE = "NotEligible"


class Semantics(StrEnum):
    """Whose rules decide: the spec's, a kube-scheduler release's, or plain pod preemption (gates off)."""

    KEP = "kep"
    V1_36 = "1.36"
    V1_37 = "1.37"
    PODS = "pods"


class Placed(msgspec.Struct, frozen=True):
    """Where a pod of the preemptor would stand."""

    pod: str
    node: str


class UnitPod(msgspec.Struct, frozen=True):
    """A pod of a unit, and the node it runs on."""

    name: str
    node: str


class UnitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of preemption (`kind` Pod or PodGroup) and why it is taken, or spared.

    `violatesBudget` says that taking it would leave a PodDisruptionBudget with too few. `reason` is a
    sentence for a person.
    """

    kind: str
    namespace: str
    name: str
    priority: int
    pods: tuple[UnitPod, ...]
    violatesBudget: bool
    reason: str


class HarmLevel(msgspec.Struct, frozen=True):
    """The victims of one priority: units, and their pods."""

    priority: int
    units: int
    pods: int


class PlanHarm(msgspec.Struct, frozen=True):
    """What a plan costs others (`harm`); levels come from the highest priority down.

    `violations` are pods evicted beyond what budgets allow. `acceleratorSeconds` is the work lost.
    """

    violations: int
    levels: tuple[HarmLevel, ...]
    acceleratorSeconds: int

    @property
    def pods(self) -> int:
        """The pods that go."""
        return sum(level.pods for level in self.levels)

    @property
    def units(self) -> int:
        """The units that go."""
        return sum(level.units for level in self.levels)


class NodeReason(msgspec.Struct, frozen=True):
    """Why so many nodes are no place for the preemptor, with some of their names."""

    reason: str
    count: int
    examples: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one preemptor.

    `minimalPriority` is N of the spec. It and `harm` are None where nothing is preempted.
    """

    semantics: Semantics
    outcome: Outcome
    message: str
    minimalPriority: int | None = None
    harm: PlanHarm | None = None
    placements: tuple[Placed, ...] = ()
    victims: tuple[UnitVerdict, ...] = ()
    spared: tuple[UnitVerdict, ...] = ()
    nodes: tuple[NodeReason, ...] = ()
    findings: tuple[Finding, ...] = ()
