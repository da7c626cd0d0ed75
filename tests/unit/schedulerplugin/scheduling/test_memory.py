"""Deleted objects leave nothing, so the memory of a long-running scheduler is that of its cluster."""

from typing import Any

from tests.support.filters.builders import NS
from tests.support.preemption.scene import group, node
from tests.support.scheduling.objects import gang
from tests.support.scheduling.rig import World, pod

from podium.api.membership import key_of


def size(obj: Any, seen: set[int]) -> int:
    """Return the number of items in all containers that are reached through our objects."""
    if id(obj) in seen:
        return 0
    seen.add(id(obj))
    if isinstance(obj, dict):
        return len(obj) + sum(size(each, seen) for each in obj.values())
    if isinstance(obj, list | set | frozenset | tuple):
        return len(obj) + sum(size(each, seen) for each in obj)
    if not type(obj).__module__.startswith("podium."):
        return 0
    fields = [getattr(obj, slot, None) for slot in getattr(type(obj), "__slots__", ())]
    return sum(size(each, seen) for each in [*getattr(obj, "__dict__", {}).values(), *fields])


def kept(world: World) -> int:
    """Return the sizes of a scheduler's data, without the cluster and without bounded caches."""
    world.effects.clear()
    placer = world.scheduler.engine.placer
    return size(world.scheduler, {id(part) for part in (world.state, placer, *placer.chain._filters)})


def churn(world: World, rounds: range) -> None:
    """Create pods and gangs, which fit or not, fail, and are deleted while other work is in flight."""
    for at in rounds:
        world.lingering, world.hold_binds, world.hold_evictions = at % 3 == 0, at % 5 == 0, at % 7 == 0
        world.run(
            pod(f"a{at}", 1, 5, labels={"x": str(at)}),
            group(f"g{at}", 10, 2),
            gang(f"g{at}", size=2, priority=10),
        )
        world.later(2)
        world.release(failed="500" if at % 2 else "")
        world.run(pod(f"c{at}", 9, 50), pod(f"d{at}", 1, schedulingGates=[{"name": "x"}]))
        world.later(20)
        world.release()
        for each in list(world.state.pods.values()):
            world.state.remove(each)
        world.state.remove(world.state.groups[key_of(group(f"g{at}"))])
        world.run()


def test_nothing_of_what_is_gone_is_kept() -> None:
    """The sizes are equal, whatever was in flight at the deletion."""
    world = World(node("n1", 2), node("n2", 2), evictions_a_minute=3)
    world.scheduler.queue.demote((NS, "slow"), 1e9, 0.0)
    churn(world, range(60))
    world.later(4000)
    before = kept(world)
    churn(world, range(60, 150))
    world.later(4000)
    assert kept(world) <= before + 40
