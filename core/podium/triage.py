"""Which findings count: those that nobody decided to live with, and that were not there before.

A cluster that is audited for the first time has more findings than anybody mends in a week, and a check that
always fails is soon turned off. So a check may be told what is known (an earlier report) and what is ignored
(by a rule and a pattern, with a reason and perhaps a last day). Nothing that is set aside is lost: it is
counted, listed, and said when it has expired, is gone or never was.

Pure: the day is a value.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from podium.findings import Finding, ObjectRef, Severity
from podium.report import AuditReport, Compared, IgnoredFinding, IgnoreShare, IgnoreState, NotChecked


class Ignore(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of one rule that do not count, and why.

    `objects` are shell patterns, `namespace/name` or the name alone of what is in no namespace; none are all
    objects. It holds to the end of the day `expires`.
    """

    rule: str
    reason: str
    objects: tuple[str, ...] = ()
    expires: date | None = None

    def covers(self, finding: Finding) -> bool:
        """Whether a finding is one of these, expired or not."""
        if finding.rule != self.rule:
            return False
        return not self.objects or any(_matches(finding.object, pattern) for pattern in self.objects)

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and today > self.expires

    @property
    def until(self) -> str:
        """The last day as a report says it."""
        return "" if self.expires is None else self.expires.isoformat()


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What was found before, by fingerprint; `partly` as Looked has it."""

    name: str
    kubernetes: str
    findings: dict[str, Finding]
    partly: frozenset[str]


def baseline_of(report: AuditReport, name: str) -> Baseline:
    """Take a report for the baseline of another: its findings and those it knew, but not what it ignored."""
    return Baseline(
        name=name,
        kubernetes=report.summary.kubernetes,
        findings={finding.fingerprint: finding for finding in (*report.findings, *report.known)},
        partly=partly_checked(report.summary.notChecked),
    )


def partly_checked(not_checked: Iterable[NotChecked]) -> frozenset[str]:
    """Give the rules that could not see all they look at."""
    return frozenset(rule for missing in not_checked for rule in missing.rules)


class Looked(NamedTuple):
    """What an audit looked at: the rules that ran, and the part of the cluster that was read (empty: all).

    `partly` are rules that could not see all they look at, whether they ran or not.
    """

    rules: frozenset[str]
    partly: frozenset[str] = frozenset()
    namespace: str = ""
    selector: str = ""

    def wholly(self, rule: str) -> bool:
        """Whether all that a rule could find was found."""
        return rule in self.rules and not self.namespace and not self.selector

    def would_find(self, finding: Finding) -> bool:
        """Whether an earlier finding would have been found again were it still true."""
        read = not self.namespace or finding.object.namespace in ("", self.namespace)
        return finding.rule in self.rules and read and not self.selector


class Triaged(NamedTuple):
    """Findings that count and those that do not, and what is said of each ignore and of the baseline."""

    counting: list[Finding]
    known: list[Finding]
    ignored: list[IgnoredFinding]
    gone: list[Finding]
    ignores: list[IgnoreShare]
    compared: Compared | None


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """How to sort findings; without anything all of them count.

    `severities` take the place of the rules' own. On the day that nobody named every ignore has expired.
    """

    severities: Mapping[str, Severity] = {}
    ignores: Sequence[Ignore] = ()
    baseline: Baseline | None = None
    today: date = date.max

    def sort(self, found: Iterable[Finding], looked: Looked) -> Triaged:
        """Sort findings, keeping their order. What is ignored is not known as well."""
        counting, known, ignored = [], [], []
        before = self.baseline.findings if self.baseline is not None else {}
        absent = dict(before)
        covered = Counter[int]()
        for finding in found:
            covering = [index for index, ignore in enumerate(self.ignores) if ignore.covers(finding)]
            covered.update(covering)
            holding = (self.ignores[index] for index in covering)
            ignore = next((each for each in holding if not each.expired(self.today)), None)
            if before:
                absent.pop(finding.fingerprint, None)
            if ignore is not None:
                ignored.append(_ignored(finding, ignore))
            elif before and finding.fingerprint in before:
                known.append(finding)
            else:
                counting.append(finding)
        gone = sorted(filter(looked.would_find, absent.values()), key=lambda each: each.sort_key)
        shares = [self._share(ignore, covered[index], looked) for index, ignore in enumerate(self.ignores)]
        result = Triaged(counting, known, ignored, gone, shares, None)
        if self.baseline is None:
            return result
        return result._replace(compared=_compared(self.baseline, result, looked, len(absent) - len(gone)))

    def _share(self, ignore: Ignore, findings: int, looked: Looked) -> IgnoreShare:
        if findings:
            state = IgnoreState.EXPIRED if ignore.expired(self.today) else IgnoreState.ACTIVE
        else:
            state = IgnoreState.UNUSED if looked.wholly(ignore.rule) else IgnoreState.NOT_CHECKED
        return IgnoreShare(
            rule=ignore.rule,
            objects=list(ignore.objects),
            reason=ignore.reason,
            expires=ignore.until,
            state=state,
            findings=findings,
        )


def _compared(baseline: Baseline, result: Triaged, looked: Looked, not_looked_for: int) -> Compared:
    new = {finding.rule for finding in result.counting}
    return Compared(
        name=baseline.name,
        kubernetes=baseline.kubernetes,
        known=len(result.known),
        gone=len(result.gone),
        notLookedFor=not_looked_for,
        newlyChecked=sorted((baseline.partly - looked.partly) & new),
    )


def _matches(ref: ObjectRef, pattern: str) -> bool:
    namespace, slash, name = pattern.rpartition("/")
    if bool(slash) != bool(ref.namespace):
        return False
    return fnmatchcase(ref.namespace, namespace) and fnmatchcase(ref.name, name)


def _ignored(finding: Finding, ignore: Ignore) -> IgnoredFinding:
    return IgnoredFinding(**msgspec.structs.asdict(finding), reason=ignore.reason, expires=ignore.until)
