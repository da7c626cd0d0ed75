"""The closed list of known differences from kube-scheduler, documented in docs/differences.md.

Each is a change of the cluster that removes what kube-scheduler overlooks. With the change, Podium answers as
kube-scheduler does. A difference that remains has another cause. A test requires that the recordings contain
all of them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from tests.support.preemption.differential.generator import ROLE_LABEL, Object
from tests.support.preemption.differential.recording import Recorded

from podium.planner.arrays import Rows
from podium.planner.plugins.topologyspread import SpreadReprieve, TopologySpreadFilter
from podium.planner.preemption.domainsearch import DomainSearch, Located
from podium.planner.preemption.dryrun import DryRun
from podium.planner.preemption.targetplacement import TargetPlacer
from podium.planner.preemption.topology import CLUSTER
from podium.planner.semantics import Semantics


class Explanation(NamedTuple):
    """A named difference of some minors; `without` returns the changed cluster, None if it does not apply."""

    name: str
    minors: tuple[str, ...]
    without: Callable[[Recorded, Sequence[Object], str], list[Object] | None]


def _skipped_anti_affinity(recorded: Recorded, objects: Sequence[Object], minor: str) -> list[Object] | None:
    """Return the case without the anti-affinity of potential victims, None if another pod has some.

    None too if each member has affinity of its own.
    """
    groups = {
        _name(each): each["spec"]["priority"]
        for each in objects
        if "schedulingPolicy" in each.get("spec", {})
    }
    pods = [each for each in objects if each["kind"] == "Pod"]
    pending = [pod for pod in pods if ROLE_LABEL in pod["metadata"].get("labels", ())]
    running = [pod for pod in pods if pod not in pending]
    wants = groups.get(recorded.preemptor[1])
    own = Semantics(minor).rules.group_victims.own_priority
    hostile = {
        _name(pod): pod["spec"]["priority"] if own else _priority(pod, groups)
        for pod in running
        if "podAntiAffinity" in _affinity(pod)
    }
    skipped = any(not _affinity(pod).keys() & {"podAffinity", "podAntiAffinity"} for pod in pending)
    if wants is None or not skipped or not hostile or max(hostile.values()) >= wants:
        return None
    return [_peaceful(each) if _name(each) in hostile else each for each in objects]


def _peaceful(pod: Object) -> Object:
    return {**pod, "spec": {**pod["spec"], "affinity": None}}


def _affinity(pod: Object) -> Mapping[str, Any]:
    affinity: Mapping[str, Any] = pod["spec"].get("affinity") or {}
    return affinity


def _priority(pod: Object, groups: Mapping[str, int]) -> int:
    named = pod["spec"].get("schedulingGroup", {}).get("podGroupName", "")
    priority: int = groups.get(named, pod["spec"]["priority"])
    return priority


def _name(stored: Object) -> str:
    name: str = stored["metadata"]["name"]
    return name


# An error on one node ends kube-scheduler's attempt, and kube-scheduler looks for devices for other claims
# before it compares a node with allocated ones.
DEVICE_ERRORS, CLAIM_ORDER = "error-on-one-node", "allocated-claims-first"
# kube-scheduler 1.37 plans preemption for a tree with the members of failed groups too.
FAILED_GROUPS = "failed-groups-of-a-tree"
# While kube-scheduler returns units, it follows two domains only, so the emptiest may seem fuller.
LEAST_OF_TWO = "least-of-two-domains"


def failed_groups(recorded: Recorded, objects: Sequence[Object]) -> dict[str, str]:
    """Return the nominated members of groups of a tree that fail, with their nodes.

    A group fails with too few members or children, or below a group that fails. Of a group in no tree there
    are none.
    """
    if recorded.preemptor[0] != "CompositePodGroup":
        return {}
    groups = {_name(each): each["spec"] for each in objects if "schedulingPolicy" in each.get("spec", {})}
    leaf_of = {
        _name(each): each["spec"]["schedulingGroup"]["podGroupName"]
        for each in objects
        if each["kind"] == "Pod" and "schedulingGroup" in each["spec"]
    }
    nominated = recorded.answer.nominated
    placed = Counter(
        leaf_of[_name(each)]
        for each in objects
        if each["kind"] == "Pod"
        and _name(each) in leaf_of
        and ("nodeName" in each["spec"] or _name(each) in nominated)
    )

    def succeeds(name: str) -> bool:
        gang = groups[name]["schedulingPolicy"].get("gang", {})
        below = [each for each, spec in groups.items() if spec.get("parentCompositePodGroupName") == name]
        reached = sum(map(succeeds, below)) if below else placed[name]
        least: int = gang.get("minGroupCount", gang.get("minCount", 1))
        return reached >= least

    def counts(name: str) -> bool:
        above = groups[name].get("parentCompositePodGroupName")
        return succeeds(name) and (above is None or counts(above))

    return {pod: node for pod, node in nominated.items() if pod in leaf_of and not counts(leaf_of[pod])}


@contextmanager
def members_in_plans(namespace: str, members: Mapping[str, str]) -> Iterator[None]:
    """Begin a block in which victims are given back only beside these pods on these nodes, too.

    kube-scheduler checks each member on its node. If a node takes them no more, no victim is given back.
    """
    plain = DryRun.reprieve

    def reprieve(self: DryRun, leads: Rows, placed: dict[int, int]) -> list[int]:
        snapshot, back = self.snapshot, list[int]()
        more = {snapshot.pod_row[namespace, pod]: snapshot.row[node] for pod, node in members.items()}
        nodes = list(more.values())
        with snapshot.trial():
            for row, node in more.items():
                snapshot.assume(row, node)
            if all(
                (snapshot.used[at][nodes] <= snapshot.allocatable[at][nodes]).all() for at in _resources(self)
            ):
                back = plain(self, leads, placed | more)
        self.add_back(np.array(back, np.intp))
        return back

    with mock.patch.object(DryRun, "reprieve", reprieve if members else plain):
        yield


def spreads_over_victims(recorded: Recorded, objects: Sequence[Object]) -> bool:
    """Return whether a group has a spread constraint that counts all pods, so that of its victims too."""
    pods = [each for each in objects if each["kind"] == "Pod"]
    constraints = [
        constraint
        for pod in pods
        if ROLE_LABEL in pod["metadata"].get("labels", ())
        for constraint in pod["spec"].get("topologySpreadConstraints", ())
    ]
    return recorded.preemptor[0] != "Pod" and any(each.get("labelSelector") == {} for each in constraints)


@contextmanager
def returns_beside_any_spread() -> Iterator[None]:
    """Begin a block in which spread constraints of the preemptor keep no unit from being given back."""
    with (
        mock.patch.object(SpreadReprieve, "_spread_limits", return_value=[]),
        mock.patch.object(TopologySpreadFilter, "reason", return_value=None),
    ):
        yield


@contextmanager
def without_free_room() -> Iterator[None]:
    """Begin a block in which no preemptor fits without preemption, whatever was changed in its cluster."""

    def refused(self: TargetPlacer, search: DomainSearch, _nominated: object = None) -> Located:
        return Located(CLUSTER, None, self.refusals(search.target.rows[0]))

    with mock.patch.object(TargetPlacer, "place", refused):
        yield


def _resources(run: DryRun) -> list[int]:
    """Return the resources that the pods of a preemptor request."""
    names = {name for shape in run.shapes for name, _ in shape.requests}
    return [run.snapshot.resource[name] for name in sorted(names) if name in run.snapshot.resource]


EXPLAINED = (Explanation("skipped-anti-affinity", ("1.37", "1.38"), _skipped_anti_affinity),)
