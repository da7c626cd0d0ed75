"""The type of Podium's own rules: a rule with a remedy, levels, and the writes at which it is checked."""

from typing import NamedTuple

from podium.rules.case import Case
from podium.rules.fields import Cause
from podium.rules.policy import Level
from podium.rules.target import Target


class OwnRule(NamedTuple):
    """A rule with a remedy and its default levels: for native kinds, and for Podium's kinds.

    `on` lists the writes at which it is checked.
    """

    cause: Cause
    native: Level
    podium: Level
    on: tuple[Target, ...]


def level(case: Case, rule: OwnRule) -> Level:
    """Return the level of a rule for this object."""
    default = rule.native if case.native else rule.podium
    return case.profile.policy.level(rule.cause.rule.id, native=case.native, default=default)


def breach(case: Case, rule: OwnRule, field: str, message: str) -> None:
    """Handle a breach according to the rule's level."""
    match level(case, rule):
        case Level.OFF:
            return
        case Level.DENY:
            raise case.forbid(rule.cause, field, message)
        case Level.WARN | Level.INHERIT:
            case.warnings.append(f"{field}: {message}")
            case.note(rule.cause, field, message)
