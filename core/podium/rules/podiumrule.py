"""The type of Podium's own rules: a rule with a remedy, levels, and the writes at which it is checked."""

from enum import StrEnum
from typing import NamedTuple

from podium.rules.context import Operation, RuleContext
from podium.rules.fields import RuleRemedy
from podium.rules.policy import RuleLevel

# The writes at which a rule is checked: a webhook must receive these for the rule to work.
#
# Rules carry their targets. The registration with the API server, the bindings of CEL policies and the
# evaluation in `podium.rules.webhook` therefore come from one table and cannot drift apart.


class AdmissionPhase(StrEnum):
    """The request of a webhook: the two kinds of admission, and, as mutations, a gang for a new pod.

    The pod's namespace selects which of the last two is sent.
    """

    MUTATE = "mutate"
    VALIDATE = "validate"
    GANG = "gang"
    SCHEDULED_GANG = "scheduled-gang"


class WriteTarget(NamedTuple):
    """A kind of write; `subresource` is empty or `status`.

    `members` means that only pods in a group need to be sent, before or after the write. An own rule's
    targets under MUTATE are for the level `inherit` only.
    """

    kind: str
    operation: Operation
    phase: AdmissionPhase
    subresource: str = ""
    members: bool = False


class OwnRule(NamedTuple):
    """A rule with a remedy and its default levels: for native kinds, and for Podium's kinds.

    `on` lists the writes at which it is checked.
    """

    cause: RuleRemedy
    native: RuleLevel
    podium: RuleLevel
    on: tuple[WriteTarget, ...]


def level(context: RuleContext, rule: OwnRule) -> RuleLevel:
    """Return the level of a rule for this object."""
    default = rule.native if context.native else rule.podium
    return context.profile.policy.level(rule.cause.rule.id, native=context.native, default=default)


def breach(context: RuleContext, rule: OwnRule, field: str, message: str) -> None:
    """Handle a breach according to the rule's level."""
    match level(context, rule):
        case RuleLevel.OFF:
            return
        case RuleLevel.DENY:
            raise context.forbid(rule.cause, field, message)
        case RuleLevel.WARN | RuleLevel.INHERIT:
            context.warnings.append(f"{field}: {message}")
            context.add_finding(rule.cause, field, message)
