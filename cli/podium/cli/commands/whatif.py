"""`podium whatif`: the victims of a pod or group; with --victim, the preemptors that threaten it.

With --defragment it is the moves that free whole topology domains.

Nothing is written to a cluster. The scheduler's own engine makes the plan, so an answer from a dump is what
would happen in that cluster. This module only reads, chooses defaults, and shows the result.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.answers.assumptions import Choices
from podium.answers.targets import pending_targets
from podium.answers.whatifreport import MOST_DOMAINS, WhatIf
from podium.api.findings import Finding
from podium.api.schedulable import SCHEDULING_READS
from podium.api.times import written
from podium.cli import inputs, kubeoptions, naming, options, progress
from podium.cli.main import EXIT_FINDINGS, EXIT_NOT_JUDGED, examples
from podium.cli.options import option_errors
from podium.cli.render.data import whatif_document
from podium.cli.render.formats import victim_names
from podium.cli.render.output import Output, output_options
from podium.cli.render.text import Layout
from podium.cli.render.whatif_page import whatif_page
from podium.cli.render.whatif_words import (
    PageOrigin,
    caveats,
    domain_words,
    domains_heading,
    harm_line,
    most_line,
    nodes_heading,
    outcome_line,
    outcome_words,
    pods_words,
    rules_line,
    unit_name,
    victims_words,
)
from podium.cluster.reader import Name
from podium.documents.reading import ClusterReading, check_whole, source_words
from podium.documents.scope import Scope
from podium.planner.preemption.outcome import (
    GOOD,
    ClaimVolumePlan,
    DevicePlan,
    DomainVerdict,
    Outcome,
    Placed,
    PlanTopology,
    UnitVerdict,
    WorkloadPlan,
)
from podium.planner.semantics import Semantics
from podium.text import count, listed, some
from podium.version import VERSION

if TYPE_CHECKING:
    from podium.answers.whatifplans import Addition
    from podium.planner.engine import MakeEngine


class WhatIfOptions(NamedTuple):
    """The options of the query, as given."""

    add: str | None
    pod: str | None
    group: str | None
    victim: str | None
    defragment: str | None
    within: str | None
    everywhere: bool
    labels: str | None
    kind: str | None
    now: str | None
    semantics: str | None
    config: str | None
    plugins: tuple[str, ...]
    max_victims: int | None
    domains: int
    tenant: str | None
    replicas: int | None
    maximum: bool

    def check(self) -> None:
        """Raise click.UsageError for options that exclude each other."""
        given = sum(name is not None for name in (self.pod, self.group, self.victim))
        if given > 1:
            raise click.UsageError("--pod, --group and --victim exclude each other.")
        if self.defragment is not None:
            self._check_defragment()
        if self.within and self.everywhere:
            raise click.UsageError("-n and -A exclude each other.")
        if given and (self.everywhere or self.labels):
            raise click.UsageError("-A and -l exclude --pod, --group and --victim.")
        if self.pending is not None and self.add is not None:
            raise click.UsageError("--add excludes -n, -A and -l.")
        if self.kind is not None and self.victim is None:
            raise click.UsageError("--kind needs --victim.")
        if (self.replicas is not None or self.maximum) and self.add is None:
            raise click.UsageError("--replicas and --max need --add.")
        if self.replicas is not None and self.maximum:
            raise click.UsageError("--replicas and --max exclude each other.")

    def _check_defragment(self) -> None:
        """Raise click.UsageError for options that --defragment excludes: it is about all pods that run."""
        excluded = {
            "--add": self.add, "--pod": self.pod, "--group": self.group, "--victim": self.victim,
            "-n": self.within, "-A": self.everywhere, "-l": self.labels, "--semantics": self.semantics,
            "--max-victims": self.max_victims, "--tenant": self.tenant,
        }  # fmt: skip
        given = [name for name, value in excluded.items() if value not in (None, False)]
        if given:
            raise click.UsageError(f"--defragment excludes {listed(given)}.")
        if not self.domains:
            raise click.UsageError("--defragment needs --domains 1 or more.")

    @property
    def pending(self) -> Scope | None:
        """Return the scope of the pending pods to plan for, or None if the options name a target."""
        chosen = self.within or self.everywhere or self.labels
        if not chosen or self.pod or self.group or self.victim:
            return None
        return Scope(self.within or "", self.labels or "")


_OPTIONS = (
    click.option(
        "--add",
        metavar="FILE",
        help="File with objects to add to the cluster: pods, groups, or their workloads.",
    ),
    click.option("--pod", metavar="[NS/]NAME", help="Pending pod to plan for."),
    click.option("--group", metavar="[NS/]NAME", help="Pending PodGroup to plan for."),
    click.option(
        "--victim", metavar="[NS/]NAME", help="Running pod or PodGroup; shows which priority preempts it."
    ),
    click.option(
        "--defragment",
        metavar="KEY",
        help="Node label, such as topology.kubernetes.io/rack; shows the moves that free one of its domains.",
    ),
    kubeoptions.namespace_option(
        "Namespace of a NAME without one (default: the context's), or of the pending pods to plan for.",
        "within",
    ),
    kubeoptions.everywhere_option("Plan for all pending pods and groups.", "everywhere"),
    kubeoptions.selector_option(
        "Plan for the pending pods with these labels, and for their groups.", "labels"
    ),
    click.option(
        "--kind",
        type=naming.KindChoice(),
        help="Kind of --victim, if a pod and a PodGroup have the name.",
    ),
    click.option("--now", metavar="TIME", help="Time of the plan, such as 2026-01-31T12:00:00Z."),
    click.option(
        "--semantics",
        type=click.Choice([str(semantics) for semantics in Semantics]),
        help="Preemption rules: of the KEP, of a kube-scheduler release, or pod by pod.  [default: the "
        "cluster's version]",
    ),
    click.option(
        "--config", metavar="FILE", help="File with a WhatIfConfiguration (budgets, victims, divergence)."
    ),
    options.plugin_option,
    click.option(
        "--max-victims",
        type=click.IntRange(0),
        metavar="N",
        help="Maximum number of preempted pods; exit code 3 above it.",
    ),
    click.option(
        "--domains",
        type=click.IntRange(0),
        metavar="N",
        default=MOST_DOMAINS,
        show_default=True,
        help="Maximum number of topology domains to compare for a group with a topology constraint, or to "
        "list with --defragment.",
    ),
    click.option(
        "--tenant",
        metavar="NS",
        help="Namespace of the reader; objects of other namespaces are shown by UID only.",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(1),
        metavar="N",
        help="Number of replicas of the workload of --add; the parallelism of a Job, or the number of pods.",
    ),
    click.option(
        "--max",
        "maximum",
        is_flag=True,
        help="Find the largest number of replicas of the workload of --add that fits.",
    ),
)


def whatif_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the query as one parameter, `options`."""
    return options.gathered(function, _OPTIONS, "options", WhatIfOptions)


