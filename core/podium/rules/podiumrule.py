"""The type of Podium's own rules: a rule with a remedy, levels, and the writes at which it is checked."""

from typing import NamedTuple

from podium.rules.context import RuleContext
from podium.rules.fields import RuleRemedy
from podium.rules.policy import RuleLevel
from podium.rules.target import WriteTarget


class OwnRule(NamedTuple):
    """A rule with a remedy and its default levels: for native kinds, and for Podium's kinds.

    `on` lists the writes at which it is checked.
    """

    cause: RuleRemedy
    native: RuleLevel
    podium: RuleLevel
    on: tuple[WriteTarget, ...]


def level(case: RuleContext, rule: OwnRule) -> RuleLevel:
    """Return the level of a rule for this object."""
    default = rule.native if case.native else rule.podium
    return case.profile.policy.level(rule.cause.rule.id, native=case.native, default=default)


def breach(case: RuleContext, rule: OwnRule, field: str, message: str) -> None:
    """Handle a breach according to the rule's level."""
    match level(case, rule):
        case RuleLevel.OFF:
            return
        case RuleLevel.DENY:
            raise case.forbid(rule.cause, field, message)
        case RuleLevel.WARN | RuleLevel.INHERIT:
            case.warnings.append(f"{field}: {message}")
            case.add_finding(rule.cause, field, message)
