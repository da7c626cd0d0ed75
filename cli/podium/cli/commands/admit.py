"""`podium admit`: show what the API server and Podium's rules would do to a manifest, without any write."""

import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from podium.answers import admit
from podium.answers.admission import AdmissionResult, ExistingObjects
from podium.api.findings import Severity
from podium.api.groups import NATIVE_GROUP
from podium.api.inputnotes import InputNotes
from podium.api.minors import GROUP_MINORS, named
from podium.api.podkinds.kind import JOB_GATE, JOBSET_GATE
from podium.api.reads import FOLLOWED
from podium.cli import inputs, kubeoptions, options, progress
from podium.cli.config.processoptions import policy_of
from podium.cli.live import read_live
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.data import document
from podium.cli.render.formats import name_lines
from podium.cli.render.output import Output, output_options
from podium.cli.render.text import Layout
from podium.documents.load import collector_paused
from podium.documents.sources import read_documents
from podium.minors.minor import WORKLOAD_API
from podium.rules.admission import UNKNOWN_FIELD, Operation, Profile, Verdict, has_rules
from podium.rules.context import DROPPED, GATES
from podium.stderr import say
from podium.text import count, listed, visible

if TYPE_CHECKING:
    from podium.kube.discovery import Discovery
    from podium.kube.listing import Page

MINORS = tuple(minor.name for minor in GROUP_MINORS.values())
LIVE = "live"
_GATES = (WORKLOAD_API, *GATES, JOB_GATE, JOBSET_GATE)


def _gates(text: str) -> dict[str, bool]:
    """Return feature gates as in the flag of the API server. Raises ValueError."""
    gates = {}
    for gate in filter(None, text.split(",")):
        name, _, value = gate.partition("=")
        if name not in _GATES or value not in ("true", "false"):
            known = ", ".join(_GATES)
            raise ValueError(f"{gate!r} is not GATE=true or GATE=false. Gates that change a verdict: {known}")
        gates[name] = value == "true"
    return gates


@click.command(
    epilog=examples(
        ("Check a manifest against an empty cluster", "podium admit -f group.yaml"),
        (
            "Check a manifest against the objects of a dump",
            "podium admit -f group.yaml --existing cluster.json.gz",
        ),
    )
)
@inputs.file_options
@click.option(
    "--existing",
    metavar="FILE|live",
    help="Stored objects: a dump, a folder, or `live` for the live cluster.",
)
@click.option(
    "--operation",
    type=click.Choice([str(operation) for operation in Operation], case_sensitive=False),
    metavar="[CREATE|UPDATE]",
    default="CREATE",
    show_default=True,
    help="Operation of the request.",
)
@click.option("--old", metavar="FILE", help="Stored objects before an UPDATE.")
@click.option(
    "--kubernetes",
    type=options.minor_choice(MINORS),
    help="Kubernetes minor.  [default: the cluster's, else that of v1alpha2 objects, else 1.37]",
)
@click.option(
    "--rules",
    type=click.Choice(["podium", "upstream"]),
    default="podium",
    show_default=True,
    help="Apply Podium's rules and the API server's, or the API server's only.",
)
@click.option(
    "--order",
    type=click.Choice(["kind", "input"]),
    help="Order of the requests: classes and groups first, or as in the input.  [default: kind for a folder, "
    "input for a file]",
)
@click.option(
    "--fail-on",
    type=click.Choice(["refusal", "warning", "never"]),
    default="refusal",
    show_default=True,
    help="Result that gives exit code 3.",
)
@click.option(
    "--feature-gates",
    "gates",
    type=options.Parsed("GATE=true,...", _gates),
    default="",
    help=f"Feature gates of the API server, and of JobSet's controller: {', '.join(_GATES)}.",
)
@click.option("--config", metavar="FILE", help="File with an AdmissionPolicy (rule levels, allowed classes).")
@kubeoptions.kube_options
@output_options("table", "json", "yaml", "name")
def command(
    *,
    files: inputs.InputFiles,
    existing: str | None,
    operation: str,
    old: str | None,
    kubernetes: str | None,
    rules: str,
    order: str | None,
    fail_on: str,
    gates: dict[str, bool],
    config: str | None,
    kube: kubeoptions.KubeOptions,
    output: Output,
) -> None:
    """Show for each object whether admission allows it, which fields change, and why it is refused.

    A template of a workload controller is checked as the pods that the controller creates from it.

    Exit code: 0 all objects allowed, 3 an object refused, 2 usage error, 1 the command failed. All formats
    give the same exit code.
    """
    if not files.names:
        raise click.UsageError("Missing option '-f' / '--filename'. Give a file, a folder, or - for stdin.")
    if kube.given and existing != LIVE:
        raise click.UsageError(
            "The flags of a live cluster (--kubeconfig, --context, -n, -A, -l) need --existing live."
        )
    if old is not None and operation.upper() != Operation.UPDATE:
        raise click.UsageError("--old needs --operation UPDATE.")
    inputs.stdin_once([*files.names, existing or "", old or "", config or ""])
    cluster = _cluster(existing, kube)
    for stored in inputs.read_another(old) if old is not None else ():
        if has_rules({"apiVersion": stored.apiVersion, "kind": stored.kind}):
            cluster.add_base(stored)
    notes = InputNotes()
    with progress.working("reading objects") as work:
        documents = list(inputs.tracked(work, files.names, read_documents(files, notes)))
    with options.option_errors({}), progress.working(f"admitting {count(len(documents), 'object')}"):
        admitted = admit(
            documents,
            cluster,
            operation=Operation(operation.upper()),
            kubernetes=kubernetes,
            rules=rules,
            gates=gates,
            policy=policy_of(config),
            order=order,
            strict=files.strict,
            notes=notes,
        )
    results, profile, why, skipped = admitted
    if why:
        say(f"podium: Kubernetes {profile.kubernetes} ({why})")
    inputs.say_notes(notes)
    if skipped and results:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(skipped.items()))
        say(f"podium: skipped, no rules for these kinds: {kinds}")
    if not results:
        raise inputs.nothing_read(skipped, notes, "podium admit")
    output.report(
        functools.partial(admission_table, results, profile),
        functools.partial(admission_document, results, notes),
        name=lambda: name_lines(result.ref for result in results if not result.verdict.allowed),
    )
    if any(_fails(result.verdict, fail_on) for result in results):
        sys.exit(EXIT_FINDINGS)


