"""`podium preflight`: what an upgrade of Kubernetes breaks, with the manifests and steps to prepare it.

All input is read, audited and converted before a file is written; the folder is complete, or not written.
"""

import sys

import click
import msgspec

from podium.api.minors import minor_of
from podium.api.reads import Kind
from podium.audit import MINORS, choose_minor
from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.data import as_json, as_yaml, document
from podium.cli.render.output import deliver, layout, write_manifests
from podium.cli.render.preflight_table import preflight_table
from podium.cli.render.text import Layout
from podium.documents.load import collector_paused
from podium.errors import PodiumError
from podium.ops.preflight import Planned, Preflight, preflight
from podium.wording import some

TARGETS = ("1.37", "1.38")
_FORMATS = ("table", "wide", "json", "yaml")


@click.command("preflight", short_help="Show what an upgrade of Kubernetes breaks, and what to do.")
@inputs.file_options
@inputs.kube_options
@click.option("--to", "target", required=True, type=click.Choice(TARGETS), help="The minor to upgrade to.")
@click.option(
    "--from", "current", type=click.Choice(tuple(MINORS)), help="The minor of today, if not the server's."
)
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write manifests there: old/ to delete before the upgrade, new/ to create after it.",
)
@inputs.output_options(*_FORMATS)
def command(
    *,
    filenames: tuple[str, ...],
    strict: bool,
    kube: inputs.KubeOptions,
    target: str,
    current: str | None,
    output_dir: str | None,
    output: str,
    output_file: str | None,
) -> None:
    """Show what an upgrade of Kubernetes brings: what stops scheduling, what must be made anew, what to do.

    Reads files (-f) or the live cluster, and changes nothing there. Exit code: 0 nothing breaks, 3 something
    stops scheduling or cannot be stored any more, 2 usage, 1 the tool failed; the same in every format.
    """
    loaded = inputs.load(filenames, kube, strict=strict, keep=(Kind.POD_GROUP, Kind.WORKLOAD))
    minor, chosen_by = _current(current, target, loaded)
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
    deliver(_text(planned.report, output, inputs.source(filenames, loaded), output_file), output_file)
    if planned.report.breaks:
        sys.exit(EXIT_FINDINGS)


def _current(asked: str | None, target: str, loaded: inputs.Loaded) -> tuple[str, str]:
    """Return the present minor and how it is known. Raises click.UsageError if it is not below the target."""
    if asked is not None:
        minor, how = asked, "asked for with --from"
    else:
        # A manifest does not name its minor; the default is one minor before the target.
        before = f"1.{MINORS[target] - 1}"
        minor, how = choose_minor(loaded.state.nodes.values(), loaded.server, assumed=before)
    if MINORS[minor] >= MINORS[target] or (minor_of(loaded.server) or 0) >= MINORS[target] > MINORS[minor]:
        raise click.UsageError(f"--to {target} is no upgrade: it is {minor} already ({how}).")
    return minor, how


def _write(output_dir: str, planned: Planned) -> None:
    """Write the manifests. Raises PodiumError if one is incomplete, or the folder cannot be written."""
    missing = [str(each.object) for each in planned.report.remade if not each.manifest]
    if missing:
        raise PodiumError(
            f"--output-dir: a dump holds of an object what Podium reads, so {some(missing)} cannot be "
            "written whole; run this on the cluster, or on what kubectl get -o yaml gives"
        )
    write_manifests(output_dir, planned.manifests)


def _text(report: Preflight, output: str, source: str, output_file: str | None) -> str:
    if output in ("table", "wide"):
        lines = layout(to_file=output_file is not None)
        return preflight_table(
            report, source, lines if output == "table" else Layout(width=None, colour=lines.colour)
        )
    body = msgspec.to_builtins(report) | {"findings": [each.as_json() for each in report.findings]}
    whole = document("PreflightReport", **body)
    return as_json(whole) if output == "json" else as_yaml(whole)
