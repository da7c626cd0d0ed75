"""Return what a file would add to a cluster, as the objects that would exist a moment later.

A plan is about pods and groups, but a user may ask about a Job that does not exist yet. The Job is therefore
expanded into its pods, and into its group if a controller would create one. Each object passes the admission
of a server (`podium.rules.admission`), because its priority decides everything. Other objects of the file on
which a plan depends (nodes, budgets, classes, claims) are added unchanged.

Nothing is guessed. An object that a server would refuse, or that creates no pods by itself, is left out with
the error that names its file and field. If nothing else can be planned, that error is raised.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from podium.answers.expansion.added import Added, converted, read_added
from podium.answers.expansion.additions import Additions, selected_keys
from podium.answers.expansion.createdclaims import (
    CreatedClaims,
    VolumeTemplate,
    ephemeral_templates,
    stateful_templates,
    with_claims,
)
from podium.answers.expansion.createdgroups import (
    ControllerGroup,
    creator_of,
    groups_for,
    has_groups,
    make_gangs,
    scheduling_groups,
)
from podium.answers.expansion.createdpods import (
    MOST_PODS,
    admitting_nodes,
    created_pods,
    for_node,
    nodes_of_daemon_sets,
    pods_of_deployments,
    rollout_surge,
)
from podium.api.core import SchedulingGroup
from podium.api.findings import ObjectRef, group_of
from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of, membership
from podium.api.meta import ObjectMeta
from podium.api.minors import group_minor, minor_of, named
from podium.api.podkinds.created import Batch, CreatedPods, uid_of
from podium.api.podkinds.kind import PodOwner, is_left_alone
from podium.api.podkinds.workloads import DaemonSet
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable, SchedulableNode, SchedulableSpec, SchedulableStatus
from podium.cluster.reader import Target, name_of
from podium.cluster.state import ClusterState, Readable
from podium.documents.document import Document
from podium.groups import autogroups
from podium.groups.inferred import KUEUE_QUEUE
from podium.groups.trees import flaw, group_at, leaves, root_key
from podium.minors.minor import CLAIMS, COMPOSITE, Minor
from podium.rules.admission import Profile
from podium.rules.clientchecks import unknown_fields
from podium.text import count, listed, some

# Kinds that decide the admission of others come first, in any order of the file.
_FIRST = (Kind.NAMESPACE, Kind.PRIORITY_CLASS, Kind.WORKLOAD, Kind.COMPOSITE_GROUP, Kind.POD_GROUP)
# Kinds of objects that controllers bind to each other.
_BOUND = (Kind.CLAIM, Kind.VOLUME, Kind.RESOURCE_CLAIM)
MOST_NOTES = 20


class _BatchKey(NamedTuple):
    """A batch: the object of the file that makes it, its controller, role and replica."""

    owner: ObjectRef
    controller: str
    role: str
    replica: int | None


class Expansion(NamedTuple):
    """The objects for the index, what waits, and notes for the reader.

    `ended` are pods of the cluster that end before all of the file's are placed. `targets` are the groups and
    the pods without a group, each with the object of the file that brings it. A tree of composite groups is
    one target, with its root.
    `unplanned` are the objects of the file that cannot be planned, each with the reason.
    """

    objects: tuple[Readable, ...]
    targets: Mapping[Target, ObjectRef]
    notes: tuple[str, ...]
    unplanned: Mapping[ObjectRef, str] = {}
    ended: tuple[Schedulable, ...] = ()

    def apply(self, state: ClusterState) -> None:
        """Add the objects to a cluster."""
        for pod in self.ended:
            state.remove(pod)
        for obj in self.objects:
            state.apply(obj)


class _AdmittedTemplate(NamedTuple):
    """An admitted pod of a template, from which its copies are made, and whether they join a gang.

    Each copy has claims of its own for the `stateful` and the `ephemeral` volumes.
    """

    spec: SchedulableSpec
    labels: Mapping[str, str]
    annotations: dict[str, str] | None
    joins: bool
    stateful: tuple[VolumeTemplate, ...]
    ephemeral: tuple[VolumeTemplate, ...]


def expand(
    documents: Iterable[Document],
    state: ClusterState,
    now: str,
    profile: Profile,
    labels: frozenset[str] | None = None,
    *,
    strict: bool = False,
) -> Expansion:
    """Return the objects that a file would add to `state`, which is not changed.

    `now` (RFC 3339) is their creation time; `labels` are the labels that a dump has (`Loaded.labels`). Raises
    PodiumError for more than MOST_PODS pods. An object that a server of this profile refuses, that cannot be
    planned, or that selects by a label that the dump left out, is left out. With `strict`, or if nothing of
    the file can be planned, it is an error.
    """
    added, notes = read_added(documents, now, strict=strict)
    for gate, refs, shown in (
        (COMPOSITE, _native_trees(added), any(key.native for key in state.composites)),
        (CLAIMS, _groups_with_claims(added), any(group.claims for group in state.groups.values())),
    ):
        if not shown:
            notes += [f"{ref}: planned as with the gate {gate}" for ref in refs]
        if refs or shown:
            profile = msgspec.structs.replace(profile, gates=profile.gates | {gate})
    return _Expander(Additions(state, now, profile, labels, notes, strict=strict)).expand(added)


def _native_trees(added: Iterable[Added]) -> list[ObjectRef]:
    """Return the composite groups of the file that a server has only with its gate on."""
    return [obj.ref for obj in added if obj.ref.kind == COMPOSITE and obj.ref.group == NATIVE_GROUP]


def _groups_with_claims(added: Iterable[Added]) -> list[ObjectRef]:
    """Return the native groups of the file with resource claims, which a server has only with its gate on."""
    return [
        obj.ref
        for obj in added
        if (obj.read.kind, group_of(obj.document.apiVersion)) == (Kind.POD_GROUP, NATIVE_GROUP)
        and (obj.value.get("spec") or {}).get("resourceClaims")
    ]


class _Expander:
    """Adds the objects of one file to the visible part of the cluster, step by step."""

    def __init__(self, additions: Additions) -> None:
        self._additions = additions
        self._notes = additions.notes
        self._profile = additions.profile
        self._admitted: dict[tuple[ObjectRef, str], _AdmittedTemplate] = {}
        self._owners: dict[ObjectRef, PodOwner] = {}
        # Pods that joined the group of their gang, which does not exist yet.
        self._joined: dict[GroupKey, list[Schedulable]] = {}
        self._claims = CreatedClaims(additions)
        # The nodes of the cluster and the file, those with pods of each DaemonSet of the cluster, and the
        # number of pods of DaemonSets so far.
        self._nodes: dict[str, SchedulableNode] = {}
        self._daemon_nodes: dict[ObjectRef, set[str]] = {}
        self._daemon_pods = 0
        # The pods of the cluster's Deployments, read for the first Deployment that exists already.
        self._deployed: dict[ObjectRef, list[Schedulable]] | None = None

    def expand(self, added: list[Added]) -> Expansion:
        for obj in added:
            if obj.read.kind in (Kind.POD, Kind.OWNER):
                with self._additions.leaving_out(obj.ref):
                    self._note_unknown_fields(obj)
        of = {kind: [obj for obj in added if obj.read.kind is kind] for kind in Kind}
        for kind in _FIRST:
            for obj in of[kind]:
                with self._additions.leaving_out(obj.ref):
                    namespace = kind is Kind.NAMESPACE
                    self._additions.store(
                        obj.typed()
                        if namespace
                        else self._additions.admission.stored(obj.document, obj.read, obj.value)
                    )
        if any(obj.ref.kind == "DaemonSet" for obj in of[Kind.OWNER]):
            self._read_nodes(of[Kind.NODE])
        creators: list[tuple[Added, CreatedPods]] = []
        for obj in of[Kind.OWNER]:
            with self._additions.leaving_out(obj.ref):
                creators.append((obj, self._created(obj)))
        given = self._groups_of_workloads(of[Kind.WORKLOAD], creators)
        given |= self._groups_of_jobs(creators)
        for obj in of[Kind.POD]:
            with self._additions.leaving_out(obj.ref):
                self._add_pod(obj)
        for obj, pods in creators:
            if obj.ref not in self._additions.unplanned:
                with self._additions.leaving_out(obj.ref):
                    self._add_batches(obj, pods, given)
        for obj in added:
            if obj.read.kind not in (*_FIRST, Kind.OWNER, Kind.POD):
                with self._additions.leaving_out(obj.ref):
                    self._add_other(obj)
        self._claims.create()
        make_gangs(self._additions, self._joined, self._owners)
        targets = targets_of(self._additions)
        if not targets:
            for error in self._additions.unplanned.values():
                raise error
        if self._additions.replaced:
            self._notes.append(f"replaces stored objects: {some(self._additions.replaced)}")
        notes = list(dict.fromkeys(self._notes))
        if len(notes) > MOST_NOTES:
            notes[MOST_NOTES:] = [f"and {len(notes) - MOST_NOTES:,} more notes"]
        unplanned = {ref: str(error) for ref, error in self._additions.unplanned.items()}
        return Expansion(
            tuple(self._additions.objects), targets, tuple(notes), unplanned, tuple(self._additions.ended)
        )

    def _note_unknown_fields(self, added: Added) -> None:
        """Note the fields that no server knows, such as a misspelt class. With strict they are an error."""
        for field in unknown_fields(added.value, minor_of(self._profile.kubernetes) or 0):
            if self._additions.strict:
                raise added.document.error(f"unknown field{field.hint}", field.path)
            self._notes.append(f"{added.ref}: unknown field {field.path}{field.hint}")

    def _add_other(self, added: Added) -> None:
        """Add an object that decides no admission, such as a node or a budget.

        A claim or volume that the cluster has keeps its binding, whatever the file says.
        """
        value = added.read.neutral(added.typed())
        if added.read.kind in _BOUND and self._additions.state.holds(value):
            self._notes.append(f"{added.ref} exists already and stays as it is")
            return
        keys = selected_keys([value])
        self._additions.admission.check_labels(
            added.document, (("spec.selector", key) for key in sorted(keys))
        )
        self._additions.store(value)

    def _created(self, added: Added) -> CreatedPods:
        """Add an owner, and return the pods that it creates."""
        creator, stored = added.owner(), self._additions.state.owners.get(added.ref)
        if stored is not None:
            # Its pods name its UID.
            creator.metadata.uid = stored.metadata.uid
        if isinstance(creator, DaemonSet):
            pods = self._daemon_set(added, creator)
        else:
            pods = added.placed(created_pods, creator, added.value)
            if stored is not None and added.ref.kind == "Deployment":
                self._roll_out(added, sum(len(batch.copies) for batch in pods.batches))
            elif stored is not None and added.ref.kind != "StatefulSet":
                # Pods of a StatefulSet keep their names, so those of the cluster are replaced.
                self._notes.append(f"{added.ref} exists already; its pods stay, beside the added ones")
        self._notes += pods.notes
        queue = (creator.metadata.labels or {}).get(KUEUE_QUEUE)
        if queue and pods.batches:
            self._notes.append(f"{added.ref}: planned as if Kueue had admitted it (queue {queue})")
        owner = creator.neutral()
        self._owners[owner.ref] = owner
        self._additions.objects.append(owner)
        return pods

    def _roll_out(self, added: Added, replicas: int) -> None:
        """End the old pods of a Deployment that its rollout ends before it creates the last new pod."""
        if self._deployed is None:
            self._deployed = pods_of_deployments(self._additions.state)
        old = self._deployed.get(added.ref, [])
        if not old:
            return
        surge = rollout_surge(added.value, replicas)
        staying = min(surge, len(old))
        ended = len(old) - staying
        self._additions.ended += old[:ended]
        clauses = [f"{count(ended, 'old pod')} of {len(old):,} end first"] if ended else []
        if staying:
            clauses.append(f"{count(staying, 'old pod')} can be victims of the last new pod")
        self._notes.append(f"{added.ref} exists already: in its rollout (maxSurge {surge}) {listed(clauses)}")

    def _read_nodes(self, added: Iterable[Added]) -> None:
        """Read the nodes of the cluster and the file, and which of them have pods of DaemonSets."""
        state = self._additions.state
        self._nodes = {name: node for name, node in state.nodes.items() if isinstance(node, SchedulableNode)}
        for obj in added:
            with self._additions.leaving_out(obj.ref):
                self._nodes[obj.ref.name] = converted(obj.document, obj.value, SchedulableNode, "")
        self._daemon_nodes = nodes_of_daemon_sets(state.pods.values())

    def _daemon_set(self, added: Added, creator: DaemonSet) -> CreatedPods:
        """Return the pods of a DaemonSet on the nodes that admit them. Raises ReadError."""
        template = creator.template_documents(added.value).get("spec.template") or {}
        spec = converted(added.document, template.get("spec") or {}, SchedulableSpec, "spec.template.spec")
        nodes = admitting_nodes(spec, self._nodes.values(), self._daemon_nodes.get(added.ref, frozenset()))
        self._daemon_pods += len(nodes.admitting)
        if self._daemon_pods > MOST_PODS:
            problem = f"{added.ref} brings the file to {self._daemon_pods:,} pods of DaemonSets"
            raise added.document.error(f"{problem}. The maximum is {MOST_PODS:,}")
        notes = [f"{added.ref}: no pod on {nodes.reasons}"] if nodes.others else []
        return CreatedPods((creator.created_on(nodes.admitting),), tuple(notes))

    # Pods.

    def _add_pod(self, added: Added) -> None:
        """Add a pod of the file; a pod that is on a node already is not changed."""
        pod, joins = self._additions.admission.admit_pod(added.document, added.value)
        sent: Schedulable = added.typed()
        pod.metadata.uid, pod.metadata.creationTimestamp = sent.metadata.uid, self._additions.now
        if pod.spec.nodeName:
            pod.metadata.creationTimestamp = sent.metadata.creationTimestamp
            pod.metadata.deletionTimestamp = sent.metadata.deletionTimestamp
            pod.status = sent.status
        elif sent.status is not None and pod.status is not None:
            pod.status.resourceClaimStatuses = sent.status.resourceClaimStatuses
        ephemeral = ephemeral_templates(added, added.value.get("spec"), "spec")
        self._claims.check_number(added, 1, len(ephemeral), pod.spec)
        self._claims.collect(pod, (), ephemeral)
        self._add(added, pod, joins=joins)

    def _add_batches(self, added: Added, pods: CreatedPods, given: Mapping[_BatchKey, GroupKey]) -> None:
        """Add all pods of an owner, or none if a template is refused; `given` are the groups of batches."""
        batches = [(batch, given.get(_batch_key(added.ref, batch))) for batch in pods.batches if batch.copies]
        for batch, group in batches:
            template = self._admit_template(added, batch, group)
            volumes = len(template.stateful) + len(template.ephemeral)
            self._claims.check_number(added, len(batch.copies), volumes, template.spec)
        for batch, group in batches:
            self._add_copies(added, batch, group)

    def _add_copies(self, added: Added, batch: Batch, given: GroupKey | None) -> None:
        """Add the pods of one batch; `given` is the group that a Workload assigns to them."""
        template = self._admit_template(added, batch, given)
        spec = template.spec
        if given is not None and given.native:
            spec = msgspec.structs.replace(spec, schedulingGroup=SchedulingGroup(given.name))
        label = {GROUP_LABEL: given.name} if given is not None and not given.native else {}
        namespace = added.ref.namespace
        for copy in batch.copies:
            metadata = ObjectMeta(
                name=copy.name,
                namespace=namespace,
                uid=uid_of("Pod", namespace, copy.name),
                creationTimestamp=self._additions.now,
                labels={**template.labels, **copy.labels, **label},
                annotations=template.annotations,
                ownerReferences=[batch.controller],
            )
            own = with_claims(for_node(spec, copy.node) if copy.node else spec, template.stateful, copy.name)
            pod = Schedulable(metadata=metadata, spec=own, status=SchedulableStatus(phase="Pending"))
            self._claims.collect(pod, template.stateful, template.ephemeral)
            self._add(added, pod, joins=template.joins)

    def _admit_template(self, added: Added, batch: Batch, given: GroupKey | None) -> _AdmittedTemplate:
        """Return the admitted first copy of a template, for all copies: admission treats them alike."""
        known = self._admitted.get((added.ref, batch.template))
        if known is not None:
            return known
        value = self._first_pod(added, batch, given)
        pod, joins = self._additions.admission.admit_pod(added.document, value, batch.template)
        own = {GROUP_LABEL, *batch.copies[0].labels} if joins else batch.copies[0].labels
        labels = {key: text for key, text in (pod.metadata.labels or {}).items() if key not in own}
        path = self._owners[added.ref].spec_path(batch.template)
        template = _AdmittedTemplate(
            pod.spec,
            labels,
            pod.metadata.annotations,
            joins,
            stateful_templates(added, batch.claims),
            ephemeral_templates(added, value["spec"], path),
        )
        self._admitted[added.ref, batch.template] = template
        return template

    def _first_pod(self, added: Added, batch: Batch, given: GroupKey | None) -> dict[str, Any]:
        """Return the first pod of a batch as its controller would send it."""
        template = added.owner().template_documents(added.value).get(batch.template)
        if template is None:
            raise added.document.error("is missing; its pods have no spec", batch.template)
        meta = template.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), **batch.copies[0].labels}
        spec = template.get("spec")
        if given is not None and given.native:
            spec = {**(spec or {}), "schedulingGroup": {"podGroupName": given.name}}
        elif given is not None:
            labels[GROUP_LABEL] = given.name
        metadata = {
            "name": batch.copies[0].name,
            "namespace": added.ref.namespace,
            "labels": labels,
            "annotations": meta.get("annotations"),
            "ownerReferences": [msgspec.to_builtins(batch.controller)],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _add(self, source: Added, pod: Schedulable, *, joins: bool) -> None:
        """Add a pod of an object of the file, in the group of its gang if it joins."""
        gang = autogroups.gang_of(pod) if joins else None
        if gang is not None:
            pod.metadata.labels = {**(pod.metadata.labels or {}), GROUP_LABEL: gang.group_name}
            key = GroupKey(False, pod.metadata.namespace or "", gang.group_name)
            self._joined.setdefault(key, []).append(pod)
        self._additions.store_pod(source, pod)

    # Groups.

    def _groups_of_workloads(
        self, workloads: list[Added], creators: list[tuple[Added, CreatedPods]]
    ) -> dict[_BatchKey, GroupKey]:
        """Create the groups of Workloads whose groups are not in the file; return the group of each batch."""
        given: dict[_BatchKey, GroupKey] = {}
        groups = [group for group in self._additions.objects if isinstance(group, PodGroup)]
        for added in workloads:
            if added.ref in self._additions.unplanned or has_groups(
                added.read.neutral(added.typed()), groups
            ):
                continue
            with self._additions.leaving_out(added.ref):
                owner, pods = added.placed(creator_of, added, creators)
                with self._additions.leaving_out(owner.ref):
                    requested = added.placed(
                        groups_for, added, owner, pods, native_served=self._profile.workload_api
                    )
                    given |= self._create_groups(added, owner, requested)
        return given

    def _groups_of_jobs(self, creators: list[tuple[Added, CreatedPods]]) -> dict[_BatchKey, GroupKey]:
        """Create the groups that controllers would create for spec.scheduling of Jobs and JobSets."""
        given: dict[_BatchKey, GroupKey] = {}
        for added, pods in creators:
            owner = self._owners[added.ref]
            if not owner.job_scheduling:
                continue
            if not self._has_job_groups():
                self._notes.append(f"{added.ref}: planned without the groups of {some(owner.job_scheduling)}")
                continue
            with self._additions.leaving_out(added.ref):
                given |= self._groups_of_job(added, pods, owner)
        return given

    def _groups_of_job(self, added: Added, pods: CreatedPods, owner: PodOwner) -> dict[_BatchKey, GroupKey]:
        """Create the groups of one Job or JobSet; return the group of each batch."""
        asked: list[ControllerGroup] = added.placed(list, scheduling_groups(added, pods))
        groups = []
        for group in asked:
            path = "spec.scheduling" if group.path.startswith("spec.scheduling") else group.path
            scheduling = owner.job_scheduling[path]
            note = f"planned as with the gate {scheduling.gate} ({group.path})"
            if is_left_alone(path, scheduling, self._minor):
                name = named(self._minor.number)
                note = f"planned without the group of {path}: {name} creates none for a Job with an owner"
            else:
                groups.append(group)
            if f"{added.ref}: {note}" not in self._notes:
                self._notes.append(f"{added.ref}: {note}")
        return self._create_groups(added, added, groups)

    def _create_groups(
        self, added: Added, owner: Added, groups: Iterable[ControllerGroup]
    ) -> dict[_BatchKey, GroupKey]:
        """Create groups that an object asks for, if they do not exist; return the group of each batch."""
        given: dict[_BatchKey, GroupKey] = {}
        for group in groups:
            if group.key not in self._additions.seen.groups:
                self._additions.store_group(added.document, group.document)
            given |= dict.fromkeys((_batch_key(owner.ref, batch) for batch in group.batches), group.key)
        return given

    def _has_job_groups(self) -> bool:
        """Return whether the server knows spec.scheduling of Jobs."""
        return self._profile.workload_api and self._minor.job_scheduling

    @property
    def _minor(self) -> Minor:
        return group_minor(self._profile.minor)


def _batch_key(owner: ObjectRef, batch: Batch) -> _BatchKey:
    return _BatchKey(owner, batch.controller.name, batch.role, batch.replica)


def targets_of(additions: Additions) -> dict[Target, ObjectRef]:
    """Return the groups or trees in which pods of the file wait, and pods without a group.

    Each has the object of the file that brings it; a tree is its own. A pod whose group or composite group
    does not exist is left out.
    """
    seen = additions.seen
    targets: dict[Target, ObjectRef] = {}
    # The groups of pods that wait.
    waiting: set[GroupKey] = set()
    for pod in additions.objects:
        if not isinstance(pod, Schedulable) or not pod.pending:
            continue
        name = name_of(pod)
        source = additions.brought[name]
        if source.ref in additions.unplanned:
            continue
        key = membership(pod, native_served=additions.profile.workload_api)
        if key is None:
            targets.setdefault(name, source.ref)
            continue
        problem = _problem(seen, key)
        if problem:
            whole = source.document.error(f"Pod {pod.metadata.name} names {problem}")
            additions.leave_out(source.ref, whole)
            continue
        waiting.add(key)
        _add_root(targets, seen, key, source.ref)
    for group in additions.objects:
        if not isinstance(group, PodGroup | CompositeGroup) or flaw(seen, group):
            continue
        key = key_of(group)
        below = [key_of(leaf) for leaf in leaves(seen, key)]
        if any(pod.pending for leaf in below for pod in additions.state.members(leaf).values()):
            waiting.add(key)
            _add_root(targets, seen, key, group.ref)
        elif not waiting.intersection(below):
            additions.notes.append(f"{group.ref} has no pending pods. Add them")
    return targets


def _problem(seen: ClusterState, key: GroupKey) -> str:
    """Return the group of a pod with the reason why it has no plan, empty if it has one."""
    group = seen.groups.get(key)
    if group is None:
        return f"PodGroup {key.name}, which does not exist. Add it"
    flawed = flaw(seen, group)
    return f"PodGroup {key.name}, but {flawed}. Correct the tree" if flawed else ""


def _add_root(targets: dict[Target, ObjectRef], seen: ClusterState, key: GroupKey, source: ObjectRef) -> None:
    """Add a group, or for a group of a tree the root, which is its own source."""
    top = root_key(seen, key)
    root = group_at(seen, top)
    targets.setdefault(top, root.ref if root is not None and top.composite else source)
