"""`podium preflight`: what an upgrade of Kubernetes breaks, with the manifests and steps to prepare it.

All input is read, audited and converted before a file is written; the folder is complete, or not written.
"""

import functools
import sys

import click
import msgspec

from podium.answers.audits.run import MINORS, choose_minor
from podium.api import v1alpha1
from podium.api.claims import AUDIT_READS
from podium.api.minors import minor_of, planned_note
from podium.api.reads import Kind
from podium.cli import inputs, kubeoptions, options
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.data import document
from podium.cli.render.output import Output, output_options, write_manifests
from podium.cli.render.preflight_table import preflight_table
from podium.cli.render.text import IN_WIDE
from podium.documents.load import collector_paused
from podium.documents.reading import source_words
from podium.errors import PodiumError
from podium.ops.preflight import PreflightPlan, preflight
from podium.stderr import say
from podium.text import some

TARGETS = ("1.37", "1.38")


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
@output_options("table", "wide", "json", "yaml")
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
    if note := planned_note(MINORS[target]):
        say(f"podium: Kubernetes {target}{note}")
    with collector_paused(), loaded.origins.placed():
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
        "findings": [each.as_json() for each in report.findings],
        "skippedFiles": msgspec.to_builtins(loaded.notes.skipped),
        "duplicates": msgspec.to_builtins(loaded.notes.duplicates),
    }
    table = functools.partial(preflight_table, report, source_words(files, loaded))
    output.report(table, lambda: document("PreflightReport", **body), IN_WIDE)
    if report.breaks:
        sys.exit(EXIT_FINDINGS)


def _current(asked: str | None, target: str, loaded: inputs.Loaded) -> tuple[str, str]:
    """Return the present minor and how it is known. Raises click.UsageError if it is not below the target."""
    if asked is not None:
        minor, how = asked, "set by --from"
    else:
        # A manifest does not name its minor; only 1.35 has Workloads of v1alpha1. The default for others is
        # one minor before the target.
        oldest = any(each.ref.apiVersion == v1alpha1.API_VERSION for each in loaded.state.workloads.values())
        before = "1.35" if oldest else f"1.{MINORS[target] - 1}"
        minor, how = choose_minor(loaded.state, loaded.server, assumed=before)
    if MINORS[minor] >= MINORS[target] or (minor_of(loaded.server) or 0) >= MINORS[target] > MINORS[minor]:
        raise click.UsageError(f"--to {target} is not an upgrade: the current minor is {minor} ({how}).")
    return minor, how


def _write(output_dir: str, planned: PreflightPlan) -> None:
    """Write the manifests. Raises PodiumError if one is incomplete, or the folder cannot be written."""
    missing = [str(each.object) for each in planned.report.remade if not (each.manifest or each.creator)]
    if missing:
        raise PodiumError(
            f"--output-dir: a dump does not hold whole objects, so {some(missing)} cannot be "
            "written. Run this on the live cluster, or on the output of kubectl get -o yaml"
        )
    write_manifests(output_dir, planned.manifests)
