"""Cases for the rules about trees of composite groups."""

import msgspec
from tests.support.audit.builders import group_template, pod_group
from tests.support.audit.builders import workload as workload_of
from tests.support.audit.cases.case import Case

from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup, Workload
from podium.api.meta import ObjectMeta
from podium.cluster.state import Readable

WHOLE = DisruptionMode.POD_GROUP
PARENT = "spec.parentCompositePodGroupName"


def composite(
    name: str, parent: str = "", *, least: int | None = None, priority: int = 0, podium: bool = False
) -> CompositeGroup:
    """Make a composite group of a tree."""
    version = "scheduling.podium.dev/v1beta1" if podium else "scheduling.k8s.io/v1alpha3"
    return CompositeGroup(
        ref=ObjectRef(version, "CompositePodGroup", "team-a", name),
        metadata=ObjectMeta(name=name, namespace="team-a"),
        min_group_count=least,
        disruption_mode=DisruptionMode.POD,
        priority_class_name="",
        priority=priority,
        preemption_policy=None,
        template_ref=None,
        composite=parent,
    )


def leaf(name: str, parent: str, *, priority: int = 0, podium: bool = False) -> PodGroup:
    """Make a PodGroup of a tree."""
    made = pod_group(name, priority=priority, podium=podium)
    return msgspec.structs.replace(made, composite=parent)


def _tree(above: DisruptionMode | None, below: DisruptionMode | None) -> Workload:
    root = "spec.compositePodGroupTemplates[0]"
    templates = {
        root: group_template("root", mode=above, composite=True),
        f"{root}.podGroupTemplates[0]": group_template("leaf", mode=below, min_count=2),
    }
    return msgspec.structs.replace(workload_of(), templates=templates)


CHAIN: list[Readable] = [composite("a"), composite("b", "a"), composite("c", "b")]
PAIR: list[Readable] = [composite("a"), leaf("x", "a"), leaf("y", "a")]

CASES = [
    Case(
        "a group's parent",
        "composite-parent-missing",
        [*PAIR, leaf("z", "other")],
        [("PodGroup team-a/z", PARENT, "CompositePodGroup other is not in the input")],
    ),
    Case(
        "a composite group's parent",
        "composite-parent-missing",
        [composite("a", "other")],
        [("CompositePodGroup team-a/a", PARENT, "so the pods of the group wait")],
    ),
    Case(
        "composite groups of the other API", "composite-parent-missing", [*PAIR, leaf("z", "q", podium=True)]
    ),
    Case(
        "a parent of the other API",
        "composite-parent-missing",
        [*PAIR, composite("q", podium=True), leaf("z", "a", podium=True)],
        [("PodGroup team-a/z", PARENT, "CompositePodGroup a")],
    ),
    Case("parents that exist", "composite-parent-missing", [*CHAIN, *PAIR]),
    Case(
        "two parents of each other",
        "composite-cycle",
        [composite("b", "a"), composite("a", "b"), composite("c", "b"), leaf("x", "c")],
        [("CompositePodGroup team-a/a", PARENT, "The composite groups of the cycle are a, b.")],
    ),
    Case(
        "a parent of itself",
        "composite-cycle",
        [composite("a", "a")],
        [("CompositePodGroup team-a/a", PARENT, "it is its own parent.")],
    ),
    Case("a chain", "composite-cycle", CHAIN),
    Case(
        "five levels",
        "composite-too-deep",
        [*CHAIN, composite("d", "c"), leaf("x", "d")],
        [("CompositePodGroup team-a/a", "", "its tree has 5 levels; a scheduler accepts 4.")],
    ),
    Case("four levels", "composite-too-deep", [*CHAIN, leaf("x", "c"), composite("p", "p")]),
    Case(
        "children of another priority",
        "composite-priorities-differ",
        [*CHAIN, leaf("x", "c", priority=7), leaf("y", "a"), composite("d", "a", priority=5)],
        [
            (
                "CompositePodGroup team-a/a",
                "spec.priority",
                "its priority is 0; that of CompositePodGroup d, PodGroup x differs.",
            )
        ],
    ),
    Case(
        "one priority",
        "composite-priorities-differ",
        [composite("a", priority=7), leaf("x", "a", priority=7)],
    ),
    Case(
        "fewer children than the gang needs",
        "composite-too-few-children",
        [composite("a", least=3), leaf("x", "a"), composite("b", "a"), leaf("y", "b")],
        [
            (
                "CompositePodGroup team-a/a",
                "spec.schedulingPolicy.gang.minGroupCount",
                "it needs 3 child groups and has 2.",
            )
        ],
    ),
    Case(
        "a basic one without children",
        "composite-too-few-children",
        [composite("a")],
        [("CompositePodGroup team-a/a", "spec.schedulingPolicy", "it needs 1 child group and has 0.")],
    ),
    Case("enough children", "composite-too-few-children", [composite("a", least=2), *PAIR[1:]]),
    Case(
        "a single one below a whole one",
        "composite-child-mode",
        [_tree(WHOLE, None)],
        [
            (
                "Workload team-a/train",
                "spec.compositePodGroupTemplates[0].podGroupTemplates[0].disruptionMode",
                "is not `all`, but that of the composite template root above it is.",
            )
        ],
    ),
    Case("whole ones", "composite-child-mode", [_tree(WHOLE, WHOLE)]),
    Case("below a single one", "composite-child-mode", [_tree(None, WHOLE)]),
]
