"""The ledger of a gang: named cases, and forgetting in any order as the exact inverse of assuming."""

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.volumes.generated import Generated, generated
from tests.support.volumes.manifests import (
    DRIVER,
    HOST,
    NS,
    ZONE,
    Manifest,
    binding,
    capacity,
    claim,
    decoded,
    driver,
    node,
    read_claims,
    storage_class,
    volume,
)

from podium.planner.plugins.volumes.delayed import REASONS, DelayedBinding
from podium.planner.plugins.volumes.writes import BoundVolume, ProvisionedVolume, VolumePlan
from podium.planner.snapshot import Snapshot

NO_VOLUME, NO_SPACE = REASONS.values()
NETWORK = storage_class("network", DRIVER)


def assumed(bound: DelayedBinding, claims: Iterable[Manifest], node: str) -> VolumePlan:
    """Place a member of a gang with these claims on a node."""
    plan = bound.find(read_claims(claims), summed=True).plan(node)
    bound.ledger.assume(plan.claims)
    return plan


def reasons(bound: DelayedBinding, snapshot: Snapshot, *claims: Manifest) -> dict[str, str | None]:
    """Return the reason against each node for the next member."""
    found = bound.find(read_claims(claims), summed=True)
    return {name: found.reason(row) for name, row in snapshot.row.items()}


def test_two_members_do_not_count_on_one_volume() -> None:
    snapshot, bound = binding([node("a")], [storage_class("local"), volume("v", "5Gi")])
    plan = assumed(bound, [claim("one", "1Gi")], "a")
    assert plan.bound == (BoundVolume((NS, "one"), "one", "v", by_scheduler=True),)
    assert reasons(bound, snapshot, claim("two", "1Gi")) == {"a": NO_VOLUME}
    bound.ledger.forget(plan.claims)
    assert reasons(bound, snapshot, claim("two", "1Gi")) == {"a": None}


def test_two_members_do_not_count_on_the_last_capacity_of_a_segment() -> None:
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y")]
    zone = {"topology.kubernetes.io/zone": "x"}
    snapshot, bound = binding(nodes, [NETWORK, driver(), capacity("x", "network", zone, "5Gi")])
    plan = assumed(bound, [claim("one", "3Gi", "network")], "a")
    [provisioned] = plan.provisioned
    assert (provisioned.claim, provisioned.node, provisioned.size) == ((NS, "one"), "a", 3 * 2**30)
    full = {"a": NO_SPACE, "b": NO_SPACE, "c": NO_SPACE}
    assert reasons(bound, snapshot, claim("two", "3Gi", "network")) == full
    assert reasons(bound, snapshot, claim("two", "2Gi", "network")) == {**full, "a": None, "b": None}
    # kube-scheduler compares each claim with the whole capacity.
    lone = bound.find(read_claims([claim("two", "3Gi", "network")]))
    assert [lone.reason(snapshot.row[name]) for name in "abc"] == [None, None, NO_SPACE]


def test_claims_of_one_member_are_summed_too() -> None:
    nodes, amount = [node("a"), node("b")], capacity("a", "network", {HOST: "a"}, "5Gi")
    more = capacity("b", "network", {HOST: "b"}, "6Gi")
    snapshot, bound = binding(nodes, [NETWORK, driver(), amount, more])
    claims = claim("one", "3Gi", "network"), claim("two", "3Gi", "network")
    assert reasons(bound, snapshot, *claims) == {"a": NO_SPACE, "b": None}


def test_several_capacities_of_one_segment_are_one_space() -> None:
    """A driver can publish one segment twice, for example while its leader changes."""
    amounts = [capacity("old", "network", {}, "2Gi"), capacity("new", "network", {}, "4Gi")]
    snapshot, bound = binding([node("a")], [NETWORK, driver(), *amounts])
    one, two = claim("one", "3Gi", "network"), claim("two", "2Gi", "network")
    assert reasons(bound, snapshot, one, two) == {"a": NO_SPACE}
    assumed(bound, [one], "a")
    assert reasons(bound, snapshot, two) == {"a": NO_SPACE}
    assert reasons(bound, snapshot, claim("two", "1Gi", "network")) == {"a": None}


