"""The audit's report as values: what every output format renders, and the JSON contract of `podium audit`.

A report that was written as JSON or YAML is read back into these: it is what a later one is compared with.
"""

from enum import StrEnum
from typing import Any

import msgspec

from podium.findings import Finding

API_VERSION = "cli.podium.dev/v1"


class Blocked(msgspec.Struct, frozen=True):
    """How much will not be scheduled on the chosen version; accelerators by resource name."""

    groups: int
    pods: int
    accelerators: dict[str, int]


class BlockedShare(msgspec.Struct, frozen=True):
    """The same for one namespace, or one owner (`JobSet team-a/train`)."""

    name: str
    blocked: Blocked


class PriorityShare(msgspec.Struct, frozen=True):
    """How many live pods have one integer, and the class names that gave it."""

    priority: int
    classes: list[str]
    pods: int


class FixShare(msgspec.Struct, frozen=True):
    """One thing to do and how many findings it clears."""

    fix: str
    rule: str
    clears: int


class NotChecked(msgspec.Struct, frozen=True):
    """A kind that was absent or forbidden, why, and the rules that therefore did not run."""

    kind: str
    why: str
    rules: list[str]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """How the findings stand to those of an earlier report, its baseline; each is known by its fingerprint.

    `kubernetes` is the minor that one speaks for. `known` findings were in it; of its own `gone` are no more,
    and `notLookedFor` could not be found: their rules did not run, or another part of the cluster was read.
    `newlyChecked` are rules with new findings that it could not check, or not as wholly.
    """

    name: str
    kubernetes: str
    known: int
    gone: int
    notLookedFor: int
    newlyChecked: list[str]


class IgnoreState(StrEnum):
    """What became of an ignore: it keeps findings from counting, is out of date, or has nothing to ignore."""

    ACTIVE = "active"
    EXPIRED = "expired"
    UNUSED = "unused"
    NOT_CHECKED = "not checked"


class IgnoreShare(msgspec.Struct, frozen=True, kw_only=True):
    """One ignore of the configuration and how many findings it covers, whether they are ignored or not.

    `expires` is the last day on which it holds (RFC 3339), empty where it holds for ever.
    """

    rule: str
    objects: list[str]
    reason: str
    expires: str
    state: IgnoreState
    findings: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What counts, first. `kubernetes` is the minor the report speaks for, `chosenBy` how it was found.

    `errors`, `warnings` and `infos` count the findings that count; `baseline` is None without one.
    """

    kubernetes: str
    chosenBy: str
    errors: int
    warnings: int
    infos: int
    objects: dict[str, int]
    skipped: dict[str, int]
    notChecked: list[NotChecked]
    blocked: Blocked
    blockedByNamespace: list[BlockedShare]
    blockedByOwner: list[BlockedShare]
    priorities: list[PriorityShare]
    fixes: list[FixShare]
    ignored: int = 0
    ignores: list[IgnoreShare] = []
    baseline: Compared | None = None


class IgnoredFinding(Finding, frozen=True, kw_only=True, gc=False):
    """A finding that does not count, for a reason, and until when (as IgnoreShare says it)."""

    reason: str
    expires: str

    def as_json(self) -> dict[str, Any]:
        """Give the finding with its reason."""
        return {**super().as_json(), "reason": self.reason, "expires": self.expires}


class DivergentPod(msgspec.Struct, frozen=True):
    """A live pod whose integer is not its group's (nil is 0); `role` is its part in the owner, or empty."""

    pod: str
    priority: int
    role: str = ""


class DivergentGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with divergent live pods. `source` is `PodGroup`, or `inferred` where the cluster has none."""

    apiVersion: str
    namespace: str
    name: str
    source: str
    priority: int
    members: int
    divergent: list[DivergentPod]


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `podium audit` says; findings worst first.

    `findings` are those that count. With a baseline `known` were there before, and `gone` are not there any
    more (worded as they were then).
    """

    summary: Summary
    findings: list[Finding]
    groups: list[DivergentGroup]
    known: list[Finding] = []
    ignored: list[IgnoredFinding] = []
    gone: list[Finding] = []
