"""The priorities of preemptors that a pod may have survived."""

import numpy as np

from podium.api.schedulable import Schedulable
from podium.cluster.reader import group_of
from podium.planner.preemption.protection import exemption, protected
from podium.planner.settings import Budgets
from podium.schedulerplugin.scheduling.live_engine import LiveEngine


def survived_priority(engine: LiveEngine, pod: Schedulable, row: int | None = None) -> int | None:
    """Return the highest preemptor priority that a pod may have survived_priority; None for every priority.

    Preemptors of higher priority have counted on its room already. For a lone pod that still exists (`row`),
    it is known whether a budget protected it.
    """
    view, settings = engine.view, engine.settings
    member_of = group_of(view, pod)
    group = None if member_of is None else engine.root_of(member_of)
    class_name = (pod.spec.priorityClassName if group is None else group.priority_class_name) or ""
    strict = settings.budgets is Budgets.STRICT
    if strict and row is not None and group is None:
        strict = bool(engine.budgets.charged(np.array((row,), np.intp)).any())
    if strict or protected(pod, member_of, settings, view) is not None:
        return None
    granted = exemption(view.classes.get(class_name), class_name)
    own = pod.spec.priority or 0
    level = own if group is None else max(own, group.priority or 0)
    return level if granted is None else max(level, granted.minimum - 1)
