"""`podium doctor`: check a cluster for Podium; each line has a fact and what to do about it."""

import contextlib
import functools
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from podium.cli import progress
from podium.cli.kubeoptions import KubeOptions, server_options
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.data import document
from podium.cli.render.output import Output, output_options
from podium.errors import PodiumError
from podium.ops.doctor.check import CheckLevel, DoctorCheck
from podium.text import count, listed, visible
from podium.version import VERSION

if TYPE_CHECKING:
    from podium.cli.render.text import Layout
    from podium.kube.connection import Connection
    from podium.ops.doctor.facts import ClusterFacts
    from podium.rules.policy import Policy

_CONFIGURATION = "/api/v1/namespaces/podium-system/configmaps/podium-webhook"


@click.command(
    epilog=examples(
        ("Check the cluster of the current context", "podium doctor"),
        ("Check with the rights of another user", "podium doctor --as ann@example.org"),
    )
)
@server_options()
@output_options("table", "json", "yaml")
def command(kube: KubeOptions, output: Output) -> None:
    """Check a cluster: server, installation, certificates, permissions, and other webhooks and schedulers.

    Writes nothing. A check that needs a missing permission is reported as not made.

    Exit code: 0 no problem, 3 problems, 2 usage error, 1 the command failed. All formats give the same exit
    code.
    """
    import asyncio  # noqa: PLC0415 - `--help` does not need it

    from podium.ops.doctor.diagnosis import diagnose  # noqa: PLC0415 - as above

    with progress.working("checking the cluster"):
        facts = asyncio.run(_look(kube))
    checks = diagnose(facts)
    output.report(functools.partial(_table, checks), functools.partial(_document, checks, facts))
    if any(check.level is CheckLevel.PROBLEM for check in checks):
        sys.exit(EXIT_FINDINGS)


async def _look(kube: KubeOptions) -> "ClusterFacts":
    from podium.kube.connection import connect  # noqa: PLC0415 - the client takes 0.6 s to import
    from podium.ops.doctor.facts import (  # noqa: PLC0415 - as above
        Installation,
        expected,
        manifests,
    )
    from podium.ops.doctor.gather import gather  # noqa: PLC0415 - as above
    from podium.rules.policy import Policy  # noqa: PLC0415 - as above

    async with connect(kube.kubeconfig, kube.context, kube.requests) as connection:
        progress.write_line(f"context {connection.context}, server {connection.server}")
        policy = Policy()
        # If no AdmissionPolicy can be read, the policies are those that Podium ships.
        with contextlib.suppress(PodiumError):
            policy = await _configured(connection)
        installation = Installation(expected(manifests(), policy))
        return await gather(connection, installation, cli=VERSION, now=lambda: datetime.now(UTC))


async def _configured(connection: "Connection") -> "Policy":
    """Return the AdmissionPolicy of the webhook in a cluster, or the default. Raises PodiumError."""
    from podium.cli.config.policyfile import PolicyModel  # noqa: PLC0415 - as above
    from podium.documents.configfile import config_of  # noqa: PLC0415 - as above
    from podium.kube.connection import get_or_none  # noqa: PLC0415 - as above
    from podium.kube.reading import decode  # noqa: PLC0415 - as above
    from podium.rules.policy import Policy  # noqa: PLC0415 - as above

    body = await get_or_none(connection, _CONFIGURATION)
    text = ((decode(body, dict[str, Any]) if body else {}).get("data") or {}).get("policy.yaml")
    return Policy() if text is None else config_of(_CONFIGURATION, text, PolicyModel).policy()


def _counts(checks: list[DoctorCheck]) -> dict[CheckLevel, int]:
    return {level: sum(check.level is level for check in checks) for level in CheckLevel}


def _document(checks: list[DoctorCheck], facts: "ClusterFacts") -> dict[str, Any]:
    """Return the JSON contract, which docs/doctor.md describes."""
    return document(
        "DoctorReport",
        server=facts.version,
        podium=facts.cli,
        summary={str(level): number for level, number in _counts(checks).items()},
        checks=[
            {"name": check.name, "level": str(check.level), "fact": check.fact, "fix": check.fix}
            for check in checks
        ],
    )


def _table(checks: list[DoctorCheck], layout: "Layout") -> str:
    """Return the checks by level, the worst first, each with its fix below it."""
    counts = _counts(checks)
    bad = {"problem": "error", "warning": "warning"}
    bad_counts = [count(number, level) for level, number in counts.items() if number and level in bad]
    made = sum(check.made for check in checks)
    unmade = f"; {count(len(checks) - made, 'check')} not made" if made < len(checks) else ""
    layout.paragraph(f"{listed(bad_counts) or 'No problem'} in {count(made, 'check')}{unmade}.", style="bold")
    for level, number in counts.items():
        rows = []
        for check in checks:
            if check.level is level:
                rows.append((check.name, visible(check.fact)))
                if check.fix:
                    rows.append(("", f"fix: {visible(check.fix)}"))
        if number:
            layout.heading("Well" if level == "ok" else f"{level}s")
            layout.columns(("CHECK", "FACT"), rows)
    return layout.text()
