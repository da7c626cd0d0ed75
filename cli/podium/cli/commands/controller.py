"""`podium controller`: keep PodsNotMatchingPriority true, protect groups and make auto groups."""

import click

from podium.cli.config import processoptions
from podium.cli.main import examples


@click.command(
    epilog=examples(
        ("Run on the current context", "podium controller"),
        (
            "Run with a configuration file, without leader election",
            "podium controller --config controller.yaml --no-leader-elect",
        ),
    )
)
@processoptions.process_options(metrics_port=9091)
@processoptions.leader_options("podium-controller")
@click.option("--config", metavar="FILE", help="File with a ControllerConfiguration.")
@click.option(
    "--deployment",
    type=processoptions.OBJECT_NAME,
    help="Deployment of this process. When it is scaled to 0 or deleted, groups lose Podium's finalizer "
    "and conditions.",
)
@processoptions.log_options
def command(
    *,
    process: processoptions.ProcessOptions,
    election: processoptions.ElectionOptions,
    config: str | None,
    deployment: tuple[str, str] | None,
    log: processoptions.LogOptions,
) -> None:
    """Maintain the condition PodsNotMatchingPriority of every PodGroup.

    Also keeps Podium's groups while they have members, and creates the groups that pods request with the
    label scheduling.podium.dev/gang: auto.
    """
    election.check()
    probes = process.listen()
    import uvloop  # noqa: PLC0415 - `--help` does not need it

    from podium.controllers.manager import Rules  # noqa: PLC0415 - as above
    from podium.controllers.process import read_rules, run  # noqa: PLC0415 - as above
    from podium.runtime.manager import ManagerOptions  # noqa: PLC0415 - as above

    options = ManagerOptions(process.kubeconfig, process.context, probes, **election._asdict())
    rules = Rules() if config is None else read_rules(config)
    uvloop.run(run(options, rules, log.logger(), deployment))
