"""Rules about a gang's size: minCount compared with the existing pods, and with the existing nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import NamedTuple

from podium.api.claims import claims_of_pod
from podium.api.core import Pod
from podium.api.devices import MAX_CONSUMERS
from podium.api.findings import ObjectRef, Severity
from podium.api.foreigngroups import ForeignGroup, ForeignKey, foreign_key
from podium.api.groups import PodGroup
from podium.api.podclaims import CrowdedClaim, crowded_claims
from podium.api.podrequests import CPU
from podium.api.reads import Kind
from podium.audit.capacity import MILLI, DomainShortfall, Shortfall
from podium.audit.survey import ONE_POD, AuditFinding, Survey, SurveyedGroup
from podium.groups.divergence import not_counting
from podium.groups.topology import straddling
from podium.rules.commands import delete, resource
from podium.rules.lastwave import last_wave_finding, short_gangs
from podium.rules.rule import Rule
from podium.text import count, listed, some

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


GANG_PINNED = Rule(
    id="gang-pinned",
    severity=Severity.ERROR,
    title="A gang does not fit the nodes that reach its volumes",
    why="A bound claim pins its pod to the nodes that its volume allows, by node affinity or zone labels. "
    "The pending members that minCount needs must fit there. The check uses the nodes' allocatable, without "
    "taints, affinity of pods, and claims that are not bound.",
    source="kube-scheduler (VolumeBinding, VolumeZone)",
    needs=frozenset({Kind.POD, Kind.POD_GROUP, Kind.NODE, Kind.CLAIM, Kind.VOLUME}),
)
GANG_SHARES_EXCLUSIVE_CLAIM = Rule(
    id="gang-shares-exclusive-claim",
    severity=Severity.ERROR,
    title="Members of a gang share a ReadWriteOncePod claim",
    why="One pod in the cluster may use such a claim, so the members that name it never run together. "
    "kube-scheduler 1.36 places a gang all the same, and one of these pods starts. Gangs of minCount 1 are "
    "not checked.",
    source="kube-scheduler (VolumeRestrictions; 1.36 and 1.37 run)",
    needs=frozenset({Kind.POD, Kind.POD_GROUP, Kind.CLAIM}),
)

GANG_EXCEEDS_CLAIM = Rule(
    id="gang-exceeds-claim",
    severity=Severity.ERROR,
    title="More pods of a gang share a claim for devices than the API server stores",
    why=f"A ResourceClaim has {MAX_CONSUMERS} consumers at most, and each pod that names it is one. "
    "So minCount of these pods never run together. kube-scheduler places them, and the binds of the further "
    "ones fail. A claim that a native PodGroup names itself has one consumer, the group.",
    source="API server (ResourceClaim status.reservedFor)",
    needs=frozenset({Kind.POD, Kind.POD_GROUP, Kind.RESOURCE_CLAIM}),
)


def gang_pinned(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs that the nodes which reach their volumes cannot hold."""
    fix = "add nodes there, lower the requests of its pods, or recreate the claims elsewhere"
    for surveyed in survey.groups:
        pinned = survey.pinned.get(surveyed.key)
        if pinned is not None:
            nodes = count(pinned.nodes, "schedulable node")
            where = f" ({some(pinned.places)})" if pinned.places else ""
            room = shortfall_message(pinned.shortfall, nodes)
            claims = f"claim{'' if len(pinned.claims) == 1 else 's'} {some(pinned.claims)}"
            message = f"{room} No other node reaches the volumes of {claims}{where}."
            yield AuditFinding(GANG_PINNED.finding(surveyed.ref, MIN_COUNT, message, fix))


