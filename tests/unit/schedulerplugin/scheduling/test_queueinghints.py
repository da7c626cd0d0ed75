"""The changes that can help entries without a node: which entry each change wakes."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.scheduling.fixedrooms import ClusterQueries

from podium.api.schedulable import Schedulable
from podium.api.selectors import Requirement, Selector
from podium.planner.plugins.podaffinity.needs import PodAffinityNeed, PodTerm
from podium.planner.plugins.topologyspread import SpreadConstraint, SpreadNeed
from podium.planner.plugins.volumes.needs import Reach, VolumeNeeds
from podium.planner.shapes import Shape
from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.scheduling.queueinghints import Helped, Hints, Place, Waiting

A, B = ("team-a", "a"), ("team-a", "b")
WEB = Selector((Requirement("app", "In", ("web",)),))
SMALL = Shape(namespace="team-a", requests=(("cpu", 100),))
LARGE = Shape(namespace="team-a", requests=(("cpu", 900),))
SPREAD = SMALL._replace(needs=(SpreadNeed(hard=(SpreadConstraint(1, "zone", WEB),)),))
NEAR = SMALL._replace(needs=(PodAffinityNeed(near=(PodTerm(frozenset({"team-b"}), None, WEB, "zone"),)),))
APART = SMALL._replace(needs=(PodAffinityNeed(apart=(PodTerm(frozenset(), Selector(), WEB, "zone"),)),))
CLAIMS = SMALL._replace(missing=("the claim data, which does not exist",))


def pod(namespace: str = "team-a", *, apart: str = "", **labels: str) -> Schedulable:
    """Return a pod with labels that excludes others from its domain of a topology key."""
    term = {"topologyKey": apart, "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    document: dict[str, Any] = {
        "metadata": {"namespace": namespace, "labels": labels},
        "spec": {"affinity": affinity if apart else {}},
    }
    return msgspec.convert(document, Schedulable)


def waiting(shape: Shape = SMALL, *, priority: int = 5, may_preempt: bool = True, **more: Any) -> Waiting:
    """Return the needs of a waiting entry of one shape."""
    return Waiting((shape,), priority, may_preempt, **more)


def help_of(queries: ClusterQueries, entry: Waiting, *changes: Callable[[Hints], None]) -> Helped:
    """Return the entries that changes help while one entry waits."""
    hints = Hints()
    hints.wait(A, entry)
    for change in changes:
        change(hints)
    return hints.helped(queries)


NOWHERE = ClusterQueries()
SUITABLE = ClusterQueries(suitable_for={(SMALL, 1)})
ROOMY = ClusterQueries(suitable_for={(SMALL, 1)}, room={(SMALL, 1): 0})
CROWDED = ClusterQueries(suitable_for={(SMALL, 1)}, room={(SMALL, 1): 6})
MINE = ClusterQueries(suitable_for={(SMALL, 1)}, room={(SMALL, 1): 0}, reserved={7: 1})

Change = Callable[[Hints], None]


def node(row: int) -> Change:
    return lambda hints: hints.note_node(row)


def room(row: int, priority: int, *, protected: bool = False) -> Change:
    return lambda hints: hints.note_room(row, priority, protected=protected)


def victim(row: int, priority: int) -> Change:
    return lambda hints: hints.note_victim(row, priority)


def taken(row: int) -> Change:
    return lambda hints: hints.note_taken(row)


def left(neighbour: Schedulable) -> Change:
    return lambda hints: hints.note_neighbour(neighbour, left=True)


def came(neighbour: Schedulable) -> Change:
    return lambda hints: hints.note_neighbour(neighbour, left=False)


PLAIN, NEVER, HOLDING = waiting(), waiting(may_preempt=False), waiting(reserved=(Place(7, SMALL, 1),))
SHAPELESS = Waiting((), 5, may_preempt=True)
ZONED = waiting(SMALL._replace(needs=(VolumeNeeds(reach=Reach(missing=True)),)))
CASES: list[tuple[str, ClusterQueries, Waiting, Change, bool]] = [
    ("a node that suits", SUITABLE, PLAIN, node(1), True),
    ("a node that does not suit", SUITABLE, PLAIN, node(2), False),
    ("a node for an entry without a shape", SUITABLE, SHAPELESS, node(1), False),
    ("room that is enough", ROOMY, PLAIN, room(1, 0), True),
    ("room that is not", SUITABLE, PLAIN, room(1, 0), False),
    ("room elsewhere", ROOMY, PLAIN, room(2, 0), False),
    ("room reserved by higher ones", CROWDED, PLAIN, room(1, 0), False),
    ("room reserved by another", MINE, PLAIN, room(1, 0), False),
    ("room reserved by itself", MINE, HOLDING, room(1, 0), True),
    ("an equal pod in the way left", SUITABLE, PLAIN, room(1, 5), True),
    ("a protected pod in the way left", SUITABLE, PLAIN, room(1, 0, protected=True), True),
    ("an equal pod left, and the entry never preempts", SUITABLE, NEVER, room(1, 5), False),
    ("room for an entry that never preempts", ROOMY, NEVER, room(1, 0), True),
    ("a pod that may be evicted now", SUITABLE, PLAIN, victim(1, 4), True),
    ("an equal that is bound now", SUITABLE, PLAIN, victim(1, 5), False),
    ("a pod that may be evicted elsewhere", SUITABLE, PLAIN, victim(2, 0), False),
    ("a pod that others may evict now", SUITABLE, NEVER, victim(1, 0), False),
    ("others take the room it holds", NOWHERE, HOLDING, taken(1), True),
    ("others take room elsewhere", NOWHERE, HOLDING, taken(2), False),
    ("a node that it holds is cordoned", NOWHERE, HOLDING, node(1), True),
    ("a class for an entry that preempts", NOWHERE, PLAIN, Hints.note_rules, True),
    ("a class for an entry that never preempts", NOWHERE, NEVER, Hints.note_rules, False),
    ("a claim for an entry without claims", NOWHERE, PLAIN, Hints.note_restricted, False),
    ("a claim for an entry that lacks one", NOWHERE, waiting(CLAIMS), Hints.note_restricted, True),
    ("a volume for an entry bound to a zone", NOWHERE, ZONED, Hints.note_restricted, True),
    ("labels of a namespace", NOWHERE, waiting(NEAR), Hints.note_neighbours, True),
    ("labels of a namespace, unconcerned", NOWHERE, PLAIN, Hints.note_neighbours, False),
    ("a pod that is counted", NOWHERE, waiting(SPREAD), left(pod(app="web")), True),
    ("a pod of another label", NOWHERE, waiting(SPREAD), left(pod(app="db")), False),
    ("a pod of another namespace", NOWHERE, waiting(SPREAD), left(pod("team-b", app="web")), False),
    ("a pod that it wants to be near", NOWHERE, waiting(NEAR), came(pod("team-b", app="web")), True),
    ("such a pod in another namespace", NOWHERE, waiting(NEAR), came(pod("team-c", app="web")), False),
    ("a pod of any namespace by its labels", NOWHERE, waiting(APART), left(pod("team-c", app="web")), True),
    ("a pod that kept others out of its zone", NOWHERE, PLAIN, left(pod(apart="zone")), True),
    ("a pod that keeps others out of its zone came", NOWHERE, PLAIN, came(pod(apart="zone")), False),
    # Its room is another matter.
    (
        "a pod that kept others out of its node",
        NOWHERE,
        PLAIN,
        left(pod(apart="kubernetes.io/hostname")),
        False,
    ),
    ("a node changes the domains of others", NOWHERE, waiting(SPREAD), node(1), True),
    ("a pod that it does not await", NOWHERE, PLAIN, lambda hints: hints.note_gone("u"), False),
]


@pytest.mark.parametrize(
    "queries, entry, change, helps", [pytest.param(*row[1:], id=row[0]) for row in CASES]
)
def test_the_changes_that_help_an_entry(
    queries: ClusterQueries, entry: Waiting, change: Change, helps: bool
) -> None:
    """An entry is woken by what may help it, and by nothing else."""
    assert help_of(queries, entry, change) == Helped([], [A] if helps else [])


def test_awaited_pods() -> None:
    """An entry is ready once, with the last of the pods that it awaits."""
    hints = Hints()
    hints.wait(A, waiting(awaited=frozenset({"u", "v"})))
    hints.wait(B, waiting(awaited=frozenset({"v"})))
    news = [hints.changed]
    hints.note_gone("u")
    news.append(hints.changed)
    assert hints.helped(ClusterQueries()) == Helped([], [])
    assert [*news, hints.changed] == [False, True, False]
    hints.note_gone("v")
    hints.note_rules()
    assert hints.helped(ClusterQueries()) == Helped([A, B], [])
    hints.note_gone("v")
    assert hints.helped(ClusterQueries()) == Helped([], [])


def test_an_entry_that_waits_no_more_is_not_helped() -> None:
    """The awaited objects are dropped when the entry is dropped or waits for something else."""
    hints = Hints()
    hints.wait(A, waiting(awaited=frozenset({"u"})))
    hints.wait(A, waiting(LARGE, awaited=frozenset({"v"})))
    hints.wait(B, waiting(LARGE))
    hints.drop(B)
    hints.drop(B)
    hints.note_gone("u")
    hints.note_node(1)
    assert hints.helped(SUITABLE) == Helped([], [])
    hints.note_gone("v")
    assert hints.helped(SUITABLE) == Helped([A], [])


def test_changes_count_once() -> None:
    """A change that was processed helps no later entry."""
    hints = Hints()
    hints.note_node(1)
    hints.helped(SUITABLE)
    hints.wait(A, waiting())
    hints.note_gone("u")
    assert hints.helped(SUITABLE) == Helped([], [])


def test_pods_that_are_alike_are_asked_about_once() -> None:
    """A thousand copies cost as many queries as one, whatever nodes are reserved elsewhere."""
    hints, queries = Hints(), ClusterQueries()
    for number in range(1000):
        place = Place(number, SMALL, 100 + number)
        hints.wait(("team-a", str(number)), waiting(reserved=(place,)))
    for row in range(10):
        hints.note_room(row, 0)
    assert hints.helped(queries) == Helped([], [])
    assert queries.asked == 10


def test_a_flood_of_changes_is_asked_about_at_once() -> None:
    """A single query excludes a thousand nodes without room; many others remain."""
    crowd = {(SMALL, row): 9 for row in range(1000)}
    few = ClusterQueries(room=dict(list(crowd.items())[:5]), suitable_for=set(crowd))
    many = ClusterQueries(room=crowd, suitable_for=set(crowd))
    for queries, helps, checks in ((few, False, 6), (many, True, 1)):
        hints = Hints()
        hints.wait(A, waiting())
        for row in range(1000):
            hints.note_room(row, 0)
        assert hints.helped(queries) == Helped([], [A] if helps else [])
        assert queries.asked == checks
        for row in range(1000):
            hints.note_node(row)
        assert hints.helped(queries) == Helped([], [A])
        assert queries.asked == checks + 1


def test_a_gang_lands_when_each_of_its_nodes_has_room() -> None:
    """Room on one of its reserved nodes is not enough, although it would be for another entry."""
    places = (Place(7, SMALL, 1), Place(8, LARGE, 2))
    entry = Waiting((SMALL, LARGE), 5, may_preempt=True, awaited=frozenset({"u"}), reserved=places)
    queries = ClusterQueries({(SMALL, 1), (LARGE, 2)}, {(SMALL, 1): 0}, {7: 1, 8: 2})
    assert help_of(queries, entry, lambda hints: hints.note_room(1, 0)) == Helped([], [])
    queries.room[LARGE, 2] = 0
    assert help_of(queries, entry, lambda hints: hints.note_room(2, 0)) == Helped([], [A])
    assert help_of(queries, entry, lambda hints: hints.note_room(3, 0)) == Helped([], [])


def holding(size: int) -> tuple[ClusterQueries, Hints]:
    """Return a gang that holds as many nodes and may not evict, with all its nodes full."""
    places = tuple(Place(row, SMALL, row) for row in range(size))
    queries = ClusterQueries({(SMALL, row) for row in range(size)}, {}, {row: row for row in range(size)})
    hints = Hints()
    hints.wait(A, Waiting((SMALL,), 5, may_preempt=False, reserved=places))
    return queries, hints


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=20))
# It was placed, and no longer waits for the node that was full once.
@example([(0, True, True), *((row, True, row == 4) for row in range(1, 5)), (0, True, True)])
def test_a_gang_lands_whatever_was_full_before(happened: list[tuple[int, bool, bool]]) -> None:
    """It is placed when a query finds room on all nodes, some of it new; rooms come and go."""
    queries, hints = holding(5)
    new = False
    for row, room, looks in happened:
        if room:
            queries.room[SMALL, row] = 0
            hints.note_room(row, 0)
            new = True
        else:
            queries.room.pop((SMALL, row), None)
        if looks:
            fits_now = new and len(queries.room) == 5
            assert hints.helped(queries) == Helped([], [A] if fits_now else [])
            new = False


@pytest.mark.parametrize("order", [range(100), range(99, -1, -1)], ids=["first to last", "last to first"])
def test_a_gang_costs_a_few_questions_for_each_freed_node(order: range) -> None:
    queries, hints = holding(100)
    for row in order:
        assert hints.helped(queries) == Helped([], [])
        queries.room[SMALL, row] = 0
        hints.note_room(row, 0)
    assert hints.helped(queries) == Helped([], [A])
    assert queries.asked <= 4 * 100


def test_many_neighbours_stand_for_all() -> None:
    """If too many pods changed to distinguish them, every entry with terms on other pods is woken."""
    hints = Hints()
    hints.wait(A, waiting(SPREAD))
    hints.wait(B, waiting())
    for number in range(100):
        hints.note_neighbour(pod(app=f"db-{number}"), left=False)
    assert hints.helped(ClusterQueries()) == Helped([], [A])


SHAPES = [SMALL, LARGE, SPREAD, NEAR, CLAIMS]
entries = st.builds(
    Waiting,
    st.lists(st.sampled_from(SHAPES), max_size=2, unique=True).map(tuple),
    st.integers(0, 2),
    st.booleans(),
    st.frozensets(st.sampled_from("uvw"), max_size=2),
    st.just(()),
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 2)),
        st.tuples(st.just("room"), st.integers(0, 2), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("gone"), st.sampled_from("uvw")),
        st.tuples(st.just("neighbours")),
        st.tuples(st.just("restricted")),
        st.tuples(st.just("rules")),
    ),
    max_size=4,
)
grounds = st.builds(
    ClusterQueries,
    st.sets(st.tuples(st.sampled_from(SHAPES), st.integers(0, 2))),
    st.dictionaries(st.tuples(st.sampled_from(SHAPES), st.integers(0, 2)), st.integers(0, 2)),
)


def helps(change: Any, entry: Waiting, queries: ClusterQueries) -> bool:
    """Return whether one change may help an entry, one query after the other."""
    match change:
        case "node", row:
            return any(queries.suits(shape, row) or shape in (SPREAD, NEAR) for shape in entry.shapes)
        case "room", row, priority, protected:
            blocked = entry.may_preempt and (protected or priority >= entry.priority)
            return any(
                queries.suits(shape, row) if blocked else queries.has_room(shape, row, entry.priority, ())
                for shape in entry.shapes
            )
        case ("neighbours",):
            return any(shape in (SPREAD, NEAR) for shape in entry.shapes)
        case ("restricted",):
            return CLAIMS in entry.shapes
        case ("rules",):
            return entry.may_preempt and bool(entry.shapes)
        case _:
            return False


@given(st.dictionaries(st.integers(0, 5), entries, max_size=6), changes, st.integers(0, 4), grounds)
def test_agrees_with_asking_about_each_change(
    keyed: dict[int, Waiting], happened: list[Any], looks: int, queries: ClusterQueries
) -> None:
    """However changes are batched, the helped entries are those that one of them helps.

    If several pods leave room on one node in one batch, the one of the highest priority represents all. So
    room that is enough by itself is queried as room for the entries it suits.
    """
    hints = Hints()
    waits = {("team-a", str(number)): entry for number, entry in keyed.items()}
    for key, entry in waits.items():
        hints.wait(key, entry)
    helped: set[Key] = set()
    ready: set[Key] = set()
    for number, change in enumerate(happened):
        name, *arguments = change
        if name == "room":
            hints.note_room(*arguments[:2], protected=arguments[2])
        else:
            getattr(hints, f"note_{name}")(*arguments)
        if number == looks:
            found = hints.helped(queries)
            helped.update(found.helped)
            ready.update(found.ready)
    found = hints.helped(queries)
    helped.update(found.helped)
    ready.update(found.ready)
    gone = {change[1] for change in happened if change[0] == "gone"}
    assert ready == {key for key, entry in waits.items() if entry.awaited and entry.awaited <= gone}
    expected = {
        key for key, entry in waits.items() if any(helps(change, entry, queries) for change in happened)
    }
    assert expected <= helped | ready
    rooms = [change[1] for change in happened if change[0] == "room"]
    if len(set(rooms)) == len(rooms):
        assert helped <= expected


def test_entries_with_changed_shapes_are_examined_once() -> None:
    """The shapes that they wait with lack labels that a selector now names."""
    hints, unrelated = Hints(), pod("team-c", app="web")
    hints.wait(A, waiting())
    found = []
    for reshaped in (0, 1, 1, 3):
        hints.note_neighbour(unrelated, left=False)
        found.append(hints.helped(ClusterQueries(reshaped=reshaped)).helped)
    assert found == [[], [A], [], [A]]
