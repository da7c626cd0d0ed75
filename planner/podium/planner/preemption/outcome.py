"""The plan as values for a reader, a report or an executor, free of the snapshot's rows.

These values are also the JSON of `podium whatif`, so the field names are those of the JSON. Names of pods are
`namespace/name`. A plan contains everything that was decided, and nothing else is needed to explain it.

A report for a tenant names objects of other namespaces by UID only. Names cannot be removed reliably from a
finished sentence, because a name may be any word. So the code that writes a sentence gets a function that
names objects, and `TenantNames` replaces names in values. Nodes and classes belong to the cluster and keep
their names.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from podium.api.core import Pod, PodDisruptionBudget
from podium.api.findings import Finding, ObjectRef
from podium.api.membership import GroupKey
from podium.api.podkinds.kind import PodOwner
from podium.api.podkinds.workloads import JOB_KEY
from podium.cluster.reader import Child, ClusterReader
from podium.planner.semantics import Semantics


class Outcome(StrEnum):
    """The result for the preemptor."""

    FITS = "Fits"
    FITS_AFTER_PREEMPTION = "FitsAfterPreemption"
    # Pods end by themselves within the time that it waits before a preemption.
    FITS_AFTER_WAIT = "FitsAfterWait"
    DOES_NOT_FIT = "DoesNotFit"
    # It may not preempt, or may not be scheduled at present; the message says why.
    NOT_ELIGIBLE = "NotEligible"
    # It asks for something that the engine does not support, so it may fit or not.
    NOT_JUDGED = "NotJudged"


# The results with a place for all that is needed.
GOOD = (Outcome.FITS, Outcome.FITS_AFTER_WAIT, Outcome.FITS_AFTER_PREEMPTION)


class ClaimVolumePlan(msgspec.Struct, frozen=True):
    """A claim of a pod that is bound when the pod is: to a volume, or (empty) to a provisioned one."""

    claim: str
    volume: str


class DevicePlan(msgspec.Struct, frozen=True):
    """A device for a request of a claim (`request`, or `request/subrequest`)."""

    request: str
    driver: str
    pool: str
    device: str


class ClaimDevicesPlan(msgspec.Struct, frozen=True):
    """A claim of a pod that is allocated when the pod is bound."""

    name: str
    results: tuple[DevicePlan, ...]


class Placed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The node on which a pod of the preemptor would run, and the volumes and devices of its claims."""

    pod: str
    node: str
    volumes: tuple[ClaimVolumePlan, ...] = ()
    claims: tuple[ClaimDevicesPlan, ...] = ()


class UnitPod(msgspec.Struct, frozen=True):
    """A pod of a unit, and the node it runs on."""

    name: str
    node: str


class UnitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of preemption (`kind` Pod, PodGroup or CompositePodGroup) and why it is a victim, or spared.

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

    `violations` are pods evicted beyond what budgets allow. `acceleratorSeconds` is the work lost, and
    `acceleratorSecondsSaved` what would be lost too if no victim declared that it saves its work.
    """

    violations: int
    levels: tuple[HarmLevel, ...]
    acceleratorSeconds: int
    acceleratorSecondsSaved: int = 0

    @property
    def pods(self) -> int:
        """The number of pods to be evicted."""
        return sum(level.pods for level in self.levels)

    @property
    def units(self) -> int:
        """The number of units to be evicted."""
        return sum(level.units for level in self.levels)


class DomainVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A topology domain for a group: its room, and the result if the group could use no other domain.

    `free` and `capacity` are numbers of needed pods of the group that have room: now, and at most without all
    units that may be evicted. They are None if there is no quick answer. `message` is for a person.
    """

    name: str
    chosen: bool
    nodes: int
    free: int | None
    capacity: int | None
    outcome: Outcome
    harm: PlanHarm | None
    message: str


class PlanTopology(msgspec.Struct, frozen=True):
    """The topology domains of a group: the label, their `count`, and those that were compared, best first."""

    key: str
    count: int
    domains: tuple[DomainVerdict, ...]


