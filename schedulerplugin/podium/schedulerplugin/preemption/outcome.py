"""The plan as values for a reader, a report or an executor, free of the snapshot's rows.

These values are also the JSON of `podium whatif`, so the field names are those of the JSON. Names of pods are
`namespace/name`. A plan contains everything that was decided, and nothing else is needed to explain it.
"""

from enum import StrEnum

import msgspec

from podium.findings import Finding

API_VERSION = "cli.podium.dev/v1"


class Outcome(StrEnum):
    """The result for the preemptor."""

    FITS = "Fits"
    FITS_AFTER_PREEMPTION = "FitsAfterPreemption"
    DOES_NOT_FIT = "DoesNotFit"
    # It may not preempt, or cannot be evaluated; the message says why.
    NOT_ELIGIBLE = "NotEligible"


class Semantics(StrEnum):
    """The rules in force: the spec's, a kube-scheduler release's, or plain pod preemption (gates off)."""

    KEP = "kep"
    V1_36 = "1.36"
    V1_37 = "1.37"
    PODS = "pods"


class Placed(msgspec.Struct, frozen=True):
    """The node on which a pod of the preemptor would run."""

    pod: str
    node: str


class UnitPod(msgspec.Struct, frozen=True):
    """A pod of a unit, and the node it runs on."""

    name: str
    node: str


class UnitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of preemption (`kind` Pod or PodGroup) and why it is a victim, or spared.

    `violatesBudget` says that its eviction would leave a PodDisruptionBudget with too few pods. `reason` is a
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
    """The cost of a plan to others (`harm`); levels come from the highest priority down.

    `violations` are pods evicted beyond what budgets allow. `acceleratorSeconds` is the work lost.
    """

    violations: int
    levels: tuple[HarmLevel, ...]
    acceleratorSeconds: int

    @property
    def pods(self) -> int:
        """The number of pods to be evicted."""
        return sum(level.pods for level in self.levels)

    @property
    def units(self) -> int:
        """The number of units to be evicted."""
        return sum(level.units for level in self.levels)


class NodeReason(msgspec.Struct, frozen=True):
    """Why `nodes` nodes are no place for the preemptor, with some of their names."""

    reason: str
    count: int
    examples: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one preemptor.

    `minimalPriority` is N of the spec. It and `harm` are None if nothing is preempted.
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
