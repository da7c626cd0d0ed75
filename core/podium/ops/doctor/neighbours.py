"""Other components in the cluster that affect Podium: webhooks, schedulers, classes, nodes.

None of these is wrong by itself. They are listed because of their possible effect on pods and groups. A
webhook that fails closed can keep our pods from being created again. A second writer of a pod's class makes
groups diverge. Two schedulers can both place pods on a node that they share.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from podium.api.core import PriorityClass
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP, RESERVED
from podium.api.meta import LabelSelector
from podium.api.selectors import selector_of
from podium.ops.doctor.check import Check, Level
from podium.ops.doctor.facts import (
    CLASSES,
    DEFINITIONS,
    GROUPS,
    MUTATING,
    PODS,
    REGISTRATIONS,
    SAMPLE,
    Document,
    Facts,
    unseen,
)
from podium.ops.doctor.registration import ready_endpoints, slices_path
from podium.ops.doctor.server import native_versions
from podium.priority import default_class
from podium.wording import count, listed, some

Labels = Mapping[str, str]


class Foreign(NamedTuple):
    """A webhook of another component: its configuration's name, whether it mutates, and the webhook."""

    configuration: str
    mutates: bool
    webhook: Document

    @property
    def fails(self) -> bool:
        """Return whether writes fail if it does not answer."""
        return bool(self.webhook.get("failurePolicy", "Fail") == "Fail")

    @property
    def service(self) -> tuple[str, str] | None:
        """Return the namespace and name of its Service, if it has one."""
        service = self.webhook["clientConfig"].get("service")
        return (service["namespace"], service["name"]) if service else None

    def sees(self, group: str, resource: str) -> bool:
        """Return whether creations in some namespace are sent to it."""
        return any(
            not {group, "*"}.isdisjoint(rule.get("apiGroups") or ())
            and not {resource, "*", "*/*"}.isdisjoint(rule.get("resources") or ())
            and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
            for rule in self.webhook.get("rules") or ()
        )

    def selects(self, namespace: Labels, labels: Labels) -> bool:
        """Return whether its selectors match an object with these labels in a namespace with these labels."""
        return _takes(self.webhook.get("namespaceSelector"), namespace) and _takes(
            self.webhook.get("objectSelector"), labels
        )


def _takes(selector: Document | None, labels: Labels) -> bool:
    found = selector_of(msgspec.convert(selector or {}, LabelSelector), {})
    return found is None or found.matches(labels)


def foreign(facts: Facts) -> list[Foreign]:
    """Return every webhook that is not Podium's."""
    ours = {each["metadata"]["name"] for each in facts.installation.of(*REGISTRATIONS)}
    return [
        Foreign(each["metadata"]["name"], path == MUTATING, webhook)
        for path in REGISTRATIONS.values()
        for each in facts.items(path)
        if each["metadata"]["name"] not in ours
        for webhook in each.get("webhooks") or ()
    ]


