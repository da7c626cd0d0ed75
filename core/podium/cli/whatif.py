"""`podium whatif`: who would be preempted for a pod or group or, with --victim, what threatens one.

Nothing is written to a cluster. The scheduler's own engine makes the plan, so an answer from a dump is what
would happen in that cluster. This module only reads, chooses defaults, and shows the result.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.api.schedulable import SCHEDULING_READS
from podium.api.times import written
from podium.cli import inputs, naming, whatifinput
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.data import as_json, as_yaml
from podium.cli.render.output import deliver, layout
from podium.cli.render.text import Layout
from podium.cli.render.whatif_data import whatif_document
from podium.cli.render.whatif_page import whatif_page
from podium.cli.render.whatif_table import whatif_table
from podium.cli.render.whatif_words import Basis, Surroundings, WhatIf
from podium.cli.schedulersettings import Chosen, choose_settings, of_file
from podium.cli.whatifinput import Moment, Rules, Target
from podium.documents.load import Loaded, collector_paused
from podium.documents.split import Document
from podium.schedulerplugin.preemption.naming import Veil, plainly
from podium.schedulerplugin.preemption.outcome import Outcome, Plan, Semantics
from podium.view import Name, View
from podium.wording import count

if TYPE_CHECKING:
    from podium.ops.expand import Expansion

_GOOD = (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION)


class Question(NamedTuple):
    """The query from the flags, and its input: without files, the live cluster."""

    files: Sequence[str]
    pod: Name | None
    group: Name | None
    victim: Name | None
    kind: str | None
    semantics: str | None
    config: str | None
    tenant: str | None
    max_victims: int | None


class Answer(NamedTuple):
    """An answer in every format, of which one is written, and the exit code."""

    document: dict[str, Any]
    table: Callable[[Layout], str]
    page: Callable[[Surroundings], str]
    code: int


@click.command("whatif", short_help="Show who would be preempted for a pod or group, and why.")
@inputs.file_options
@inputs.server_options()
@click.option("--add", metavar="FILE", help="Objects to be there too: pods, groups, or what makes them.")
@click.option("--pod", metavar="[NS/]NAME", help="Plan for this pending pod.")
@click.option("--group", metavar="[NS/]NAME", help="Plan for this pending PodGroup.")
@click.option("--victim", metavar="[NS/]NAME", help="Say what would evict this running pod or PodGroup.")
@naming.within_option
@click.option("--kind", type=click.Choice(["pod", "group"]), help="What --victim is, where both exist.")
@click.option("--now", metavar="TIME", help="The time of the plan, such as 2026-01-31T12:00:00Z.")
@click.option(
    "--semantics",
    type=click.Choice([str(each) for each in Semantics]),
    help="Whose rules: the spec's, those of a kube-scheduler release, or pod by pod; else the cluster's own.",
)
@click.option("--config", metavar="FILE", help="A WhatIfConfiguration: budgets, victims, divergence.")
@click.option(
    "--max-victims", type=click.IntRange(0), metavar="N", help="Exit with 3 for more pods than this."
)
@click.option("--tenant", metavar="NS", help="Show objects of other namespaces by UID only.")
@inputs.output_options("table", "json", "yaml", "html")
def command(
    *,
    filenames: tuple[str, ...],
    strict: bool,
    kube: inputs.KubeOptions,
    add: str | None,
    pod: str | None,
    group: str | None,
    victim: str | None,
    within: str | None,
    kind: str | None,
    now: str | None,
    semantics: str | None,
    config: str | None,
    max_victims: int | None,
    tenant: str | None,
    output: str,
    output_file: str | None,
) -> None:
    """Show whether a pending pod or group would be scheduled, where, and who would be preempted for it.

    With --victim it is the other way round. The cluster is read from files (-f) or live, and never written
    to. Exit code: 0 it fits, with preemption or without, 3 it does not (or --max-victims), 2 usage, 1 the
    tool failed; the same in every format.
    """
    options = {"--pod": pod, "--group": group, "--victim": victim}
    given = {option: name for option, name in options.items() if name is not None}
    if len(given) > 1:
        raise click.UsageError("--pod, --group and --victim exclude each other.")
    if within and not given:
        raise click.UsageError("-n goes with --pod, --group or --victim.")
    if kind is not None and victim is None:
        raise click.UsageError("--kind goes with --victim.")
    inputs.stdin_once([*filenames, add or "", config or ""])
    full = naming.Naming(within, tenant, kube, live=not filenames).full
    whom = {option: full(option, name) for option, name in given.items()}
    question = Question(
        filenames,
        whom.get("--pod"),
        whom.get("--group"),
        whom.get("--victim"),
        kind,
        semantics,
        config,
        tenant,
        max_victims,
    )
    # A part of a cluster would show free room where there is none.
    kube = kube._replace(all_namespaces=not filenames)
    loaded = inputs.load(filenames, kube, strict=strict, reads=SCHEDULING_READS)
    whatifinput.check_whole(loaded)
    moment = whatifinput.moment(now, loaded.state, datetime.now(UTC), live=not filenames)
    with collector_paused(), loaded.origins.placed():
        added = _add(add, loaded, moment)
        if victim is not None:
            answer = _threat(question, loaded, moment)
        else:
            answer = _plan(question, loaded, moment, added)
    deliver(_written(answer, output, to_file=output_file is not None), output_file)
    if answer.code:
        sys.exit(answer.code)


def _plan(question: Question, loaded: Loaded, moment: Moment, added: Iterable[Target]) -> Answer:
    """Return the plan for the preemptor. Raises PodiumError."""
    from podium.schedulerplugin.engine import plan  # noqa: PLC0415 - `--help` does not need numpy

    tenant = question.tenant
    target = whatifinput.choose_target(question.pod, question.group, added, loaded.state, tenant)
    rules = _rules(question, target, loaded)
    whatifinput.check_group(target, loaded.state, rules.semantics)
    veil = Veil(loaded.state, tenant) if tenant is not None else None
    said = veil.said if veil is not None else plainly
    chosen = _settings(question, rules, target, loaded)
    made = plan(loaded.state, target, moment.at, chosen.settings, minor=rules.minor, said=said)
    report = report_of(made, target, loaded.state, _basis(question, rules, moment, loaded, chosen))
    if veil is not None:
        report = report._replace(plan=veil.plan(made))
    return Answer(
        whatif_document(report.plan),
        functools.partial(whatif_table, report),
        functools.partial(whatif_page, report),
        _code(report, question.max_victims),
    )


def report_of(made: Plan, target: Target, view: View, basis: Basis) -> WhatIf:
    """Return a plan with the preemptor's name, its cost, and the basis of the answer."""
    return WhatIf(
        plan=made,
        preemptor=whatifinput.words(target),
        held=accelerators(made, view.pods),
        basis=basis,
    )


