"""`podium audit`: read a cluster, from files or live, judge it, and write one report in the format asked for.

The report is made whole before a byte of it is written, and the exit code comes from the findings alone, so
neither depends on the format.
"""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import click

from podium.audit import MINORS, audit, choose_minor
from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.context import Context, Place
from podium.cli.render.formats import FORMATS, render
from podium.cli.render.output import deliver
from podium.findings import Finding
from podium.load import Loaded
from podium.report import Summary
from podium.rules.audit.table import RULES
from podium.wording import some

NARROWEST, WIDEST, USUAL = 80, 120, 100


@click.command("audit", short_help="Find pods and groups whose priorities will hurt.")
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
@click.option("--select", multiple=True, metavar="RULE", help="Run this rule only. May be given several times.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave this rule out. May be given several times.")
@click.option("--kubernetes", type=click.Choice(MINORS), help="The minor to judge for, instead of the server's.")
def command(
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
