"""The effect of an upgrade of Kubernetes: a comparison of two audits, and `convert` for removed versions.

This module has no rules. A group stops scheduling with the upgrade if the audit counts it as blocked on the
target minor and not on the current one. A finding is new if the audit does not report the same for the
current minor. Each rule therefore states what it knows of a minor in one place, and preflight needs no change
for the next minor.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from shlex import quote
from typing import NamedTuple
from urllib.parse import quote as escaped

import msgspec

from podium.answers.audits.report import Blocked, FixShare, NotChecked
from podium.answers.audits.run import MINORS, blocked, blocked_groups, fix_shares, run_rules
from podium.api import v1alpha1
from podium.api.convert import Fields, convert
from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.groups import NATIVE_GROUP
from podium.api.membership import GroupKey
from podium.api.minors import MINORS as KNOWN_MINORS
from podium.api.minors import served_versions, upgrades
from podium.api.podkinds.kind import JOB_GATE
from podium.audit.gated import JOB_GANG_BY_SHAPE
from podium.audit.groups import V1ALPHA1_REMOVED, V1ALPHA2_REMOVED
from podium.audit.survey import AuditFinding, Survey, SurveyedGroup
from podium.audit.table import CHECKS
from podium.cluster.reader import ClusterReader
from podium.documents.document import Document
from podium.groups.planned import group_creator
from podium.text import count, listed, some

# The folders of manifests: the present objects, which are deleted, and the new objects.
OLD, NEW = "old", "new"
_REMOVED = (V1ALPHA1_REMOVED.id, V1ALPHA2_REMOVED.id)


class When(StrEnum):
    """The time at which a step is taken."""

    BEFORE = "before"
    UPGRADE = "upgrade"
    AFTER = "after"


class Stopped(msgspec.Struct, frozen=True):
    """A group that is no longer scheduled, its present pods, and the owners of its pods."""

    object: ObjectRef
    has: Blocked
    owners: list[str]


class Remade(msgspec.Struct, frozen=True, kw_only=True):
    """An object that the target does not serve and that must be recreated as `target`.

    `stored` says that it came from a server, which keeps it until its `pods` (live ones) are gone. `creator`
    is the controller that recreates it, such as a Job; empty if people do. `manifest` is the new object's
    file in the folder, empty if the input does not hold the whole old object, or if it has a creator. `lost`
    lists in sentences what the new object cannot express.
    """

    object: ObjectRef
    target: str
    stored: bool
    pods: int
    owners: list[str]
    creator: str
    manifest: str
    lost: list[str]


class MigrationStep(msgspec.Struct, frozen=True):
    """A task for the user, and its commands, if commands can do it."""

    when: When
    what: str
    commands: list[str] = []


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of an upgrade from `current` to `target` (minors).

    `currentBy` says how `current` was found.
    """

    current: str
    currentBy: str
    target: str
    stops: Blocked
    stopped: list[Stopped]
    findings: list[Finding]
    remade: list[Remade]
    steps: list[MigrationStep]
    notChecked: list[NotChecked]

    @property
    def breaks(self) -> bool:
        """Return whether a group stops scheduling, or an object can no longer be stored."""
        return bool(self.stopped) or any(finding.severity is Severity.ERROR for finding in self.findings)


class PreflightPlan(NamedTuple):
    """A report, and its manifests: documents by file path in the folder."""

    report: Preflight
    manifests: dict[str, list[Fields]]