def test_a_segment_keeps_its_sum_when_the_driver_replaces_its_object() -> None:
    first = capacity("old", "network", {HOST: "a"}, "5Gi")
    snapshot, bound = binding([node("a")], [NETWORK, driver(), first])
    plan = assumed(bound, [claim("one", "3Gi", "network")], "a")
    bound.apply(decoded(first), None)
    bound.apply(None, decoded(capacity("new", "network", {HOST: "a"}, "5Gi")))
    assert reasons(bound, snapshot, claim("two", "3Gi", "network")) == {"a": NO_SPACE}
    bound.ledger.forget(plan.claims)
    assert reasons(bound, snapshot, claim("two", "3Gi", "network")) == {"a": None}


def test_without_a_capacity_only_the_largest_volume_counts() -> None:
    """How much there is in total is not known."""
    snapshot, bound = binding(
        [node("a")], [NETWORK, driver(), capacity("a", "network", {HOST: "a"}, largest="4Gi")]
    )
    assumed(bound, [claim("one", "3Gi", "network")], "a")
    assert reasons(bound, snapshot, claim("two", "4Gi", "network")) == {"a": None}
    assert reasons(bound, snapshot, claim("two", "5Gi", "network")) == {"a": NO_SPACE}


def test_a_shared_claim_keeps_its_node_until_its_last_member_is_forgotten() -> None:
    amounts = [capacity(name, "network", {HOST: name}, "5Gi") for name in "ab"]
    snapshot, bound = binding([node("a"), node("b")], [NETWORK, driver(), *amounts])
    shared = claim("shared", "3Gi", "network")
    first = assumed(bound, [shared], "a")
    assert reasons(bound, snapshot, shared) == {"a": None, "b": NO_VOLUME}
    second = assumed(bound, [shared], "a")
    assert first == second
    bound.ledger.forget(first.claims)
    assert reasons(bound, snapshot, shared) == {"a": None, "b": NO_VOLUME}
    bound.ledger.forget(second.claims)
    assert reasons(bound, snapshot, shared) == {"a": None, "b": None}
    assert not bound.provisioning.promised


def test_a_shared_claim_keeps_its_volume() -> None:
    """Its second member goes where the volume is reached, even if the class could provision another."""
    zone = {"topology.kubernetes.io/zone": ["x"]}
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y")]
    snapshot, bound = binding(nodes, [NETWORK, volume("v", "5Gi", "network", on=[zone])])
    shared = claim("shared", "3Gi", "network")
    first = assumed(bound, [shared], "a")
    assert reasons(bound, snapshot, shared) == {"a": None, "b": None, "c": NO_VOLUME}
    assert assumed(bound, [shared], "b") == first


def test_a_volume_that_is_gone_serves_no_further_member() -> None:
    snapshot, bound = binding([node("a")], [storage_class("local"), volume("v", "5Gi")])
    shared = claim("shared", "3Gi")
    assumed(bound, [shared], "a")
    bound.apply(decoded(volume("v", "5Gi")), None)
    assert reasons(bound, snapshot, shared) == {"a": NO_VOLUME}
    bound.apply(None, decoded(volume("v", "5Gi")))
    assert reasons(bound, snapshot, shared) == {"a": None}
    assert reasons(bound, snapshot, claim("other", "1Gi")) == {"a": NO_VOLUME}


ONE = BoundVolume((NS, "one"), "one", "v", by_scheduler=True)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (VolumePlan((replace(ONE, volume="w"),)), "claim team-a/one is assumed with another volume or node"),
        (
            VolumePlan((), (ProvisionedVolume((NS, "one"), "one", "a", None, 0),)),
            "claim team-a/one is assumed with another volume or node",
        ),
        (VolumePlan((replace(ONE, claim=(NS, "two")),)), "volume v is assumed for another claim"),
    ],
)
def test_a_contradicting_plan_is_refused_and_counts_nothing(plan: VolumePlan, message: str) -> None:
    snapshot, bound = binding([node("a")], [storage_class("local"), volume("v", "5Gi"), volume("w", "5Gi")])
    bound.ledger.assume((ONE,))
    other = ProvisionedVolume((NS, "other"), "other", "a", None, 0)
    with pytest.raises(ValueError, match=message):
        bound.ledger.assume((*plan.claims, other))
    assert bound.ledger.plan((NS, "other")) is None
    bound.ledger.forget((ONE,))
    assert reasons(bound, snapshot, claim("one", "1Gi"), claim("two", "1Gi")) == {"a": None}


