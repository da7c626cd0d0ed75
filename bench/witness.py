"""Witness: a real kube-scheduler preempts on clusters of the section "Regret", beside the rule sets."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from bench.kubescheduler import PEER
from bench.results import Row, Section
from tests.support.filters.builders import NS
from tests.support.oracle import clusters
from tests.support.oracle.compare import compared
from tests.support.oracle.least import COUNTS_FIRST, least
from tests.support.oracle.problem import Harm, harm, problem_of
from tests.support.preemption.clusters import NOW
from tests.support.preemption.differential import compare, driver
from tests.support.preemption.differential.generator import PREEMPTOR, ROLE_LABEL, Case, Object
from tests.support.preemption.differential.recording import Header, Recorded
from tests.support.servers import exclusive

from podium.api.core import Node, Pod
from podium.api.groups import PodGroup
from podium.errors import PodiumError
from podium.planner.engine import Engine
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

# The smallest of the 25 clusters of the section "Regret": 48 to 72 nodes.
SEEDS = (1, 2, 14, 19, 20, 22)
RULES = (Semantics.KEP, Semantics(PEER.minor))
_PEER = "kube-scheduler"
_NOTE = f"""
Kubernetes {PEER.version}: kube-scheduler preempts on a real API server, in the clusters of at most 72 nodes
among the first of the section "Regret", 8-GPU nodes full of whole gangs of one priority. The rule sets plan
in the same clusters, and integer programs find the least harm, with the least work lost first or with the
fewest pods first. Work is the GPU-hours of the evicted pods since their start. Of equal nodes kube-scheduler
takes any, so its victims differ from run to run, and the rule set {PEER.minor} takes the first name. Each row
says whether the victims are the same if the rule set takes equal nodes in the order of kube-scheduler.
"""


class Witnessed(NamedTuple):
    """The harm in one cluster by subject, and whether the rule set evicts the pods of kube-scheduler."""

    cluster: str
    harms: Mapping[str, Harm]
    same: bool

    @property
    def row(self) -> Row:
        """The cluster and the harm of each subject."""
        figures = [f"{subject} {_words(found)}" for subject, found in self.harms.items()]
        verdict = f"{PEER.minor} with its nodes: {'the same' if self.same else 'other'} pods"
        return Row(self.cluster, "; ".join([*figures, verdict]))


def measure() -> Section:
    """Let kube-scheduler preempt in all clusters; takes half a minute."""
    with exclusive(PEER) as server:
        recording = driver.record(server, 0, SEEDS, driver.Options(alone=True), served)
    seen = [
        witnessed(seed, recording.header, recorded)
        for seed, recorded in zip(SEEDS, recording.cases, strict=True)
    ]
    totals = [
        Row(f"all {len(seen)} clusters, {subject}", _words(*(each.harms[subject] for each in seen)))
        for subject in seen[0].harms
    ]
    return Section("Witness", [*totals, *(each.row for each in seen)], _NOTE)


def witnessed(seed: int, header: Header, recorded: Recorded) -> Witnessed:
    """Return the harm of kube-scheduler's victims and of the rule sets in the cluster of a seed.

    Raises PodiumError if kube-scheduler evicted no pod.
    """
    if not recorded.answer.victims:
        raise PodiumError(f"{_PEER} evicts no pod in the cluster of seed {seed}: {recorded.answer.message}")
    case = clusters.full_of_gangs(seed)
    engine = Engine(case.state, Settings())
    problem = problem_of(engine, case.target, NOW)
    plans = compared(seed, case, *RULES)
    fewest = least(problem, COUNTS_FIRST)
    victims = {engine.snapshot.pod_row[NS, name] for name in recorded.answer.victims}
    harms = {
        "least work": plans[0].least,
        "fewest pods": fewest.harm if fewest is not None else None,
        **{str(rules): plan.plan for rules, plan in zip(RULES, plans, strict=True)},
        _PEER: harm(problem, victims),
    }
    wanted = sum(pod.pending for pod in case.state.pods.values())
    return Witnessed(
        f"seed {seed}: {len(case.state.nodes)} nodes, gang of {wanted}",
        {subject: found for subject, found in harms.items() if found is not None},
        compare.compared(header, recorded).agrees,
    )


def served(_seed: int, index: int, _minor: str) -> Case:
    """Return the cluster of seed `index` as objects for an API server of v1beta1."""
    namespace = f"gangs-{index}"
    state = clusters.full_of_gangs(index).state
    objects = [
        *(_node(node) for node in state.nodes.values()),
        *(_group(group, namespace) for group in state.groups.values()),
        *(_pod(pod, namespace) for pod in state.pods.values()),
    ]
    return Case(namespace, tuple(objects), (), ("PodGroup", clusters.WANTED))


def _node(node: Node) -> Object:
    made: Object = msgspec.to_builtins(node)
    made["status"]["capacity"] = made["status"]["allocatable"]
    return made


def _group(group: PodGroup, namespace: str) -> Object:
    return {
        "apiVersion": group.ref.apiVersion,
        "kind": group.ref.kind,
        "metadata": {"name": group.ref.name, "namespace": namespace},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": group.min_count}},
            "disruptionMode": {"all": {}},
            "priorityClassName": f"value-{group.priority}",
        },
    }


def _pod(pod: Pod, namespace: str) -> Object:
    made: Object = msgspec.to_builtins(pod)
    made["metadata"]["namespace"] = namespace
    if pod.pending:
        made["metadata"]["labels"][ROLE_LABEL] = PREEMPTOR
    made["spec"]["priorityClassName"] = f"value-{pod.spec.priority}"
    for container in made["spec"]["containers"]:
        container["image"] = "none"
        # The API server requires them of extended resources.
        container["resources"]["limits"] = container["resources"]["requests"]
    return made


def _words(*lost: Harm) -> str:
    pods, units = sum(each.pods for each in lost), sum(each.units for each in lost)
    gangs = "1 gang" if units == 1 else f"{units} gangs"
    return f"{pods} pods of {gangs}, {sum(each.work for each in lost) / 3600:,.0f} GPU-hours"
