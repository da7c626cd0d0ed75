"""The reconciler process: its configuration file, its parts and their connections.

This module makes no decisions, so that the reconcilers can be tested without a process.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import lru_cache
from typing import Literal

import msgspec
import pydantic
from structlog.typing import FilteringBoundLogger

from podium.api.core import Namespace, Pod, PodSpec, PodStatus, SchedulingGroup
from podium.api.groups import CONTROLLER_MANAGER, GROUP_LABEL, CompositeGroup, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import OwnerReference
from podium.api.minors import WORKLOAD_VERSIONS, minor_of
from podium.api.podkinds.kind import PodOwner
from podium.api.reads import PODIUM_COMPOSITE, Kind
from podium.cluster.state import Readable
from podium.controllers.conditions import OURS
from podium.controllers.divergence import Write
from podium.controllers.manager import Manager, Rules
from podium.controllers.metrics import ReconcilerMetrics
from podium.controllers.writer import Writer
from podium.documents.configfile import Strict, read_config
from podium.groups.autogroups import ANNOTATIONS, FOLLOWED, LABELS, NAMESPACE_LABEL
from podium.groups.divergence import ServerInfo
from podium.kube.cache import InformerCache
from podium.kube.connection import Connection
from podium.kube.deployment import is_turned_off
from podium.kube.discovery import Served
from podium.kube.events import EventRecorder
from podium.runtime import metrics as service_metrics
from podium.runtime.garbage import short_collections
from podium.runtime.host import THIS_MACHINE, Host
from podium.runtime.manager import ManagerOptions, ReplicaManager
from podium.runtime.signals import Stop, stopping
from podium.runtime.workqueue import Workqueue

# Less than the default grace period of a pod, 30 s.
_RETIRE_SECONDS = 20.0


class ControllerModel(Strict):
    """The configuration file, which docs/reconciler.md explains."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["ControllerConfiguration"]
    writeConditions: Write = Write.DIVERGENT
    """The groups that get the condition: those that diverged at least once, or all."""
    preemptionPolicyCondition: pydantic.StrictBool = False
    """Whether the condition PodsNotMatchingPreemptionPolicy is maintained too."""
    groupProtection: pydantic.StrictBool = True
    """Whether Podium's groups are kept while pods need them; false removes the finalizer from all groups."""
    autoGroups: pydantic.StrictBool = True
    """Whether groups are created for pods that ask for a gang."""
    writers: pydantic.StrictInt = pydantic.Field(default=16, ge=1, le=256)
    """Maximum number of concurrent writes to groups."""


def read_rules(path: str) -> Rules:
    """Return the rules in a file. Raises PodiumError."""
    model = read_config(path, ControllerModel)
    return Rules(
        write=model.writeConditions,
        preemption_policy=model.preemptionPolicyCondition,
        protection=model.groupProtection,
        auto_groups=model.autoGroups,
        writers=model.writers,
    )


async def run(
    options: ManagerOptions,
    rules: Rules,
    log: FilteringBoundLogger,
    deployment: tuple[str, str] | None = None,
    host: Host = THIS_MACHINE,
) -> None:
    """Reconcile until asked to stop. Raises PodiumError when the process cannot start or loses the lease.

    `deployment` is the process's own. If it is turned off when the leader stops, the groups are released.
    """
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stopping())
        stack.enter_context(short_collections())
        connection = await stack.enter_async_context(host.connect(options.kubeconfig, options.context))
        replica = ReplicaManager(connection, CONTROLLER_MANAGER, options, host, log)
        await _ControllerProcess(connection, replica, rules, host, deployment).serve(stop)


