"""The arguments of a rendering beside the report, so that every format stays a pure function."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from podium.api.findings import Finding, Severity
from podium.cli.render.pictures.clustermap import ClusterMap
from podium.rules.rule import Rule


class FindingLocation(NamedTuple):
    """The place of a finding's object in the input.

    The file as it was given and a line counted from 1, or None if the place is the whole file.
    """

    file: str
    line: int | None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of one report.

    `rules` are the requested rules, with or without findings. `input` names the input in words. `place` finds
    a finding in the input's files, or returns None (live, standard input). `version` is Podium's. `made` is
    RFC 3339 in UTC. `width` is in columns, and `headers` is whether columns have headers, both
    for the table only. `cluster` is the map of a whole cluster, for pages only.
    """

    rules: Sequence[Rule]
    input: str
    place: Callable[[Finding], FindingLocation | None]
    version: str
    made: str
    width: int = 100
    colour: bool = False
    headers: bool = True
    cluster: ClusterMap | None = None


class RuleFindings(NamedTuple):
    """The findings of one rule, in the report's order; `rule` is None for an unknown id."""

    id: str
    severity: Severity
    rule: Rule | None
    findings: list[Finding]


def by_rule(findings: Sequence[Finding], rules: Sequence[Rule]) -> list[RuleFindings]:
    """Return the findings by rule: worst severity first, then the rule with most findings, then its id."""
    known = {rule.id: rule for rule in rules}
    by_id: dict[str, list[Finding]] = {}
    for finding in findings:
        by_id.setdefault(finding.rule, []).append(finding)
    groups = [
        RuleFindings(rule_id, members[0].severity, known.get(rule_id), members)
        for rule_id, members in by_id.items()
    ]
    return sorted(groups, key=lambda group: (group.severity.rank, -len(group.findings), group.id))
