"""The administrator's settings: `Settings` of the engine, and `LiveSettings` of a running scheduler.

The command line, the configuration file of the scheduler and tests all create these; the engine reads nothing
else. Four of the LiveSettings can be switched while the scheduler runs. So an emergency is ended by one line
in a file, and not by a restart that forgets what is in flight. Decisions already made depend on the rest
(which pods are ours, in which order they wait), so the rest changes only with a restart.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from podium.api.core import PODIUM_SCHEDULER
from podium.api.saving import DEFAULT_NOTICE
from podium.planner.scores import Strategy, Weights
from podium.planner.semantics import DEFAULT_SEMANTICS, Semantics


class Budgets(StrEnum):
    """Whether preemption may violate a PodDisruptionBudget when nothing else helps."""

    BEST_EFFORT = "best-effort"
    STRICT = "strict"


class DivergencePolicy(StrEnum):
    """The treatment of a group whose pods have another priority than the group."""

    USE_GROUP_PRIORITY = "UseGroupPriority"
    NO_PREEMPTION = "NoPreemption"
    HOLD = "Hold"


# Under `kep`. Keeping a whole node free is worth 200 points of the sum of scores. That is more than cpu and
# memory together can offset (150), and as much as a preferred node affinity.
WEIGHTS = Weights(accelerators=4)


class Settings(NamedTuple):
    """The settings of a plan.

    `weights` count under `kep`; kube-scheduler's releases have their own. `evict_only` limits victims to pods
    of one schedulerName (None: of any). `preemption_priority` lets an annotation on a Podium group raise the
    priority at which it may be preempted. `reserved` is a label of nodes, `key` or `key=value`: if it is set,
    only those nodes are used. `spares_system` says that no pod in kube-system is a victim, whatever the
    preemptor. `plugins` are the names of installed plugins of the administrator (`podium.plugins`).
    `pod_start_seconds` is the time from a start until a pod works, for pods that do not declare it.
    `notice_seconds` is how long an eviction may wait for a victim that saves its work on notice, 0 for never.
    """

    semantics: Semantics = DEFAULT_SEMANTICS
    budgets: Budgets = Budgets.BEST_EFFORT
    divergence: DivergencePolicy = DivergencePolicy.USE_GROUP_PRIORITY
    strategy: Strategy = Strategy.LEAST_ALLOCATED
    weights: Weights = WEIGHTS
    evict_only: str | None = None
    preemption_priority: bool = False
    reserved: str = ""
    spares_system: bool = False
    plugins: tuple[str, ...] = ()
    pod_start_seconds: int = 0
    notice_seconds: int = DEFAULT_NOTICE


class PreemptionMode(StrEnum):
    """The handling of preemptions: not planned, planned and reported, or carried out."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


class LiveSettings(NamedTuple):
    """The settings of the scheduler; the defaults are those of an empty file.

    `evictions_a_minute` counts units, None for no limit. `records_namespace` is where the history of
    preemptions is kept, empty for the process's own. `decision_seconds` is the time budget of one decision.
    `gang_hold_seconds` is for how long a waiting gang may hold free room, 0 for never.
    `bind_timeout_seconds` is how long placed pods wait for their claims to be bound.
    """

    engine: Settings = Settings(divergence=DivergencePolicy.NO_PREEMPTION, evict_only=PODIUM_SCHEDULER)
    scheduler_name: str = PODIUM_SCHEDULER
    mode: PreemptionMode = PreemptionMode.ENFORCE
    evictions_a_minute: int | None = None
    records_namespace: str = ""
    decision_seconds: float = 1.0
    gang_hold_seconds: int = 0
    bind_timeout_seconds: int = 600

    def switched(self, settings: "LiveSettings") -> "LiveSettings":
        """Return the settings with those of `settings` that a running process takes."""
        return self._replace(
            mode=settings.mode,
            evictions_a_minute=settings.evictions_a_minute,
            gang_hold_seconds=settings.gang_hold_seconds,
        )


# The settings by their names in the file.
FIELDS: Mapping[str, Callable[[LiveSettings], object]] = {
    "schedulerName": lambda settings: settings.scheduler_name,
    "preemption": lambda settings: settings.mode,
    "evictionsPerMinute": lambda settings: settings.evictions_a_minute,
    "recordsNamespace": lambda settings: settings.records_namespace,
    "semantics": lambda settings: settings.engine.semantics,
    "divergencePolicy": lambda settings: settings.engine.divergence,
    "budgets": lambda settings: settings.engine.budgets,
    "strategy": lambda settings: settings.engine.strategy,
    "weights": lambda settings: settings.engine.weights,
    "evict": lambda settings: settings.engine.evict_only is None,
    "reservedNodes": lambda settings: settings.engine.reserved,
    "plugins": lambda settings: settings.engine.plugins,
    "preemptionPriority": lambda settings: settings.engine.preemption_priority,
    "podStartSeconds": lambda settings: settings.engine.pod_start_seconds,
    "noticeSeconds": lambda settings: settings.engine.notice_seconds,
    "decisionTimeoutSeconds": lambda settings: settings.decision_seconds,
    "gangHoldSeconds": lambda settings: settings.gang_hold_seconds,
    "bindTimeoutSeconds": lambda settings: settings.bind_timeout_seconds,
}


def differences(first: LiveSettings, second: LiveSettings) -> tuple[str, ...]:
    """Return the names of the settings that differ, as in the file."""
    return tuple(name for name, read in FIELDS.items() if read(first) != read(second))
