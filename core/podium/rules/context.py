"""A request during evaluation: the request, the view of the cluster, and the findings so far."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from kubecel.goquote import go_quote
from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.groups import PODIUM_GROUP
from podium.api.minors import group_api, group_minor, minor_of
from podium.api.priority import Resolved, resolve
from podium.cluster.reader import ClusterReader
from podium.minors.minor import CLAIMS, COMPOSITE, GROUP_POLICY, TOPOLOGY, GroupApi, Minor
from podium.rules.fields import FieldError, RefusedRequest, RuleRemedy
from podium.rules.policy import Policy
from podium.rules.rule import Rule
from podium.rules.schema import Document, StructSchema, WriteContext

# The gates that change a verdict, beside those of the API itself.
GATES = (TOPOLOGY, CLAIMS, GROUP_POLICY, COMPOSITE)
# Podium's own resources have no gates: their schema stores all of these fields.
PODIUM_GATES = frozenset(GATES)

DROPPED = RuleRemedy(
    Rule(
        id="gated-field-dropped",
        severity=Severity.WARNING,
        title="Field dropped because its feature gate is off",
        why="The server stores the object without it and reports nothing.",
        source="Kubernetes API server: G2, G8, G22, P12",
    ),
    "Remove the field, or enable its feature gate (not possible in a managed cluster).",
)
RULES = (DROPPED.rule,)


class Operation(StrEnum):
    """The operation of the client on the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A write: the object as sent and, for an update, as stored, in the same version.

    `subresource` is empty or `status`.

    A namespaced object without a namespace is in `default`.
    """

    operation: Operation
    object: dict[str, Any]
    subresource: str = ""
    old: dict[str, Any] | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The server: `kubernetes` is 1.36, 1.37 or 1.38.

    `rules` is upstream (only the server's) or podium. `workload_api` says whether the native Workload API is
    served (its gates are on), and `gates` which of its other gates are on.
    """

    kubernetes: str
    rules: str
    workload_api: bool = True
    gates: frozenset[str] = frozenset()
    policy: Policy = Policy()

    @property
    def minor(self) -> int:
        """Return the minor as a number."""
        minor = minor_of(self.kubernetes)
        assert minor is not None
        return minor


