"""The index of claims: refusals of pods, devices in use, reservations and stranded claims."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.devices.scene import (
    ANY,
    CLASS,
    claim,
    cluster,
    consumers,
    device_class,
    devices_of,
    held_by,
    holder,
    node,
    pod,
    uid_of,
    used,
    waiting,
)
from tests.support.filters.builders import device_plugin
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import engine_of, group

from podium.api.core import ResourceClaimEntry
from podium.planner.engine import Engine
from podium.planner.plugins.devices.index import DeviceIndex
from podium.planner.plugins.devices.writes import ClaimReservation, StaleDeletion
from podium.planner.semantics import Semantics

POOLS = ("n0", "n1", "n2", ANY)
TEMPLATE: dict[str, Any] = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}


def reserved_of(found: list[ClaimReservation | StaleDeletion] | None) -> list[ClaimReservation]:
    """Return writes that delete no claim."""
    return [each for each in found or () if isinstance(each, ClaimReservation)]


def created(name: str, priority: int = 0, **fields: Any) -> Any:
    """Return a pod whose claim was created from a template, with the pod's name."""
    status = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": name}]}
    return pod(name, priority, status=status, **TEMPLATE, **fields)


def index_of(*objects: Any, **settings: Any) -> DeviceIndex:
    """Return the index of a cluster."""
    return device_plugin(engine_of(*objects, **settings).snapshot).known


def usage_of(engine: Engine) -> list[str]:
    """Return the devices in use."""
    return used(device_plugin(engine.snapshot).known.usage, POOLS)


@dataclass(frozen=True)
class Refused:
    """Objects with the pod `p`, and why it cannot use its claims; empty if it can."""

    objects: list[Any]
    why: str = ""
    shared: list[str] = field(default_factory=list)


REFUSALS = {
    "a claim that the pod names": Refused([claim("p"), device_class(), pod("p")], shared=["p"]),
    "a claim that was created for the pod": Refused([claim("p", owner="p"), device_class(), created("p")]),
    "a claim that is named twice": Refused(
        [claim("c"), device_class(), pod("p", claims=["c", "c"])], shared=["c"]
    ),
    "no claim": Refused([pod("p", claims=())]),
    "a claim that does not exist": Refused(
        [device_class(), pod("p")], f'could not find ResourceClaim "{NS}/p"'
    ),
    "the second claim does not exist": Refused(
        [device_class(), claim("p"), pod("p", claims=["p", "q"])], f'could not find ResourceClaim "{NS}/q"'
    ),
    "a claim that is being deleted": Refused(
        [device_class(), claim("p", terminating=True), pod("p")], 'resourceclaim "p" is being deleted'
    ),
    "a claim that is not created yet": Refused(
        [device_class(), pod("p", **TEMPLATE)], f'pod "{NS}/p": ResourceClaim not created yet'
    ),
    "a claim of another pod": Refused(
        [device_class(), claim("p", owner="q"), created("p")],
        f"ResourceClaim {NS}/p was not created for Pod {NS}/p (Pod is not owner)",
    ),
    "a class that does not exist": Refused(
        [claim("p"), pod("p")], f"request gpus: device class {CLASS} does not exist"
    ),
    "an allocated claim needs no class": Refused([claim("p", ["n0/gpu-0"]), pod("p")]),
    "a running pod": Refused([pod("p", node="n0")]),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=list(REFUSALS))
def test_a_pod_is_refused_for_its_claims(case: Refused) -> None:
    index = index_of(case.objects)
    found = next(each for each in case.objects if getattr(each.spec, "resourceClaims", None) is not None)
    why, needs = index.needs(found)
    assert why == case.why
    assert [need.claim[1] for need in needs if need.claim is not None] == case.shared


UNREAD = {"claims": "ResourceClaim", "classes": "DeviceClass", "slices": "ResourceSlice"}


