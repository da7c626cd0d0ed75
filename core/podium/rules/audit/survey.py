"""What the rules share, gathered in one walk over the pods and one over the groups.

A cluster of a hundred thousand pods must be audited in a second, so no rule walks all pods by itself: the
survey counts them by (class, integer), keeps the few that a rule may name, and judges each group once. A rule
that finds something may then look at pods again, for its findings are few.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import OwnerReference
from podium.api.reads import Kind
from podium.divergence import Divergence, judge
from podium.findings import Finding, ObjectRef
from podium.inference import infer
from podium.rules.audit.capacity import Capacity, Part, Shortfall
from podium.view import View

DEFAULT_SCHEDULER = "default-scheduler"
PODIUM_SCHEDULER = "podium-scheduler"


def scheduler_of(pod: Pod) -> str:
    """Give the scheduler a pod asks for."""
    return pod.spec.schedulerName or DEFAULT_SCHEDULER


class Found(NamedTuple):
    """A finding, and what to do in words that findings of one cause share (empty: the finding's own fix)."""

    finding: Finding
    remedy: str = ""


class ClassUse(NamedTuple):
    """What live pods store: a class name (empty for none) and an integer (None where none was stored)."""

    class_name: str
    priority: int | None


class SurveyedGroup(msgspec.Struct, gc=False):
    """A group that exists or that pods reference, with its members.

    `present` are the members that have not finished, `staying` those of them that are not terminating,
    `schedulers` what these name. `group` and `divergence` are None where the group does not exist, `parts`
    where sizes were not looked at, `shortfall` where the group could fit.
    """

    key: GroupKey
    ref: ObjectRef
    group: PodGroup | None
    present: list[Pod]
    staying: list[Pod]
    schedulers: set[str]
    finished: int
    divergence: Divergence | None
    parts: list[Part] | None
    shortfall: Shortfall | None

    @property
    def torn(self) -> bool:
        """Whether kube-scheduler 1.37 refuses members because of other members' schedulerName, as it stands.

        It counts only its own pods towards minCount, and once another scheduler has placed a member it
        refuses the rest. A basic group that nobody has begun to place is not refused yet.
        """
        if len(self.schedulers) < 2 or self.group is None:
            return False
        least = self.group.min_count
        shares = Counter(scheduler_of(pod) for pod in self.staying)
        begun = {bool(pod.spec.nodeName) for pod in self.staying}
        return len(begun) == 2 or (least is not None and max(shares.values()) < least)


class InferredGroup(msgspec.Struct, gc=False):
    """Pods that seem to be a group, of which some differ from the commonest integer."""

    ref: ObjectRef
    present: list[Pod]
    divergence: Divergence


class Survey:
    """One walk's harvest over a view; the audit speaks for Kubernetes 1.`minor`.

    `selected` says that only what a label selector matches was read, so that a missing object may be there.
    """

    def __init__(self, view: View, minor: int, *, selected: bool = False) -> None:
        self.view = view
        self.minor = minor
        self.selected = selected
        self.kubernetes = f"1.{minor}"
        self.live = 0
        self.uses: dict[ClassUse, int] = {}
        self.uncontrolled: list[Pod] = []
        self._chains: dict[tuple[str, OwnerReference], tuple[ObjectRef, ...]] = {}
        self._walk_pods()
        self.capacity = Capacity(view.nodes.values())
        self.groups = list(self._walk_groups())

    def read(self, kind: Kind) -> bool:
        """Whether a kind was read: only then does an empty collection mean that none exist."""
        return kind not in self.view.unread

    def group_ref(self, key: GroupKey) -> ObjectRef:
        """Name a group that was never seen by the version that the audited minor serves."""
        version = "v1alpha2" if key.native and self.minor <= 36 else "v1beta1"
        return ObjectRef(
            f"{NATIVE_GROUP if key.native else PODIUM_GROUP}/{version}", "PodGroup", key.namespace, key.name
        )

    def pods_storing(self, uses: Iterable[ClassUse]) -> dict[ClassUse, list[Pod]]:
        """Give the live pods that store certain (class, integer) pairs."""
        wanted: dict[ClassUse, list[Pod]] = {use: [] for use in uses}
        if wanted:
            for pod in self.view.pods.values():
                found = wanted.get(ClassUse(pod.spec.priorityClassName or "", pod.spec.priority))
                if found is not None and not pod.finished:
                    found.append(pod)
        return wanted

    def chain(self, pod: Pod) -> tuple[ObjectRef, ...]:
        """Give a pod's controllers, nearest first, as far as the owners that were read lead."""
        controller = pod.metadata.controller()
        if controller is None:
            return ()
        key = (pod.metadata.namespace or "", controller)
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = tuple(_controllers(self.view, controller, key[0]))
        return chain

    def owner(self, pod: Pod) -> ObjectRef | None:
        """Give the topmost controller of a pod that is known, or None without one."""
        chain = self.chain(pod)
        return chain[-1] if chain else None

    def owners(self, pods: Iterable[Pod]) -> list[ObjectRef]:
        """Give the distinct topmost controllers of pods, in order."""
        return sorted({owner for owner in map(self.owner, pods) if owner is not None})

    @cached_property
    def inferred(self) -> list[InferredGroup]:
        """Give the divergent groups that pods seem to form, where there is no PodGroup at all."""
        if self.view.groups:
            return []
        live = (pod for pod in self.view.pods.values() if not pod.finished)
        groups = []
        for ref, pods in infer(live, self.view.owners).items():
            if len(pods) > 1:
                divergence = judge(None, pods)
                if divergence.priority.divergent:
                    groups.append(InferredGroup(ref, pods, divergence))
        return groups

    def _walk_pods(self) -> None:
        counts: dict[tuple[str | None, int | None], int] = {}
        for pod in self.view.pods.values():
            if pod.finished:
                continue
            spec = pod.spec
            use = (spec.priorityClassName, spec.priority)
            counts[use] = counts.get(use, 0) + 1
            owners = pod.metadata.ownerReferences
            if not owners or not (owners[0].controller or pod.metadata.controller()):
                self.uncontrolled.append(pod)
        self.live = sum(counts.values())
        for (name, priority), number in counts.items():
            use = ClassUse(name or "", priority)
            self.uses[use] = self.uses.get(use, 0) + number

    def _walk_groups(self) -> Iterator[SurveyedGroup]:
        view = self.view
        referenced = view.referenced_groups()
        classes = view.classes if self.read(Kind.PRIORITY_CLASS) else None
        sizes = self.read(Kind.NODE)
        nobody: Mapping[str, Pod] = {}
        for key in view.groups.keys() | referenced.keys():
            group = view.groups.get(key)
            members = referenced.get(key, nobody)
            present = [pod for pod in members.values() if not pod.finished]
            staying = [pod for pod in present if pod.metadata.deletionTimestamp is None]
            parts = shortfall = None
            if sizes and group is not None and group.min_count is not None:
                parts = self.capacity.parts(present)
                shortfall = self.capacity.shortfall(parts, group.min_count)
            yield SurveyedGroup(
                key=key,
                ref=self.group_ref(key) if group is None else group.ref,
                group=group,
                present=present,
                staying=staying,
                schedulers={scheduler_of(pod) for pod in staying},
                finished=len(members) - len(present),
                divergence=None if group is None else judge(group, present, classes),
                parts=parts,
                shortfall=shortfall,
            )


def _controllers(view: View, owner: OwnerReference | None, namespace: str) -> Iterator[ObjectRef]:
    # A loop of owners cannot be made through the API; the bound keeps a broken dump from hanging.
    for _ in range(10):
        if owner is None:
            return
        ref = ObjectRef(owner.apiVersion, owner.kind, namespace, owner.name)
        yield ref
        made = view.owners.get(ref)
        owner = made.metadata.controller() if made is not None else None