class RuleContext:
    """The request with its identity; rules add findings, and create refusals with it."""

    def __init__(
        self, request: Request, view: ClusterReader, profile: Profile, ref: ObjectRef, plural: str
    ) -> None:
        self.request = request
        self.view = view
        self.profile = profile
        self.ref = ref
        # The object's name in refusals. Before validation the server completes a generateName.
        self.name = ref.name or "Unknown"
        self.group, _, self.version = ref.apiVersion.rpartition("/")
        self.minor: Minor = group_minor(profile.minor)
        self.native = self.group != PODIUM_GROUP
        self.plural = plural
        self.update = request.operation is Operation.UPDATE
        self.status = request.subresource == "status"
        self.write = WriteContext(self.update, profile.gates if self.native else PODIUM_GATES)
        self.warnings: list[str] = []
        self.findings: list[Finding] = []
        self.changes: dict[str, Any] = {}
        self.appended: dict[str, Any] = {}
        # Missing objects that a rule looked for and that may appear soon: `PriorityClass gold`.
        self.awaits: list[str] = []

    @cached_property
    def api(self) -> GroupApi:
        """Return the row of the object's version, which must be one of the group kinds."""
        return group_api(self.ref.apiVersion, self.profile.minor)

    @property
    def kind(self) -> str:
        """Return the kind as in field errors: `PodGroup.scheduling.k8s.io`."""
        return f"{self.ref.kind}.{self.group}" if self.group else self.ref.kind

    @property
    def resource(self) -> str:
        """Return the resource as in messages of plugins: `podgroups.scheduling.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def own_rules(self) -> bool:
        """Return whether Podium's own rules apply, in addition to the server's."""
        return self.profile.rules == "podium"

    def set(self, document: Document, field: str, value: Any) -> None:
        """Set a field of spec in an admission step, so that the patch contains it."""
        document["spec"][field] = value
        self.changes[field] = value

    def append(self, document: Document, field: str, value: Any) -> None:
        """Append to a list of spec in an admission step, so that the patch contains it."""
        document["spec"][field] = [*(document["spec"].get(field) or ()), value]
        self.appended[field] = value

    def add_finding(self, cause: RuleRemedy, field: str, message: str) -> None:
        """Add a finding that does not refuse the object."""
        self.findings.append(cause.rule.finding(self.ref, field, message, cause.fix))

    def dropped(self, field: str) -> None:
        """Add a finding on a gated field that the server drops silently."""
        why = "its feature gate is off" if self.native else "Podium's resources do not have it"
        self.add_finding(DROPPED, field, f"the server silently drops this field: {why}")

    def seek_class(self, name: str) -> Resolved | None:
        """Return a class resolved as in the Priority plugin (empty: the default), or None and await it."""
        resolved = resolve(self.view.classes, name)
        if resolved is None:
            self.awaits.append(f"PriorityClass {name}")
        return resolved

    def resolve_class(self, name: str, unknown: RuleRemedy) -> Resolved:
        """Return a resolved class. Raises Refused if there is no class of this name."""
        resolved = self.seek_class(name)
        if resolved is None:
            message = f"no PriorityClass with name {name} was found"
            raise self.forbid(unknown, "spec.priorityClassName", message)
        return resolved

    def forbid(self, cause: RuleRemedy, field: str, message: str) -> RefusedRequest:
        """Return the 403 of an admission plugin."""
        text = f"{self.resource} {go_quote(self.name)} is forbidden: {message}"
        return self.refuse(403, "Forbidden", text, cause, field=field, message=message)

    def refuse(
        self, code: int, reason: str, text: str, cause: RuleRemedy, *, field: str = "", message: str = ""
    ) -> RefusedRequest:
        """Return a refusal with one finding, whose message is `message`, or else the whole text."""
        finding = cause.rule.finding(self.ref, field, message or text, cause.fix)
        return RefusedRequest(code, reason, text, [finding])

    def invalid(self, errors: Sequence[FieldError]) -> RefusedRequest:
        """Return the 422 of field errors.

        Equal errors are listed once, because an update checks the metadata twice.
        """
        unique = {str(error): error for error in reversed(errors)}
        texts = list(dict.fromkeys(str(error) for error in errors))
        listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        findings = [unique[text].finding(self.ref) for text in texts]
        return RefusedRequest(
            422, "Invalid", f"{self.kind} {go_quote(self.name)} is invalid: {listed}", findings
        )


# A stage of the evaluation: its request, the new object, and the stored one, None for none.
Stage = Callable[[RuleContext, Document, Document | None], None]


def _nothing(*_: object) -> None:
    """Do nothing: the kind has no such stage."""


class KindRules(NamedTuple):
    """The rules of one kind: a table of fields for each row of its versions, or one for all, and the stages.

    `check` returns the errors of everything except the metadata, and `prepare` applies the strategy before
    it. `default` sets the defaults of decoding. `mutate` applies mutating plugins. `judge` applies validating
    ones, and raises Refused.
    """

    plural: str
    shapes: StructSchema | Mapping[GroupApi, StructSchema]
    check: Callable[[RuleContext, Document, Document | None], list[FieldError]]
    prepare: Stage
    default: Callable[[RuleContext, Document], None] = _nothing
    mutate: Stage = _nothing
    judge: Stage = _nothing
    namespaced: bool = True
    has_status: bool = True

    def shape(self, context: RuleContext) -> StructSchema:
        """Return the table of the context's version."""
        return self.shapes if isinstance(self.shapes, StructSchema) else self.shapes[context.api]
