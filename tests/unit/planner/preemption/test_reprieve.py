"""Units are reprieved as if each were tried in turn, with all members of the preemptor placed again."""

from typing import Any

from hypothesis import event, given
from hypothesis import settings as profile
from hypothesis import strategies as st
from tests.support.filters import builders
from tests.support.preemption.clusters import SECONDS, state_of
from tests.support.preemption.scene import HOST, ZONE, group, node

from podium.planner.engine import Engine
from podium.planner.preemption.dryrun import DryRun
from podium.planner.preemption.target import PreemptorPods
from podium.planner.preemption.topology import Domain
from podium.planner.settings import Settings

CLUSTER = Domain("the cluster")

_selectors = st.sampled_from(
    [
        {"matchLabels": {"app": "a"}},
        {"matchLabels": {"app": "a"}},
        {"matchLabels": {"app": "b"}},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
        {},
    ]
)
_keys = st.sampled_from([HOST, HOST, ZONE, "rack"])


def _terms(most: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    term = st.fixed_dictionaries(
        {"labelSelector": _selectors, "topologyKey": _keys},
        optional={"namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "x"}}])},
    )
    return st.lists(term, max_size=most)


_spread = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.sampled_from([1, 1, 2, 3]),
            "topologyKey": _keys,
            "whenUnsatisfiable": st.just("DoNotSchedule"),
            "labelSelector": _selectors,
        },
        optional={
            "minDomains": st.integers(1, 3),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
        },
    ),
    max_size=2,
)
_ports = st.sampled_from([[], [], [], [80], [80, 81]])
_labels = st.sampled_from([{}, {"app": "a"}, {"app": "a", "tier": "x"}, {"app": "b"}])


