"""Why a waiting pod cannot use its resource claims, in plain words, whatever node it is for.

The rules are those of the scheduler (`podium.api.podclaims`, `devices.needs`), whose texts name no remedy.
Equal problems of the pods of a group are one reason. Claims are in the pod's namespace, so a tenant gets the
same answer as an administrator. A kind that was not read gives no reason.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from podium.answers.accounts.model import Wait
from podium.api.devices import MAX_CONSUMERS, ResourceClaim
from podium.api.membership import key_of
from podium.api.podclaims import (
    EntryClaim,
    claim_refusal,
    consumer_uids,
    crowded_claims,
    entry_claims,
    takes_consumer,
)
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, group_of
from podium.planner.devices.needs import class_refusal
from podium.planner.devices.plannedclaims import node_of
from podium.planner.preemption.target import Blocker
from podium.text import some

CLAIM_UNUSABLE = "ClaimUnusable"
CLAIM_ALLOCATED = "ClaimAllocated"
# The most reasons, each of which names some claims.
_REASONS = 5

_CREATE = "create it in the namespace of the pod, or correct spec.resourceClaims of the pod"
_OWN_CLAIMS = "let each pod have a claim of its own (resourceClaimTemplateName), or lower minCount"
_CONTROLLER = "check the events of the pod and the log of kube-controller-manager, which creates the claims"


class _ClaimState(NamedTuple):
    """A state of claims, and the remedy; it stops a pod, or else only limits its nodes."""

    what: str
    state: str
    fix: str
    stops: bool = True


_NO_SOURCE = _ClaimState(
    "entry of spec.resourceClaims",
    "neither a claim nor a template is named",
    "set resourceClaimName or resourceClaimTemplateName",
)
_NO_TEMPLATE = _ClaimState("ResourceClaimTemplate", "not found", _CREATE)
_NOT_CREATED = _ClaimState("claim of entry", "not created yet", _CONTROLLER)
_MISSING = _ClaimState("ResourceClaim", "not found", _CREATE)
_CREATED_BEFORE = _ClaimState("ResourceClaim", "not found, although it was created", _CONTROLLER)
_DELETED = _ClaimState("ResourceClaim", "being deleted", "wait until it is deleted, then create it again")
_FOREIGN = _ClaimState("ResourceClaim", "created for another pod or group", "delete the claim, or the pod")
_FULL = _ClaimState(
    "ResourceClaim",
    f"in use by {MAX_CONSUMERS} consumers, the most of a claim",
    "wait until one of them ends, or use another claim",
)
_ALLOCATED = _ClaimState(
    "ResourceClaim",
    "has its devices already, which only these nodes can use",
    "make room there, or delete the pods that use the claim",
    stops=False,
)


def claim_waits(pods: Iterable[Schedulable], view: ClusterReader, unread: Collection[str]) -> list[Wait]:
    """Return the problems of the pods' claims, those that stop a pod first."""
    found: dict[_ClaimState, dict[str, None]] = {}
    given = list(pods)
    problems = (each for pod in given for each in _problems(pod, view, unread))
    for problem, name in chain(_crowded(given, view, unread), problems):
        found.setdefault(problem, {})[name] = None
    ordered = sorted(found.items(), key=lambda item: not item[0].stops)
    return [
        Wait(
            cause=CLAIM_UNUSABLE if problem.stops else CLAIM_ALLOCATED,
            message=f"{problem.what} {some(names)}: {problem.state}",
            fix=problem.fix,
        )
        for problem, names in ordered[:_REASONS]
    ]


def with_claims(waits: Sequence[Wait], of_claims: Sequence[Wait]) -> list[Wait]:
    """Return all reasons in the order to address them: gates and missing pods come before claims."""
    causes = [each.cause in tuple(Blocker) for each in waits]
    first = causes.index(False) if False in causes else len(causes)
    stopping = [each for each in of_claims if each.cause == CLAIM_UNUSABLE]
    return [*waits[:first], *stopping, *waits[first:], *of_claims[len(stopping) :]]


def awaits_claims(pods: Iterable[Schedulable], view: ClusterReader) -> bool:
    """Return whether a pod waits for a claim to be created from a template."""
    return any(each.unnamed for pod in pods for each in entry_claims(pod, group_of(view, pod)))


def _crowded(
    pods: Sequence[Schedulable], view: ClusterReader, unread: Collection[str]
) -> Iterator[tuple[_ClaimState, str]]:
    """Yield the claims that take too few pods of a gang of the waiting pods."""
    groups = {key_of(group): group for pod in pods if (group := group_of(view, pod)) is not None}
    for key, group in groups.items() if Kind.RESOURCE_CLAIM not in unread else ():
        members = [
            pod
            for pod in view.members(key).values()
            if not pod.finished and pod.metadata.deletionTimestamp is None
        ]
        for name, users, places in crowded_claims(group, members, view.resource_claims):
            state = f"named by {users:,} pods of {key.name}, and takes {places:,} of them"
            yield _ClaimState("ResourceClaim", state, _OWN_CLAIMS), name


def _problems(
    pod: Schedulable, view: ClusterReader, unread: Collection[str]
) -> Iterator[tuple[_ClaimState, str]]:
    group, namespace = group_of(view, pod), pod.metadata.namespace or ""
    templates = {each.name: each.resourceClaimTemplateName for each in pod.spec.resourceClaims or ()}
    for entry in entry_claims(pod, group):
        template = templates.get(entry.entry)
        if entry.unnamed:
            if template is None:
                yield _NO_SOURCE, entry.entry
            elif Kind.CLAIM_TEMPLATE not in unread and (namespace, template) not in view.claim_templates:
                yield _NO_TEMPLATE, template
            else:
                yield _NOT_CREATED, entry.entry
        elif entry.name is not None and Kind.RESOURCE_CLAIM not in unread:
            claim = view.resource_claims.get((namespace, entry.name))
            problem = _claim_problem(pod, entry, claim, view, unread)
            where = ""
            if problem is _ALLOCATED and claim is not None:
                where = f" ({_reaching_nodes(claim)})"
            if problem is not None:
                yield problem, f"{entry.name}{where}"


def _claim_problem(
    pod: Schedulable,
    entry: EntryClaim,
    claim: ResourceClaim | None,
    view: ClusterReader,
    unread: Collection[str],
) -> _ClaimState | None:
    """Return the problem of a claim, None if the pod can use it on any node that has its devices."""
    refused = claim_refusal(pod, group_of(view, pod), entry, claim)
    if claim is None:
        return _CREATED_BEFORE if entry.created else _MISSING
    if refused:
        return _DELETED if claim.metadata.deletionTimestamp else _FOREIGN
    allocation = claim.status.allocation if claim.status is not None else None
    if allocation is None and Kind.DEVICE_CLASS in unread:
        return None
    if not takes_consumer(consumer_uids(claim), entry.consumer.uid):
        return _FULL
    unusable = class_refusal(claim, view.device_classes)
    if unusable:
        fix = "create the DeviceClass, or recreate the claim with another class"
        return _ClaimState("ResourceClaim", unusable, fix)
    return _ALLOCATED if allocation is not None and allocation.nodeSelector is not None else None


def _reaching_nodes(claim: ResourceClaim) -> str:
    allocation = claim.status.allocation if claim.status is not None else None
    node = node_of(allocation) if allocation is not None else ""
    return f"node {node}" if node else "nodes that its status.allocation.nodeSelector selects"
