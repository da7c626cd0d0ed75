"""The settings that an answer uses, and their source.

`podium whatif` and `podium why` answer for the scheduler of the queried pod. Podium's scheduler has a file
(its ConfigMap, read live or from a dump), else defaults. kube-scheduler has neither. Options of the user (a
file with --config, a form) override both, field by field.
"""

from typing import TYPE_CHECKING, NamedTuple

from podium.api.core import PODIUM_SCHEDULER
from podium.api.saving import DEFAULT_NOTICE
from podium.documents.load import Loaded
from podium.plugins import missing_plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.planner.scores import Weights
    from podium.planner.semantics import Semantics
    from podium.planner.settings import LiveSettings, Settings


class FoundSettings(NamedTuple):
    """The settings of a scheduler of Podium's, and their source."""

    live: "LiveSettings"
    source: str


class ChosenSettings(NamedTuple):
    """The settings of an answer, and a sentence that names them; empty for kube-scheduler's.

    The scheduler uses the plugins in `lacking`, and the answer does not.
    """

    settings: "Settings"
    sentence: str
    lacking: tuple[str, ...] = ()


def of_scheduler(name: str, loaded: Loaded) -> FoundSettings | None:
    """Return the settings of Podium's scheduler of that name; None for any other scheduler."""
    from podium.planner.settings import LiveSettings  # noqa: PLC0415 - numpy takes 0.1 s

    file = loaded.scheduler
    problem = file.problem if file is not None else ""
    if file is not None and not problem:
        import pydantic  # noqa: PLC0415 - 0.1 s to import

        from podium.answers.schedulerfile import SchedulerModel  # noqa: PLC0415 - pydantic

        try:
            live = SchedulerModel.model_validate(file.fields).settings()
        except pydantic.ValidationError as error:
            problem = error.errors()[0]["msg"]
        else:
            if live.scheduler_name == name:
                return FoundSettings(live, file.where)
    if name != PODIUM_SCHEDULER:
        return None
    unread = f"; {file.where} not used: {problem}" if file is not None and problem else ""
    return FoundSettings(LiveSettings(), f"defaults of {PODIUM_SCHEDULER}{unread}")


class OverridingSettings(NamedTuple):
    """Settings that override others, and their source."""

    source: str
    over: "Callable[[Settings], Settings]"


def choose_settings(
    semantics: "Semantics", scheduler: str, loaded: Loaded, given: OverridingSettings | None
) -> ChosenSettings:
    """Return the settings for a pod or group of that scheduler. Raises PodiumError."""
    from podium.planner.settings import Settings  # noqa: PLC0415 - numpy takes 0.1 s to import

    config = of_scheduler(scheduler, loaded)
    if config is not None and config.live.engine.semantics is semantics:
        settings, source, mode = config.live.engine, config.source, f"preemption {config.live.mode}, "
    else:
        settings, source, mode = Settings(semantics=semantics), "", ""
    lacking = tuple(filter(missing_plugin, settings.plugins))
    settings = settings._replace(plugins=tuple(name for name in settings.plugins if name not in lacking))
    if given is not None:
        settings, source = given.over(settings), f"{given.source}; else {source}" if source else given.source
    sentence = f"Settings: {mode}{words(settings)} ({source})." if source else ""
    return ChosenSettings(settings, sentence, lacking)


def words(settings: "Settings") -> str:
    """Return the settings in words, with the field names of the files."""
    shown = {
        "divergencePolicy": settings.divergence,
        "victims": f"pods of {settings.evict_only} only" if settings.evict_only else "pods of any scheduler",
        "budgets": settings.budgets,
        "strategy": settings.strategy,
        "weights": _weights(settings.weights),
        "reservedNodes": settings.reserved,
        "plugins": " ".join(settings.plugins),
        "preemptionPriority": "true" if settings.preemption_priority else "",
        "podStartSeconds": str(settings.pod_start_seconds or ""),
        "noticeSeconds": str(settings.notice_seconds) if settings.notice_seconds != DEFAULT_NOTICE else "",
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items() if value)


def _weights(weights: "Weights") -> str:
    """Return the weights that are not the defaults in words; empty for the defaults."""
    from podium.planner.settings import WEIGHTS  # noqa: PLC0415 - numpy takes 0.1 s to import

    kinds = (("cpu", weights.cpu), ("memory", weights.memory), ("accelerators", weights.accelerators))
    shown = " ".join(f"{name}={weight}" for name, weight in (*kinds, *weights.named))
    return "" if weights == WEIGHTS else shown
