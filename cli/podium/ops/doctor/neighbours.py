"""Other components in the cluster that affect Podium: webhooks, schedulers, classes, nodes.

None of these is wrong by itself. They are listed because of their possible effect on pods and groups. A
webhook that fails closed can keep our pods from being created again. A second writer of a pod's class makes
groups diverge. Two schedulers can both place pods on a node that they share.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from podium.api.core import PriorityClass
from podium.api.devices import DEVICE_API
from podium.api.findings import group_of
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP, RESERVED
from podium.api.meta import LabelSelector
from podium.api.priority import default_class, toleration
from podium.api.selectors import selector_of
from podium.ops.doctor.check import DoctorCheck, note, ok, problem, warning
from podium.ops.doctor.facts import (
    CLASSES,
    DEFINITIONS,
    GROUPS,
    MUTATING,
    PODS,
    REGISTRATIONS,
    SAMPLE,
    ClusterFacts,
    Document,
    lasting,
    unseen,
)
from podium.ops.doctor.registration import ready_endpoints, slices_path
from podium.ops.doctor.server import native_versions
from podium.text import count, listed, some

Labels = Mapping[str, str]
# A toleration of a year or more is one without an end.
_YEAR_SECONDS = 365 * 86_400


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
    parsed = selector_of(msgspec.convert(selector or {}, LabelSelector), {})
    return parsed is None or parsed.matches(labels)


def foreign(facts: ClusterFacts) -> list[Foreign]:
    """Return every webhook that is not Podium's."""
    ours = {
        registration["metadata"]["name"] for registration in facts.installation.documents_of(*REGISTRATIONS)
    }
    return [
        Foreign(registration["metadata"]["name"], path == MUTATING, webhook)
        for path in REGISTRATIONS.values()
        for registration in facts.items(path)
        if registration["metadata"]["name"] not in ours
        for webhook in registration.get("webhooks") or ()
    ]


