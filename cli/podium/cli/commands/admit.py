"""`podium admit`: show what the API server and Podium's rules would do to a manifest, without any write.

Objects are processed in order, and each admitted object exists for the objects after it. A file with a class,
a group and its pods therefore gets the same result as from `kubectl create -f`.
"""

import functools
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from podium.api.convert import VERSIONS, convert
from podium.api.findings import ObjectRef
from podium.api.groups import NATIVE_GROUP
from podium.api.inputnotes import InputNotes
from podium.api.minors import WORKLOAD_VERSIONS, minor_of, nearest
from podium.api.reads import MANIFEST_READS, READS, Kind
from podium.cli import inputs
from podium.cli.admission_report import AdmissionResult, admission_document, admission_table
from podium.cli.config.webhookoptions import policy_of
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.output import Output, output_options
from podium.cluster.state import ClusterState
from podium.documents.load import Identity, Loader, collector_paused, identity_of, note_duplicate
from podium.documents.sources import InputFiles, read_documents
from podium.documents.split import Document, ReadError
from podium.rules import pod, podgroup
from podium.rules.admission import WRONG_TYPE, Operation, Profile, Request, Verdict, has_rules, review
from podium.rules.owners import makes_pods, review_owner

if TYPE_CHECKING:
    from podium.kube.listing import Page

MINORS = tuple(f"1.{minor}" for minor in WORKLOAD_VERSIONS)
LIVE = "live"

# Absent objects that were not part of the input, and on which a refusal may depend.
_ABSENT = {
    pod.UNKNOWN_CLASS.rule.id: Kind.PRIORITY_CLASS,
    podgroup.UNKNOWN_CLASS.rule.id: Kind.PRIORITY_CLASS,
    podgroup.WORKLOAD_MISSING.rule.id: Kind.WORKLOAD,
}


