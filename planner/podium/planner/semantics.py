"""The rule sets of preemption: a field for each rule, and a row for each set.

A rule set is the spec's as Podium implements it, that of a kube-scheduler release, or plain pod preemption.
All other modules ask for a rule. Only this one knows which set has it.

The text below a field has a subject, its predicate if the rule is set | if it is not, and the sources: KEPs
and functions of kube-scheduler. `[groups]` marks a rule that has no meaning unless `groups` is set. `make
docs` writes the table of docs/differences.md from these texts and the rows.
"""

from enum import Enum, StrEnum
from typing import NamedTuple


class Charge(Enum):
    """The charging of a pod's budgets after one of them is exceeded."""

    EVERY = "charges all its budgets"
    POD_STOPS = "charges none after it, in order of name"
    UNIT_STOPS = "charges none after it, nor does the rest of its unit"


class UnitRule(NamedTuple):
    """The rule by which running pods are grouped into units."""

    grouped: bool = False
    """Unit of a group of mode PodGroup: the group | its pods (KEP-5710, getCrossNodesVictims)."""
    own_priority: bool = False
    """[grouped] Priority of this unit: its pods' | the group's (KEP-5710, getCrossNodesVictims)."""
    member_priority: bool = False
    """Priority of a member of mode Pod: the group's | its own (KEP-5710, NewPodVictim)."""
    member_rank: bool = False
    """Rank of a member of mode Pod: a group's | a pod's (MoreImportantVictim)."""


class RuleSet(NamedTuple):
    """The rules of one Semantics."""

    release: str
    """The release of the kube-scheduler that has these rules, empty for another set."""
    priorities: str
    """The priority that counts for a pod of a group, in words."""
    pod_victims: UnitRule
    """The units of the victims of a lone pod."""
    group_victims: UnitRule
    """The units of the victims of a group."""
    pod_charge: Charge = Charge.EVERY
    """The budgets of the victims of a lone pod."""
    group_charge: Charge = Charge.EVERY
    """The budgets of the victims of a group."""

    groups: bool = True
    """A group as preemptor: one preemptor | each pod for itself (KEP-5710, PodGroupPostFilter)."""
    trees: bool = False
    """[groups] The groups of a tree: one preemptor | groups without a parent (KEP-6012)."""
    gates_hold_group: bool = False
    """[groups] Scheduling gates of a member: hold the group | hold the member (runPreEnqueuePlugins)."""
    agreement: bool = False
    """[groups] Pods of another priority or policy: the group is refused | `divergencePolicy` counts
    (KEP-5710, validatePodGroup)."""
    tree_agreement: bool = False
    """[trees] Groups of a tree differ in Workload, priority or policy, or do not suit their parent:
    the tree is refused | they are placed (validatePodGroupHierarchy)."""
    own_scores: bool = False
    """Scores of nodes: by `weights`, equal ones by pod | kube-scheduler's, by name (prioritizeNodes)."""
    nominated_first: bool = True
    """A nominated node: is tried first | is taken if no other has room (evaluateNominatedNode)."""
    tries_orders: bool = False
    """No place for a group in the order of its pods: others are tried | it is refused (Podium)."""
    needed_only: bool = False
    """[groups] Room is made for: what minCount needs, or all if the group asks | all pods that fit
    (KEP-5710, selectVictimsOnDomain)."""
    group_annotations: bool = False
    """[groups] Annotations for slices, preferred topologies, spread sets: are read | are not (Podium)."""
    holds_room: bool = False
    """[groups] `gangHoldSeconds`: holds free room for a gang | has no effect (Podium)."""
    packs_domains: bool = False
    """[groups] Domain of a topology constraint: the fullest with room, or that of most running members |
    the one of the highest score, and none if members run in several (KEP-5732, ScorePlacement)."""
    nominated_domain: bool = False
    """[groups] The domain of nominated nodes: is tried first, outside of trees | is like any other
    (nominatedPlacement)."""
    limits_domains: bool = False
    """[groups] Domains that are tried: a share in random order | all (numFeasiblePlacementsToFind)."""
    empty_domain: bool = False
    """An empty value of a topology label: is a domain | is none (GeneratePlacements)."""
    empty_selector: bool | None = False
    """Empty selectors of budgets and spread constraints, and pods without labels: count | do not
    (FilterVictimsWithPDBViolation, PodTopologySpread)."""
    least_harm: bool = False
    """The plan: has the least harm | is what a reprieve in order of importance leaves
    (KEP-5710, SelectVictimsOnNode, selectVictimsOnDomain)."""
    counts_cascades: bool = False
    """Victims that would preempt in their turn: decide between equal plans | do not count (Podium)."""
    clears_domains: bool = False
    """[groups] A group with a topology constraint: preempts | does not (PodGroupPostFilter)."""
    ranks_nodes: bool = False
    """[groups] Nodes of a group that preempts: those with the cheapest victims | by score (RankNodes)."""
    places_again: bool = False
    """[groups] Nodes of a group while units are spared: are chosen again, with room for minCount | stay
    (selectVictimsOnDomain)."""
    leaving_free: bool = False
    """Pods that are leaving: free room, no victims |
    victims like others, and a lone pod waits for those on its nominated node (PodEligibleToPreemptOthers)."""
    waits_for_victims: bool = False
    """[groups] A group with leaving victims: keeps its nodes | is planned again (isOngoingPreemption)."""
    waits_first: bool = False
    """[groups] The same if it may not preempt: keeps its nodes | is refused (IsPodGroupWaitingForVictims)."""
    frees_claims: bool = False
    """Devices and attachments of the victims' claims: are free once all holders are victims | stay in use
    (DynamicResources, NodeVolumeLimits)."""
    tolerations: bool = False
    """Preemption tolerations, missing classes, annotations on victims: count | do not (scheduler-plugins)."""
    spares_system: bool = False
    """kube-system, DaemonSets, mirror pods, unknown trees: protect |
    do not, except for the first three in `podium scheduler` (Podium)."""
    marks_groups: bool = False
    """Before the first delete: a unit is marked once, if a reader needs it |
    each victim is marked, and nominations are written (KEP-4832, prepareCandidate)."""

    @property
    def scheduler(self) -> str:
        """The kube-scheduler that has these rules."""
        return f"kube-scheduler {self.release}".rstrip()

    def victims(self, *, for_group: bool) -> UnitRule:
        """Return the rule for the victims of a pod, or of a group."""
        return self.group_victims if for_group else self.pod_victims


