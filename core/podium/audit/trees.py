"""Rules about trees of composite groups, which a scheduler does not place if they are malformed.

No API server compares the objects of a tree with each other. A cluster may not serve composite groups. So an
absent parent is reported only where the input has some.
"""

from collections.abc import Iterable, Iterator

from podium.api.findings import Finding, Severity
from podium.api.groups import PodGroup
from podium.api.minors import group_minor
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import ClusterReader
from podium.groups.trees import MAX_DEPTH, flaw
from podium.rules.podiumchecks import unlike_parents
from podium.rules.podiumrules import CHILDREN_EVICTED_SINGLY
from podium.rules.rule import Rule
from podium.text import count, some

_PARENT = "spec.parentCompositePodGroupName"
_NEEDS = frozenset({Kind.COMPOSITE_GROUP, Kind.POD_GROUP})
_SCHEDULER = "kube-scheduler 1.37 (CompositePodGroup)"
COMPOSITE_PARENT_MISSING = Rule(
    id="composite-parent-missing",
    severity=Severity.ERROR,
    title="A group names a parent that is not in the input",
    why="The pods of the group wait until the CompositePodGroup appears. Checked if the input has any "
    "CompositePodGroup of that API.",
    source=_SCHEDULER,
    needs=_NEEDS,
)
COMPOSITE_CYCLE = Rule(
    id="composite-cycle",
    severity=Severity.ERROR,
    title="Composite groups are parents of each other",
    why="Such a tree has no root, so no scheduler places its pods. The parent is immutable.",
    source=_SCHEDULER,
    needs=_NEEDS,
)
COMPOSITE_TOO_DEEP = Rule(
    id="composite-too-deep",
    severity=Severity.ERROR,
    title="A tree of groups has too many levels",
    why=f"A tree has at most {MAX_DEPTH} levels, with the PodGroups. The scheduler refuses a deeper one.",
    source=_SCHEDULER,
    needs=_NEEDS,
)
COMPOSITE_PRIORITIES_DIFFER = Rule(
    id="composite-priorities-differ",
    severity=Severity.ERROR,
    title="Groups of a tree have another priority than its root",
    why="The root's priority counts for the whole tree. kube-scheduler does not schedule a tree whose pods "
    "have several priorities.",
    source=_SCHEDULER,
    needs=_NEEDS,
)
COMPOSITE_TOO_FEW_CHILDREN = Rule(
    id="composite-too-few-children",
    severity=Severity.WARNING,
    title="A composite group has fewer children than its minGroupCount",
    why="Its pods are not scheduled until minGroupCount children exist and are ready, and no event reports "
    "it.",
    source=f"{_SCHEDULER}, PreEnqueue",
    needs=_NEEDS,
)
COMPOSITE_CHILD_POLICY = Rule(
    id="composite-child-policy",
    severity=Severity.ERROR,
    title="A template below a gang of groups is basic",
    why="Kubernetes 1.38 refuses such a Workload, and every update of a stored one. Its kube-scheduler "
    "schedules no tree of such groups. Checked for 1.38 and later.",
    source="kube-apiserver and kube-scheduler 1.38.0-beta.0",
    needs=frozenset({Kind.WORKLOAD}),
)

COMPOSITE_GROUPS_UNLIKE = Rule(
    id="composite-groups-unlike",
    severity=Severity.ERROR,
    title="Groups of a tree do not match its root or their parents",
    why="kube-scheduler 1.38 schedules no pod of such a tree. All groups need the root's Workload and "
    "preemptionPolicy. A gang has gangs below it, and a group of mode `all` has groups of mode `all`. "
    "Checked for native groups, and for 1.38 and later.",
    source="kube-scheduler 1.38.0-beta.0 (validatePodGroupHierarchy)",
    needs=_NEEDS,
)


def unknown_tree_findings(view: ClusterReader, groups: Iterable[PodGroup]) -> Iterator[Finding]:
    """Yield a finding for each of these groups of unknown trees, whose pods plans leave out."""
    for group in groups:
        message = f"{flaw(view, group)}, so plans evict no pod of the group."
        fix = "read the CompositePodGroups too, or create the missing one"
        yield COMPOSITE_PARENT_MISSING.finding(group.ref, _PARENT, message, fix)


