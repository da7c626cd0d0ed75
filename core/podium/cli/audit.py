"""`podium audit`: read a cluster, from files or live, judge it, and write one report in the format asked for.

The report is made whole before a byte of it is written, and the exit code comes from the findings alone, so
neither depends on the format.
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence, Sized
from datetime import UTC, datetime
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path

import click

from podium.api.minors import minor_of, nearest
from podium.api.reads import Kind
from podium.api.times import written
from podium.audit import MINORS, audit, choose_minor
from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.context import Context, Place
from podium.cli.render.formats import FORMATS, render
from podium.cli.render.output import deliver
from podium.documents.load import Loaded, Origins, collector_paused
from podium.findings import Finding
from podium.report import Summary
from podium.rules.audit.table import RULES
from podium.rules.rule import Rule
from podium.state import State
from podium.wording import some

# The table's width in columns: at least, at most, and where no terminal says.
NARROWEST, WIDEST, USUAL = 80, 120, 100


@click.command("audit")
@inputs.file_options
@inputs.kube_options
@inputs.output_options(*FORMATS)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="Exit with 3 when there are findings this bad or worse.",
)
@click.option(
    "--select", multiple=True, metavar="RULE", help="Run this rule only. May be given several times."
)
@click.option(
    "--ignore", multiple=True, metavar="RULE", help="Leave this rule out. May be given several times."
)
@click.option(
    "--kubernetes", type=click.Choice(MINORS), help="The minor to judge for, instead of the server's."
)
def command(
    *,
    filenames: tuple[str, ...],
    strict: bool,
    kube: inputs.KubeOptions,
    output: str,
    output_file: str | None,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    kubernetes: str | None,
) -> None:
    """Find divergent groups and what else will not schedule, from files (-f) or the live cluster.

    Exit code: 0 clean, 3 findings (--fail-on), 2 usage, 1 the tool failed; the same in every format.
    """
    _check_rules("--select", select)
    _check_rules("--ignore", ignore)
    loaded = inputs.load(filenames, kube, strict=strict)
    minor, chosen_by = _minor(kubernetes, loaded)
    click.echo(f"judging for Kubernetes {minor}: {chosen_by}", err=True)
    rules = [rule for rule in RULES if (not select or rule.id in select) and rule.id not in ignore]
    with collector_paused(), loaded.origins.placed():
        report = audit(
            loaded.state,
            kubernetes=minor,
            chosen_by=chosen_by,
            objects=_objects(loaded.state),
            skipped=loaded.skipped,
            select=select,
            ignore=ignore,
            namespace=loaded.scope.namespace,
            selector=loaded.scope.selector,
        )
        text = render(report, output, _context(filenames, loaded, rules, to_file=output_file is not None))
    deliver(text, output_file)
    if _fails(report.summary, fail_on):
        sys.exit(EXIT_FINDINGS)


def _context(filenames: Sequence[str], loaded: Loaded, rules: Sequence[Rule], *, to_file: bool) -> Context:
    """Gather what a rendering needs from the terminal, the clock and the input."""
    plain = to_file or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    return Context(
        rules=rules,
        input=_input(filenames, loaded),
        place=_places(filenames, loaded.origins),
        version=version("podium-k8s"),
        made=written(datetime.now(UTC)),
        width=min(max(shutil.get_terminal_size((USUAL, 0)).columns, NARROWEST), WIDEST),
        colour=not plain and not os.environ.get("NO_COLOR"),
    )


def _check_rules(option: str, ids: Sequence[str]) -> None:
    known = {rule.id for rule in RULES}
    for unknown in (rule for rule in ids if rule not in known):
        close = get_close_matches(unknown, known, n=1)
        hint = f" Did you mean {close[0]}?" if close else " docs/rules.md has them all."
        raise click.UsageError(f"{option}: there is no rule {unknown!r}.{hint}")


def _minor(asked: str | None, loaded: Loaded) -> tuple[str, str]:
    """Choose the minor to judge for, and say how: as asked, the API server's, else the kubelets'."""
    if asked is not None:
        return asked, "asked for with --kubernetes"
    served = minor_of(loaded.server)
    if served is None:
        return choose_minor(loaded.state.nodes.values())
    minor = nearest(served, MINORS.values())
    exact = minor == f"1.{served}"
    return minor, f"the API server is {loaded.server}{'' if exact else '; the nearest that is known'}"


def _objects(state: State) -> dict[str, int]:
    """Count what was read, by kind."""
    read: dict[Kind, Sized] = {
        Kind.POD: state.pods,
        Kind.NODE: state.nodes,
        Kind.PRIORITY_CLASS: state.classes,
        Kind.BUDGET: state.budgets,
        Kind.POD_GROUP: state.groups,
        Kind.WORKLOAD: state.workloads,
        Kind.KUEUE_WORKLOAD: state.kueue_workloads,
    }
    counts = Counter({str(kind): len(objects) for kind, objects in read.items() if objects})
    counts.update(ref.kind for ref in state.owners)
    return dict(counts)


def _input(filenames: Sequence[str], loaded: Loaded) -> str:
    """Name what was read, and how much of it, in a person's words."""
    names = ["standard input" if name == "-" else name for name in filenames]
    where = some(names) if names else f"the live cluster ({loaded.server})"
    return f"{where}, {loaded.scope.partial}" if loaded.scope.partial else where


def _places(filenames: Sequence[str], origins: Origins) -> Callable[[Finding], Place | None]:
    """Find findings in the input's files; a line is looked up only for what is asked.

    What is in no file, as a group that is missing, is placed in the first file as a whole.
    """
    whole = next((Place(name, None) for name in filenames if Path(name).is_file()), None)

    def place(finding: Finding) -> Place | None:
        origin = origins.get(finding.object)
        if origin is None:
            return whole
        line = origins.line(finding.object, finding.field)
        return None if line is None else Place(origin.file, line)

    return place


def _fails(summary: Summary, fail_on: str) -> bool:
    counted = {"error": summary.errors, "warning": summary.errors + summary.warnings, "never": 0}
    return counted[fail_on] > 0