class _ControllerProcess:
    """The parts of the process, one of each."""

    def __init__(
        self,
        connection: Connection,
        replica: ReplicaManager,
        rules: Rules,
        host: Host,
        deployment: tuple[str, str] | None,
    ) -> None:
        self._connection = connection
        self._replica = replica
        self._deployment = deployment
        self._host = host
        self._registry = service_metrics.new_registry()
        self._metrics = ReconcilerMetrics(self._registry)
        self._cluster = InformerCache(
            connection,
            kinds(rules),
            transform=transform,
            only=wanted,
            clock=host.clock,
            random=host.random,
            log_event=replica.log_event,
        )
        service_metrics.read_cluster(self._registry, self._cluster)
        self._recorder = EventRecorder(
            connection,
            CONTROLLER_MANAGER,
            replica.name,
            clock=host.clock,
            now=host.now,
            sleep=asyncio.sleep,
            random=host.random,
            log_event=replica.log_event,
            counted=self._metrics.emitted,
        )
        self._manager = Manager(
            self._cluster,
            Writer(connection, replica.remaining, self._metrics.wrote).perform,
            rules,
            self._metrics,
            self._recorder.emit,
            server=self._server_kind,
            new_queue=self._new_queue,
            clock=host.clock,
            now=host.now,
            log_event=replica.log_event,
        )
        self._metrics.read(
            divergent_groups=lambda: self._manager.divergent()[0],
            divergent_pods=lambda: self._manager.divergent()[1],
            depth=lambda: self._manager.depth,
            leads=lambda: replica.remaining() > 0,
        )

    async def serve(self, stop: Stop) -> None:
        """Work until asked to stop. Raises PodiumError."""
        await self._replica.serve(
            stop,
            lambda: self._lead(stop),
            ready=self._cluster.ready,
            others={"cluster": self._cluster.run, "events": self._recorder.run},
            missing=self._cluster.waits,
            registry=self._registry,
            undecodable=self._cluster.undecodable,
        )

    async def _lead(self, stop: Stop) -> None:
        """Lead, and release the groups at the end if no process follows. The lease is renewed meanwhile."""
        try:
            await self._manager.lead()
        finally:
            if stop.asked.is_set() and await is_turned_off(
                self._connection, self._deployment, self._replica.log_event
            ):
                await self._manager.retire(_RETIRE_SECONDS)

    def _new_queue(self) -> Workqueue[GroupKey]:
        return Workqueue(
            clock=self._host.clock,
            sleep=asyncio.sleep,
            random=self._host.random,
            waited=self._metrics.waits.observe,
            failed=self._metrics.bugs.inc,
            log_event=self._replica.log_event,
        )

    def _server_kind(self) -> ServerInfo:
        discovery = self._cluster.discovery
        minor = minor_of(discovery.server) if discovery is not None else None
        served_minor = max(WORKLOAD_VERSIONS) if minor is None else minor
        return ServerInfo(served_minor, f"1.{served_minor}")


def kinds(rules: Rules) -> set[Kind]:
    """Return the kinds to watch."""
    followed = {Kind.POD, Kind.POD_GROUP, Kind.PRIORITY_CLASS}
    if rules.protection or rules.auto_groups:
        followed |= {Kind.NAMESPACE, Kind.OWNER}
    if rules.auto_groups:
        followed.add(Kind.COMPOSITE_GROUP)
    return followed


def wanted(served: Served) -> bool:
    """Return whether to watch a served resource.

    Of owners these are only those that gangs may have, and of composite groups only Podium's.
    """
    match served.read.kind:
        case Kind.OWNER:
            return (served.api_version, served.kind) in FOLLOWED
        case Kind.COMPOSITE_GROUP:
            return served.api_version == PODIUM_COMPOSITE
        case _:
            return True


# The transform of the cache keeps needed fields only, so that a large cluster fits in memory.
#
# The reconciler watches every pod of a cluster. Of a pod it needs identity, group and priority: a tenth of
# what is read. A narrower decoder would be only a fifth faster (4.1 us instead of 5.2), because most of the
# time is spent in skipping the rest.
#
# Values that many objects share, such as the spec of all pods of a group, are stored once. Lists are sorted
# by name, so a cache of the last few thousand values finds nearly all of them. Interned strings would never
# be freed in Python 3.12. Stored values must not be modified.

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