def composite_parent_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find groups and composite groups whose parent is absent."""
    trees = survey.trees
    read = {key.native for key in trees.composites}
    for key, children in sorted(survey.view.children.items()):
        if key in trees.composites or key.native not in read:
            continue
        fix = f"create CompositePodGroup {key.namespace}/{key.name}, or create its children without a parent"
        for child in sorted(children.values(), key=lambda group: group.ref):
            message = f"CompositePodGroup {key.name} is not in the input, so the pods of the group wait."
            yield AuditFinding(COMPOSITE_PARENT_MISSING.finding(child.ref, _PARENT, message, fix), fix)


def composite_cycle(survey: Survey) -> Iterator[AuditFinding]:
    """Find each cycle once."""
    trees = survey.trees
    fix = "recreate one of them without a parent, as the root"
    for first, keys in sorted(trees.cycles.items()):
        names = some([key.name for key in keys])
        message = f"it is its own ancestor. The composite groups of the cycle are {names}."
        if len(keys) == 1:
            message = "it is its own parent."
        ref = trees.composites[first].ref
        finding = COMPOSITE_CYCLE.finding(ref, _PARENT, message, fix)
        yield AuditFinding(finding, fix)


def composite_too_deep(survey: Survey) -> Iterator[AuditFinding]:
    """Find roots of trees with more levels than a scheduler accepts."""
    trees = survey.trees
    for key, root in trees.roots:
        levels = trees.levels(key)
        if levels > MAX_DEPTH:
            message = f"its tree has {levels} levels; a scheduler accepts {MAX_DEPTH}."
            fix = "attach the groups to a higher composite group"
            yield AuditFinding(COMPOSITE_TOO_DEEP.finding(root.ref, "", message, fix))


def composite_priorities_differ(survey: Survey) -> Iterator[AuditFinding]:
    """Find roots with descendants of another priority."""
    trees = survey.trees
    for key, root in trees.roots:
        priority = root.priority or 0
        differing = [child for child in trees.below(key) if (child.priority or 0) != priority]
        if differing:
            names = some(f"{child.ref.kind} {child.ref.name}" for child in differing)
            message = f"its priority is {priority}; that of {names} differs."
            fix = "create all groups of the tree with the same priorityClassName"
            yield AuditFinding(COMPOSITE_PRIORITIES_DIFFER.finding(root.ref, "spec.priority", message, fix))


def composite_groups_unlike(survey: Survey) -> Iterator[AuditFinding]:
    """Find the groups that keep their trees from being scheduled, unless their priority alone differs."""
    fix = "recreate the tree, with gangs below gangs, all below all, one Workload and one preemptionPolicy"
    for root in survey.unlike_trees:
        for unlike in survey.unlike_trees[root]:
            message = (
                f"{unlike.words}. Kubernetes {survey.kubernetes} schedules no pod of the tree of {root.name}."
            )
            finding = COMPOSITE_GROUPS_UNLIKE.finding(unlike.group.ref, unlike.field, message, fix)
            yield AuditFinding(finding, fix)


def composite_too_few_children(survey: Survey) -> Iterator[AuditFinding]:
    """Find composite groups with fewer children than they need; a basic one needs one."""
    trees = survey.trees
    for key, group in trees.composites.items():
        need = group.least
        have = len(survey.view.children.get(key, ()))
        if have < need:
            field = "spec.schedulingPolicy" + ("" if group.min_group_count is None else ".gang.minGroupCount")
            message = f"it needs {count(need, 'child group')} and has {have}."
            fix = "create the missing groups, or the composite group with a smaller minGroupCount"
            yield AuditFinding(COMPOSITE_TOO_FEW_CHILDREN.finding(group.ref, field, message, fix))


def composite_child_mode(survey: Survey) -> Iterator[AuditFinding]:
    """Find templates whose pods are evicted with the whole tree in spite of their mode."""
    fix = "set disruptionMode {all: {}} in each template below, or {single: {}} in the composite one"
    effect = f" {_refusal(survey)}" if group_minor(survey.minor).strict_modes else ""
    for workload in survey.view.workloads.values():
        for path, above in unlike_parents(workload):
            message = f"is not `all`, but that of the composite template {above.name} above it is.{effect}"
            finding = CHILDREN_EVICTED_SINGLY.finding(workload.ref, f"{path}.disruptionMode", message, fix)
            yield AuditFinding(finding, fix)


def composite_child_policy(survey: Survey) -> Iterator[AuditFinding]:
    """Find basic templates below a composite template that is a gang."""
    if not group_minor(survey.minor).strict_modes:
        return
    fix = "recreate the Workload with a gang in each template below, or with basic in the composite one"
    for workload in survey.view.workloads.values():
        for path, template in workload.templates.items():
            above = workload.templates.get(path.rpartition(".")[0])
            if above is not None and above.gang and not template.gang:
                message = f"is basic, but the composite template {above.name} above it is a gang."
                yield AuditFinding(
                    COMPOSITE_CHILD_POLICY.finding(
                        workload.ref, f"{path}.schedulingPolicy", f"{message} {_refusal(survey)}", fix
                    ),
                    fix,
                )


def _refusal(survey: Survey) -> str:
    return f"Kubernetes {survey.kubernetes} refuses the Workload, and every update of a stored one."
