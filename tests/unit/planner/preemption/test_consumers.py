"""A claim has at most 256 consumers: further pods wait before any write, or preempt a consumer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.devices.scene import ANY, claim, device_class, devices_of, pod
from tests.support.filters import builders
from tests.support.preemption.scene import HOST, group, of, placed, planned, victims

from podium.api.core import ResourceClaimEntry
from podium.api.devices import MAX_CONSUMERS
from podium.planner.plugins.devices.filter import IN_USE, DevicesFilter
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

AFTER, FITS, NOT = Outcome.FITS_AFTER_PREEMPTION, Outcome.FITS, Outcome.DOES_NOT_FIT
NODES = [builders.node(f"n{at}", {"cpu": 1000, "pods": 1000}, labels={HOST: f"n{at}"}) for at in range(2)]
BASE = [*NODES, device_class(), devices_of("n0", 1), devices_of("n1", 1)]
# Devices of the network, which both nodes can use.
ANYWHERE = [*NODES, device_class(), devices_of(ANY, 1)]
SHARING: dict[str, Any] = {"claims": ["c"]}
CLAIMS = (ResourceClaimEntry(name="x0", resourceClaimName="c"),)


def used_by(number: int, *others: str, held: str = "n0/gpu-0") -> Any:
    """Return the claim `c` with so many consumers u0, u1 ... and the others."""
    return claim("c", [held], [*(f"u{at}" for at in range(number)), *others])


def users(number: int, priority: int = 20, node: str = "n0") -> list[Any]:
    """Return the running pods u0, u1 ... that use the claim `c`."""
    return [pod(f"u{at}", priority, node=node, **SHARING) for at in range(number)]


def gang(number: int, least: int | None = None, priority: int = 10, **fields: Any) -> list[Any]:
    """Return a pending gang `high` whose pods use the claim `c`."""
    members = [pod(f"high-{at}", priority, group="high", **SHARING) for at in range(number)]
    return [group("high", priority, least or number, **fields), *members]


@dataclass(frozen=True)
class Case:
    """Objects, and the plan for the pod or gang `high`."""

    objects: list[Any]
    outcome: Outcome
    victims: Sequence[str] = ()
    by: Any = "high"
    why: str = ""


HIGH = pod("high", 10, **SHARING)
LESS = MAX_CONSUMERS - 1
CASES = {
    "the last place": Case([*BASE, used_by(LESS), *users(LESS), HIGH], FITS),
    "no place": Case([*BASE, used_by(256), *users(256), HIGH], NOT, why=f"2 {IN_USE}"),
    "the pod has its place already": Case([*BASE, used_by(LESS, "high"), *users(LESS), HIGH], FITS),
    "a consumer of lower priority is evicted": Case(
        [*BASE, used_by(LESS, "low"), *users(LESS), pod("low", 1, node="n0", **SHARING), HIGH], AFTER, ["low"]
    ),
    "the consumer of the lowest priority is evicted": Case(
        [
            *ANYWHERE,
            used_by(254, "low", "less", held=f"{ANY}/gpu-0"),
            *users(254, node="n1"),
            pod("low", 1, node="n0", **SHARING),
            pod("less", 0, node="n1", **SHARING),
            HIGH,
        ],
        AFTER,
        ["less"],
    ),
    "a pod that uses no claim is not evicted for a place": Case(
        [*BASE, used_by(256), *users(256), pod("low", 1, claims=(), node="n0"), HIGH], NOT
    ),
    "a terminating consumer is awaited": Case(
        [
            *BASE,
            used_by(LESS, "low"),
            *users(LESS),
            pod("low", 1, node="n0", terminating=True, **SHARING),
            HIGH,
        ],
        AFTER,
    ),
    "a consumer that is gone is awaited": Case(
        [*BASE, used_by(LESS, "gone"), *users(LESS), HIGH], Outcome.NOT_ELIGIBLE, why=DevicesFilter.AWAITS
    ),
    "a consumer that is gone does not suffice": Case(
        [*BASE, used_by(LESS, "gone"), *users(LESS), *gang(2)], NOT, by=of("high")
    ),
    "a gang that takes all places": Case([*BASE, claim("c"), *gang(256)], FITS, by=of("high")),
    "a gang with a pod too many": Case([*BASE, claim("c"), *gang(257)], NOT, by=of("high"), why=IN_USE),
    "a gang that needs fewer pods than there are places": Case(
        [*BASE, claim("c"), *gang(257, 256)], FITS, by=of("high")
    ),
    "a gang beside other consumers": Case(
        [*BASE, used_by(200), *users(200), *gang(57)], NOT, by=of("high"), why=IN_USE
    ),
    "a gang evicts as many consumers as it needs places": Case(
        [
            *BASE,
            used_by(253, "low-0", "low-1", "low-2"),
            *users(253),
            *(pod(f"low-{at}", at, node="n0", **SHARING) for at in range(3)),
            *gang(2),
        ],
        AFTER,
        ["low-0", "low-1"],
        of("high"),
    ),
    "a group is one consumer": Case([*BASE, claim("c"), *gang(300, claims=CLAIMS)], FITS, by=of("high")),
    "a group finds no place": Case(
        [*BASE, used_by(256), *users(256), *gang(2, claims=CLAIMS)], NOT, by=of("high"), why=IN_USE
    ),
    "a group has its place already": Case(
        [*BASE, claim("c", ["n0/gpu-0"], group="high"), *gang(300, claims=CLAIMS)], FITS, by=of("high")
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_plan_respects_the_consumers_of_a_claim(case: Case) -> None:
    made = planned(case.objects, by=case.by)
    assert (made.outcome, sorted(victims(made))) == (case.outcome, list(case.victims))
    assert case.why in made.message


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_no_release_of_kube_scheduler_frees_a_place(semantics: Semantics) -> None:
    low = pod("low", 1, node="n0", **SHARING)
    made = planned(*BASE, used_by(LESS, "low"), users(LESS), low, HIGH, semantics=semantics)
    assert (made.outcome, victims(made)) == (NOT, [])


def test_the_surplus_of_a_gang_stays_out() -> None:
    made = planned(*BASE, claim("c"), gang(257, 200), by=of("high"))
    assert len(placed(made)) == MAX_CONSUMERS
