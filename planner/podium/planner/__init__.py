"""Plans placements and preemptions, as functions of a cluster's state: no I/O, no clock, no randomness.

    >>> plan(state, ("team-a", "trainer"), datetime.now(UTC))   # a pending pod, or a GroupKey

`Settings` are an administrator's choices, `Engine` is for more than one query, and `Plan` is the answer.
`can_tolerate_preemption` returns whether a pod's class exempts it from a preemptor. Each name is imported on
first use, so a program that needs one of the parts does not import numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.planner.engine import Engine, plan
    from podium.planner.preemption.outcome import Outcome, Plan
    from podium.planner.preemption.protection import can_tolerate_preemption
    from podium.planner.semantics import Semantics
    from podium.planner.settings import Settings

__all__ = ["Engine", "Outcome", "Plan", "Semantics", "Settings", "can_tolerate_preemption", "plan"]

_HOMES = {
    "Engine": "engine",
    "plan": "engine",
    "Outcome": "preemption.outcome",
    "Plan": "preemption.outcome",
    "Semantics": "semantics",
    "Settings": "settings",
    "can_tolerate_preemption": "preemption.protection",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
