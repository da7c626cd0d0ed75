"""A plan before and after: the cells of each node, and many equal nodes as one row."""

from tests.support.render.cluster import node, pod, state

from podium.cli.render.pictures import planpicture
from podium.cli.render.pictures.drawing import WIDTH, Box, Spot, Style
from podium.cli.render.pictures.planpicture import plan_picture
from podium.cli.render.pictures.sections import plan_section
from podium.planner.preemption.outcome import Outcome, Placed, Plan, UnitPod, UnitVerdict
from podium.planner.semantics import Semantics

FREE, PLACED, PREEMPTED, A = Style.FREE, Style.PLACED, Style.PREEMPTED, Style.BAND_1


def plan(places: dict[str, str], victims: dict[str, str]) -> Plan:
    """Return a plan: the nodes of placed pods, and of victims."""
    return Plan(
        semantics=Semantics.KEP,
        outcome=Outcome.FITS_AFTER_PREEMPTION,
        message="",
        placements=tuple(Placed(f"team/{name}", on) for name, on in places.items()),
        victims=tuple(
            UnitVerdict(
                kind="Pod",
                namespace="team",
                name=name,
                priority=0,
                pods=(UnitPod(name, on),),
                violatesBudget=False,
                reason="",
            )
            for name, on in victims.items()
        ),
    )


def test_victims_make_room_for_placed_pods() -> None:
    """Kept pods have their priority; a node without pods of the plan is not drawn."""
    view = state(
        [
            node("n1"),
            node("n2"),
            pod("kept", "n1", 100, gpu=2),
            pod("victim", "n1", 0, gpu=6),
            pod("new", "", 1000, gpu=4),
        ]
    )
    picture = plan_picture(plan({"new": "n1"}, {"victim": "n1"}), view)
    assert picture is not None
    (change,) = picture.changes
    assert change.nodes == ["n1"]
    assert change.before == ((A, 2), (PREEMPTED, 6))
    assert change.after == ((A, 2), (PLACED, 4), (FREE, 2))


def test_pods_without_accelerators_show_cpu() -> None:
    view = state([node("n"), pod("gpu", "n", 0, gpu=8, cpu=48), pod("new", "", 5, cpu=24)])
    picture = plan_picture(plan({"new": "n"}, {}), view)
    assert picture is not None
    (change,) = picture.changes
    assert change.resource == "cpu"
    assert change.after == ((A, 48_000), (PLACED, 24_000), (FREE, 24_000))


def test_a_plan_without_nodes_has_no_picture() -> None:
    view = state([node("n"), pod("new", "", 5, gpu=9)])
    assert plan_picture(plan({}, {}), view) is None
    assert plan_section(None) == ""


def test_room_of_terminating_pods_is_taken_by_placed_ones() -> None:
    view = state([node("n"), pod("leaves", "n", 0, gpu=8, leaves=True), pod("new", "", 5, gpu=6)])
    picture = plan_picture(plan({"new": "n"}, {}), view)
    assert picture is not None
    assert picture.changes[0].before == ((Style.TERMINATING, 8),)
    assert picture.changes[0].after == ((PLACED, 6), (Style.TERMINATING, 2))


def test_many_equal_nodes_are_one_row() -> None:
    """The row with most nodes is first, the others are cut with a note, and the picture is small."""
    number = 1000
    nodes = [node(f"n{at}", 8) for at in range(number)]
    kept = [pod(f"kept-{at}", f"n{at}", at, gpu=1) for at in range(30)]
    new = [pod(f"new-{at}", "", 5000, gpu=1 + at % 7) for at in range(number)]
    view = state([*nodes, *kept, *new])
    picture = plan_picture(plan({f"new-{at}": f"n{at}" for at in range(number)}, {}), view)
    assert picture is not None
    assert sum(len(change.nodes) for change in picture.changes) == number
    assert len(picture.changes[0].nodes) > 100
    section = plan_section(picture)
    assert section.count(">before<") == min(len(picture.changes), planpicture.ROWS)
    assert f"First {planpicture.ROWS} of {len(picture.changes)}." in section
    assert len(section.encode()) < 100_000


def test_shapes_stay_inside() -> None:
    view = state([node(f"n{at}", 16) for at in range(9)] + [pod(f"p{at}", "", 5, gpu=3) for at in range(9)])
    picture = plan_picture(plan({f"p{at}": f"n{at}" for at in range(9)}, {}), view)
    assert picture is not None
    drawn = list(planpicture.panels(picture))
    assert [panel.heading for panel in drawn] == ["n0 to n7", "n8"]
    for panel in drawn:
        shapes: list[Box | Spot] = [*panel.drawing.boxes, *panel.drawing.spots]
        for box in shapes:
            assert 0 <= box.x <= box.x + box.width <= WIDTH
            assert 0 <= box.y <= box.y + box.height <= panel.drawing.height