def preflight(
    view: ClusterReader,
    documents: Mapping[ObjectRef, Document],
    *,
    current: str,
    current_by: str,
    target: str,
    folder: str | None,
    namespace: str = "",
    selector: str = "",
) -> PreflightPlan:
    """Compare two of the audit's MINORS on one view, and plan the upgrade.

    `documents` are the whole objects of groups and Workloads, as far as the input holds them. `folder` is the
    place of their manifests in the printed commands. `namespace` and `selector` are the part that was read.
    Raises ObjectError for an invalid quantity.
    """
    before, after = (Survey(view, MINORS[minor], selected=bool(selector)) for minor in (current, target))
    today, then = (run_rules(survey, CHECKS, namespace, selector) for survey in (before, after))
    brought = _brought(today.found, then.found, before.kubernetes, after.kubernetes, documents)
    known = {group.key for group in blocked_groups(before)}
    stopping = [group for group in blocked_groups(after) if group.key not in known]
    remade, manifests = _remade(after, brought, documents)
    recreated = {item.object for item in remade}
    gangs = {
        str(audited.finding.object) for audited in brought if audited.finding.rule == JOB_GANG_BY_SHAPE.id
    }
    early = [audited for audited in brought if audited.finding.rule != JOB_GANG_BY_SHAPE.id]
    kept = [audited for audited in early if audited.finding.object not in recreated]
    recreated_findings = (audited for audited in early if audited.finding.object in recreated)
    rest = [audited for audited in recreated_findings if audited.finding.rule not in _REMOVED]
    report = Preflight(
        current=current,
        currentBy=current_by,
        target=target,
        stops=blocked(after, stopping)[0],
        stopped=[Stopped(group.ref, blocked(after, [group])[0], _owners(after, group)) for group in stopping],
        findings=[audited.finding for audited in brought],
        remade=remade,
        steps=_in_order(
            [
                *_steps(fix_shares(kept), fix_shares(rest), remade, gangs, (current, target), folder),
                *_flags(before.minor, after.minor),
                *_no_way_back(view, before.minor, after.minor),
            ]
        ),
        notChecked=then.not_checked,
    )
    return PreflightPlan(report, manifests)


def _brought(
    today: Iterable[AuditFinding],
    then: Iterable[AuditFinding],
    current: str,
    target: str,
    documents: Mapping[ObjectRef, Document],
) -> list[AuditFinding]:
    """Return the findings of the target that differ from those of the current minor in more than its name.

    A manifest of a removed version is always one: it was never applied to the current minor.
    """

    def identity(audited: AuditFinding, minor: str) -> tuple[object, ...]:
        finding, ref = audited.finding, audited.finding.object
        words = finding.message.replace(f"Kubernetes {minor}", "Kubernetes")
        return finding.rule, ref.group, ref.kind, ref.namespace, ref.name, finding.field, words

    def is_manifest(audited: AuditFinding) -> bool:
        document = documents.get(audited.finding.object)
        return document is not None and "uid" not in (document.value().get("metadata") or {})

    known = {identity(audited, current) for audited in today}
    return [
        audited
        for audited in then
        if identity(audited, target) not in known
        or (audited.finding.rule in _REMOVED and is_manifest(audited))
    ]


def _owners(survey: Survey, group: SurveyedGroup) -> list[str]:
    """Return the owners of the live pods of a group; a pod without an owner is listed itself."""
    bare = sorted(f"Pod {pod.metadata.name}" for pod in group.present if survey.owner(pod) is None)
    return [str(owner) for owner in survey.owners(group.present)] + bare


def _holders(survey: Survey, group: SurveyedGroup, creator: ObjectRef | None) -> list[str]:
    """Return the owners of a group's live pods, or its creator, which may still create pods."""
    owners = _owners(survey, group)
    if owners or creator is None:
        return owners
    owner = survey.view.owners.get(creator)
    return [] if owner is not None and owner.finished else [str(creator)]


def _remade(
    survey: Survey, brought: Iterable[AuditFinding], documents: Mapping[ObjectRef, Document]
) -> tuple[list[Remade], dict[str, list[Fields]]]:
    """Convert the objects that the target does not serve.

    Workloads come first, because 1.36 requires them before their groups.
    """
    refs = [audited.finding.object for audited in brought if audited.finding.rule in _REMOVED]
    surveyed = {surveyed_group.key: surveyed_group for surveyed_group in survey.groups}
    group_version = served_versions(survey.minor)[0]
    remade = []
    manifests: dict[str, list[Fields]] = defaultdict(list)
    for ref in sorted(refs, key=lambda ref: (ref.namespace, ref.kind != "Workload", ref.name)):
        target = f"{ref.group}/{group_version}"
        file, lost, stored = "", list[str](), True
        creator = group_creator(survey.view, ref)
        if ref in documents:
            document = documents[ref].value()
            stored = "uid" in (document.get("metadata") or {})
            name = f"{escaped(ref.namespace, safe='')}.yaml"
            if creator is None:
                new, notes = convert(document, target)
                new, owners = _unsettled(new)
                lost = [f"{note.field}: {note.text}" for note in notes if note.lost] + owners
                file = f"{NEW}/{name}"
                manifests[file].append(new)
            if stored:
                manifests[f"{OLD}/{name}"].append(document)
        group = surveyed.get(GroupKey(True, ref.namespace, ref.name)) if ref.kind == "PodGroup" else None
        remade.append(
            Remade(
                object=ref,
                target=target,
                stored=stored,
                pods=len(group.present) if group is not None else 0,
                owners=_holders(survey, group, creator) if group is not None else [],
                creator=str(creator) if creator is not None else "",
                manifest=file,
                lost=lost,
            )
        )
    return remade, dict(manifests)