# How an option sets a field of the question, and the error of a field.
_SET_BY = {"now": "set by --now", "semantics": "set by --semantics", "moves": "the rules of --defragment"}
_ERRORS = {
    "target": "no target: use --pod or --group, or -A for all; {}",
    "pending": "no target: {}",
    "replicas": "--add {}",
    "kind": "--victim: {}. Choose one with --kind",
}


class WhatIfQuery(NamedTuple):
    """The query, with the name of its pod, group or victim, if it has one."""

    cluster: ClusterReading
    options: WhatIfOptions
    choices: Choices
    name: Name | None
    added: "Addition | None"
    engine: "MakeEngine"


class WhatIfAnswer(NamedTuple):
    """An answer in every format, of which one is written, and the exit code."""

    document: dict[str, Any]
    table: Callable[[Layout], str]
    page: Callable[[PageOrigin], str]
    names: Callable[[], str]
    code: int


@click.command(
    epilog=examples(
        ("Plan for a manifest in the cluster of a dump", "podium whatif -f cluster.yaml --add urgent.yaml"),
        (
            "Show which priority preempts a running group",
            "podium whatif -f cluster.json.gz --victim team-vision/train-00",
        ),
    )
)
@inputs.file_options
@kubeoptions.server_options()
@whatif_options
@output_options("table", "json", "yaml", "html", "name")
def command(
    *,
    files: inputs.InputFiles,
    kube: kubeoptions.KubeOptions,
    options: WhatIfOptions,
    output: Output,
) -> None:
    """Show whether a pending pod or group fits, on which nodes, and which pods it preempts.

    With --victim, show which priority preempts a running pod or group. With --defragment, show the moves that
    free whole topology domains. Reads files (-f) or the live cluster, and writes nothing to it.

    Exit code: 0 the pod or group fits, with or without preemption, or a domain is free or can be freed; 3 it
    does not fit, is not eligible, more pods than --max-victims are preempted, or no domain can be freed; 4 it
    cannot be judged; 2 usage error, 1 the command failed.
    All formats give the same exit code.
    """
    options.check()
    if output.format == "name" and (options.victim or options.defragment) is not None:
        raise click.UsageError("-o name lists the pods that a plan evicts: no --victim, no --defragment.")
    inputs.stdin_once([*files.names, options.add or "", options.config or ""])
    full = naming.Naming(options.within, options.tenant, kube, live=not files.names).full
    given = {"pod": options.pod, "group": options.group, "victim": options.victim}
    names = [full(f"--{option}", name) for option, name in given.items() if name is not None]
    # A part of a cluster would show free room where there is none.
    kube = kube._replace(all_namespaces=not files.names)
    loaded = inputs.load(files, kube, reads=SCHEDULING_READS)
    check_whole(loaded)
    cluster = ClusterReading(loaded, source_words(files, loaded), datetime.now(UTC), live=not files.names)
    semantics = Semantics(options.semantics) if options.semantics is not None else None
    settings = inputs.overriding_settings(options.config, options.plugins)
    choices = Choices(options.now, semantics, settings, _SET_BY.__getitem__)
    added = _added(options, files)
    name = names[0] if names else None
    errors = {"added": f"no target among the objects of {options.add}: {{}}, or use --pod or --group"}
    waiting = sum(target is not None for target in (options.pod, options.group))
    if options.pending is not None:
        waiting = len(pending_targets(loaded.state, options.pending))
    preparing = f"preparing a plan among {count(len(loaded.state.pods), 'pod')}"
    with option_errors(_ERRORS | errors), progress.working(preparing) as work:
        query = WhatIfQuery(cluster, options, choices, name, added, progress.counting_engine(work, waiting))
        if options.defragment is not None:
            answer = _defragmentation(query, options.defragment)
        elif options.victim is not None:
            answer = _threat(query)
        else:
            answer = _plan(query)
    output.report(
        answer.table,
        lambda: answer.document,
        name=answer.names,
        html=lambda: answer.page(PageOrigin(VERSION, written(datetime.now(UTC)))),
    )
    if answer.code:
        sys.exit(answer.code)


