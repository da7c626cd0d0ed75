"""`podium controller`: keep PodsNotMatchingPriority true, protect groups and make auto groups."""

import click

from podium.cli.processoptions import ObjectName, log_options, logger, process_options


@click.command()
@process_options(metrics_port=9091)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Whether there may be other replicas, of which one does the work.",
)
@click.option(
    "--lease",
    type=ObjectName(),
    help="The Lease by which they agree on that.  [default: podium-controller in the context's namespace]",
)
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
    if lease is not None and not leader_elect:
        raise click.UsageError("--lease is of no use with --no-leader-elect")
    import uvloop  # noqa: PLC0415 - `--help` needs none of it

    from podium.cli.controllerfile import read_rules  # noqa: PLC0415 - as above
    from podium.controllers import process  # noqa: PLC0415 - as above
    from podium.controllers.manager import Rules  # noqa: PLC0415 - as above

    settings = process.Settings(
        kubeconfig=kubeconfig,
        context=context,
        bind=bind,
        metrics_port=metrics_port,
        elects=leader_elect,
        lease=lease,
        rules=Rules() if config is None else read_rules(config),
    )
    uvloop.run(process.run(settings, logger(log_format, log_level)))
