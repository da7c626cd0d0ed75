"""Admits objects one after another: each admitted object exists for the objects after it.

A file with a class, a group and its pods therefore gets the same result as from `kubectl create`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from podium.api.convert import VERSIONS, convert
from podium.api.findings import Finding, ObjectRef, group_of
from podium.api.groups import NATIVE_GROUP
from podium.api.inputnotes import InputNotes
from podium.api.minors import WORKLOAD_VERSIONS, group_minor, minor_of, named, proven_minor
from podium.api.podkinds.kind import JOBSET_GATE, is_left_alone
from podium.api.podkinds.table import CLUSTER_SCOPED_OWNERS, OWNER_KINDS
from podium.api.reads import FOLLOWED, MANIFEST_READS, Kind
from podium.cluster.reader import ClusterReader
from podium.cluster.state import ClusterState
from podium.documents.document import Document, ReadError
from podium.documents.load import Identity, Loader, identity_of, note_duplicate
from podium.errors import QuestionError
from podium.minors.minor import WORKLOAD_API
from podium.rules import clientchecks, grouppriority, names, pod, podgroup
from podium.rules.admission import WRONG_TYPE, Operation, Profile, Request, Verdict, has_rules, review
from podium.rules.lastwave import last_waves_of
from podium.rules.policy import Policy
from podium.text import listed

NAMESPACE = ("v1", "Namespace")
# The kinds whose versions differ between minors.
_VERSIONED = ("PodGroup", "Workload")
_UNDECODED = 400

# Absent objects that were not part of the input, and on which a refusal may depend.
_ABSENT = {
    pod.UNKNOWN_CLASS.rule.id: Kind.PRIORITY_CLASS,
    grouppriority.UNKNOWN_CLASS.rule.id: Kind.PRIORITY_CLASS,
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

    @classmethod
    def of(cls, documents: Iterable[Document], notes: InputNotes | None = None) -> "ExistingObjects":
        """Return stored objects as existing; `notes` receives those that are replaced. Raises ReadError."""
        existing = cls(notes=notes)
        for document in documents:
            existing.add(document)
        return existing.loaded()

    def add(self, document: Document) -> None:
        """Add a stored object; the last of several with one name counts. Raises ReadError."""
        self._loader.add(document)
        if has_rules({"apiVersion": document.apiVersion, "kind": document.kind}):
            self.add_base(document)

    def mark_listed(self, kind: Kind) -> None:
        """Record that all objects of a kind were listed, however many there are."""
        self._loader.mark_listed(kind)

    def add_base(self, document: Document) -> None:
        """Add an object only as the base of an update; a later one of the same identity replaces it."""
        self._stored[identity_of(reference(document.value()))] = document

    def loaded(self, server: str = "") -> "ExistingObjects":
        """Finish loading."""
        done = self._loader.done()
        self.state, self.listed, self.server = done.state, done.listed, server or done.server
        return self

    def stored(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the stored object of the same identity, in the same version, or None."""
        existing = self._stored.get(identity_of(reference(document)))
        if existing is None:
            return None
        if isinstance(existing, Document):
            read = FOLLOWED.get((existing.apiVersion, existing.kind))
            if read is not None:
                existing.read(read.type)
            existing = existing.value()
        version = document["apiVersion"]
        if existing["apiVersion"] != version and version in VERSIONS and existing["apiVersion"] in VERSIONS:
            existing = convert(existing, version).document
        return existing

    def holds(self, ref: ObjectRef) -> bool:
        """Return whether an owner of pods exists, in whatever version."""
        return any(identity_of(owner) == identity_of(ref) for owner in self.state.owners)

    def join(self, admitted: dict[str, Any]) -> None:
        """Store an admitted object. Raises msgspec.ValidationError if its read cannot decode it."""
        read = FOLLOWED[admitted["apiVersion"], admitted["kind"]]
        value = read.neutral(msgspec.convert(admitted, read.type))
        if admitted["metadata"].get("name"):
            self.state.apply(value)
            self._stored[identity_of(reference(admitted))] = admitted