class ExistingObjects:
    """The existing objects: the index for the rules, and the documents that updates start from."""

    def __init__(self, *, native_served: bool = True) -> None:
        self._loader = Loader(native_served=native_served)
        self._stored: dict[Identity, Document | dict[str, Any]] = {}
        self.state = ClusterState(native_served=native_served)
        self.listed: set[Kind] = set()
        self.server = ""

    def add(self, document: Document) -> None:
        """Add a stored object. Raises ReadError if it does not decode or is a duplicate."""
        self._loader.add(document)
        if has_rules({"apiVersion": document.apiVersion, "kind": document.kind}):
            self.add_base(document)

    def add_page(self, page: "Page") -> None:
        """Add objects of a live cluster."""
        self._loader.mark_listed(page.served.read.kind)
        for document in page.documents:
            self.add(document)

    def add_base(self, document: Document) -> None:
        """Add an object only as the base of an update; a later one of the same identity replaces it."""
        self._stored[identity_of(_reference(document.value()))] = document

    def loaded(self, server: str = "") -> "ExistingObjects":
        """Finish loading."""
        done = self._loader.done()
        self.state, self.listed, self.server = done.state, done.listed, server or done.server
        return self

    def stored(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the stored object of the same identity, in the same version, or None."""
        found = self._stored.get(identity_of(_reference(document)))
        if found is None:
            return None
        if isinstance(found, Document):
            found.read(READS[found.apiVersion, found.kind].type)
            found = found.value()
        wanted = document["apiVersion"]
        if found["apiVersion"] != wanted and wanted in VERSIONS and found["apiVersion"] in VERSIONS:
            found = convert(found, wanted).document
        return found

    def join(self, admitted: dict[str, Any]) -> None:
        """Store an admitted object. Raises msgspec.ValidationError if its read cannot decode it."""
        read = READS[admitted["apiVersion"], admitted["kind"]]
        value = read.neutral(msgspec.convert(admitted, read.type))
        if admitted["metadata"].get("name"):
            self.state.apply(value)
            self._stored[identity_of(_reference(admitted))] = admitted


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
    "--kubernetes", type=click.Choice(MINORS), help="Kubernetes minor.  [default: the cluster's, else 1.37]"
)
@click.option(
    "--rules",
    type=click.Choice(["podium", "upstream"]),
    default="podium",
    show_default=True,
    help="Apply Podium's rules and the API server's, or the API server's only.",
)
@click.option("--config", metavar="FILE", help="File with an AdmissionPolicy (rule levels, allowed classes).")
@inputs.kube_options
@output_options("table", "json", "yaml")
def command(
    *,
    files: inputs.InputFiles,
    existing: str | None,
    operation: str,
    old: str | None,
    kubernetes: str | None,
    rules: str,
    config: str | None,
    kube: inputs.KubeOptions,
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
    for document in read_documents(InputFiles([old])) if old is not None else ():
        if has_rules({"apiVersion": document.apiVersion, "kind": document.kind}):
            cluster.add_base(document)
    profile = Profile(
        kubernetes=kubernetes or _minor(cluster.server),
        rules=rules,
        workload_api=cluster.state.native_served,
        policy=policy,
    )
    notes = InputNotes()
    documents, skipped = _chosen(read_documents(files, notes), notes, strict=files.strict)
    inputs.say_notes(notes)
    results = [_admit(document, Operation(operation.upper()), cluster, profile) for document in documents]
    if skipped:
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(skipped.items()))
        click.echo(f"podium: skipped, no rules for these kinds: {listed}", err=True)
    output.report(
        functools.partial(admission_table, results, profile),
        functools.partial(admission_document, results, notes),
    )
    if not all(result.verdict.allowed for result in results):
        sys.exit(EXIT_FINDINGS)


def _cluster(existing: str | None, kube: inputs.KubeOptions) -> ExistingObjects:
    if existing is None:
        return ExistingObjects()
    with collector_paused():
        if existing == LIVE:
            whole = kube if kube.namespace is not None else kube._replace(all_namespaces=True)
            cluster, info = inputs.read_live(
                whole, lambda found: ExistingObjects(native_served=found.serves(NATIVE_GROUP, "PodGroup"))
            )
            return cluster.loaded(info.server)
        cluster = ExistingObjects()
        for document in read_documents(InputFiles([existing])):
            cluster.add(document)
        return cluster.loaded()


def _minor(server: str) -> str:
    """Return the minor for the verdicts: the server's, or the nearest supported one."""
    served = minor_of(server)
    return MINORS[-1] if served is None else nearest(served, WORKLOAD_VERSIONS)


def _chosen(
    documents: Iterable[Document], notes: InputNotes, *, strict: bool
) -> tuple[list[Document], dict[str, int]]:
    """Return the objects that rules apply to, the last of each identity, and the others' counts by kind."""
    chosen: dict[Identity | int, Document] = {}
    skipped: dict[str, int] = {}
    for document in documents:
        header = {"apiVersion": document.apiVersion, "kind": document.kind}
        if has_rules(header) or makes_pods(header):
            _choose(chosen, document, notes, strict=strict)
        elif document.kind.endswith("List"):
            continue  # An empty List.
        elif strict:
            raise document.error(f"no rules for {document.apiVersion} {document.kind} (--strict)")
        else:
            name = f"{document.apiVersion} {document.kind}"
            skipped[name] = skipped.get(name, 0) + 1
    return list(chosen.values()), skipped


def _choose(
    chosen: dict[Identity | int, Document], document: Document, notes: InputNotes, *, strict: bool
) -> None:
    """Add an object; it replaces an earlier one of the same name. Raises ReadError if `strict`."""
    value = document.value()
    named = value["metadata"].get("name") if isinstance(value.get("metadata"), dict) else None
    ref = _reference(value) if named else None
    before = chosen.pop(identity_of(ref), None) if ref is not None else None
    if ref is not None and before is not None:
        note_duplicate(ref, before.origin, document, notes, strict=strict)
    chosen[identity_of(ref) if ref is not None else len(chosen)] = document


def _admit(
    document: Document, operation: Operation, cluster: ExistingObjects, profile: Profile
) -> AdmissionResult:
    try:
        value = document.value()
    except ReadError:
        # Only the typed read reports the name of the field.
        document.read(MANIFEST_READS[document.apiVersion, document.kind].type)
        raise
    if not isinstance(value.get("metadata", {}), dict | None):
        document.read(MANIFEST_READS[document.apiVersion, document.kind].type)
    if makes_pods(value):
        document.read(MANIFEST_READS[document.apiVersion, document.kind].type)
        verdict = review_owner(Request(operation=operation, object=value), cluster.state, profile)
        return AdmissionResult(_reference(value), _with_absences(verdict, cluster))
    old = cluster.stored(value) if operation is Operation.UPDATE else None
    request = Request(operation=operation, object=_with_revision(value, old), old=old)
    verdict = review(request, cluster.state, profile)
    ref = _reference(value)
    if verdict.admitted is not None:
        try:
            cluster.join(verdict.admitted)
        except msgspec.ValidationError as error:
            verdict = _unreadable(ref, verdict, str(error))
    return AdmissionResult(ref, _with_absences(verdict, cluster))


def _with_revision(new: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    """Return an object with the stored resourceVersion if it has none, as `kubectl replace` does."""
    if old is None:
        return new
    given, stored = new.get("metadata") or {}, old.get("metadata") or {}
    if given.get("resourceVersion") or not stored.get("resourceVersion"):
        return new
    return {**new, "metadata": {**given, "resourceVersion": stored["resourceVersion"]}}


def _unreadable(ref: ObjectRef, verdict: Verdict, problem: str) -> Verdict:
    """Return a refusal for a field that no rule checks but every read must decode, as the server would."""
    version = ref.apiVersion.rpartition("/")[2]
    message = f'{ref.kind} in version "{version}" cannot be handled as a {ref.kind}: {problem}'
    finding = WRONG_TYPE.rule.finding(ref, "", problem, WRONG_TYPE.fix)
    return msgspec.structs.replace(
        verdict,
        allowed=False,
        code=400,
        reason="BadRequest",
        message=message,
        findings=[*verdict.findings, finding],
        admitted=None,
        patch=[],
    )


def _with_absences(verdict: Verdict, cluster: ExistingObjects) -> Verdict:
    """Return a verdict that says if a refusal depends on objects that were not part of the input."""
    state = cluster.state
    present = {Kind.PRIORITY_CLASS: bool(state.classes), Kind.WORKLOAD: bool(state.workloads)}
    missing = {_ABSENT[finding.rule] for finding in verdict.findings if finding.rule in _ABSENT}
    warnings = [
        f"no {kind} in the input. Add the stored objects with --existing"
        for kind in sorted(missing)
        if kind not in cluster.listed and not present[kind]
    ]
    return msgspec.structs.replace(verdict, warnings=verdict.warnings + warnings) if warnings else verdict


def _reference(document: Mapping[str, Any]) -> ObjectRef:
    meta = document.get("metadata") or {}
    namespace = "" if document["kind"] == "PriorityClass" else meta.get("namespace") or "default"
    name = meta.get("name") or meta.get("generateName") or ""
    return ObjectRef(document["apiVersion"], document["kind"], str(namespace), str(name))
