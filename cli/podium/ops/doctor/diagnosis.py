"""All checks in the order in which they explain each other: the server, Podium, other components."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from podium.api.schedulable import Schedulable, SchedulableNode
from podium.ops.doctor import neighbours, processes, registration, rights, server
from podium.ops.doctor.check import CheckLevel, DoctorCheck, ok, problem, warning
from podium.ops.doctor.facts import BINDINGS, NODES, POLICIES, ClusterFacts, Document, unseen
from podium.planner.framework import ChainContext
from podium.planner.plugins.nodeaffinity import NodeAffinityPlugin
from podium.planner.plugins.tainttoleration import TaintTolerationFilter, TaintTolerationPlugin
from podium.planner.snapshot import Snapshot
from podium.text import count, listed, some

# Check before an installation that a node takes the pods of Podium's own processes.
#
# If every node is reserved, for Podium's scheduler or others, those pods would wait. Only taints, cordons and
# labels of nodes are checked: free room changes, and other pods may be evicted.

# kwok marks the nodes whose kubelets it simulates: no container runs there.
_FAKE = "kwok.x-k8s.io/node"


def own_pods(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the nodes for Podium's own pods, if nothing is installed."""
    name = "own-pods"
    if facts.processes:
        return  # `deployments` reports why a pod waits.
    if (unread := facts.unread(NODES)) is not None:
        yield unseen(name, "the nodes were", unread)
        return
    items = facts.items(NODES)
    real = [node for node in items if _FAKE not in (node["metadata"].get("annotations") or {})]
    if items and not real:
        fact = f"all of {count(len(items), 'node')} are fake (kwok): no process of Podium would run"
        yield warning(name, fact, "run the processes on this machine, or use a cluster with real nodes")
        return
    why = unplaceable(
        facts.installation.documents_of("Deployment"), msgspec.convert(real, list[SchedulableNode])
    )
    complete = not ((facts.document(NODES) or {}).get("metadata") or {}).get("continue")
    if why and complete:
        fix = "remove the taint from a node (kubectl taint node NODE KEY-), uncordon a node, or add a node"
        yield problem(name, why, fix)
    elif not why:
        yield ok(name, "a node accepts the pods of Podium's processes" if real else "there is no node yet")


def unplaceable(documents: Iterable[Document], nodes: Sequence[SchedulableNode]) -> str:
    """Return which pods no node would take, and why; empty if each pod has a node.

    The text is also empty if there is no node at all: an autoscaler may create the first for the pods.
    """
    snapshot = Snapshot(plugins=(TaintTolerationPlugin, NodeAffinityPlugin))
    for node in nodes:
        snapshot.add_node(node)
    processes: dict[str, list[str]] = defaultdict(list)
    for deployment in documents:
        if deployment["kind"] == "Deployment" and (why := _refusals(snapshot, deployment)):
            processes[why].append(deployment["metadata"]["name"])
    if not processes:
        return ""
    explanation = "; ".join(f"those of {listed(sorted(names))}: {why}" for why, names in processes.items())
    return f"none of {len(nodes):,} nodes accepts Podium's own pods, {explanation}"


def _refusals(snapshot: Snapshot, deployment: Document) -> str:
    """Return why all nodes refuse a Deployment's pods, in kube-scheduler's words; empty if one takes them."""
    metadata = {name: deployment["metadata"][name] for name in ("name", "namespace")}
    template = deployment["spec"]["template"]["spec"]
    snapshot.add_pod(msgspec.convert({"metadata": metadata, "spec": template}, Schedulable))
    row = snapshot.pod_row[metadata["namespace"], metadata["name"]]
    shape = snapshot.shapes[snapshot.shape.item(row)]
    filters = list(ChainContext({}).filters_of(snapshot.plugins))
    reasons: Counter[str] = Counter()
    for node in snapshot.row.values():
        refused = next(
            ((node_filter, why) for node_filter in filters if (why := node_filter.reason(shape, node))), None
        )
        if refused is None:
            return ""
        by, why = refused
        if isinstance(by, TaintTolerationFilter):
            keys = sorted({taint.key or "" for taint in by.untolerated(shape, node)})
            why = f"{why} {', '.join(keys)}"
        reasons[why] += 1
    return ", ".join(f"{number:,} {why}" for why, number in reasons.most_common())


# Check that the API server itself enforces the rules that an install writes as policies.
#
# If a policy is missing, its rule is enforced only while a webhook answers.

_FIX = "podium manifests policies --config FILE with the webhook's file, for kubectl apply --server-side"


def policies(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the existing policies against those of the cluster's AdmissionPolicy."""
    name = "admission-policies"
    if not facts.processes:
        return  # `installed` reports it.
    if (unread := facts.unread(POLICIES, BINDINGS)) is not None:
        yield unseen(name, "the ValidatingAdmissionPolicies were", unread)
        return
    there = {policy["metadata"]["name"]: policy for policy in facts.items(POLICIES)}
    bound = {
        binding["spec"].get("policyName")
        for binding in facts.items(BINDINGS)
        if "Deny" in (binding["spec"].get("validationActions") or ())
    }
    # The policies of the processes' accounts are checked in `processes.policies`.
    expected_policies = {
        policy["metadata"]["name"]: policy
        for policy in facts.installation.documents_of("ValidatingAdmissionPolicy")
        if policy["metadata"]["name"] not in facts.installation.policies
    }
    missing = sorted(policy for policy in expected_policies if policy not in there or policy not in bound)
    if missing:
        fact = f"no ValidatingAdmissionPolicy {some(missing)} is bound"
        yield warning(name, f"{fact}: the rule is enforced only while a webhook answers", _FIX)
    differing = sorted(
        policy
        for policy in expected_policies.keys() - set(missing)
        if _checked(expected_policies[policy]) != _checked(there[policy])
    )
    if differing:
        fact = f"ValidatingAdmissionPolicy {some(differing)} does not match the webhook's AdmissionPolicy"
        yield warning(name, fact, _FIX)
    if not missing and not differing:
        yield ok(name, f"{some(sorted(expected_policies))} is enforced even if no webhook answers")


def _checked(policy: Document) -> list[Any]:
    """Return the checked part of a policy; the administrator may change its namespaces."""
    spec = policy["spec"]
    variables = [variable["expression"] for variable in spec.get("variables") or ()]
    validations = [validation["expression"] for validation in spec["validations"]]
    conditions = spec.get("matchConditions") or []
    rules = spec["matchConstraints"].get("resourceRules")
    return [variables, validations, conditions, rules, spec.get("failurePolicy", "Fail")]


_CHECKS: tuple[Callable[[ClusterFacts], Iterator[DoctorCheck]], ...] = (
    server.version,
    server.clock,
    server.workload_api,
    processes.installed,
    processes.deployments,
    processes.leases,
    processes.probes,
    processes.undecodable,
    processes.preemption,
    processes.plugins,
    processes.policies,
    server.custom_resources,
    registration.registrations,
    registration.trust,
    registration.endpoints,
    registration.trial,
    policies,
    rights.rights,
    rights.own_rights,
    own_pods,
    neighbours.webhooks,
    neighbours.mutators,
    neighbours.schedulers,
    neighbours.classes,
    neighbours.nodes,
)


def diagnose(facts: ClusterFacts) -> list[DoctorCheck]:
    """Return every check, the worst first."""
    results = [result for check in _CHECKS for result in check(facts)]
    return sorted(results, key=lambda result: list(CheckLevel).index(result.level))
