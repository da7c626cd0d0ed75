"""Return what a file would add to a cluster, as the objects that would exist a moment later.

A plan is about pods and groups, but a user may ask about a Job that does not exist yet. The Job is therefore
expanded into its pods, and into its group if a controller would create one. Each object passes the admission
of a server (`podium.rules.admission`), because its priority decides everything. Other objects of the file on
which a plan depends (nodes, budgets, classes, claims) are added unchanged.

Nothing is guessed. An object that a server would refuse, or that creates no pods by itself, is left out with
the error that names its file and field. If nothing else can be planned, that error is raised.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from podium.api.core import Namespace, PriorityClass, SchedulingGroup
from podium.api.findings import ObjectRef
from podium.api.foreign import PodOwner, neutral_owner, template_documents
from podium.api.groups import GROUP_LABEL, CompositeGroup, PodGroup, Workload
from podium.api.membership import GroupKey, key_of, membership
from podium.api.meta import ObjectMeta
from podium.api.minors import minor_of
from podium.api.reads import COMPOSITE_VERSION, READS, Kind
from podium.api.schedulable import Schedulable, SchedulableSpec, SchedulableStatus
from podium.cluster.reader import Name, Target, name_of
from podium.cluster.state import ClusterState, Readable
from podium.documents.document import Document, ReadError
from podium.groups import autogroups, autotrees
from podium.groups.inferred import KUEUE_QUEUE
from podium.groups.trees import flaw, group_at, leaves, root_key
from podium.ops.added import Added, read_added
from podium.ops.admitting import AddedAdmission
from podium.ops.jobgroups import ControllerGroup, scheduling_groups
from podium.ops.makers import Batch, Made, made_by, uid_of, with_claims
from podium.ops.selecting import selected_keys
from podium.ops.workloadgroups import groups_for, has_groups, maker_of
from podium.rules.admission import Profile
from podium.rules.clientchecks import unknown_fields
from podium.rules.context import COMPOSITE
from podium.text import some

# Kinds that decide the admission of others come first, in any order of the file.
_FIRST = (Kind.NAMESPACE, Kind.PRIORITY_CLASS, Kind.WORKLOAD, Kind.COMPOSITE_GROUP, Kind.POD_GROUP)
MOST_NOTES = 20


class _BatchKey(NamedTuple):
    """A batch: the object of the file that makes it, its controller, role and replica."""

    owner: ObjectRef
    controller: str
    role: str
    replica: int | None


class Expansion(NamedTuple):
    """The objects for the index, what waits, and notes for the reader.

    `targets` are the groups and the pods without a group, each with the object of the file that brings it. A
    tree of composite groups is one target, with its root.
    `unplanned` are the objects of the file that cannot be planned, each with the reason.
    """

    objects: tuple[Readable, ...]
    targets: Mapping[Target, ObjectRef]
    notes: tuple[str, ...]
    unplanned: Mapping[ObjectRef, str] = {}


class _AdmittedTemplate(NamedTuple):
    """An admitted pod of a template, from which its copies are made, and whether they join a gang."""

    spec: SchedulableSpec
    labels: Mapping[str, str]
    annotations: dict[str, str] | None
    joins: bool


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
    gated = _native_trees(added)
    if gated and not any(key.native for key in state.composites):
        notes += [f"{ref}: planned as with the gate {COMPOSITE}" for ref in gated]
    if gated or any(key.native for key in state.composites):
        profile = msgspec.structs.replace(profile, gates=profile.gates | {COMPOSITE})
    return _Expander(state, now, profile, labels, notes, strict=strict).expand(added)


def _native_trees(added: Iterable[Added]) -> list[ObjectRef]:
    """Return the composite groups of the file that a server has only with its gate on."""
    return [
        each.ref
        for each in added
        if (each.document.apiVersion, each.document.kind) == (COMPOSITE_VERSION, COMPOSITE)
    ]


class _Expander:
    """Adds the objects of one file to the visible part of the cluster, step by step."""

    def __init__(
        self,
        state: ClusterState,
        now: str,
        profile: Profile,
        labels: frozenset[str] | None,
        notes: list[str],
        *,
        strict: bool,
    ) -> None:
        self._state = state
        self._now = now
        self._profile = profile
        self._strict = strict
        # The objects that admission reads. Pods of the cluster are not among them.
        self._seen = ClusterState(native_served=profile.workload_api)
        for index in (state.namespaces, state.classes, state.workloads, state.composites, state.groups):
            for each in index.values():
                self._seen.apply(each)
        self._objects: list[Readable] = []
        self._notes = notes
        self._admission = AddedAdmission(state, self._seen, profile, labels, self._notes)
        self._replaced: list[str] = []
        self._origins: dict[Name, Document] = {}
        # The object of the file that brings a pod.
        self._sources: dict[Name, ObjectRef] = {}
        self._admitted: dict[tuple[ObjectRef, str], _AdmittedTemplate] = {}
        self._owners: dict[ObjectRef, PodOwner] = {}
        # Pods that joined the group of their gang, which does not exist yet.
        self._joined: dict[GroupKey, list[Schedulable]] = {}
        # The groups of pods that wait.
        self._waiting: set[GroupKey] = set()
        self._unplanned: dict[ObjectRef, ReadError] = {}

    def expand(self, added: list[Added]) -> Expansion:
        for each in added:
            if each.read.kind in (Kind.POD, Kind.OWNER):
                with self._leaving_out(each.ref):
                    self._note_unknown_fields(each)
        of = {kind: [each for each in added if each.read.kind is kind] for kind in Kind}
        for kind in _FIRST:
            for each in of[kind]:
                with self._leaving_out(each.ref):
                    namespace = kind is Kind.NAMESPACE
                    self._store_object(
                        each.typed()
                        if namespace
                        else self._admission.stored(each.document, each.read, each.value)
                    )
        makers: list[tuple[Added, Made]] = []
        for each in of[Kind.OWNER]:
            with self._leaving_out(each.ref):
                makers.append((each, self._made(each)))
        given = self._groups_of_workloads(of[Kind.WORKLOAD], makers)
        given |= self._groups_of_jobs(makers)
        for each in of[Kind.POD]:
            with self._leaving_out(each.ref):
                self._add_pod(each)
        for each, made in makers:
            if each.ref not in self._unplanned:
                with self._leaving_out(each.ref):
                    self._add_batches(each, made, given)
        for each in added:
            if each.read.kind not in (*_FIRST, Kind.OWNER, Kind.POD):
                with self._leaving_out(each.ref):
                    self._add_other(each)
        self._make_gangs()
        targets = self._targets()
        if not targets:
            for error in self._unplanned.values():
                raise error
        if self._replaced:
            self._notes.append(f"replaces stored objects: {some(self._replaced)}")
        notes = list(dict.fromkeys(self._notes))
        if len(notes) > MOST_NOTES:
            notes[MOST_NOTES:] = [f"and {len(notes) - MOST_NOTES:,} more notes"]
        unplanned = {ref: str(error) for ref, error in self._unplanned.items()}
        return Expansion(tuple(self._objects), targets, tuple(notes), unplanned)

    @contextmanager
    def _leaving_out(self, source: ObjectRef) -> Iterator[None]:
        """Leave out an object of the file for which the block raises a ReadError, unless this is strict."""
        try:
            yield
        except ReadError as error:
            self._leave_out(source, error)

    def _leave_out(self, source: ObjectRef, error: ReadError) -> None:
        if self._strict:
            raise error
        self._unplanned.setdefault(source, error)

    def _note_unknown_fields(self, added: Added) -> None:
        """Note the fields that no server knows, such as a misspelt class. With strict they are an error."""
        for field in unknown_fields(added.value, minor_of(self._profile.kubernetes) or 0):
            if self._strict:
                raise added.document.error(f"unknown field{field.hint}", field.path)
            self._notes.append(f"{added.ref}: unknown field {field.path}{field.hint}")

    def _add_other(self, added: Added) -> None:
        """Add an object that decides no admission, such as a node or a budget."""
        value = added.read.neutral(added.typed())
        keys = selected_keys([value])
        self._admission.check_labels(added.document, (("spec.selector", key) for key in sorted(keys)))
        self._store_object(value)

    def _store_object(self, value: Readable) -> None:
        """Add an object, and make it visible to admission if admission reads its kind."""
        if self._state.holds(value):
            self._replaced.append(_described(value))
        if isinstance(value, Namespace | PriorityClass | Workload | PodGroup | CompositeGroup):
            self._seen.apply(value)
        self._objects.append(value)

    def _made(self, added: Added) -> Made:
        """Add an owner, and return the pods that it creates."""
        owner = added.owner()
        made = added.placed(made_by, owner, added.value)
        self._notes += made.notes
        queue = (owner.metadata.labels or {}).get(KUEUE_QUEUE)
        if queue and made.batches:
            self._notes.append(f"{added.ref}: planned as if Kueue had admitted it (queue {queue})")
        neutral = neutral_owner(owner)
        if self._state.holds(neutral):
            self._notes.append(f"{neutral.ref} exists already; its pods stay, beside the added ones")
        self._owners[neutral.ref] = neutral
        self._objects.append(neutral)
        return made

    # Pods.

    def _add_pod(self, added: Added) -> None:
        """Add a pod of the file; a pod that is on a node already is not changed."""
        pod, joins = self._admission.admit_pod(added.document, added.value)
        sent: Schedulable = added.typed()
        pod.metadata.uid, pod.metadata.creationTimestamp = sent.metadata.uid, self._now
        if pod.spec.nodeName:
            pod.metadata.creationTimestamp = sent.metadata.creationTimestamp
            pod.metadata.deletionTimestamp = sent.metadata.deletionTimestamp
            pod.status = sent.status
        self._add(added, pod, joins=joins)

    def _add_batches(self, added: Added, made: Made, given: Mapping[_BatchKey, GroupKey]) -> None:
        """Add all pods of an owner, or none if a template is refused; `given` are the groups of batches."""
        batches = [(each, given.get(_batch_key(added.ref, each))) for each in made.batches if each.copies]
        for batch, group in batches:
            self._admit_template(added, batch, group)
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
                creationTimestamp=self._now,
                labels={**template.labels, **copy.labels, **label},
                annotations=template.annotations,
                ownerReferences=[batch.controller],
            )
            own = with_claims(spec, batch.claims, copy.name)
            pod = Schedulable(metadata=metadata, spec=own, status=SchedulableStatus(phase="Pending"))
            self._add(added, pod, joins=template.joins)

    def _admit_template(self, added: Added, batch: Batch, given: GroupKey | None) -> _AdmittedTemplate:
        """Return the admitted first copy of a template, for all copies: admission treats them alike."""
        known = self._admitted.get((added.ref, batch.template))
        if known is not None:
            return known
        value = self._first_pod(added, batch, given)
        pod, joins = self._admission.admit_pod(added.document, value, batch.template)
        own = {GROUP_LABEL, *batch.copies[0].labels} if joins else batch.copies[0].labels
        labels = {key: text for key, text in (pod.metadata.labels or {}).items() if key not in own}
        template = _AdmittedTemplate(pod.spec, labels, pod.metadata.annotations, joins)
        self._admitted[added.ref, batch.template] = template
        return template

    def _first_pod(self, added: Added, batch: Batch, given: GroupKey | None) -> dict[str, Any]:
        """Return the first pod of a batch as its controller would send it."""
        template = template_documents(added.owner(), added.value).get(batch.template)
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
        self._origins[name_of(pod)] = source.document
        self._sources[name_of(pod)] = source.ref
        self._store_object(pod)

    # Groups.

    def _groups_of_workloads(
        self, workloads: list[Added], makers: list[tuple[Added, Made]]
    ) -> dict[_BatchKey, GroupKey]:
        """Create the groups of Workloads whose groups are not in the file; return the group of each batch."""
        given: dict[_BatchKey, GroupKey] = {}
        groups = [each for each in self._objects if isinstance(each, PodGroup)]
        for added in workloads:
            if added.ref in self._unplanned or has_groups(added.read.neutral(added.typed()), groups):
                continue
            with self._leaving_out(added.ref):
                owner, made = added.placed(maker_of, added, makers)
                with self._leaving_out(owner.ref):
                    given |= self._groups_of_workload(added, owner, made)
        return given

    def _groups_of_workload(self, added: Added, owner: Added, made: Made) -> dict[_BatchKey, GroupKey]:
        """Create the groups of a Workload for the pods of its owner; return the group of each batch."""
        given: dict[_BatchKey, GroupKey] = {}
        for batch, key, document in added.placed(
            groups_for, added, owner, made, native_served=self._profile.workload_api
        ):
            if key not in self._seen.groups:
                self._put_group(added.document, document)
            given[_batch_key(owner.ref, batch)] = key
        return given

    def _groups_of_jobs(self, makers: list[tuple[Added, Made]]) -> dict[_BatchKey, GroupKey]:
        """Create the groups that controllers would create for spec.scheduling of Jobs and JobSets."""
        given: dict[_BatchKey, GroupKey] = {}
        for added, made in makers:
            owner = self._owners[added.ref]
            if not owner.job_scheduling:
                continue
            if not self._has_job_groups() or added.ref.kind == "CronJob":
                self._notes.append(f"{added.ref}: planned without the groups of {some(owner.job_scheduling)}")
                continue
            with self._leaving_out(added.ref):
                given |= self._groups_of_job(added, made, owner)
        return given

    def _groups_of_job(self, added: Added, made: Made, owner: PodOwner) -> dict[_BatchKey, GroupKey]:
        """Create the groups of one Job or JobSet; return the group of each batch."""
        given: dict[_BatchKey, GroupKey] = {}
        groups: list[ControllerGroup] = added.placed(list, scheduling_groups(added, made))
        for group in groups:
            own = group.path.startswith("spec.scheduling")
            gate = owner.scheduling_gate("spec.scheduling" if own else group.path)
            note = f"{added.ref}: planned as with the gate {gate} ({group.path})"
            if note not in self._notes:
                self._notes.append(note)
            if group.key not in self._seen.groups:
                self._put_group(added.document, group.document)
            given |= dict.fromkeys((_batch_key(added.ref, batch) for batch in group.batches), group.key)
        return given

    def _has_job_groups(self) -> bool:
        """Return whether the server knows spec.scheduling of Jobs."""
        return self._profile.workload_api and (minor_of(self._profile.kubernetes) or 0) >= 37

    def _make_gangs(self) -> None:
        """Create the groups of pods that asked for a gang or tree, as the controller does."""
        below: dict[GroupKey, list[Schedulable]] = {}
        for key, pods in self._joined.items():
            gangs = (autogroups.gang_of(pod) for pod in pods)
            gang = max((each for each in gangs if each is not None), key=lambda each: each.root)
            owner = self._gang_owner(gang)
            size = autotrees.size_of(owner, gang) if owner is not None else 0
            if gang.root:
                root = GroupKey(False, key.namespace, gang.root, composite=True)
                below.setdefault(root, []).extend(pods)
            if key in self._seen.groups or owner is None or size < 1:
                continue
            class_name = autogroups.class_of(self._seen.classes, (pod.spec for pod in pods))
            disruption = autogroups.disruption_of(pod.metadata for pod in pods)
            self._put_gang(pods[0], autotrees.leaf_of(owner, gang, class_name, disruption))
        for root, pods in below.items():
            gang_of_first = autogroups.gang_of(pods[0])
            owner = self._gang_owner(gang_of_first)
            class_name = autogroups.class_of(self._seen.classes, (pod.spec for pod in pods))
            document = autotrees.root_of(owner, class_name) if owner is not None else None
            if root not in self._seen.composites and document is not None:
                self._put_gang(pods[0], document)

    def _gang_owner(self, gang: autogroups.Gang | None) -> PodOwner | None:
        """Return the owner of a gang, of the file or the cluster."""
        if gang is None:
            return None
        return self._owners.get(gang.owner) or self._state.owners.get(gang.owner)

    def _put_gang(self, first: Schedulable, document: dict[str, Any]) -> None:
        """Add a group for pods that ask; `first` is one of them."""
        metadata = document["metadata"]
        metadata["uid"] = uid_of(document["kind"], metadata["namespace"], metadata["name"])
        name = name_of(first)
        with self._leaving_out(self._sources[name]):
            self._put_group(self._origins[name], document)

    def _put_group(self, document: Document, value: dict[str, Any]) -> None:
        """Add a group that is not in the file."""
        value["metadata"]["creationTimestamp"] = self._now
        self._store_object(self._admission.stored(document, READS[value["apiVersion"], value["kind"]], value))

    def _targets(self) -> dict[Target, ObjectRef]:
        """Return the groups or trees in which pods of the file wait, and pods without a group.

        A pod whose group or composite group does not exist is left out.
        """
        targets: dict[Target, ObjectRef] = {}
        for pod in self._objects:
            if not isinstance(pod, Schedulable) or not pod.pending:
                continue
            name = name_of(pod)
            key = membership(pod, native_served=self._profile.workload_api)
            problem = self._group_problem(key) if key is not None else ""
            if problem:
                whole = self._origins[name].error(f"Pod {pod.metadata.name} names {problem}")
                self._leave_out(self._sources[name], whole)
                continue
            self._add_target(targets, name if key is None else key, self._sources[name])
        for group in self._objects:
            if not isinstance(group, PodGroup | CompositeGroup) or flaw(self._seen, group):
                continue
            key = key_of(group)
            below = [key_of(leaf) for leaf in leaves(self._seen, key)]
            if any(pod.pending for leaf in below for pod in self._state.members(leaf).values()):
                self._add_target(targets, key, group.ref)
            elif not self._waiting.intersection(below):
                self._notes.append(f"{group.ref} has no pending pods. Add them")
        return targets

    def _group_problem(self, key: GroupKey) -> str:
        """Return the group of a pod with the reason why it has no plan, empty if it has one."""
        group = self._seen.groups.get(key)
        if group is None:
            return f"PodGroup {key.name}, which does not exist. Add it"
        flawed = flaw(self._seen, group)
        return f"PodGroup {key.name}, but {flawed}. Correct the tree" if flawed else ""

    def _add_target(self, targets: dict[Target, ObjectRef], target: Target, source: ObjectRef) -> None:
        """Add a pod, a group, or for a group of a tree the root, which is its own source."""
        if isinstance(target, GroupKey):
            self._waiting.add(target)
            target = root_key(self._seen, target)
            root = group_at(self._seen, target)
            source = root.ref if root is not None and target.composite else source
        targets.setdefault(target, source)


def _batch_key(owner: ObjectRef, batch: Batch) -> _BatchKey:
    return _BatchKey(owner, batch.controller.name, batch.role, batch.replica)


def _described(value: Readable) -> str:
    """Return kind and name of an object."""
    if isinstance(value, PodGroup | CompositeGroup | Workload | PodOwner):
        return str(value.ref)
    meta = value.metadata
    return str(ObjectRef(value.apiVersion, value.kind, meta.namespace or "", meta.name or ""))
