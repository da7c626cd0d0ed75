"""The objects that a file adds to a cluster, collected one by one, and what of the file is left out.

Each is admitted as the cluster's API server and the webhook would, because admission decides the priority,
and priority every plan. The cluster's own classes, groups and namespaces count, together with those of the
file that were admitted before.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from podium.answers.expansion.added import Added, converted
from podium.api.core import PODIUM_SCHEDULER, Namespace, PodDisruptionBudget, PodSpec, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.groups import GROUP_LABEL, CompositeGroup, PodGroup, Workload
from podium.api.meta import LabelSelector, ObjectMeta
from podium.api.podkinds.kind import PodOwner
from podium.api.reads import READS, Kind, Read
from podium.api.schedulable import PodAffinity, PodAffinityTerm, Schedulable, SchedulableSpec
from podium.cluster.reader import Name, name_of
from podium.cluster.state import ClusterState, Readable
from podium.documents.document import Document, ReadError
from podium.groups import autogroups
from podium.rules import webhook
from podium.rules.admission import Operation, Profile, Request, review
from podium.rules.podiumrule import AdmissionPhase


class Additions:
    """The objects added to a cluster (`state`), which is not changed.

    `seen` is what admission reads of the cluster and the file. `ended` are pods of the cluster that end
    before those of the file are complete. `brought` has the object of the file that
    brings a pod. `unplanned` are the objects of the file that are left out, each with the reason.
    """

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
        self.state = state
        self.now = now
        self.profile = profile
        self.strict = strict
        # The objects that admission reads. Pods of the cluster are not among them.
        self.seen = ClusterState(native_served=profile.workload_api)
        for index in (state.namespaces, state.classes, state.workloads, state.composites, state.groups):
            for obj in index.values():
                self.seen.apply(obj)
        self.objects: list[Readable] = []
        self.notes = notes
        self.admission = AddedAdmission(state, self.seen, profile, labels, notes)
        self.replaced: list[str] = []
        self.ended: list[Schedulable] = []
        self.brought: dict[Name, Added] = {}
        self.unplanned: dict[ObjectRef, ReadError] = {}

    @contextmanager
    def leaving_out(self, source: ObjectRef) -> Iterator[None]:
        """Leave out an object of the file for which the block raises a ReadError, unless this is strict."""
        try:
            yield
        except ReadError as error:
            self.leave_out(source, error)

    def leave_out(self, source: ObjectRef, error: ReadError) -> None:
        """Leave out an object of the file, unless this is strict: then raise its error."""
        if self.strict:
            raise error
        self.unplanned.setdefault(source, error)

    def store(self, value: Readable) -> None:
        """Add an object, and make it visible to admission if admission reads its kind."""
        if self.state.holds(value):
            self.replaced.append(_described(value))
        if isinstance(value, Namespace | PriorityClass | Workload | PodGroup | CompositeGroup):
            self.seen.apply(value)
        self.objects.append(value)

    def store_pod(self, source: Added, pod: Schedulable) -> None:
        """Add a pod that an object of the file brings."""
        self.brought[name_of(pod)] = source
        self.store(pod)

    def store_group(self, document: Document, value: dict[str, Any]) -> None:
        """Add a group that is not in the file."""
        value["metadata"]["creationTimestamp"] = self.now
        self.store(self.admission.stored(document, READS[value["apiVersion"], value["kind"]], value))


def _described(value: Readable) -> str:
    """Return kind and name of an object."""
    if isinstance(value, PodGroup | CompositeGroup | Workload | PodOwner):
        return str(value.ref)
    meta = value.metadata
    return str(ObjectRef(value.apiVersion, value.kind, meta.namespace or "", meta.name or ""))


class AddedAdmission:
    """The admission of a cluster (`state`) in a profile.

    `seen` holds the objects that admission reads; the caller adds those of the file. `labels` are the labels
    that a dump has, None for all. `notes` receives the warnings.
    """

    def __init__(
        self,
        state: ClusterState,
        seen: ClusterState,
        profile: Profile,
        labels: frozenset[str] | None,
        notes: list[str],
    ) -> None:
        self._state = state
        self._seen = seen
        self._profile = profile
        self._labels = labels
        self._notes = notes

    def admit(self, document: Document, value: dict[str, Any], path: str = "") -> dict[str, Any]:
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

    def stored(self, document: Document, read: Read, value: dict[str, Any]) -> Readable:
        """Return a class, Workload or group in neutral form, as it would be stored in place of an old one."""
        self._seen.remove(read.neutral(msgspec.convert(value, read.type)))
        admitted = self.admit(document, value)
        admitted["metadata"] |= {key: value["metadata"].get(key) for key in ("uid", "creationTimestamp")}
        neutral: Readable = read.neutral(msgspec.convert(admitted, read.type))
        return neutral

    def admit_pod(
        self, document: Document, value: dict[str, Any], path: str = ""
    ) -> tuple[Schedulable, bool]:
        """Return a pod as it would be stored, and whether it joined the group of its gang."""
        meta, joins = value["metadata"], False
        asks = autogroups.asks(ObjectMeta(labels=meta.get("labels")))
        if asks and self._profile.rules == "podium" and self._lets_ask(meta["namespace"]):
            value, joins = self._joining(value)
        admitted = self.admit(document, value, path)
        pod = converted(document, admitted, Schedulable, path)
        spec = f"{path}.spec".strip(".")
        self.check_labels(document, ((f"{spec}.{field}", key) for field, key in selections(pod.spec)))
        return pod, joins

    def check_labels(self, document: Document, asked: Iterable[tuple[str, str]]) -> None:
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
        stored = self._seen.namespaces.get(namespace)
        if stored is None and Kind.NAMESPACE in self._state.unread:
            self._notes.append(
                f"namespace {namespace} was not read; assuming that its label allows auto groups"
            )
            return True
        lets = autogroups.opted_in(stored)
        if not lets:
            self._notes.append(
                f"namespace {namespace} does not allow auto groups (its label "
                f"{autogroups.NAMESPACE_LABEL} is not {autogroups.ENABLED}), so its pods join none"
            )
        return lets


# Budgets, affinity between pods and spreading read labels of pods (and of namespaces). A dump may leave out a
# label that no object in a cluster selects by. If a pod that is added to the dump later selects by such a
# label, its matches are unknown, and the report says so.


def selected_keys(objects: Iterable[Any]) -> frozenset[str]:
    """Return the keys of labels of pods and namespaces that any of these objects selects by."""
    keys: set[str] = set()
    for value in objects:
        if isinstance(value, PodDisruptionBudget):
            keys.update(_keys(value.spec.selector if value.spec is not None else None))
        elif isinstance(value, Schedulable):
            keys.update(key for _, key in selections(value.spec))
    return frozenset(keys)


def selections(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Yield each key by which a pod selects other pods or namespaces, with the selecting field."""
    if not isinstance(spec, SchedulableSpec):
        return
    for index, constraint in enumerate(spec.topologySpreadConstraints or ()):
        path = f"topologySpreadConstraints[{index}]"
        for key in (*_keys(constraint.labelSelector), *(constraint.matchLabelKeys or ())):
            yield path, key
    affinity = spec.affinity
    if affinity is None:
        return
    for path, half in (("podAffinity", affinity.podAffinity), ("podAntiAffinity", affinity.podAntiAffinity)):
        for place, term in _terms(half):
            keys = (*_keys(term.labelSelector), *_keys(term.namespaceSelector))
            for key in (*keys, *(term.matchLabelKeys or ()), *(term.mismatchLabelKeys or ())):
                yield f"affinity.{path}.{place}", key


def _terms(half: PodAffinity | None) -> Iterator[tuple[str, PodAffinityTerm]]:
    if half is None:
        return
    for index, term in enumerate(half.requiredDuringSchedulingIgnoredDuringExecution or ()):
        yield f"requiredDuringSchedulingIgnoredDuringExecution[{index}]", term
    for index, preferred in enumerate(half.preferredDuringSchedulingIgnoredDuringExecution or ()):
        if preferred.podAffinityTerm is not None:
            yield f"preferredDuringSchedulingIgnoredDuringExecution[{index}]", preferred.podAffinityTerm


def _keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.matchLabels or ()
        yield from (requirement.key for requirement in selector.matchExpressions or ())