class AdmissionResult(NamedTuple):
    """An object and its verdict."""

    ref: ObjectRef
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """Return the result in the form of the report's contract."""
        verdict = self.verdict
        return {
            "object": msgspec.to_builtins(self.ref),
            "allowed": verdict.allowed,
            "code": verdict.code,
            "reason": verdict.reason,
            "message": verdict.message,
            "warnings": verdict.warnings,
            "findings": [finding.as_json() for finding in verdict.findings],
            "admitted": verdict.admitted,
        }


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
        ref = reference(value)
        self.places.pop(str(ref), None)
        if (document.apiVersion, document.kind) == NAMESPACE:
            self.cluster.join(value)
            return None
        if clientchecks.is_removed(value):
            return AdmissionResult(ref, clientchecks.removed(ref))
        verdict = self._judged(value, ref)
        verdict = clientchecks.with_unknown_fields(verdict, value, ref, self.profile.minor)
        verdict = clientchecks.with_required_fields(verdict, value, ref, self.profile, self.operation)
        if self.strict:
            verdict = clientchecks.strict(verdict, ref)
        # Decoding comes before the namespace.
        if verdict.code != _UNDECODED and self._in_absent_namespace(ref):
            verdict = clientchecks.absent_namespace(verdict, ref)
        joins = (document.apiVersion, document.kind) in FOLLOWED and not makes_pods(value)
        if verdict.admitted is not None and joins:
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


class Admitted(NamedTuple):
    """The results of a sequence of requests, in their order, and what they were judged by.

    `minor_why` says how the minor was found if the input decided. `skipped` counts the objects without rules,
    by `apiVersion kind`.
    """

    results: list[AdmissionResult]
    profile: Profile
    minor_why: str
    skipped: dict[str, int]


def admit(
    objects: Iterable[Document],
    existing: ExistingObjects | None = None,
    *,
    operation: Operation = Operation.CREATE,
    kubernetes: str | None = None,
    rules: str = "podium",
    gates: Mapping[str, bool] | None = None,
    policy: Policy | None = None,
    order: str | None = None,
    strict: bool = False,
    notes: InputNotes | None = None,
) -> Admitted:
    """Return for each object whether admission allows it, which fields change, and why it is refused.

    `objects` are those of `read_objects`, and `operation` is a create or an update. Each admitted object
    joins the `existing` ones, so the next requests see it. `kubernetes` is a minor such as `1.37`; without it
    the server of the existing objects decides, else the input. `rules` are those of `podium`, or of
    `upstream` alone. `gates` are feature gates of the API server, and `policy` has the levels of rules. In
    the `order` `kind` classes and groups come first, in the order `input` nothing moves; without an order the
    objects of a folder are ordered by kind. `strict` refuses unknown fields, kinds without rules and
    duplicates. `notes` receives the objects that a later one replaces.

    docs/admission-rules.md has the source of each rule. Raises ReadError for an object that does not decode,
    and QuestionError for a gate that the minor lacks.
    """
    cluster = ExistingObjects() if existing is None else existing
    gates = {} if gates is None else gates
    notes = InputNotes() if notes is None else notes
    documents, skipped = _with_rules(objects, strict=strict)
    minor, why = _minor(cluster, documents) if kubernetes is None else (kubernetes, "")
    profile = Profile(
        kubernetes=minor,
        rules=rules,
        workload_api=gates.get(WORKLOAD_API, cluster.state.native_served),
        gates=_enabled(minor, gates),
        policy=Policy() if policy is None else policy,
    )
    if operation is Operation.CREATE:
        # Updates of one object follow each other.
        documents = _last_of_each(documents, notes, strict=strict)
    if order == "kind" or (order is None and any(document.found for document in documents)):
        documents.sort(key=_rank)
    admission = Admission(operation, cluster, profile, _places(documents), strict)
    results = [result for document in documents if (result := admission.admit(document)) is not None]
    return Admitted(results, profile, why, skipped)