@pytest.mark.parametrize("kind", UNREAD.values(), ids=list(UNREAD))
def test_without_the_kind_no_pod_is_refused_for_its_claims(kind: str) -> None:
    engine = engine_of(pod("p"))
    assert device_plugin(engine.snapshot).known.is_known
    engine.view.unread[kind] = "denied"  # type: ignore[index]  # the state's own dictionary
    index = device_plugin(engine.snapshot).known
    assert (index.is_known, index.needs(engine.view.pods[NS, "p"])) == (False, ("", ()))  # type: ignore[arg-type]


def native_group(*names: str) -> Any:
    """Return a native group whose pods share the claims of these entries."""
    entries = tuple(
        ResourceClaimEntry(name=f"x{at}", resourceClaimName=each) for at, each in enumerate(names)
    )
    return group("g", uid="g", claims=entries)


GROUPS = {
    "the group uses the claim": (native_group("c"), ["g"]),
    "the group has no such entry": (native_group("other"), ["g-0"]),
    "the group has no claims": (group("g", uid="g"), ["g-0"]),
}


@pytest.mark.parametrize(("grouped", "users"), GROUPS.values(), ids=list(GROUPS))
@pytest.mark.parametrize("late", [False, True], ids=["the group is known", "the group comes later"])
def test_a_group_is_the_consumer_of_its_claims(grouped: Any, users: list[str], *, late: bool) -> None:
    member = pod("g-0", claims=["c"], group="g")
    engine = engine_of(device_class(), claim("c", ["n0/gpu-0"], []), () if late else grouped, member)
    if late:
        engine.apply(None, grouped)
        engine.catch_up()
    found = reserved_of(
        device_plugin(engine.snapshot).known.reservations(engine.snapshot.pod_row[NS, "g-0"], ())
    )
    assert [each.name for reserved in found for each in reserved.consumers] == users


@dataclass(frozen=True)
class InUse:
    """Objects, pods that a trial takes away, and the devices in use then; the semantics that free none."""

    objects: list[Any]
    away: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    semantics: Semantics = Semantics.KEP


SHARED = [
    claim("c", ["n0/gpu-0"], ["a", "b"]),
    pod("a", claims=["c"], node="n0"),
    pod("b", claims=["c"], node="n0"),
]
GANG = [
    native_group("c"),
    claim("c", ["n0/gpu-0"], group="g"),
    *(pod(f"g-{at}", claims=["c"], node="n0", group="g") for at in range(2)),
]
ONE = ("n0/gpu-0",)
USES = {
    "a running pod": InUse(holder("a", ["n0/gpu-0"]), used=ONE),
    "a pod that is taken away": InUse(holder("a", ["n0/gpu-0"]), ("a",)),
    "a pod that is taken away under 1.36": InUse(holder("a", ["n0/gpu-0"]), ("a",), ONE, Semantics.V1_36),
    "a pod that is taken away under 1.37": InUse(holder("a", ["n0/gpu-0"]), ("a",), ONE, Semantics.V1_37),
    "one of two users is taken away": InUse(SHARED, ("a",), ONE),
    "all users are taken away": InUse(SHARED, ("a", "b")),
    "a consumer that is not known": InUse([claim("c", ["n0/gpu-0"], ["gone"])], used=ONE),
    "a known consumer is away, another is not known": InUse(
        [claim("c", ["n0/gpu-0"], ["a", "gone"]), pod("a", claims=["c"], node="n0")], ("a",), ONE
    ),
    "a claim without consumers": InUse([claim("c", ["n0/gpu-0"], [])], used=ONE),
    "a pod that waits holds its allocated claim": InUse([claim("p", ["n0/gpu-0"]), pod("p")], used=ONE),
    "a consumer that waits keeps the devices": InUse(
        [claim("c", ["n0/gpu-0"], ["a", "p"]), pod("a", claims=["c"], node="n0"), pod("p", claims=["c"])],
        ("a",),
        ONE,
    ),
    "a pod on a node that is not known": InUse(holder("a", [f"{ANY}/gpu-0"], on="gone"), used=("any/gpu-0",)),
    "a user beside the taken one is on a node that is not known": InUse(
        [
            claim("c", [f"{ANY}/gpu-0"], ["a", "b"]),
            pod("a", claims=["c"], node="n0"),
            pod("b", claims=["c"], node="gone"),
        ],
        ("a",),
        ("any/gpu-0",),
    ),
    "one member of a group is taken away": InUse(GANG, ("g-0",), ONE),
    "all members of a group are taken away": InUse(GANG, ("g-0", "g-1")),
    "two claims with one device": InUse(
        [*holder("a", ["n0/gpu-0"]), *holder("b", ["n0/gpu-0"])], ("a",), ONE
    ),
    "a claim that is not allocated": InUse(waiting("p")),
}


