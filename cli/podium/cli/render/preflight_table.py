"""`podium preflight` on a terminal: what stops, what is new with the upgrade, and what to do, in order."""

from collections.abc import Sequence

from podium.audit.groups import V1ALPHA2_REMOVED
from podium.audit.table import RULES
from podium.cli.render.context import by_rule
from podium.cli.render.table import findings_by_rule, not_checked
from podium.cli.render.text import Layout
from podium.cli.render.words import accelerators, blocked_parts
from podium.ops.preflight import MigrationStep, Preflight, Remade, Stopped, When
from podium.text import count, listed, some, visible

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
    others = [each for each in report.findings if each.rule != V1ALPHA2_REMOVED.id]
    findings_by_rule(layout, "Findings by rule", by_rule(others, RULES))
    _remade(layout, sorted(report.remade, key=lambda each: -each.pods))
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
    manual = sum(not each.creator for each in report.remade)
    remade = f"; {count(manual, 'object')} to recreate" if manual else ""
    return f"The upgrade brings {findings}{remade}."


def _stopped(layout: Layout, stopped: Sequence[Stopped]) -> None:
    def row(each: Stopped) -> tuple[str | int, ...]:
        name = f"{each.object.namespace}/{each.object.name}"
        return name, each.has.pods, accelerators(each.has), _owners(layout, each.owners)

    layout.listing(
        "Stops scheduling", ("GROUP", "PODS", "ACCELERATORS", "OWNER"), stopped, row, limit=STOPPED
    )


def _remade(layout: Layout, remade: Sequence[Remade]) -> None:
    if not remade:
        return

    def row(each: Remade) -> tuple[str | int, ...]:
        manifest = f"{each.creator} creates it" if each.creator else each.manifest or "not in the input"
        return str(each.object), each.pods, _owners(layout, each.owners), manifest

    title = f"Recreate as {visible(remade[0].target)}"
    layout.listing(title, ("OBJECT", "LIVE PODS", "OWNER", "MANIFEST"), remade, row, limit=REMADE)
    for each in remade:
        for lost in each.lost:
            layout.paragraph(f"{each.object}: {lost}", hang="  ", style="warning")


def _owners(layout: Layout, owners: Sequence[str]) -> str:
    return some(owners, len(owners) if layout.width is None else 1)


def _steps(layout: Layout, steps: Sequence[MigrationStep]) -> None:
    if steps:
        layout.heading("What to do")
    number = 0
    for when in When:
        these = [step for step in steps if step.when is when]
        if these:
            layout.paragraph(_WHEN[when], style="bold")
        for index, step in enumerate(these):
            number += 1
            if layout.width is not None and index >= STEPS and not step.commands:
                continue
            layout.paragraph(f"{number:>2}. {visible(step.what)}", hang="    ")
            layout.lines += [f"      {visible(command)}" for command in step.commands]
        layout.cut(these, STEPS)