def _unsettled(document: Fields) -> tuple[Fields, list[str]]:
    """Return a document without the fields that belong to the old object, and what it loses by that.

    The server sets the status, and resolves a group's priority from its class: it refuses the old value if
    the class has changed since. A stopped owner, such as a Job, may be recreated with another UID. The
    garbage collector would then delete the new object.
    """
    spec, metadata, lost = document.get("spec"), document.get("metadata") or {}, []
    if document["kind"] == "PodGroup" and spec is not None:
        document = {**document, "spec": {key: value for key, value in spec.items() if key != "priority"}}
    if metadata.get("ownerReferences"):
        names = some(f"{owner.get('kind')} {owner.get('name')}" for owner in metadata["ownerReferences"])
        lost.append(
            f"metadata.ownerReferences: {names} left out: recreated it has another uid, and an owner of "
            "unknown uid means deletion"
        )
        kept = {key: value for key, value in metadata.items() if key != "ownerReferences"}
        document = {**document, "metadata": kept}
    return {key: value for key, value in document.items() if key != "status"}, lost


def _steps(  # noqa: PLR0917 - the parts of a plan, in its order
    fixes: Iterable[FixShare],
    recreate_fixes: Iterable[FixShare],
    remade: Sequence[Remade],
    gangs: Collection[str],
    minors: tuple[str, str],
    folder: str | None,
) -> list[MigrationStep]:
    """Return the tasks of the user in order; empty if the upgrade has no effect.

    `recreate_fixes` are the fixes for recreated objects, which are applied when the objects are recreated.
    `gangs` are the Jobs that remain a gang only with a field that the current minor drops.
    """
    steps = [MigrationStep(When.BEFORE, f"{share.fix} ({_clears(share)})") for share in fixes]
    manual = [item for item in remade if not item.creator]
    holding = {owner for item in remade if item.stored for owner in item.owners}
    deleted = {item.creator for item in remade if item.creator and item.owners}
    if not steps and not remade:
        return []
    if remade:
        steps += _before(remade, holding, deleted, recreate_fixes, folder)
    current, target = (MINORS[minor] for minor in minors)
    between = [name for name, minor in MINORS.items() if current < minor <= target]
    serving = f"; it has to serve {remade[0].target}" if remade else ""
    steps.append(
        MigrationStep(When.UPGRADE, f"upgrade the control plane to {', then to '.join(between)}{serving}")
    )
    new = f"{quote(folder or 'DIR')}/{NEW}"
    if any(item.stored for item in manual):
        steps.append(MigrationStep(When.AFTER, "recreate the objects", [f"kubectl create -f {new}"]))
    if not all(item.stored for item in manual):
        steps.append(MigrationStep(When.AFTER, f"copy the manifests of {new} to your repository"))
    if gangs:
        advice = "set spec.scheduling.schedulingPolicy.gang in the Job or its template before it is recreated"
        steps.append(MigrationStep(When.AFTER, f"to keep {some(gangs)} a gang, {advice} (gate {JOB_GATE})"))
    if holding:
        again = "; their controllers create the groups that they own" if deleted else ""
        steps.append(MigrationStep(When.AFTER, f"restart the stopped workloads: {some(holding)}{again}"))
    return steps


def _in_order(steps: Iterable[MigrationStep]) -> list[MigrationStep]:
    times = list(When)
    return sorted(steps, key=lambda step: times.index(step.when))


