"""Sort findings into those that count and those that do not: ignored ones, and ones in an earlier report.

The first audit of a cluster has more findings than can be fixed in a week. A check that always fails is soon
turned off. A check can therefore have a baseline (an earlier report) and ignores (a rule and a pattern, with
a reason and perhaps a last day). Findings that do not count are still counted and listed. The report says if
an ignore has expired, is no longer needed or never was.

Pure: the day is a value.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from podium.answers.audits.report import (
    AuditReport,
    Compared,
    IgnoredFinding,
    IgnoreShare,
    IgnoreState,
    NotChecked,
)
from podium.api.findings import Finding, ObjectRef, Severity


class Ignore(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of one rule that do not count, and why.

    `objects` are shell patterns: `namespace/name`, or the name alone for cluster-scoped objects. An empty
    list matches all objects. The ignore is in effect to the end of the day `expires`.
    """

    rule: str
    reason: str
    objects: tuple[str, ...] = ()
    expires: date | None = None

    def covers(self, finding: Finding) -> bool:
        """Return whether the ignore matches a finding, expired or not."""
        if finding.rule != self.rule:
            return False
        return not self.objects or any(_matches(finding.object, pattern) for pattern in self.objects)

    def expired(self, today: date) -> bool:
        """Return whether its last day is over."""
        return self.expires is not None and today > self.expires

    @property
    def until(self) -> str:
        """Return the last day in the format of a report."""
        return "" if self.expires is None else self.expires.isoformat()


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of an earlier report, by fingerprint; `partly` as in Looked."""

    name: str
    kubernetes: str
    findings: dict[str, Finding]
    partly: frozenset[str]


def baseline_of(report: AuditReport, name: str) -> Baseline:
    """Return a report as the baseline of another: its findings and known findings without ignored ones."""
    return Baseline(
        name=name,
        kubernetes=report.summary.kubernetes,
        findings={finding.fingerprint: finding for finding in (*report.findings, *report.known)},
        partly=partly_checked(report.summary.notChecked),
    )


def partly_checked(not_checked: Iterable[NotChecked]) -> frozenset[str]:
    """Return the rules that could not see all of their input."""
    return frozenset(rule for missing in not_checked for rule in missing.rules)


class Looked(NamedTuple):
    """The scope of an audit: the rules that ran, and the part of the cluster that was read (empty: all).

    `partly` are rules that could not see all of their input, whether they ran or not.
    """

    rules: frozenset[str]
    partly: frozenset[str] = frozenset()
    namespace: str = ""
    selector: str = ""

    def wholly(self, rule: str) -> bool:
        """Return whether the rule ran on the whole cluster, so that it found all there is."""
        return rule in self.rules and not self.namespace and not self.selector

    def would_find(self, finding: Finding) -> bool:
        """Return whether an earlier finding would have been found again if it were still true."""
        read = not self.namespace or finding.object.namespace in ("", self.namespace)
        return finding.rule in self.rules and read and not self.selector


class Triaged(NamedTuple):
    """The findings that count and those that do not, and the results for each ignore and for the baseline."""

    counting: list[Finding]
    known: list[Finding]
    ignored: list[IgnoredFinding]
    gone: list[Finding]
    ignores: list[IgnoreShare]
    compared: Compared | None


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for sorting findings; with the defaults all findings count.

    `severities` replace those of the rules. With the default day every ignore has expired.
    """

    severities: Mapping[str, Severity] = {}
    ignores: Sequence[Ignore] = ()
    baseline: Baseline | None = None
    today: date = date.max

    def sort(self, findings: Iterable[Finding], looked: Looked) -> Triaged:
        """Return the findings sorted into counting, known and ignored, in the same order.

        A finding that is ignored is not also known.
        """
        counting, known, ignored = [], [], []
        before = self.baseline.findings if self.baseline is not None else {}
        absent = dict(before)
        covered = Counter[int]()
        for finding in findings:
            covering = [index for index, ignore in enumerate(self.ignores) if ignore.covers(finding)]
            covered.update(covering)
            holding = (self.ignores[index] for index in covering)
            ignore = next((candidate for candidate in holding if not candidate.expired(self.today)), None)
            if before:
                absent.pop(finding.fingerprint, None)
            if ignore is not None:
                ignored.append(_ignored(finding, ignore))
            elif before and finding.fingerprint in before:
                known.append(finding)
            else:
                counting.append(finding)
        gone = sorted(filter(looked.would_find, absent.values()), key=lambda entry: entry.sort_key)
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
