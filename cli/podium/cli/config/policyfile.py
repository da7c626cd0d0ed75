"""The administrator's file for Podium's own rules: their levels, and the classes that namespaces may use.

An example, which docs/admission.md explains:

    apiVersion: config.podium.dev/v1
    kind: AdmissionPolicy
    levels: {member-priority: inherit}
    native: {basic-with-group-disruption: deny}
    allow:
      - namespaces: ["team-*"]
        pods: [low, standard]
        groups: [standard]
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic

from podium.api.groups import RESERVED
from podium.documents.configfile import Strict, node_label, read_config, unquoted
from podium.rules.podiumrules import CLASS_RULES, OWN_RULES
from podium.rules.policy import Allowance, Policy, RuleLevel

_IDS = frozenset(own.cause.rule.id for own in (*OWN_RULES, *CLASS_RULES))
# The only rule that can correct what it finds.
_INHERITS = "member-priority"


def _known(levels: Mapping[str, RuleLevel]) -> Mapping[str, RuleLevel]:
    for rule, level in levels.items():
        if rule not in _IDS:
            raise ValueError(f"{rule} is not one of Podium's rules: {', '.join(sorted(_IDS))}")
        if level is RuleLevel.INHERIT and rule != _INHERITS:
            raise ValueError(f"only {_INHERITS} can have the level inherit, not {rule}")
    return levels


Levels = Annotated[
    dict[str, Annotated[RuleLevel, pydantic.BeforeValidator(unquoted)]], pydantic.AfterValidator(_known)
]


class AllowanceModel(Strict):
    """The classes that pods and PodGroups may use in some namespaces."""

    namespaces: list[str] = pydantic.Field(min_length=1)
    """Shell patterns of the namespaces for this entry."""
    pods: list[str] | None = None
    """Shell patterns of the classes that pods may use there; null allows any class."""
    groups: list[str] | None = None
    """The same for PodGroups."""


class PolicyModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["AdmissionPolicy"]
    levels: Levels = pydantic.Field(default={})
    """The level of each rule (docs/admission-rules.md), for native and Podium's kinds alike."""
    native: Levels = pydantic.Field(default={})
    """The same for native kinds only; has precedence over `levels`."""
    podium: Levels = pydantic.Field(default={})
    """The same for Podium's kinds only; has precedence over `levels`."""
    allow: list[AllowanceModel] = pydantic.Field(default=[])
    """The classes that namespaces may use; the first entry that matches a namespace decides."""
    reservedNodes: Annotated[str, pydantic.AfterValidator(node_label)] | None = RESERVED
    """As in SchedulerConfiguration; with null, pods do not get the toleration of reserved nodes."""

    def policy(self) -> Policy:
        """Return the file as a Policy for the rules."""
        return Policy(
            levels=self.levels,
            native=self.native,
            podium=self.podium,
            allow=tuple(
                Allowance(
                    namespaces=tuple(entry.namespaces),
                    pods=None if entry.pods is None else tuple(entry.pods),
                    groups=None if entry.groups is None else tuple(entry.groups),
                )
                for entry in self.allow
            ),
            reserved_nodes=self.reservedNodes is not None,
        )


def read_policy(path: str) -> Policy:
    """Return the policy in a file.

    Raises PodiumError for a wrong kind, several documents or a wrong field.
    """
    return read_config(path, PolicyModel).policy()