def _code(report: WhatIf, max_victims: int | None) -> int:
    if report.plan.outcome not in _GOOD:
        return EXIT_FINDINGS
    harm = report.plan.harm
    if max_victims is None or harm is None or harm.pods <= max_victims:
        return 0
    pods = count(harm.pods, "pod")
    click.echo(f"podium: {pods} would be preempted, more than --max-victims {max_victims:,}", err=True)
    return EXIT_FINDINGS


def _threat(question: Question, loaded: Loaded, moment: Moment) -> Answer:
    """Return what threatens the named victim. Raises PodiumError."""
    from podium.cli.render import threat as faces  # noqa: PLC0415 - as above
    from podium.schedulerplugin.engine import Engine  # noqa: PLC0415 - as above
    from podium.schedulerplugin.preemption.threat import threat  # noqa: PLC0415 - as above

    assert question.victim is not None
    target = whatifinput.find_victim(question.victim, question.kind, loaded.state)
    rules = _rules(question, target, loaded)
    chosen = _settings(question, rules, target, loaded)
    engine = Engine(loaded.state, chosen.settings, rules.minor)
    found, basis = threat(engine, target, moment.at), _basis(question, rules, moment, loaded, chosen)
    return Answer(
        faces.threat_document(found),
        functools.partial(faces.threat_table, found, basis),
        functools.partial(faces.threat_page, found, basis),
        0,
    )


def _rules(question: Question, target: Target, loaded: Loaded) -> Rules:
    rules = whatifinput.choose_rules(question.semantics, target, loaded, live=not question.files)
    click.echo(f"podium: planning by the semantics {rules.semantics}: {rules.why}", err=True)
    return rules


def _basis(question: Question, rules: Rules, moment: Moment, loaded: Loaded, chosen: Chosen) -> Basis:
    return basis_of(rules, moment, inputs.source(question.files, loaded), loaded, chosen)


def basis_of(rules: Rules, moment: Moment, source: str, loaded: Loaded, chosen: Chosen) -> Basis:
    """Return the basis of an answer; `source` is the input in words."""
    return Basis(
        semantics=rules.semantics,
        rules_why=rules.why,
        now=moment.text,
        now_why=moment.why,
        input=source,
        unknown=whatifinput.not_known(loaded),
        settings=chosen.sentence,
    )


def _add(file: str | None, loaded: Loaded, moment: Moment) -> Sequence[Target]:
    """Add the objects of --add to the state, and return the groups and pods to plan for."""
    if file is None:
        return ()
    expansion = brought(inputs.read_documents([file]), loaded, moment)
    for note in expansion.notes:
        click.echo(f"podium: {note}", err=True)
    for added in expansion.objects:
        loaded.state.apply(added)
    return expansion.targets


def brought(documents: Iterable[Document], loaded: Loaded, moment: Moment) -> "Expansion":
    """Return what documents would add to the cluster, after its own admission. Raises PodiumError."""
    from podium.ops.expand import expand  # noqa: PLC0415 - few plans add objects
    from podium.rules.admission import Profile  # noqa: PLC0415 - as above

    minor, _ = whatifinput.server_minor(loaded)
    profile = Profile(kubernetes=f"1.{minor}", rules="podium", workload_api=loaded.state.native_served)
    return expand(documents, loaded.state, moment.text, profile, loaded.labels)


def _settings(question: Question, rules: Rules, target: Target, loaded: Loaded) -> Chosen:
    return choose_settings(
        rules, whatifinput.scheduler(target, loaded.state), loaded, of_file(question.config)
    )


def accelerators(plan: Plan, pods: Mapping[tuple[str, str], object]) -> dict[str, int]:
    """Return the devices of a plan's victims, by resource."""
    from podium.schedulerplugin.devices import devices  # noqa: PLC0415 - as the engine

    return devices(pods.get((unit.namespace, named.name)) for unit in plan.victims for named in unit.pods)


def _written(answer: Answer, output: str, *, to_file: bool) -> str:
    if output == "json":
        return as_json(answer.document)
    if output == "yaml":
        return as_yaml(answer.document)
    if output == "html":
        made = written(datetime.now(UTC))
        return answer.page(Surroundings(version("podium-k8s"), made))
    return answer.table(layout(to_file=to_file))
