"""The report: its first lines and its omissions with their reasons; it does not depend on input order."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import (
    NS,
    cluster,
    container,
    group_template,
    kueue_workload,
    node,
    owner,
    pod,
    pod_group,
    pods,
    priority_class,
    report,
    stored,
    workload,
)
from tests.support.audit.cases import classes, gangs, groups, members, neighbours, templates, tolerations

from podium.answers.audits.report import (
    Blocked,
    BlockedShare,
    DivergentPod,
    FixShare,
    NotChecked,
    PriorityShare,
)
from podium.answers.audits.run import MINORS, audit_view, choose_minor
from podium.api.core import Node, Pod
from podium.api.findings import ObjectRef, Severity
from podium.api.reads import Kind
from podium.cluster.state import Readable
from podium.errors import PodiumError

EVERYTHING = [
    each
    for module in (members, gangs, groups, classes, tolerations, templates, neighbours)
    for case in module.CASES
    for each in case.objects
]


def member(name: str, group: str, priority: int, job: str, gpus: str = "8") -> Pod:
    return pod(
        name,
        group=group,
        priority=priority,
        owner=("batch/v1", "Job", job),
        containers=[
            container({"cpu": "1", "nvidia.com/gpu": gpus, "rdma/hca": "1", "ephemeral-storage": "1Gi"})
        ],
    )


BLOCKED: list[Readable] = [
    owner("Job", "a-0", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "a")),
    pod_group("a", priority=1000),
    member("a-0", "a", 1000, "a-0"),
    member("a-1", "a", 0, "a-1"),
    pod_group("b", priority=5),
    member("b-0", "b", 5, "b"),
    pod_group("c", priority=5, namespace="team-b"),
    pod("c-0", group="c", priority=6, namespace="team-b", owner=None),
]


def test_blocked_counts_whole_groups_with_their_devices() -> None:
    summary = report(*BLOCKED, kubernetes="1.37").summary
    assert summary.blocked == Blocked(2, 3, {"nvidia.com/gpu": 16})
    assert summary.blockedByNamespace == [
        BlockedShare(NS, Blocked(1, 2, {"nvidia.com/gpu": 16})),
        BlockedShare("team-b", Blocked(1, 1, {})),
    ]
    assert summary.blockedByOwner == [
        BlockedShare("Job team-a/a-1", Blocked(1, 1, {"nvidia.com/gpu": 8})),
        BlockedShare("JobSet team-a/a", Blocked(1, 1, {"nvidia.com/gpu": 8})),
        BlockedShare("bare pods in team-b", Blocked(1, 1, {})),
    ]


def test_the_devices_of_alike_pods_add_up() -> None:
    asking = [pod(f"p-{index}", group="train", requests={"example.com/gpu": "4"}) for index in range(3)]
    assert report(pod_group(priority=1), *asking).summary.blocked == Blocked(1, 3, {"example.com/gpu": 12})


DIVERGENT: list[Readable] = [pod_group(priority=1), *pods(2)]
MISSING: list[Readable] = [*pods(3)]
MIXED: list[Readable] = [pod_group(min_count=2), *pods(1), pod("z", group="train", scheduler="other")]
MIXED_WAITING: list[Readable] = [
    pod_group(min_count=2),
    pod("y", group="train", node=None),
    pod("z", group="train", scheduler="other", node=None),
]
MIXED_BASIC: list[Readable] = [pod_group(), *pods(1), pod("z", group="train", scheduler="other")]
MIXED_BEGUN: list[Readable] = [*MIXED_BASIC, pod("y", group="train", node=None)]
POLICIES: list[Readable] = [pod_group(), *pods(1), pod("z", group="train", policy="Never")]
LARGE: list[Readable] = [
    node("n", {"cpu": "1"}),
    pod_group(min_count=2),
    pod("z", group="train", requests={"cpu": "1"}),
]
OURS: list[Readable] = [
    pod_group(priority=1),
    pod("y", group="train", scheduler="podium-scheduler"),
    pod("z", group="train", policy="Never", scheduler="podium-scheduler"),
]
PODIUM: list[Readable] = [pod_group(podium=True, priority=1), pod("z", podium="train")]
PODIUM_MISSING: list[Readable] = [pod("z", podium="train")]
SHORT: list[Readable] = [pod_group(min_count=9), *pods(2)]

WHEN: list[tuple[str, list[Readable], Sequence[int]]] = [
    ("divergence, from 1.37", DIVERGENT, (0, 0, 1, 1)),
    ("a gang of mixed schedulers that is placed, from 1.37", MIXED, (0, 0, 1, 1)),
    ("a gang of mixed schedulers that waits, since there are groups", MIXED_WAITING, (0, 1, 1, 1)),
    ("a basic group of mixed schedulers with members to place, from 1.37", MIXED_BEGUN, (0, 0, 1, 1)),
    ("a basic group of mixed schedulers that are all placed, never", MIXED_BASIC, (0, 0, 0, 0)),
    ("policies that differ, from 1.37", POLICIES, (0, 0, 1, 1)),
    ("a missing group, since there are groups", MISSING, (0, 1, 1, 1)),
    ("a gang too large, since there are groups", LARGE, (0, 1, 1, 1)),
    ("a divergent group that Podium's scheduler places, never", OURS, (0, 0, 0, 0)),
    ("a divergent Podium group, never", PODIUM, (0, 0, 0, 0)),
    ("a missing Podium group, always", PODIUM_MISSING, (1, 1, 1, 1)),
    ("a gang whose pods are still to come, never", SHORT, (0, 0, 0, 0)),
]


@pytest.mark.parametrize(("objects", "groups"), [case[1:] for case in WHEN], ids=[case[0] for case in WHEN])
def test_blocking_divergences_by_version(objects: list[Readable], groups: Sequence[int]) -> None:
    assert [report(*objects, kubernetes=minor).summary.blocked.groups for minor in MINORS] == list(groups)


def test_a_missing_group_is_not_blocked_where_groups_were_not_read() -> None:
    state = cluster(*MISSING, unread={Kind.POD_GROUP: "forbidden"})
    assert audit_view(state, kubernetes="1.37", chosen_by="").summary.blocked.groups == 0
    assert report(*MISSING, selector="app=x").summary.blocked.groups == 0


def test_divergent_groups_list_live_pods_by_value() -> None:
    made = report(
        pod_group(priority=1000),
        *pods(3, priority=1000),
        pod(
            "odd", group="train", priority=None, labels={"jobset.sigs.k8s.io/replicatedjob-name": "launcher"}
        ),
        pod("done", group="train", priority=7, phase="Succeeded"),
        pod("leaving", group="train", priority=8, terminating=True),
    )
    (group,) = made.groups
    assert (group.apiVersion, group.namespace, group.name) == ("scheduling.k8s.io/v1beta1", NS, "train")
    assert (group.source, group.priority, group.members) == ("PodGroup", 1000, 5)
    assert group.divergent == [DivergentPod("odd", 0, "launcher")]


def test_inferred_groups_are_marked() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "train"}
    made = report(*(pod(f"p-{index}", priority=index // 2, labels=labels) for index in range(3)))
    (group,) = made.groups
    assert (group.apiVersion, group.name, group.source) == ("jobset.x-k8s.io/v1alpha2", "train", "inferred")
    assert (group.priority, group.members, group.divergent) == (0, 3, [DivergentPod("p-2", 1)])
    assert made.summary.blocked.groups == 0


def test_pods_by_priority_are_live_ones_highest_first() -> None:
    made = report(
        pod("a", priority=5, class_name="x"),
        pod("b", priority=5, class_name="y"),
        pod("c", priority=None),
        pod("d", priority=9, phase="Failed"),
    )
    assert made.summary.priorities == [PriorityShare(5, ["x", "y"], 2), PriorityShare(0, [], 1)]


def test_one_remedy_for_all_that_a_recreated_class_divided() -> None:
    made = report(
        priority_class("gold", 1000),
        *(pod_group(f"g-{index}", priority=500, class_name="gold") for index in range(3)),
        *(pod(f"p-{index}", group=f"g-{index}", priority=1000, class_name="gold") for index in range(3)),
    )
    assert made.summary.fixes[0] == FixShare(
        "recreate objects that are older than the current value of PriorityClass gold",
        "pod-priority-differs",
        4,
    )
    assert sum(each.clears for each in made.summary.fixes) == len(made.findings)


def test_the_fix_that_clears_most_comes_first() -> None:
    divided = [pod_group(f"g-{index}", priority=500, class_name="gold") for index in range(3)]
    members = [pod(f"p-{index}", group=f"g-{index}", priority=1000, class_name="gold") for index in range(3)]
    made = report(priority_class("gold", 1000), pod("lost", group="nowhere"), *divided, *members)
    assert [(each.rule, each.clears) for each in made.summary.fixes] == [
        ("pod-priority-differs", 4),
        ("group-missing", 1),
    ]


def test_findings_are_worst_first_and_counted() -> None:
    made = report(*EVERYTHING)
    assert [each.severity.rank for each in made.findings] == sorted(
        each.severity.rank for each in made.findings
    )
    counts = [made.summary.errors, made.summary.warnings, made.summary.infos]
    assert counts == [sum(each.severity is severity for each in made.findings) for severity in Severity]
    assert all(counts)


def test_select_and_ignore_name_rules() -> None:
    objects: list[Readable] = [*DIVERGENT, priority_class("unused", 1)]
    assert {each.rule for each in report(*objects, select=["class-unused"]).findings} == {"class-unused"}
    assert {each.rule for each in report(*objects, ignore=["class-unused"]).findings} == {
        "pod-priority-differs"
    }
    both = report(*objects, select=["class-unused", "pod-priority-differs"], ignore=["class-unused"])
    assert {each.rule for each in both.findings} == {"pod-priority-differs"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": ["nope"]}, "rule 'nope' does not exist"),
        ({"ignore": ["nope"]}, "rule 'nope' does not exist"),
        ({"kubernetes": "1.34"}, "'1.34' is not known. Choose one of 1.35, 1.36, 1.37, 1.38"),
    ],
)
def test_a_mistake_is_one_line(options: dict[str, str], message: str) -> None:
    with pytest.raises(PodiumError) as raised:
        report(**options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_quantity_that_is_none_is_one_line_that_names_object_and_field() -> None:
    bad = pod("p", group="train", requests={"cpu": "a lot"})
    with pytest.raises(PodiumError, match=r"Pod team-a/p: spec.containers\[0\].*\[cpu\]: 'a lot' is not"):
        report(bad, pod_group(min_count=1), node("n", {"cpu": "1"}))
    with pytest.raises(PodiumError, match=r"Node n: status\.allocatable\[cpu\]: '' is not a quantity"):
        report(node("n", {"cpu": ""}))


def test_a_part_of_the_cluster_disables_what_concludes_from_absence() -> None:
    made = report(priority_class("unused", 1), *MISSING, namespace="team-a", selector="app=x")
    assert made.findings == []
    assert made.summary.notChecked == [
        NotChecked(
            "Pod",
            "only namespace team-a was read, only what matches app=x was read",
            ["class-unused", "composite-parent-missing", "top-class-share"],
        ),
        NotChecked(
            "Pod",
            "only what matches app=x was read",
            [
                "claim-unsatisfiable",
                "composite-too-few-children",
                "device-class-missing",
                "device-selector-unmatched",
                "gang-last-wave",
                "gang-too-few-pods",
                "group-missing",
                "group-unread",
                "template-group-missing",
                "template-too-few-pods",
            ],
        ),
    ]
    assert [each.rule for each in report(*MISSING, namespace="team-a").findings] == ["group-missing"]


def test_every_unread_kind_is_named_with_its_rules() -> None:
    state = cluster(*EVERYTHING, unread={Kind.POD: "forbidden: list pods", Kind.NODE: "not in the input"})
    made = audit_view(state, kubernetes="1.37", chosen_by="")
    kinds = {each.kind: each for each in made.summary.notChecked}
    assert kinds.keys() == {"Pod", "Node"}
    on_nodes = ["claim-unsatisfiable", "gang-larger-than-domain", "gang-pinned", "gang-too-large"]
    on_nodes += ["group-straddles-domains", "topology-key-missing", "topology-value-empty"]
    assert kinds["Node"] == NotChecked("Node", "not in the input", on_nodes)
    assert "pod-priority-differs" in kinds["Pod"].rules
    assert {each.rule for each in made.findings}.isdisjoint(kinds["Pod"].rules)


def test_counts_of_the_input_are_handed_through_in_order() -> None:
    made = report(objects={"Pod": 2, "Node": 1}, skipped={"v1 Secret": 3})
    assert list(made.summary.objects.items()) == [("Node", 1), ("Pod", 2)]
    assert made.summary.skipped == {"v1 Secret": 3}
    assert (made.summary.kubernetes, made.summary.chosenBy) == ("1.37", "test")


KUBELETS: list[tuple[str, list[str | None], tuple[str, str]]] = [
    ("one minor", ["v1.36.3", "v1.36.1"], ("1.36", "the newest kubelet of 2 nodes")),
    ("the newest decides", ["v1.36.3", "v1.37.0", "v1.36.3"], ("1.37", "the newest kubelet of 3 nodes")),
    ("vendors' suffixes", ["v1.35.9-eks-1234", "1.35.1+k3s1"], ("1.35", "the newest kubelet of 2 nodes")),
    ("none", [], ("1.37", "assumed, because no node has a version")),
    ("none that can be read", [None, "unknown"], ("1.37", "assumed, because no node has a version")),
    ("too old", ["v1.29.0"], ("1.35", "the newest kubelet of 1 node is 1.29; the nearest known minor")),
    ("too new", ["v1.40.0"], ("1.38", "the newest kubelet of 1 node is 1.40; the nearest known minor")),
]


@pytest.mark.parametrize(
    ("versions", "chosen"), [each[1:] for each in KUBELETS], ids=[each[0] for each in KUBELETS]
)
def test_the_minor_comes_from_the_newest_kubelet(versions: list[str | None], chosen: tuple[str, str]) -> None:
    nodes = [node(f"n-{index}", kubelet=each) for index, each in enumerate(versions)]
    assert choose_minor(cluster(*nodes)) == chosen
    assert choose_minor(cluster(Node())) == ("1.37", "assumed, because no node has a version")


# NVIDIA/k8s-dra-driver-gpu: a vendored test file has a Node of Kubernetes 1.11, with a UID.
OLD = node(kubelet="v1.11.0")
NO_CLUSTER = "assumed, because the input is no cluster, so its kubelet 1.11 does not count"
NEAREST = "the newest kubelet of 1 node is 1.11; the nearest known minor"


@pytest.mark.parametrize(
    ("objects", "chosen"),
    [
        ([*stored(OLD), owner()], ("1.37", NO_CLUSTER)),
        ([OLD, pod("a", node=None)], ("1.37", NO_CLUSTER)),
        ([*stored(OLD, owner()), pod("a", node=None), priority_class("gold")], ("1.37", NO_CLUSTER)),
        ([OLD, pod_group(version="v1alpha2")], ("1.36", "no other minor serves")),
        ([node("n", kubelet="v1.36.0"), owner()], ("1.36", "the newest kubelet of 1 node")),
        ([*stored(OLD, owner(), pod("a", node=None)), priority_class("gold")], ("1.35", NEAREST)),
        ([OLD, pod("a")], ("1.35", NEAREST)),
        (stored(OLD), ("1.35", NEAREST)),
    ],
    ids=[
        *("a stored node among manifests", "a node of a manifest", "few stored objects", "v1alpha2"),
        *("a known minor", "a dump and a manifest", "a node with a pod", "nodes alone"),
    ],
)
def test_an_old_node_among_manifests_has_no_say(objects: list[Readable], chosen: tuple[str, str]) -> None:
    minor, why = choose_minor(cluster(*objects))
    assert (minor, why[: len(chosen[1])]) == chosen


@pytest.mark.parametrize(
    ("groups", "chosen"),
    [
        ([pod_group(version="v1alpha2")], "1.36"),
        ([pod_group(version="v1alpha2"), pod_group("ours", podium=True)], "1.36"),
        ([pod_group(version="v1alpha2"), pod_group("new")], "1.37"),
        ([pod_group(version="v1alpha2", podium=True)], "1.37"),
    ],
    ids=["alone", "beside Podium's", "beside v1beta1", "Podium's own"],
)
def test_v1alpha2_alone_means_the_minor_that_serves_it(groups: list[Readable], chosen: str) -> None:
    """Kubelets and the server's own version come first."""
    assert choose_minor(cluster(*groups))[0] == chosen
    assert choose_minor(cluster(*groups, node("n", kubelet="v1.37.0")))[0] == "1.37"