def gang_shares_exclusive_claim(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs of which several members name one claim that one pod may use."""
    fix = "give each member a claim of its own, or use a claim that several pods may mount"
    for surveyed in survey.groups:
        shared = shared_claims(survey, surveyed)
        if surveyed.group is None or not shared:
            continue
        claim, pods = max(shared.items(), key=lambda item: (item[1], item[0]))
        more_claims = len(shared) - 1
        more = f" The same holds for {count(more_claims, 'other claim')}." if more_claims else ""
        message = (
            f"{pods:,} of its pods name claim {claim}, which one pod at a time may use ({ONE_POD}); "
            f"minCount is {surveyed.group.min_count:,}.{more}"
        )
        yield AuditFinding(GANG_SHARES_EXCLUSIVE_CLAIM.finding(surveyed.ref, MIN_COUNT, message, fix))


def gang_exceeds_claim(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs of which more members name one claim for devices than it takes."""
    fix = "let each member have a claim of its own (resourceClaimTemplateName), or lower minCount"
    for surveyed in survey.groups:
        crowded = claims_exceeded(survey, surveyed)
        if surveyed.group is not None and crowded:
            first, more_claims = crowded[0], len(crowded) - 1
            more = f" The same holds for {count(more_claims, 'other claim')}." if more_claims else ""
            message = (
                f"{first.pods:,} of its pods name ResourceClaim {first.name}, which takes {first.places:,} "
                f"of them; minCount is {surveyed.group.min_count:,}.{more}"
            )
            yield AuditFinding(GANG_EXCEEDS_CLAIM.finding(surveyed.ref, MIN_COUNT, message, fix))


def claims_exceeded(survey: Survey, surveyed: SurveyedGroup) -> list[CrowdedClaim]:
    """Return the claims for devices that take too few members of a gang for its minCount."""
    if surveyed.group is None:
        return []
    return crowded_claims(surveyed.group, surveyed.staying, survey.view.resource_claims)


def shared_claims(survey: Survey, surveyed: SurveyedGroup) -> dict[str, int]:
    """Return the exclusive claims that several members of a gang name, with the number of these members.

    A gang of minCount 1 has none, because its members need not run together.
    """
    exclusive = survey.exclusive_claims.get(surveyed.key.namespace)
    if exclusive is None or surveyed.group is None or (surveyed.group.min_count or 0) < 2:
        return {}
    users = Counter[str]()
    for pod in surveyed.staying:
        names = {claim.name for claim in claims_of_pod(pod) if not claim.ephemeral}
        users.update(names & exclusive)
    return {name: pods for name, pods in users.items() if pods > 1}


def shares_too_much(survey: Survey, surveyed: SurveyedGroup) -> bool:
    """Return whether a gang cannot reach minCount, because of the members that share one claim."""
    most = max(shared_claims(survey, surveyed).values(), default=1)
    least = surveyed.group.min_count if surveyed.group is not None else None
    return least is not None and 0 <= len(surveyed.staying) - least < most - 1


_TOPOLOGY_KEY = "spec.schedulingConstraints.topology[0].key"
_TOPOLOGY = "kube-scheduler (TopologyPlacement)"

TOPOLOGY_KEY_MISSING = Rule(
    id="topology-key-missing",
    severity=Severity.ERROR,
    title="No node has the topology label of a group",
    why="Domains are formed by the label, and nodes without it belong to none. So no scheduler finds a "
    "domain, and the group is never placed. A cluster without nodes is not checked.",
    source=_TOPOLOGY,
    needs=frozenset({Kind.POD_GROUP, Kind.NODE}),
)
GANG_LARGER_THAN_DOMAIN = Rule(
    id="gang-larger-than-domain",
    severity=Severity.ERROR,
    title="A gang does not fit any of its topology domains",
    why="minCount members must run in one domain, and do not fit the empty nodes of any. Running members "
    "bind the others to their domain. The check uses the nodes' allocatable, without taints, affinity and "
    "volumes.",
    source=_TOPOLOGY,
    needs=frozenset({Kind.POD, Kind.POD_GROUP, Kind.NODE}),
)
GROUP_STRADDLES_DOMAINS = Rule(
    id="group-straddles-domains",
    severity=Severity.WARNING,
    title="Members of a group run in several topology domains",
    why="Labels of nodes may change while pods run. kube-scheduler then places no further member of the "
    "group. Podium's scheduler places it where most members run.",
    source=_TOPOLOGY,
    needs=frozenset({Kind.POD, Kind.POD_GROUP, Kind.NODE}),
)


def topology_key_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose topology label no node has."""
    for surveyed in survey.groups:
        if surveyed.group is not None and survey.lacks_domains(surveyed):
            key = surveyed.group.topology
            message = f"no node has the label {key}, so no domain exists for its pods."
            fix = f"label the nodes with {key}, or recreate the group with a label that they have"
            yield AuditFinding(TOPOLOGY_KEY_MISSING.finding(surveyed.ref, _TOPOLOGY_KEY, message, fix), fix)


def gang_larger_than_domain(survey: Survey) -> Iterator[AuditFinding]:
    """Find gangs of which minCount members can never run in one domain."""
    for surveyed in survey.groups:
        short = survey.outsized.get(surveyed.key)
        if surveyed.group is not None and short is not None:
            message = _outsized_message(surveyed.group, short)
            fix = "lower minCount or the requests of its pods, or use a label with larger domains"
            yield AuditFinding(GANG_LARGER_THAN_DOMAIN.finding(surveyed.ref, MIN_COUNT, message, fix))


def group_straddles_domains(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose running members are not in one domain."""
    for surveyed in survey.groups:
        sentence = straddling_sentence(survey, surveyed)
        if sentence:
            fix = "restore the labels of the nodes, or recreate the pods of the group"
            yield AuditFinding(
                GROUP_STRADDLES_DOMAINS.finding(surveyed.ref, _TOPOLOGY_KEY, sentence, fix), fix
            )


def straddling_sentence(survey: Survey, surveyed: SurveyedGroup) -> str:
    """Return the sentence on members that are not in one domain; empty if they are, or no domain exists."""
    if surveyed.group is None or survey.lacks_domains(surveyed):
        return ""
    return straddling(survey.view, surveyed.group, empty_domain=survey.has_empty_domain(surveyed.key))


def waits_for_ever(survey: Survey, surveyed: SurveyedGroup) -> bool:
    """Return whether the topology constraint of a group keeps its members from running.

    Members that straddle domains stop kube-scheduler, which places native groups, and not Podium.
    """
    if survey.lacks_domains(surveyed) or surveyed.key in survey.outsized:
        return True
    stops = surveyed.key.native and any(not pod.spec.nodeName for pod in surveyed.staying)
    return stops and survey.read(Kind.NODE) and bool(straddling_sentence(survey, surveyed))


def _outsized_message(group: PodGroup, short: DomainShortfall) -> str:
    key = group.topology
    where = f"{count(short.nodes, 'schedulable node')} of {key}={short.name}"
    room = shortfall_message(short.shortfall, where)
    if short.running:
        return (
            f"{room} Running members hold their room, and bind the others to this domain: {short.running:,}."
        )
    if short.domains == 1:
        return f"{room} No other domain of {key} has a schedulable node."
    return f"{room} Of {short.domains:,} domains this is the nearest."
