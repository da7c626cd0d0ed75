"""The objects that a file adds to a cluster, collected one by one, and what of the file is left out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from podium.answers.expansion.added import Added
from podium.answers.expansion.admitting import AddedAdmission
from podium.api.core import Namespace, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.foreign import PodOwner
from podium.api.groups import CompositeGroup, PodGroup, Workload
from podium.api.reads import READS
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Name, name_of
from podium.cluster.state import ClusterState, Readable
from podium.documents.document import Document, ReadError
from podium.rules.admission import Profile


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
            for each in index.values():
                self.seen.apply(each)
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
