"""`podium admit`: show what the API server and Podium's rules would do to a manifest, without any write.

Objects are processed in order, and each admitted object exists for the objects after it. A file with a class,
a group and its pods therefore gets the same result as from `kubectl create -f`.
"""

import functools
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from podium.api.convert import VERSIONS, convert
from podium.api.findings import ObjectRef, Severity
from podium.api.groups import NATIVE_GROUP
from podium.api.inputnotes import InputNotes
from podium.api.minors import WORKLOAD_VERSIONS, minor_of, nearest
from podium.api.reads import FOLLOWED, MANIFEST_READS, READS, Kind
from podium.cli import inputs
from podium.cli.admission_report import AdmissionResult, admission_document, admission_table
from podium.cli.config.webhookoptions import policy_of
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.output import Output, output_options
from podium.cluster.state import ClusterState
from podium.documents.load import Identity, Loader, collector_paused, identity_of, note_duplicate
from podium.documents.sources import read_documents
from podium.documents.split import Document, ReadError
from podium.rules import clientchecks, pod, podgroup
from podium.rules.admission import WRONG_TYPE, Operation, Profile, Request, Verdict, has_rules, review
from podium.rules.context import GATES
from podium.rules.owners import makes_pods, review_owner

if TYPE_CHECKING:
    from podium.kube.listing import Page

MINORS = tuple(f"1.{minor}" for minor in WORKLOAD_VERSIONS)
LIVE = "live"
# The gate of the Workload API itself.
WORKLOAD_API = "GenericWorkload"
_NAMESPACE = ("v1", "Namespace")
_UNDECODED = 400

# Absent objects that were not part of the input, and on which a refusal may depend.
_ABSENT = {
    pod.UNKNOWN_CLASS.rule.id: Kind.PRIORITY_CLASS,
    podgroup.UNKNOWN_CLASS.rule.id: Kind.PRIORITY_CLASS,
    podgroup.WORKLOAD_MISSING.rule.id: Kind.WORKLOAD,
}


class ExistingObjects:
    """The existing objects: the index for the rules, and the documents that updates start from."""

    def __init__(self, *, native_served: bool = True, notes: InputNotes | None = None) -> None:
        self._loader = Loader(native_served=native_served, reads=FOLLOWED, notes=notes)
        self._stored: dict[Identity, Document | dict[str, Any]] = {}
        self.state = ClusterState(native_served=native_served)
        self.listed: set[Kind] = set()
        self.server = ""

    def add(self, document: Document) -> None:
        """Add a stored object; the last of several with one name counts. Raises ReadError."""
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

    def holds(self, ref: ObjectRef) -> bool:
        """Return whether an owner of pods exists, in whatever version."""
        return any(identity_of(each) == identity_of(ref) for each in self.state.owners)

    def join(self, admitted: dict[str, Any]) -> None:
        """Store an admitted object. Raises msgspec.ValidationError if its read cannot decode it."""
        read = FOLLOWED[admitted["apiVersion"], admitted["kind"]]
        value = read.neutral(msgspec.convert(admitted, read.type))
        if admitted["metadata"].get("name"):
            self.state.apply(value)
            self._stored[identity_of(_reference(admitted))] = admitted


def _gates(text: str) -> dict[str, bool]:
    """Return feature gates as in the flag of the API server. Raises ValueError."""
    gates = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in (WORKLOAD_API, *GATES) or value not in ("true", "false"):
            known = ", ".join((WORKLOAD_API, *GATES))
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
    type=inputs.minor_choice(MINORS),
    help="Kubernetes minor.  [default: the cluster's, else 1.37]",
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
    type=inputs.Parsed("GATE=true,...", _gates),
    default="",
    help=f"Feature gates of the API server: {', '.join((WORKLOAD_API, *GATES))}.",
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
    order: str | None,
    fail_on: str,
    gates: dict[str, bool],
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
    for document in inputs.read_another(old) if old is not None else ():
        if has_rules({"apiVersion": document.apiVersion, "kind": document.kind}):
            cluster.add_base(document)
    profile = Profile(
        kubernetes=kubernetes or _minor(cluster.server),
        rules=rules,
        workload_api=gates.get(WORKLOAD_API, cluster.state.native_served),
        gates=frozenset(name for name, on in gates.items() if on),
        policy=policy,
    )
    notes = InputNotes()
    documents, skipped = _chosen(read_documents(files, notes), strict=files.strict)
    if operation.upper() == Operation.CREATE:
        # Updates of one object follow each other.
        documents = _last_of_each(documents, notes, strict=files.strict)
    inputs.say_notes(notes)
    if order == "kind" or (order is None and any(document.found for document in documents)):
        documents.sort(key=_rank)
    admission = Admission(Operation(operation.upper()), cluster, profile, _names(documents), files.strict)
    results = [result for document in documents if (result := admission.admit(document)) is not None]
    if skipped:
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(skipped.items()))
        click.echo(f"podium: skipped, no rules for these kinds: {listed}", err=True)
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
    first = ("Namespace", "PriorityClass", "Workload", "PodGroup")
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
    return _reference(value) if isinstance(metadata, dict) and metadata.get("name") else None