@pytest.mark.parametrize("case", USES.values(), ids=list(USES))
@pytest.mark.parametrize("last", [False, True], ids=["claims first", "claims last"])
def test_devices_are_in_use_until_all_consumers_are_taken_away(case: InUse, *, last: bool) -> None:
    objects = [*cluster(1, 1), *case.objects]
    if last:
        objects.sort(key=lambda each: str(each.metadata.uid).startswith("claim-"))
    engine = engine_of(objects, semantics=case.semantics)
    before = usage_of(engine)
    with engine.snapshot.trial():
        for name in case.away:
            engine.snapshot.remove(engine.snapshot.pod_row[NS, name])
        assert tuple(usage_of(engine)) == case.used
    assert usage_of(engine) == before


def test_the_devices_of_a_deleted_pod_stay_in_use_until_the_claim_is_released() -> None:
    held, holding = holder("a", ["n0/gpu-0"])
    engine = engine_of(cluster(1, 1), held, holding)
    engine.apply(holding, None)
    assert usage_of(engine) == ["n0/gpu-0"]
    with device_plugin(engine.snapshot).known.once_released() as some:
        assert (some, usage_of(engine)) == (True, [])
    assert usage_of(engine) == ["n0/gpu-0"]
    engine.apply(held, claim("a"))
    assert usage_of(engine) == []
    with device_plugin(engine.snapshot).known.once_released() as some:
        assert not some


def test_a_deleted_node_frees_no_devices_of_its_pods() -> None:
    """The pods exist until the garbage collector deletes them, and devices may be for all nodes."""
    lost = node("n1")
    engine = engine_of(cluster(1, 0), lost, devices_of(ANY, 1), holder("a", [f"{ANY}/gpu-0"], on="n1"))
    engine.apply(lost, None)
    assert usage_of(engine) == ["any/gpu-0"]
    engine.apply(None, lost)
    assert usage_of(engine) == ["any/gpu-0"]
    with engine.snapshot.trial():
        engine.snapshot.remove(engine.snapshot.pod_row[NS, "a"])
        assert usage_of(engine) == []


NAMED_LATER = {"a pod that waits": None, "a pod that runs": "n0"}


@pytest.mark.parametrize("on", NAMED_LATER.values(), ids=list(NAMED_LATER))
def test_a_claim_counts_once_the_status_of_the_pod_names_it(on: str | None) -> None:
    before, after = pod("p", node=on, **TEMPLATE), created("p", node=on)
    engine = engine_of(cluster(1, 1), claim("p", owner="p"), before)
    index, row = device_plugin(engine.snapshot).known, engine.snapshot.pod_row[NS, "p"]
    assert list(index.users((NS, "p"))) == []
    engine.apply(before, after)
    assert list(index.users((NS, "p"))) == [row]
    needs = device_plugin(engine.snapshot).needs(engine.snapshot.shape_at(row))
    assert len(needs.claims) == (on is None)


@dataclass(frozen=True)
class Stranded:
    """Objects with the pending pod `p`, and the claims that only it uses, with their consumers."""

    objects: list[Any]
    found: dict[str, list[str]] = field(default_factory=dict)


