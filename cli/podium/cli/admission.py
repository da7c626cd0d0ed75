"""Admits objects one after another: each admitted object exists for the objects after it.

A file with a class, a group and its pods therefore gets the same result as from `kubectl create`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from podium.api.convert import VERSIONS, convert
from podium.api.findings import ObjectRef
from podium.api.inputnotes import InputNotes
from podium.api.podmakers import CLUSTER_MAKERS
from podium.api.reads import FOLLOWED, MANIFEST_READS, Kind
from podium.cli.admission_report import AdmissionResult
from podium.cluster.state import ClusterState
from podium.documents.document import Document, ReadError
from podium.documents.load import Identity, Loader, identity_of
from podium.rules import clientchecks, grouppriority, pod, podgroup
from podium.rules.admission import WRONG_TYPE, Operation, Profile, Request, Verdict, has_rules, review
from podium.rules.owners import makes_pods, review_owner

if TYPE_CHECKING:
    from podium.kube.listing import Page

NAMESPACE = ("v1", "Namespace")
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
        self._stored[identity_of(reference(document.value()))] = document

    def loaded(self, server: str = "") -> "ExistingObjects":
        """Finish loading."""
        done = self._loader.done()
        self.state, self.listed, self.server = done.state, done.listed, server or done.server
        return self

    def stored(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the stored object of the same identity, in the same version, or None."""
        found = self._stored.get(identity_of(reference(document)))
        if found is None:
            return None
        if isinstance(found, Document):
            found.read(FOLLOWED[found.apiVersion, found.kind].type)
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
            self._stored[identity_of(reference(admitted))] = admitted


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
        verdict = clientchecks.with_required_fields(verdict, value, ref, self.profile.minor)
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
    cluster_scoped = document["kind"] in ("PriorityClass", "Namespace", *CLUSTER_MAKERS)
    namespace = "" if cluster_scoped else meta.get("namespace") or "default"
    name = meta.get("name") or meta.get("generateName") or ""
    return ObjectRef(document["apiVersion"], document["kind"], str(namespace), str(name))
