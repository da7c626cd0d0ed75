"""Rules about the claims of a gang's members: where their volumes are, and how many pods may use one.

Claims are those for volumes and those for devices.
"""

from collections import Counter
from collections.abc import Iterator

from podium.api.claims import claims_of_pod
from podium.api.devices import MAX_CONSUMERS
from podium.api.findings import Severity
from podium.api.podclaims import CrowdedClaim, crowded_claims
from podium.api.reads import Kind
from podium.audit.gangs import MIN_COUNT, shortfall_message
from podium.audit.survey import ONE_POD, AuditFinding, Survey, SurveyedGroup
from podium.rules.rule import Rule
from podium.text import count, some

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
