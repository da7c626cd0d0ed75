"""Trees of composite groups get the outcome, nodes and victims of real kube-schedulers.

The scheduler runs with the gates TopologyAwareWorkloadScheduling and CompositePodGroup. It places the
children of a group by age and name, so no order of children has to be tried. Equal nodes and domains are
renamed as its answer shows (`ties`).
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from operator import attrgetter
from unittest import mock

import pytest
from tests.support.preemption.differential import recording, ties, trees
from tests.support.preemption.differential.compare import Compared, compared
from tests.support.preemption.differential.explained import FAILED_GROUPS
from tests.support.preemption.differential.generator import PREEMPTOR, ROLE_LABEL, Object
from tests.support.preemption.differential.repeated import lasting
from tests.support.preemption.differential.trees import CASES, RELEASES, tree_case
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, of_run
from tools.devcluster.controlplane.releases import BUILDABLE, Release

from podium.planner.preemption import treetarget
from podium.planner.preemption.target import PlacementTarget

_SEED = new_seed()
_ASKED = range(CASES if FULL else 24)
# The number of new cases in a hundred that may be open: their answers depend on an order that was not tried.
_OPEN_PERCENT = 1
# The texts that a recording has at least once.
_TEXTS = (
    *("no topology domain found for pod", "more than 1 domain found for pod group", "getting node"),
    *("placements are available", "found a placement for podgroup"),
    *("ongoing preemption", "preemptionPolicy=Never"),
    "should have the same preemption policy",
)
_TEXTS_OF_MINOR = {
    "1.37": ("failed due to child error", "same priority as the pod group's priority"),
    "1.38": (
        *("failed due to child", "same priority as the root pod group's priority", "empty topology domain"),
        *("cannot have basic child", "with Single disruption mode", "is unschedulable"),
    ),
}


each_release = pytest.mark.parametrize(
    "release", recording.releases("trees", RELEASES), ids=attrgetter("version")
)


@cache
def _recorded(release: Release) -> recording.Recording:
    return recording.read(recording.path_of(release.minor, "trees"))


@cache
def _found(release: Release) -> tuple[Compared, ...]:
    recorded = _recorded(release)
    return tuple(compared(recorded.header, one) for one in recorded.cases)


def _assert_agreement(found: Sequence[Compared], seed: int, most_open: int) -> None:
    """No case differs, and few depend on an order that was not tried."""
    wrong = [str(one) for one in found if one.differs]
    assert not wrong, f"PODIUM_SEED={seed}:\n" + "\n".join(wrong)
    left = [str(one) for one in found if one.is_open]
    assert len(left) <= most_open, "\n".join(left)


@each_release
def test_the_engine_does_what_kube_scheduler_did_with_trees(release: Release) -> None:
    """The list of explanations in docs/differences.md is needed for few cases of 1.37, and none of 1.38."""
    _assert_agreement(_found(release), _recorded(release).header.seed, 0)
    explained = Counter(one.explained for one in _found(release) if one.explained)
    assert set(explained) == ({FAILED_GROUPS} if release.minor == "1.37" else set())
    assert explained.total() <= CASES // 20


@each_release
def test_most_cases_have_one_answer(release: Release) -> None:
    """The answer mostly stays the same if all names of kube-scheduler's choice are the last ones."""
    recorded = _recorded(release)
    agreed = [one for one in _found(release) if one.agrees]
    same = [compared(recorded.header, one.recorded, _reversed).agrees for one in agreed]
    assert sum(same) * 100 >= 85 * len(agreed), len(agreed) - sum(same)


def _shown(
    recorded: recording.Recorded, objects: Sequence[Object]
) -> tuple[list[ties.TieOrder], list[ties.TieOrder]]:
    """Return the first order of `ties` alone."""
    return ties.chances(recorded, objects)[0], []


def _reversed(
    recorded: recording.Recorded, objects: Sequence[Object]
) -> tuple[list[ties.TieOrder], list[ties.TieOrder]]:
    """Return the first order of `ties` with its nodes and domains backwards."""
    (shown, *_), _ = _shown(recorded, objects)
    domains = [each._replace(values=[*reversed(each.values)]) for each in shown.domains]
    return [shown._replace(nodes=[*reversed(shown.nodes)], domains=domains)], []


@each_release
def test_answers_depend_on_the_order_of_children(release: Release) -> None:
    """With the youngest child first, some answers are not kube-scheduler's."""
    recorded = _recorded(release)
    agreed = [one.recorded for one in _found(release) if one.agrees]

    def youngest_first(part: PlacementTarget) -> tuple[str, str]:
        assert part.group is not None, "a part is a group"
        name = "".join(chr(255 - ord(letter)) for letter in part.group.ref.name)
        return "", name

    with mock.patch.object(treetarget, "_age", youngest_first):
        others = [compared(recorded.header, one, _shown) for one in agreed]
    assert sum(not one.agrees for one in others) >= CASES // 20


