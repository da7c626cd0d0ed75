"""Groups with a topology constraint get the outcome, nodes and victims of real kube-schedulers.

The scheduler runs with the gate TopologyAwareWorkloadScheduling. It takes any of equally good domains, so the
label's values are renamed as its answer shows (`ties`).
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from operator import attrgetter

import pytest
from tests.support.preemption.differential import driver, recording, ties, topology, trees
from tests.support.preemption.differential.compare import Compared, compared, decided
from tests.support.preemption.differential.generator import (
    CASE_LABEL,
    GPU,
    HOST,
    PREEMPTOR,
    ROLE_LABEL,
    Case,
    Object,
    small_pod_spec,
)
from tests.support.preemption.differential.repeated import lasting
from tests.support.preemption.differential.topology import CASES, topology_case
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, TOPOLOGY, exclusive, of_run
from tools.devcluster.controlplane.releases import BUILDABLE, NEWEST, Release

from podium.planner.semantics import RuleSet, Semantics

_SEED = new_seed()
_ASKED = range(CASES if FULL else 24)
# The number of open cases, in a hundred: their answers depend on an order of equal nodes that was not tried.
_OPEN_PERCENT = 3
# The texts that a recording has at least once.
_TEXTS = (
    *("no topology domain found for pod", "more than 1 domain found for pod group", "getting node"),
    *("placements are available", "no feasible placements found", "found a placement for podgroup"),
    *("ongoing preemption", "preemptionPolicy=Never"),
)


each_release = pytest.mark.parametrize(
    "release", recording.releases("topology", trees.RELEASES), ids=attrgetter("version")
)


_RACKS = ("rack-0", "rack-1")


def _rules(minor: str) -> RuleSet:
    return Semantics(minor).rules


@cache
def _recorded(release: Release) -> recording.Recording:
    return recording.read(recording.path_of(release.minor, "topology"))


@cache
def _found(release: Release) -> tuple[Compared, ...]:
    recorded = _recorded(release)
    return tuple(compared(recorded.header, one) for one in recorded.cases)


def _assert_agreement(found: Sequence[Compared], seed: int) -> None:
    """No case differs, and few depend on an order that was not tried."""
    wrong = [str(one) for one in found if one.differs]
    assert not wrong, f"PODIUM_SEED={seed}:\n" + "\n".join(wrong)
    left = [str(one) for one in found if one.is_open]
    assert len(left) * 100 <= _OPEN_PERCENT * max(len(found), 100), "\n".join(left)


@each_release
def test_the_engine_does_what_kube_scheduler_did_with_topology(release: Release) -> None:
    _assert_agreement(_found(release), _recorded(release).header.seed)


@each_release
def test_scores_decide_between_domains_in_most_cases(release: Release) -> None:
    """The answer mostly stays the same if kube-scheduler's domain has the last name instead of the first."""
    recorded = _recorded(release)
    chosen = [
        one for one in _found(release) if one.agrees and one.server.nodes and _racks(one.recorded.objects) > 1
    ]
    last = [compared(recorded.header, one.recorded, _domain_last) for one in chosen]
    same = sum(one.agrees for one in last)
    assert len(chosen) >= CASES // 3
    assert same * 100 >= 85 * len(chosen), [one.recorded.namespace for one in last if not one.agrees]


def _domain_last(
    recorded: recording.Recorded, objects: Sequence[Object]
) -> tuple[list[ties.TieOrder], list[ties.TieOrder]]:
    """Return the orders of `ties` with the domain of kube-scheduler's answer last."""
    likely, others = ties.chances(recorded, objects)
    return [_last(each) for each in likely], [_last(each) for each in others]


def _last(order: ties.TieOrder) -> ties.TieOrder:
    return order._replace(
        domains=[each._replace(values=[*each.values[1:], *each.values[:1]]) for each in order.domains]
    )


