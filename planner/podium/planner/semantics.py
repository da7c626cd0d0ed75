"""The rule sets of preemption, and the differences between them: one row each.

A rule set is the spec's as Podium implements it, that of a kube-scheduler release, or plain pod preemption.
docs/preemption-reference.md describes them.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import NamedTuple


class Charge(Enum):
    """The point at which the charging of budgets stops after one is exceeded."""

    # Every pod charges all its budgets.
    EVERY = auto()
    # A pod that overdrew one budget charges none after it, in order of name.
    POD_STOPS = auto()
    # The rest of its unit charges none either.
    UNIT_STOPS = auto()


class UnitRule(NamedTuple):
    """The rule by which running pods are grouped into units, and by which units are protected.

    `grouped`: a group of mode PodGroup is one unit. Such a unit counts with the priority of the group, unless
    `own_priority` says that each pod counts with its own. `member_priority`: members of the other groups
    count with the group's priority. `member_rank`: they rank as groups do. `protects`: tolerations,
    namespaces and schedulers protect pods, and leaving pods count as gone (the rules of the spec and of
    Podium).
    """

    grouped: bool = False
    own_priority: bool = False
    member_priority: bool = False
    member_rank: bool = False
    protects: bool = False


class RuleSet(NamedTuple):
    """The rules of one Semantics.

    For a lone pod and for a group as preemptor: `pod_victims` and `group_victims` form units, `pod_charge`
    and `group_charge` charge budgets. `trees` says that composite groups count.

    Placement: `agreement` refuses a group whose pods have another priority or preemption policy;
    `tree_agreement` refuses unlike groups of a tree too. `nominated_domain` tries the domain of the nominated
    nodes first. `limits_domains`: the search ends after a share of the domains in random order.

    Preemption: `clears_domains` says that a group with a topology constraint preempts, `waits_for_victims`
    that a group waits for those that leave its nominated nodes, and `waits_first` that it does so even if it
    may not preempt. `ranks_nodes` takes the nodes with the cheapest victims first. `places_again` places the
    group again beside each unit that is given back.

    Labels: `empty_domain` makes the empty value of a label a domain; `empty_selector` says that budgets and
    spread constraints with an empty selector count all pods, and that budgets count pods without labels.
    """

    pod_victims: UnitRule
    group_victims: UnitRule
    pod_charge: Charge = Charge.EVERY
    group_charge: Charge = Charge.EVERY
    trees: bool = False
    agreement: bool = False
    tree_agreement: bool = False
    nominated_domain: bool = False
    limits_domains: bool = False
    clears_domains: bool = False
    waits_for_victims: bool = False
    waits_first: bool = False
    ranks_nodes: bool = False
    places_again: bool = False
    empty_domain: bool = False
    empty_selector: bool = False

    def victims(self, *, for_group: bool) -> UnitRule:
        """Return the rule for the victims of a pod, or of a group."""
        return self.group_victims if for_group else self.pod_victims

    def charge(self, *, for_group: bool) -> Charge:
        """Return how the victims of a pod, or of a group, are charged to budgets."""
        return self.group_charge if for_group else self.pod_charge


class Semantics(StrEnum):
    """The rules in force: the spec's, a kube-scheduler release's, or plain pod preemption (gates off)."""

    KEP = "kep"
    V1_36 = "1.36"
    V1_37 = "1.37"
    V1_38 = "1.38"
    PODS = "pods"

    @property
    def rules(self) -> RuleSet:
        """The rules of this name."""
        return _RULE_SETS[self]


_OWN = UnitRule(grouped=True, member_priority=True, protects=True)
_UNITS_1_36 = UnitRule(grouped=True, member_rank=True)
_UNITS_1_37 = UnitRule(grouped=True, member_priority=True, member_rank=True)
_UNITS_1_38 = UnitRule(grouped=True, own_priority=True)

_RULES_1_37 = RuleSet(
    *(_UNITS_1_37, _UNITS_1_37, Charge.POD_STOPS, Charge.POD_STOPS),
    trees=True,
    agreement=True,
    clears_domains=True,
    waits_for_victims=True,
    empty_domain=True,
)

_RULE_SETS: Mapping[Semantics, RuleSet] = {
    Semantics.KEP: RuleSet(_OWN, _OWN, trees=True, empty_selector=True),
    # 1.36 knows groups only if the preemptor is one.
    Semantics.V1_36: RuleSet(
        UnitRule(), _UNITS_1_36, group_charge=Charge.UNIT_STOPS, places_again=True, empty_domain=True
    ),
    Semantics.V1_37: _RULES_1_37,
    Semantics.V1_38: _RULES_1_37._replace(
        pod_victims=_UNITS_1_38,
        group_victims=_UNITS_1_38,
        tree_agreement=True,
        nominated_domain=True,
        limits_domains=True,
        waits_first=True,
        ranks_nodes=True,
        empty_domain=False,
        empty_selector=True,
    ),
    Semantics.PODS: RuleSet(UnitRule(), UnitRule(), empty_domain=True),
}
