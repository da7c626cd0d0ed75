"""Run the audit: apply the rules to a cluster's objects and build the report.

Pure: a view in, a report out. A rule whose input could not be read is disabled and named in the report. The
report therefore never treats unread objects as missing. The same objects in any order give the same report. A
triage decides which findings count; without a triage all of them count.

The first sentence of a report has the groups and pods that the chosen version will not schedule. A group
counts with all its live pods, including running pods: they run until they are evicted or the group restarts,
and then wait. Only refusals of the scheduler itself count. Groups of Podium's scheduler are not blocked by
divergence, because it still places a group in doubt in free room. Warnings about missing pods (fewer than
minCount) do not count, because the pods may appear within seconds.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from podium.answers.audits.baseline import Looked, Triage, partly_checked
from podium.answers.audits.report import (
    AuditReport,
    AuditSummary,
    Blocked,
    BlockedShare,
    DivergentGroup,
    DivergentPod,
    FixShare,
    NotChecked,
    PriorityShare,
)
from podium.api.core import POD_SCHEDULED, PODIUM_SCHEDULER, Pod
from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.groups import NATIVE_GROUP
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.minors import MINORS as KNOWN_MINORS
from podium.api.minors import NEAREST, minor_of, nearest, prerelease_note, proven_minor
from podium.api.reads import Kind
from podium.audit.gangs import GANG_TOO_FEW_PODS, claims_exceeded, shares_too_much, waits_for_ever
from podium.audit.survey import AuditFinding, Survey, SurveyedGroup, is_populated
from podium.audit.table import CHECKS, AuditCheck, Part, unknown_rule
from podium.cluster.reader import ClusterReader
from podium.documents.load import collector_paused
from podium.documents.reading import ClusterReading, objects_read
from podium.errors import QuestionError
from podium.groups.divergence import Divergence, is_refused
from podium.groups.inferred import role
from podium.rules.lastwave import GANG_LAST_WAVE
from podium.text import count

# The Kubernetes minor versions that the rules know.
MINORS = {minor.name: number for number, minor in KNOWN_MINORS.items()}
DEFAULT_MINOR = "1.37"
FIXES_SHOWN = 10
EVERYTHING_COUNTS = Triage()
TrackChecks = Callable[[Sequence[AuditCheck]], Iterable[AuditCheck]]


class Ran(NamedTuple):
    """The findings in report order, the rules that ran, and the rules that did not run or saw only a part."""

    found: list[AuditFinding]
    rules: frozenset[str]
    not_checked: list[NotChecked]


def audit(
    cluster: ClusterReading,
    *,
    kubernetes: str | None = None,
    chosen_by: str = "set by the argument kubernetes",
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    triage: Triage = EVERYTHING_COUNTS,
    track: TrackChecks = iter,
) -> AuditReport:
    """Return the report of the rules on a cluster as it was read. Each rule names its source (docs/rules.md).

    `cluster` is the whole cluster or a part. `kubernetes` is one of MINORS, and `chosen_by` says how it was
    set; without it the API server decides, else the newest kubelet. `select` (empty: all) and `ignore` are
    rule ids. `triage` decides which findings count. `track` yields the checks again, to show the progress.
    Raises QuestionError for the fields `kubernetes`, `select` and `ignore`, and ReadError for an invalid
    quantity.
    """
    loaded = cluster.near
    if kubernetes is None:
        kubernetes, chosen_by = choose_minor(loaded.state, loaded.server)
    with collector_paused(), loaded.origins.placed():
        report = audit_view(
            loaded.state,
            kubernetes=kubernetes,
            chosen_by=f"{chosen_by}{prerelease_note(MINORS.get(kubernetes, 0))}",
            objects=objects_read(loaded),
            skipped=loaded.skipped,
            select=select,
            ignore=ignore,
            namespace=loaded.scope.namespace,
            selector=loaded.scope.selector,
            triage=triage,
            track=track,
        )
    notes = {"skippedFiles": loaded.notes.skipped, "duplicates": loaded.notes.duplicates}
    summary = msgspec.structs.replace(report.summary, **notes)
    return msgspec.structs.replace(report, summary=summary)


def audit_view(
    view: ClusterReader,
    *,
    kubernetes: str,
    chosen_by: str,
    objects: Mapping[str, int] | None = None,
    skipped: Mapping[str, int] | None = None,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    namespace: str = "",
    selector: str = "",
    triage: Triage = EVERYTHING_COUNTS,
    track: TrackChecks = iter,
) -> AuditReport:
    """Return the report of the rules on a view.

    `kubernetes` is one of MINORS, `chosen_by` says how it was found. `objects` and `skipped` count the
    objects that were read and those that were passed over, by kind. `select` (empty: all) and `ignore` are
    rule ids. `namespace` and `selector` name the part of the cluster that was read, empty for the whole
    cluster. `triage` decides which findings count. Raises QuestionError as `audit` does, and ObjectError for
    an invalid quantity.
    """
    survey = Survey(view, _minor(kubernetes), selected=bool(selector))
    audited, ran, not_checked = run_rules(
        survey, _chosen(select, ignore), namespace, selector, triage, track=track
    )
    looked = Looked(ran, partly_checked(not_checked), namespace, selector)
    triaged = triage.sort([item.finding for item in audited], looked)
    counting = set(triaged.counting)
    severities = Counter(finding.severity for finding in triaged.counting)
    total, by_namespace, by_owner = blocked(survey, blocked_groups(survey))
    summary = AuditSummary(
        kubernetes=kubernetes,
        chosenBy=chosen_by,
        errors=severities[Severity.ERROR],
        warnings=severities[Severity.WARNING],
        infos=severities[Severity.INFO],
        objects=dict(sorted((objects or {}).items())),
        skipped=dict(sorted((skipped or {}).items())),
        notChecked=not_checked,
        blocked=total,
        blockedByNamespace=by_namespace,
        blockedByOwner=by_owner,
        priorities=_priorities(survey),
        fixes=fix_shares(item for item in audited if item.finding in counting)[:FIXES_SHOWN],
        waiting=sum(item.finding.rule in (GANG_TOO_FEW_PODS.id, GANG_LAST_WAVE.id) for item in audited),
        waitingPods=sum(map(_waits, view.pods.values())),
        strayPods=sum(
            len(members) for key, members in view.referenced_groups().items() if key not in view.groups
        ),
        ignored=len(triaged.ignored),
        ignores=triaged.ignores,
        baseline=triaged.compared,
    )
    return AuditReport(
        summary=summary,
        findings=triaged.counting,
        groups=_divergent_groups(survey),
        known=triaged.known,
        ignored=triaged.ignored,
        gone=triaged.gone,
    )


def run_rules(
    survey: Survey,
    checks: Iterable[AuditCheck],
    namespace: str,
    selector: str,
    triage: Triage = EVERYTHING_COUNTS,
    *,
    track: TrackChecks = iter,
) -> Ran:
    """Run the checks whose input was read, and return their findings."""
    parts = {}
    if namespace:
        parts[Part.NAMESPACE] = f"only namespace {namespace} was read"
    if selector:
        parts[Part.SELECTION] = f"only what matches {selector} was read"
    view = survey.view
    runnable, not_checked = _runnable(checks, survey.unread, parts)
    audited = [_finished(finding, view, triage) for check in track(runnable) for finding in check.run(survey)]
    audited.sort(key=lambda item: _order(item.finding))
    return Ran(audited, frozenset(check.rule.id for check in runnable), not_checked)


def _waits(pod: Pod) -> bool:
    """Return whether the status of a pod says that no scheduler has placed it."""
    scheduled = None if pod.status is None or pod.finished else pod.status.condition(POD_SCHEDULED)
    return not pod.spec.nodeName and scheduled is not None and scheduled.status == "False"


def choose_minor(view: ClusterReader, server: str = "", *, assumed: str = DEFAULT_MINOR) -> tuple[str, str]:
    """Return the Kubernetes minor to audit for, and how it was found.

    `server` is the version of the API server, or empty. Among kubelets the newest decides: a control plane is
    never older than its kubelets, and an old kubelet may lag three minors behind. Without both, v1alpha2
    decides, which one minor serves. If no version is known, the result is `assumed`. A kubelet that is older
    than all minors decides only in a cluster, because a folder of manifests may have an old Node as a sample.
    """
    served = minor_of(server)
    if served is not None:
        known = nearest(served, MINORS.values())
        exact = known == f"1.{served}"
        return known, f"the API server is {server}{'' if exact else f'; {NEAREST}'}"
    versions: Counter[int] = Counter()
    for node in view.nodes.values():
        info = node.status.nodeInfo if node.status is not None else None
        minor = minor_of(info.kubeletVersion or "") if info is not None else None
        if minor is not None:
            versions[minor] += 1
    why = "no node has a version"
    newest = max(versions, default=0)
    if 0 < newest < min(MINORS.values()) and not is_populated(view):
        why = f"the input is no cluster, so its kubelet 1.{newest} does not count"
        versions.clear()
    if not versions:
        refs = [stored.ref for index in (view.groups, view.workloads) for stored in index.values()]
        proven = proven_minor(ref.apiVersion for ref in refs if ref.group == NATIVE_GROUP)
        return proven or (assumed, f"assumed, because {why}")
    known = nearest(newest, MINORS.values())
    how = f"the newest kubelet of {count(versions.total(), 'node')}"
    return known, how if known == f"1.{newest}" else f"{how} is 1.{newest}; {NEAREST}"


def _finished(audited: AuditFinding, view: ClusterReader, triage: Triage) -> AuditFinding:
    """Return a finding with its stable name, and with the severity that the triage has for its rule."""
    finding = audited.finding
    name = lasting_name(view, finding.object)
    severity = triage.severities.get(finding.rule, finding.severity)
    if name == finding.object.name and severity is finding.severity:
        return audited
    lasting = "" if name == finding.object.name else name
    return audited._replace(finding=msgspec.structs.replace(finding, lasting_name=lasting, severity=severity))


def _order(finding: Finding) -> tuple[object, ...]:
    return (*finding.sort_key, finding.object.apiVersion, finding.message)


def _minor(kubernetes: str) -> int:
    if kubernetes not in MINORS:
        problem = f"{kubernetes!r} is not known. Choose one of {', '.join(MINORS)}"
        raise QuestionError("kubernetes", problem)
    return MINORS[kubernetes]


def check_rules(select: Iterable[str], ignore: Iterable[str]) -> None:
    """Raise QuestionError for the id of a rule that does not exist."""
    for field, ids in (("select", select), ("ignore", ignore)):
        for problem in filter(None, map(unknown_rule, ids)):
            raise QuestionError(field, problem)


def _chosen(select: Collection[str], ignore: Collection[str]) -> list[AuditCheck]:
    check_rules(select, ignore)
    return [
        check for check in CHECKS if (not select or check.rule.id in select) and check.rule.id not in ignore
    ]


def _runnable(
    checks: Iterable[AuditCheck], unread: Mapping[str, str], parts: Mapping[Part, str]
) -> tuple[list[AuditCheck], list[NotChecked]]:
    """Return the checks that can run, and the kinds whose absence stops checks or limits what they see."""
    runnable: list[AuditCheck] = []
    kept: dict[tuple[str, str], list[str]] = defaultdict(list)
    for check in checks:
        missing = [kind for kind in check.rule.needs if kind in unread]
        for kind in (*missing, *(kind for kind in check.also if kind in unread)):
            kept[kind, unread[kind]].append(check.rule.id)
        misled = [parts[limit] for limit in parts if limit in check.misled_by]
        if misled and not missing:
            kept[Kind.POD, ", ".join(misled)].append(check.rule.id)
        elif not missing:
            runnable.append(check)
    return runnable, [NotChecked(str(kind), why, sorted(ids)) for (kind, why), ids in sorted(kept.items())]


def _priorities(survey: Survey) -> list[PriorityShare]:
    pods: Counter[int] = Counter()
    classes: dict[int, set[str]] = defaultdict(set)
    for use in survey.stored:
        pods[use.priority or 0] += use.pods
        classes[use.priority or 0].add(use.class_name)
    return [
        PriorityShare(value, sorted(name for name in classes[value] if name), pods[value])
        for value in sorted(pods, reverse=True)
    ]


def fix_shares(findings: Iterable[AuditFinding]) -> list[FixShare]:
    """Return the fixes, each for one cause that findings share, those that clear most findings first."""
    rules: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
    for audited in findings:
        finding = audited.finding
        rules[audited.remedy or finding.fix][finding.severity.rank, finding.rule] += 1
    shares = []
    for fix, ids in rules.items():
        rank, rule = min(ids, key=lambda key: (-ids[key], key))
        shares.append((-ids.total(), rank, FixShare(fix, rule, ids.total())))
    shares.sort(key=lambda share: (*share[:2], share[2].rule, share[2].fix))
    return [share for _, _, share in shares]


def _divergent_groups(survey: Survey) -> list[DivergentGroup]:
    groups = [
        _divergent(group.ref, "PodGroup", group.divergence, group.staying)
        for group in survey.groups
        if group.divergence is not None and group.divergence.priority.divergent
    ]
    groups += [
        _divergent(group.ref, "inferred", group.divergence, group.present) for group in survey.inferred
    ]
    return sorted(groups, key=lambda group: (group.namespace, group.name, group.apiVersion))


def _divergent(ref: ObjectRef, source: str, divergence: Divergence, pods: Iterable[Pod]) -> DivergentGroup:
    values = {name: variant.value for variant in divergence.priority.differing for name in variant.live}
    differing = [(role(pod), pod.metadata.name) for pod in pods if pod.metadata.name in values]
    return DivergentGroup(
        apiVersion=ref.apiVersion,
        namespace=ref.namespace,
        name=ref.name,
        source=source,
        priority=divergence.priority.expected,
        members=divergence.members,
        divergent=[DivergentPod(name, values[name], pod_role) for pod_role, name in sorted(differing)],
    )


class _Tally:
    def __init__(self) -> None:
        self.groups = 0
        self.pods = 0
        self.accelerators: Counter[str] = Counter()

    def add(self, pods: int, accelerators: dict[str, int]) -> None:
        self.pods += pods
        for name, number in accelerators.items():
            self.accelerators[name] += number * pods

    def result(self) -> Blocked:
        return Blocked(self.groups, self.pods, dict(sorted(self.accelerators.items())))


def blocked_groups(survey: Survey) -> list[SurveyedGroup]:
    """Return the groups whose live pods are not scheduled now, or will not be if they are recreated."""
    return [group for group in survey.groups if _is_blocked(survey, group)]


def blocked(
    survey: Survey, groups: Iterable[SurveyedGroup]
) -> tuple[Blocked, list[BlockedShare], list[BlockedShare]]:
    """Return the totals of some groups: overall, by namespace and by owner, most pods first."""
    total = _Tally()
    namespaces: dict[str, _Tally] = defaultdict(_Tally)
    owners: dict[str, _Tally] = defaultdict(_Tally)
    for group in groups:
        here = namespaces[group.key.namespace]
        theirs: set[str] = set()
        shares = Counter((_owner(survey, pod), survey.capacity.shape(pod)) for pod in group.present)
        for (owner, shape), number in shares.items():
            for tally in (total, here, owners[owner]):
                tally.add(number, shape.devices())
            theirs.add(owner)
        for tally in (total, here, *(owners[owner] for owner in theirs)):
            tally.groups += 1
    return total.result(), _shares(namespaces.items()), _shares(owners.items())


def _is_blocked(survey: Survey, group: SurveyedGroup) -> bool:
    if not group.stored or (group.key.native and survey.minor <= 35):
        return False
    if group.group is None:
        return survey.read(Kind.POD_GROUP) and not survey.selected
    if group.shortfall is not None or group.key in survey.pinned or _shares_claim(survey, group):
        return True
    if waits_for_ever(survey, group):
        return True
    if not group.key.native or group.divergence is None:
        return False
    by_podium = group.schedulers == {PODIUM_SCHEDULER}
    if group.is_split(survey.minor) or (not by_podium and survey.is_in_refused_tree(group)):
        return True
    return is_refused(group.group, group.divergence, survey.minor)


def _shares_claim(survey: Survey, group: SurveyedGroup) -> bool:
    """Return whether members share a claim that too few pods may use.

    1.36 places all members with a claim of one pod, and one starts.
    """
    if survey.read(Kind.RESOURCE_CLAIM) and claims_exceeded(survey, group):
        return True
    refused = survey.minor >= 37 or not group.key.native
    return refused and survey.read(Kind.CLAIM) and shares_too_much(survey, group)


def _owner(survey: Survey, pod: Pod) -> str:
    owner = survey.owner(pod)
    return str(owner) if owner is not None else f"bare pods in {pod.metadata.namespace}"


def _shares(tallies: Iterable[tuple[str, _Tally]]) -> list[BlockedShare]:
    shares = [BlockedShare(name, tally.result()) for name, tally in tallies]
    return sorted(shares, key=lambda share: (-share.blocked.pods, share.name))


# Names that outlive the object: tomorrow's Job of a CronJob has another name, but the same finding.
#
# A CronJob puts a time into the names of its Jobs. The Job controller and Kueue put a hash of a UID into the
# names of the objects that they create. `generateName` ends in a random suffix. A finding is followed from
# run to run by the part that stays, with `*` for each generated part. A part counts as generated only if the
# objects themselves prove it; a name that merely looks generated is unchanged.


MADE_UP = "*"
# The API allows no cycle of owners; the limit keeps a broken dump from an endless loop.
_DEEPEST = 10
# kubernetes/kubernetes, the Job controller: 32 bits in decimal, in the letters of rand.SafeEncodeString.
_JOB_HASH = "[bcdfghjklmnpqrstvwxz2456789]{6,10}"
# kubernetes-sigs/kueue: `<kind of the owner>-<name of the owner>-<hash>`.
_KUEUE_HASH = "[0-9a-f]{5}"
_KUEUE = "kueue.x-k8s.io"


def lasting_name(view: ClusterReader, ref: ObjectRef) -> str:
    """Return an object's name with `*` for each generated part, or unchanged if none is known."""
    return _lasting(view, ref, _DEEPEST)


