"""`podium preflight`: what an upgrade of Kubernetes breaks, with the manifests and steps to prepare it.

All input is read, audited and converted before a file is written; the folder is complete, or not written.
"""

import functools
import sys
from collections.abc import Sequence

import click
import msgspec

from podium.answers.audits.run import MINORS, choose_minor
from podium.api import v1alpha1
from podium.api.claims import AUDIT_READS
from podium.api.minors import GROUP_MINORS, minor_of, prerelease_note
from podium.api.reads import Kind
from podium.audit.groups import V1ALPHA2_REMOVED
from podium.audit.table import RULES
from podium.cli import inputs, kubeoptions, options, progress
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.context import by_rule
from podium.cli.render.data import document
from podium.cli.render.output import Output, output_options, write_manifests
from podium.cli.render.table import findings_by_rule, not_checked
from podium.cli.render.text import Layout
from podium.cli.render.words import accelerators, blocked_parts
from podium.documents.load import collector_paused
from podium.documents.reading import source_words
from podium.errors import PodiumError
from podium.ops.preflight import MigrationStep, Preflight, PreflightPlan, Remade, Stopped, When, preflight
from podium.stderr import say
from podium.text import count, listed, some, visible

TARGETS = [minor.name for minor in GROUP_MINORS.values()][1:]


@click.command(
    epilog=examples(
        ("Check the live cluster before an upgrade to 1.38", "podium preflight -A --to 1.38"),
        ("Check a dump of Kubernetes 1.36", "podium preflight -f cluster-1.36.json.gz --to 1.37"),
    )
)
@inputs.file_options
@kubeoptions.kube_options
@click.option(
    "--to",
    "target",
    required=True,
    type=options.minor_choice(TARGETS),
    help="Kubernetes minor after the upgrade.",
)
@click.option(
    "--from",
    "current",
    type=options.minor_choice(MINORS),
    help="Kubernetes minor before the upgrade.  [default: the server's]",
)
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Output folder of manifests: old/ to delete before the upgrade, new/ to create after it.",
)
@output_options("table", "json", "yaml")
def command(
    *,
    files: inputs.InputFiles,
    kube: kubeoptions.KubeOptions,
    target: str,
    current: str | None,
    output_dir: str | None,
    output: Output,
) -> None:
    """Show what a Kubernetes upgrade breaks: pods that stop scheduling, objects to recreate, next steps.

    Reads files (-f) or the live cluster, and writes nothing to it.

    Exit code: 0 nothing breaks; 3 something stops scheduling, or can no longer be stored; 2 usage error, 1
    the command failed. All formats give the same exit code.
    """
    loaded = inputs.load(files, kube, reads=AUDIT_READS, keep=(Kind.POD_GROUP, Kind.WORKLOAD))
    inputs.check_read(loaded, "podium preflight")
    minor, chosen_by = _current(current, target, loaded)
    if note := prerelease_note(MINORS[target]):
        say(f"podium: Kubernetes {target}{note}")
    with collector_paused(), loaded.origins.placed(), progress.working("comparing the releases"):
        planned = preflight(
            loaded.state,
            loaded.documents,
            current=minor,
            current_by=chosen_by,
            target=target,
            folder=output_dir,
            namespace=loaded.scope.namespace,
            selector=loaded.scope.selector,
        )
    if output_dir is not None:
        _write(output_dir, planned)
    report = planned.report
    body = msgspec.to_builtins(report) | {
        "findings": [finding.as_json() for finding in report.findings],
        "skippedFiles": msgspec.to_builtins(loaded.notes.skipped),
        "duplicates": msgspec.to_builtins(loaded.notes.duplicates),
    }
    table = functools.partial(preflight_table, report, source_words(files, loaded))
    output.report(table, lambda: document("PreflightReport", **body))
    if report.breaks:
        sys.exit(EXIT_FINDINGS)


def _current(asked: str | None, target: str, loaded: inputs.Loaded) -> tuple[str, str]:
    """Return the present minor and how it is known. Raises click.UsageError if it is not below the target."""
    if asked is not None:
        minor, how = asked, "set by --from"
    else:
        # A manifest does not name its minor; only 1.35 has Workloads of v1alpha1. The default for others is
        # one minor before the target.
        oldest = any(
            stored.ref.apiVersion == v1alpha1.API_VERSION for stored in loaded.state.workloads.values()
        )
        before = "1.35" if oldest else f"1.{MINORS[target] - 1}"
        minor, how = choose_minor(loaded.state, loaded.server, assumed=before)
    if MINORS[minor] >= MINORS[target] or (minor_of(loaded.server) or 0) >= MINORS[target] > MINORS[minor]:
        raise click.UsageError(f"--to {target} is not an upgrade: the current minor is {minor} ({how}).")
    return minor, how