STRANDED = {
    "the claim of the pod": Stranded([claim("p", ["n0/gpu-0"]), pod("p")], {"p": ["p"]}),
    "a claim without consumers": Stranded([claim("p", ["n0/gpu-0"], []), pod("p")], {"p": []}),
    "a claim without devices": Stranded([claim("p"), pod("p")]),
    "another pod waits for the claim too": Stranded([claim("p", ["n0/gpu-0"], ["p", "q"]), pod("p")]),
    "a running pod uses the claim": Stranded(
        [claim("p", ["n0/gpu-0"], ["p", "a"]), pod("p"), pod("a", claims=["p"], node="n0")]
    ),
    "a running pod uses the claim, and is no consumer": Stranded(
        [claim("p", ["n0/gpu-0"]), pod("p"), pod("a", claims=["p"], node="n0")]
    ),
}


@pytest.mark.parametrize("case", STRANDED.values(), ids=list(STRANDED))
def test_claims_of_pods_without_a_node_are_stranded(case: Stranded) -> None:
    engine = engine_of(cluster(1, 1), case.objects)
    rows = [engine.snapshot.pod_row[NS, "p"]]
    stranded = reserved_of(device_plugin(engine.snapshot).known.stranded(rows))
    assert {each.claim[1]: [user.name for user in each.consumers] for each in stranded} == case.found


# --- assumed pods ---------------------------------------------------------------------------------------


def test_an_assumed_pod_has_its_devices_at_once() -> None:
    engine = engine_of(cluster(1, 2), waiting("p"), waiting("q"))
    snapshot = engine.snapshot
    with snapshot.trial():
        for name in ("p", "q"):
            snapshot.assume(snapshot.pod_row[NS, name], snapshot.row["n0"])
        assert usage_of(engine) == ["n0/gpu-0", "n0/gpu-1"]
        assert held_by(device_plugin(snapshot).known.assumed((NS, "q"))) == ["n0/gpu-1"]
    assert (usage_of(engine), device_plugin(snapshot).known.assumed((NS, "q"))) == ([], None)


def test_a_shared_claim_keeps_the_devices_of_its_first_pod() -> None:
    users = [pod(name, claims=["c"]) for name in ("p", "q")]
    engine = engine_of(cluster(1, 2), claim("c"), users)
    snapshot = engine.snapshot
    rows = [snapshot.pod_row[NS, name] for name in ("p", "q")]
    with snapshot.trial():
        for row in rows:
            snapshot.assume(row, snapshot.row["n0"])
        assert usage_of(engine) == ["n0/gpu-0"]
        snapshot.forget_pod(rows[0])
        assert usage_of(engine) == ["n0/gpu-0"]
        plans = [device_plugin(engine.snapshot).filter.plan(row) or () for row in rows]
        assert [len(plan) for plan in plans] == [0, 1]
    assert usage_of(engine) == []


# An object before and after a change, and the devices that are in use then.
LOST_CLAIMS: dict[str, tuple[Any, Any, list[str]]] = {
    "the claim is deleted": (claim("p"), None, []),
    "the claim is being deleted": (claim("p"), claim("p", terminating=True), []),
    "the claim is another one": (claim("p"), claim("p", version="-2"), []),
    "the class is deleted": (device_class(), None, []),
    "the claim is allocated": (claim("p"), claim("p", ["n0/gpu-1"]), ["n0/gpu-1"]),
}


@pytest.mark.parametrize(("before", "after", "left"), LOST_CLAIMS.values(), ids=list(LOST_CLAIMS))
def test_changes_of_an_assumed_claim_leave_nothing_behind(before: Any, after: Any, left: list[str]) -> None:
    engine = engine_of(cluster(1, 2), waiting("p"))
    snapshot, row = engine.snapshot, engine.snapshot.pod_row[NS, "p"]
    snapshot.assume(row, snapshot.row["n0"])
    assert usage_of(engine) == ["n0/gpu-0"]
    engine.apply(before, after)
    snapshot.forget_pod(row)
    assert usage_of(engine) == left
    assert device_plugin(snapshot).known.assumed((NS, "p")) is None


