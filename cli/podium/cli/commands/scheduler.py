"""`podium scheduler`: schedule gangs and preempt as workloads, beside kube-scheduler, until stopped."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from podium.cli.config import processoptions
from podium.cli.main import examples
from podium.documents.sources import STDIN_NAME

if TYPE_CHECKING:
    from podium.planner.settings import LiveSettings
    from podium.schedulerplugin.live.settingsreload import SettingsSource


class _RateType(click.ParamType[int | Literal["unlimited"]]):
    """A number from 1, or unlimited."""

    name = "N|unlimited"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | Literal["unlimited"]:
        """Return the number or the word."""
        if value == "unlimited":
            return "unlimited"
        return click.IntRange(min=1)(value, param, ctx)


@click.command(
    epilog=examples(
        ("Run on the current context", "podium scheduler"),
        (
            "Run with a configuration file and at most 6 evicted units a minute",
            "podium scheduler --config scheduler.yaml --evictions-per-minute 6",
        ),
    )
)
@processoptions.process_options(metrics_port=9092)
@processoptions.leader_options("podium-scheduler")
@click.option(
    "--config",
    metavar="FILE",
    help="File with a SchedulerConfiguration; changes of its switches take effect at run time.",
)
@click.option(
    "--evictions-per-minute",
    type=_RateType(),
    help="Maximum number of units evicted in any minute; overrides the file.  [default: unlimited]",
)
@click.option(
    "--deployment",
    type=processoptions.OBJECT_NAME,
    help="Deployment of this process. When it is scaled to 0 or deleted, nominations of pods, marks of "
    "victims and conditions of groups are withdrawn.",
)
@processoptions.log_options
def command(
    *,
    process: processoptions.ProcessOptions,
    election: processoptions.ElectionOptions,
    config: str | None,
    evictions_per_minute: int | Literal["unlimited"] | None,
    deployment: tuple[str, str] | None,
    log: processoptions.LogOptions,
) -> None:
    """Schedule the pods whose schedulerName is podium-scheduler, whole groups at once.

    Pods of lower priority are evicted for those of higher priority, unless the configuration sets
    `preemption: observe` or `preemption: off`.
    """
    election.check()
    probes = process.listen()
    import uvloop  # noqa: PLC0415 - `--help` does not need it

    from podium.runtime.manager import ManagerOptions  # noqa: PLC0415 - as above
    from podium.schedulerplugin.live.process import run  # noqa: PLC0415 - as above

    options = ManagerOptions(process.kubeconfig, process.context, probes, **election._asdict())
    settings = source(config, evictions_per_minute)
    uvloop.run(run(options, settings, log.logger(), deployment=deployment))


def source(path: str | None, evictions: int | Literal["unlimited"] | None = None) -> "SettingsSource":
    """Return the source of settings: a file, or none; `evictions` (a minute) override the file."""
    from podium.answers.schedulerfile import SchedulerModel  # noqa: PLC0415 - `--help` does not need it
    from podium.documents.configfile import read_config  # noqa: PLC0415 - as above
    from podium.planner.settings import LiveSettings  # noqa: PLC0415 - as above
    from podium.plugins import load_plugin  # noqa: PLC0415 - as above
    from podium.schedulerplugin.live.settingsreload import SettingsSource  # noqa: PLC0415 - as above

    def read() -> "LiveSettings":
        settings = LiveSettings() if path is None else read_config(path, SchedulerModel).settings()
        for name in settings.engine.plugins:
            load_plugin(name)
        if evictions is None:
            return settings
        return settings._replace(evictions_a_minute=None if evictions == "unlimited" else evictions)

    return SettingsSource(read, None if path is None or path == STDIN_NAME else Path(path))
