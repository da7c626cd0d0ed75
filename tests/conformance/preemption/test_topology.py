"""Groups with a topology constraint get the outcome, nodes and victims of a real kube-scheduler 1.37.

The scheduler runs with the gate TopologyAwareWorkloadScheduling. It takes any of equally good domains, so the
label's values are renamed as its answer shows (`ties`).
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial

import pytest
from tests.support.preemption.differential import recording, ties, topology
from tests.support.preemption.differential.compare import Compared, compared
from tests.support.preemption.differential.generator import GPU, PREEMPTOR, Object
from tests.support.preemption.differential.repeated import lasting
from tests.support.preemption.differential.topology import CASES, topology_case
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL
from tools.devcluster.controlplane.releases import NEWEST

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


@cache
def _recorded() -> recording.Recording:
    return recording.read(recording.path_of(NEWEST.version, "topology"))


@cache
def _found() -> tuple[Compared, ...]:
    recorded = _recorded()
    return tuple(compared(recorded.header, one) for one in recorded.cases)


def _assert_agreement(found: Sequence[Compared], seed: int) -> None:
    """No case differs, and few depend on an order that was not tried."""
    wrong = [str(one) for one in found if one.differs]
    assert not wrong, f"PODIUM_SEED={seed}:\n" + "\n".join(wrong)
    left = [str(one) for one in found if one.is_open]
    assert len(left) * 100 <= _OPEN_PERCENT * max(len(found), 100), "\n".join(left)


def test_the_engine_does_what_kube_scheduler_did_with_topology() -> None:
    _assert_agreement(_found(), _recorded().header.seed)


def test_scores_decide_between_domains_in_most_cases() -> None:
    """The answer mostly stays the same if kube-scheduler's domain has the last name instead of the first."""
    recorded = _recorded()
    chosen = [one for one in _found() if one.agrees and one.server.nodes and _racks(one.recorded.objects) > 1]
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


def test_a_recording_of_topology_has_every_kind_of_case() -> None:
    recorded = _recorded()
    assert (recorded.header.version, len(recorded.cases)) == (NEWEST.version, CASES)
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
def test_the_engine_does_what_a_live_kube_scheduler_does_with_topology() -> None:
    """New cases in every run agree with the live scheduler; PODIUM_SEED repeats a run."""
    _assert_agreement(lasting(partial(topology.record, NEWEST, _SEED), _ASKED), _SEED)
