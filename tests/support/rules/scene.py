"""The set-up of admission tests: builders, a small cluster, and edits by path.

The classes have names of their own, because the same cases run on real servers that other tests use, too.
"""

import copy
from typing import Any

import msgspec

from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.rules.admission import Operation, Profile, Request, Verdict, review
from podium.rules.policy import Policy

Document = dict[str, Any]

GOLD = "podium-test-gold"
NEVER = "podium-test-never"
WORKLOAD = "podium-test-train"
VERSIONS = {"1.36": "v1alpha2", "1.37": "v1beta1", "1.38": "v1beta1"}
REMOVED = object()

GANG: Document = {"schedulingPolicy": {"gang": {"minCount": 2}}}
BASIC: Document = {"schedulingPolicy": {"basic": {}}}


def priority_class(name: str = "c", **fields: Any) -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        **fields,
    }


def group(spec: Document, version: str = "v1beta1", *, native: bool = True, name: str = "g") -> Document:
    return _namespaced("PodGroup", spec, version, native=native, name=name)


def workload(spec: Document, version: str = "v1beta1", *, native: bool = True, name: str = "w") -> Document:
    return _namespaced("Workload", spec, version, native=native, name=name)


def _namespaced(kind: str, spec: Document, version: str, *, native: bool, name: str) -> Document:
    api_group = "scheduling.k8s.io" if native else "scheduling.podium.dev"
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{api_group}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def template(name: str = "workers", **fields: Any) -> Document:
    return {"name": name, "schedulingPolicy": {"basic": {}}, **fields}


def pod(labels: dict[str, str] | None = None, **spec: Any) -> Document:
    metadata: Document = {"name": "p", "namespace": "default"}
    if labels is not None:
        metadata["labels"] = labels
    containers = [{"name": "main", "image": "example.com/train:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def mode(version: str, *, whole: bool) -> Any:
    """Return a disruption mode in a version's shape."""
    if version == "v1alpha2":
        return "PodGroup" if whole else "Pod"
    return {"all": {}} if whole else {"single": {}}


def classes() -> list[Document]:
    """Return the classes that every case may name."""
    return [priority_class(GOLD, value=1000), priority_class(NEVER, value=2000, preemptionPolicy="Never")]


def cluster(*documents: Document) -> ClusterState:
    """Index some objects together with the classes."""
    state = ClusterState(native_served=True)
    for document in [*classes(), *documents]:
        read = READS[document["apiVersion"], document["kind"]]
        state.apply(read.neutral(msgspec.convert(document, read.type)))
    return state


def profile(
    kubernetes: str = "1.37", rules: str = "upstream", *, served: bool = True, policy: Policy | None = None
) -> Profile:
    return Profile(kubernetes=kubernetes, rules=rules, workload_api=served, policy=policy or Policy())


def create(document: Document, state: ClusterState | None = None, by: Profile | None = None) -> Verdict:
    """Review the creation of an object."""
    request = Request(operation=Operation.CREATE, object=document)
    return review(request, cluster() if state is None else state, by or profile())


def update(
    new: Document,
    old: Document | None,
    state: ClusterState | None = None,
    by: Profile | None = None,
    *,
    subresource: str = "",
) -> Verdict:
    """Review the update of an object."""
    request = Request(operation=Operation.UPDATE, object=new, old=old, subresource=subresource)
    return review(request, cluster() if state is None else state, by or profile())


def stored(document: Document, state: ClusterState | None = None, by: Profile | None = None) -> Document:
    """Return an object as the server stores it, with the fields that only a server sets."""
    verdict = create(document, state, by)
    assert verdict.admitted is not None, verdict.message
    made = {"uid": "1111", "resourceVersion": "7", "creationTimestamp": "2026-11-21T09:00:00Z"}
    return {**verdict.admitted, "metadata": {**verdict.admitted["metadata"], **made}}


def changed(document: Document, path: str, value: Any) -> Document:
    """Return a copy with one field set, or REMOVED; `spec.podGroupTemplates.0.name`."""
    result = copy.deepcopy(document)
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = result
    for step in parents:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    if value is REMOVED:
        del place[last]
    else:
        place[last] = value
    return result


def rules_of(verdict: Verdict) -> list[str]:
    """Return the ids of the findings."""
    return [finding.rule for finding in verdict.findings]
