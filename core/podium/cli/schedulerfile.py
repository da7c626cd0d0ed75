"""The file that says how to schedule and what preemption may do; docs/scheduler.md explains it.

apiVersion: config.podium.dev/v1
kind: SchedulerConfiguration
preemption: observe
evictionsPerMinute: 5
reservedNodes: scheduling.podium.dev/reserved
"""

from pathlib import Path
from typing import Annotated, Literal

import pydantic

from podium.api.core import PODIUM_SCHEDULER
from podium.cli.configfile import Strict, node_label, read_config, unquoted
from podium.cli.inputs import STDIN_NAME
from podium.cli.resourceweights import DEFAULT, ResourceWeights, weights_of
from podium.rules.names import dns_label
from podium.schedulerplugin.live.switch import Source
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.scheduling.settings import LiveSettings, Mode
from podium.schedulerplugin.scores import Strategy
from podium.schedulerplugin.settings import Budgets, DivergencePolicy, Settings

# What --evictions-per-minute may say beside a number.
UNLIMITED: Literal["unlimited"] = "unlimited"


def _namespace(text: str) -> str:
    if complaints := dns_label(text):
        raise ValueError(f"{text!r} is no namespace: {complaints[0]}")
    return text


class SchedulerModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["SchedulerConfiguration"]
    schedulerName: Annotated[str, pydantic.Field(min_length=1)] = PODIUM_SCHEDULER
    """Pods that say this in `spec.schedulerName` are scheduled."""
    preemption: Annotated[Mode, pydantic.BeforeValidator(unquoted)] = Mode.ENFORCE
    """What becomes of a preemption: carried out, only planned and recorded, or not even planned."""
    evictionsPerMinute: Annotated[pydantic.StrictInt, pydantic.Field(ge=1)] | None = None
    """Units (a group, or a lone pod) that may be evicted in any minute; null is without a limit."""
    evict: Literal["own", "any"] = "own"
    """Victims are pods of this scheduler, or pods of other schedulers, too."""
    reservedNodes: Annotated[str, pydantic.AfterValidator(node_label)] | None = None
    """A label, KEY or KEY=VALUE: only nodes that have it are used."""
    shadow: pydantic.StrictBool = False
    """Also plan for pods of other schedulers, and compare."""
    divergencePolicy: DivergencePolicy = DivergencePolicy.NO_PREEMPTION
    """What a group may do whose pods have another priority: docs/preemption.md."""
    semantics: Semantics = Semantics.KEP
    """By whose rules preemption is planned: docs/preemption.md."""
    budgets: Budgets = Budgets.BEST_EFFORT
    """Whether a PodDisruptionBudget may be violated where nothing else helps."""
    strategy: Strategy = Strategy.LEAST_ALLOCATED
    """Which nodes are best: the emptiest, or the fullest."""
    weights: ResourceWeights = DEFAULT
    """Weights of cpu and memory in that score, and of accelerators in packing: docs/scheduler.md."""
    preemptionPriority: pydantic.StrictBool = False
    """Whether the annotation scheduling.podium.dev/preemption-priority-class counts."""
    recordsNamespace: Annotated[str, pydantic.AfterValidator(_namespace)] | None = None
    """Where PreemptionRecords are kept; null is the context's namespace, in a pod its own."""
    decisionTimeoutSeconds: Annotated[float, pydantic.Field(ge=0.1, le=60)] = 1.0
    """Time budget of one decision. An entry that exceeds it is tried again after all others."""
    gangHoldSeconds: Annotated[pydantic.StrictInt, pydantic.Field(ge=0, le=86_400)] = 0
    """For how long a gang that finds no place holds free room as it comes; 0 is never."""

    def settings(self) -> LiveSettings:
        """Give the file as the scheduler takes it."""
        return LiveSettings(
            engine=Settings(
                semantics=self.semantics,
                budgets=self.budgets,
                divergence=self.divergencePolicy,
                strategy=self.strategy,
                weights=weights_of(self.weights),
                evict_only=self.schedulerName if self.evict == "own" else None,
                preemption_priority=self.preemptionPriority,
                reserved=self.reservedNodes or "",
            ),
            scheduler_name=self.schedulerName,
            mode=self.preemption,
            shadow=self.shadow,
            evictions_a_minute=self.evictionsPerMinute,
            records_namespace=self.recordsNamespace or "",
            decision_seconds=self.decisionTimeoutSeconds,
            gang_hold_seconds=self.gangHoldSeconds,
        )


def source(path: str | None, evictions: int | Literal["unlimited"] | None = None) -> Source:
    """Give where settings come from: a file, or none; `evictions` (a minute) prevails over what it says."""

    def read() -> LiveSettings:
        settings = LiveSettings() if path is None else read_config(path, SchedulerModel).settings()
        if evictions is None:
            return settings
        return settings._replace(evictions_a_minute=None if evictions == UNLIMITED else evictions)

    return Source(read, None if path is None or path == STDIN_NAME else Path(path))
