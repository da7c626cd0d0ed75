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
from podium.cli.configfile import Strict, node_label, read_config, unquoted
from podium.rules.own import CLASS_RULES, OWN_RULES
from podium.rules.policy import Allowance, Level, Policy

_IDS = frozenset(own.cause.rule.id for own in (*OWN_RULES, *CLASS_RULES))
# The one rule that can mend what it finds.
_INHERITS = "member-priority"


def _known(levels: Mapping[str, Level]) -> Mapping[str, Level]:
    for rule, level in levels.items():
        if rule not in _IDS:
            raise ValueError(f"{rule} is none of Podium's own rules: {', '.join(sorted(_IDS))}")
        if level is Level.INHERIT and rule != _INHERITS:
            raise ValueError(f"only {_INHERITS} can be inherit, not {rule}")
    return levels


Levels = Annotated[
    dict[str, Annotated[Level, pydantic.BeforeValidator(unquoted)]], pydantic.AfterValidator(_known)
]


class AllowanceModel(Strict):
    """Which classes pods and PodGroups may use in some namespaces."""

    namespaces: list[str] = pydantic.Field(min_length=1)
    """Shell patterns of the namespaces that this entry is for."""
    pods: list[str] | None = None
    """Shell patterns of the classes that pods may use there; null is any."""
    groups: list[str] | None = None
    """The same of PodGroups."""


class PolicyModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["AdmissionPolicy"]
    levels: Levels = pydantic.Field(default={})
    """By rule (docs/admission.md) what it does, on native and Podium's kinds alike."""
    native: Levels = pydantic.Field(default={})
    """The same on native kinds only; wins over `levels`."""
    podium: Levels = pydantic.Field(default={})
    """The same on Podium's kinds only; wins over `levels`."""
    allow: list[AllowanceModel] = pydantic.Field(default=[])
    """Which classes namespaces may use; the first entry that covers a namespace decides."""
    reservedNodes: Annotated[str, pydantic.AfterValidator(node_label)] | None = RESERVED
    """As in SchedulerConfiguration; with null, pods do not get the toleration of reserved nodes."""

    def policy(self) -> Policy:
        """Give the file as the rules take it."""
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
    """Read a policy file. Raises PodiumError: it is no policy, there are several, a field is wrong."""
    return read_config(path, PolicyModel).policy()
