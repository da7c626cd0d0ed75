"""The levels of Podium's own rules, and the classes that a namespace may use.

The administrator sets these; upstream's rules have no levels.
"""

from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec


class RuleLevel(StrEnum):
    """The effect of a breach; `inherit` is for rules that can change the object instead of reporting."""

    DENY = "deny"
    WARN = "warn"
    INHERIT = "inherit"
    OFF = "off"


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The classes that pods and PodGroups of some namespaces may use; None is any, patterns are globs."""

    namespaces: tuple[str, ...]
    pods: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None

    def covers(self, namespace: str) -> bool:
        """Return whether a namespace is one of these."""
        return any(fnmatchcase(namespace, pattern) for pattern in self.namespaces)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Levels by rule id if they differ from the rule's own, and allowances, of which the first match applies.

    `levels` are for native and Podium's kinds alike, `native` and `podium` for one of them. With
    `reserved_nodes` the pods of Podium's scheduler get the toleration of the taint of reserved nodes.
    """

    levels: dict[str, RuleLevel] = {}
    native: dict[str, RuleLevel] = {}
    podium: dict[str, RuleLevel] = {}
    allow: tuple[Allowance, ...] = ()
    reserved_nodes: bool = True

    def level(self, rule: str, *, native: bool, default: RuleLevel) -> RuleLevel:
        """Return the level of a rule for one family of kinds."""
        family = self.native if native else self.podium
        return family.get(rule) or self.levels.get(rule) or default

    def allowed(self, namespace: str, *, pods: bool) -> tuple[str, ...] | None:
        """Return the patterns of class names that a namespace may use; None is any."""
        for allowance in self.allow:
            if allowance.covers(namespace):
                return allowance.pods if pods else allowance.groups
        return None
