"""The data that the rules share, gathered in one walk over the pods.

A cluster of a hundred thousand pods must be audited in a second, and the cost is in touching a pod at all. No
rule therefore walks all pods, or the members of a group without a problem. The one walk, in the order in
which the pods were read, collects for each group the data that tell whether to look closer. A rule that finds
a problem then reads the pods, because its findings are few.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from podium.api import saving
from podium.api.core import Pod
from podium.api.devices import provided_resources
from podium.api.findings import Finding, ObjectRef
from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP, CompositeGroup, PodGroup
from podium.api.membership import GroupKey, group_name, key_of, parent_key
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.minors import group_minor, named, served_versions
from podium.api.priority import effective_policy
from podium.api.reads import Kind
from podium.audit import capacity
from podium.cluster.reader import Child, ClusterReader
from podium.groups.divergence import Divergence, measure_divergence
from podium.groups.inferred import infer, owners_by_labels
from podium.groups.planned import PlannedPods, planned_pods
from podium.groups.trees import Unlike, lineage, members_below, tree, unlike_groups

# The trees of composite groups, as their objects name each other.
#
# No API server compares these objects. So a tree may be as deep as there are objects, or a cycle. No walk
# here recurses, and each visits an object once.


class GroupTrees:
    """The composite groups of a view, and the groups and composite groups below each."""

    def __init__(self, view: ClusterReader) -> None:
        self.composites = view.composites
        self._children = view.children

    @cached_property
    def cycles(self) -> Mapping[GroupKey, tuple[GroupKey, ...]]:
        """Return each cycle by its first key."""
        cycles = {}
        # The walk that came to each composite group first, by where it began.
        walks: dict[GroupKey, GroupKey] = {}
        for start in self.composites:
            key: GroupKey | None = start
            while key is not None and key not in walks:
                walks[key] = start
                key = self._above(key)
            if key is not None and walks[key] == start:
                ring = sorted(self._ring(key))
                cycles[ring[0]] = tuple(ring)
        return cycles

    @property
    def roots(self) -> Iterator[tuple[GroupKey, CompositeGroup]]:
        """Yield the composite groups without a parent."""
        return ((key, group) for key, group in self.composites.items() if not group.composite)

    def below(self, key: GroupKey) -> Iterator[Child]:
        """Yield all groups and composite groups below a root, depth first; a root is in no cycle."""
        left = [*reversed(self._below(key))]
        while left:
            child = left.pop()
            yield child
            left += reversed(self._children_of(child))

    def levels(self, key: GroupKey) -> int:
        """Return the number of levels of the tree of a root."""
        levels, level = 1, self._below(key)
        while level:
            levels, level = levels + 1, [below for parent in level for below in self._children_of(parent)]
        return levels

    def _above(self, key: GroupKey) -> GroupKey | None:
        """Return the parent of a composite group, None if it has none or the parent is absent."""
        parent = parent_key(self.composites[key])
        return parent if parent in self.composites else None

    def _ring(self, first: GroupKey) -> Iterator[GroupKey]:
        """Yield the composite groups of a cycle, from one of them on."""
        key: GroupKey | None = first
        while key is not None:
            yield key
            key = self._above(key)
            if key == first:
                return

    def _children_of(self, group: Child) -> list[Child]:
        return self._below(key_of(group)) if isinstance(group, CompositeGroup) else []

    def _below(self, key: GroupKey) -> list[Child]:
        return [*self._children.get(key, {}).values()]


_SAVING = frozenset(saving.KEYS)
# The access mode of claims that one pod may use.
ONE_POD = "ReadWriteOncePod"


class AuditFinding(NamedTuple):
    """A finding, and the remedy that findings of one cause share (empty: the finding's own fix)."""

    finding: Finding
    remedy: str = ""


class StoredValues(msgspec.Struct, eq=False, gc=False):
    """The stored values that members of one group should share; one object for each combination."""

    class_name: str
    priority: int | None
    policy: str | None
    scheduler: str
    sample: Pod
    pods: int = 0


class SurveyedGroup(msgspec.Struct, gc=False):
    """A group that exists or that pods reference, with the counts of its members.

    `live` members are not finished, `leaving` ones of them are terminating; the others stay, and `oldest` is
    the earliest creation of these. Nearly all members of nearly all groups have equal values and requests.
    Therefore the first combination has its own field, and only further ones are collected. `group` and
    `divergence` are None if the group does not exist, `shortfall` if the group could fit.
    """

    key: GroupKey
    group: PodGroup | None
    ref: ObjectRef
    members: Mapping[str, Pod]
    sized: bool
    live: int = 0
    leaving: int = 0
    oldest: str = "~"
    labelled_otherwise: bool = False
    first_stored: StoredValues | None = None
    other_stored: set[StoredValues] | None = None
    first_shape: capacity.PodShape | None = None
    other_shapes: dict[capacity.PodShape, int] | None = None
    divergence: Divergence | None = None
    shortfall: capacity.Shortfall | None = None

    @property
    def stored(self) -> list[StoredValues]:
        """Return the stored values of the staying members; empty if no member stays."""
        first = [self.first_stored] if self.first_stored is not None else []
        return first + list(self.other_stored or ())

    @property
    def shapes(self) -> dict[capacity.PodShape, int]:
        """Return the number of live members by request, if sizes matter."""
        other_counts = self.other_shapes or {}
        first = {} if self.first_shape is None else {self.first_shape: self.live - sum(other_counts.values())}
        return {**first, **other_counts}

    @property
    def present(self) -> list[Pod]:
        """Return the members that are not finished."""
        return [pod for pod in self.members.values() if not pod.finished]

    @property
    def staying(self) -> list[Pod]:
        """Return the members that are neither finished nor terminating."""
        return [pod for pod in self.present if pod.metadata.deletionTimestamp is None]

    @property
    def schedulers(self) -> set[str]:
        """Return the schedulerNames of the staying members."""
        return {stored.scheduler for stored in self.stored}

    def is_split(self, minor: int) -> bool:
        """Return whether kube-scheduler 1.`minor` now holds members back because of other schedulerNames.

        1.36 counts its own pods and those already placed towards minCount. 1.37 counts its own, and refuses
        the rest once another scheduler has placed a member. A basic group without a placed member is not
        refused yet.
        """
        if self.group is None or len(self.schedulers) < 2:
            return False
        staying = self.staying
        own = Counter(pod.scheduler for pod in staying)
        placed = Counter(pod.scheduler for pod in staying if pod.spec.nodeName)
        least = self.group.min_count or 0
        if minor <= 36:
            return max(own[name] + placed.total() - placed[name] for name in own) < least
        return 0 < placed.total() < len(staying) or max(own.values()) < least


class InferredGroup(msgspec.Struct, gc=False):
    """Pods that seem to be a group, of which some differ from the most common integer."""

    ref: ObjectRef
    present: list[Pod]
    divergence: Divergence


class Survey:
    """The result of one walk over a view; the audit is for Kubernetes 1.`minor`.

    `selected` means that only the matches of a label selector were read, so an object may exist without being
    read.
    """

    def __init__(self, view: ClusterReader, minor: int, *, selected: bool = False) -> None:
        self.view = view
        # The kinds without a conclusion from absence, each with the reason.
        self.unread = dict(view.unread)
        nodes = [node.metadata for node in view.nodes.values()]
        if nodes and _mostly_stored(nodes) and not is_populated(view):
            self.unread.setdefault(Kind.NODE, "only a sample among manifests")
        self.minor = minor
        self.selected = selected
        self.kubernetes = named(minor)
        provided = provided_resources(view.device_classes.values())
        self.capacity = capacity.ClusterCapacity(view.nodes.values(), minor, provided)
        # Live pods without a controller, and live pods that name no group.
        self.uncontrolled: list[Pod] = []
        self.ungrouped: list[Pod] = []
        # Live pods with an annotation about saving work.
        self.declaring: list[Pod] = []
        # Live pods with spread constraints, and the numbers of all and of those without labels by namespace.
        self.spreading: list[Pod] = []
        self.live, self.unlabelled = Counter[str](), Counter[str]()
        # The domains without and with the empty one.
        self._by_rule: dict[bool, capacity.TopologyDomains] = {}
        self._chains: dict[tuple[str, OwnerReference], tuple[ObjectRef, ...]] = {}
        self._groups: dict[tuple[bool, str, str, bool], SurveyedGroup] = {
            key: self._group(key, group) for key, group in view.groups.items()
        }
        self.stored = self._walk()
        self.groups = list(self._groups.values())
        self._compare()

    def read(self, kind: Kind) -> bool:
        """Return whether a kind was read: only then does an empty collection mean that none exist."""
        return kind not in self.unread

    @cached_property
    def of_cluster(self) -> bool:
        """Return whether the input is from a cluster, perhaps with some manifests."""
        return is_of_cluster(self.view)

    def absent(self, kind: Kind, namers: Iterable[ObjectMeta]) -> bool:
        """Return whether an object of a kind does not exist if the input lacks it.

        A folder of manifests may have objects that were exported from a cluster. Therefore a server has
        stored most objects of the kind, and one of those that name the absent object or most of the others.
        """
        return kind in self._stored_kinds and (any(namer.uid for namer in namers) or self.of_cluster)

    @cached_property
    def _stored_kinds(self) -> frozenset[Kind]:
        """Return the kinds of objects that others name, if a server has stored most objects of the kind."""
        view = self.view
        named: dict[Kind, Iterable[ObjectMeta]] = {
            Kind.PRIORITY_CLASS: (priority_class.metadata for priority_class in view.classes.values()),
            Kind.POD_GROUP: (group.metadata for group in view.groups.values()),
            Kind.NODE: (node.metadata for node in view.nodes.values()),
            Kind.DEVICE_CLASS: (device_class.metadata for device_class in view.device_classes.values()),
            Kind.RESOURCE_SLICE: (
                resource_slice.metadata for resource_slice in view.resource_slices.values()
            ),
        }
        return frozenset(kind for kind, objects in named.items() if _mostly_stored(objects))

    def group_ref(self, key: GroupKey) -> ObjectRef:
        """Return the identity of a group that was not read, in the version that the audited minor serves."""
        version = served_versions(self.minor)[0] if key.native else "v1beta1"
        group = NATIVE_GROUP if key.native else PODIUM_GROUP
        return ObjectRef(f"{group}/{version}", "PodGroup", key.namespace, key.name)

    def pods_of(self, uses: Iterable[StoredValues]) -> dict[StoredValues, list[Pod]]:
        """Return the live pods that store these combinations of class and integer."""
        by_values = {(use.class_name, use.priority): use for use in uses}
        pods: dict[StoredValues, list[Pod]] = {use: [] for use in by_values.values()}
        if by_values:
            for pod in self.view.pods.values():
                use = by_values.get((pod.spec.priorityClassName or "", pod.spec.priority))
                if use is not None and not pod.finished:
                    pods[use].append(pod)
        return pods

    def chain(self, pod: Pod) -> tuple[ObjectRef, ...]:
        """Return a pod's controllers, nearest first, as far as their owners were read."""
        controller = pod.metadata.controller()
        if controller is None:
            return ()
        key = (pod.metadata.namespace or "", controller)
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = tuple(controllers(self.view, controller, key[0]))
        if chain[-1] in self.view.owners:
            return chain
        # The owner of a controller that was not read is known from the labels of the pod.
        return (*chain, *(ref for ref in owners_by_labels(pod) if ref not in chain))

    def owner(self, pod: Pod) -> ObjectRef | None:
        """Return the topmost known controller of a pod, or None without one."""
        chain = self.chain(pod)
        return chain[-1] if chain else None

    def owners(self, pods: Iterable[Pod]) -> list[ObjectRef]:
        """Return the distinct topmost controllers of pods, in order."""
        return sorted({owner for owner in map(self.owner, pods) if owner is not None})

    @cached_property
    def inferred(self) -> list[InferredGroup]:
        """Return the divergent groups that pods without a PodGroup seem to form."""
        groups = []
        for ref, pods in infer(self.ungrouped, self.view.owners).items():
            if len(pods) > 1:
                divergence = measure_divergence(None, pods)
                if divergence.priority.divergent:
                    groups.append(InferredGroup(ref, pods, divergence))
        return groups

    @cached_property
    def exclusive_claims(self) -> dict[str, set[str]]:
        """Return the names of the claims that one pod may use, by namespace."""
        claims: dict[str, set[str]] = {}
        for (namespace, name), claim in self.view.claims.items():
            if claim.spec is not None and ONE_POD in (claim.spec.accessModes or ()):
                claims.setdefault(namespace, set()).add(name)
        return claims

    @cached_property
    def pinned(self) -> dict[GroupKey, capacity.PinnedShortfall]:
        """Return the gangs that do not fit the nodes from which their volumes can be reached."""
        kinds = (Kind.POD, Kind.POD_GROUP, Kind.NODE, Kind.CLAIM, Kind.VOLUME)
        if not self.view.claims or not all(map(self.read, kinds)):
            return {}
        reachable = capacity.ReachableNodes(self.view, self.capacity, self.minor)
        pinned = {}
        for surveyed in self.groups:
            if surveyed.group is not None and surveyed.group.min_count is not None:
                short = reachable.shortfall(surveyed.staying, surveyed.group.min_count)
                if short is not None:
                    pinned[surveyed.key] = short
        return pinned

    @cached_property
    def outsized(self) -> dict[GroupKey, capacity.DomainShortfall]:
        """Return the gangs that fit no domain of their topology constraint."""
        if not all(map(self.read, (Kind.POD, Kind.POD_GROUP, Kind.NODE))):
            return {}
        outsized = {}
        for surveyed in self.groups:
            group = surveyed.group
            if group is not None and group.topology and group.min_count is not None:
                alike = len(surveyed.shapes) == 1
                short = self._domains(surveyed.key).shortfall(
                    group.topology, surveyed.staying, group.min_count, alike=alike
                )
                if short is not None:
                    outsized[surveyed.key] = short
        return outsized

    def lacks_domains(self, surveyed: SurveyedGroup) -> bool:
        """Return whether a group has a topology constraint, and no node of a cluster with nodes its label."""
        key = surveyed.group.topology if surveyed.group is not None else ""
        return bool(
            key and self.read(Kind.NODE) and self.view.nodes and not self._domains(surveyed.key).exists(key)
        )

    def has_empty_domain(self, key: GroupKey) -> bool:
        """Return whether nodes with an empty topology label are a domain for a group."""
        return key.native and not group_minor(self.minor).named_domains

    def _domains(self, key: GroupKey) -> capacity.TopologyDomains:
        empty_domain = self.has_empty_domain(key)
        if empty_domain not in self._by_rule:
            self._by_rule[empty_domain] = capacity.TopologyDomains(
                self.view.nodes, self.capacity, self.minor, empty_domain=empty_domain
            )
        return self._by_rule[empty_domain]

    @cached_property
    def trees(self) -> GroupTrees:
        """Return the trees of composite groups."""
        return GroupTrees(self.view)

    @cached_property
    def unlike_trees(self) -> dict[GroupKey, list[Unlike]]:
        """Return the groups that keep a native tree from being scheduled, by root; each has some."""
        unlike_by_root = {}
        for key, root in self.trees.roots if group_minor(self.minor).compared_trees else ():
            if key.native:
                pod = next(members_below(self.view, key), None)
                policy = effective_policy(pod.spec.preemptionPolicy) if pod is not None else None
                if unlike := list(unlike_groups(self.view, root, policy)):
                    unlike_by_root[key] = unlike
        return unlike_by_root

    def is_in_refused_tree(self, surveyed: SurveyedGroup) -> bool:
        """Return whether kube-scheduler schedules no pod of a native group because of its tree."""
        ancestry = lineage(self.view, surveyed.group) if surveyed.group is not None else None
        if ancestry is None or not ancestry.above or not ancestry.complete or not surveyed.key.native:
            return False
        root = key_of(ancestry.root)
        return root in self.unlike_trees or root in self._divergent_trees

    @cached_property
    def _divergent_trees(self) -> set[GroupKey]:
        """Return the native trees whose root has another priority than a pod, or in 1.38 than a group."""
        compared = group_minor(self.minor).compared_trees
        divergent = set()
        for key, root in self.trees.roots if self.minor >= 37 else ():
            for child in tree(self.view, key) if key.native else ():
                surveyed = self._groups.get(key_of(child))
                values = (
                    {stored.priority or 0 for stored in surveyed.stored} if surveyed is not None else set()
                )
                values |= {child.priority or 0} if compared else set()
                if values - {root.priority or 0}:
                    divergent.add(key)
        return divergent

    @cached_property
    def planned(self) -> list[PlannedPods]:
        """Return the pods to come of owners without pods, if they name a group or belong to one gang."""
        served = self.view.native_served
        candidates = [
            pods
            for pods in planned_pods(self.view.owners)
            if (pods.owner.gangs and len(pods.owner.templates) > 1) or pods.named_group(native_served=served)
        ]
        with_pods: set[ObjectRef] = set()
        for pod in self.view.pods.values() if candidates else ():
            with_pods.update(self.chain(pod), owners_by_labels(pod))
        return [pods for pods in candidates if pods.owner.ref not in with_pods]

    @cached_property
    def planned_members(self) -> dict[GroupKey, list[PlannedPods]]:
        """Return the pods that owners without pods will create, by the group that their template names."""
        members: dict[GroupKey, list[PlannedPods]] = {}
        for pods in self.planned:
            key = pods.named_group(native_served=self.view.native_served)
            if key is not None:
                members.setdefault(key, []).append(pods)
        return members

    def _walk(self) -> list[StoredValues]:
        all_stored: dict[tuple[str | None, int | None, str | None, str | None], StoredValues] = {}
        native_served = self.view.native_served
        for pod in self.view.pods.values():
            if pod.finished:
                continue
            metadata, spec = pod.metadata, pod.spec
            namespace = metadata.namespace or ""
            self.live[namespace] += 1
            if not metadata.labels:
                self.unlabelled[namespace] += 1
            if metadata.annotations and not _SAVING.isdisjoint(metadata.annotations):
                self.declaring.append(pod)
            if spec.topologySpreadConstraints:
                self.spreading.append(pod)
            key = (spec.priorityClassName, spec.priority, spec.preemptionPolicy, spec.schedulerName)
            stored = all_stored.get(key)
            if stored is None:
                stored = StoredValues(key[0] or "", key[1], key[2], pod.scheduler, pod)
                all_stored[key] = stored
            stored.pods += 1
            owners = metadata.ownerReferences
            if not owners or not (owners[0].controller or metadata.controller()):
                self.uncontrolled.append(pod)
            named = group_name(metadata, spec, native_served=native_served)
            if named is None:
                self.ungrouped.append(pod)
            else:
                self._count(pod, named, stored)
        return list(all_stored.values())

    def _count(self, pod: Pod, named: tuple[bool, str], stored: StoredValues) -> None:
        metadata = pod.metadata
        native, name = named
        key = (native, metadata.namespace or "", name, False)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._group(GroupKey(*key), None)
        group.live += 1
        if group.sized:
            shape = self.capacity.shape(pod)
            if group.first_shape is None:
                group.first_shape = shape
            elif group.first_shape is not shape:
                other_counts = group.other_shapes = group.other_shapes or {}
                other_counts[shape] = other_counts.get(shape, 0) + 1
        if native and metadata.labels and metadata.labels.get(GROUP_LABEL, name) != name:
            group.labelled_otherwise = True
        if metadata.deletionTimestamp is not None:
            group.leaving += 1
            return
        if group.first_stored is None:
            group.first_stored = stored
        elif group.first_stored is not stored:
            group.other_stored = group.other_stored or set()
            group.other_stored.add(stored)
        if metadata.creationTimestamp is not None and metadata.creationTimestamp < group.oldest:
            group.oldest = metadata.creationTimestamp

    def _group(self, key: GroupKey, group: PodGroup | None) -> SurveyedGroup:
        return SurveyedGroup(
            key=key,
            group=group,
            ref=self.group_ref(key) if group is None else group.ref,
            members=self.view.members(key),
            sized=group is not None and group.min_count is not None and self.read(Kind.NODE),
        )

    def _compare(self) -> None:
        """Compare each group with samples of its members first.

        If the samples of all stored combinations show no difference, no member differs.
        """
        classes = self.view.classes if self.read(Kind.PRIORITY_CLASS) else None
        for surveyed in self.groups:
            if surveyed.group is None:
                continue
            divergence = measure_divergence(
                surveyed.group, [stored.sample for stored in surveyed.stored], classes
            )
            if divergence.priority.differing or divergence.policy.differing:
                divergence = measure_divergence(surveyed.group, surveyed.present, classes)
            surveyed.divergence = divergence
            if surveyed.sized and surveyed.group.min_count is not None:
                surveyed.shortfall = self.capacity.shortfall(surveyed.shapes, surveyed.group.min_count)


def is_of_cluster(view: ClusterReader) -> bool:
    """Return whether a server has stored most namespaced objects of the input, so that it is no folder.

    A folder of manifests may have classes and a Node of a cluster as samples, so these do not count.
    """
    kinds = (view.pods, view.groups, view.workloads, view.owners, view.resource_claims, view.claim_templates)
    return _mostly_stored(item.metadata for objects in kinds for item in objects.values())


def is_populated(view: ClusterReader) -> bool:
    """Return whether the nodes are of a cluster: they have pods, or the input is of a cluster."""
    return any(pod.spec.nodeName in view.nodes for pod in view.pods.values()) or is_of_cluster(view)


def _mostly_stored(objects: Iterable[ObjectMeta]) -> bool:
    """Return whether a server, which gives each object a UID, has stored most objects, or there are none."""
    stored = Counter(bool(metadata.uid) for metadata in objects)
    return stored[True] > stored[False] or not stored


def topmost_owners(view: ClusterReader, pods: Iterable[Pod]) -> list[ObjectRef]:
    """Return the distinct topmost controllers of pods, in order, as `Survey.owners` does for one view."""
    chains = (
        list(controllers(view, pod.metadata.controller(), pod.metadata.namespace or "")) for pod in pods
    )
    return sorted({chain[-1] for chain in chains if chain})


def controllers(view: ClusterReader, owner: OwnerReference | None, namespace: str) -> Iterator[ObjectRef]:
    """Yield a controller and the controllers above it, nearest first, as far as they were read."""
    # The API allows no cycle of owners; the limit keeps a broken dump from an endless loop.
    for _ in range(10):
        if owner is None:
            return
        ref = ObjectRef(owner.apiVersion, owner.kind, namespace, owner.name)
        yield ref
        made = view.owners.get(ref)
        owner = made.metadata.controller() if made is not None else None