@each_release
def test_a_recording_of_trees_has_every_kind_of_case(release: Release) -> None:
    recorded = _recorded(release)
    assert (recorded.header.version, len(recorded.cases)) == (release.version, CASES)
    ends = Counter(one.end for one in recorded.cases)
    assert all(ends[end] >= CASES // 10 for end in ("bound", "preempts", "waits")), ends
    messages = "\n".join(one.answer.message for one in recorded.cases)
    texts = (*_TEXTS, *_TEXTS_OF_MINOR[release.minor])
    assert [text for text in texts if text not in messages] == []
    kinds = Counter(kind for one in recorded.cases for kind in _kinds(one))
    assert set(kinds) == {
        *("basic", "all children", "some children", "one child", "two children", "three children"),
        *("two levels", "three levels", "four levels", "running members", "budgets", "no budgets"),
        *("constraint of the root", "constraint of an inner group", "constraint of a leaf", "no constraint"),
        *("no running tree", "running tree", "part of a tree is evicted", "whole tree is evicted"),
    }
    assert min(kinds.values()) >= 3, kinds


def _kinds(one: recording.Recorded) -> set[str]:
    """Return the kinds that a case belongs to."""
    groups = {each["metadata"]["name"]: each for each in one.objects if "schedulingPolicy" in each["spec"]}
    levels = {name: _path(groups, name) for name in groups}
    pending = {name: path for name, path in levels.items() if path[0] == PREEMPTOR}
    root = groups[PREEMPTOR]["spec"]
    children = [name for name, path in pending.items() if len(path) == 2]
    least = root["schedulingPolicy"].get("gang", {}).get("minGroupCount", 0)
    numbers = ("one child", "two children", "three children")
    kinds = {
        "basic" if least == 0 else "all children" if least == len(children) else "some children",
        numbers[len(children) - 1],
        ("two levels", "three levels", "four levels")[max(map(len, pending.values())) - 2],
        "budgets" if any(each["kind"] == "PodDisruptionBudget" for each in one.objects) else "no budgets",
        "running tree" if any(path[0] == "tree-0" for path in levels.values()) else "no running tree",
    }
    constrained = {name for name in pending if "schedulingConstraints" in groups[name]["spec"]}
    for name in constrained:
        leaf = groups[name]["kind"] == "PodGroup"
        kinds.add(
            f"constraint of {'a leaf' if leaf else 'the root' if name == PREEMPTOR else 'an inner group'}"
        )
    members = {
        each["metadata"]["name"]: each["spec"]["schedulingGroup"]["podGroupName"]
        for each in one.objects
        if each["kind"] == "Pod" and "nodeName" in each["spec"] and "schedulingGroup" in each["spec"]
    }
    kinds |= {"no constraint"} - ({"no constraint"} if constrained else set())
    kinds |= {"running members"} if set(members.values()) & set(pending) else set()
    return kinds | {_loss(one, members, levels, name) for name in groups if name.startswith("tree-")} - {""}


def _path(groups: dict[str, Object], name: str) -> list[str]:
    """Return the groups from the root down to a group."""
    above = groups[name]["spec"].get("parentCompositePodGroupName")
    return [*(_path(groups, above) if above else ()), name]


def _loss(one: recording.Recorded, members: dict[str, str], levels: dict[str, list[str]], root: str) -> str:
    """Return how much of a running tree is evicted."""
    running = {pod for pod, group in members.items() if levels[group][0] == root}
    gone = running & set(one.answer.victims)
    if len(running) < 2 or not gone:
        return ""
    return "whole tree is evicted" if gone == running else "part of a tree is evicted"


def test_a_number_gives_one_case_of_trees() -> None:
    """A case is a function of seed and number; no two of its pods start at once."""
    for index in range(40):
        one = tree_case(1, index)
        assert one == tree_case(1, index)
        starts = [
            each["status"]["startTime"] for each in one.objects if "startTime" in each.get("status", {})
        ]
        assert len(starts) == len(set(starts)), index
        assert any(ROLE_LABEL in each["metadata"].get("labels", ()) for each in one.objects)


@pytest.mark.server
@pytest.mark.parametrize("minor", of_run([item.minor for item in RELEASES]))
def test_the_engine_does_what_a_live_kube_scheduler_does_with_trees(minor: str) -> None:
    """New cases in every run agree with the live scheduler; PODIUM_SEED repeats a run."""
    found = lasting(partial(trees.record, BUILDABLE[minor], _SEED), _ASKED)
    _assert_agreement(found, _SEED, max(len(found) * _OPEN_PERCENT // 100, 1))
