"""The file that says what preemption may do, beside the flags of `podium whatif`; docs/whatif.md explains it.

apiVersion: config.podium.dev/v1
kind: WhatIfConfiguration
budgets: strict
evictOnly: podium-scheduler
"""

from typing import Annotated, Literal

import pydantic

from podium.cli.configfile import Strict, read_config
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.scores import Strategy
from podium.schedulerplugin.settings import Budgets, DivergencePolicy, Settings


class WhatIfModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["WhatIfConfiguration"]
    budgets: Budgets = Budgets.BEST_EFFORT
    """Whether a PodDisruptionBudget may be violated where nothing else helps."""
    divergencePolicy: DivergencePolicy = DivergencePolicy.USE_GROUP_PRIORITY
    """What a group may do whose pods have another priority: docs/preemption.md."""
    strategy: Strategy = Strategy.LEAST_ALLOCATED
    """Which nodes are best: the emptiest, or the fullest."""
    evictOnly: Annotated[str, pydantic.Field(min_length=1)] | None = None
    """Victims are pods of this scheduler only; null is any."""
    preemptionPriority: pydantic.StrictBool = False
    """Whether the annotation scheduling.podium.dev/preemption-priority-class counts."""


def read_settings(path: str, semantics: Semantics) -> Settings:
    """Read a file, for a plan by the rules of `semantics`. Raises PodiumError."""
    model = read_config(path, WhatIfModel)
    return Settings(
        semantics=semantics,
        budgets=model.budgets,
        divergence=model.divergencePolicy,
        strategy=model.strategy,
        evict_only=model.evictOnly,
        preemption_priority=model.preemptionPriority,
    )
