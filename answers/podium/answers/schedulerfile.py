"""The file that says how to schedule and what preemption may do; docs/scheduler-reference.md explains it.

apiVersion: config.podium.dev/v1
kind: SchedulerConfiguration
preemption: observe
evictionsPerMinute: 5
reservedNodes: scheduling.podium.dev/reserved

`podium whatif` and `why` take settings of preemption from a smaller file (docs/whatif.md):

apiVersion: config.podium.dev/v1
kind: WhatIfConfiguration
budgets: strict
evictOnly: podium-scheduler
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic

from podium.api.core import PODIUM_SCHEDULER
from podium.api.podrequests import is_accelerator
from podium.api.saving import DEFAULT_NOTICE, LONGEST_NOTICE
from podium.documents.configfile import Strict, node_label, read_config, unquoted
from podium.planner.scores import Strategy, Weights
from podium.planner.semantics import DEFAULT_SEMANTICS, Semantics
from podium.planner.settings import (
    WEIGHTS,
    Budgets,
    DivergencePolicy,
    LiveSettings,
    PreemptionMode,
    Settings,
)
from podium.rules.names import dns_label

_KINDS = ("cpu", "memory", "accelerators")
DEFAULT: Mapping[str, int] = {kind: getattr(WEIGHTS, kind) for kind in _KINDS}


def _known(weights: Mapping[str, int]) -> Mapping[str, int]:
    for name in weights:
        if name not in _KINDS and not is_accelerator(name):
            raise ValueError(
                f"{name!r} is not one of {', '.join(_KINDS)}, and not a device such as nvidia.com/gpu"
            )
    return weights


ResourceWeights = Annotated[
    Mapping[str, Annotated[pydantic.StrictInt, pydantic.Field(ge=0, le=100)]],
    pydantic.AfterValidator(_known),
    pydantic.Field(json_schema_extra={"x-key": "resource"}),
]


def weights_of(given: Mapping[str, int], base: Weights = WEIGHTS) -> Weights:
    """Return the weights in a file, with those of `base` for resources that it does not name."""
    kinds = {name: weight for name, weight in given.items() if name in _KINDS}
    named = dict(base.named) | {name: weight for name, weight in given.items() if name not in _KINDS}
    return base._replace(**kinds, named=tuple(sorted(named.items())))


def _namespace(text: str) -> str:
    if complaints := dns_label(text):
        raise ValueError(f"{text!r} is not a valid namespace: {complaints[0]}")
    return text


StartSeconds = Annotated[pydantic.StrictInt, pydantic.Field(ge=0, le=86_400)]
NoticeSeconds = Annotated[pydantic.StrictInt, pydantic.Field(ge=0, le=LONGEST_NOTICE)]


class SchedulerModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["SchedulerConfiguration"]
    schedulerName: Annotated[str, pydantic.Field(min_length=1)] = PODIUM_SCHEDULER
    "Pods with this `spec.schedulerName` are scheduled."
    preemption: Annotated[PreemptionMode, pydantic.BeforeValidator(unquoted)] = PreemptionMode.ENFORCE
    "Preemptions are carried out (enforce), only planned and recorded (observe), or not planned (off)."
    evictionsPerMinute: Annotated[pydantic.StrictInt, pydantic.Field(ge=1)] | None = None
    ("Maximum number of units (a group, or a pod without a group) evicted in any minute; null for no limit.")
    evict: Literal["own", "any"] = "own"
    "Victims: pods of this scheduler (own), or of all schedulers (any)."
    reservedNodes: Annotated[str, pydantic.AfterValidator(node_label)] | None = None
    "A label, KEY or KEY=VALUE: only nodes with this label are used."
    divergencePolicy: DivergencePolicy = DivergencePolicy.NO_PREEMPTION
    "Permitted actions of a group whose pods have another priority: docs/preemption-reference.md."
    semantics: Semantics = DEFAULT_SEMANTICS
    "Rules of preemption, of the KEP or of a kube-scheduler release: docs/preemption-reference.md."
    budgets: Budgets = Budgets.BEST_EFFORT
    "Whether a PodDisruptionBudget may be violated if there is no other way."
    strategy: Strategy = Strategy.LEAST_ALLOCATED
    "Preferred nodes: the emptiest, or the fullest."
    weights: ResourceWeights = DEFAULT
    "Weights of cpu and memory in that score, and of accelerators in packing: docs/scheduler-explained.md."
    preemptionPriority: pydantic.StrictBool = False
    "Whether the annotation scheduling.podium.dev/preemption-priority-class is used."
    podStartSeconds: StartSeconds = 0
    "Time from a start until a pod works, a part of the price of its eviction: docs/saving.md."
    noticeSeconds: NoticeSeconds = DEFAULT_NOTICE
    "How long an eviction may wait for a victim that saves its work on notice, 0 for never: docs/saving.md."
    plugins: list[Annotated[str, pydantic.Field(min_length=1)]] = pydantic.Field(default=[])
    "Names of the installed plugins that are used: docs/plugins.md."
    recordsNamespace: Annotated[str, pydantic.AfterValidator(_namespace)] | None = None
    "Namespace of the PreemptionRecords; null for the context's namespace, in a pod its own."
    decisionTimeoutSeconds: Annotated[float, pydantic.Field(ge=0.1, le=60)] = 1.0
    """Time budget of one decision. An entry that exceeds it is tried again after all others."""
    gangHoldSeconds: Annotated[pydantic.StrictInt, pydantic.Field(ge=0, le=86_400)] = 0
    "How long a gang that does not fit reserves freed resources; 0 for never."
    bindTimeoutSeconds: Annotated[pydantic.StrictInt, pydantic.Field(ge=1, le=86_400)] = 600
    "How long placed pods wait for their PersistentVolumeClaims to be bound."

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
                plugins=tuple(dict.fromkeys(self.plugins)),
                pod_start_seconds=self.podStartSeconds,
                notice_seconds=self.noticeSeconds,
            ),
            scheduler_name=self.schedulerName,
            mode=self.preemption,
            evictions_a_minute=self.evictionsPerMinute,
            records_namespace=self.recordsNamespace or "",
            decision_seconds=self.decisionTimeoutSeconds,
            gang_hold_seconds=self.gangHoldSeconds,
            bind_timeout_seconds=self.bindTimeoutSeconds,
        )


class WhatIfModel(Strict):
    """The file of `podium whatif` and `why`, beside their flags.

    An absent field has the value of the answering scheduler (`podium.answers.schedulersettings`).
    """

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
