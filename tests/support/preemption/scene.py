"""Short builders for a cluster and its plan, for tests with one case each."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, NS, state_of, time_of

from podium.api.core import PriorityClass
from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.priority import TOLERATION_PREFIX
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.cluster.reader import Name
from podium.planner.engine import Engine, plan
from podium.planner.preemption.domain import Score
from podium.planner.preemption.outcome import Plan, UnitVerdict
from podium.planner.settings import Settings

SECONDS = int(NOW.timestamp())
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


# --- objects --------------------------------------------------------------------------------------------


def node(name: str = "n1", cpu: str | int = 4, **kwargs: Any) -> SchedulableNode:
    """Make a node with so many cpus and its name as a label."""
    labels = {HOST: name, **kwargs.pop("labels", {})}
    return builders.node(name, {"cpu": cpu, **kwargs.pop("room", {})}, labels=labels, **kwargs)


def pod(
    name: str, cpu: str | int = 1, priority: int = 0, *, ago: int | None = None, **kwargs: Any
) -> Schedulable:
    """Make a pod that runs if a `node` is given, and started so many seconds `ago` (None: not started)."""
    start = time_of(SECONDS - ago) if ago is not None else None
    return builders.pod(name, {"cpu": cpu}, priority=priority, start=start, **kwargs)


def gang(
    group_name: str, nodes: Iterable[str | None], cpu: str | int = 1, **kwargs: Any
) -> list[Schedulable]:
    """Make members of a group, `name-0` and so on, one for each of the nodes (None: pending)."""
    return [
        pod(f"{group_name}-{at}", cpu, node=where, group=group_name, **kwargs)
        for at, where in enumerate(nodes)
    ]


def group(
    name: str,
    priority: int | None = 0,
    least: int | None = 1,
    *,
    whole: bool = False,
    uid: str = "",
    native: bool = True,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> PodGroup:
    """Make a group of minCount `least` (None: basic), of disruption mode PodGroup if `whole`."""
    api = "scheduling.k8s.io/v1beta1" if native else "scheduling.podium.dev/v1beta1"
    given: dict[str, Any] = {"priority_class_name": "", "preemption_policy": None, "template_ref": None}
    return PodGroup(
        ref=ObjectRef(api, "PodGroup", NS, name),
        metadata=ObjectMeta(name=name, namespace=NS, uid=uid or name, annotations=dict(annotations or {})),
        min_count=least,
        disruption_mode=DisruptionMode.POD_GROUP if whole else DisruptionMode.POD,
        priority=priority,
        **given | fields,
    )


def composite(
    name: str,
    priority: int | None = 0,
    least: int | None = None,
    *,
    parent: str = "",
    whole: bool = False,
    native: bool = True,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> CompositeGroup:
    """Make a composite group of minGroupCount `least` (None: basic), of disruption mode `all` if `whole`."""
    api = "scheduling.k8s.io/v1alpha3" if native else "scheduling.podium.dev/v1beta1"
    given: dict[str, Any] = {"priority_class_name": "", "preemption_policy": None, "template_ref": None}
    return CompositeGroup(
        ref=ObjectRef(api, "CompositePodGroup", NS, name),
        metadata=ObjectMeta(name=name, namespace=NS, uid=name, annotations=dict(annotations or {})),
        min_group_count=least,
        disruption_mode=DisruptionMode.POD_GROUP if whole else DisruptionMode.POD,
        priority=priority,
        composite=parent,
        **given | fields,
    )


def priority_class(
    name: str,
    value: int,
    *,
    minimum: str | int | None = None,
    seconds: str | int | None = None,
    **fields: Any,
) -> PriorityClass:
    """Make a class, with a preemption toleration if one is given."""
    settings = {"minimum-preemptable-priority": minimum, "toleration-seconds": seconds}
    annotations = {TOLERATION_PREFIX + key: str(each) for key, each in settings.items() if each is not None}
    return PriorityClass(metadata=ObjectMeta(name=name, annotations=annotations), value=value, **fields)


def scheduled(ago: int = 0, status: str = "True") -> dict[str, Any]:
    """Return the status of a pod that was scheduled so many seconds ago."""
    condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": time_of(SECONDS - ago)}
    return {"conditions": [condition]}


def marked_for_deletion() -> dict[str, Any]:
    """Return the status of a victim of a preemption that is not deleted yet."""
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


# --- plans ----------------------------------------------------------------------------------------------


def tree_of(name: str, *, native: bool = True) -> GroupKey:
    """Return the key of a composite group."""
    return GroupKey(native, NS, name, composite=True)


def of(name: str, *, native: bool = True) -> GroupKey:
    """Return the key of a group, which makes it the preemptor."""
    return GroupKey(native, NS, name)


def planned(*objects: Any, by: str | Name | GroupKey = "high", **settings: Any) -> Plan:
    """Plan for a pod (or a group, see `of`) on a cluster of these objects."""
    return plan(state_of(_flat(objects)), _target(by), NOW, Settings(**settings))


def engine_of(*objects: Any, **settings: Any) -> Engine:
    """Return an engine that holds a cluster."""
    return Engine(state_of(_flat(objects)), Settings(**settings))


def cost_of(
    *objects: Any, by: str | Name | GroupKey = "high", **settings: Any
) -> tuple[Score, tuple[str, ...]]:
    """Return the cost of the plan, and the domains whose plans have the same cost."""
    chosen = engine_of(*objects, **settings).decide(_target(by), NOW).chosen
    assert chosen is not None
    return chosen.plan.cost, chosen.ties


def victims(plan: Plan) -> list[str]:
    """Return the names of the victims' pods, in the order of the plan."""
    return [each.name for unit in plan.victims for each in unit.pods]


def placed(plan: Plan) -> dict[str, str]:
    """Return the node of each pod that was placed."""
    return {each.pod.partition("/")[2]: each.node for each in plan.placements}


def spared(plan: Plan) -> dict[str, str]:
    """Return the reasons of the spared units."""
    return {unit.name: unit.reason for unit in plan.spared}


def unit(plan: Plan, name: str) -> UnitVerdict:
    """Return the report on one unit."""
    return next(each for each in (*plan.victims, *plan.spared) if each.name == name)


def _target(by: str | Name | GroupKey) -> Name | GroupKey:
    return (NS, by) if isinstance(by, str) else by


def _flat(objects: Iterable[Any]) -> list[Any]:
    return [each for some in objects for each in (_flat(some) if isinstance(some, list | tuple) else [some])]
