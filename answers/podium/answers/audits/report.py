"""The audit's report as values: the input of every output format, and the JSON contract of `podium audit`.

A report that was written as JSON or YAML is read back into these values as the baseline of a later report.
"""

from enum import StrEnum
from typing import Any

import msgspec

from podium.api.findings import Finding
from podium.api.inputnotes import DuplicateInput, SkippedInput

API_VERSION = "cli.podium.dev/v1"


class Blocked(msgspec.Struct, frozen=True):
    """The groups, pods and accelerators that the chosen version will not schedule.

    Accelerators by resource name.
    """

    groups: int
    pods: int
    accelerators: dict[str, int]


class BlockedShare(msgspec.Struct, frozen=True):
    """The same counts for one namespace, or for one owner (`JobSet team-a/train`)."""

    name: str
    blocked: Blocked


class PriorityShare(msgspec.Struct, frozen=True):
    """The number of live pods with one integer, and the class names that it came from."""

    priority: int
    classes: list[str]
    pods: int


class FixShare(msgspec.Struct, frozen=True):
    """A fix, and the number of findings that it clears."""

    fix: str
    rule: str
    clears: int


class NotChecked(msgspec.Struct, frozen=True):
    """A kind that was absent or forbidden, the reason, and the rules that therefore did not run."""

    kind: str
    why: str
    rules: list[str]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the findings with an earlier report, the baseline, by fingerprint.

    `kubernetes` is the minor of the baseline. `known` counts findings that were in the baseline, `gone` those
    of the baseline that no longer exist. `notLookedFor` counts those that could not be found: their rules did
    not run, or another part of the cluster was read. `newlyChecked` are rules with new findings that the
    baseline could not check, or not fully.
    """

    name: str
    kubernetes: str
    known: int
    gone: int
    notLookedFor: int
    newlyChecked: list[str]


class IgnoreState(StrEnum):
    """The state of an ignore: in effect, expired, without findings to ignore, or not checked."""

    ACTIVE = "active"
    EXPIRED = "expired"
    UNUSED = "unused"
    NOT_CHECKED = "not checked"


class IgnoreShare(msgspec.Struct, frozen=True, kw_only=True):
    """An ignore of the configuration, and the number of findings that match it, ignored or not.

    `expires` is the last day on which it is in effect (RFC 3339), empty if it never expires.
    """

    rule: str
    objects: list[str]
    reason: str
    expires: str
    state: IgnoreState
    findings: int


class AuditSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a report: `kubernetes` is the minor it is for, `chosenBy` how that was found.

    `errors`, `warnings` and `infos` are the numbers of findings that count. `waiting` is the number of gangs
    that have fewer pods than their minCount, or will have. `waitingPods` is that of pods which no scheduler
    has placed by their own status, `strayPods` that of pods whose group is not among the objects.
    `skippedFiles` are files of folders, or documents of them, that are not read, and `duplicates` objects
    that came twice. `baseline` is None if the report was not compared with a baseline.
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
    waiting: int = 0
    waitingPods: int = 0
    strayPods: int = 0
    ignored: int = 0
    ignores: list[IgnoreShare] = []
    skippedFiles: list[SkippedInput] = []
    duplicates: list[DuplicateInput] = []
    baseline: Compared | None = None


class IgnoredFinding(Finding, frozen=True, kw_only=True, gc=False):
    """A finding that does not count: the reason, and the last day (as in IgnoreShare)."""

    reason: str
    expires: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding with its reason."""
        return {**super().as_json(), "reason": self.reason, "expires": self.expires}


class DivergentPod(msgspec.Struct, frozen=True):
    """A live pod whose integer differs from its group's (nil is 0).

    `role` is its role in the owner, or empty.
    """

    pod: str
    priority: int
    role: str = ""


class DivergentGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with divergent live pods. `source` is `PodGroup`, or `inferred` if there is no PodGroup."""

    apiVersion: str
    namespace: str
    name: str
    source: str
    priority: int
    members: int
    divergent: list[DivergentPod]


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report of `podium audit`, with the worst findings first.

    `findings` are those that count. With a baseline, `known` were in it too, and `gone` are no longer found
    (worded as they were then).
    """

    summary: AuditSummary
    findings: list[Finding]
    groups: list[DivergentGroup]
    known: list[Finding] = []
    ignored: list[IgnoredFinding] = []
    gone: list[Finding] = []
