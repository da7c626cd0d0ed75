"""What a rendering needs beside the report, given by the caller: so every format stays a pure function."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from podium.findings import Finding, Severity
from podium.rules.rule import Rule


class Place(NamedTuple):
    """Where a finding's object stands in the input.

    The file as it was given and a line counted from 1, or None for what a file as a whole does not have.
    """

    file: str
    line: int | None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of one report.

    `rules` are those that were asked for, whether they found something or not. `input` names what was read
    in a person's words. `place` finds a finding in the input's files, or gives None (live, standard input).
    `version` is Podium's. `made` is RFC 3339 in UTC. `width` is in columns and counts for the table alone.
    """

    rules: Sequence[Rule]
    input: str
    place: Callable[[Finding], Place | None]
    version: str
    made: str
    width: int = 100
    colour: bool = False


class RuleFindings(NamedTuple):
    """The findings of one rule, in the report's order; `rule` is None for an id that nobody defines."""

    id: str
    severity: Severity
    rule: Rule | None
    findings: list[Finding]


def by_rule(findings: Sequence[Finding], rules: Sequence[Rule]) -> list[RuleFindings]:
    """Group findings by rule: worst severity first, then the rule that found most, then its id."""
    known = {rule.id: rule for rule in rules}
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.rule, []).append(finding)
    groups = [
        RuleFindings(rule_id, members[0].severity, known.get(rule_id), members)
        for rule_id, members in found.items()
    ]
    return sorted(groups, key=lambda group: (group.severity.rank, -len(group.findings), group.id))
