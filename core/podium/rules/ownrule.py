"""What a rule of Podium's own is: any rule's parts, and a remedy, levels and the writes it is checked at."""

from typing import NamedTuple

from podium.rules.case import Case
from podium.rules.fields import Cause
from podium.rules.policy import Level
from podium.rules.target import Target


class OwnRule(NamedTuple):
    """A rule with a remedy and its levels where the policy says nothing: for native kinds, for Podium's.

    `on` says which writes it is checked at.
    """

    cause: Cause
    native: Level
    podium: Level
    on: tuple[Target, ...]


def level(case: Case, rule: OwnRule) -> Level:
    """Give the level of a rule for this object."""
    default = rule.native if case.native else rule.podium
    return case.profile.policy.level(rule.cause.rule.id, native=case.native, default=default)


def breach(case: Case, rule: OwnRule, field: str, message: str) -> None:
    """Do what the rule's level says about a breach."""
    match level(case, rule):
        case Level.OFF:
            return
        case Level.DENY:
            raise case.forbid(rule.cause, field, message)
        case Level.WARN | Level.INHERIT:
            case.warnings.append(f"{field}: {message}")
            case.note(rule.cause, field, message)