def _kind(near: int, apart: int, spread: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return the common fields of the pods of a template."""
    return st.builds(
        lambda labels, near, apart, spread, ports, memory: {
            "labels": labels,
            "affinity": {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
            },
            "topologySpreadConstraints": spread,
            "requests": {"cpu": 1, **({"memory": 1} if memory else {})},
            "ports": [{"containerPort": port, "hostPort": port} for port in ports],
        },
        _labels,
        _terms(near),
        _terms(apart),
        spread,
        _ports,
        st.booleans(),
    )


_members = st.one_of(
    _kind(0, 2, st.just([])), _kind(0, 0, _spread), _kind(2, 0, st.just([])), _kind(1, 1, _spread)
)
_others = _kind(0, 1, st.just([]))


@st.composite
def _clusters(draw: st.DrawFn) -> list[Any]:
    """Return nodes, running pods, some of them in whole groups, and a pending group named gang."""
    number = draw(st.integers(2, 6))
    objects: list[Any] = []
    for at in range(number):
        zone = draw(st.sampled_from([*"xxyyz", None]))
        labels = {ZONE: zone, "rack": "r"} if zone is not None else {}
        objects.append(node(f"n{at}", draw(st.integers(2, 7)), labels=labels, room={"memory": 6}))
    objects += [group("first", 0, whole=True), group("second", 1, whole=True), group("gang", 5)]
    kinds = draw(st.lists(_others, min_size=1, max_size=3))
    # The thresholds, because bulk moves are a different path.
    for at in range(draw(st.sampled_from([1, 3, 6, 9, 12, 24]))):
        kind = draw(st.sampled_from(kinds))
        fields = {
            "node": f"n{draw(st.integers(0, number - 1))}",
            "group": draw(st.sampled_from(["", "", "first", "second"])),
            "terminating": draw(st.sampled_from([*[False] * 5, True])),
        }
        objects.append(_made(f"p{at}", draw(st.integers(0, 2)), kind, **fields))
    members = draw(st.lists(_members, min_size=1, max_size=2))
    for at in range(draw(st.sampled_from([1, 2, 3, 4, 5, 10, 12]))):
        objects.append(_made(f"gang-{at:02}", 5, draw(st.sampled_from(members)), group="gang"))
    return objects


def _made(name: str, priority: int, kind: dict[str, Any], **fields: Any) -> Any:
    spec = {key: kind[key] for key in ("affinity", "topologySpreadConstraints")}
    containers = [builders.container(kind["requests"], ports=kind["ports"])]
    return builders.pod(
        name, labels=dict(kind["labels"]), priority=priority, containers=containers, **spec, **fields
    )


def _in_turn(engine: Engine, dry_run: DryRun, leads: list[int], placed: dict[int, int]) -> list[int]:
    """Return units one by one, and place all members again for each."""
    snapshot, units = engine.snapshot, dry_run.units
    back = []
    for lead in leads:
        rows = units.members(lead)
        snapshot.assume_many(rows, units.node[rows])
        if _stand(engine, placed):
            back.append(lead)
        else:
            snapshot.remove_many(rows)
    return back


def _stand(engine: Engine, placed: dict[int, int]) -> bool:
    snapshot, chain = engine.snapshot, engine.placer.chain
    with snapshot.trial():
        for row in placed:
            snapshot.remove(row)
        for row, at in placed.items():
            if not chain.fits(snapshot.shapes[snapshot.shape.item(row)], at):
                return False
            snapshot.assume(row, at)
    return True


def _compared(objects: list[Any], needed: int, before: float = 0.0) -> str:
    """Reprieve in both ways, with some units put back `before`; return both results."""
    engine = Engine(state_of(objects), Settings())
    snapshot = engine.snapshot
    rows = [row for (_, name), row in sorted(snapshot.pod_row.items()) if name.startswith("gang-")]
    units, _ = engine.units(for_group=True, now=SECONDS)
    preemptor = PreemptorPods(tuple(rows), min(needed, len(rows)), 5, group=True)
    dry_run = DryRun(engine.placer, units, preemptor, engine.settings.semantics)
    leads = units.ordered(units.is_lead.nonzero()[0], SECONDS)
    leads = leads[units.priority[leads] < 5]
    with snapshot.trial():
        dry_run.remove(leads)
        at = int(before * len(leads))
        dry_run.add_back(leads[:at])
        placed = dry_run.place(CLUSTER)
        if placed is None:
            return "the preemptor finds no place"
        with snapshot.trial():
            expected = _in_turn(engine, dry_run, leads[at:].tolist(), placed)
            nodes = snapshot.node.tolist()
        assert dry_run.reprieve(leads[at:], placed) == expected
        assert snapshot.node.tolist() == nodes
        return f"plain: {dry_run.plain}, {len(expected)} of {len(leads) - at} stay"


@profile(max_examples=200)
@given(_clusters(), st.integers(1, 12), st.floats(0, 1))
def test_units_are_reprieved_as_if_each_were_tried_in_turn(
    objects: list[Any], needed: int, before: float
) -> None:
    """Some units are put back before the preemptor is placed, as those above N are."""
    event(_compared(objects, needed, before))


def test_pods_that_several_members_count_are_counted_once() -> None:
    """Ten members are alone on their nodes; a skew of two allows one pod of their kind beside each."""
    even = [
        {
            "maxSkew": 2,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
    kind = {"labels": {"app": "a"}, "requests": {"cpu": 1}, "ports": [], "affinity": None}
    objects: list[Any] = [group("gang", 5, 10), node("empty", 0), *(node(f"n{at}", 2) for at in range(10))]
    for at in range(10):
        kept = kind | {"topologySpreadConstraints": None}
        objects += [
            _made(f"a-{at}", 1, kept, node=f"n{at}"),
            _made(f"b-{at}", 0, kept | {"labels": {"app": "b"}}, node=f"n{at}"),
            _made(f"gang-{at}", 5, kind | {"topologySpreadConstraints": even}, group="gang"),
        ]
    assert _compared(objects, 10) == "plain: False, 10 of 20 stay"
