"""Return what a file would add to a cluster, as the objects that would exist a moment later.

A plan is about pods and groups, but a user may ask about a Job that does not exist yet. The Job is therefore
expanded into its pods, and into its group if a controller would create one. Each object passes the admission
of a server (`podium.rules.admission`), because its priority decides everything. Other objects of the file on
which a plan depends (nodes, budgets, classes, claims) are added unchanged.

Nothing is guessed. A PodiumError names file and field of an object that cannot be planned: a server would
refuse it, or it creates no pods by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from podium.api.core import PODIUM_SCHEDULER, Namespace, PriorityClass, SchedulingGroup
from podium.api.findings import ObjectRef
from podium.api.foreign import PodOwner, neutral_owner, template_documents
from podium.api.groups import GROUP_LABEL, CompositeGroup, PodGroup, Workload
from podium.api.membership import GroupKey, key_of, membership
from podium.api.meta import ObjectMeta
from podium.api.minors import minor_of
from podium.api.reads import READS, Kind, Read
from podium.api.schedulable import Schedulable, SchedulableSpec, SchedulableStatus
from podium.cluster.reader import Name, Target, name_of
from podium.cluster.state import ClusterState, Readable
from podium.documents.split import Document, in_json_words
from podium.groups import autogroups
from podium.groups.inferred import KUEUE_QUEUE
from podium.ops.added import Added, read_added
from podium.ops.jobgroups import ControllerGroup, scheduling_groups
from podium.ops.makers import Batch, Made, made_by, uid_of, with_claims
from podium.ops.selecting import selected_keys, selections
from podium.ops.workloadgroups import groups_for, has_groups, maker_of
from podium.rules import webhook
from podium.rules.admission import Operation, Profile, Request, review
from podium.rules.target import AdmissionPhase
from podium.text import some

# Kinds that decide the admission of others come first, in any order of the file.
_FIRST = (Kind.NAMESPACE, Kind.PRIORITY_CLASS, Kind.WORKLOAD, Kind.POD_GROUP)
MOST_NOTES = 20


class _BatchKey(NamedTuple):
    """A batch: the object of the file that makes it, its controller, role and replica."""

    owner: ObjectRef
    controller: str
    role: str
    replica: int | None


class Expansion(NamedTuple):
    """The objects for the index, what waits, and notes for the reader.

    `targets` are the groups and the pods without a group, each with the object of the file that brings it.
    """

    objects: tuple[Readable, ...]
    targets: Mapping[Target, ObjectRef]
    notes: tuple[str, ...]


class _Mould(NamedTuple):
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
) -> Expansion:
    """Return the objects that a file would add to `state`, which is not changed.

    `now` (RFC 3339) is their creation time; `labels` are the labels that a dump has (`Loaded.labels`). Raises
    PodiumError for an object that a server of this profile refuses, and for one that cannot be planned. Other
    errors are a selector on a label that the dump left out, and more than MOST_PODS pods.
    """
    return _Expander(state, now, profile, labels).expand(documents)


class _Expander:
    """Adds the objects of one file to the visible part of the cluster, step by step."""

    def __init__(
        self, state: ClusterState, now: str, profile: Profile, labels: frozenset[str] | None
    ) -> None:
        self._state = state
        self._now = now
        self._profile = profile
        self._labels = labels
        # The objects that admission reads. Pods of the cluster are not among them.
        self._seen = ClusterState(native_served=profile.workload_api)
        for index in (state.namespaces, state.classes, state.workloads, state.groups):
            for each in index.values():
                self._seen.apply(each)
        self._objects: list[Readable] = []
        self._notes: list[str] = []
        self._replaced: list[str] = []
        self._origins: dict[Name, Document] = {}
        # The object of the file that brings a pod.
        self._sources: dict[Name, ObjectRef] = {}
        self._moulds: dict[tuple[ObjectRef, str], _Mould] = {}
        self._owners: dict[ObjectRef, PodOwner] = {}
        # Pods that joined the group of their gang, which does not exist yet.
        self._joined: dict[GroupKey, list[Schedulable]] = {}

    def expand(self, documents: Iterable[Document]) -> Expansion:
        added, self._notes = read_added(documents, self._now)
        of = {kind: [each for each in added if each.read.kind is kind] for kind in Kind}
        for kind in _FIRST:
            for each in of[kind]:
                namespace = kind is Kind.NAMESPACE
                self._store_object(
                    each.typed() if namespace else self._stored(each.document, each.read, each.value)
                )
        makers = [(each, self._made(each)) for each in of[Kind.OWNER]]
        given = self._groups_of_workloads(of[Kind.WORKLOAD], makers)
        given |= self._groups_of_jobs(makers)
        for each in of[Kind.POD]:
            self._add_pod(each)
        for each, made in makers:
            for batch in made.batches:
                self._add_copies(each, batch, given.get(_batch_key(each.ref, batch)))
        for each in added:
            if each.read.kind not in (*_FIRST, Kind.OWNER, Kind.POD):
                value = each.read.neutral(each.typed())
                keys = selected_keys([value])
                self._check_labels(each.document, (("spec.selector", key) for key in sorted(keys)))
                self._store_object(value)
        self._make_gangs()
        targets = self._targets()
        if self._replaced:
            self._notes.append(f"replaces stored objects: {some(self._replaced)}")
        notes = list(dict.fromkeys(self._notes))
        if len(notes) > MOST_NOTES:
            notes[MOST_NOTES:] = [f"and {len(notes) - MOST_NOTES:,} more notes"]
        return Expansion(tuple(self._objects), targets, tuple(notes))

    def _store_object(self, value: Readable) -> None:
        """Add an object, and make it visible to admission if admission reads its kind."""
        if self._state.holds(value):
            self._replaced.append(_described(value))
        if isinstance(value, Namespace | PriorityClass | Workload | PodGroup):
            self._seen.apply(value)
        self._objects.append(value)

    def _made(self, added: Added) -> Made:
        """Add an owner, and return the pods that it creates."""
        owner = added.owner()
        made = added.placed(made_by, owner, added.value)
        self._notes += made.notes
        queue = (owner.metadata.labels or {}).get(KUEUE_QUEUE)
        if queue and made.batches and not owner.suspended:
            self._notes.append(f"{added.ref}: planned as if Kueue had admitted it (queue {queue})")
        neutral = neutral_owner(owner)
        if self._state.holds(neutral):
            self._notes.append(f"{neutral.ref} exists already; its pods stay, beside the added ones")
        self._owners[neutral.ref] = neutral
        self._objects.append(neutral)
        return made

    # Admission.

    def _admit(self, document: Document, value: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Return an object as a server would store it; `path` is its place in its document."""
        verdict = review(Request(operation=Operation.CREATE, object=value), self._seen, self._profile)
        if verdict.admitted is None:
            cause = verdict.causes[0]
            unread = self._state.unread.get(Kind.PRIORITY_CLASS) if verdict.awaits else None
            why = f" (PriorityClasses: {unread})" if unread else ""
            raise document.error(f"{cause.message}{why}", ".".join(filter(None, (path, cause.field))))
        self._notes += [
            f"{finding.object}: {finding.field}: {finding.message}" for finding in verdict.findings
        ]
        return verdict.admitted

    def _stored(self, document: Document, read: Read, value: dict[str, Any]) -> Readable:
        """Return a class, Workload or group in neutral form, as it would be stored in place of an old one."""
        self._seen.remove(read.neutral(msgspec.convert(value, read.type)))
        admitted = self._admit(document, value)
        admitted["metadata"] |= {key: value["metadata"].get(key) for key in ("uid", "creationTimestamp")}
        neutral: Readable = read.neutral(msgspec.convert(admitted, read.type))
        return neutral

    def _admitted_pod(
        self, document: Document, value: dict[str, Any], path: str = ""
    ) -> tuple[Schedulable, bool]:
        """Return a pod as it would be stored, and whether it joined the group of its gang."""
        meta, joins = value["metadata"], False
        asks = autogroups.asks(ObjectMeta(labels=meta.get("labels")))
        if asks and self._profile.rules == "podium" and self._lets_ask(meta["namespace"]):
            value, joins = self._joining(value)
        admitted = self._admit(document, value, path)
        try:
            pod = msgspec.convert(admitted, Schedulable)
        except msgspec.ValidationError as error:
            problem, _, field = str(error).partition(" - at `$.")
            field = f"{path}.{field.removesuffix('`')}".strip(".")
            raise document.error(in_json_words(problem), field) from None
        spec = f"{path}.spec".strip(".")
        self._check_labels(document, ((f"{spec}.{field}", key) for field, key in selections(pod.spec)))
        return pod, joins

    def _check_labels(self, document: Document, asked: Iterable[tuple[str, str]]) -> None:
        """Raise an error for a selector on a label that the dump left out: its matches are unknown."""
        for field, key in asked:
            if self._labels is not None and key not in self._labels:
                problem = f"selects pods by {key}; the dump lacks that label. Plan against the live cluster"
                raise document.error(problem, field)

    def _joining(self, value: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return a pod that asks for a group as the webhook would change it, and whether it joins a group."""
        meta, spec = value["metadata"], dict(value.get("spec") or {})
        namespace = self._seen.namespaces.get(meta["namespace"])
        labels = (namespace.metadata.labels if namespace is not None else None) or {}
        scheduled = labels.get(autogroups.SCHEDULER_LABEL) == PODIUM_SCHEDULER
        phase = AdmissionPhase.SCHEDULED_GANG if scheduled else AdmissionPhase.GANG
        request = Request(operation=Operation.CREATE, object=value)
        verdict = webhook.review_phase(phase, request, self._seen, self._profile)
        joins = False
        for change in verdict.patch:
            if change["path"].startswith("/spec/"):
                spec[change["path"].removeprefix("/spec/")] = change["value"]
            elif change["path"] != "/spec":
                joins = True
                meta = {**meta, "labels": {**meta["labels"], GROUP_LABEL: change["value"]}}
        self._notes += [f"{finding.object}: {finding.message}" for finding in verdict.findings]
        return {**value, "metadata": meta, "spec": spec}, joins

    def _lets_ask(self, namespace: str) -> bool:
        found = self._seen.namespaces.get(namespace)
        if found is None and Kind.NAMESPACE in self._state.unread:
            self._notes.append(
                f"namespace {namespace} was not read; assuming that its label allows auto groups"
            )
            return True
        lets = autogroups.opted_in(found)
        if not lets:
            self._notes.append(
                f"namespace {namespace} does not allow auto groups (its label "
                f"{autogroups.NAMESPACE_LABEL} is not {autogroups.ENABLED}), so its pods join none"
            )
        return lets

    # Pods.

    def _add_pod(self, added: Added) -> None:
        """Add a pod of the file; a pod that is on a node already is not changed."""
        pod, joins = self._admitted_pod(added.document, added.value)
        sent: Schedulable = added.typed()
        pod.metadata.uid, pod.metadata.creationTimestamp = sent.metadata.uid, self._now
        if pod.spec.nodeName:
            pod.metadata.creationTimestamp = sent.metadata.creationTimestamp
            pod.metadata.deletionTimestamp = sent.metadata.deletionTimestamp
            pod.status = sent.status
        self._add(added, pod, joins=joins)

    def _add_copies(self, added: Added, batch: Batch, given: GroupKey | None) -> None:
        """Add the pods of one batch; `given` is the group that a Workload assigns to them."""
        if not batch.copies:
            return
        mould = self._mould(added, batch, given)
        spec = mould.spec
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
                labels={**mould.labels, **copy.labels, **label},
                annotations=mould.annotations,
                ownerReferences=[batch.controller],
            )
            own = with_claims(spec, batch.claims, copy.name)
            pod = Schedulable(metadata=metadata, spec=own, status=SchedulableStatus(phase="Pending"))
            self._add(added, pod, joins=mould.joins)

    def _mould(self, added: Added, batch: Batch, given: GroupKey | None) -> _Mould:
        """Return the admitted first copy of a template, for all copies: admission treats them alike."""
        known = self._moulds.get((added.ref, batch.template))
        if known is not None:
            return known
        value = self._first_pod(added, batch, given)
        pod, joins = self._admitted_pod(added.document, value, batch.template)
        own = {GROUP_LABEL, *batch.copies[0].labels} if joins else batch.copies[0].labels
        labels = {key: text for key, text in (pod.metadata.labels or {}).items() if key not in own}
        mould = _Mould(pod.spec, labels, pod.metadata.annotations, joins)
        self._moulds[added.ref, batch.template] = mould
        return mould

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
            if has_groups(added.read.neutral(added.typed()), groups):
                continue
            owner, made = added.placed(maker_of, added, makers)
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
        """Create the groups of pods that asked for a gang, as the controller does for the first pod."""
        for key, pods in self._joined.items():
            gang = autogroups.gang_of(pods[0])
            owner = None
            if gang is not None:
                owner = self._owners.get(gang.owner) or self._state.owners.get(gang.owner)
            if key in self._seen.groups or owner is None or owner.gang_size < 1:
                continue
            class_name = autogroups.class_of(self._seen.classes, (pod.spec for pod in pods))
            disruption = autogroups.disruption_of(pod.metadata for pod in pods)
            document = autogroups.group_of(owner, key.name, class_name, disruption)
            document["metadata"]["uid"] = uid_of("PodGroup", key.namespace, key.name)
            self._put_group(self._origins[name_of(pods[0])], document)

    def _put_group(self, document: Document, value: dict[str, Any]) -> None:
        """Add a group that is not in the file."""
        value["metadata"]["creationTimestamp"] = self._now
        self._store_object(self._stored(document, READS[value["apiVersion"], "PodGroup"], value))

    def _targets(self) -> dict[Target, ObjectRef]:
        """Return the groups in which pods of the file wait, and pods without a group. Raises ReadError."""
        targets: dict[Target, ObjectRef] = {}
        for pod in self._objects:
            if not isinstance(pod, Schedulable) or not pod.pending:
                continue
            name = name_of(pod)
            key = membership(pod, native_served=self._profile.workload_api)
            if key is not None and key not in self._seen.groups:
                problem = f"Pod {pod.metadata.name} names PodGroup {key.name}, which does not exist. Add it"
                raise self._origins[name].error(problem)
            targets.setdefault(name if key is None else key, self._sources[name])
        for group in self._objects:
            if isinstance(group, PodGroup):
                key = key_of(group)
                if any(pod.pending for pod in self._state.members(key).values()):
                    targets.setdefault(key, group.ref)
                elif key not in targets:
                    self._notes.append(f"{group.ref} has no pending pods. Add them")
        return targets


def _batch_key(owner: ObjectRef, batch: Batch) -> _BatchKey:
    return _BatchKey(owner, batch.controller.name, batch.role, batch.replica)


def _described(value: Readable) -> str:
    """Return kind and name of an object."""
    if isinstance(value, PodGroup | CompositeGroup | Workload | PodOwner):
        return str(value.ref)
    meta = value.metadata
    return str(ObjectRef(value.apiVersion, value.kind, meta.namespace or "", meta.name or ""))
