"""The configuration file of the audit: severities, and ignores with a reason.

An example, which docs/ci.md explains:

    apiVersion: config.podium.dev/v1
    kind: AuditConfiguration
    severities: {class-unused: warning}
    ignores:
      - rule: pod-priority-differs
        objects: ["research/sandbox-*"]
        reason: the sandbox is recreated every night
        expires: 2027-01-31
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

import pydantic

from podium.answers.audits.baseline import Ignore, Triage
from podium.api.findings import Severity
from podium.audit.table import unknown_rule
from podium.documents.configfile import Strict, read_config

# date.fromisoformat also accepts 20270131 and 2027-W05-1, which RFC 3339 does not.
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def _known(rule: str) -> str:
    if complaint := unknown_rule(rule):
        raise ValueError(complaint)
    return rule


def _all_known(severities: Mapping[str, Severity]) -> Mapping[str, Severity]:
    for rule in severities:
        _known(rule)
    return severities


def _day(value: Any) -> date:
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise ValueError(f"{value!r} is not a date, such as 2027-01-31")


Pattern = Annotated[str, pydantic.Field(min_length=1)]


class IgnoreModel(Strict):
    """Findings that do not count."""

    rule: Annotated[str, pydantic.AfterValidator(_known)]
    """The rule whose findings are ignored (docs/rules.md)."""
    objects: Annotated[list[Pattern], pydantic.Field(min_length=1)] | None = None
    """Shell patterns of NAMESPACE/NAME, or of NAME for cluster-scoped objects; null matches all objects."""
    reason: Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]
    """The reason, for the readers of the report."""
    expires: Annotated[date, pydantic.BeforeValidator(_day)] | None = None
    "The last day (UTC) on which the ignore is in effect; null for no end."


class AuditModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["AuditConfiguration"]
    severities: Annotated[dict[str, Severity], pydantic.AfterValidator(_all_known)] = pydantic.Field(
        default={}
    )
    """The severity of findings by rule, in the whole report and for --fail-on."""
    ignores: list[IgnoreModel] = pydantic.Field(default=[])
    """Findings that do not count."""


def read_triage(path: str, today: date) -> Triage:
    """Return the configuration for an audit on a day. Raises PodiumError for an invalid file or field."""
    model = read_config(path, AuditModel)
    ignores = [
        Ignore(
            rule=ignore.rule,
            objects=tuple(ignore.objects or ()),
            reason=ignore.reason,
            expires=ignore.expires,
        )
        for ignore in model.ignores
    ]
    return Triage(severities=model.severities, ignores=ignores, today=today)
