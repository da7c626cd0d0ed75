"""An engine in a changing cluster: it follows every change, and its plans are carried out.

Events keep a scheduler's index current, so a bench times decisions without making the index, which is timed
separately.
"""

import gc
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import NamedTuple, TypeVar

from bench import scene

from podium.api.membership import GroupKey
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Plan

T = TypeVar("T")


def following(state: ClusterState) -> Engine:
    """Return an engine that has read a cluster, knows its units, and follows its changes."""
    engine = Engine(state)
    for for_group in (False, True):
        engine.units(for_group=for_group, now=int(scene.NOW.timestamp()))
    state.observe(engine.apply)
    # In a long-lived process the collector skips the objects that were read at the start.
    gc.collect()
    gc.freeze()
    return engine


def follow(state: ClusterState, plan: Plan) -> None:
    """Apply a plan to a cluster: delete the victims, bind the preemptor."""
    for unit in plan.victims:
        for victim in unit.pods:
            state.remove(state.pods[unit.namespace, victim.name])
    for placed in plan.placements:
        namespace, _, name = placed.pod.partition("/")
        pod = state.pods[namespace, name]
        assert isinstance(pod, Schedulable)
        state.apply(scene.bound(pod, placed.node))


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that some work took, and its result."""
    began = perf_counter()
    done = work()
    return perf_counter() - began, done


class Answered(NamedTuple):
    """A plan with its seconds, and the seconds of its message."""

    decided: float
    worded: float
    plan: Plan


def answered(engine: Engine, target: Name | GroupKey) -> Answered:
    """Plan for a pod or group."""
    decided, decision = timed(partial(engine.decide, target, scene.NOW))
    worded, plan = timed(partial(engine.explain, decision, scene.NOW))
    return Answered(decided, worded, plan)
