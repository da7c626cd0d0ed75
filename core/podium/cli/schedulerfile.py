"""The file that says how to schedule and what preemption may do; docs/scheduler.md explains it.

apiVersion: config.podium.dev/v1
kind: SchedulerConfiguration
preemption: observe
evictionsPerMinute: 5
reservedNodes: scheduling.podium.dev/reserved
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from podium.cli.configfile import Strict, read_config
from podium.cli.inputs import STDIN_NAME
from podium.rules.names import dns_label, label_value, qualified_name
from podium.schedulerplugin.live.switch import Source
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.scheduling.settings import SCHEDULER_NAME, LiveSettings, Mode
from podium.schedulerplugin.scores import Strategy
from podium.schedulerplugin.settings import Budgets, DivergencePolicy, Settings

# What --evictions-per-minute may say beside a number.
UNLIMITED: Literal["unlimited"] = "unlimited"


def _mode(value: Any) -> Any:
    """Take `preemption: off` for what it says: a YAML reader makes a boolean of it."""
    return Mode.OFF if value is False else value


def _label(text: str) -> str:
    key, equals, value = text.partition("=")
    complaints = qualified_name(key) + (label_value(value) if equals else [])
    if complaints:
        raise ValueError(f"{text!r} is no label, KEY or KEY=VALUE: {complaints[0]}")
    return text


def _namespace(text: str) -> str:
    if complaints := dns_label(text):
        raise ValueError(f"{text!r} is no namespace: {complaints[0]}")
    return text


class SchedulerModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["SchedulerConfiguration"]
    schedulerName: Annotated[str, pydantic.Field(min_length=1)] = SCHEDULER_NAME
    preemption: Annotated[Mode, pydantic.BeforeValidator(_mode)] = Mode.ENFORCE
    evictionsPerMinute: Annotated[pydantic.StrictInt, pydantic.Field(ge=1)] | None = None
    evict: Literal["own", "any"] = "own"
    reservedNodes: Annotated[str, pydantic.AfterValidator(_label)] | None = None
    shadow: pydantic.StrictBool = False
    divergencePolicy: DivergencePolicy = DivergencePolicy.NO_PREEMPTION
    semantics: Semantics = Semantics.KEP
    budgets: Budgets = Budgets.BEST_EFFORT
    strategy: Strategy = Strategy.LEAST_ALLOCATED
    preemptionPriority: pydantic.StrictBool = False
    recordsNamespace: Annotated[str, pydantic.AfterValidator(_namespace)] | None = None

    def settings(self) -> LiveSettings:
        """Give the file as the scheduler takes it."""
        return LiveSettings(
            engine=Settings(
                semantics=self.semantics,
                budgets=self.budgets,
                divergence=self.divergencePolicy,
                strategy=self.strategy,
                evict_only=self.schedulerName if self.evict == "own" else None,
                preemption_priority=self.preemptionPriority,
                reserved=self.reservedNodes or "",
            ),
            scheduler_name=self.schedulerName,
            mode=self.preemption,
            shadow=self.shadow,
            evictions_a_minute=self.evictionsPerMinute,
            records_namespace=self.recordsNamespace or "",
        )


def source(path: str | None, evictions: int | Literal["unlimited"] | None = None) -> Source:
    """Give where settings come from: a file, or none; `evictions` (a minute) prevails over what it says."""

    def read() -> LiveSettings:
        settings = LiveSettings() if path is None else read_config(path, SchedulerModel).settings()
        if evictions is None:
            return settings
        return settings._replace(evictions_a_minute=None if evictions == UNLIMITED else evictions)

    return Source(read, None if path is None or path == STDIN_NAME else Path(path))