def _fails(verdict: Verdict, fail_on: str) -> bool:
    warned = verdict.warnings or any(finding.severity is Severity.WARNING for finding in verdict.findings)
    return fail_on != "never" and (not verdict.allowed or bool(fail_on == "warning" and warned))


class _ExistingPages:
    """Collects the existing objects of a live cluster."""

    def __init__(self, discovery: "Discovery") -> None:
        self.existing = ExistingObjects(native_served=discovery.serves(NATIVE_GROUP, "PodGroup"))

    def add_page(self, page: "Page") -> None:
        """Add objects of a live cluster."""
        self.existing.mark_listed(page.served.read.kind)
        for stored in page.documents:
            self.existing.add(stored)


def _cluster(existing: str | None, kube: kubeoptions.KubeOptions) -> ExistingObjects:
    if existing is None:
        return ExistingObjects()
    with collector_paused():
        if existing == LIVE:
            whole = kube if kube.namespace is not None else kube._replace(all_namespaces=True)
            pages, info = read_live(whole, _ExistingPages, FOLLOWED)
            return pages.existing.loaded(info.server)
        notes = InputNotes()
        with progress.working("reading stored objects") as work:
            stored = inputs.tracked(work, [existing], inputs.read_another(existing, notes))
            return ExistingObjects.of(stored, notes)


# The parts of an object that a verdict covers, and those that only a server judges.
JUDGED = ("metadata", "priority", "group", "field names", "required fields", "selectors", "restart policies")
NOT_JUDGED = ("values of other fields", "quotas", "permissions", "other webhooks")


def admission_document(results: Sequence[AdmissionResult], notes: InputNotes) -> dict[str, Any]:
    """Return the report's JSON contract."""
    return document(
        "AdmissionReport",
        results=[result.as_json() for result in results],
        skippedFiles=msgspec.to_builtins(notes.skipped),
        duplicates=msgspec.to_builtins(notes.duplicates),
        judged=list(JUDGED),
        notJudged=list(NOT_JUDGED),
    )


def admission_table(results: Sequence[AdmissionResult], profile: Profile, layout: Layout) -> str:
    """Return the report in the layout's width."""
    rows = [
        (
            visible(str(result.ref)),
            "allowed" if result.verdict.allowed else "REFUSED",
            str(result.verdict.code),
            visible(changes(result.verdict)),
        )
        for result in results
    ]
    layout.columns(("OBJECT", "VERDICT", "CODE", "CHANGES"), rows)
    refused = [result for result in results if not result.verdict.allowed]
    if refused:
        layout.heading("Refused")
    for result in refused:
        _refusal(layout, result)
    warned = [(result.ref, warning) for result in results for warning in result.verdict.warnings]
    if warned:
        layout.heading("Warnings")
    for ref, warning in warned:
        layout.paragraph(f"{ref}: {warning}", hang="  ", style="warning")
    layout.lines.append("")
    verdicts = f"{len(results) - len(refused)} allowed, {len(refused)} refused"
    judged_by = f"Kubernetes {named(profile.minor)}, rules {profile.rules}"
    layout.paragraph(f"{count(len(results), 'object')}: {verdicts}. {judged_by}.", style="bold")
    layout.paragraph(f"Judged: {listed(JUDGED)}. Not judged: {listed(NOT_JUDGED)}.")
    return layout.text()


def _refusal(layout: Layout, result: AdmissionResult) -> None:
    for line in f"{result.ref}: {result.verdict.message}".splitlines():
        layout.paragraph(line, hang="  ", style="error")
    for finding in result.verdict.findings:
        if _drops(finding.rule):
            continue
        # The verdict has the message of one finding only.
        message = "" if finding.message in result.verdict.message else f"{finding.message}. "
        text = f"{message}{finding.fix}"
        layout.paragraph(f"{finding.field}: {text}" if finding.field else text, indent="  ", hang="  ")


def _drops(rule: str) -> bool:
    return rule in (UNKNOWN_FIELD.rule.id, DROPPED.rule.id)


def changes(verdict: Verdict) -> str:
    """Return the changes of admission: fields that were set, dropped, or are unknown to the server."""
    parts = []
    written = {operation["path"]: operation["value"] for operation in verdict.patch}
    for path, value in written.items():
        if path in ("/spec", "/spec/priorityClassName") and "/spec/priority" in written:
            continue
        field = path.removeprefix("/").replace("/", ".")
        shown = value if isinstance(value, str | int) else msgspec.json.encode(value).decode()
        parts.append(f"{field}: {shown}{_class_note(verdict, path)}")
    if verdict.allowed:
        parts += [f"{finding.field} dropped" for finding in verdict.findings if _drops(finding.rule)]
    return "; ".join(parts)


def _class_note(verdict: Verdict, path: str) -> str:
    if path != "/spec/priority" or verdict.admitted is None:
        return ""
    name = verdict.admitted["spec"].get("priorityClassName")
    return f" (class {name})" if name else " (no class)"
