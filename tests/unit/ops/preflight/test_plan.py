"""The plan of an upgrade: the groups that stop or start, the objects to recreate, the steps in order."""

import json

import pytest
from tests.support.preflight import (
    NEW_VERSION,
    OLD_VERSION,
    Object,
    budget,
    composite,
    group,
    node,
    planned,
    pod,
    spread,
    workload,
)

from podium.answers.audits.report import Blocked
from podium.ops.preflight import When

DIVERGENT = [group(version=NEW_VERSION), pod(priority=5)]
LEAVING = group(version=NEW_VERSION)
LEAVING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

OLDEST: Object = {
    "apiVersion": "scheduling.k8s.io/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "old", "namespace": "team-a", "uid": "uid-old"},
    "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]},
}

MANIFEST: Object = {**OLDEST, "metadata": {"name": "old", "namespace": "team-a"}}

# The stored objects, the two minors, and the rules whose findings come with the upgrade.
TREE: Object = {
    **workload("a", version=NEW_VERSION),
    "spec": {
        "compositePodGroupTemplates": [
            {
                "name": "root",
                "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                "podGroupTemplates": [{"name": "leaf", "schedulingPolicy": {"basic": {}}}],
            }
        ]
    },
}
IN_RACK = {"topology": [{"key": "rack"}]}
BELOW = {"parentCompositePodGroupName": "root"}
FLAGS_OF_1_36 = ["remove scheduling.k8s.io/v1alpha2", "remove unknown gates"]

BROUGHT: dict[str, tuple[list[Object], str, str, list[str]]] = {
    "v1alpha2 goes with 1.37": ([group()], "1.36", "1.37", ["v1alpha2-removed"]),
    "v1alpha2 is gone already": ([group()], "1.37", "1.38", []),
    "v1alpha1 goes with 1.36": ([OLDEST], "1.35", "1.36", ["v1alpha1-removed"]),
    "v1alpha1 goes on the way to 1.37": ([OLDEST], "1.35", "1.37", ["v1alpha1-removed"]),
    "a manifest of a removed version was never applied": ([MANIFEST], "1.36", "1.37", ["v1alpha1-removed"]),
    "a group of the new version stays": ([group(version=NEW_VERSION)], "1.36", "1.37", []),
    "1.36 lets a divergent group run": (DIVERGENT, "1.36", "1.37", ["pod-priority-differs"]),
    "1.37 does not, nor does 1.38": (DIVERGENT, "1.37", "1.38", []),
    "1.37 refuses templates that differ": (
        [workload("a", "b", version=NEW_VERSION)],
        "1.36",
        "1.37",
        ["template-priorities-differ"],
    ),
    "1.38 refuses to create a basic group of mode all": (
        [group(version=NEW_VERSION, schedulingPolicy={"basic": {}})],
        "1.37",
        "1.38",
        ["basic-with-group-disruption"],
    ),
    "1.38 refuses a basic child of a gang": ([TREE], "1.37", "1.38", ["composite-child-policy"]),
    "1.38 takes new pods of a group that goes": ([LEAVING, pod()], "1.37", "1.38", []),
    "1.38 counts the pods of an empty selector": (
        [budget({}), spread("web", {}), budget({"matchLabels": {"a": "b"}}, "some"), spread("other", None)],
        "1.37",
        "1.38",
        ["spread-selects-all", "budget-selects-all"],
    ),
    "1.37 counts none of them": ([budget({}), spread("web", {})], "1.36", "1.37", []),
    "1.38 has no domain without a name": (
        [node("n", {"rack": ""}), group(version=NEW_VERSION, schedulingConstraints=IN_RACK)],
        "1.37",
        "1.38",
        ["topology-key-missing", "topology-value-empty"],
    ),
    "what is missing is missing today": ([pod()], "1.36", "1.37", []),
}


TREE_OF_GROUPS: list[Object] = [
    composite("root", schedulingPolicy={"gang": {"minGroupCount": 1}}),
    group(
        "leaf", version=NEW_VERSION, schedulingPolicy={"basic": {}}, disruptionMode={"single": {}}, **BELOW
    ),
    pod(of="leaf"),
]


def test_a_tree_of_unlike_groups_stops() -> None:
    """kube-scheduler 1.38 compares the groups of a tree with their parents, and 1.37 does not."""
    report = planned(*TREE_OF_GROUPS, current="1.37", target="1.38").report
    assert [each.rule for each in report.findings] == ["composite-groups-unlike"]
    assert [(str(each.object), each.has.pods) for each in report.stopped] == [("PodGroup team-a/leaf", 1)]
    podium = pod(of="leaf")
    podium["spec"]["schedulerName"] = "podium-scheduler"
    report = planned(*TREE_OF_GROUPS[:2], podium, current="1.37", target="1.38").report
    assert report.stopped == []


