"""Cases for the rules about trees of composite groups."""

from typing import Any

import msgspec
from tests.support.audit.builders import group_template, pod, pod_group
from tests.support.audit.builders import workload as workload_of
from tests.support.audit.cases.case import Table, case

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

CASES = Table()
CASES.add(
    "composite-parent-missing",
    ("PodGroup team-a/z", PARENT),
    case("a group's parent", [*PAIR, leaf("z", "other")], "CompositePodGroup other is not in the input"),
    case(
        "a composite group's parent",
        [composite("a", "other")],
        ("CompositePodGroup team-a/a", PARENT, "so the pods of the group wait"),
    ),
    case("composite groups of the other API", [*PAIR, leaf("z", "q", podium=True)]),
    case(
        "a parent of the other API",
        [*PAIR, composite("q", podium=True), leaf("z", "a", podium=True)],
        "CompositePodGroup a",
    ),
    case("parents that exist", [*CHAIN, *PAIR]),
)
CASES.add(
    "composite-cycle",
    ("CompositePodGroup team-a/a", PARENT),
    case(
        "two parents of each other",
        [composite("b", "a"), composite("a", "b"), composite("c", "b"), leaf("x", "c")],
        "The composite groups of the cycle are a, b.",
    ),
    case("a parent of itself", [composite("a", "a")], "it is its own parent."),
    case("a chain", CHAIN),
)
CASES.add(
    "composite-too-deep",
    ("CompositePodGroup team-a/a", ""),
    case(
        "five levels",
        [*CHAIN, composite("d", "c"), leaf("x", "d")],
        "its tree has 5 levels; a scheduler accepts 4.",
    ),
    case("four levels", [*CHAIN, leaf("x", "c"), composite("p", "p")]),
)
CASES.add(
    "composite-priorities-differ",
    ("CompositePodGroup team-a/a", "spec.priority"),
    case(
        "children of another priority",
        [*CHAIN, leaf("x", "c", priority=7), leaf("y", "a"), composite("d", "a", priority=5)],
        "its priority is 0; that of CompositePodGroup d, PodGroup x differs.",
    ),
    case("one priority", [composite("a", priority=7), leaf("x", "a", priority=7)]),
)
CASES.add(
    "composite-too-few-children",
    ("CompositePodGroup team-a/a", "spec.schedulingPolicy.gang.minGroupCount"),
    case(
        "fewer children than the gang needs",
        [composite("a", least=3), leaf("x", "a"), composite("b", "a"), leaf("y", "b")],
        "it needs 3 child groups and has 2.",
    ),
    case(
        "a basic one without children",
        [composite("a")],
        ("CompositePodGroup team-a/a", "spec.schedulingPolicy", "it needs 1 child group and has 0."),
    ),
    case("enough children", [composite("a", least=2), *PAIR[1:]]),
)
CASES.add(
    "composite-child-mode",
    ("Workload team-a/train", "spec.compositePodGroupTemplates[0].podGroupTemplates[0].disruptionMode"),
    case(
        "a single one below a whole one",
        [_tree(WHOLE, None)],
        "is not `all`, but that of the composite template root above it is.",
    ),
    case(
        "1.38 refuses a single one below a whole one",
        [_tree(WHOLE, None)],
        "Kubernetes 1.38 (beta) refuses the Workload, and every update of a stored one.",
        kubernetes="1.38",
    ),
    case("whole ones", [_tree(WHOLE, WHOLE)]),
    case("below a single one", [_tree(None, WHOLE)]),
)
CASES.add(
    "composite-child-policy",
    ("Workload team-a/train", "spec.compositePodGroupTemplates[0].podGroupTemplates[0].schedulingPolicy"),
    case(
        "a basic one below a gang",
        [_tree(None, None, least=1, members=None)],
        "the composite template root above it is a gang. Kubernetes 1.38 (beta) refuses the Workload",
        kubernetes="1.38",
    ),
    case("1.37 takes a basic one below a gang", [_tree(None, None, least=1, members=None)]),
    case("gangs", [_tree(None, None, least=1)], kubernetes="1.38"),
)
CASES.add(
    "composite-groups-unlike",
    ("CompositePodGroup team-a/b", "spec.disruptionMode"),
    case(
        "a basic group below a gang, and single ones below a whole one",
        [composite("a", least=1, mode=WHOLE), composite("b", "a"), leaf("x", "a", min_count=1)],
        "its mode is single",
        ("CompositePodGroup team-a/b", POLICY, "it is basic, and its parent a a gang."),
        (
            "PodGroup team-a/x",
            "spec.disruptionMode",
            "that of its parent a is all. Kubernetes 1.38 (beta) schedules no pod of the tree of a.",
        ),
        kubernetes="1.38",
    ),
    case(
        "another Workload, and another policy than the root",
        [
            composite("a", workload="train", policy="PreemptLowerPriority"),
            leaf("x", "a", workload="other"),
            leaf("y", "a", workload="train", policy="Never"),
        ],
        ("PodGroup team-a/x", "spec.workloadRef", "its Workload is other, and that of the root train."),
        (
            "PodGroup team-a/y",
            "spec.preemptionPolicy",
            "is Never, and that of the tree PreemptLowerPriority.",
        ),
        kubernetes="1.38",
    ),
    case(
        "the policy of the pods, for a root without one",
        [composite("a"), leaf("x", "a", policy="Never"), leaf("y", "a"), pod("p", group="y")],
        ("PodGroup team-a/x", "spec.preemptionPolicy", "that of the tree PreemptLowerPriority."),
        kubernetes="1.38",
    ),
    case(
        "a tree in order, one of Podium's, and a policy that only the groups have",
        [
            composite("a", least=1, mode=WHOLE, workload="w"),
            leaf("x", "a", min_count=1, mode=WHOLE, workload="w"),
            composite("b", least=1, podium=True),
            leaf("y", "b", podium=True),
            composite("c"),
            leaf("z", "c", policy="Never"),
        ],
        kubernetes="1.38",
    ),
    case("1.37 compares pods only", [composite("a", least=1), leaf("x", "a")]),
)
