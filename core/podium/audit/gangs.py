"""Rules about a gang's size: minCount compared with the existing pods, and with the existing nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import NamedTuple

from podium.api.core import Pod
from podium.api.findings import ObjectRef, Severity
from podium.api.foreigngroups import ForeignGroup, ForeignKey, foreign_key
from podium.api.groups import PodGroup
from podium.api.podrequests import CPU
from podium.api.reads import Kind
from podium.audit.capacity import MILLI, Shortfall
from podium.audit.survey import AuditFinding, Survey
from podium.groups.messages import not_counting
from podium.rules.commands import delete, resource
from podium.rules.lastwave import last_wave_finding, short_gangs
from podium.rules.rule import Rule
from podium.text import count, listed

_MEMBERS = frozenset({Kind.POD, Kind.POD_GROUP})
# The field of a finding about the size of a gang.
MIN_COUNT = "spec.schedulingPolicy.gang.minCount"
MIN_MEMBER = "spec.minMember"

GANG_TOO_FEW_PODS = Rule(
    id="gang-too-few-pods",
    severity=Severity.WARNING,
    title="A gang has fewer live pods than its minCount",
    why="Members are not scheduled until minCount of them exist, and no event reports it. The same holds for "
    "minMember of the PodGroups of the coscheduling plugin, Volcano and KAI.",
    source="kube-scheduler (GangScheduling, PreEnqueue); scheduler-plugins (coscheduling, PreFilter); "
    "ray-project/kuberay#5205",
    needs=frozenset({Kind.POD}),
)
GANG_TOO_LARGE = Rule(
    id="gang-too-large",
    severity=Severity.ERROR,
    title="A gang does not fit even the empty cluster",
    why="minCount members must run at once. The check uses the nodes' allocatable, without taints "
    "and affinity.",
    source="KEP-4671 (gang scheduling)",
    needs=_MEMBERS | {Kind.NODE},
)


class ForeignShortage(NamedTuple):
    """The sentence on a group of another project that is short of pods, and the fix."""

    message: str
    fix: str


def gang_too_few_pods(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs below minCount. Finished members count only while none waits: then the gang has run.

    A gang whose pods are expected to be missing (a suspended Job, a manifest) is not reported.
    """
    for surveyed in survey.groups:
        group = surveyed.group
        least = group.min_count if group is not None and group.metadata.deletionTimestamp is None else None
        finished = len(surveyed.members) - surveyed.live
        planned = survey.planned_members.get(surveyed.key, ())
        if any(pods.expected for pods in planned) or _owner_suspended(survey, group):
            continue
        waits = any(not pod.spec.nodeName and not pod.finished for pod in surveyed.members.values())
        present = surveyed.live if waits else len(surveyed.members)
        if least is None or present >= least or (finished and not surveyed.live):
            continue
        if surveyed.live and waits and finished:
            live = count(surveyed.live, "live pod")
            message = f"it has {live}, {not_counting(finished)}, and minCount is {least}."
            fix = f"lower minCount to {surveyed.live} (mutable from v1alpha3 on)"
        elif surveyed.live:
            message = f"it has {count(surveyed.live, 'live pod')}, but minCount is {least}."
            fix = "create the missing pods, or lower minCount (mutable from v1alpha3 on)"
        else:
            message = f"no pod references it, and minCount is {least}."
            fix = f"create its pods, or delete an orphaned group: {delete(surveyed.ref)}"
        yield AuditFinding(GANG_TOO_FEW_PODS.finding(surveyed.ref, MIN_COUNT, message, fix))
    yield from _foreign_too_few(survey)