class Semantics(StrEnum):
    """The rules in force: the spec's, a kube-scheduler release's, or plain pod preemption (gates off)."""

    KEP = "kep"
    V1_36 = "1.36"
    V1_37 = "1.37"
    V1_38 = "1.38"
    PODS = "pods"

    # An attribute, because a lookup would be work for each pod.
    rules: RuleSet


# The semantics of a scheduler without a configuration.
DEFAULT_SEMANTICS = Semantics.KEP

_OWN = UnitRule(grouped=True, member_priority=True)
_UNITS_1_37 = UnitRule(grouped=True, member_priority=True, member_rank=True)
_UNITS_1_38 = UnitRule(grouped=True, own_priority=True)

Semantics.KEP.rules = RuleSet(
    *("", "the group's priority counts for all its pods", _OWN, _OWN),
    trees=True,
    own_scores=True,
    nominated_first=False,
    tries_orders=True,
    needed_only=True,
    group_annotations=True,
    holds_room=True,
    packs_domains=True,
    empty_selector=True,
    least_harm=True,
    counts_cascades=True,
    clears_domains=True,
    leaving_free=True,
    waits_for_victims=True,
    waits_first=True,
    frees_claims=True,
    tolerations=True,
    spares_system=True,
    marks_groups=True,
)
# 1.36 knows groups only if the preemptor is one.
Semantics.V1_36.rules = RuleSet(
    "1.36",
    "the group's priority counts when it is placed; as a victim of a pod without a group each pod counts "
    "with its own",
    *(UnitRule(), UnitRule(grouped=True, member_rank=True)),
    group_charge=Charge.UNIT_STOPS,
    empty_domain=True,
    places_again=True,
)
Semantics.V1_37.rules = RuleSet(
    "1.37",
    "the group's priority counts, and all its pods must have the same",
    *(_UNITS_1_37, _UNITS_1_37),
    *(Charge.POD_STOPS, Charge.POD_STOPS),
    trees=True,
    gates_hold_group=True,
    agreement=True,
    empty_domain=True,
    clears_domains=True,
    waits_for_victims=True,
)
Semantics.V1_38.rules = Semantics.V1_37.rules._replace(
    release="1.38",
    priorities="each pod counts with its own priority, and all pods and groups of a tree must have the same",
    pod_victims=_UNITS_1_38,
    group_victims=_UNITS_1_38,
    tree_agreement=True,
    nominated_domain=True,
    limits_domains=True,
    empty_domain=False,
    empty_selector=True,
    ranks_nodes=True,
    waits_first=True,
)
# Empty selectors count as in the release of the cluster.
Semantics.PODS.rules = RuleSet(
    *("", "each pod counts with its own priority", UnitRule(), UnitRule()),
    groups=False,
    empty_domain=True,
    empty_selector=None,
)