def in_our_way(facts: ClusterFacts) -> list[Foreign]:
    """Return the webhooks that fail closed and match the pods of our own namespace."""
    name = facts.installation.namespace
    # Before an install the namespace will have the labels of the manifests.
    there = facts.document(facts.installation.itself) or facts.installation.documents_of("Namespace")[0]
    namespace = {**(there["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
    pods = [
        deployment["spec"]["template"]["metadata"].get("labels") or {}
        for deployment in facts.installation.documents_of("Deployment")
    ]
    return [
        webhook
        for webhook in foreign(facts)
        if webhook.fails
        and webhook.sees("", "pods")
        and any(webhook.selects(namespace, labels) for labels in pods)
    ]


def webhooks(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the webhooks that can block our pods, and of those that mutate pods."""
    name = "other-webhooks"
    if (unread := facts.unread(*REGISTRATIONS.values(), facts.installation.itself)) is not None:
        yield unseen(name, "other webhooks were", unread)
        return
    blocking = in_our_way(facts)
    exempt = f"exempt the namespace {facts.installation.namespace} in its namespaceSelector"
    for webhook in blocking:
        fact = (
            f"{webhook.webhook['name']} ({webhook.configuration}) intercepts the pods of "
            f"{facts.installation.namespace} and fails closed"
        )
        if dead := _dead(facts, webhook):
            yield problem(name, f"{fact}; {dead}, so no pod of Podium can be created", exempt)
        else:
            yield warning(name, f"{fact}: if it is down, Podium's pods cannot restart", exempt)
    groups = sorted(
        {other.configuration for other in foreign(facts) if other.sees(PODIUM_GROUP, "podgroups")}
    )
    if groups:
        fact = f"{some(groups)} also {'intercepts' if len(groups) == 1 else 'intercept'} Podium's groups"
        yield note(name, fact, "narrow its rules, unless this is intended")
    if not blocking:
        yield ok(name, "no other webhook can prevent the creation of Podium's pods")


def _dead(facts: ClusterFacts, webhook: Foreign) -> str:
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


def mutator_paths(facts: ClusterFacts) -> dict[str, str]:
    """Return the paths of these lists in every served version of their group, with their titles."""
    return {
        f"{GROUPS}/{version['groupVersion']}/{resource}": title
        for name, (title, resource) in _MUTATORS.items()
        for version in facts.groups.get(name, {"versions": []})["versions"]
    }


def mutators(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of policies that change the priority of pods after their template was written."""
    name = "priority-mutators"
    writers = {
        f"{title} {policy['metadata']['name']}"
        for path, title in mutator_paths(facts).items()
        for policy in facts.items(path)
        if _writes_priority(policy)
    }
    if writers:
        fact = f"{some(writers)} may change the class of pods, so that pods differ from their group"
        yield warning(name, fact, "exclude members of groups from it")
    seeing = sorted(
        {webhook.configuration for webhook in foreign(facts) if webhook.mutates and webhook.sees("", "pods")}
    )
    if seeing:
        fact = f"{some(seeing)} may change pods; a webhook does not declare which fields"
        yield note(name, fact, "podium audit -A lists groups whose pods have another priority")
    if (unread := facts.unread(*REGISTRATIONS.values(), *mutator_paths(facts))) is not None:
        yield unseen(name, "other components that change pods were", unread)
    elif not writers and not seeing:
        yield ok(name, "no other component changes pods at creation")


def _writes_priority(document: Document) -> bool:
    """Return whether the rules of a policy, without its descriptions, mutate a pod's priority."""
    spec = document.get("spec") or {}
    rules = spec.get("rules")
    mutations = [rule.get("mutate") for rule in rules] if isinstance(rules, list) else spec
    text = json.dumps(mutations)
    return "priorityClassName" in text or "spec.priority" in text


# The meaning of the kinds of other schedulers and queues beside Podium, by API group.
_SCHEDULERS = {
    "kueue.x-k8s.io": (
        "Kueue holds pods until quota is free, and gives its own Workload its own priority",
        "podium audit -A lists the pods that differ from their group",
    ),
    "scheduling.volcano.sh": (
        "Volcano has its own PodGroups; Podium neither schedules nor preempts its pods (volcano)",
        "give it and podium-scheduler separate nodes",
    ),
    "scheduling.run.ai": (
        "KAI has its own PodGroups; Podium neither schedules nor preempts its pods (kai-scheduler)",
        "give it and podium-scheduler separate nodes",
    ),
    "scheduling.x-k8s.io": (
        "coscheduling (scheduler-plugins) has its own PodGroups and its own label",
        "give it and podium-scheduler separate nodes",
    ),
}


def schedulers(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of other schedulers, by their kinds and by the pods that name them."""
    name = "other-schedulers"
    served = _SCHEDULERS.keys() & facts.groups.keys()
    for group in sorted(served):
        fact, fix = _SCHEDULERS[group]
        yield note(name, f"{group}: {fact}", fix)
    if (unread := facts.unread(PODS)) is not None:
        yield unseen(name, "pods were", unread)
        return
    pods = facts.items(PODS)
    by_scheduler = Counter(pod["spec"].get("schedulerName", "") for pod in pods)
    more = " at least" if len(pods) >= SAMPLE else ""
    counts = [
        f"{count(number, 'pod')}{more} for {scheduler}" for scheduler, number in sorted(by_scheduler.items())
    ]
    waiting = [
        pod
        for pod in pods
        if pod["spec"].get("schedulerName") == facts.scheduler_name and not pod["spec"].get("nodeName")
    ]
    if (
        waiting
        and "scheduler" not in facts.processes
        and facts.unread(facts.installation.deployments) is None
    ):
        fact = f"{count(len(waiting), 'pod')}{more} wait for {facts.scheduler_name}, which is not installed"
        yield problem(name, fact, "install the scheduler (docs/install.md), or run podium scheduler")
    if counts:
        yield ok(name, f"beside kube-scheduler: {listed(counts)}")
    elif not served:
        yield ok(name, "every pod uses kube-scheduler")
    groups = sorted(served - {"kueue.x-k8s.io"})
    groups += [NATIVE_GROUP] if native_versions(facts) else []
    if groups and facts.document(f"{DEFINITIONS}/podgroups.{PODIUM_GROUP}") is not None:
        fact = f"kubectl get podgroups may return those of {listed(groups)}"
        yield note(name, fact, f"use kubectl get podgroups.{PODIUM_GROUP}")


def classes(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the number of default PriorityClasses, and of tolerations that end."""
    name = "priority-classes"
    if (unread := facts.unread(CLASSES)) is not None:
        yield unseen(name, "the PriorityClasses were", unread)
        return
    by_name = {
        priority_class.metadata.name or "": priority_class
        for priority_class in msgspec.convert(facts.items(CLASSES), list[PriorityClass])
    }
    defaults = sorted(
        class_name for class_name, priority_class in by_name.items() if priority_class.globalDefault
    )
    winner = default_class(by_name)
    if len(defaults) > 1 and winner is not None:
        fact = f"{listed(defaults)} are all globalDefault; the smallest value wins ({winner.metadata.name})"
        yield warning(name, fact, "keep globalDefault on only one of them")
    else:
        fact = f"pods without a class get {defaults[0]}" if defaults else "pods without a class get 0"
        yield ok(name, f"{len(by_name)} classes; {fact}")
    yield _tolerations(by_name)


def _tolerations(by_name: Mapping[str, PriorityClass]) -> DoctorCheck:
    name = "preemption-toleration"
    spans = sorted(
        f"{class_name} ({lasting(timedelta(seconds=tolerated.seconds))})"
        for class_name, priority_class in by_name.items()
        if (tolerated := toleration(priority_class)) is not None
        and 0 < tolerated.seconds < _YEAR_SECONDS
        and tolerated.can_apply(priority_class.value or 0)
    )
    if not spans:
        return ok(name, "no class exempts its pods from preemption for a time")
    fact = (
        f"pods of {some(spans)} are not preempted for that time after their start, so longer runs are: on "
        "a public trace of GPU jobs one hour doubled the work that preemptions lose"
    )
    fix = "let workloads declare that they save their work (docs/saving.md), and remove the annotation"
    return note(name, fact, fix)


def nodes_path(facts: ClusterFacts) -> str:
    """Return the path of the nodes that the scheduler may use; empty if it may use all."""
    label = facts.scheduler.get("reservedNodes")
    return f"/api/v1/nodes?labelSelector={quote(str(label), safe='')}&limit={SAMPLE}" if label else ""


def nodes(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the nodes that are reserved for the scheduler."""
    name = "reserved-nodes"
    if "scheduler" not in facts.processes or not facts.scheduler:
        return
    path = nodes_path(facts)
    label = facts.scheduler.get("reservedNodes")
    if not path:
        fact = (
            "podium-scheduler shares all nodes with other schedulers: both may use the same free "
            "resources at once"
        )
        yield warning(name, fact, "reserve nodes: docs/scheduler.md, Beside kube-scheduler")
        yield from _shared_devices(facts, name)
        return
    if (unread := facts.unread(path)) is not None:
        yield unseen(name, "the nodes were", unread)
        return
    items = facts.items(path)
    reserve = f"kubectl label node NODE {label}{'' if '=' in str(label) else '=yes'}"
    taint = f"kubectl taint node NODE {RESERVED}=yes:NoSchedule"
    if not items:
        fact = f"no node has the label {label}: podium-scheduler cannot place any pod"
        yield problem(name, fact, f"{reserve}; {taint}")
        return
    open_to_others = [node["metadata"]["name"] for node in items if not _tainted(node)]
    if open_to_others:
        fact = (
            f"{some(open_to_others)} of {count(len(items), 'reserved node')} lack the taint "
            f"{RESERVED}: other schedulers use them too"
        )
        yield warning(name, fact, taint)
    else:
        yield ok(name, f"{count(len(items), 'node')} reserved, by label and taint")


def devices_path(facts: ClusterFacts) -> str:
    """Return the path of a ResourceSlice; empty if it does not matter whether one exists."""
    versions = facts.groups.get(group_of(DEVICE_API), {"versions": []})["versions"]
    served = any(version["groupVersion"] == DEVICE_API for version in versions)
    shares = bool(facts.scheduler) and not nodes_path(facts)
    return f"{GROUPS}/{DEVICE_API}/resourceslices?limit=1" if served and shares else ""


def _shared_devices(facts: ClusterFacts, name: str) -> Iterator[DoctorCheck]:
    """Yield a check of devices that other schedulers may allocate too."""
    path = devices_path(facts)
    if (unread := facts.unread(path)) is not None:
        yield unseen(name, "the ResourceSlices were", unread)
    elif facts.items(path):
        fact = "nodes have devices, and podium-scheduler shares them: both may allocate one device at once"
        yield warning(name, fact, "reserve nodes: docs/scheduler.md, Beside kube-scheduler")


def _tainted(node: Document) -> bool:
    taints = node["spec"].get("taints") or ()
    return any(
        taint["key"] == RESERVED and taint["effect"] in ("NoSchedule", "NoExecute") for taint in taints
    )