def _foreign_too_few(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups of other projects that are short of pods while one waits; finished pods count there."""
    groups = survey.view.foreign_groups
    members: defaultdict[ForeignKey, list[Pod]] = defaultdict(list)
    for pod in survey.view.pods.values() if groups else ():
        key = foreign_key(pod)
        if key is not None and key in groups:
            members[key].append(pod)
    for key, group in groups.items():
        short = foreign_shortage(group, members[key])
        if short is not None:
            message = f"{short.message}."
            finding = GANG_TOO_FEW_PODS.finding(group.object_ref, MIN_MEMBER, message, short.fix)
            yield AuditFinding(finding)


def foreign_shortage(group: ForeignGroup, members: Sequence[Pod]) -> ForeignShortage | None:
    """Return why members of another project's group wait: fewer than minMember exist. Else None."""
    holders = sorted({group.group_key.holder(pod.scheduler) for pod in members if pod.pending} - {""})
    if not holders or len(members) >= group.min_member:
        return None
    number = len(members)
    ref = group.object_ref
    exist = f"{count(number, 'pod')} of {ref} exist{'s' if number == 1 else ''}"
    patch = quote(f'{{"spec":{{"minMember":{number}}}}}')
    command = f"kubectl patch {resource(ref)} {quote(ref.name)} -n {quote(ref.namespace)}"
    return ForeignShortage(
        f"{exist}, and minMember is {group.min_member}: {listed(holders)} places none that waits",
        f"create the missing pods, or lower minMember: {command} --type=merge -p {patch}",
    )


def _owner_suspended(survey: Survey, group: PodGroup | None) -> bool:
    """Return whether an owner of a group is suspended, as by Kueue; its template need not name the group."""
    owners = (group.metadata.ownerReferences if group is not None else None) or ()
    namespace = group.ref.namespace if group is not None else ""
    refs = (ObjectRef(owner.apiVersion, owner.kind, namespace, owner.name) for owner in owners)
    return any(ref in survey.view.owners and survey.view.owners[ref].suspended for ref in refs)


def gang_too_large(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs of which minCount members can never run at once."""
    nodes = count(survey.capacity.nodes, "schedulable node")
    for surveyed in survey.groups:
        if surveyed.shortfall is not None:
            message = shortfall_message(surveyed.shortfall, nodes)
            fix = "lower minCount or the requests of its pods, or uncordon or add nodes"
            yield AuditFinding(GANG_TOO_LARGE.finding(surveyed.ref, MIN_COUNT, message, fix))


def shortfall_message(short: Shortfall, nodes: str) -> str:
    """Return what a gang requests and what its `nodes`, in words, have."""
    if short.resource:
        return f"its members request {short.need:,} {short.resource}; {short.room:,} available on {nodes}."
    asked = listed([f"{amount_text(name, amount)} {name}" for name, amount in sorted(short.request.items())])
    return (
        f"{short.need:,} of its pods must run at once, each with requests of {asked or 'nothing'}; "
        f"there is room for {short.room:,} on {nodes} when empty."
    )


def amount_text(resource: str, amount: int) -> str:
    """Return an amount of a resource (milli cpu, or units) as a quantity."""
    whole, rest = divmod(amount, MILLI if resource == CPU else 1)
    if rest:
        return f"{amount:,}m"
    for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi")):
        if whole >= 2**power and whole % 2**power == 0:
            return f"{whole >> power:,}{unit}"
    return f"{whole:,}"


def gang_last_wave(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs of Jobs whose last wave is smaller than minCount, unless the pods of that wave exist."""
    short = list(short_gangs(survey.view, survey.view.owners, survey.minor))
    live = _live_pods(survey, {ref for gang in short for ref in gang.owners})
    members = {surveyed.key: surveyed.live for surveyed in survey.groups} if short else {}
    for gang in short:
        own = sum(live[ref] for ref in gang.owners)
        unowned = max(0, members.get(gang.key, 0) - own) if gang.key is not None else 0
        left = sum(member.run.left for member in gang.members)
        started = own or any(member.run.succeeded for member in gang.members)
        # The rules about too few pods report a gang that cannot start, or whose last pods wait.
        if own >= left or gang.final() + unowned >= gang.least or not (started or gang.wave(0) >= gang.least):
            continue
        yield AuditFinding(last_wave_finding(gang))


def _live_pods(survey: Survey, owners: set[ObjectRef]) -> Counter[ObjectRef]:
    """Return the number of live pods of some owners."""
    live: Counter[ObjectRef] = Counter()
    for pod in survey.view.pods.values() if owners else ():
        if not pod.finished:
            live.update(ref for ref in survey.chain(pod) if ref in owners)
    return live