def test_a_shared_claim_stays_in_its_segment_when_the_capacity_is_gone() -> None:
    """The driver may replace the object of a segment while the claim is being provisioned."""
    nodes = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]
    published = capacity("cap", "network", {ZONE: "a"}, "10Gi")
    snapshot, bound = binding(nodes, [NETWORK, driver(), published])
    shared = claim("one", "1Gi", "network", accessModes=["ReadWriteMany"])
    assumed(bound, [shared], "a1")
    bound.apply(decoded(published), None)
    assert reasons(bound, snapshot, shared) == {"a1": None, "a2": None, "b1": NO_VOLUME}


def picture(made: Generated, snapshot: Snapshot, bound: DelayedBinding) -> object:
    """Return everything that can be asked of a binding."""
    answers = []
    for claims in made.pods:
        for summed in (False, True):
            found = bound.find(read_claims(claims), summed=summed)
            answers += [found.reason(row) or found.plan(name) for name, row in sorted(snapshot.row.items())]
    claims_of_all = [each.key for claims in made.pods for each in read_claims(claims)]
    return answers, dict(bound.provisioning.promised), [bound.ledger.plan(key) for key in claims_of_all]


@given(st.integers(0, 2**32))
def test_forgetting_in_any_order_is_the_inverse_of_assuming(seed: int) -> None:
    made, dice = generated(random.Random(seed), pods=5), random.Random(seed)
    snapshot, bound = binding(made.nodes, made.storage)
    plans: list[VolumePlan] = []
    for claims in made.pods:
        found = bound.find(read_claims(claims), summed=True)
        nodes = sorted(name for name, row in snapshot.row.items() if found.feasible[row])
        if nodes:
            plans.append(found.plan(dice.choice(nodes)))
            bound.ledger.assume(plans[-1].claims)
    while True:
        # A binding that never had the plans that were forgotten.
        other_snapshot, other = binding(made.nodes, made.storage)
        for plan in plans:
            other.ledger.assume(plan.claims)
        assert picture(made, snapshot, bound) == picture(made, other_snapshot, other)
        if not plans:
            break
        bound.ledger.forget(plans.pop(dice.randrange(len(plans))).claims)


@given(st.integers(0, 2**32))
def test_changes_of_objects_give_the_same_as_a_fresh_start(seed: int) -> None:
    """Volumes are taken, freed, changed and removed, so are capacities and nodes, and plans come and go."""
    dice = random.Random(seed)
    made, later = generated(dice), generated(dice)
    snapshot, bound = binding(made.nodes, made.storage)
    nodes = {each["metadata"]["name"]: each for each in made.nodes}
    storage = {(each["kind"], each["metadata"]["name"]): each for each in made.storage}
    plans: list[VolumePlan] = []
    for _ in range(6):
        changed = dice.choice((*later.nodes, *later.storage, *later.storage))
        name = changed["metadata"]["name"]
        if changed["kind"] == "Node" and name in nodes and dice.random() < 0.3:
            snapshot.apply(decoded(nodes.pop(name)), None)
        elif changed["kind"] == "Node":
            nodes[name] = changed
            snapshot.apply(None, decoded(changed))
        else:
            before = storage.pop((changed["kind"], name), None)
            if before is None or dice.random() < 0.7:
                storage[changed["kind"], name] = changed
                bound.apply(decoded(before) if before is not None else None, decoded(changed))
            else:
                bound.apply(decoded(before), None)
        picture(made, snapshot, bound)
        if plans and dice.random() < 0.3:
            bound.ledger.forget(plans.pop().claims)
        found = bound.find(read_claims(dice.choice(made.pods)), summed=True)
        passing = sorted(each for each, row in snapshot.row.items() if found.feasible[row])
        if passing:
            plans.append(found.plan(passing[0]))
            bound.ledger.assume(plans[-1].claims)
    fresh_snapshot, fresh = binding(nodes.values(), storage.values())
    for plan in plans:
        fresh.ledger.assume(plan.claims)
    assert picture(made, snapshot, bound) == picture(made, fresh_snapshot, fresh)
