"""The transform of the reconciler's cache: keep needed fields only, so that a large cluster fits in memory.

The reconciler watches every pod of a cluster. Of a pod it needs identity, group and priority: a tenth of what
is read. A narrower decoder would be only a fifth faster (4.1 us instead of 5.2), because most of the time is
spent in skipping the rest.

Values that many objects share, such as the spec of all pods of a group, are stored once. Lists are sorted by
name, so a cache of the last few thousand values finds nearly all of them. Interned strings would never be
freed in Python 3.12. Stored values must not be modified.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from podium.api.core import Namespace, Pod, PodSpec, PodStatus, SchedulingGroup
from podium.api.groups import GROUP_LABEL, CompositeGroup, PodGroup
from podium.api.meta import OwnerReference
from podium.api.podkinds.kind import PodOwner
from podium.cluster.state import Readable
from podium.controllers.conditions import OURS
from podium.groups.autogroups import ANNOTATIONS, LABELS, NAMESPACE_LABEL

_OF_PODS = (GROUP_LABEL, *LABELS)
_OF_NAMESPACES = (NAMESPACE_LABEL,)
_RECENT = 4096

_NO_SPEC = PodSpec()


def transform(obj: Readable) -> Readable:
    """Return the part of an object that the reconciler's decisions read."""
    match obj:
        case Pod():
            return _pod(obj)
        case PodGroup():
            return _group(obj)
        case CompositeGroup():
            kept = obj.metadata.identity()
            return msgspec.structs.replace(obj, metadata=kept, template_ref=None, conditions=())
        case PodOwner():
            kept = obj.metadata.identity()
            kept.annotations = _labels(obj.metadata.annotations, ANNOTATIONS)
            kept.ownerReferences = obj.metadata.ownerReferences
            return msgspec.structs.replace(obj, metadata=kept, templates={}, pods={}, job_scheduling={})
        case Namespace():
            kept = obj.metadata.identity()
            kept.labels = _labels(obj.metadata.labels, _OF_NAMESPACES)
            return Namespace(metadata=kept)
        case _:
            return obj


def _pod(pod: Pod) -> Pod:
    """Return the kept part of a pod: for a pod in no group only identity and owners.

    The owners are needed because the pod may own other pods.
    """
    meta, spec = pod.metadata, pod.spec
    kept = meta.identity()
    kept.ownerReferences = _owners(*meta.ownerReferences) if meta.ownerReferences else None
    group = spec.schedulingGroup.podGroupName if spec.schedulingGroup is not None else None
    if not group and GROUP_LABEL not in (meta.labels or ()):
        return Pod(metadata=kept, spec=_NO_SPEC)
    kept.creationTimestamp = _shared_text(meta.creationTimestamp)
    kept.labels = _labels(meta.labels, _OF_PODS)
    phase = pod.status.phase if pod.status is not None else None
    return Pod(
        metadata=kept,
        spec=_spec(spec.priorityClassName, spec.priority, spec.preemptionPolicy, spec.schedulerName, group),
        status=_status(phase),
    )


def _group(group: PodGroup) -> PodGroup:
    meta = group.metadata
    kept = meta.identity()
    kept.generation = meta.generation
    kept.creationTimestamp = _shared_text(meta.creationTimestamp)
    kept.finalizers = meta.finalizers
    kept.ownerReferences = meta.ownerReferences
    ours = tuple(condition for condition in group.conditions if condition.type in OURS)
    return msgspec.structs.replace(group, metadata=kept, template_ref=None, conditions=ours)


def _labels(labels: Mapping[str, str] | None, names: tuple[str, ...]) -> dict[str, str] | None:
    chosen = tuple((name, labels[name]) for name in names if name in labels) if labels else ()
    return _dict(chosen) if chosen else None


@lru_cache(_RECENT)
def _shared_text(text: str | None) -> str | None:
    return text


@lru_cache(_RECENT)
def _dict(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(items)


@lru_cache(_RECENT)
def _owners(*owners: OwnerReference) -> list[OwnerReference]:
    return list(owners)


@lru_cache(_RECENT)
def _spec(
    class_name: str | None,
    priority: int | None,
    preemption_policy: str | None,
    scheduler_name: str | None,
    group: str | None,
) -> PodSpec:
    return PodSpec(
        schedulerName=scheduler_name,
        priorityClassName=class_name,
        priority=priority,
        preemptionPolicy=preemption_policy,
        schedulingGroup=SchedulingGroup(group) if group else None,
    )


@lru_cache(_RECENT)
def _status(phase: str | None) -> PodStatus | None:
    return PodStatus(phase) if phase else None
