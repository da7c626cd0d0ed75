"""`podium scheduler`: schedule gangs and preempt as workloads, beside kube-scheduler, until told to stop."""

from typing import Literal

import click

from podium.cli.processoptions import check_lease, leader_options, log_options, logger, process_options


class _Rate(click.ParamType[int | Literal["unlimited"]]):
    """A number from 1, or unlimited."""

    name = "N|unlimited"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | Literal["unlimited"]:
        """Return the number or the word."""
        if value == "unlimited":
            return "unlimited"
        return click.IntRange(min=1)(value, param, ctx)


@click.command()
@process_options(metrics_port=9092)
@leader_options("podium-scheduler")
@click.option("--config", metavar="FILE", help="A SchedulerConfiguration; its switches act as it changes.")
@click.option(
    "--evictions-per-minute",
    type=_Rate(),
    help="Units that may be evicted in a minute, whatever the file says.  [default: unlimited]",
)
@log_options
def command(
    *,
    kubeconfig: str | None,
    context: str | None,
    bind: str,
    metrics_port: int,
    leader_elect: bool,
    lease: tuple[str, str] | None,
    config: str | None,
    evictions_per_minute: int | Literal["unlimited"] | None,
    log_format: str | None,
    log_level: str,
) -> None:
    """Schedule the pods whose schedulerName is podium-scheduler, whole groups at once.

    Lower workloads are evicted for higher ones, unless the file says `preemption: observe` or `off`.
    """
    check_lease(leader_elect=leader_elect, lease=lease)
    import uvloop  # noqa: PLC0415 - `--help` does not need it

    from podium.cli.schedulerfile import source  # noqa: PLC0415 - as above
    from podium.schedulerplugin.live import process  # noqa: PLC0415 - as above
    from podium.service.replica import Options  # noqa: PLC0415 - as above

    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        bind=bind,
        metrics_port=metrics_port,
        elects=leader_elect,
        lease=lease,
    )
    settings = source(config, evictions_per_minute)
    uvloop.run(process.run(options, settings, logger(log_format, log_level)))