def test_reservations_name_the_devices_and_the_pod() -> None:
    engine = engine_of(cluster(1, 2), waiting("p"), pod("q", claims=["p", "c"]), claim("c", ["n0/gpu-1"], []))
    snapshot, row = engine.snapshot, engine.snapshot.pod_row[NS, "q"]
    assert device_plugin(snapshot).known.reservations(row, ()) is None
    snapshot.assume(row, snapshot.row["n0"])
    plan = device_plugin(engine.snapshot).filter.plan(row)
    assert plan is not None
    found = {
        each.claim[1]: each for each in reserved_of(device_plugin(snapshot).known.reservations(row, plan))
    }
    assert {name: held_by(each.allocation) for name, each in found.items()} == {"p": ["n0/gpu-0"], "c": []}
    assert {each.uid for reserved in found.values() for each in reserved.consumers} == {uid_of("q")}
    engine.apply(claim("c", ["n0/gpu-1"], []), claim("c", ["n0/gpu-1"], ["q"]))
    assert [each.claim[1] for each in device_plugin(snapshot).known.reservations(row, plan) or ()] == ["p"]
    assert consumers(device_plugin(snapshot).known.claims[NS, "c"]) == ["q"]


# --- trials ---------------------------------------------------------------------------------------------

RUNNING, PENDING = 6, 4
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["assume", "remove", "forget"]),
        st.integers(0, RUNNING + PENDING - 1),
        st.integers(0, 2),
    ),
    max_size=12,
)


def shared_cluster() -> list[Any]:
    """Return pods with claims of their own and shared ones, on three nodes, some of them pending."""
    claims = [
        claim("c0", ["n0/gpu-0"], ["p0", "p1"]),
        claim("c1", ["n1/gpu-0", "n1/gpu-1"], ["p2"]),
        claim("c2", [f"{ANY}/gpu-0"], ["p3", "p4"]),
        claim("c3", ["n2/gpu-1"], ["p5", "p6"]),
        claim("c4"),
        claim("c5", count=2),
    ]
    named = ["c0", "c0", "c1", "c2", "c2", "c3", "c3", "c4", "c4", "c5"]
    places = ["n0", "n0", "n1", "n1", "n2", "n2", None, None, None, None]
    pods = [pod(f"p{at}", claims=[each], node=places[at]) for at, each in enumerate(named)]
    return [*cluster(3, 2), devices_of(ANY, 2), *claims, *pods]


@given(MOVES, MOVES, st.sampled_from([Semantics.KEP, Semantics.V1_37]))
def test_a_trial_leaves_the_devices_as_they_were(
    outer: list[tuple[str, int, int]], inner: list[tuple[str, int, int]], semantics: Semantics
) -> None:
    engine, fresh = (engine_of(shared_cluster(), semantics=semantics) for _ in range(2))
    snapshot = engine.snapshot
    with snapshot.trial():
        _make(engine, outer)
        between = usage_of(engine)
        with snapshot.trial():
            _make(engine, inner)
        assert usage_of(engine) == between
    assert device_plugin(engine.snapshot).known.usage == device_plugin(fresh.snapshot).known.usage
    assert not any(device_plugin(snapshot).known.assumed(key) for key in device_plugin(snapshot).known.claims)
    for row in range(RUNNING + PENDING):
        shape = snapshot.shape_at(row)
        assert device_plugin(engine.snapshot).filter.mask(shape)[:3].tolist() == (
            device_plugin(fresh.snapshot).filter.mask(fresh.snapshot.shape_at(row))[:3].tolist()
        )


def _make(engine: Engine, moves: list[tuple[str, int, int]]) -> None:
    snapshot = engine.snapshot
    for kind, number, at in moves:
        row = snapshot.pod_row[NS, f"p{number}"]
        # The answers between the moves are kept.
        device_plugin(engine.snapshot).filter.mask(snapshot.shape_at(snapshot.pod_row[NS, "p9"]))
        if kind == "assume" and number >= RUNNING:
            snapshot.assume(row, snapshot.row[f"n{at}"])
        elif kind == "remove":
            snapshot.remove(row)
        else:
            snapshot.forget_pod(row)
