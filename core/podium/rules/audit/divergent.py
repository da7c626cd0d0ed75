"""Divergence as findings: the result of `podium.groups.divergence` with its consequence and its fix."""

from collections.abc import Iterator

from podium.api.findings import Severity
from podium.api.groups import PodGroup
from podium.api.reads import Kind
from podium.groups.divergence import Divergence, DivergenceCause, policy_sentence, sentence
from podium.groups.messages import ServerInfo, because, consequence, policy_consequence
from podium.rules.audit.commands import delete, delete_pods, recreate, templates_of
from podium.rules.audit.survey import AuditFinding, Survey, SurveyedGroup
from podium.rules.rule import Rule

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
    for each in survey.groups:
        group, divergence = each.group, each.divergence
        if group is None or divergence is None or not divergence.priority.divergent:
            continue
        causes = "".join(f" {because(group, cause, divergence)}" for cause in divergence.causes)
        message = f"{sentence(divergence)}. {consequence(group, divergence, _server(survey))}{causes}"
        fix, remedy = _mend(survey, each, group, divergence)
        yield AuditFinding(POD_PRIORITY_DIFFERS.finding(each.ref, "spec.priority", message, fix), remedy)


def preemption_policy_differs(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose live members do not share one preemptionPolicy."""
    for each in survey.groups:
        group = each.group
        if group is None or each.divergence is None or not each.divergence.policy.divergent:
            continue
        divergence, policy = each.divergence, each.divergence.policy
        names = {name for differing in policy.differing for name in differing.live}
        pods = [pod for pod in each.staying if pod.metadata.name in names]
        owners = survey.owners(pods)
        yield AuditFinding(
            PREEMPTION_POLICY_DIFFERS.finding(
                each.ref,
                "spec.preemptionPolicy",
                f"{policy_sentence(divergence)}. {policy_consequence(group, divergence, _server(survey))}",
                f"name a class with preemptionPolicy {policy.expected} in {templates_of(owners)}, "
                "then recreate the pods",
            )
        )


def _server(survey: Survey) -> ServerInfo:
    return ServerInfo(survey.minor, survey.kubernetes)


def _mend(survey: Survey, each: SurveyedGroup, group: PodGroup, divergence: Divergence) -> tuple[str, str]:
    """Return the fix for one group, and the remedy that all groups with the same cause share."""
    names = sorted(name for differing in divergence.priority.differing for name in differing.live)
    wanted = set(names)
    owners = survey.owners(pod for pod in each.staying if pod.metadata.name in wanted)
    recreate_pods = recreate(owners) if owners else delete_pods(each.ref.namespace, names)
    recreate_group = f"{delete(each.ref)}, delete its pods, and recreate both"
    main = divergence.causes[0] if divergence.causes else None
    theirs = main.class_name if main is not None else ""
    match main.cause if main is not None else None:
        case DivergenceCause.CLASS_RECREATED:
            found = survey.view.classes.get(theirs)
            group_is_stale = found is not None and (found.value or 0) != divergence.priority.expected
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
    if theirs and len(names) == each.live - each.leaving:
        return f"{recreate_group} with priorityClassName: {theirs}", ""
    if group.priority_class_name:
        where = templates_of(owners)
        return f"set priorityClassName: {group.priority_class_name} in {where}, then recreate the pods", ""
    return f"{recreate_group} with one priorityClassName", ""