def _flags(current: int, target: int) -> Iterator[MigrationStep]:
    """Yield the steps for flags of today with which no component of the target starts."""
    served = {version for kind in KNOWN_MINORS[target].kinds.values() for version in kind.versions}
    gone = sorted(set(KNOWN_MINORS[current].versions("Workload")) - served)
    if gone:
        names = listed([f"{NATIVE_GROUP}/{version}" for version in gone])
        text = f"remove {names} from --runtime-config of kube-apiserver"
        yield MigrationStep(When.UPGRADE, f"{text}, which does not start with an unknown version")
    removed = sorted(name for minor in upgrades(current, target) for name in minor.removed_gates)
    if removed:
        text = "remove unknown gates from --feature-gates of all components, which do not start with one"
        yield MigrationStep(When.UPGRADE, f"{text}: {listed(removed)}")
    before, after = KNOWN_MINORS[current].gates, KNOWN_MINORS[target].gates
    locked = sorted(
        name for name, gate in after.items() if gate.locked and not (name in before and before[name].locked)
    )
    if locked:
        text = (
            "remove gates that are set to false, and are locked now, from --feature-gates of all components"
        )
        yield MigrationStep(When.UPGRADE, f"{text}: {listed(locked)}")


def _no_way_back(view: ClusterReader, current: int, target: int) -> Iterator[MigrationStep]:
    """Yield the warning that the current minor cannot read composite groups which the target has written."""
    kind = "CompositePodGroup"
    before, after = (KNOWN_MINORS[minor].kinds.get(kind) for minor in (current, target))
    if before is None or after is None or after.stored in before.versions:
        return
    native = sum(composite.native for composite in view.composites.values())
    if native:
        resource = f"{kind.lower()}s.{after.stored}.{NATIVE_GROUP}"
        warning = f"do not go back: each write stores a {kind} ({native:,} here) as {after.stored}"
        yield MigrationStep(
            When.AFTER,
            f"{warning}. kube-apiserver 1.{current} never becomes ready with such objects, and cannot delete "
            f"them. To go back, first delete them on 1.{target}. Those that it created stay until the groups "
            "below them are gone",
            [
                f"kubectl delete {resource} --all --all-namespaces --wait=false",
                f"kubectl get {resource} --all-namespaces",
            ],
        )


def _before(
    remade: Sequence[Remade],
    holding: set[str],
    deleted: set[str],
    fixes: Iterable[FixShare],
    folder: str | None,
) -> list[MigrationStep]:
    """Return the steps before the upgrade for objects that must be recreated.

    `holding` are the workloads to stop, `deleted` those whose controllers would recreate the groups.
    """
    steps = []
    where = quote(folder or "DIR")
    if any(not (item.manifest or item.creator) for item in remade):
        # An object that is deleted without its manifest is lost.
        sentence = "run preflight on the live cluster, because a dump does not hold whole objects"
        steps.append(MigrationStep(When.BEFORE, sentence))
    if folder is None:
        steps.append(MigrationStep(When.BEFORE, "write the manifests: run this again with --output-dir DIR"))
    if holding:
        sentence = "the API server keeps their groups until these pods are gone"
        steps.append(MigrationStep(When.BEFORE, f"stop {some(holding)}, or wait for the end: {sentence}"))
    if deleted:
        sentence = "their controllers would create the groups again"
        steps.append(MigrationStep(When.BEFORE, f"delete {some(deleted)} when stopped: {sentence}"))
    steps += [
        MigrationStep(
            When.BEFORE, f"in {where}/{NEW}, and while the pods are stopped: {share.fix} ({_clears(share)})"
        )
        for share in fixes
    ]
    stored = [item.object for item in remade if item.stored]
    if stored:
        versions = sorted({ref.apiVersion for ref in stored})
        resources = ",".join(f"{plural}.{version}.{NATIVE_GROUP}" for plural, version in _resources(versions))
        commands = [
            f"kubectl delete --wait=false -f {where}/{OLD}",
            f"kubectl get {resources} --all-namespaces",
        ]
        sentence = f"delete all {count(len(stored), 'object')} of {listed(versions)}"
        steps.append(MigrationStep(When.BEFORE, sentence, commands))
    return steps


def _resources(api_versions: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield plural and version of the kinds of these versions; v1alpha1 has no PodGroup."""
    for api_version in api_versions:
        if api_version != v1alpha1.API_VERSION:
            yield "podgroups", api_version.rpartition("/")[2]
        yield "workloads", api_version.rpartition("/")[2]


def _clears(share: FixShare) -> str:
    return f"clears {count(share.clears, 'finding')} of {share.rule}"
