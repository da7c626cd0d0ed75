"""`podium admit`: show what the API server and Podium's rules would do to a manifest, without any write."""

import functools
import sys
from collections.abc import Iterable

import click

from podium.api.findings import ObjectRef, Severity, group_of
from podium.api.foreign import JOB_GATE, JOBSET_GATE
from podium.api.groups import NATIVE_GROUP
from podium.api.inputnotes import InputNotes
from podium.api.minors import PLANNED, WORKLOAD_VERSIONS, minor_of, nearest, proven_minor
from podium.api.reads import FOLLOWED
from podium.cli import inputs, kubeoptions, options
from podium.cli.admission import NAMESPACE, Admission, ExistingObjects, reference
from podium.cli.admission_report import admission_document, admission_table
from podium.cli.config.webhookoptions import policy_of
from podium.cli.live import read_live
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.output import Output, output_options
from podium.documents.document import Document, ReadError
from podium.documents.load import Identity, collector_paused, identity_of, note_duplicate
from podium.documents.sources import read_documents
from podium.rules.admission import Operation, Profile, Verdict, has_rules
from podium.rules.clientchecks import is_removed
from podium.rules.context import GATES
from podium.rules.owners import makes_pods
from podium.stderr import say

MINORS = (*(f"1.{minor}" for minor in WORKLOAD_VERSIONS), f"1.{PLANNED}")
LIVE = "live"
# The gate of the Workload API itself.
WORKLOAD_API = "GenericWorkload"
_GATES = (WORKLOAD_API, *GATES, JOB_GATE, JOBSET_GATE)
# The kinds whose versions differ between minors.
_VERSIONED = ("PodGroup", "Workload")


def _gates(text: str) -> dict[str, bool]:
    """Return feature gates as in the flag of the API server. Raises ValueError."""
    gates = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in _GATES or value not in ("true", "false"):
            known = ", ".join(_GATES)
            raise ValueError(f"{part!r} is not GATE=true or GATE=false. Gates that change a verdict: {known}")
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
@output_options("table", "json", "yaml")
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
    policy = policy_of(config)
    cluster = _cluster(existing, kube)
    for document in inputs.read_another(old) if old is not None else ():
        if has_rules({"apiVersion": document.apiVersion, "kind": document.kind}):
            cluster.add_base(document)
    notes = InputNotes()
    documents, skipped = _chosen(read_documents(files, notes), strict=files.strict)
    profile = Profile(
        kubernetes=kubernetes or _minor(cluster, documents),
        rules=rules,
        workload_api=gates.get(WORKLOAD_API, cluster.state.native_served),
        gates=frozenset(name for name, on in gates.items() if on),
        policy=policy,
    )
    if operation.upper() == Operation.CREATE:
        # Updates of one object follow each other.
        documents = _last_of_each(documents, notes, strict=files.strict)
    inputs.say_notes(notes)
    if order == "kind" or (order is None and any(document.found for document in documents)):
        documents.sort(key=_rank)
    admission = Admission(Operation(operation.upper()), cluster, profile, _names(documents), files.strict)
    results = [result for document in documents if (result := admission.admit(document)) is not None]
    if skipped and results:
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(skipped.items()))
        say(f"podium: skipped, no rules for these kinds: {listed}")
    if not results:
        raise inputs.nothing_read(skipped, notes, "podium admit")
    output.report(
        functools.partial(admission_table, results, profile),
        functools.partial(admission_document, results, notes),
    )
    if any(_fails(result.verdict, fail_on) for result in results):
        sys.exit(EXIT_FINDINGS)


def _fails(verdict: Verdict, fail_on: str) -> bool:
    warned = verdict.warnings or any(each.severity is Severity.WARNING for each in verdict.findings)
    return fail_on != "never" and (not verdict.allowed or bool(fail_on == "warning" and warned))


def _rank(document: Document) -> int:
    """Return the place of a kind in the order of `--order kind`, which is that of Helm and kustomize."""
    first = ("Namespace", "PriorityClass", "Workload", "CompositePodGroup", "PodGroup")
    return first.index(document.kind) if document.kind in first else len(first)


def _names(documents: Iterable[Document]) -> dict[str, str]:
    """Return the places of named objects in the input by kind and name, as in Verdict.awaits."""
    named = ((_named(document), str(document.origin)) for document in documents)
    return {str(ref): place for ref, place in named if ref is not None}


def _named(document: Document) -> ObjectRef | None:
    """Return the reference of an object with a name; None if it has none, or does not decode."""
    try:
        value = document.value()
    except ReadError:
        return None
    metadata = value.get("metadata")
    return reference(value) if isinstance(metadata, dict) and metadata.get("name") else None


def _cluster(existing: str | None, kube: kubeoptions.KubeOptions) -> ExistingObjects:
    if existing is None:
        return ExistingObjects()
    with collector_paused():
        if existing == LIVE:
            whole = kube if kube.namespace is not None else kube._replace(all_namespaces=True)
            cluster, info = read_live(
                whole,
                lambda found: ExistingObjects(native_served=found.serves(NATIVE_GROUP, "PodGroup")),
                FOLLOWED,
            )
            return cluster.loaded(info.server)
        notes = InputNotes()
        cluster = ExistingObjects(notes=notes)
        for document in inputs.read_another(existing, notes):
            cluster.add(document)
        return cluster.loaded()


def _minor(cluster: ExistingObjects, documents: Iterable[Document]) -> str:
    """Return the minor for the verdicts: the server's or the nearest released one, else the input's."""
    served = minor_of(cluster.server)
    if served is not None:
        return nearest(served, WORKLOAD_VERSIONS)
    native = [
        document.apiVersion
        for document in documents
        if group_of(document.apiVersion) == NATIVE_GROUP and document.kind in _VERSIONED
    ]
    native += [
        ref.apiVersion
        for index in (cluster.state.groups, cluster.state.workloads)
        for ref in (each.ref for each in index.values())
        if ref.group == NATIVE_GROUP
    ]
    if (proven := proven_minor(native)) is None:
        return f"1.{max(WORKLOAD_VERSIONS)}"
    minor, why = proven
    say(f"podium: Kubernetes {minor} ({why})")
    return minor


def _chosen(documents: Iterable[Document], *, strict: bool) -> tuple[list[Document], dict[str, int]]:
    """Return the objects that rules apply to, and the counts of the others by kind."""
    chosen: list[Document] = []
    skipped: dict[str, int] = {}
    for document in documents:
        header = {"apiVersion": document.apiVersion, "kind": document.kind}
        known = has_rules(header) or makes_pods(header) or is_removed(header)
        if known or (document.apiVersion, document.kind) == NAMESPACE:
            chosen.append(document)
        elif document.kind.endswith("List"):
            continue  # An empty List.
        elif strict:
            raise document.error(f"no rules for {document.apiVersion} {document.kind} (--strict)")
        else:
            name = f"{document.apiVersion} {document.kind}"
            skipped[name] = skipped.get(name, 0) + 1
    return chosen, skipped


def _last_of_each(documents: Iterable[Document], notes: InputNotes, *, strict: bool) -> list[Document]:
    """Return the documents without those that a later one of the same name replaces, which are noted.

    Raises ReadError for such a document if `strict`.
    """
    last: dict[Identity | int, Document] = {}
    for number, document in enumerate(documents):
        ref = _named(document)
        before = last.pop(identity_of(ref), None) if ref is not None else None
        if ref is not None and before is not None:
            note_duplicate(ref, before.origin, document, notes, strict=strict)
        last[identity_of(ref) if ref is not None else number] = document
    return list(last.values())
