"""One type for every verdict, so that audit, admit and the webhook print and count alike.

A finding says which rule, how bad, on which object and field, what is wrong and what to do. Its fingerprint
names the *place*, not the values: it stays the same while a report is re-run, an object is edited elsewhere
or made anew, or its API version changes, so that code-scanning tools, a baseline and a diff can follow it.
"""

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from podium.errors import PodiumError


class Severity(StrEnum):
    """How bad a finding is: as its rule says, or the audit's configuration."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst, so findings sort by it."""
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
        """The API group, empty for the core group."""
        return group_of(self.apiVersion)

    def __str__(self) -> str:
        """Kind and name as a person says them: `PodGroup team-a/train`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ObjectError(PodiumError):
    """A stored value that no rule can work with; whoever read the object can say in which file it stands."""

    def __init__(self, ref: ObjectRef, field: str, problem: str) -> None:
        super().__init__(f"{ref}: {field}: {problem}")
        self.object = ref
        self.field = field
        self.problem = problem


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One verdict of one rule on one object; `field` is a path such as `spec.priority`, or empty.

    `lasting_name` is the object's name with `*` for what will be another when it is made anew; empty where
    the whole name lasts.
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
        """32 hex digits that name rule, object (without its API version, by its lasting name) and field."""
        ref = self.object
        name = self.lasting_name or ref.name
        place = (self.rule, ref.group, ref.kind, ref.namespace, name, self.field)
        return hashlib.sha256("\x00".join(place).encode()).hexdigest()[:32]

    @property
    def sort_key(self) -> tuple[int, str, str, str, str, str]:
        """Worst first, then by rule and object: the order of every report."""
        ref = self.object
        return (self.severity.rank, self.rule, ref.namespace, ref.name, ref.kind, self.field)

    def as_json(self) -> dict[str, Any]:
        """Give the finding as every report writes it, the lasting name where it is another."""
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
    """Give the group of an apiVersion: `` for v1, `apps` for apps/v1."""
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""
