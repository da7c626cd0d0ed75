"""The type of a minor of Kubernetes: all facts that differ between minors and that decide about groups.

Each minor is a module beside this one. A new minor is `msgspec.structs.replace` of the one before it with the
facts that changed, and a place in `podium.api.minors.MINORS`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

# Upstream's feature gates for fields and kinds of groups.
WORKLOAD_API = "GenericWorkload"
TOPOLOGY = "TopologyAwareWorkloadScheduling"
CLAIMS = "DRAWorkloadResourceClaims"
GROUP_POLICY = "PodGroupPreemptionPolicy"
COMPOSITE = "CompositePodGroup"

USER_MAXIMUM = 1_000_000_000


class GateStage(StrEnum):
    """The maturity of a gate."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


class FeatureGate(NamedTuple):
    """A feature gate of one minor: a locked gate cannot be set to another value than its default.

    `needs` are the gates without which a component refuses to start with this one on. All gates of the table
    are registered in every component (pkg/features of kubernetes/kubernetes).
    """

    stage: GateStage
    on: bool = False
    locked: bool = False
    needs: tuple[str, ...] = ()


class ServedKind(NamedTuple):
    """The versions in which a minor serves a kind, and the one in which it stores objects.

    The first version is used for an object that was not read.
    """

    versions: tuple[str, ...]
    stored: str


class GroupApi(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One version of the group kinds as one minor serves it: a row for which the tables of fields are made.

    Rows are compared by identity. `older` is the form of v1alpha2. `policy_gate` is the gate of
    preemptionPolicy, empty if the field is always on, and `policy_default` says whether decoding sets it.
    `maximum` is the highest priority. With `fixed_composite_policy` the minGroupCount of a composite group is
    immutable. `one_policy` means that the templates of a Workload share preemptionPolicy too. `strict_modes`
    refuses the mode all without a gang, and a child template without its parent's gang or mode all.
    With `beta_rules` the declarative rules that are beta from 1.38 on are in force.
    """

    version: str
    older: bool = False
    policy_gate: str = ""
    policy_default: bool = False
    maximum: int | None = None
    fixed_composite_policy: bool = False
    one_policy: bool = False
    strict_modes: bool = False
    beta_rules: bool = False


class Minor(msgspec.Struct, frozen=True, kw_only=True):
    """One minor of Kubernetes.

    `release` is the release whose sources and servers the facts are from. `kinds` are the native group kinds
    by name, and `apis` the rows of their versions. `workload_gates` are the gates that turn the native API
    on. `gates` has the gates that Podium reads or documents. `removed_gates` are those that the minor before
    knows: a component with one of them in --feature-gates does not start.

    These are facts of the API server and its controllers. `template_needed`: the plugin
    PodGroupWorkloadExists wants the template of a new group. `free_updates`: groups and Workloads are updated
    without resourceVersion. `precise_errors`: errors of owner references and conditions name the entry and
    its missing field. `responders`: a pod has spec.evictionResponders, which excludes a group.
    `composite_finalizer`: composite groups are protected while they have children. `plain_class_errors`: the
    text of a changed PriorityClass value is that of any immutable field. `job_scheduling`: a Job has
    spec.scheduling, and with `exclusive_job_scheduling` it has no other way to a group beside it.
    `groups_of_owned_jobs`: the Job controller creates the group also for a Job with an owner.
    `lists_gated_fields`: the text of a refused pod update lists the fields that may change while the pod has
    scheduling gates. `declared_fields`: declarative rules check metadata and the selector of a StatefulSet.
    `paired_annotations`: a Job that names a template of a Workload names the Workload too.

    These are facts of kube-scheduler. `empty_selectors`: an empty selector of a budget counts in preemption,
    and one of a spread constraint counts all pods. `named_domains`: a node whose topology label is empty is
    in no domain. `compared_trees`: the groups of a tree are compared before it is scheduled.
    """

    number: int
    release: str
    kinds: Mapping[str, ServedKind]
    apis: Mapping[str, GroupApi] = {}
    workload_gates: tuple[str, ...] = ()
    gates: Mapping[str, FeatureGate] = {}
    removed_gates: tuple[str, ...] = ()
    template_needed: bool = False
    free_updates: bool = False
    precise_errors: bool = False
    responders: bool = False
    composite_finalizer: bool = False
    plain_class_errors: bool = False
    job_scheduling: bool = False
    exclusive_job_scheduling: bool = False
    groups_of_owned_jobs: bool = False
    lists_gated_fields: bool = False
    declared_fields: bool = False
    paired_annotations: bool = False
    empty_selectors: bool = False
    named_domains: bool = False
    compared_trees: bool = False

    @property
    def name(self) -> str:
        """Return the minor as in options: `1.37`."""
        return f"1.{self.number}"

    @property
    def prerelease(self) -> str:
        """Return `beta` for 1.38.0-beta.0, empty for a release."""
        return self.release.partition("-")[2].partition(".")[0]

    @property
    def strict_modes(self) -> bool:
        """Return whether native groups have the rule of their rows."""
        return any(api.strict_modes for api in self.apis.values())

    def enabled(self, given: Mapping[str, bool]) -> frozenset[str]:
        """Return the gates that are on if --feature-gates has the given ones."""
        defaults = {name: gate.on for name, gate in self.gates.items()}
        return frozenset(name for name, on in {**defaults, **given}.items() if on)

    def versions(self, kind: str) -> tuple[str, ...]:
        """Return the versions in which the kind is served, empty for none."""
        return self.kinds[kind].versions if kind in self.kinds else ()
