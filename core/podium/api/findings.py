"""The type of every verdict, so that audit, admit and the webhook print and count alike.

A finding has the rule, the severity, the object and field, the problem and the fix. Its fingerprint names the
*place*, not the values. The fingerprint stays the same if a report is run again, or if an object is edited
elsewhere, is recreated or changes its API version. Code-scanning tools, a baseline and a diff can therefore
follow a finding.
"""

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from podium.errors import PodiumError


class Severity(StrEnum):
    """The severity of a finding, from its rule or from the audit's configuration."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Return 0 for the worst, so that findings sort by it."""
        return _RANK[self]


_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class ObjectRef(msgspec.Struct, frozen=True, order=True, gc=False):
    """An object's identity as it was read; namespace is empty for cluster-scoped objects."""

    apiVersion: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        """Return the API group, empty for the core group."""
        return group_of(self.apiVersion)

    def __str__(self) -> str:
        """Return kind and name: `PodGroup team-a/train`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ObjectError(PodiumError):
    """A stored value that no rule can use; the reader of the object can add the name of its file."""

    def __init__(self, ref: ObjectRef, field: str, problem: str) -> None:
        super().__init__(f"{ref}: {field}: {problem}")
        self.object = ref
        self.field = field
        self.problem = problem


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A verdict of a rule on an object; `field` is a path such as `spec.priority`, or empty.

    `lasting_name` is the object's name with `*` for each part that changes if the object is recreated. It is
    empty if the whole name stays.
    """

    rule: str
    severity: Severity
    object: ObjectRef
    field: str
    message: str
    fix: str
    lasting_name: str = msgspec.field(default="", name="lastingName")

    @property
    def fingerprint(self) -> str:
        """Return 32 hex digits for rule, object (without its API version, by its stable name) and field."""
        ref = self.object
        name = self.lasting_name or ref.name
        place = (self.rule, ref.group, ref.kind, ref.namespace, name, self.field)
        return hashlib.sha256("\x00".join(place).encode()).hexdigest()[:32]

    @property
    def sort_key(self) -> tuple[int, str, str, str, str, str]:
        """Return the sort key of every report: worst first, then by rule and object."""
        ref = self.object
        return (self.severity.rank, self.rule, ref.namespace, ref.name, ref.kind, self.field)

    def as_json(self) -> dict[str, Any]:
        """Return the finding as every report writes it, with the stable name if it differs."""
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "object": msgspec.to_builtins(self.object),
            "field": self.field,
            "message": self.message,
            "fix": self.fix,
            **({"lastingName": self.lasting_name} if self.lasting_name else {}),
            "fingerprint": self.fingerprint,
        }


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion: `` for v1, `apps` for apps/v1."""
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""