class NodeReason(msgspec.Struct, frozen=True):
    """Why `nodes` nodes are no place for the preemptor, with some of their names."""

    reason: str
    count: int
    examples: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one preemptor.

    `minimalPriority` is N of the spec. It and `harm` are None if nothing is preempted. `topology` is None
    without a topology constraint.
    """

    semantics: Semantics
    outcome: Outcome
    message: str
    minimalPriority: int | None = None
    harm: PlanHarm | None = None
    topology: PlanTopology | None = None
    placements: tuple[Placed, ...] = ()
    victims: tuple[UnitVerdict, ...] = ()
    spared: tuple[UnitVerdict, ...] = ()
    nodes: tuple[NodeReason, ...] = ()
    findings: tuple[Finding, ...] = ()


class WorkloadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of the plans for one object of the input, such as a Job.

    `pods` are its waiting pods, and `placed` those that get a node. `message` is that of the plan that
    decides the outcome.
    """

    kind: str
    namespace: str
    name: str
    priority: int
    pods: int
    placed: int
    outcome: Outcome
    message: str
    harm: PlanHarm | None

    @property
    def fits(self) -> bool:
        """Return whether all of it fits, with or without preemption."""
        return self.outcome in GOOD

    def __str__(self) -> str:
        """Return kind and name: `Job team-a/train`."""
        return f"{self.kind} {self.namespace}/{self.name}"


# Returns the words for an object of a kind (Pod, PodGroup, PodDisruptionBudget), namespace and name.
ObjectNamer = Callable[[str, str, str], str]

NO_UID = "(no UID)"
_HIDDEN = "The object has an invalid or unsupported value."

_Named = Pod | Child | PodDisruptionBudget | PodOwner


def full_name(kind: str, namespace: str, name: str) -> str:  # noqa: ARG001 - a ObjectNamer takes it
    """Return the plain name of an object: `namespace/name`."""
    return f"{namespace}/{name}"


class TenantNames:
    """Names objects for one tenant: its own objects by name, those of other namespaces by UID."""

    def __init__(self, view: ClusterReader, tenant: str) -> None:
        self._view = view
        self.tenant = tenant

    def name(self, kind: str, namespace: str, name: str) -> str:
        """Return the words for an object in a sentence (a ObjectNamer)."""
        return f"{namespace}/{name}" if namespace == self.tenant else self.uid(kind, namespace, name)

    def uid(self, kind: str, namespace: str, name: str) -> str:
        """Return an object's UID, or words for none: manifests that never were on a server have none."""
        named = self._find(kind, namespace, name)
        return (named.metadata.uid if named is not None else None) or NO_UID

    def redact_plan(self, plan: Plan) -> Plan:
        """Return a plan with replaced identities; its sentences must be written with `name`."""
        return msgspec.structs.replace(
            plan,
            placements=tuple(map(self._placement, plan.placements)),
            victims=tuple(map(self.unit, plan.victims)),
            spared=tuple(map(self.unit, plan.spared)),
            findings=tuple(map(self.finding, plan.findings)),
        )

    def unit(self, unit: UnitVerdict) -> UnitVerdict:
        """Return a unit with its pods, by UID if it is in another namespace."""
        if unit.namespace == self.tenant:
            return unit
        pods = tuple(UnitPod(self.uid("Pod", unit.namespace, pod.name), pod.node) for pod in unit.pods)
        name = self.uid(unit.kind, unit.namespace, unit.name)
        return msgspec.structs.replace(unit, namespace="", name=name, pods=pods)

    def finding(self, finding: Finding) -> Finding:
        """Return a finding without names and quotes of other namespaces; the cluster's own stays."""
        ref = finding.object
        if ref.namespace in ("", self.tenant):
            return finding
        hidden = ObjectRef(ref.apiVersion, ref.kind, "", self.uid(ref.kind, ref.namespace, ref.name))
        # A finding quotes the wrong value, which may be a label or any other text of another tenant.
        return msgspec.structs.replace(finding, object=hidden, field="", message=_HIDDEN)

    def _placement(self, placed: Placed) -> Placed:
        namespace, _, name = placed.pod.partition("/")
        return msgspec.structs.replace(placed, pod=self.name("Pod", namespace, name))

    def _find(self, kind: str, namespace: str, name: str) -> _Named | None:
        view, key = self._view, (namespace, name)
        match kind:
            case "Pod":
                return view.pods.get(key)
            case "PodGroup":
                return view.groups.get(GroupKey(True, *key)) or view.groups.get(GroupKey(False, *key))
            case "CompositePodGroup":
                native, ours = (GroupKey(is_native, *key, composite=True) for is_native in (True, False))
                return view.composites.get(native) or view.composites.get(ours)
            case "PodDisruptionBudget":
                return view.budgets.get(key)
            case "Job":
                return view.owners.get(ObjectRef(*JOB_KEY, *key))
            case _:
                return None
