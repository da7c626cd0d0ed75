"""Divergence as findings: the result of `podium.groups.divergence` with its consequence and its fix."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from podium.api.core import Pod
from podium.api.findings import ObjectRef, Severity
from podium.api.groups import PodGroup
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import ClusterReader
from podium.groups.divergence import Divergence, DivergenceCause, policy_sentence, sentence
from podium.groups.messages import ServerInfo, because, consequence, policy_consequence
from podium.rules.commands import delete, delete_pods, recreate, templates_of
from podium.rules.rule import Rule

# Returns the distinct topmost controllers of pods.
OwnersOf = Callable[[Iterable[Pod]], list[ObjectRef]]

_MEMBERS = frozenset({Kind.POD, Kind.POD_GROUP})

POD_PRIORITY_DIFFERS = Rule(
    id="pod-priority-differs",
    severity=Severity.ERROR,
    title="A live pod's priority differs from its group's",
    why="Kubernetes 1.36 silently uses the group's priority; from 1.37 on the group is not "
    "scheduled. Only values are compared: a recreated class can differ under one name, and two "
    "classes of one value do not differ.",
    source="KEP-5710; kube-scheduler 1.37 (validatePodGroup)",
    needs=_MEMBERS,
)
PREEMPTION_POLICY_DIFFERS = Rule(
    id="preemption-policy-differs",
    severity=Severity.WARNING,
    title="Members of a group do not share its preemptionPolicy",
    why="In 1.36 one member with Never prevents the group from preempting; from 1.37 on the group "
    "is not scheduled. If the group has no policy (gate PodGroupPreemptionPolicy off), its "
    "members must agree.",
    source="KEP-5710; kube-scheduler 1.37 (validatePodGroup)",
    needs=_MEMBERS,
)


def pod_priority_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups with a live member of another integer."""
    for surveyed in survey.groups:
        group, divergence = surveyed.group, surveyed.divergence
        if group is None or divergence is None or not divergence.priority.divergent:
            continue
        causes = "".join(f" {because(group, cause, divergence)}" for cause in divergence.causes)
        message = f"{sentence(divergence)}. {consequence(group, divergence, _server(survey))}{causes}"
        fix, remedy = priority_fix(survey.view, group, divergence, surveyed.staying, survey.owners)
        yield AuditFinding(POD_PRIORITY_DIFFERS.finding(surveyed.ref, "spec.priority", message, fix), remedy)


def preemption_policy_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose live members do not share one preemptionPolicy."""
    for surveyed in survey.groups:
        group = surveyed.group
        if group is None or surveyed.divergence is None or not surveyed.divergence.policy.divergent:
            continue
        divergence = surveyed.divergence
        yield AuditFinding(
            PREEMPTION_POLICY_DIFFERS.finding(
                surveyed.ref,
                "spec.preemptionPolicy",
                f"{policy_sentence(divergence)}. {policy_consequence(group, divergence, _server(survey))}",
                policy_fix(divergence, surveyed.staying, survey.owners),
            )
        )


def _server(survey: Survey) -> ServerInfo:
    return ServerInfo(survey.minor, survey.kubernetes)


def priority_fix(
    view: ClusterReader, group: PodGroup, divergence: Divergence, staying: Sequence[Pod], owners_of: OwnersOf
) -> tuple[str, str]:
    """Return the fix for one group, and the remedy that all groups with the same cause share.

    `staying` are the members that are neither finished nor terminating. `podium why` gives the same fix.
    """
    names = sorted(name for differing in divergence.priority.differing for name in differing.live)
    differing_names = set(names)
    owners = owners_of(pod for pod in staying if pod.metadata.name in differing_names)
    recreate_pods = recreate(owners) if owners else delete_pods(group.ref.namespace, names)
    recreate_group = f"{delete(group.ref)}; delete its pods; recreate both"
    main = divergence.causes[0] if divergence.causes else None
    theirs = main.class_name if main is not None else ""
    match main.cause if main is not None else None:
        case DivergenceCause.CLASS_RECREATED:
            priority_class = view.classes.get(theirs)
            group_is_stale = (
                priority_class is not None and (priority_class.value or 0) != divergence.priority.expected
            )
            remedy = f"recreate objects that are older than the current value of PriorityClass {theirs}"
            return (recreate_group if group_is_stale else recreate_pods), remedy
        case DivergenceCause.DEFAULT_CHANGED:
            default = theirs or group.priority_class_name
            remedy = f"recreate objects that are older than the default class {default}"
            return (f"{recreate_group} with priorityClassName: {theirs}" if theirs else recreate_pods), remedy
        case DivergenceCause.UNRESOLVED:
            return recreate_group if group.priority is None else recreate_pods, ""
        case _:
            pass
    if theirs and len(names) == len(staying):
        return f"{recreate_group} with priorityClassName: {theirs}", ""
    if group.priority_class_name:
        where = templates_of(owners)
        return f"set priorityClassName: {group.priority_class_name} in {where}, then recreate the pods", ""
    return f"{recreate_group} with one priorityClassName", ""


def policy_fix(divergence: Divergence, staying: Sequence[Pod], owners_of: OwnersOf) -> str:
    """Return the fix for a group whose members do not share one preemptionPolicy."""
    names = {name for differing in divergence.policy.differing for name in differing.live}
    owners = owners_of(pod for pod in staying if pod.metadata.name in names)
    where = templates_of(owners)
    return (
        f"name a class with preemptionPolicy {divergence.policy.expected} in {where}, then recreate the pods"
    )
