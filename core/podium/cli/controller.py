"""`podium controller`: keep PodsNotMatchingPriority true, protect groups and make auto groups."""

import click

from podium.cli.processoptions import check_lease, leader_options, log_options, logger, process_options


@click.command()
@process_options(metrics_port=9091)
@leader_options("podium-controller")
@click.option("--config", metavar="FILE", help="A ControllerConfiguration: what is done, and how.")
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
    log_format: str | None,
    log_level: str,
) -> None:
    """Keep the condition PodsNotMatchingPriority of every PodGroup true, until told to stop.

    Also protects Podium's groups while they have members, and makes the groups that pods ask for with the
    label scheduling.podium.dev/gang: auto.
    """
    check_lease(leader_elect=leader_elect, lease=lease)
    import uvloop  # noqa: PLC0415 - `--help` does not need it

    from podium.cli.controllerfile import read_rules  # noqa: PLC0415 - as above
    from podium.controllers import process  # noqa: PLC0415 - as above
    from podium.controllers.manager import Rules  # noqa: PLC0415 - as above
    from podium.service.replica import Options  # noqa: PLC0415 - as above

    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        bind=bind,
        metrics_port=metrics_port,
        elects=leader_elect,
        lease=lease,
    )
    rules = Rules() if config is None else read_rules(config)
    uvloop.run(process.run(options, rules, logger(log_format, log_level)))
