"""Cases for the rules about trees of composite groups."""

from typing import Any

import msgspec
from tests.support.audit.builders import group_template, pod, pod_group
from tests.support.audit.builders import workload as workload_of
from tests.support.audit.cases.case import Case

from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup, TemplateRef, Workload
from podium.api.meta import ObjectMeta
from podium.cluster.state import Readable

WHOLE = DisruptionMode.POD_GROUP
PARENT, POLICY = "spec.parentCompositePodGroupName", "spec.schedulingPolicy"


def composite(
    name: str,
    parent: str = "",
    *,
    least: int | None = None,
    priority: int = 0,
    podium: bool = False,
    workload: str = "",
    policy: str | None = None,
    mode: DisruptionMode = DisruptionMode.POD,
) -> CompositeGroup:
    """Make a composite group of a tree."""
    version = "scheduling.podium.dev/v1beta1" if podium else "scheduling.k8s.io/v1alpha3"
    return CompositeGroup(
        ref=ObjectRef(version, "CompositePodGroup", "team-a", name),
        metadata=ObjectMeta(name=name, namespace="team-a"),
        min_group_count=least,
        disruption_mode=mode,
        priority_class_name="",
        priority=priority,
        preemption_policy=policy,
        template_ref=TemplateRef(workload, "root") if workload else None,
        composite=parent,
    )


def leaf(name: str, parent: str, *, workload: str = "", **fields: Any) -> PodGroup:
    """Make a PodGroup of a tree."""
    template = (workload, "leaf") if workload else None
    made = pod_group(name, template=template, **fields)
    return msgspec.structs.replace(made, composite=parent)


def _tree(
    above: DisruptionMode | None,
    below: DisruptionMode | None,
    *,
    least: int | None = None,
    members: int | None = 2,
    podium: bool = False,
) -> Workload:
    root = "spec.compositePodGroupTemplates[0]"
    parent = group_template("root", mode=above, composite=True)
    templates = {
        root: msgspec.structs.replace(parent, min_group_count=least),
        f"{root}.podGroupTemplates[0]": group_template("leaf", mode=below, min_count=members),
    }
    return msgspec.structs.replace(workload_of(podium=podium), templates=templates)


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
    Case(
        "1.38 refuses a single one below a whole one",
        "composite-child-mode",
        [_tree(WHOLE, None)],
        [
            (
                "Workload team-a/train",
                "spec.compositePodGroupTemplates[0].podGroupTemplates[0].disruptionMode",
                "Kubernetes 1.38 (beta) refuses the Workload, and every update of a stored one.",
            )
        ],
        "1.38",
    ),
    Case("whole ones", "composite-child-mode", [_tree(WHOLE, WHOLE)]),
    Case(
        "a basic one below a gang",
        "composite-child-policy",
        [_tree(None, None, least=1, members=None)],
        [
            (
                "Workload team-a/train",
                "spec.compositePodGroupTemplates[0].podGroupTemplates[0].schedulingPolicy",
                "the composite template root above it is a gang. Kubernetes 1.38 (beta) refuses the Workload",
            )
        ],
        "1.38",
    ),
    Case(
        "1.37 takes a basic one below a gang",
        "composite-child-policy",
        [_tree(None, None, least=1, members=None)],
    ),
    Case(
        "gangs",
        "composite-child-policy",
        [_tree(None, None, least=1)],
        [],
        "1.38",
    ),
    Case("below a single one", "composite-child-mode", [_tree(None, WHOLE)]),
    Case(
        "a basic group below a gang, and single ones below a whole one",
        "composite-groups-unlike",
        [composite("a", least=1, mode=WHOLE), composite("b", "a"), leaf("x", "a", min_count=1)],
        [
            ("CompositePodGroup team-a/b", "spec.disruptionMode", "its mode is single"),
            ("CompositePodGroup team-a/b", POLICY, "it is basic, and its parent a a gang."),
            (
                "PodGroup team-a/x",
                "spec.disruptionMode",
                "that of its parent a is all. Kubernetes 1.38 (beta) schedules no pod of the tree of a.",
            ),
        ],
        "1.38",
    ),
    Case(
        "another Workload, and another policy than the root",
        "composite-groups-unlike",
        [
            composite("a", workload="train", policy="PreemptLowerPriority"),
            leaf("x", "a", workload="other"),
            leaf("y", "a", workload="train", policy="Never"),
        ],
        [
            ("PodGroup team-a/x", "spec.workloadRef", "its Workload is other, and that of the root train."),
            (
                "PodGroup team-a/y",
                "spec.preemptionPolicy",
                "is Never, and that of the tree PreemptLowerPriority.",
            ),
        ],
        "1.38",
    ),
    Case(
        "the policy of the pods, for a root without one",
        "composite-groups-unlike",
        [composite("a"), leaf("x", "a", policy="Never"), leaf("y", "a"), pod("p", group="y")],
        [("PodGroup team-a/x", "spec.preemptionPolicy", "that of the tree PreemptLowerPriority.")],
        "1.38",
    ),
    Case(
        "a tree in order, one of Podium's, and a policy that only the groups have",
        "composite-groups-unlike",
        [
            composite("a", least=1, mode=WHOLE, workload="w"),
            leaf("x", "a", min_count=1, mode=WHOLE, workload="w"),
            composite("b", least=1, podium=True),
            leaf("y", "b", podium=True),
            composite("c"),
            leaf("z", "c", policy="Never"),
        ],
        [],
        "1.38",
    ),
    Case("1.37 compares pods only", "composite-groups-unlike", [composite("a", least=1), leaf("x", "a")]),
]