def test_a_tree_of_two_priorities_stops_today() -> None:
    """1.37 compares the pods with the root, so the upgrade changes nothing."""
    tree = [composite("root", priority=5), *TREE_OF_GROUPS[1:]]
    assert planned(*tree, current="1.37", target="1.38").report.stopped == []
    assert [each.object.name for each in planned(*tree).report.stopped] == ["leaf"]


@pytest.mark.parametrize("name", BROUGHT)
def test_findings_of_the_target_minor_only_are_listed(name: str) -> None:
    """Return the findings of the target that the current minor does not have."""
    objects, current, target, rules = BROUGHT[name]
    report = planned(*objects, current=current, target=target).report
    assert [each.rule for each in report.findings] == rules


def test_a_divergent_group_stops_with_all_it_has() -> None:
    """The report counts its live pods and their devices, and names its owner."""
    report = planned(group(version=NEW_VERSION), pod(priority=5, job="train"), pod("bare", priority=0)).report
    assert report.stops == Blocked(1, 2, {"example.com/gpu": 16})
    (stopped,) = report.stopped
    assert stopped.owners == ["Job team-a/train", "Pod bare"]
    assert report.breaks


def test_a_group_blocked_today_is_no_upgrade_problem() -> None:
    """Two schedulers in a group whose first member is placed: 1.36 continues, 1.37 refuses the others."""
    split = [pod("a"), pod("b")]
    split[0]["spec"]["nodeName"] = "node-1"
    split[1]["spec"]["schedulerName"] = "other"
    basic = group(version=NEW_VERSION, schedulingPolicy={"basic": {}})
    assert [each.object.name for each in planned(basic, *split).report.stopped] == ["train"]
    assert planned(basic, *split, current="1.37", target="1.38").report.stopped == []


def test_an_upgrade_without_consequences_has_only_flags_to_change() -> None:
    """The report is empty, and no file is written."""
    report, manifests = planned(group(version=NEW_VERSION), pod())
    assert (report.findings, report.stopped, report.remade) == ([], [], [])
    assert [step.what.partition(" from")[0] for step in report.steps] == FLAGS_OF_1_36
    assert not report.breaks
    assert manifests == {}


def test_an_object_is_made_anew_as_convert_writes_it() -> None:
    """The manifest is without the server's fields; the old object is listed unchanged, to be deleted."""
    old = group(priorityClassName="gold", priority=5)
    report, manifests = planned(workload("gold"), old, pod(job="train"))
    new_workload, new = manifests["new/team-a.yaml"]
    assert [each["kind"] for each in manifests["old/team-a.yaml"]] == ["Workload", "PodGroup"]
    assert manifests["old/team-a.yaml"][1] == old
    assert new_workload["kind"] == "Workload"
    assert new == {
        "apiVersion": NEW_VERSION,
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "disruptionMode": {"all": {}},
            "priorityClassName": "gold",
        },
    }
    of_workload, of_group = report.remade
    assert (of_workload.pods, of_workload.owners) == (0, [])
    assert (of_group.pods, of_group.owners, of_group.stored) == (1, ["Job team-a/train"], True)
    assert of_group.manifest == "new/team-a.yaml"
    assert of_group.lost == []