def _added(options: WhatIfOptions, files: inputs.InputFiles) -> "Addition | None":
    """Return the objects of --add, read as the files of the cluster. Raises PodiumError."""
    if options.add is None:
        return None
    from podium.answers.whatifplans import Addition  # noqa: PLC0415 - `--help` does not need numpy

    documents = list(inputs.read_another(options.add, files=files))
    return Addition(documents, options.replicas, options.maximum, files.strict)


def _plan(query: WhatIfQuery) -> WhatIfAnswer:
    """Return the plan for the preemptors. Raises PodiumError."""
    from podium.answers import whatif  # noqa: PLC0415 - `--help` does not need numpy

    options = query.options
    report = whatif(
        query.cluster,
        query.name,
        "" if query.name is None else "pod" if options.pod is not None else "group",
        pending=options.pending,
        added=query.added,
        tenant=options.tenant,
        domains=options.domains,
        note=progress.write_line,
        engine=query.engine,
        **query.choices._asdict(),
    )
    for rules in report.rules:
        progress.write_line(f"semantics {rules.semantics} ({rules.why})")
    return WhatIfAnswer(
        whatif_document(report),
        functools.partial(whatif_table, report),
        functools.partial(whatif_page, report),
        functools.partial(victim_names, report),
        _code(report, options.max_victims),
    )