def in_our_way(facts: Facts) -> list[Foreign]:
    """Return the webhooks that fail closed and match the pods of our own namespace."""
    name = facts.installation.namespace
    # Before an install the namespace will have the labels of the manifests.
    there = facts.document(facts.installation.itself) or facts.installation.of("Namespace")[0]
    namespace = {**(there["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
    pods = [
        each["spec"]["template"]["metadata"].get("labels") or {}
        for each in facts.installation.of("Deployment")
    ]
    return [
        each
        for each in foreign(facts)
        if each.fails and each.sees("", "pods") and any(each.selects(namespace, labels) for labels in pods)
    ]


def webhooks(facts: Facts) -> Iterator[Check]:
    """Yield checks of the webhooks that can block our pods, and of those that mutate pods."""
    name = "other-webhooks"
    if (unread := facts.unread(*REGISTRATIONS.values(), facts.installation.itself)) is not None:
        yield unseen(name, "other webhooks were", unread)
        return
    blocking = in_our_way(facts)
    exempt = f"exempt the namespace {facts.installation.namespace} in its namespaceSelector"
    for each in blocking:
        fact = (
            f"{each.webhook['name']} ({each.configuration}) is asked about the pods of "
            f"{facts.installation.namespace} and fails closed"
        )
        dead = _dead(facts, each)
        level = Level.PROBLEM if dead else Level.WARNING
        more = f"; {dead}, so no pod of ours can be made" if dead else ": when it is down ours stay down"
        yield Check(name, level, fact + more, exempt)
    groups = sorted({each.configuration for each in foreign(facts) if each.sees(PODIUM_GROUP, "podgroups")})
    if groups:
        fact = f"{some(groups)} {'is' if len(groups) == 1 else 'are'} asked about Podium's groups, too"
        yield Check(name, Level.NOTE, fact, "narrow the rules of what is sent to it, if that is not meant")
    if not blocking:
        yield Check(name, Level.OK, "no other webhook can keep Podium's pods from being made")


def _dead(facts: Facts, webhook: Foreign) -> str:
    """Return a sentence if the webhook's Service is known to have no ready endpoint, else an empty text."""
    if webhook.service is None:
        return ""
    path = slices_path(*webhook.service)
    if facts.document(path) is None or ready_endpoints(facts.items(path)):
        return ""
    return f"its Service {'/'.join(webhook.service)} has no ready endpoint"


# Kinds whose objects can mutate pods: by API group, with their title and resource.
_MUTATORS = {
    "admissionregistration.k8s.io": ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    "kyverno.io": ("Kyverno ClusterPolicy", "clusterpolicies"),
    "mutations.gatekeeper.sh": ("Gatekeeper Assign", "assign"),
}


def mutator_paths(facts: Facts) -> dict[str, str]:
    """Return the paths of these lists in every served version of their group, with their titles."""
    return {
        f"{GROUPS}/{version['groupVersion']}/{resource}": title
        for name, (title, resource) in _MUTATORS.items()
        for version in facts.groups.get(name, {"versions": []})["versions"]
    }


def mutators(facts: Facts) -> Iterator[Check]:
    """Yield a check of policies that change the priority of pods after their template was written."""
    name = "priority-mutators"
    writers = {
        f"{title} {each['metadata']['name']}"
        for path, title in mutator_paths(facts).items()
        for each in facts.items(path)
        if _writes_priority(each)
    }
    if writers:
        fact = f"{some(writers)} may change the class of pods: their group may then have another integer"
        yield Check(name, Level.WARNING, fact, "have it leave pods alone that are members of a group")
    seeing = sorted({each.configuration for each in foreign(facts) if each.mutates and each.sees("", "pods")})
    if seeing:
        fact = f"{some(seeing)} may write on pods; what, a webhook does not tell"
        yield Check(name, Level.NOTE, fact, "podium audit -A names groups whose pods have another priority")
    if (unread := facts.unread(*REGISTRATIONS.values(), *mutator_paths(facts))) is not None:
        yield unseen(name, "who else writes on pods was", unread)
    elif not writers and not seeing:
        yield Check(name, Level.OK, "nobody else writes on pods as they are made")


def _writes_priority(document: Document) -> bool:
    """Return whether the rules of a policy, without its descriptions, mutate a pod's priority."""
    spec = document.get("spec") or {}
    rules = spec.get("rules")
    said = [each.get("mutate") for each in rules] if isinstance(rules, list) else spec
    text = json.dumps(said)
    return "priorityClassName" in text or "spec.priority" in text


# The meaning of the kinds of other schedulers and queues beside Podium, by API group.
_SCHEDULERS = {
    "kueue.x-k8s.io": (
        "Kueue holds pods back until there is quota, and a Workload of its own has a priority of its own",
        "podium audit -A names those that differ from their group",
    ),
    "scheduling.volcano.sh": (
        "Volcano has PodGroups of its own; its pods (volcano) are neither ours nor our victims",
        "give it and podium-scheduler nodes of their own",
    ),
    "scheduling.run.ai": (
        "KAI has PodGroups of its own; its pods (kai-scheduler) are neither ours nor our victims",
        "give it and podium-scheduler nodes of their own",
    ),
    "scheduling.x-k8s.io": (
        "coscheduling (scheduler-plugins) has PodGroups of its own, by a label of its own",
        "give it and podium-scheduler nodes of their own",
    ),
}


def schedulers(facts: Facts) -> Iterator[Check]:
    """Yield checks of other schedulers, by their kinds and by the pods that name them."""
    name = "other-schedulers"
    served = _SCHEDULERS.keys() & facts.groups.keys()
    for group in sorted(served):
        fact, fix = _SCHEDULERS[group]
        yield Check(name, Level.NOTE, f"{group}: {fact}", fix)
    if (unread := facts.unread(PODS)) is not None:
        yield unseen(name, "pods were", unread)
        return
    pods = facts.items(PODS)
    wanted = Counter(each["spec"].get("schedulerName", "") for each in pods)
    more = " at least" if len(pods) >= SAMPLE else ""
    counts = [f"{count(number, 'pod')}{more} for {each}" for each, number in sorted(wanted.items())]
    waiting = [
        each
        for each in pods
        if each["spec"].get("schedulerName") == facts.scheduler_name and not each["spec"].get("nodeName")
    ]
    if (
        waiting
        and "scheduler" not in facts.processes
        and facts.unread(facts.installation.deployments) is None
    ):
        fact = f"{count(len(waiting), 'pod')}{more} wait for {facts.scheduler_name}, which is not installed"
        yield Check(name, Level.PROBLEM, fact, "podium install --mode scheduler, or run podium scheduler")
    if counts:
        yield Check(name, Level.OK, f"beside kube-scheduler: {listed(counts)}")
    elif not served:
        yield Check(name, Level.OK, "every pod is kube-scheduler's")
    others = sorted(served - {"kueue.x-k8s.io"})
    others += [NATIVE_GROUP] if native_versions(facts) else []
    if others and facts.document(f"{DEFINITIONS}/podgroups.{PODIUM_GROUP}") is not None:
        fact = f"kubectl get podgroups may mean those of {listed(others)}"
        yield Check(name, Level.NOTE, fact, f"write kubectl get podgroups.{PODIUM_GROUP}")


def classes(facts: Facts) -> Iterator[Check]:
    """Yield a check of the number of default PriorityClasses."""
    name = "priority-classes"
    if (unread := facts.unread(CLASSES)) is not None:
        yield unseen(name, "the PriorityClasses were", unread)
        return
    found = {
        each.metadata.name or "": each for each in msgspec.convert(facts.items(CLASSES), list[PriorityClass])
    }
    defaults = sorted(each for each, found_class in found.items() if found_class.globalDefault)
    winner = default_class(found)
    if len(defaults) > 1 and winner is not None:
        fact = f"{listed(defaults)} are all globalDefault; {winner.metadata.name} wins, by its smaller value"
        yield Check(name, Level.WARNING, fact, "leave globalDefault on one of them")
    else:
        fact = f"pods without a class get {defaults[0]}" if defaults else "pods without a class get 0"
        yield Check(name, Level.OK, f"{len(found)} classes; {fact}")


def nodes_path(facts: Facts) -> str:
    """Return the path of the nodes that the scheduler may use; empty if it may use all."""
    label = facts.scheduler.get("reservedNodes")
    return f"/api/v1/nodes?labelSelector={_quoted(str(label))}&limit={SAMPLE}" if label else ""


def _quoted(label: str) -> str:
    return label.replace("/", "%2F").replace("=", "%3D")


def nodes(facts: Facts) -> Iterator[Check]:
    """Yield checks of the nodes that are reserved for the scheduler."""
    name = "reserved-nodes"
    if "scheduler" not in facts.processes or not facts.scheduler:
        return
    path = nodes_path(facts)
    label = facts.scheduler.get("reservedNodes")
    if not path:
        fact = "podium-scheduler uses all nodes, as others do: the last core of one may be given away twice"
        yield Check(name, Level.WARNING, fact, "reserve nodes: docs/scheduler.md, Beside kube-scheduler")
        return
    if (unread := facts.unread(path)) is not None:
        yield unseen(name, "the nodes were", unread)
        return
    found = facts.items(path)
    reserve = f"kubectl label node NODE {label}{'' if '=' in str(label) else '=yes'}"
    taint = f"kubectl taint node NODE {RESERVED}=yes:NoSchedule"
    if not found:
        fact = f"no node has the label {label}: podium-scheduler can place nothing"
        yield Check(name, Level.PROBLEM, fact, f"{reserve}; {taint}")
        return
    open_to_others = [each["metadata"]["name"] for each in found if not _tainted(each)]
    if open_to_others:
        fact = (
            f"{some(open_to_others)} of {count(len(found), 'reserved node')} lack the taint {RESERVED}: "
            "others use them, too"
        )
        yield Check(name, Level.WARNING, fact, taint)
    else:
        yield Check(name, Level.OK, f"{count(len(found), 'node')} reserved, by label and taint")


def _tainted(node: Document) -> bool:
    taints = node["spec"].get("taints") or ()
    return any(each["key"] == RESERVED and each["effect"] in ("NoSchedule", "NoExecute") for each in taints)
