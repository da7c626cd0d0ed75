"""The scheduler's effects as values: deciding is pure, and only a shell carries the effects out.

Every effect names pods by UID, so it cannot hit a later pod of the same name.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.membership import GroupKey
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, Name
from podium.planner.engine import Engine
from podium.planner.liveplugin import PreBindWrite

# An entry, which is scheduled as one: a lone pod, or a group or tree of groups with all its pods.
Key = Name | GroupKey
_GROUPS = {True: NATIVE_GROUP, False: PODIUM_GROUP}
_KINDS = {True: "compositepodgroup", False: "podgroup"}


def entry_name(key: Key) -> str:
    """Return the name of an entry: `pod/NAMESPACE/NAME`, or `podgroup.APIGROUP/NAMESPACE/NAME`.

    A tree has the name of its root: `compositepodgroup.APIGROUP/NAMESPACE/NAME`.
    """
    if isinstance(key, GroupKey):
        return f"{_KINDS[key.composite]}.{_GROUPS[key.native]}/{key.namespace}/{key.name}"
    return "/".join(("pod", *key))


def entry_of(name: str) -> Key | None:
    """Return the entry of a name that `entry_name` returned; None for any other text."""
    kind, _, rest = name.partition("/")
    namespace, slash, own = rest.partition("/")
    if not slash or not namespace or not own:
        return None
    if kind == "pod":
        return namespace, own
    keys = (GroupKey(native, namespace, own, composite) for native in _GROUPS for composite in _KINDS)
    return next((key for key in keys if entry_name(key) == name), None)


class Moment(NamedTuple):
    """The present: `now` is the wall clock in UTC, `seconds` a steady clock."""

    now: datetime
    seconds: float


class PodRef(NamedTuple):
    """A pod, identified by its UID."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> Name:
        """Return the key of this pod in a State."""
        return self.namespace, self.name


# Pods, each with the name of its node.
Placements = tuple[tuple[PodRef, str], ...]


def pod_ref(pod: Schedulable) -> PodRef:
    """Return the reference of a pod."""
    return PodRef(pod.metadata.namespace or "", pod.metadata.name or "", pod.metadata.uid or "")


def stored_pod(view: ClusterReader, ref: PodRef) -> Schedulable | None:
    """Return a pod as it is stored, None if it is gone or another pod has its name."""
    pod = view.pods.get(ref.key)
    return pod if isinstance(pod, Schedulable) and pod.metadata.uid == ref.uid else None


def ref_at(engine: Engine, row: int) -> PodRef:
    """Return the reference of the pod of a row."""
    return pod_ref(engine.snapshot.pod_at(row))


def placements(engine: Engine, placed: Mapping[int, int]) -> Placements:
    """Return the pods (rows) that are placed on nodes (rows), in this order, with the names of the nodes."""
    return tuple((ref_at(engine, row), engine.snapshot.node_name(node)) for row, node in placed.items())


class Bind(NamedTuple):
    """Bind pods to nodes; all of them are assumed there already."""

    key: Key
    pods: Placements


class PreBind(NamedTuple):
    """Write what has to be stored before a bind; the answer has the number of the decision (`prebinds`)."""

    key: Key
    number: int
    writes: tuple[PreBindWrite, ...]


class UndoPreBind(NamedTuple):
    """Undo these writes, and answer with the number of the decision."""

    key: Key
    number: int
    writes: tuple[PreBindWrite, ...]


class Preemptor(NamedTuple):
    """The pod or group that needs room.

    `kind` is `pod`, `podgroup` or `compositepodgroup`, as in kube-scheduler's messages.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    priority: int


class Unit(NamedTuple):
    """Pods that are evicted together: `kind` is that of a pod or group, `pods` its members to be deleted.

    `saves` are the accelerator-seconds that its declaration saves.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    priority: int
    pods: tuple[PodRef, ...]
    saves: int = 0


class Evict(NamedTuple):
    """A preemption: the nominations of the preemptor's pods, and the units to evict.

    `cleared` are pods of ours of lower priority whose nominations to these nodes end. `domain` is a node's
    name, or `cluster`. `violations` and `work` (accelerator-seconds) are its harm, and `saved` is the work
    that declarations save. `resumed` says that an earlier process began it. `again` says that this process
    began it, and does not know which victims are terminating already. `refused` are victims whose eviction
    failed before, and `doubted` are the others of their namespaces: they are deleted first, in this order,
    so that no other victim goes in vain.
    """

    key: Key
    preemptor: Preemptor
    nominations: Placements
    units: tuple[Unit, ...]
    domain: str
    message: str
    cleared: tuple[PodRef, ...] = ()
    violations: int = 0
    work: int = 0
    saved: int = 0
    resumed: bool = False
    again: bool = False
    refused: tuple[PodRef, ...] = ()
    doubted: tuple[PodRef, ...] = ()

    @property
    def victims(self) -> tuple[PodRef, ...]:
        """Return all pods to be deleted, unit by unit."""
        return tuple(pod for unit in self.units for pod in unit.pods)


class RefusedVictim(NamedTuple):
    """Report that a victim could not be evicted, and why; if `final`, a repetition would fail, too."""

    pod: PodRef
    why: str
    final: bool


class ReportPending(NamedTuple):
    """Report to pods, or all pods of a group, why they wait; `nominated` are the nodes reserved for some.

    A pod that is not in `nominated` has no reserved node any more. `gated` says that no attempt was made to
    place the pods.
    """

    key: Key
    pods: tuple[PodRef, ...]
    reason: str
    message: str
    nominated: Placements = ()
    gated: bool = False


class Planned(NamedTuple):
    """A preemption that would be carried out if preemption were not only observed."""

    evict: Evict


class Held(NamedTuple):
    """A preemption that has to wait: for the eviction rate, or (`circle`) until an eviction cycle cools."""

    evict: Evict
    circle: bool


class Unmark(NamedTuple):
    """Withdraw marks of pods and groups that an earlier process wrote, and that no preemption needs."""

    pods: tuple[PodRef, ...]
    groups: tuple[GroupKey, ...] = ()


class Rejected(NamedTuple):
    """A pod of ours that a kubelet rejected for lack of room; `reason` is such as OutOfcpu."""

    pod: PodRef
    reason: str


class TimedOut(NamedTuple):
    """A decision that was aborted because it exceeded the time budget, in seconds."""

    key: Key
    seconds: float


class Disagreed(NamedTuple):
    """The condition PodsNotMatchingPriority of a group, with this status, began to contradict its pods."""

    key: Key
    condition: str


Effect = (
    Bind
    | PreBind
    | UndoPreBind
    | Evict
    | ReportPending
    | Planned
    | Held
    | Unmark
    | Rejected
    | RefusedVictim
    | TimedOut
    | Disagreed
)
