"""`podium whatif`: the victims of a pod or group; with --victim, the preemptors that threaten it.

With --defragment it is the moves that free whole topology domains.

Nothing is written to a cluster. The scheduler's own engine makes the plan, so an answer from a dump is what
would happen in that cluster. This module only reads, chooses defaults, and shows the result.
"""

import functools
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.answers.assumptions import Choices
from podium.answers.whatifreport import GOOD, WhatIf
from podium.api.schedulable import SCHEDULING_READS
from podium.api.times import written
from podium.cli import inputs, kubeoptions, naming
from podium.cli.config.whatifoptions import WhatIfOptions, whatif_options
from podium.cli.main import EXIT_FINDINGS, EXIT_NOT_JUDGED, examples
from podium.cli.options import option_errors
from podium.cli.render.data import whatif_document
from podium.cli.render.names import victim_names
from podium.cli.render.output import Output, deliver, output_options
from podium.cli.render.text import Layout
from podium.cli.render.whatif_page import whatif_page
from podium.cli.render.whatif_table import whatif_table
from podium.cli.render.whatif_words import PageOrigin
from podium.cluster.reader import Name
from podium.documents.reading import ClusterReading, check_whole, source_words
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.stderr import say
from podium.text import count
from podium.version import VERSION

if TYPE_CHECKING:
    from podium.answers.plans import Addition

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
    settings = inputs.settings_of_file(options.config)
    choices = Choices(options.now, semantics, settings, _SET_BY.__getitem__)
    added = _added(options, files)
    query = WhatIfQuery(cluster, options, choices, names[0] if names else None, added)
    errors = {"added": f"no target among the objects of {options.add}: {{}}, or use --pod or --group"}
    with option_errors(_ERRORS | errors):
        if options.defragment is not None:
            answer = _defragmentation(query, options.defragment)
        elif options.victim is not None:
            answer = _threat(query)
        else:
            answer = _plan(query)
    if output.format == "name":
        deliver(answer.names(), output.file)
    elif output.format == "html":
        deliver(answer.page(PageOrigin(VERSION, written(datetime.now(UTC)))), output.file)
    else:
        output.report(answer.table, lambda: answer.document)
    if answer.code:
        sys.exit(answer.code)


def _added(options: WhatIfOptions, files: inputs.InputFiles) -> "Addition | None":
    """Return the objects of --add, read as the files of the cluster. Raises PodiumError."""
    if options.add is None:
        return None
    from podium.answers.plans import Addition  # noqa: PLC0415 - `--help` does not need numpy

    documents = list(inputs.read_another(options.add, files=files))
    return Addition(documents, options.replicas, options.maximum, files.strict)


def _note(line: str) -> None:
    say(f"podium: {line}")


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
        note=_note,
        **query.choices._asdict(),
    )
    for rules in report.rules:
        _note(f"semantics {rules.semantics} ({rules.why})")
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
    _note(f"{count(harm.pods, 'pod')} would be preempted, more than --max-victims {max_victims:,}")
    return EXIT_FINDINGS


def _threat(query: WhatIfQuery) -> WhatIfAnswer:
    """Return what threatens the named victim. Raises PodiumError."""
    from podium.answers.plans import threats  # noqa: PLC0415 - `--help` does not need numpy
    from podium.cli.render import threat as renderers  # noqa: PLC0415 - as above

    assert query.name is not None
    kind = query.options.kind or ""
    threat, basis = threats(query.cluster, query.name, kind, query.choices, added=query.added, note=_note)
    _note(f"semantics {basis.semantics} ({basis.rules_why})")
    return WhatIfAnswer(
        renderers.threat_document(threat) | {"notRead": list(basis.unknown)},
        functools.partial(renderers.threat_table, threat, basis),
        functools.partial(renderers.threat_page, threat, basis),
        str,
        0,
    )


def _defragmentation(query: WhatIfQuery, label: str) -> WhatIfAnswer:
    """Return the moves that free domains of a node label. Raises PodiumError."""
    from podium.answers.plans import moves  # noqa: PLC0415 - `--help` does not need numpy
    from podium.cli.render import defragment as renderers  # noqa: PLC0415 - as above

    defragmentation, basis = moves(query.cluster, label, query.choices, domains=query.options.domains)
    return WhatIfAnswer(
        renderers.defragment_document(defragmentation, basis),
        functools.partial(renderers.defragment_table, defragmentation, basis),
        functools.partial(renderers.defragment_page, defragmentation, basis),
        str,
        0 if defragmentation.movable or defragmentation.free else EXIT_FINDINGS,
    )