def _code(report: WhatIf, max_victims: int | None) -> int:
    if report.plan.outcome is Outcome.NOT_JUDGED:
        return EXIT_NOT_JUDGED
    if report.plan.outcome not in GOOD:
        return EXIT_FINDINGS
    harm = report.plan.harm
    if max_victims is None or harm is None or harm.pods <= max_victims:
        return 0
    progress.write_line(
        f"{count(harm.pods, 'pod')} would be preempted, more than --max-victims {max_victims:,}"
    )
    return EXIT_FINDINGS


def _threat(query: WhatIfQuery) -> WhatIfAnswer:
    """Return what threatens the named victim. Raises PodiumError."""
    from podium.answers.whatifplans import threats  # noqa: PLC0415 - `--help` does not need numpy
    from podium.cli.render import threat as renderers  # noqa: PLC0415 - as above

    assert query.name is not None
    kind = query.options.kind or ""
    threat, basis = threats(
        query.cluster,
        query.name,
        kind,
        query.choices,
        added=query.added,
        note=progress.write_line,
        engine=query.engine,
    )
    progress.write_line(f"semantics {basis.semantics} ({basis.rules_why})")
    return WhatIfAnswer(
        renderers.threat_document(threat) | {"notRead": list(basis.unknown)},
        functools.partial(renderers.threat_table, threat, basis),
        functools.partial(renderers.threat_page, threat, basis),
        str,
        0,
    )


def _defragmentation(query: WhatIfQuery, label: str) -> WhatIfAnswer:
    """Return the moves that free domains of a node label. Raises PodiumError."""
    from podium.answers.whatifplans import moves  # noqa: PLC0415 - `--help` does not need numpy
    from podium.cli.render import defragment as renderers  # noqa: PLC0415 - as above

    defragmentation, basis = moves(
        query.cluster, label, query.choices, domains=query.options.domains, engine=query.engine
    )
    return WhatIfAnswer(
        renderers.defragment_document(defragmentation, basis),
        functools.partial(renderers.defragment_table, defragmentation, basis),
        functools.partial(renderers.defragment_page, defragmentation, basis),
        str,
        0 if defragmentation.movable or defragmentation.free else EXIT_FINDINGS,
    )


# `podium whatif` on a terminal: three lines, then victims, spared, nodes and findings, each list limited.


# Maximum lengths of the lists in the table; docs/whatif.md states these numbers.
WORKLOADS = 20
PLACED = 10  # Nodes with pods of the preemptor.
VICTIMS = 20
SPARED = 10
NODES = 10  # Reasons.
FINDINGS = 5

_STYLES = {Outcome.DOES_NOT_FIT: "error", Outcome.NOT_ELIGIBLE: "error", Outcome.NOT_JUDGED: "warning"}


def whatif_table(report: WhatIf, layout: Layout) -> str:
    """Return the report in the layout's width."""
    plan = report.plan
    layout.paragraph(rules_line(report.basis), style="dim")
    layout.paragraph(outcome_line(report), style=_STYLES.get(plan.outcome, "bold"))
    if most := most_line(report):
        layout.paragraph(most, style="bold")
    layout.paragraph(harm_line(report))
    layout.paragraph(plan.message)
    for caveat in caveats(report.basis):
        layout.paragraph(caveat, style="warning")
    if len(report.workloads) > 1:
        _workloads(layout, report.workloads)
    _placements(layout, plan.placements)
    if plan.topology is not None:
        _domains(layout, plan.topology)
    _units(layout, "Victims", plan.victims, VICTIMS)
    _units(layout, "Spared", plan.spared, SPARED)
    layout.listing(
        nodes_heading(plan),
        ("NODES", "REASON", "SUCH AS"),
        plan.nodes,
        lambda reason: (reason.count, reason.reason, ", ".join(reason.examples)),
        limit=NODES,
    )
    _findings(layout, plan.findings)
    return layout.text()