def owned_by(target: Object, kind: str, name: str, version: str = "batch/v1") -> Object:
    """Return an object with a controller."""
    controller = {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {**target, "metadata": {**target["metadata"], "ownerReferences": [controller]}}


def test_a_controller_recreates_its_groups() -> None:
    """A Job of another UID creates its own group, so neither a manifest nor a step recreates the old one."""
    report, manifests = planned(
        owned_by(workload("a"), "Job", "train"), owned_by(group(), "Job", "train"), pod(job="train")
    )
    assert list(manifests) == ["old/team-a.yaml"]
    assert [(each.creator, each.manifest) for each in report.remade] == [("Job team-a/train", "")] * 2
    assert [(each.rule, str(each.object)) for each in report.findings][-1] == (
        "job-gang-by-shape",
        "Job team-a/train",
    )
    assert report.findings[0].fix == (
        "Job team-a/train creates it again; before the upgrade: "
        "kubectl delete podgroup.scheduling.k8s.io train -n team-a --wait=false"
    )
    flagged = ("--feature-gates", "--runtime-config")
    steps = [step for step in report.steps if not any(flag in step.what for flag in flagged)]
    assert [(each.when, each.what) for each in steps] == [
        (
            When.BEFORE,
            (
                "stop Job team-a/train, or wait for the end: "
                "the API server keeps their groups until these pods are gone"
            ),
        ),
        (
            When.BEFORE,
            "delete Job team-a/train when stopped: their controllers would create the groups again",
        ),
        (When.BEFORE, "delete all 2 objects of scheduling.k8s.io/v1alpha2"),
        (When.UPGRADE, "upgrade the control plane to 1.37; it has to serve scheduling.k8s.io/v1beta1"),
        (
            When.AFTER,
            (
                "to keep Job team-a/train a gang, set spec.scheduling.schedulingPolicy.gang in the Job or "
                "its template before it is recreated (gate WorkloadWithJob)"
            ),
        ),
        (
            When.AFTER,
            (
                "restart the stopped workloads: Job team-a/train; "
                "their controllers create the groups that they own"
            ),
        ),
    ]


CREATORS: dict[str, tuple[list[Object], list[str]]] = {
    "a JobSet": ([owned_by(group(), "JobSet", "train", "jobset.x-k8s.io/v1alpha2")], ["JobSet team-a/train"]),
    "the JobSet of its Workload": (
        [
            owned_by(workload("a"), "JobSet", "set", "jobset.x-k8s.io/v1alpha2"),
            owned_by(group(), "Workload", "train", OLD_VERSION),
        ],
        ["JobSet team-a/set", "JobSet team-a/set"],
    ),
    "a Workload without a controller": (
        [workload("a"), owned_by(group(), "Workload", "train", OLD_VERSION)],
        ["", ""],
    ),
    "people, whose Job names the group": (
        [
            owned_by(group(), "Job", "train"),
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "train", "namespace": "team-a", "uid": "uid-train"},
                "spec": {"template": {"spec": {"schedulingGroup": {"podGroupName": "train"}}}},
            },
        ],
        [""],
    ),
}


@pytest.mark.parametrize("name", CREATORS)
def test_a_group_is_recreated_by(name: str) -> None:
    """The controller that owns a group recreates it; people recreate the others."""
    objects, creators = CREATORS[name]
    assert [each.creator for each in planned(*objects).report.remade] == creators


def test_new_manifests_have_no_owners() -> None:
    """The owner may be recreated with another UID, and then the new group would be deleted."""
    kept = owned_by(group(), "Job", "train")
    del kept["metadata"]["ownerReferences"][0]["controller"]
    report, manifests = planned(kept)
    assert manifests["new/team-a.yaml"][0]["metadata"] == {"name": "train", "namespace": "team-a"}
    (remade,) = report.remade
    assert remade.lost == [
        (
            "metadata.ownerReferences: Job train left out: recreated it has another uid, and an owner of "
            "unknown uid means deletion"
        )
    ]


def test_losses_of_a_conversion_are_reported() -> None:
    """The owner has another UID after it is recreated."""
    owned = group()
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": OLD_VERSION, "kind": "Workload", "name": "train", "uid": "uid-train"}
    ]
    (remade,) = planned(owned).report.remade
    (lost,) = remade.lost
    assert lost.startswith("metadata.ownerReferences: Workload train left out")


def test_the_steps_of_a_cluster_are_in_order() -> None:
    """The order is: early fixes, the pods that hold groups, the deletion, the upgrade, and recreation."""
    report = planned(
        workload("a"),
        group(),
        pod(job="train", priority=5),
        group("newer", version=NEW_VERSION),
        pod("x", of="newer", priority=5),
    ).report
    steps = [(each.when, each.what) for each in report.steps]
    begin = [
        (When.BEFORE, "kubectl delete podgroup.scheduling.k8s.io newer"),
        (When.BEFORE, "stop Job team-a/train, or wait for the end: "),
        (When.BEFORE, "in out/new, and while the pods are stopped: kubectl delete podgroup"),
        (When.BEFORE, "delete all 2 objects of scheduling.k8s.io/v1alpha2"),
        (When.UPGRADE, "upgrade the control plane to 1.37; it has to serve scheduling.k8s.io/v1beta1"),
        *((When.UPGRADE, words) for words in FLAGS_OF_1_36),
        (When.AFTER, "recreate the objects"),
        (When.AFTER, "restart the stopped workloads: Job team-a/train"),
    ]
    assert len(steps) == len(begin)
    for (when, what), (wanted, words) in zip(steps, begin, strict=True):
        assert when is wanted
        assert what.startswith(words)
    resources = "podgroups.v1alpha2.scheduling.k8s.io,workloads.v1alpha2.scheduling.k8s.io"
    assert [each.commands for each in report.steps if each.commands] == [
        ["kubectl delete --wait=false -f out/old", f"kubectl get {resources} --all-namespaces"],
        ["kubectl create -f out/new"],
    ]