def _lasting(view: ClusterReader, ref: ObjectRef, deeper: int) -> str:
    metadata = _metadata(view, ref)
    if metadata is None or not deeper:
        return ref.name
    if metadata.generateName and ref.name.startswith(metadata.generateName):
        return metadata.generateName + MADE_UP
    owner = metadata.controller()
    if owner is None or owner.name not in ref.name:
        return ref.name
    theirs = _lasting(view, ObjectRef(owner.apiVersion, owner.kind, ref.namespace, owner.name), deeper - 1)
    made = _made_by(ref, owner.kind, owner.name)
    return made.replace(owner.name, theirs)


def _made_by(ref: ObjectRef, kind: str, owner: str) -> str:
    """Return a name with `*` for the part that the owner's controller generated; the owner's name stays."""
    name_pattern = re.escape(owner)
    if (kind, ref.kind) == ("CronJob", "Job"):
        return re.sub(rf"\A{name_pattern}-[0-9]+\Z", f"{owner}-{MADE_UP}", ref.name)
    if ref.group == _KUEUE:
        return re.sub(rf"({name_pattern})-{_KUEUE_HASH}\Z", rf"\1-{MADE_UP}", ref.name)
    if ref.group == NATIVE_GROUP and kind == "Job":
        whole = re.fullmatch(rf"{name_pattern}-{_JOB_HASH}(?:(-.+)-{_JOB_HASH})?", ref.name)
        if whole is not None:
            return f"{owner}-{MADE_UP}" + (f"{whole[1]}-{MADE_UP}" if whole[1] else "")
    return ref.name


def _metadata(view: ClusterReader, ref: ObjectRef) -> ObjectMeta | None:
    key = GroupKey(ref.group == NATIVE_GROUP, ref.namespace, ref.name)
    if ref.group == _KUEUE:
        kueue = view.kueue_workloads.get((ref.namespace, ref.name))
        return None if kueue is None else kueue.metadata
    for stored in (view.groups.get(key), view.workloads.get(key), view.owners.get(ref)):
        if stored is not None and stored.ref == ref:
            return stored.metadata
    return None
