"""The audit's report as values: what every output format renders, and the JSON contract of `podium audit`."""

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


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What counts, first. `kubernetes` is the minor the report speaks for, `chosenBy` how it was found."""

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
    """Everything `podium audit` says; findings worst first."""

    summary: Summary
    findings: list[Finding]
    groups: list[DivergentGroup]
