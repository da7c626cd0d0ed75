"""Builders for our pods, and for a world that preempts."""

from typing import Any

from tests.support.scheduling.rig import World, pod


def gang(name: str, *, size: int, cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> list[Any]:
    """Make pending members of a group."""
    return [pod(f"{name}-{at}", cpu, priority, group=name, **kwargs) for at in range(size)]


def running(name: str, where: str = "n1", cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> Any:
    """Make a running pod of ours."""
    return pod(name, cpu, priority, node=where, **kwargs)


def begun(*objects: Any, **settings: Any) -> World:
    """Return a world in which one preemption has begun, and no victim is deleted yet."""
    world = World(*objects, **settings)
    world.hold_evictions = True
    world.run()
    assert len(world.evictions()) == 1
    return world