def _enabled(kubernetes: str, gates: Mapping[str, bool]) -> frozenset[str]:
    """Return the gates that are on. Raises QuestionError for one with which the API server does not start."""
    number = minor_of(kubernetes)
    assert number is not None
    minor = group_minor(number)
    unknown = sorted(gates.keys() - minor.gates.keys() - {JOBSET_GATE})
    if unknown:
        names = listed(unknown)
        text = f"Kubernetes {named(number)} does not know {names}: kube-apiserver does not start with it"
        raise QuestionError("feature-gates", text)
    return minor.enabled(gates)


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


def reference(document: Mapping[str, Any]) -> ObjectRef:
    """Return the identity of an object; one without a name has its generateName."""
    meta = document.get("metadata") or {}
    cluster_scoped = document["kind"] in ("PriorityClass", "Namespace", *CLUSTER_SCOPED_OWNERS)
    namespace = "" if cluster_scoped else meta.get("namespace") or "default"
    name = meta.get("name") or meta.get("generateName") or ""
    return ObjectRef(document["apiVersion"], document["kind"], str(namespace), str(name))


def _minor(cluster: ExistingObjects, documents: Iterable[Document]) -> tuple[str, str]:
    """Return the minor for the verdicts: the server's or the nearest known one, else the input's.

    If the input decides, it comes with the reason.
    """
    served = minor_of(cluster.server)
    if served is not None:
        return group_minor(served).name, ""
    native = [
        document.apiVersion
        for document in documents
        if group_of(document.apiVersion) == NATIVE_GROUP and document.kind in _VERSIONED
    ]
    native += [
        ref.apiVersion
        for index in (cluster.state.groups, cluster.state.workloads)
        for ref in (stored.ref for stored in index.values())
        if ref.group == NATIVE_GROUP
    ]
    return proven_minor(native) or (f"1.{max(WORKLOAD_VERSIONS)}", "")


def _with_rules(documents: Iterable[Document], *, strict: bool) -> tuple[list[Document], dict[str, int]]:
    """Return the objects that rules apply to, and the counts of the others by kind."""
    chosen: list[Document] = []
    skipped: dict[str, int] = {}
    for document in documents:
        header = {"apiVersion": document.apiVersion, "kind": document.kind}
        known = has_rules(header) or makes_pods(header) or clientchecks.is_removed(header)
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
        ref = _reference(document)
        before = last.pop(identity_of(ref), None) if ref is not None else None
        if ref is not None and before is not None:
            note_duplicate(ref, before.origin, document, notes, strict=strict)
        last[identity_of(ref) if ref is not None else number] = document
    return list(last.values())


def _rank(document: Document) -> int:
    """Return the place of a kind in the order of `--order kind`, which is that of Helm and kustomize."""
    first = ("Namespace", "PriorityClass", "Workload", "CompositePodGroup", "PodGroup")
    return first.index(document.kind) if document.kind in first else len(first)


def _places(documents: Iterable[Document]) -> dict[str, str]:
    """Return the places of named objects in the input by kind and name, as in Verdict.awaits."""
    named = ((_reference(document), str(document.origin)) for document in documents)
    return {str(ref): place for ref, place in named if ref is not None}


def _reference(document: Document) -> ObjectRef | None:
    """Return the reference of an object with a name; None if it has none, or does not decode."""
    try:
        value = document.value()
    except ReadError:
        return None
    metadata = value.get("metadata")
    return reference(value) if isinstance(metadata, dict) and metadata.get("name") else None


# Owners are admitted as the pods that they would create, because the fix belongs in their template. The API
# server accepts a Deployment with any class in its template; the refusal comes later, in an event of a
# controller. Field paths lead into the template.


def makes_pods(document: Mapping[str, Any]) -> bool:
    """Return whether `review_owner` knows the pod templates of this kind."""
    return (document.get("apiVersion"), document.get("kind")) in OWNER_KINDS


