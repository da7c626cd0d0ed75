"""LeaderWorkerSet: replicas of a leader and its workers. Source: kubernetes-sigs/lws."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from podium.api.core import PodTemplate
from podium.api.findings import ObjectError, ObjectRef
from podium.api.meta import Int32
from podium.api.podkinds.created import (
    ORDERED,
    Batch,
    CreatedPods,
    controller_reference,
    ordinal,
    refuse_order,
    value_at,
)
from podium.api.podkinds.kind import (
    Branch,
    GangForm,
    GangPart,
    GroupLabel,
    OwnerKind,
    OwnerLabel,
    PodCreator,
    PodOwner,
    Rank,
    own_metadata,
)
from podium.api.podkinds.workloads import STATEFUL_SET_KEY, one_template

# kubernetes-sigs/lws: every pod has labels for its set, its replica and its index; index 0 is the leader.
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
# kubernetes-sigs/lws: every replica has its own topology domain.
_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_EXCLUSIVE_KEYS = (_EXCLUSIVE, "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology")
LWS_KEY = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_LEADER, _WORKER = (f"spec.leaderWorkerTemplate.{role}Template" for role in ("leader", "worker"))
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


class LeaderWorkerTemplate(msgspec.Struct, gc=False):
    """A leader (with the worker's template if absent) and its workers; size counts both."""

    leaderTemplate: PodTemplate | None = None
    workerTemplate: PodTemplate | None = None
    size: Int32 | None = None


class LeaderWorkerSetSpec(msgspec.Struct, gc=False):
    """spec of a LeaderWorkerSet."""

    replicas: Int32 | None = None
    leaderWorkerTemplate: LeaderWorkerTemplate | None = None
    startupPolicy: str | None = None


class LeaderWorkerSet(PodCreator, gc=False):
    """leaderworkerset.x-k8s.io/v1 LeaderWorkerSet: a gang for each replica."""

    spec: LeaderWorkerSetSpec | None = None

    def neutral(self) -> PodOwner:
        """Return its neutral form, with all its replicas as one branch.

        The gangs have one pod if workers are created only when the leader is ready, or its topology domain is
        known. In a branch the leader's template has precedence over the workers'.
        """
        spec = self.spec or LeaderWorkerSetSpec()
        pair = spec.leaderWorkerTemplate
        if pair is None:
            return PodOwner(self.ref, self.metadata, {}, pods={_LEADER: 0, _WORKER: 0})
        replicas = 1 if spec.replicas is None else spec.replicas
        alone = spec.startupPolicy == "LeaderReady" or _EXCLUSIVE in (self.metadata.annotations or {})
        size = 1 if alone or pair.size is None else pair.size
        leaders = 0 if pair.leaderTemplate is None else 1
        labels, annotations = (
            of_workers | of_leaders
            for of_workers, of_leaders in zip(
                own_metadata(pair.workerTemplate), own_metadata(pair.leaderTemplate), strict=True
            )
        )
        return PodOwner(
            self.ref,
            self.metadata,
            one_template(_LEADER, pair.leaderTemplate) | one_template(_WORKER, pair.workerTemplate),
            gangs=replicas,
            gang_size=size,
            pods={_LEADER: replicas * leaders, _WORKER: replicas * (size - leaders)},
            branches=(Branch("", replicas, size, labels, annotations),),
        )

    def numbers(self) -> Iterator[tuple[str, int | None]]:
        """Yield the fields that set numbers of pods, with their values."""
        if self.spec is not None:
            yield "spec.replicas", self.spec.replicas
            if self.spec.leaderWorkerTemplate is not None:
                yield "spec.leaderWorkerTemplate.size", self.spec.leaderWorkerTemplate.size

    def unplanned(self) -> tuple[str, str]:
        """Return the field and the reason for which its pods cannot be planned, empty if they can."""
        owner = self.neutral()
        if owner.gangs and not owner.gang_size:
            return "spec.leaderWorkerTemplate.size", "is 0, but the leader is a pod. Use at least 1"
        return "", ""

    def created(self, owner: PodOwner, document: Mapping[str, Any]) -> CreatedPods:
        """Return the leaders of every replica, and the workers unless they wait for their leader."""
        pair = self.spec.leaderWorkerTemplate if self.spec is not None else None
        if pair is None:
            return CreatedPods(())
        ref, annotations = owner.ref, self.metadata.annotations
        refuse_order(ref, "metadata.annotations", annotations, *_EXCLUSIVE_KEYS)
        if (value_at(document, "spec", "groupPlacementPolicy", "type") or "None") != "None":
            raise ObjectError(ref, "spec.groupPlacementPolicy", ORDERED)
        batches: list[Batch] = []
        for replica in range(owner.gangs):
            name = f"{ref.name}-{replica}"
            own = [
                {LWS_NAME: ref.name, LWS_GROUP: str(replica), LWS_WORKER: str(place)}
                for place in range(owner.gang_size)
            ]
            for template, stateful_set, copies in (
                (
                    _WORKER if pair.leaderTemplate is None else _LEADER,
                    ref.name,
                    [ordinal(ref.name, replica, own[0])],
                ),
                (_WORKER, name, [ordinal(name, place, own[place]) for place in range(1, owner.gang_size)]),
            ):
                controller = controller_reference(ObjectRef(*STATEFUL_SET_KEY, ref.namespace, stateful_set))
                claims = ("spec", "leaderWorkerTemplate")
                batches.append(Batch(template, controller, tuple(copies), replica=replica, claims=claims))
        waiting = owner.gangs > 0 and (1 if pair.size is None else pair.size) > owner.gang_size
        note = f"{ref}: workers are not planned for, because they start after their leader"
        return CreatedPods(tuple(batches), (note,) if waiting else ())


def _part(labels: Mapping[str, str], pod: str, stateful_set: str) -> GangPart | None:
    """Return the LeaderWorkerSet of a pod with the index of its replica.

    The leaders belong to the StatefulSet with the set's name. The workers belong to a StatefulSet with their
    leader's name. A webhook, which may run after ours, sets a leader's index label; the index is also the end
    of the leader's name.
    """
    name = labels.get(LWS_NAME)
    if not name:
        return None
    if stateful_set == name:
        head, _, index = pod.rpartition("-")
        fits = head == name and labels.get(LWS_GROUP, index) == index
    else:
        index = labels.get(LWS_GROUP, "")
        fits = stateful_set == f"{name}-{index}"
    return GangPart(name, index) if fits and _INDEX.fullmatch(index) else None


KINDS = (
    OwnerKind(
        *LWS_KEY,
        LeaderWorkerSet,
        listed=True,
        replicas="spec.replicas",
        groups=(
            GroupLabel(LWS_NAME, *LWS_KEY, Rank.REPLICA, role=LWS_WORKER, needed=LWS_GROUP, number=LWS_GROUP),
        ),
        owner=OwnerLabel(LWS_NAME, "StatefulSet"),
        gang=GangForm("-lws", STATEFUL_SET_KEY, _part, (LWS_NAME, LWS_GROUP), replicated=True),
    ),
)