def _workloads(layout: Layout, workloads: Sequence[WorkloadPlan]) -> None:
    def row(plan: WorkloadPlan) -> tuple[str | int, ...]:
        placed = f"{plan.placed:,} of {plan.pods:,}"
        return str(plan), str(plan.priority), placed, victims_words(plan.harm), outcome_words(plan)

    header = ("WORKLOAD", "PRIORITY", "PODS PLACED", "PREEMPTS", "RESULT")
    title = "Workloads, in the order of their plans"
    layout.listing(title, header, workloads, row, limit=WORKLOADS, right=(1, 2))


def _placements(layout: Layout, placements: Sequence[Placed]) -> None:
    nodes: dict[str, list[str]] = {}
    for placed in placements:
        nodes.setdefault(placed.node, []).append(placed.pod)

    def row(node: str) -> tuple[str | int, ...]:
        return node, len(nodes[node]), some(nodes[node])

    layout.listing("Placement", ("NODE", "PODS", "NAMES"), list(nodes), row, limit=PLACED)
    volumes = [(placed, volume) for placed in placements for volume in placed.volumes]

    def volume_row(pair: tuple[Placed, ClaimVolumePlan]) -> tuple[str | int, ...]:
        placed, volume = pair
        return placed.pod, volume.claim, volume.volume or "(is provisioned)", placed.node

    if volumes:
        layout.listing("Volumes", ("POD", "CLAIM", "VOLUME", "NODE"), volumes, volume_row, limit=PLACED)
    devices = [
        (placed, claim.name, device)
        for placed in placements
        for claim in placed.claims
        for device in claim.results
    ]

    def device_row(row: tuple[Placed, str, DevicePlan]) -> tuple[str | int, ...]:
        placed, claim, device = row
        return placed.pod, claim, device.request, device.driver, device.pool, device.device

    if devices:
        titles = ("POD", "CLAIM", "REQUEST", "DRIVER", "POOL", "DEVICE")
        layout.listing("Devices", titles, devices, device_row, limit=PLACED)


def _domains(layout: Layout, topology: PlanTopology) -> None:
    def row(domain: DomainVerdict) -> tuple[str | int, ...]:
        return domain.name, domain.nodes, *domain_words(domain)

    header = (topology.key, "NODES", "ROOM NOW", "AT MOST", "RESULT")
    layout.listing(domains_heading(topology), header, topology.domains, row, right=(1, 2, 3))


def _units(layout: Layout, title: str, units: Sequence[UnitVerdict], limit: int) -> None:
    # Most units have no budget, and the other columns need the width.
    budget = any(unit.violatesBudget for unit in layout.first(units, limit))

    def row(unit: UnitVerdict) -> tuple[str, ...]:
        violated = ("violated" if unit.violatesBudget else "",) * budget
        return unit.kind, unit_name(unit), str(unit.priority), pods_words(unit.pods), *violated, unit.reason

    header = ("KIND", "NAME", "PRIORITY", "PODS", *("BUDGET",) * budget, "WHY")
    layout.listing(f"{title}: {count(len(units), 'unit')}", header, units, row, limit=limit, right=(2,))


def _findings(layout: Layout, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    layout.heading("Findings")
    for finding in layout.first(findings, FINDINGS):
        layout.paragraph(
            f"{finding.object} {finding.field}: {finding.message}", hang="  ", style=finding.severity
        )
        layout.paragraph(f"fix: {finding.fix}", indent="  ", hang="  ")
    layout.cut(findings, FINDINGS)
