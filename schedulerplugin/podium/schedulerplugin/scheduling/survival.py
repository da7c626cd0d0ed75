"""The priorities of preemptors that a pod may have survived, and the lowest that it may have as a victim."""

import numpy as np

from podium.api.core import Pod
from podium.api.membership import key_of
from podium.api.schedulable import Schedulable
from podium.cluster.reader import group_of
from podium.groups.trees import members_below
from podium.schedulerplugin.preemption.protection import exemption, protected
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.settings import Budgets


def lowest_priority(engine: LiveEngine, pod: Pod) -> int:
    """Return the lowest priority that a pod may have as a victim: for a group, the lowest of any member."""
    group = group_of(engine.view, pod)
    if group is None:
        return pod.spec.priority or 0
    root = engine.root_of(group)
    pods = members_below(engine.view, key_of(root))
    return min(root.priority or 0, *(each.spec.priority or 0 for each in pods))


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
