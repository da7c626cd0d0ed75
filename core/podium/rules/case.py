"""One request being judged: what was asked, what may be seen, and what has been said about it so far."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from podium.api.groups import PODIUM_GROUP
from podium.api.minors import minor_of
from podium.findings import Finding, ObjectRef, Severity
from podium.priority import Resolved, resolve
from podium.rules.fields import Cause, FieldError, Refused, go_quote
from podium.rules.policy import Policy
from podium.rules.rule import Rule
from podium.rules.shape import Document, Write
from podium.view import View

# Upstream's gates that guard fields; all of them are off in the servers that we follow.
TOPOLOGY = "TopologyAwareWorkloadScheduling"
CLAIMS = "DRAWorkloadResourceClaims"
GROUP_POLICY = "PodGroupPreemptionPolicy"
COMPOSITE = "CompositePodGroup"
# Podium's own resources have no gates: their schema keeps what it has. It has no composite groups.
PODIUM_GATES = frozenset({TOPOLOGY, CLAIMS, GROUP_POLICY})
_NO_GATES: frozenset[str] = frozenset()


DROPPED = Cause(
    Rule(
        id="gated-field-dropped",
        severity=Severity.WARNING,
        title="Field dropped because its feature gate is off",
        why="The server stores the object without it and says nothing.",
        source="Kubernetes API server: G2, G8, G22, P12",
    ),
    "Do without the field; a managed cluster cannot turn its gate on.",
)
RULES = (DROPPED.rule,)


class Operation(StrEnum):
    """What the client asks of the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One write: the object as sent and, for an update, as stored, in the same version.

    `subresource` is empty or `status`.

    A namespaced object without a namespace is taken to be in `default`.
    """

    operation: Operation
    object: dict[str, Any]
    subresource: str = ""
    old: dict[str, Any] | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Which server: `kubernetes` is 1.36 or 1.37, `rules` is upstream (it and no more) or podium.

    `workload_api` says whether the native Workload API is served (its gates are on).
    """

    kubernetes: str
    rules: str
    workload_api: bool = True
    policy: Policy = Policy()

    @property
    def minor(self) -> int:
        """Give 36 or 37."""
        minor = minor_of(self.kubernetes)
        assert minor is not None
        return minor


class Case:
    """The request with its identity worked out; rules add findings, and make refusals with it."""

    def __init__(self, request: Request, view: View, profile: Profile, ref: ObjectRef, plural: str) -> None:
        self.request = request
        self.view = view
        self.profile = profile
        self.ref = ref
        # How refusals call the object; before validation the server makes up the rest of a generateName.
        self.name = ref.name or "Unknown"
        self.group, _, self.version = ref.apiVersion.rpartition("/")
        self.native = self.group != PODIUM_GROUP
        self.plural = plural
        self.update = request.operation is Operation.UPDATE
        self.status = request.subresource == "status"
        self.write = Write(self.update, _NO_GATES if self.native else PODIUM_GATES)
        self.warnings: list[str] = []
        self.findings: list[Finding] = []
        self.changes: dict[str, Any] = {}
        self.appended: dict[str, Any] = {}
        # What a rule looked for in vain, though it may be on its way: `PriorityClass gold`.
        self.awaits: list[str] = []

    @property
    def minor(self) -> int:
        """Kubernetes' minor version."""
        return self.profile.minor

    @property
    def kind(self) -> str:
        """The kind as field errors call it: `PodGroup.scheduling.k8s.io`."""
        return f"{self.ref.kind}.{self.group}" if self.group else self.ref.kind

    @property
    def resource(self) -> str:
        """The resource as plugins call it: `podgroups.scheduling.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def own_rules(self) -> bool:
        """Whether Podium's own rules apply, not only the server's."""
        return self.profile.rules == "podium"

    def set(self, document: Document, field: str, value: Any) -> None:
        """Change a field of spec as an admission step does: it becomes part of the patch."""
        document["spec"][field] = value
        self.changes[field] = value

    def append(self, document: Document, field: str, value: Any) -> None:
        """Add to the end of a list of spec as an admission step does: it becomes part of the patch."""
        document["spec"][field] = [*(document["spec"].get(field) or ()), value]
        self.appended[field] = value

    def note(self, cause: Cause, field: str, message: str) -> None:
        """Add a finding that refuses nothing."""
        self.findings.append(cause.rule.finding(self.ref, field, message, cause.fix))

    def dropped(self, field: str) -> None:
        """Say that a gated field goes: the server does not."""
        why = "its feature gate is off" if self.native else "Podium's resources do not have it"
        self.note(DROPPED, field, f"the server drops this field without a word: {why}")

    def seek_class(self, name: str) -> Resolved | None:
        """Resolve a class as the Priority plugin does, empty for the default; one not seen is awaited."""
        found = resolve(self.view.classes, name)
        if found is None:
            self.awaits.append(f"PriorityClass {name}")
        return found

    def resolve_class(self, name: str, unknown: Cause) -> Resolved:
        """Resolve a class; raises Refused where there is none of the name."""
        found = self.seek_class(name)
        if found is None:
            message = f"no PriorityClass with name {name} was found"
            raise self.forbid(unknown, "spec.priorityClassName", message)
        return found

    def forbid(self, cause: Cause, field: str, message: str) -> Refused:
        """Make the 403 of an admission plugin."""
        text = f"{self.resource} {go_quote(self.name)} is forbidden: {message}"
        return self.refuse(403, "Forbidden", text, cause, field=field, message=message)

    def refuse(
        self, code: int, reason: str, text: str, cause: Cause, *, field: str = "", message: str = ""
    ) -> Refused:
        """Make any refusal with one finding; the finding says `message`, or else the whole text."""
        finding = cause.rule.finding(self.ref, field, message or text, cause.fix)
        return Refused(code, reason, text, [finding])

    def invalid(self, errors: Sequence[FieldError]) -> Refused:
        """Make the 422 of field errors; equal ones are said once, for metadata is checked twice on update."""
        unique = {str(error): error for error in reversed(errors)}
        texts = list(dict.fromkeys(str(error) for error in errors))
        listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        findings = [unique[text].finding(self.ref) for text in texts]
        return Refused(422, "Invalid", f"{self.kind} {go_quote(self.name)} is invalid: {listed}", findings)
