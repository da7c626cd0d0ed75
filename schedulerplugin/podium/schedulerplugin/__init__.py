"""The scheduler that people run. Its library is `podium.planner`, whose names are here too."""

from typing import TYPE_CHECKING, Any

from podium import planner

if TYPE_CHECKING:
    from podium.planner import Engine, Outcome, Plan, Semantics, Settings, can_tolerate_preemption, plan

__all__ = ["Engine", "Outcome", "Plan", "Semantics", "Settings", "can_tolerate_preemption", "plan"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(planner, name)
