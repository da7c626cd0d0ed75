"""Rules about a gang's size: minCount compared with the existing pods, and with the existing nodes."""

from collections.abc import Iterator

from podium.api.reads import Kind
from podium.findings import Severity
from podium.rules.audit.commands import delete
from podium.rules.audit.survey import Found, Survey
from podium.rules.rule import Rule
from podium.wording import count, listed

_MEMBERS = frozenset({Kind.POD, Kind.POD_GROUP})

GANG_TOO_FEW_PODS = Rule(
    id="gang-too-few-pods",
    severity=Severity.WARNING,
    title="A gang has fewer live pods than its minCount",
    why="Members are held back until minCount of them exist, and no event says so.",
    source="kube-scheduler (GangScheduling, PreEnqueue)",
    needs=_MEMBERS,
)
GANG_TOO_LARGE = Rule(
    id="gang-too-large",
    severity=Severity.ERROR,
    title="A gang would not fit the cluster even if it were empty",
    why="minCount members must run at once. Counted by the nodes' allocatable, without taints and affinity.",
    source="KEP-4671 (gang scheduling)",
    needs=_MEMBERS | {Kind.NODE},
)


def gang_too_few_pods(survey: Survey) -> Iterator[Found]:
    """Find gangs below minCount, unless the missing members have finished: then the gang has run."""
    for each in survey.groups:
        group = each.group
        least = group.min_count if group is not None and group.metadata.deletionTimestamp is None else None
        finished = len(each.members) - each.live
        if least is None or len(each.members) >= least or (finished and not each.live):
            continue
        if each.live:
            message = f"it has {count(each.live, 'live pod')}, but minCount is {least}."
            fix = "create the missing pods, or lower minCount (mutable from v1alpha3 on)"
        else:
            message = f"no pod references it, and minCount is {least}."
            fix = f"create its pods, or, if it was left behind: {delete(each.ref)}"
        yield Found(GANG_TOO_FEW_PODS.finding(each.ref, "spec.schedulingPolicy.gang.minCount", message, fix))


def gang_too_large(survey: Survey) -> Iterator[Found]:
    """Find gangs of which minCount members can never run at once."""
    nodes = count(survey.capacity.nodes, "schedulable node")
    for each in survey.groups:
        short = each.shortfall
        if short is None:
            continue
        if short.resource:
            message = (
                f"its members ask for {short.need:,} {short.resource}; there are {short.room:,} on {nodes}."
            )
        else:
            asked = listed(
                [f"{_amount(amount)} {name}" for name, amount in sorted(short.request.items()) if amount]
            )
            message = (
                f"{short.need:,} of its pods must run at once, each asking for {asked or 'nothing'}; "
                f"there is room for {short.room:,} on {nodes} when empty."
            )
        yield Found(
            GANG_TOO_LARGE.finding(
                each.ref,
                "spec.schedulingPolicy.gang.minCount",
                message,
                "lower minCount or what its pods request, uncordon nodes, or add some",
            )
        )


def _amount(billionths: int) -> str:
    whole, rest = divmod(billionths, 10**9)
    if rest:
        return f"{billionths // 10**6:,}m"
    for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi")):
        if whole >= 2**power and whole % 2**power == 0:
            return f"{whole >> power:,}{unit}"
    return f"{whole:,}"
