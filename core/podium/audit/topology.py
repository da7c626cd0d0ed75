"""Rules about the topology constraint of a group: its label, its domains, and the nodes of its members."""

from collections.abc import Iterator

from podium.api.findings import Severity
from podium.api.groups import PodGroup
from podium.api.reads import Kind
from podium.audit.domains import DomainShortfall
from podium.audit.gangs import MIN_COUNT, shortfall_message
from podium.audit.survey import AuditFinding, Survey, SurveyedGroup
from podium.groups.topology import straddling
from podium.rules.rule import Rule
from podium.text import count

_FIELD = "spec.schedulingConstraints.topology[0].key"
_SOURCE = "kube-scheduler (TopologyPlacement)"

TOPOLOGY_KEY_MISSING = Rule(
    id="topology-key-missing",
    severity=Severity.ERROR,
    title="No node has the topology label of a group",
    why="Domains are formed by the label, and nodes without it belong to none. So no scheduler finds a "
    "domain, and the group is never placed. A cluster without nodes is not checked.",
    source=_SOURCE,
    needs=frozenset({Kind.POD_GROUP, Kind.NODE}),
)
GANG_LARGER_THAN_DOMAIN = Rule(
    id="gang-larger-than-domain",
    severity=Severity.ERROR,
    title="A gang does not fit any of its topology domains",
    why="minCount members must run in one domain, and do not fit the empty nodes of any. Running members "
    "bind the others to their domain. The check uses the nodes' allocatable, without taints, affinity and "
    "volumes.",
    source=_SOURCE,
    needs=frozenset({Kind.POD, Kind.POD_GROUP, Kind.NODE}),
)
GROUP_STRADDLES_DOMAINS = Rule(
    id="group-straddles-domains",
    severity=Severity.WARNING,
    title="Members of a group run in several topology domains",
    why="Labels of nodes may change while pods run. kube-scheduler then places no further member of the "
    "group. Podium's scheduler places it where most members run.",
    source=_SOURCE,
    needs=frozenset({Kind.POD, Kind.POD_GROUP, Kind.NODE}),
)


def topology_key_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups whose topology label no node has."""
    for surveyed in survey.groups:
        if surveyed.group is not None and survey.lacks_domains(surveyed):
            key = surveyed.group.topology
            message = f"no node has the label {key}, so no domain exists for its pods."
            fix = f"label the nodes with {key}, or recreate the group with a label that they have"
            yield AuditFinding(TOPOLOGY_KEY_MISSING.finding(surveyed.ref, _FIELD, message, fix), fix)


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
            yield AuditFinding(GROUP_STRADDLES_DOMAINS.finding(surveyed.ref, _FIELD, sentence, fix), fix)


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