@each_release
def test_a_recording_of_topology_has_every_kind_of_case(release: Release) -> None:
    recorded = _recorded(release)
    assert (recorded.header.version, len(recorded.cases)) == (release.version, CASES)
    ends = Counter(one.end for one in recorded.cases)
    assert all(ends[end] >= CASES // 10 for end in ("bound", "preempts", "waits")), ends
    messages = "\n".join(one.answer.message for one in recorded.cases)
    assert [text for text in _TEXTS if text not in messages] == []
    kinds = Counter(kind for one in recorded.cases for kind in _kinds(one.objects))
    assert set(kinds) == {
        *("basic", "all members", "some members", "no constraint", "running members", "accelerators"),
        *("no budgets", "budgets", "nodes without the label", *(f"{number} racks" for number in range(7))),
    }
    assert min(kinds.values()) >= 3, kinds


def _kinds(objects: Sequence[Object]) -> set[str]:
    """Return the kinds that a case belongs to."""
    group = _group(objects)["spec"]
    members = [
        each
        for each in objects
        if each["kind"] == "Pod" and each["spec"].get("schedulingGroup") == {"podGroupName": PREEMPTOR}
    ]
    gang = group["schedulingPolicy"].get("gang")
    kinds = {
        "basic" if gang is None else "all members" if gang["minCount"] == len(members) else "some members",
        "budgets" if any(each["kind"] == "PodDisruptionBudget" for each in objects) else "no budgets",
    }
    if any("nodeName" in each["spec"] for each in members):
        kinds.add("running members")
    if any(GPU in each["spec"]["containers"][0]["resources"].get("requests", ()) for each in members):
        kinds.add("accelerators")
    if "schedulingConstraints" not in group:
        return kinds | {"no constraint"}
    labelled = [_rack(each, group) for each in objects if each["kind"] == "Node"]
    if _key(group).startswith("tests.podium.dev"):
        kinds.add(f"{_racks(objects)} racks")
        if None in labelled:
            kinds.add("nodes without the label")
    return kinds


def _racks(objects: Sequence[Object]) -> int:
    """Return the number of domains of the preempting group, 1 without a constraint."""
    group = _group(objects)["spec"]
    if "schedulingConstraints" not in group:
        return 1
    return len({_rack(each, group) for each in objects if each["kind"] == "Node"} - {None})


def _rack(node: Object, group: Object) -> str | None:
    rack: str | None = node["metadata"]["labels"].get(_key(group))
    return rack


def _key(group: Object) -> str:
    key: str = group["schedulingConstraints"]["topology"][0]["key"]
    return key


def _group(objects: Sequence[Object]) -> Object:
    return next(
        each for each in objects if each["kind"] == "PodGroup" and each["metadata"]["name"] == PREEMPTOR
    )


def test_a_number_gives_one_case_of_topology() -> None:
    """A case is a function of seed and number; no two of its pods start at once."""
    for index in range(40):
        one = topology_case(1, index, NEWEST.minor)
        assert one == topology_case(1, index, NEWEST.minor)
        starts = [
            each["status"]["startTime"] for each in one.objects if "startTime" in each.get("status", {})
        ]
        assert len(starts) == len(set(starts)), index


@pytest.mark.server
@pytest.mark.parametrize("minor", of_run([item.minor for item in trees.RELEASES]))
def test_the_engine_does_what_a_live_kube_scheduler_does_with_topology(minor: str) -> None:
    """New cases in every run agree with the live scheduler; PODIUM_SEED repeats a run."""
    _assert_agreement(lasting(partial(topology.record, BUILDABLE[minor], _SEED), _ASKED), _SEED)


def _crowded_case(_seed: int, index: int, _minor: str) -> Case:
    """Make two racks of 28 nodes, of which the second one is fuller, and a gang that fits in each."""
    name = f"crowded-{index}"
    key, role = f"tests.podium.dev/{name}", {ROLE_LABEL: PREEMPTOR}
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": PREEMPTOR, "namespace": name, "labels": role},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": key}]},
            "priorityClassName": "value-100",
        },
    }
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"{name}-{number:02}",
                "labels": {HOST: f"{name}-{number:02}", CASE_LABEL: name, key: _RACKS[number // 28]},
            },
            "spec": {},
            "status": {"allocatable": room, "capacity": room},
        }
        for number in range(56)
    ]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"running-{number}", "namespace": name},
            "spec": small_pod_spec("value-100", 4000, nodeName=f"{name}-{number}"),
            "status": {"phase": "Running", "startTime": f"2026-01-01T00:00:{number}Z"},
        }
        for number in (28, 29, 30)
    ]
    member = {"schedulingGroup": {"podGroupName": PREEMPTOR}, "nodeSelector": {CASE_LABEL: name}}
    pending = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{PREEMPTOR}-{number}", "namespace": name, "labels": role},
            "spec": small_pod_spec("value-100", 100, **member),
        }
        for number in range(2)
    ]
    return Case(name, (group, *nodes, *pods, *pending), (), ("PodGroup", PREEMPTOR))


@pytest.mark.server
@pytest.mark.parametrize("minor", [minor for minor in of_run() if _rules(minor).limits_domains])
def test_a_domain_is_taken_by_chance_if_not_all_count(minor: str) -> None:
    """By default kube-scheduler looks at one of two racks with 56 nodes; the plan names both."""
    options = driver.Options(more=(TOPOLOGY,), placements=0)
    with exclusive(BUILDABLE[minor], apiserver=(f"--feature-gates={TOPOLOGY}",)) as server:
        recorded = driver.record(server, 0, range(16), options, _crowded_case)
    taken: Counter[str] = Counter()
    for one in recorded.cases:
        racks = {_RACKS[int(node.rpartition("-")[2]) // 28] for node in one.answer.bound.values()}
        assert len(racks) == 1, one.answer
        taken.update(racks)
        assert decided(recorded.header, one).choices[0].names == _RACKS
    assert set(taken) == set(_RACKS), taken