def _write(output_dir: str, planned: PreflightPlan) -> None:
    """Write the manifests. Raises PodiumError if one is incomplete, or the folder cannot be written."""
    missing = [
        str(remade.object) for remade in planned.report.remade if not (remade.manifest or remade.creator)
    ]
    if missing:
        raise PodiumError(
            f"--output-dir: a dump does not hold whole objects, so {some(missing)} cannot be "
            "written. Run this on the live cluster, or on the output of kubectl get -o yaml"
        )
    write_manifests(output_dir, planned.manifests)


# `podium preflight` on a terminal: what stops, what is new with the upgrade, and what to do, in order.


# Maximum lengths of the lists in the table; docs/upgrade.md states these numbers.
STOPPED = 20
REMADE = 20
STEPS = 20  # Before the upgrade, or after it.

_WHEN = {When.BEFORE: "Before the upgrade", When.UPGRADE: "The upgrade", When.AFTER: "After the upgrade"}


def preflight_table(report: Preflight, source: str, layout: Layout) -> str:
    """Return the report in the layout's width; `source` names the input."""
    layout.paragraph(_headline(report), style="error" if report.breaks else "bold")
    layout.paragraph(_second(report))
    layout.paragraph(f"From {visible(source)}. Kubernetes {report.current}: {visible(report.currentBy)}.")
    _stopped(layout, report.stopped)
    # Recreated objects have a list of their own, with more details.
    rest = [finding for finding in report.findings if finding.rule != V1ALPHA2_REMOVED.id]
    findings_by_rule(layout, "Findings by rule", by_rule(rest, RULES))
    _remade(layout, sorted(report.remade, key=lambda item: -item.pods))
    _steps(layout, report.steps)
    not_checked(layout, report.notChecked)
    return layout.text()


def _headline(report: Preflight) -> str:
    way = f"the upgrade from Kubernetes {report.current} to {report.target}"
    if parts := blocked_parts(report.stops):
        verb = "stops" if parts == ["1 group"] else "stop"
        return f"{listed(parts)} {verb} scheduling with {way}."
    if report.remade:
        return f"{count(len(report.remade), 'object')} cannot be stored after {way}."
    return f"No checked object stops scheduling with {way}."


def _second(report: Preflight) -> str:
    findings = count(len(report.findings), "finding") if report.findings else "no finding"
    manual = sum(not item.creator for item in report.remade)
    remade = f"; {count(manual, 'object')} to recreate" if manual else ""
    return f"The upgrade brings {findings}{remade}."


def _stopped(layout: Layout, stopped: Sequence[Stopped]) -> None:
    def row(group: Stopped) -> tuple[str | int, ...]:
        name = f"{group.object.namespace}/{group.object.name}"
        return name, group.has.pods, accelerators(group.has), _owners(layout, group.owners)

    layout.listing(
        "Stops scheduling", ("GROUP", "PODS", "ACCELERATORS", "OWNER"), stopped, row, limit=STOPPED
    )


def _remade(layout: Layout, remade: Sequence[Remade]) -> None:
    if not remade:
        return

    def row(item: Remade) -> tuple[str | int, ...]:
        manifest = f"{item.creator} creates it" if item.creator else item.manifest or "not in the input"
        return str(item.object), item.pods, _owners(layout, item.owners), manifest

    title = f"Recreate as {visible(remade[0].target)}"
    layout.listing(title, ("OBJECT", "LIVE PODS", "OWNER", "MANIFEST"), remade, row, limit=REMADE)
    for item in remade:
        for lost in item.lost:
            layout.paragraph(f"{item.object}: {lost}", hang="  ", style="warning")


def _owners(layout: Layout, owners: Sequence[str]) -> str:
    return some(owners, len(owners) if layout.width is None else 1)


def _steps(layout: Layout, steps: Sequence[MigrationStep]) -> None:
    if steps:
        layout.heading("What to do")
    number = 0
    for when in When:
        due = [step for step in steps if step.when is when]
        if due:
            layout.paragraph(_WHEN[when], style="bold")
        for index, step in enumerate(due):
            number += 1
            if layout.width is not None and index >= STEPS and not step.commands:
                continue
            layout.paragraph(f"{number:>2}. {visible(step.what)}", hang="    ")
            layout.lines += [f"      {visible(command)}" for command in step.commands]
        layout.cut(due, STEPS)