def _cluster(existing: str | None, kube: inputs.KubeOptions) -> ExistingObjects:
    if existing is None:
        return ExistingObjects()
    with collector_paused():
        if existing == LIVE:
            whole = kube if kube.namespace is not None else kube._replace(all_namespaces=True)
            cluster, info = inputs.read_live(
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


def _minor(server: str) -> str:
    """Return the minor for the verdicts: the server's, or the nearest supported one."""
    served = minor_of(server)
    return MINORS[-1] if served is None else nearest(served, WORKLOAD_VERSIONS)


def _chosen(documents: Iterable[Document], *, strict: bool) -> tuple[list[Document], dict[str, int]]:
    """Return the objects that rules apply to, and the counts of the others by kind."""
    chosen: list[Document] = []
    skipped: dict[str, int] = {}
    for document in documents:
        header = {"apiVersion": document.apiVersion, "kind": document.kind}
        if has_rules(header) or makes_pods(header) or (document.apiVersion, document.kind) == _NAMESPACE:
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


_BLANK = Verdict(
    allowed=False, code=400, reason="", message="", warnings=[], findings=[], admitted=None, patch=[]
)


class Admission(NamedTuple):
    """A sequence of requests against one cluster.

    `places` are those of the objects that come later, by kind and name, and `strict` refuses unknown fields.
    """

    operation: Operation
    cluster: ExistingObjects
    profile: Profile
    places: dict[str, str]
    strict: bool

    def admit(self, document: Document) -> AdmissionResult | None:
        """Return the result of one request, or None for a Namespace. Raises ReadError.

        The object of an admitted request exists for the next ones.
        """
        try:
            value = _decoded(document)
        except ReadError as error:
            if not document.found:
                raise
            ref = ObjectRef(document.apiVersion, document.kind, "", str(document.origin))
            return AdmissionResult(ref, _unreadable(ref, _BLANK, str(error)))
        ref = _reference(value)
        self.places.pop(str(ref), None)
        if (document.apiVersion, document.kind) == _NAMESPACE:
            self.cluster.join(value)
            return None
        verdict = self._judged(value, ref)
        verdict = clientchecks.with_pod_fields(verdict, value, ref, self.profile.minor)
        if self.strict:
            verdict = clientchecks.strict(verdict, ref)
        # Decoding comes before the namespace.
        if verdict.code != _UNDECODED and self._in_absent_namespace(ref):
            verdict = clientchecks.absent_namespace(verdict, ref)
        if verdict.admitted is not None and not makes_pods(value):
            try:
                self.cluster.join(verdict.admitted)
            except msgspec.ValidationError as error:
                verdict = _unreadable(ref, verdict, str(error))
        return AdmissionResult(ref, self._with_absences(verdict))

    def _judged(self, value: dict[str, Any], ref: ObjectRef) -> Verdict:
        create = self.operation is Operation.CREATE
        if makes_pods(value):
            verdict = review_owner(
                Request(operation=self.operation, object=value), self.cluster.state, self.profile
            )
            if create and verdict.allowed and self.cluster.holds(ref):
                verdict = clientchecks.taken(verdict, ref)
            return verdict
        old = None if create else self.cluster.stored(value)
        request = Request(operation=self.operation, object=_with_revision(value, old), old=old)
        return review(request, self.cluster.state, self.profile)

    def _in_absent_namespace(self, ref: ObjectRef) -> bool:
        known = self.cluster.state.namespaces
        return bool(ref.namespace) and Kind.NAMESPACE in self.cluster.listed and ref.namespace not in known

    def _with_absences(self, verdict: Verdict) -> Verdict:
        """Return a verdict that says if a refusal depends on objects that come later, or are not given."""
        state = self.cluster.state
        warnings = [
            f"{name} comes later in the input ({self.places[name]}). Use --order kind"
            for name in verdict.awaits
            if name in self.places
        ]
        present = {Kind.PRIORITY_CLASS: bool(state.classes), Kind.WORKLOAD: bool(state.workloads)}
        missing = {_ABSENT[finding.rule] for finding in verdict.findings if finding.rule in _ABSENT}
        for kind in sorted(missing):
            later = any(name.partition(" ")[0] == kind for name in self.places)
            if kind not in self.cluster.listed and not present[kind] and not later:
                warnings.append(f"no {kind} in the input. Add the stored objects with --existing")
        return msgspec.structs.replace(verdict, warnings=verdict.warnings + warnings)


def _decoded(document: Document) -> dict[str, Any]:
    """Return an object that its typed read decodes as far as rules need. Raises ReadError."""
    read = MANIFEST_READS.get((document.apiVersion, document.kind))
    try:
        value = document.value()
    except ReadError:
        # Only the typed read reports the name of the field.
        if read is not None:
            document.read(read.type)
        raise
    if read is not None and (not isinstance(value.get("metadata", {}), dict | None) or makes_pods(value)):
        document.read(read.type)
    return value


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


def _reference(document: Mapping[str, Any]) -> ObjectRef:
    meta = document.get("metadata") or {}
    cluster_scoped = document["kind"] in ("PriorityClass", "Namespace")
    namespace = "" if cluster_scoped else meta.get("namespace") or "default"
    name = meta.get("name") or meta.get("generateName") or ""
    return ObjectRef(document["apiVersion"], document["kind"], str(namespace), str(name))
