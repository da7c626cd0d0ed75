"""The configuration file of `podium whatif` for preemption, beside its flags; docs/whatif.md explains it.

An absent field has the value of the answering scheduler (`podium.answers.schedulersettings`).

apiVersion: config.podium.dev/v1
kind: WhatIfConfiguration
budgets: strict
evictOnly: podium-scheduler
"""

from typing import Annotated, Literal

import pydantic

from podium.answers.schedulerfile import NoticeSeconds, ResourceWeights, StartSeconds, weights_of
from podium.documents.configfile import Strict, read_config
from podium.planner.scores import Strategy
from podium.planner.settings import Budgets, DivergencePolicy, Settings


class WhatIfModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["WhatIfConfiguration"]
    budgets: Budgets | None = None
    """Whether a PodDisruptionBudget may be violated if there is no other way."""
    divergencePolicy: DivergencePolicy | None = None
    """The permitted actions of a group if its pods have another priority: docs/preemption-reference.md."""
    strategy: Strategy | None = None
    """The preferred nodes: the emptiest, or the fullest."""
    weights: ResourceWeights | None = None
    "Weights of cpu and memory in that score, and of accelerators in packing: docs/scheduler-explained.md."
    evictOnly: Annotated[str, pydantic.Field(min_length=1)] | None = None
    """Only pods of this scheduler are victims; an explicit null means any scheduler."""
    preemptionPriority: pydantic.StrictBool | None = None
    """Whether the annotation scheduling.podium.dev/preemption-priority-class is used."""
    podStartSeconds: StartSeconds | None = None
    """The time from a start until a pod works, a part of the price of its eviction: docs/saving.md."""
    noticeSeconds: NoticeSeconds | None = None
    """How long an eviction may wait for a victim that saves its work on notice: docs/saving.md."""


def read_settings(path: str, base: Settings) -> Settings:
    """Return a file's settings over `base`, field by field. Raises PodiumError."""
    model = read_config(path, WhatIfModel)
    given = model.model_fields_set
    priority, start, notice = model.preemptionPriority, model.podStartSeconds, model.noticeSeconds
    return base._replace(
        budgets=model.budgets or base.budgets,
        divergence=model.divergencePolicy or base.divergence,
        strategy=model.strategy or base.strategy,
        weights=weights_of(model.weights or {}, base.weights),
        evict_only=model.evictOnly if "evictOnly" in given else base.evict_only,
        preemption_priority=base.preemption_priority if priority is None else priority,
        pod_start_seconds=base.pod_start_seconds if start is None else start,
        notice_seconds=base.notice_seconds if notice is None else notice,
    )
