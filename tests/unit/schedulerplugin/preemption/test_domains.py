"""Domains: a node for a pod, the cluster for a group; several domains of nodes are possible.

Two domains are tested by giving the chooser two masks of nodes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.preemption.clusters import NS, SECONDS
from tests.support.preemption.scene import engine_of, gang, group, node, pod
from tests.unit.schedulerplugin.preemption.test_budgets import budget

from podium.schedulerplugin.engine import Engine
from podium.schedulerplugin.preemption.choice import Chosen
from podium.schedulerplugin.preemption.dryrun import Domain, PreemptorPods

# Domain a has n1 and n2, b has n3 and n4; each node 4 cpus.
DOMAINS = {"a": ("n1", "n2"), "b": ("n3", "n4")}


def choose(
    *objects: Any, members: int = 1, cpu: int = 4, domains: Sequence[str] = ("a", "b"), **settings: Any
) -> tuple[Engine, Chosen | None]:
    """Return the chosen domain for a group of priority 5 whose members request `cpu` each."""
    nodes = [node(name) for names in DOMAINS.values() for name in names]
    waiting = [group("high", 5, members), gang("high", [None] * members, cpu, priority=5)]
    engine = engine_of(nodes, waiting, *objects, **settings)
    snapshot = engine.snapshot
    engine.units(for_group=True, now=SECONDS)
    rows = tuple(snapshot.pod_row[NS, f"high-{at}"] for at in range(members))
    masks = []
    for name in domains:
        mask = np.zeros(len(snapshot.alive), np.bool_)
        mask[[snapshot.row[each] for each in DOMAINS[name]]] = True
        masks.append(Domain(name, within=mask))
    with snapshot.trial():
        return engine, engine.chooser(PreemptorPods(rows, members, 5, group=True), SECONDS).among_domains(
            masks
        )


def chosen(*objects: Any, **kwargs: Any) -> tuple[str, list[str], list[str]]:
    """Return the domain, the victims by name and the nodes used."""
    engine, found = choose(*objects, **kwargs)
    assert found is not None
    units, _ = engine.units(for_group=True, now=SECONDS)
    names = [units.object_of(lead)[2] for lead in found.found.victims.tolist()]
    nodes = sorted(engine.snapshot.names[row] or "" for row in found.found.placed.values())
    return found.found.domain.name, sorted(names), nodes


def low(name: str, where: str, priority: int = 1, cpu: int = 4, **kwargs: Any) -> Any:
    return pod(name, cpu, priority, node=where, ago=60, **kwargs)


def gang_of(name: str, nodes: Sequence[str]) -> list[Any]:
    """Make further members of a group with small requests."""
    return [pod(f"{name}-more-{at}", 1, 1, node=where, group=name, ago=60) for at, where in enumerate(nodes)]


def full(domain: str, priority: int = 1, cpu: int = 4) -> list[Any]:
    return [low(f"{domain}-{where}", where, priority, cpu) for where in DOMAINS[domain]]


def test_the_preemptor_is_placed_in_one_domain_only() -> None:
    """One place in each of two domains is not enough for two members."""
    peers = [low("peer-1", "n1", 9), low("peer-3", "n3", 9)]
    _, found = choose(low("low-2", "n2"), low("low-4", "n4"), peers, members=2)
    assert found is None
    assert chosen(full("a"), low("low-3", "n3"), low("peer-4", "n4", 9), members=2) == (
        "a",
        ["a-n1", "a-n2"],
        ["n1", "n2"],
    )


@pytest.mark.parametrize(("outside", "expected"), [(["n5", "n5"], "b"), ([], "a")])
def test_a_group_partly_outside_the_domain_costs_all_members(outside: list[str], expected: str) -> None:
    """One member frees the room in a, but two more are elsewhere: the group of two in b is less harm."""
    elsewhere = node("n5")
    spread = [group("spread", 1, 1, whole=True), gang("spread", ["n1"], 4), gang_of("spread", outside)]
    beside = [low("peer-2", "n2", 9), low("peer-4", "n4", 9)]
    two = [group("two", 1, 1, whole=True), gang("two", ["n3", "n3"], 2, priority=1, ago=60)]
    assert chosen(elsewhere, spread, beside, two)[0] == expected


def test_the_cost_counts_all_members() -> None:
    spread = [group("spread", 1, 1, whole=True), gang("spread", ["n1", "n3", "n4"], 4)]
    _, found = choose(spread, low("peer", "n2", 9), domains=["a"])
    assert found is not None
    assert found.found.cost.pods == 3


def test_room_freed_outside_the_domain_does_not_count() -> None:
    """One member in domain a has 1 cpu, one outside has a whole node: 4 cpus do not fit in a."""
    spread = [group("spread", 1, 2, whole=True), pod("in", 1, 1, node="n1", group="spread")]
    outside = pod("out", 4, 1, node="n3", group="spread")
    held = [low("peer-1", "n1", 9, 3), low("peer-2", "n2", 9), low("peer-4", "n4", 9)]
    _, found = choose(spread, outside, held, domains=["a"])
    assert found is None
    assert chosen(spread, outside, held, domains=["b"]) == ("b", ["spread"], ["n3"])


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [
                [low(f"a-{where}", where, 1, 4, labels={"app": "a"}) for where in DOMAINS["a"]],
                budget(allowed=0),
                full("b", 3),
            ],
            "b",
            id="1: fewest budgets violated",
        ),
        pytest.param([full("a", 2), full("b", 1)], "b", id="2: the lowest highest priority"),
        pytest.param(
            [full("a", 1, 2), [low(f"a2-{w}", w, 1, 2) for w in DOMAINS["a"]], full("b", 1)],
            "b",
            id="3: the least sum, so fewer victims",
        ),
        pytest.param(
            [[pod(f"a-{w}", 4, 1, node=w, ago=90) for w in DOMAINS["a"]], full("b")],
            "b",
            id="5: the latest of the earliest starts",
        ),
        pytest.param([full("a"), full("b")], "a", id="then the name"),
    ],
)
def test_domains_are_scored_as_nodes_are(objects: list[Any], expected: str) -> None:
    """By kube-scheduler's steps over all victims, wherever they run."""
    assert chosen(objects, members=2)[0] == expected


def test_a_domain_without_a_potential_victim_has_no_plan() -> None:
    _, found = choose(domains=["a"])
    assert found is None
