"""A rule about composite groups, which Podium does not plan: their pods neither preempt nor are preempted.

Only the scheduler of such a cluster knows how large the unit of such a pod is. A plan that ignored it would
name wrong victims, so plans leave these pods out. Plans and the audit report the finding alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.groups import PodGroup
from podium.api.reads import COMPOSITE_VERSION, Kind
from podium.rules.audit.survey import AuditFinding, Survey
from podium.rules.rule import Rule
from podium.text import some

COMPOSITE_NOT_PLANNED = Rule(
    id="composite-not-planned",
    severity=Severity.WARNING,
    title="Groups belong to a composite group, which Podium does not plan",
    why="kube-scheduler 1.37 may evict all pods of a CompositePodGroup as one unit, and places them "
    "together. Podium places no pod of such a group. Under the semantics kep and 1.37 it evicts none. "
    "A preemptor therefore evicts other pods, or waits. Checked for 1.37 and later.",
    source="KEP-6012; kube-scheduler 1.37 (CompositePodGroup)",
    needs=frozenset({Kind.POD_GROUP}),
)
_FIX = "use one PodGroup for all pods that need each other, or leave these pods to kube-scheduler"


def composite_findings(groups: Iterable[PodGroup]) -> Iterator[Finding]:
    """Yield one finding for each composite group that some of these groups name as their parent."""
    children: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for group in groups:
        if group.composite:
            children[group.ref.namespace, group.composite].append(group.ref.name)
    for (namespace, name), names in sorted(children.items()):
        ref = ObjectRef(COMPOSITE_VERSION, "CompositePodGroup", namespace, name)
        many = len(names) > 1
        message = (
            f"PodGroup{'s' if many else ''} {some(names)} belong{'' if many else 's'} to it. Podium neither "
            f"places nor preempts {'their' if many else 'its'} pods."
        )
        yield COMPOSITE_NOT_PLANNED.finding(ref, "", message, _FIX)


def composite_not_planned(survey: Survey) -> Iterator[AuditFinding]:
    """Find composite groups by their children, because listing them needs another right."""
    for finding in composite_findings(survey.view.groups.values()) if survey.minor >= 37 else ():
        yield AuditFinding(finding, _FIX)
