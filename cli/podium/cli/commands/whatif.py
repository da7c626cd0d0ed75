"""`podium whatif`: the victims of a pod or group; with --victim, the preemptors that threaten it.

With --defragment it is the moves that free whole topology domains.

Nothing is written to a cluster. The scheduler's own engine makes the plan, so an answer from a dump is what
would happen in that cluster. This module only reads, chooses defaults, and shows the result.
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.api.core import Pod
from podium.api.devices import ResourceClaim
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.schedulable import SCHEDULING_READS
from podium.api.storage import PersistentVolumeClaim
from podium.api.times import written
from podium.cli import inputs, kubeoptions, naming, whatifinput
from podium.cli.config.schedulersettings import of_file
from podium.cli.config.whatifoptions import WhatIfOptions, whatif_options
from podium.cli.main import EXIT_FINDINGS, EXIT_NOT_JUDGED, examples
from podium.cli.render.data import whatif_document
from podium.cli.render.names import victim_names
from podium.cli.render.output import Output, deliver, output_options
from podium.cli.render.text import Layout
from podium.cli.render.whatif_page import whatif_page
from podium.cli.render.whatif_table import whatif_table
from podium.cli.render.whatif_words import GOOD, Most, PageOrigin, WhatIf
from podium.cli.whatifinput import Assumptions, PlanTime, assume
from podium.cluster.reader import Name, Target
from podium.documents.document import Document
from podium.documents.load import Loaded, collector_paused
from podium.documents.scope import Scope
from podium.errors import PodiumUsageError
from podium.groups.trees import group_at
from podium.planner.preemption.outcome import Outcome, TenantNames, full_name
from podium.stderr import say
from podium.text import count, some
from podium.version import VERSION

if TYPE_CHECKING:
    from podium.answers.expansion.expand import Expansion


class WhatIfQuery(NamedTuple):
    """The query and its input: without files, the live cluster."""

    files: inputs.InputFiles
    options: WhatIfOptions
    pod: Name | None = None
    group: Name | None = None
    victim: Name | None = None


class AddedFile(NamedTuple):
    """The targets that --add, -n, -A or -l choose, each with its object; and the answer to --max.

    `unplanned` are objects of --add without a plan, each with the reason.
    """

    targets: Mapping[Target, ObjectRef]
    most: Most | None = None
    unplanned: Mapping[ObjectRef, str] = {}


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
    names = {option: full(f"--{option}", name) for option, name in given.items() if name is not None}
    question = WhatIfQuery(files, options, **names)
    # A part of a cluster would show free room where there is none.
    kube = kube._replace(all_namespaces=not files.names)
    loaded = inputs.load(files, kube, reads=SCHEDULING_READS)
    whatifinput.check_whole(loaded)
    moment = whatifinput.moment(options.now, loaded, datetime.now(UTC), live=not files.names)
    with collector_paused(), loaded.origins.placed():
        added = _add(question, loaded, moment)
        if options.defragment is not None:
            answer = _defragmentation(question, options.defragment, loaded, moment)
        elif question.victim is not None:
            answer = _threat(question, question.victim, loaded, moment)
        else:
            answer = _plan(question, loaded, moment, added)
    if output.format == "name":
        deliver(answer.names(), output.file)
    elif output.format == "html":
        deliver(answer.page(PageOrigin(VERSION, written(datetime.now(UTC)))), output.file)
    else:
        output.report(answer.table, lambda: answer.document)
    if answer.code:
        sys.exit(answer.code)


def _plan(question: WhatIfQuery, loaded: Loaded, moment: PlanTime, added: AddedFile) -> WhatIfAnswer:
    """Return the plan for the preemptors. Raises PodiumError."""
    from podium.cli.whatifplan import PlanInput, report  # noqa: PLC0415 - `--help` does not need numpy

    state, tenant = loaded.state, question.options.tenant
    targets = whatifinput.choose_targets(question.pod, question.group, added.targets, state, tenant)
    names = TenantNames(state, tenant) if tenant is not None else None
    assumed_of = whatifinput.by_scheduler(state, functools.partial(_assumed, question, loaded, moment))
    namer = names.name if names is not None else full_name
    given = PlanInput(state, moment.at, assumed_of, namer=namer, domains=question.options.domains)
    source = inputs.source(question.files, loaded)
    unplanned = {} if question.pod or question.group else added.unplanned
    made = report(given, targets, added.targets, lambda assumed: assumed.basis(source), unplanned)
    made = made._replace(most=added.most)
    if names is not None:
        made = made._replace(plan=names.redact_plan(made.plan))
    return WhatIfAnswer(
        whatif_document(made),
        functools.partial(whatif_table, made),
        functools.partial(whatif_page, made),
        functools.partial(victim_names, made),
        _code(made, question.options.max_victims),
    )


def _code(report: WhatIf, max_victims: int | None) -> int:
    if report.plan.outcome is Outcome.NOT_JUDGED:
        return EXIT_NOT_JUDGED
    if report.plan.outcome not in GOOD:
        return EXIT_FINDINGS
    harm = report.plan.harm
    if max_victims is None or harm is None or harm.pods <= max_victims:
        return 0
    pods = count(harm.pods, "pod")
    say(f"podium: {pods} would be preempted, more than --max-victims {max_victims:,}")
    return EXIT_FINDINGS


def _threat(question: WhatIfQuery, victim: Name, loaded: Loaded, moment: PlanTime) -> WhatIfAnswer:
    """Return what threatens the named victim. Raises PodiumError."""
    from podium.cli.render import threat as faces  # noqa: PLC0415 - as above
    from podium.planner.engine import Engine  # noqa: PLC0415 - as above
    from podium.planner.threat import threat  # noqa: PLC0415 - as above

    target = whatifinput.find_victim(victim, question.options.kind, loaded.state)
    assumed = _assumed(question, loaded, moment, target)
    engine = Engine(loaded.state, assumed.chosen.settings, assumed.rules.minor)
    found = threat(engine, target, moment.at)
    basis = assumed.basis(inputs.source(question.files, loaded))
    return WhatIfAnswer(
        faces.threat_document(found) | {"notRead": list(basis.unknown)},
        functools.partial(faces.threat_table, found, basis),
        functools.partial(faces.threat_page, found, basis),
        str,
        0,
    )


def _defragmentation(question: WhatIfQuery, key: str, loaded: Loaded, moment: PlanTime) -> WhatIfAnswer:
    """Return the moves that free domains of a node label. Raises PodiumError."""
    from podium.cli.render import defragment as faces  # noqa: PLC0415 - as above
    from podium.planner.engine import Engine  # noqa: PLC0415 - as above

    assumed = whatifinput.assume_moves(loaded, moment, of_file(question.options.config))
    engine = Engine(loaded.state, assumed.chosen.settings, assumed.rules.minor)
    found = engine.defragment(key, moment.at, question.options.domains)
    basis = assumed.basis(inputs.source(question.files, loaded))
    return WhatIfAnswer(
        faces.defragment_document(found, basis),
        functools.partial(faces.defragment_table, found, basis),
        functools.partial(faces.defragment_page, found, basis),
        str,
        0 if found.movable or found.free else EXIT_FINDINGS,
    )


def _assumed(question: WhatIfQuery, loaded: Loaded, moment: PlanTime, target: Target) -> Assumptions:
    """Return the assumptions for a target, after printing its semantics."""
    assumed = _assumptions(question, loaded, moment, target)
    say(f"podium: semantics {assumed.rules.semantics} ({assumed.rules.why})")
    return assumed


def _assumptions(question: WhatIfQuery, loaded: Loaded, moment: PlanTime, target: Target) -> Assumptions:
    semantics, given = question.options.semantics, of_file(question.options.config)
    live = not question.files.names
    return assume(target, loaded, moment, given, live=live, semantics=semantics)


def _add(question: WhatIfQuery, loaded: Loaded, moment: PlanTime) -> AddedFile:
    """Return the pending targets that -n, -A and -l choose, or add those of --add. Raises PodiumError."""
    from podium.answers.expansion.scaling import scaled  # noqa: PLC0415 - few plans add objects

    options = question.options
    if options.pending is not None:
        return AddedFile(_chosen(loaded, options.pending))
    if options.add is None:
        return AddedFile({})
    documents = list(inputs.read_another(options.add, files=question.files))
    most = _most(question, documents, loaded, moment) if options.maximum else None
    replicas = options.replicas if most is None else max(1, most.with_preemption)
    if replicas is not None:
        documents = scaled(documents, replicas)
    expansion = whatifinput.expanded(documents, loaded, moment, strict=question.files.strict)
    for note in expansion.notes:
        say(f"podium: {note}")
    if not (expansion.targets or question.pod or question.group or question.victim):
        problem = "none is or creates a pending pod or group. Add a workload, or use --pod or --group"
        raise PodiumUsageError(f"no target among the objects of {options.add}: {problem}")
    expansion.apply(loaded.state)
    return AddedFile(expansion.targets, most, expansion.unplanned)


def _chosen(loaded: Loaded, scope: Scope) -> Mapping[Target, ObjectRef]:
    """Return the pending preemptors in a scope; stderr names the groups that do not exist.

    Raises PodiumUsageError if there are none.
    """
    targets = whatifinput.pending_targets(loaded.state, scope)
    absent = [each for each in targets if isinstance(each, GroupKey) and group_at(loaded.state, each) is None]
    if absent:
        names = some("/".join(each.qualified) for each in absent)
        say(f"podium: left out, because these groups are not in the input: {names}")
    if len(absent) == len(targets):
        part = f" ({scope.partial})" if scope.partial else ""
        raise PodiumUsageError(f"no target: no pod or group is pending{part}")
    return {each: source for each, source in targets.items() if each not in absent}


def _most(question: WhatIfQuery, documents: Sequence[Document], loaded: Loaded, moment: PlanTime) -> Most:
    """Return how many replicas of the workload of --add fit. Raises PodiumError."""
    from podium.answers.expansion.createdclaims import MOST_CLAIMS  # noqa: PLC0415 - few plans add objects
    from podium.answers.expansion.makers import MOST_PODS  # noqa: PLC0415 - as above
    from podium.answers.expansion.scaling import scaled  # noqa: PLC0415 - as above
    from podium.cli.whatifplan import PlanInput, most  # noqa: PLC0415 - `--help` does not need numpy

    def expand(replicas: int) -> "Expansion":
        return whatifinput.expanded(scaled(documents, replicas), loaded, moment)

    objects = expand(1).objects
    pods = sum(isinstance(each, Pod) for each in objects)
    claims = sum(isinstance(each, PersistentVolumeClaim | ResourceClaim) for each in objects)
    limit = min(MOST_PODS // max(pods, 1), MOST_CLAIMS // max(claims, 1))
    loaded = loaded._replace(state=loaded.state.copy())
    assumed_of = whatifinput.by_scheduler(
        loaded.state, functools.partial(_assumptions, question, loaded, moment)
    )
    return most(PlanInput(loaded.state, moment.at, assumed_of), expand, limit)
