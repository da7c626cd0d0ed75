"""The clusters for a real kube-scheduler are those of the oracle, and its victims are judged as a plan's."""

from typing import Any

import msgspec
import pytest
from bench import witness
from bench.kubescheduler import PEER
from tests.support.oracle import clusters
from tests.support.preemption.clusters import NOW
from tests.support.preemption.differential.generator import CLASSES
from tests.support.preemption.differential.recording import Answer, Header, Recorded
from tests.unit.api.test_storage import without_nulls

from podium.api.membership import GroupKey
from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner import Plan, Semantics, Settings, plan

# A cluster in which the rules of the specification and those of kube-scheduler choose other victims.
SEED = 1
HEADER = Header(
    minor=PEER.minor,
    version=PEER.version,
    seed=0,
    classes=[
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, (value, _) in CLASSES.items()
    ],
)


def _answered(made: Plan) -> Answer:
    """Return a plan as the answer of a server, which names pods without their namespace."""
    victims = sorted(pod.name.rpartition("/")[2] for unit in made.victims for pod in unit.pods)
    nominated = {placed.pod.rpartition("/")[2]: placed.node for placed in made.placements}
    return Answer(victims=victims, nominated=nominated, message=made.message)


def _planned(state: ClusterState, target: Name | GroupKey, semantics: Semantics) -> Answer:
    return _answered(plan(state, target, NOW, Settings(semantics=semantics), minor=int(PEER.minor[2:])))


def _recorded(answer: Answer) -> Recorded:
    """Return what a server with this answer would have recorded."""
    case = witness.served(0, SEED, PEER.minor)
    objects: list[Any] = [without_nulls(item) for item in case.objects]
    for item in objects:
        item["metadata"] |= {"uid": item["metadata"]["name"], "creationTimestamp": "2026-01-01T00:00:00Z"}
        if item["kind"] == "PodGroup":
            item["spec"]["priority"], _ = CLASSES[item["spec"]["priorityClassName"]]
    return Recorded(
        namespace=case.namespace,
        preemptor=case.preemptor,
        now="2026-01-01T12:00:00Z",
        objects=objects,
        answer=answer,
    )


@pytest.mark.parametrize("semantics", witness.RULES)
def test_the_objects_for_a_server_are_the_cluster(semantics: Semantics) -> None:
    """Read back, they give the same plan, and each priority is that of a class."""
    recorded, case = _recorded(Answer()), clusters.full_of_gangs(SEED)
    state = ClusterState(native_served=True)
    for item in [*HEADER.classes, *recorded.objects]:
        read = SCHEDULING_READS[item["apiVersion"], item["kind"]]
        state.apply(read.neutral(msgspec.convert(item, read.type)))
    key = GroupKey(True, recorded.namespace, clusters.WANTED)
    assert len(state.pods) == len(case.state.pods)
    assert _planned(state, key, semantics) == _planned(case.state, case.target, semantics)


@pytest.mark.parametrize("semantics", witness.RULES)
def test_victims_are_judged_as_those_of_a_plan(semantics: Semantics) -> None:
    """The victims of each rule set have its harm, and only those of the release's rules are the same."""
    case = clusters.full_of_gangs(SEED)
    answer = _planned(case.state, case.target, semantics)
    seen = witness.witnessed(SEED, HEADER, _recorded(answer))
    least, _, kep, released, peer = seen.harms.values()
    assert peer == {witness.RULES[0]: kep, witness.RULES[1]: released}[semantics]
    assert seen.same == (semantics is witness.RULES[1])
    assert least.work <= kep.work < released.work


def test_a_server_that_evicts_no_pod_is_an_error() -> None:
    with pytest.raises(PodiumError, match="seed 1: no node"):
        witness.witnessed(SEED, HEADER, _recorded(Answer(message="no node")))