def review_owner(request: Request, view: ClusterReader, profile: Profile) -> Verdict:
    """Return the verdict on the pods that an owner would create; `admitted` is the owner as sent.

    The owner must decode by its read, otherwise msgspec.ValidationError is raised. Warnings and findings are
    those of all templates, code and message those of the first refused template.
    """
    document = request.object
    meta = {**document.get("metadata", {})}
    meta.setdefault("namespace", "default")
    name = meta.get("name") or meta.get("generateName") or ""
    namespace = "" if document["kind"] in CLUSTER_SCOPED_OWNERS else meta["namespace"]
    ref = ObjectRef(document["apiVersion"], document["kind"], namespace, name)
    owner = msgspec.convert(document, OWNER_KINDS[document["apiVersion"], document["kind"]].type)
    neutral = msgspec.structs.replace(owner.neutral(), ref=ref)
    warnings: list[str] = []
    findings: list[Finding] = []
    awaits: list[str] = []
    refusal: Verdict | None = None
    minor = group_minor(profile.minor)
    for path, scheduling in neutral.job_scheduling.items():
        gate = scheduling.gate
        if gate in profile.gates and minor.job_scheduling:
            if is_left_alone(path, scheduling, minor):
                text = f"Kubernetes {named(profile.minor)} creates no group for a Job with an owner"
                warnings.append(f"{path}: {text}; the pods then have no group")
            continue
        if gate == JOBSET_GATE:
            warnings.append(f"{path}: JobSet drops or refuses it unless its gate {gate} is on")
            continue
        when = f" unless the gate {gate} is on" if minor.job_scheduling else ""
        warnings.append(
            f"{path}: Kubernetes {named(profile.minor)} drops it{when}; the pods then have no group"
        )
    if profile.rules == "podium":
        last_waves = last_waves_of(neutral, view, profile.minor)
        warnings += [f"{finding.field}: {finding.message}" for finding in last_waves]
    for path, template in owner.template_documents(document).items():
        pod = _pod(template, meta["namespace"], name)
        verdict = review(Request(operation=Operation.CREATE, object=pod), view, profile)
        warnings += [_placed_warning(warning, path) for warning in verdict.warnings]
        findings += [
            msgspec.structs.replace(
                finding, object=ref, field=_placed(finding.field, path, neutral.spec_path(path))
            )
            for finding in verdict.findings
        ]
        awaits += verdict.awaits
        if not verdict.allowed:
            refusal = refusal or verdict
    return Verdict(
        allowed=refusal is None,
        code=refusal.code if refusal is not None else 200 if request.operation is Operation.UPDATE else 201,
        reason=refusal.reason if refusal is not None else "",
        message=refusal.message if refusal is not None else "",
        warnings=warnings,
        findings=findings,
        admitted={**document, "metadata": meta} if refusal is None else None,
        patch=[],
        awaits=tuple(dict.fromkeys(awaits)),
    )


def _pod(template: Mapping[str, Any], namespace: str, owner: str) -> dict[str, Any]:
    """Return the pod that a controller would send; its name begins with the owner's."""
    given = template.get("metadata") or {}
    meta = {key: given[key] for key in ("labels", "annotations", "finalizers") if key in given}
    # An error in the owner's name is one of the owner.
    named = owner if owner and not names.object_name(owner) else "pod"
    meta |= {"generateName": f"{named}-", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template.get("spec")}


def _placed(field: str, path: str, spec_path: str) -> str:
    if field.startswith("spec."):
        return f"{spec_path}.{field.removeprefix('spec.')}"
    return f"{path}.{field}" if field else path


def _placed_warning(warning: str, path: str) -> str:
    unknown = 'unknown field "'
    if warning.startswith(unknown):
        return f"{unknown}{path}.{warning.removeprefix(unknown)}"
    return f"{path}.{warning}"