@given(
    st.lists(st.sampled_from(EVERYTHING), max_size=40),
    st.randoms(use_true_random=False),
    st.sampled_from(list(MINORS)),
)
def test_the_order_of_objects_is_nothing(objects: list[Readable], random: Random, minor: str) -> None:
    """Any objects give one report in any order; of objects with one identity the first counts."""
    first: dict[tuple[str, str, str], Readable] = {}
    for each in objects:
        first.setdefault(_identity(each), each)
    shuffled = list(first.values())
    random.shuffle(shuffled)
    assert report(*shuffled, kubernetes=minor) == report(*first.values(), kubernetes=minor)


def test_the_order_of_a_whole_cluster_is_nothing() -> None:
    objects: list[Readable] = [
        *BLOCKED,
        *EVERYTHING,
        workload(group_template()),
        kueue_workload("k", priority=3, owners=[("batch/v1", "Job", "a-1")]),
        kueue_workload("l", priority=4, owners=[("batch/v1", "Job", "a-1")]),
    ]
    first: dict[tuple[str, str, str], Readable] = {}
    for each in objects:
        first.setdefault(_identity(each), each)
    expected = report(*first.values())
    for seed in range(20):
        shuffled = list(first.values())
        Random(seed).shuffle(shuffled)
        assert report(*shuffled) == expected


def _identity(obj: Readable) -> tuple[str, str, str]:
    metadata = obj.metadata
    kind = obj.ref.kind + obj.ref.group if hasattr(obj, "ref") else obj.kind
    return kind, metadata.namespace or "", metadata.name or ""


@pytest.mark.parametrize(
    ("kubernetes", "version"),
    [("1.35", "v1alpha2"), ("1.36", "v1alpha2"), ("1.37", "v1beta1"), ("1.38", "v1beta1")],
)
def test_an_unread_group_is_named_by_the_api_of_the_minor(kubernetes: str, version: str) -> None:
    """Its fingerprint is the same on all of them."""
    (found,) = report(pod("p", group="g"), kubernetes=kubernetes, select=["group-missing"]).findings
    assert found.object == ObjectRef(f"scheduling.k8s.io/{version}", "PodGroup", NS, "g")
    (newest,) = report(pod("p", group="g"), kubernetes="1.38", select=["group-missing"]).findings
    assert found.fingerprint == newest.fingerprint
