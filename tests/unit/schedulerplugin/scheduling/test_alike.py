"""Equal preemptors are decided one after the other without another search of all nodes.

That is for speed alone: victims and nodes must be those of a search for each preemptor by itself.
"""

from typing import Any, NamedTuple
from unittest.mock import create_autospec

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node
from tests.support.scheduling.rig import World, pod

from podium.api.core import PodDisruptionBudget
from podium.api.schedulable import Schedulable
from podium.planner.semantics import Semantics
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.scheduling import cycle
from podium.schedulerplugin.scheduling.effects import Evict
from podium.schedulerplugin.scheduling.live_engine import LiveEngine


class Low(NamedTuple):
    """A running pod of a kind of node."""

    cpu: int
    priority: int = 0
    app: str = "a"
    leaving: bool = False


class Scene(NamedTuple):
    """Nodes of a few kinds (cpus, pods, number), and preemptors (cpus, priority).

    `whole`: pods of app b are one unit. `allowed`: the disruptions of their budget. `semantics`: the rules.
    """

    nodes: tuple[tuple[int, tuple[Low, ...], int], ...]
    preemptors: tuple[tuple[int, int], ...]
    whole: bool = False
    allowed: int | None = None
    semantics: Semantics = Semantics.KEP


def low(draw: st.DrawFn) -> Low:
    """Return a random running pod."""
    return Low(
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.sampled_from([0, 0, 0, 1, 2])),
        draw(st.sampled_from("aaab")),
        draw(st.sampled_from([False] * 9 + [True])),
    )


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Return random scenes with many equal nodes."""
    nodes = []
    for _ in range(draw(st.integers(1, 3))):
        lows = tuple(low(draw) for _ in range(draw(st.integers(0, 4))))
        spare = draw(st.sampled_from([0, 0, 1]))
        nodes.append((sum(each.cpu for each in lows) + spare or 1, lows, draw(st.integers(1, 4))))
    kinds = draw(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([3, 3, 5])), min_size=1, max_size=2))
    preemptors = tuple(draw(st.sampled_from(kinds)) for _ in range(draw(st.integers(2, 8))))
    return Scene(
        tuple(nodes),
        preemptors,
        draw(st.sampled_from([False, False, True])),
        draw(st.sampled_from([None, None, 0, 1])),
        draw(st.sampled_from([Semantics.KEP, Semantics.KEP, *Semantics])),
    )


def decided(scene: Scene, most: int, *, linger: bool) -> tuple[list[Evict], dict[str, str]]:
    """Return the preemptions of a scene in order, and the final nodes of all pods."""
    objects: list[Any] = [group("whole", whole=True)] if scene.whole else []
    if scene.allowed is not None:
        objects.append(_budget(scene.allowed))
    kinds = [(cpus, lows) for cpus, lows, count in scene.nodes for _ in range(count)]
    for number, (cpus, lows) in enumerate(kinds):
        objects.append(node(f"n{number}", cpus))
        objects += [_running(f"low-{number}-{at}", f"n{number}", each, scene) for at, each in enumerate(lows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycle, "_ALIKE", most)
        world = World(objects, engine=LiveSettings().engine._replace(semantics=scene.semantics))
        world.hold_evictions, world.lingering = True, linger
        world.run(pod(f"high-{at}", *each) for at, each in enumerate(scene.preemptors))
        first = [evict._replace(message="") for evict in world.evictions()]
        world.release()
        world.run()
        return first, world.bound()


def _running(name: str, where: str, low: Low, scene: Scene) -> Schedulable:
    member = scene.whole and low.app == "b"
    labels, priority = {"app": low.app}, 0 if member else low.priority
    return pod(
        name,
        low.cpu,
        priority,
        node=where,
        labels=labels,
        terminating=low.leaving,
        group="whole" if member else "",
    )


def _budget(allowed: int) -> PodDisruptionBudget:
    status = {"disruptionsAllowed": allowed}
    spec = {"selector": {"matchLabels": {"app": "b"}}}
    metadata = {"name": "some", "namespace": NS}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, PodDisruptionBudget)


@example(Scene(((4, (Low(1), Low(1), Low(1), Low(1)), 4),), ((3, 5),) * 5), True)
@example(Scene(((4, (Low(4),), 3),), ((1, 5),) * 5), True)
# A leaving pod still occupies room.
@example(
    Scene(
        ((3, (Low(2), Low(1)), 1), (4, (Low(1, 10, "a", leaving=True), Low(2), Low(1)), 1)),
        ((2, 5),) * 2,
        semantics=Semantics.V1_37,
    ),
    True,
)
@given(scenes(), st.booleans())
def test_decisions_for_alike_preemptors_equal_single_decisions(scene: Scene, linger: bool) -> None:
    """The preemptions and their order are the same, and all pods end on the same nodes."""
    assert decided(scene, 15, linger=linger) == decided(scene, 0, linger=linger)


@pytest.mark.parametrize(
    ("cpu", "looks", "domains"),
    [
        pytest.param(3, 1, ["n0", "n1", "n2", "n3", "n4"], id="no node holds two"),
        pytest.param(2, 5, ["n0", "n0", "n1", "n1", "n2"], id="each holds two, if all go"),
    ],
)
def test_all_nodes_are_looked_at_once(
    cpu: int, looks: int, domains: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five equal preemptors need one search of all nodes, if nothing changes for the others."""
    decide = create_autospec(LiveEngine.decide, side_effect=LiveEngine.decide)
    monkeypatch.setattr(LiveEngine, "decide", decide)
    world = World(node(f"n{at}") for at in range(6))
    world.run(pod(f"low-{at}-{index}", 1, node=f"n{at}") for at in range(6) for index in range(4))
    world.hold_evictions = True
    world.run(pod(f"high-{at}", cpu, 5) for at in range(5))
    assert [evict.domain for evict in world.evictions()] == domains
    assert decide.call_count == looks