def test_without_a_folder_the_first_step_is_to_have_one() -> None:
    """An object that is deleted without its manifest is lost."""
    report = planned(group(), folder=None).report
    assert report.steps[0].what.endswith("--output-dir DIR")


def test_a_folder_is_quoted_in_commands() -> None:
    """The commands can be pasted for any name of the folder."""
    steps = planned(group(), folder="my out").report.steps
    assert "kubectl create -f 'my out'/new" in [line for each in steps for line in each.commands]


@pytest.mark.parametrize(
    ("current", "target", "gates"),
    [
        ("1.36", "1.37", {"GangScheduling"}),
        ("1.37", "1.38", {"PodGroupPreemptionPolicy"}),
        ("1.36", "1.38", {"GangScheduling", "PodGroupPreemptionPolicy"}),
    ],
)
def test_gates_that_the_target_does_not_know_are_named(current: str, target: str, gates: set[str]) -> None:
    steps = planned(current=current, target=target).report.steps
    (what,) = [step.what for step in steps if "unknown gates" in step.what]
    named = set(what.rpartition(": ")[2].replace(" and ", ", ").split(", "))
    assert gates == named & {"GangScheduling", "PodGroupPreemptionPolicy", "GenericWorkload"}


def test_locked_gates_cannot_be_off() -> None:
    """A component of 1.38 does not start with `=false` of a gate that is locked there."""
    (what,) = [
        step.what for step in planned(current="1.37", target="1.38").report.steps if "locked" in step.what
    ]
    assert "DRAPartitionableDevices" in what
    assert "DRAConsumableCapacity" not in what


@pytest.mark.parametrize(
    ("target", "version", "warned"),
    [
        ("1.38", "scheduling.k8s.io/v1alpha3", True),
        ("1.38", "scheduling.podium.dev/v1beta1", False),
        ("1.37", "scheduling.k8s.io/v1alpha3", False),
    ],
)
def test_composite_groups_have_no_way_back_from_1_38(target: str, version: str, warned: bool) -> None:
    """1.38 stores them in v1beta1, and 1.37 has the kind in v1alpha3 only."""
    root = composite("root", version=version, schedulingPolicy={"basic": {}})
    steps = planned(root, current="1.36" if target == "1.37" else "1.37", target=target).report.steps
    warnings = [step for step in steps if step.what.startswith("do not go back")]
    assert bool(warnings) is warned
    for step in warnings:
        resource = "compositepodgroups.v1beta1.scheduling.k8s.io"
        assert [command.split()[:3] for command in step.commands] == [
            ["kubectl", "delete", resource],
            ["kubectl", "get", resource],
        ]


def test_two_minors_are_two_upgrades() -> None:
    """A control plane is upgraded one minor at a time."""
    report = planned(group(), target="1.38").report
    assert "to 1.37, then to 1.38;" in next(each.what for each in report.steps if each.when is When.UPGRADE)


def test_a_manifest_of_a_repository_is_replaced_there() -> None:
    """No server stores it: nothing is deleted."""
    manifest = group()
    del manifest["metadata"]["uid"]
    report, manifests = planned(manifest)
    assert list(manifests) == ["new/team-a.yaml"]
    assert [each.what for each in report.steps if each.when is When.AFTER] == [
        "copy the manifests of out/new to your repository"
    ]


def test_a_namespace_stays_inside_the_folder() -> None:
    """Files may name a namespace that no server would accept."""
    outside = group()
    outside["metadata"]["namespace"] = "../../etc"
    assert set(planned(outside).manifests) == {"new/..%2F..%2Fetc.yaml", "old/..%2F..%2Fetc.yaml"}


def test_the_same_objects_in_any_order_give_the_same_plan() -> None:
    """So two runs can be compared."""
    objects = [group(), group("b"), workload("a"), pod(job="train", priority=5), pod("x", of="b")]
    there, back = planned(*objects), planned(*reversed(objects))
    assert json.dumps(there.manifests, sort_keys=True) == json.dumps(back.manifests, sort_keys=True)
    assert there.report == back.report


def test_a_workload_of_1_35_is_deleted_and_recreated() -> None:
    """It has no PodGroups of its version, so none are looked for."""
    report, manifests = planned(OLDEST, current="1.35", target="1.37")
    (remade,) = report.remade
    assert remade.target == NEW_VERSION
    (new,) = manifests[remade.manifest]
    assert [each["name"] for each in new["spec"]["podGroupTemplates"]] == ["workers"]
    commands = [command for step in report.steps for command in step.commands]
    assert "kubectl get workloads.v1alpha1.scheduling.k8s.io --all-namespaces" in commands
