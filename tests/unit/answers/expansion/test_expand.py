"""The objects of an added file: admitted as by a server, in the groups of a server, pending or not."""

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.expand import (
    ASKING,
    GOLD,
    LETS,
    NOW,
    Document,
    add,
    cluster,
    group,
    job,
    jobset,
    labels_of,
    leader_worker_set,
    made,
    member,
    pod,
    pods,
    role,
    template,
)
from tests.unit.api.test_devices import DEVICES
from tests.unit.api.test_storage import OBJECTS

from podium.answers.expansion.createdpods import MOST_PODS
from podium.answers.expansion.expand import MOST_NOTES, Expansion
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.documents.document import ReadError
from podium.groups.autogroups import DISRUPTION_LABEL, TREE_LABEL

GROUP_LABEL = "scheduling.podium.dev/pod-group"
PODIUM = "scheduling.podium.dev/v1beta1"


def _groups(expansion: Expansion) -> dict[str, PodGroup]:
    return {each.ref.name: each for each in expansion.objects if isinstance(each, PodGroup)}


def _native(name: str) -> GroupKey:
    return GroupKey(True, "t", name)


def _podium(name: str) -> GroupKey:
    return GroupKey(False, "t", name)


# Admission.


def test_a_pod_is_admitted_as_a_server_would() -> None:
    """Its class is resolved, its policy filled in; it is pending and new, whatever status the file has."""
    sent = pod(priorityClassName="gold")
    sent["metadata"] |= {"creationTimestamp": "2020-01-01T00:00:00Z", "resourceVersion": "7"}
    expansion = add(cluster(), sent)
    found = pods(expansion)["p"]
    assert (found.spec.priority, found.spec.preemptionPolicy) == (1000, "PreemptLowerPriority")
    assert found.metadata.creationTimestamp == NOW
    assert found.status is not None
    assert found.status.phase == "Pending"
    assert tuple(expansion.targets) == (("t", "p"),)
    assert expansion.notes == ()


def test_copies_of_a_template_are_admitted_alike() -> None:
    found = pods(add(cluster(), job(parallelism=3)))
    assert {each.spec.priority for each in found.values()} == {1000}
    assert {each.metadata.creationTimestamp for each in found.values()} == {NOW}


def test_a_class_of_the_file_counts_wherever_it_stands() -> None:
    silver = {**GOLD, "metadata": {"name": "silver"}, "value": 500}
    assert pods(add(cluster(), pod(priorityClassName="silver"), silver))["p"].spec.priority == 500


def test_the_default_class_counts() -> None:
    usual = {**GOLD, "metadata": {"name": "usual"}, "value": 5, "globalDefault": True}
    found = pods(add(cluster(usual), pod()))["p"]
    assert (found.spec.priority, found.spec.priorityClassName) == (5, "usual")


FIRST = "new.json, document 1, items[0], line 1"
MISMATCH = (
    "the integer value of priority (7) must not be provided in pod spec; priority admission controller "
    "computed 1000 from the given PriorityClass name"
)
NOT_SERVED = "scheduling.k8s.io/v1alpha2 podgroups is not served by Kubernetes 1.37 in this configuration"
ALONE = (
    "a Workload creates no pods. Add the Job, JobSet or LeaderWorkerSet that creates them, "
    "or its PodGroups with their pods"
)
TWICE = "Pod t/p is in the input twice, first in new.json, document 1, items[0]. Remove one"
CRON = made("batch/v1", "CronJob", "later", {"jobTemplate": {"spec": {"template": template()}}})
BROKEN = made("batch/v1", "Job", "broken", {"template": template(priorityClassName="lead")})
REFUSED: list[tuple[str, list[Document], str]] = [
    (
        "a class that does not exist",
        [pod(priorityClassName="lead")],
        f"{FIRST}: spec.priorityClassName: no PriorityClass with name lead was found",
    ),
    (
        "the class of a template",
        [job(template=template(priorityClassName="lead"))],
        f"{FIRST}: spec.template.spec.priorityClassName: no PriorityClass with name lead was found",
    ),
    (
        "the class of a group",
        [group(priorityClassName="lead")],
        f"{FIRST}: spec.priorityClassName: no PriorityClass with name lead was found",
    ),
    (
        "an integer that is not the class's",
        [pod(priorityClassName="gold", priority=7)],
        f"{FIRST}: spec.priority: {MISMATCH}",
    ),
    (
        "a group of another minor",
        [group(api_version="scheduling.k8s.io/v1alpha2")],
        f"{FIRST}: apiVersion: {NOT_SERVED}",
    ),
    (
        "a value of a wrong type in a template",
        [job(template=template(tolerations=[{"key": 1}]))],
        f"{FIRST}: spec.template.spec.tolerations[0].key: expected string or null, got integer",
    ),
    (
        "a group that does not exist",
        [member(of="nowhere")],
        f"{FIRST}: Pod p names PodGroup nowhere, which does not exist. Add it",
    ),
    (
        "an object without a name",
        [{"apiVersion": "v1", "kind": "Node", "metadata": {}}],
        f"{FIRST}: metadata.name: is missing. Give the object a name",
    ),
    (
        "a Workload alone",
        [made("scheduling.k8s.io/v1beta1", "Workload", "w", {"podGroupTemplates": [
            {"name": "all", "schedulingPolicy": {"basic": {}}}]})],
        f"{FIRST}: spec.controllerRef: {ALONE}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "expected"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_an_object_that_cannot_be_added_is_refused_with_file_and_field(
    objects: list[Document], expected: str
) -> None:
    with pytest.raises(ReadError) as refused:
        add(cluster(), *objects)
    assert str(refused.value) == expected


SECOND = role("b", template={"spec": {"template": template(priorityClassName="lead")}})
ABSENT = "no PriorityClass with name lead was found"
UNPLANNED: list[tuple[str, list[Document], str, str]] = [
    ("a CronJob", [CRON], "CronJob t/later", "spec.jobTemplate: creates its Jobs later. Add the Job instead"),
    (
        "a Job whose class does not exist",
        [BROKEN],
        "Job t/broken",
        f"spec.template.spec.priorityClassName: {ABSENT}",
    ),
    (
        "the last of two templates is refused",
        [jobset(role("a"), SECOND)],
        "JobSet t/js",
        f"spec.replicatedJobs[1].template.spec.template.spec.priorityClassName: {ABSENT}",
    ),
    (
        "a pod of a group that does not exist",
        [member("lost", of="nowhere")],
        "Pod t/lost",
        "Pod lost names PodGroup nowhere, which does not exist. Add it",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "ref", "problem"), [case[1:] for case in UNPLANNED], ids=[case[0] for case in UNPLANNED]
)
def test_an_object_without_a_plan_is_named_beside_the_others(
    objects: list[Document], ref: str, problem: str
) -> None:
    """Nothing of it is planned, and all else is. --strict refuses it."""
    expansion = add(cluster(), *objects, pod())
    assert tuple(expansion.targets) == (("t", "p"),)
    assert {str(each): text.split(": ", 1)[1] for each, text in expansion.unplanned.items()} == {ref: problem}
    with pytest.raises(ReadError, match=re.escape(problem)):
        add(cluster(), *objects, pod(), strict=True)


def test_pods_are_not_planned_without_the_group_that_a_workload_gives_them() -> None:
    templates = [{"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}} for name in ("x", "y")]
    controller = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    workload = made(
        "scheduling.k8s.io/v1beta1",
        "Workload",
        "w",
        {"podGroupTemplates": templates, "controllerRef": controller},
    )
    expansion = add(cluster(), workload, job(), pod())
    assert tuple(expansion.targets) == (("t", "p"),)
    assert [str(each) for each in expansion.unplanned] == ["Job t/train"]


def test_a_misspelt_field_is_a_note() -> None:
    misspelt = job(template=template(priorityClasName="gold"))
    note = "Job t/train: unknown field spec.template.spec.priorityClasName. Did you mean priorityClassName?"
    assert add(cluster(), misspelt).notes == (note,)
    with pytest.raises(ReadError, match=r"spec\.template\.spec\.priorityClasName: unknown field\. Did you"):
        add(cluster(), misspelt, strict=True)


def test_of_two_equal_objects_the_last_is_planned() -> None:
    expansion = add(cluster(), pod(priorityClassName="gold"), pod())
    assert pods(expansion)["p"].spec.priority == 0
    first, last = (f"new.json, document 1, items[{item}]" for item in (0, 1))
    assert expansion.notes == (f"in the input twice, the last one counts: Pod t/p ({first}; {last})",)
    with pytest.raises(ReadError, match=re.escape(TWICE)):
        add(cluster(), pod(), pod(), strict=True)


def test_a_missing_class_may_only_be_unread() -> None:
    """The error then names the unread classes."""
    state = cluster()
    state.note_unread({"PriorityClass": "missing permission: list priorityclasses"})
    with pytest.raises(ReadError, match=r"lead was found \(PriorityClasses: missing permission: list"):
        add(state, pod(priorityClassName="lead"))


def test_the_minor_decides_which_groups_there_are() -> None:
    old = group(api_version="scheduling.k8s.io/v1alpha2", disruptionMode="PodGroup")
    expansion = add(cluster(), old, member(), kubernetes="1.36")
    assert _groups(expansion)["g"].disruption_mode is DisruptionMode.POD_GROUP
    assert tuple(expansion.targets) == (_native("g"),)


# The added objects, and the pending ones among them.


def test_a_group_with_its_pods_waits_as_one() -> None:
    """The order in the file does not matter; the group's integer is resolved."""
    for objects in ([group(), member("a"), member("b")], [member("b"), member("a"), group()]):
        expansion = add(cluster(), *objects)
        assert tuple(expansion.targets) == (_native("g"),)
        assert _groups(expansion)["g"].priority == 1000
        assert _groups(expansion)["g"].metadata.creationTimestamp == NOW


def test_pods_may_join_a_group_that_is_there() -> None:
    expansion = add(cluster(group()), member())
    assert (tuple(expansion.targets), list(_groups(expansion))) == ((_native("g"),), [])


def test_a_group_may_come_to_pods_that_are_there() -> None:
    expansion = add(cluster(member()), group())
    assert (tuple(expansion.targets), expansion.notes) == ((_native("g"),), ())


def test_a_group_without_pods_is_said_to_have_none() -> None:
    expansion = add(cluster(), group(), pod())
    assert tuple(expansion.targets) == (("t", "p"),)
    assert expansion.notes == ("PodGroup t/g has no pending pods. Add them",)


ALPHA = "scheduling.k8s.io/v1alpha3"
# The version of the composite groups, and of the PodGroups with the prefix of their keys.
TREES = {"native": (ALPHA, "scheduling.k8s.io/v1beta1", True), "Podium": (PODIUM, PODIUM, False)}
TEMPLATE = {"workloadRef": {"workloadName": "w", "templateName": "t"}}


def _composite(name: str = "tree", api: str = PODIUM, parent: str = "") -> Document:
    """Return a composite group that needs two groups."""
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "priorityClassName": "gold", **TEMPLATE}
    return made(
        api, "CompositePodGroup", name, {**spec, "parentCompositePodGroupName": parent} if parent else spec
    )


def _leaf(name: str, api: str = PODIUM, parent: str = "tree") -> Document:
    return group(name, api, parentCompositePodGroupName=parent, **TEMPLATE)


def _job_in(name: str, *, native: bool) -> Document:
    """Return a Job of two pods in the group of the same name."""
    if native:
        field = {"schedulingGroup": {"podGroupName": name}}
        return job(name, template=template(priorityClassName="gold", **field))
    return job(name, {GROUP_LABEL: name})


@pytest.mark.parametrize("api", TREES)
def test_a_tree_is_one_target(api: str) -> None:
    """Its groups keep their parent in any order of the file, and the composite group has its integer."""
    version, group_version, native = TREES[api]
    objects = [
        *(_job_in(name, native=native) for name in "ab"),
        *(_leaf(name, group_version) for name in "ab"),
        _composite(api=version),
    ]
    for file in (objects, objects[::-1]):
        expansion = add(cluster(), *file)
        root = GroupKey(native, "t", "tree", composite=True)
        (tree,) = (each for each in expansion.objects if isinstance(each, CompositeGroup))
        assert expansion.targets == {root: tree.ref}
        assert (tree.priority, tree.min_group_count) == (1000, 2)
        assert {name: each.composite for name, each in _groups(expansion).items()} == dict.fromkeys(
            "ab", "tree"
        )
        assert len(pods(expansion)) == 4
        gate = "CompositePodGroup t/tree: planned as with the gate CompositePodGroup"
        assert expansion.notes == ((gate,) if native else ())


MEMBERS = [_job_in(name, native=False) for name in "ab"]
# Objects of the cluster and of the file, and the composite groups that are targets with the notes.
TREE_PARTS: dict[str, tuple[list[Document], list[Document], list[str], list[str]]] = {
    "a group for a tree of the cluster": (
        [_composite(), _leaf("a")],
        [_leaf("b"), MEMBERS[1]],
        ["tree"],
        [],
    ),
    "the root for groups of the cluster": (
        [_leaf("a"), pod("a-0", {GROUP_LABEL: "a"})],
        [_composite()],
        ["tree"],
        [],
    ),
    "two levels": (
        [],
        [_composite(), _composite("inner", parent="tree"), _leaf("a", parent="inner"), MEMBERS[0]],
        ["tree"],
        [],
    ),
    "two trees": (
        [],
        [_composite(), _composite("other"), _leaf("a"), _leaf("b", parent="other"), *MEMBERS],
        ["other", "tree"],
        [],
    ),
    "a tree without pods beside one with pods": (
        [],
        [_composite(), _composite("other"), _leaf("a"), MEMBERS[0]],
        ["tree"],
        ["CompositePodGroup t/other has no pending pods. Add them"],
    ),
}


@pytest.mark.parametrize("name", TREE_PARTS)
def test_the_targets_of_parts_of_trees(name: str) -> None:
    present, file, targets, notes = TREE_PARTS[name]
    expansion = add(cluster(*present), *file)
    assert sorted(expansion.targets) == [GroupKey(False, "t", each, composite=True) for each in targets]
    assert list(expansion.notes) == notes


CYCLE = [_composite("x", parent="y"), _composite("y", parent="x"), _leaf("a", parent="x"), MEMBERS[0]]
FLAWED = {
    "an absent root": ([_leaf("a"), MEMBERS[0]], "the composite group tree does not exist"),
    "a cycle": (CYCLE, "its composite groups nest in more than 4 levels, or in a cycle"),
}


@pytest.mark.parametrize("name", FLAWED)
def test_a_tree_without_a_root_has_no_plan(name: str) -> None:
    file, why = FLAWED[name]
    expansion = add(cluster(), *file, pod())
    assert tuple(expansion.targets) == (("t", "p"),)
    ((ref, problem),) = expansion.unplanned.items()
    assert ref.name == "a"
    assert problem.endswith(f"names PodGroup a, but {why}. Correct the tree")


def test_where_the_field_is_not_stored_a_pod_is_of_no_native_group() -> None:
    """The label of Podium's groups counts on every server."""
    state = cluster(native=False)
    expansion = add(state, member("a"))
    assert tuple(expansion.targets) == (("t", "a"),)
    assert any("schedulingGroup" in note for note in expansion.notes)
    labelled = pod("b", {GROUP_LABEL: "g"}, priorityClassName="gold")
    assert tuple(add(state, group(api_version=PODIUM), labelled).targets) == (_podium("g"),)


def test_a_pod_on_a_node_is_added_as_it_is() -> None:
    """The pod is not pending, and keeps its start."""
    running = pod(nodeName="n1")
    running["metadata"] |= {"uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    running["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:01Z"}
    expansion = add(cluster(), running)
    found = pods(expansion)["p"]
    assert found.status is not None
    assert (found.status.phase, found.status.startTime) == ("Running", "2026-01-01T00:00:01Z")
    assert (found.metadata.uid, found.metadata.creationTimestamp) == ("u-1", "2026-01-01T00:00:00Z")
    assert tuple(expansion.targets) == ()


def test_objects_that_plans_need_are_added_and_the_rest_is_counted() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1"}},
    }
    budget = made("policy/v1", "PodDisruptionBudget", "b", {"maxUnavailable": 1})
    claim = made("v1", "PersistentVolumeClaim", "c", {"volumeName": "v"})
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}}
    service = made("v1", "Service", "s", {})
    state = cluster()
    expansion = add(state, node, budget, claim, volume, service, made("v1", "Service", "r", {}))
    for each in expansion.objects:
        state.apply(each)
    assert (set(state.nodes), set(state.budgets)) == ({"n"}, {("t", "b")})
    assert (set(state.claims), set(state.volumes)) == ({("t", "c")}, {"v"})
    assert expansion.notes == ("skipped, no plan depends on them: 2 v1 Service",)


def test_another_version_of_a_kind_that_plans_read_is_named() -> None:
    """Examples of DRA drivers have templates of versions that a server of today does not serve."""
    older = made("resource.k8s.io/v1beta1", "ResourceClaimTemplate", "one", {})
    kind = "resource.k8s.io/v1beta1 ResourceClaimTemplate"
    notes = add(cluster(), older, pod()).notes
    assert notes == (f"not read, because plans know other versions of them: 1 {kind}",)


def test_storage_of_a_file_is_added() -> None:
    """Classes, drivers, nodes and attachments have no namespace; a capacity without one is in `default`."""
    stored = [
        {**each, "apiVersion": api_version, "kind": kind, "metadata": {"name": each["metadata"]["name"]}}
        for (api_version, kind), each in OBJECTS.items()
        if api_version == "storage.k8s.io/v1"
    ]
    state = cluster()
    replaced = "CSIDriver csi.example, CSINode n1, CSIStorageCapacity default/csisc-1 and 2 more"
    for notes in ((), (f"replaces stored objects: {replaced}",)):
        expansion = add(state, *stored)
        for each in expansion.objects:
            state.apply(each)
        assert expansion.notes == notes
    assert (set(state.storage_classes), set(state.csi_nodes)) == ({"fast"}, {"n1"})
    assert (set(state.csi_drivers), set(state.attachments)) == ({"csi.example"}, {"csi-1"})
    assert set(state.storage_capacities) == {("default", "csisc-1")}


def test_devices_of_a_file_are_added() -> None:
    """Slices and classes have no namespace; claims and templates without one are in `default`."""
    stored = [
        {**each, "apiVersion": api_version, "kind": kind, "metadata": {"name": each["metadata"]["name"]}}
        for (api_version, kind), each in DEVICES.items()
    ]
    state = cluster()
    expansion = add(state, *stored)
    for each in expansion.objects:
        state.apply(each)
    assert expansion.notes == ()
    assert (set(state.resource_slices), set(state.device_classes)) == (
        {"n1-gpu.example-abcde"},
        {"gpu.example"},
    )
    assert set(state.resource_claims) == {("default", "train-gpus-x7k2p")}
    assert set(state.claim_templates) == {("default", "gpus")}


def test_a_kind_that_is_not_read_is_never_called_irrelevant() -> None:
    expansion = add(cluster(), made("example.com/v1", "Flock", "f", {}), made("v1", "Service", "s", {}))
    assert expansion.notes == (
        "skipped, no plan depends on them: 1 v1 Service",
        "not read; the plan lacks pods that they create and groups that they form: 1 example.com/v1 Flock",
    )


def test_an_existing_object_is_replaced_and_reported() -> None:
    """A file from the cluster can be changed and added again."""
    state = cluster(group(), member(), job())
    before = (dict(state.pods), dict(state.groups))
    expansion = add(state, group(schedulingPolicy={"gang": {"minCount": 1}}), member(), job(), GOLD)
    assert "replaces stored objects: Pod t/p, PodGroup t/g, PriorityClass gold" in expansion.notes
    assert "Job t/train exists already; its pods stay, beside the added ones" in expansion.notes
    assert (dict(state.pods), dict(state.groups)) == before
    assert _groups(expansion)["g"].min_count == 1


ROLLOUTS: dict[str, tuple[Document, int, str]] = {
    "a quarter more, rounded up, without a strategy": (
        {},
        3,
        "(maxSurge 1) 3 old pods of 4 end first and 1 old pod can be victims of the last new pod",
    ),
    "twice the pods": (
        {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}},
        0,
        "(maxSurge 4) 4 old pods can be victims of the last new pod",
    ),
    "one after the other": (
        {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        4,
        "(maxSurge 0) 4 old pods of 4 end first",
    ),
    "all at once": ({"type": "Recreate"}, 4, "(maxSurge 0) 4 old pods of 4 end first"),
    "a value that no server takes": (
        {"rollingUpdate": {"maxSurge": "many"}},
        4,
        "(maxSurge 0) 4 old pods of 4 end first",
    ),
}


@pytest.mark.parametrize("name", ROLLOUTS)
@pytest.mark.parametrize("with_replica_set", [True, False])
def test_a_rollout_ends_old_pods_of_its_deployment(name: str, *, with_replica_set: bool) -> None:
    """Source: kubernetes/kubernetes#109714, and ResolveFenceposts of the Deployment controller."""
    strategy, ended, note = ROLLOUTS[name]
    web = made("apps/v1", "Deployment", "web", {"replicas": 4, "template": template()})
    stored = [
        made(
            "apps/v1",
            "ReplicaSet",
            "web-5d",
            {"template": template()},
            ownerReferences=[_owner("Deployment", "web")],
        )
    ]
    old = [pod(f"web-5d-{at}", {"pod-template-hash": "5d"}, nodeName="n1") for at in range(4)]
    for at, one in enumerate(old):
        one["metadata"] |= {
            "creationTimestamp": f"2026-11-21T18:00:0{at}Z",
            "ownerReferences": [_owner("ReplicaSet", "web-5d")],
        }
    changed = {**web, "spec": {**web["spec"], "strategy": strategy}}
    expansion = add(cluster(web, *(stored if with_replica_set else ()), *old), changed)
    assert [each.metadata.name for each in expansion.ended] == [f"web-5d-{3 - at}" for at in range(ended)]
    assert expansion.notes == (f"Deployment t/web exists already: in its rollout {note}",)
    assert len(pods(expansion)) == 4


def _owner(kind: str, name: str) -> Document:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}


def test_objects_without_a_name_get_one_each() -> None:
    """The form is the server's, but the name is always the same."""
    nameless = {**pod(), "metadata": {"generateName": "p-", "namespace": "t"}}
    first, second = pods(add(cluster(), nameless, nameless))
    assert first.startswith("p-")
    assert first != second
    assert list(pods(add(cluster(), nameless, nameless))) == [first, second]


def test_findings_of_admission_are_said_but_not_without_end() -> None:
    """A member with another integer than its group's, for example."""
    (note,) = add(cluster(), group(), member(priorityClassName=None)).notes
    assert note.startswith("Pod t/p: spec.priority: priority 0 (no class) differs from that of PodGroup")
    many = [member(f"p{number}", priorityClassName=None) for number in range(MOST_NOTES + 5)]
    notes = add(cluster(), group(), *many).notes
    assert (len(notes), notes[-1]) == (MOST_NOTES + 1, "and 5 more notes")


# Gangs that ask for a group.

IN_TREE = {**ASKING, TREE_LABEL: "auto"}
GANGS: list[tuple[str, Document, dict[str, int]]] = [
    ("a Job is one", job(labels=ASKING, parallelism=3), {"train-job": 3}),
    ("a JobSet is one", jobset(role("a", 2, ASKING), role("b", 1, ASKING)), {"js-jobset": 6}),
    ("each replica is one", leader_worker_set(2, 3), {"serve-0-lws": 3, "serve-1-lws": 3}),
    ("the leader alone", leader_worker_set(1, 3, startupPolicy="LeaderReady"), {"serve-0-lws": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "groups"), [case[1:] for case in GANGS], ids=[case[0] for case in GANGS]
)
def test_pods_that_ask_get_their_gangs_group(document: Document, groups: dict[str, int]) -> None:
    """The group equals that of webhook and controller: name, minCount, class of most pods, owner."""
    expansion = add(cluster(native=False), document)
    assert {name: each.min_count for name, each in _groups(expansion).items()} == groups
    assert tuple(expansion.targets) == tuple(_podium(name) for name in groups)
    labels = [labels_of(each, GROUP_LABEL)[0] for each in pods(expansion).values()]
    assert {name: labels.count(name) for name in groups} == groups
    for each in _groups(expansion).values():
        controller = each.metadata.controller()
        assert controller is not None
        assert (controller.kind, controller.name) == (document["kind"], document["metadata"]["name"])


MADE_TREES: list[tuple[str, Document, dict[str, int], str]] = [
    (
        "the Jobs of a JobSet",
        jobset(role("a", 2, IN_TREE), role("b", 1, IN_TREE)),
        {"js-a-0-child": 2, "js-a-1-child": 2, "js-b-0-child": 2},
        "js-jobset",
    ),
    (
        "replicas",
        leader_worker_set(2, leaderWorkerTemplate={"size": 3, "workerTemplate": template(IN_TREE)}),
        {"serve-0-lws": 3, "serve-1-lws": 3},
        "serve-lws",
    ),
]


@pytest.mark.parametrize(
    ("document", "groups", "root"), [case[1:] for case in MADE_TREES], ids=[case[0] for case in MADE_TREES]
)
def test_pods_that_ask_get_their_tree(document: Document, groups: dict[str, int], root: str) -> None:
    """The groups and the root equal those of the controller, and the plan is for the whole tree."""
    expansion = add(cluster(native=False), document)
    assert {name: each.min_count for name, each in _groups(expansion).items()} == groups
    assert {each.composite for each in _groups(expansion).values()} == {root}
    (found,) = (each for each in expansion.objects if isinstance(each, CompositeGroup))
    assert found.ref.name == root
    assert found.min_group_count == (3 if document["kind"] == "JobSet" else None)
    assert tuple(expansion.targets) == (GroupKey(False, "t", root, composite=True),)
    assert expansion.unplanned == {}


def test_a_gangs_group_has_the_class_of_its_pods() -> None:
    found = _groups(add(cluster(), job(labels=ASKING)))["train-job"]
    assert (found.priority_class_name, found.priority) == ("gold", 1000)


@pytest.mark.parametrize(
    ("labels", "mode"),
    [({}, DisruptionMode.POD_GROUP), ({DISRUPTION_LABEL: "single"}, DisruptionMode.POD)],
)
def test_a_gang_is_preempted_as_a_whole_unless_a_label_says_single(
    labels: dict[str, str], mode: DisruptionMode
) -> None:
    found = _groups(add(cluster(), job(labels=ASKING | labels)))["train-job"]
    assert found.disruption_mode is mode


def test_a_namespace_decides_about_automatic_groups_and_schedulers() -> None:
    """The request needs the namespace's permission; podium-scheduler takes the pods if it is named."""
    closed = {**LETS, "metadata": {"name": "t"}}
    expansion = add(cluster(), closed, job(labels=ASKING))
    assert _groups(expansion) == {}
    assert len(expansion.targets) == 2
    assert any("does not allow auto groups" in note for note in expansion.notes)
    labels = {
        "scheduling.podium.dev/auto-groups": "true",
        "scheduling.podium.dev/scheduler": "podium-scheduler",
    }
    named = {**LETS, "metadata": {"name": "t", "labels": labels}}
    found = pods(add(cluster(), named, job(labels=ASKING)))
    assert {each.spec.schedulerName for each in found.values()} == {"podium-scheduler"}


def test_a_namespace_that_was_not_read_is_taken_to_let_them_ask() -> None:
    """Without the right to list namespaces a user can still plan; the report has a note."""
    document = job(labels=ASKING)
    document["metadata"]["namespace"] = "u"
    state = cluster()
    assert tuple(add(state, document).targets) != (GroupKey(False, "u", "train-job"),)
    state.note_unread({"Namespace": "missing permission"})
    expansion = add(state, document)
    assert tuple(expansion.targets) == (GroupKey(False, "u", "train-job"),)
    assert "namespace u was not read; assuming that its label allows auto groups" in expansion.notes


def test_a_pod_that_names_its_group_does_not_get_another() -> None:
    labels = {**ASKING, GROUP_LABEL: "mine"}
    expansion = add(cluster(group("mine", PODIUM)), job(labels=labels))
    assert (tuple(expansion.targets), _groups(expansion)) == ((_podium("mine"),), {})


def test_a_pod_that_nothing_made_asks_in_vain() -> None:
    expansion = add(cluster(), pod(labels=ASKING))
    assert tuple(expansion.targets) == (("t", "p"),)
    assert any("joins no group" in note for note in expansion.notes)


# Workloads.


def _workload(kind: str, name: str, *templates: str, api: str = "scheduling.k8s.io/v1beta1") -> Document:
    group_of = {"Job": "batch", "JobSet": "jobset.x-k8s.io", "LeaderWorkerSet": "leaderworkerset.x-k8s.io"}
    spec = {
        "controllerRef": {"apiGroup": group_of[kind], "kind": kind, "name": name},
        "podGroupTemplates": [
            {"name": each, "schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "gold"}
            for each in templates
        ],
    }
    return made(api, "Workload", "w", spec)


WORKLOADS: list[tuple[str, Document, Document, dict[str, int]]] = [
    ("one template for all", _workload("JobSet", "js", "all"), jobset(role("a"), role("b")), {"w-all": 4}),
    (
        "a template for each role",
        _workload("JobSet", "js", "a", "b"),
        jobset(role("a"), role("b", 2)),
        {"w-a": 2, "w-b": 4},
    ),
    (
        "a group for each replica",
        _workload("LeaderWorkerSet", "serve", "all"),
        leader_worker_set(2, 3),
        {"w-all-0": 3, "w-all-1": 3},
    ),
    (
        "a group that the pods name",
        _workload("Job", "train", "all"),
        job(template=template(schedulingGroup={"podGroupName": "mine"}, priorityClassName="gold")),
        {"mine": 2},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "owner", "sizes"), [case[1:] for case in WORKLOADS], ids=[case[0] for case in WORKLOADS]
)
def test_a_workload_gives_the_pods_of_its_owner_their_groups(
    workload: Document, owner: Document, sizes: dict[str, int]
) -> None:
    expansion = add(cluster(), workload, owner)
    assert tuple(expansion.targets) == tuple(_native(name) for name in sizes)
    names = [each.spec.schedulingGroup for each in pods(expansion).values()]
    joined = [each.podGroupName for each in names if each is not None]
    assert {name: joined.count(name) for name in sizes} == sizes
    for each in _groups(expansion).values():
        assert (each.min_count, each.priority) == (2, 1000)
        assert each.template_ref is not None
        assert each.template_ref.workload == "w"


@pytest.mark.parametrize(
    ("api", "kubernetes"),
    [(PODIUM, "1.37"), ("scheduling.podium.dev/v1alpha2", "1.36"), ("scheduling.k8s.io/v1alpha2", "1.36")],
)
def test_a_workload_of_any_api(api: str, kubernetes: str) -> None:
    """A label names Podium's groups."""
    expansion = add(cluster(), _workload("Job", "train", "all", api=api), job(), kubernetes=kubernetes)
    key = GroupKey("k8s.io" in api, "t", "w-all")
    assert tuple(expansion.targets) == (key,)
    assert _groups(expansion)["w-all"].priority == 1000


def test_a_workload_with_its_groups_in_the_file_makes_none() -> None:
    """The groups name their template themselves."""
    reference = {"workloadName": "w", "templateName": "all"}
    expansion = add(cluster(), _workload("Job", "train", "all"), group(workloadRef=reference), member())
    assert (tuple(expansion.targets), list(_groups(expansion))) == ((_native("g"),), ["g"])


IN_G = template(schedulingGroup={"podGroupName": "g"})
BAD_WORKLOADS: list[tuple[str, list[Document], str]] = [
    (
        "its owner is not in the file",
        [_workload("Job", "train", "all")],
        "spec.controllerRef: a Workload creates no pods. Add the Job train, or its PodGroups with their pods",
    ),
    (
        "unknown template",
        [_workload("Job", "train", "a", "b"), job()],
        "spec.podGroupTemplates: several templates, and none has the name of these pods, which have no roles",
    ),
    (
        "a role without a template",
        [_workload("JobSet", "js", "a", "c"), jobset(role("a"), role("b"))],
        "spec.podGroupTemplates: several templates, and none has the name of pods of role b",
    ),
    (
        "pods that name a group of the other API",
        [_workload("Job", "train", "all"), job(labels={GROUP_LABEL: "mine"})],
        "spec.controllerRef: its pods name a group of another API (mine)",
    ),
    (
        "two templates for one group",
        [_workload("JobSet", "js", "a", "b"), jobset(*(
            {"name": name, "template": {"spec": {"template": IN_G}}} for name in ("a", "b")
        ))],
        "spec.podGroupTemplates[1]: its pods name PodGroup g, as those of spec.podGroupTemplates[0] do",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "expected"), [case[1:] for case in BAD_WORKLOADS], ids=[case[0] for case in BAD_WORKLOADS]
)
def test_a_workload_without_a_clear_link_to_its_groups_is_refused(
    objects: list[Document], expected: str
) -> None:
    with pytest.raises(ReadError) as refused:
        add(cluster(), *objects)
    assert str(refused.value) == f"{FIRST}: {expected}"


# For any file.

_NAMES = st.sampled_from(["a", "b"])
_OBJECTS = st.one_of(
    st.builds(job, _NAMES, st.sampled_from([None, ASKING]), parallelism=st.integers(0, 3)),
    st.builds(leader_worker_set, st.integers(0, 2), st.integers(1, 3)),
    st.builds(lambda names: jobset(*(role(each, 1, ASKING) for each in names)), st.sets(_NAMES)),
    st.builds(group, _NAMES, st.just(PODIUM)),
    st.builds(pod, _NAMES),
)


def _shown(expansion: Expansion) -> Any:
    objects = sorted(repr(each) for each in expansion.objects)
    return objects, sorted(map(str, expansion.targets)), sorted(expansion.notes)


@given(
    st.lists(_OBJECTS, max_size=5, unique_by=lambda each: (each["kind"], each["metadata"]["name"])), st.data()
)
def test_the_order_of_the_file_does_not_matter(objects: list[Document], data: st.DataObject) -> None:
    """The same file gives the same objects: every group has pods, every pod an integer and a uid."""
    expansion = add(cluster(native=False), *objects)
    other = add(cluster(native=False), *data.draw(st.permutations(objects)))
    assert _shown(expansion) == _shown(other)
    found = pods(expansion)
    assert len(found) <= MOST_PODS
    assert len({each.metadata.uid for each in found.values()}) == len(found)
    assert all(each.spec.priority is not None for each in found.values())
    for target in expansion.targets:
        if isinstance(target, GroupKey):
            assert any(labels_of(each, GROUP_LABEL) == [target.name] for each in found.values())


# Parts that a dump left out.

SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}
ASKED: list[tuple[str, Document, str]] = [
    ("a pod", pod(topologySpreadConstraints=[SPREAD]), "spec.topologySpreadConstraints[0]"),
    (
        "a template",
        job(template=template(topologySpreadConstraints=[SPREAD])),
        "spec.template.spec.topologySpreadConstraints[0]",
    ),
    (
        "a budget",
        made("policy/v1", "PodDisruptionBudget", "b", {"selector": {"matchLabels": {"app": "x"}}}),
        "spec.selector",
    ),
]


@pytest.mark.parametrize(("document", "field"), [case[1:] for case in ASKED], ids=[case[0] for case in ASKED])
def test_a_selector_on_a_label_missing_from_the_dump_is_refused(document: Document, field: str) -> None:
    """The pods with that label are unknown; a dump with the label, or all labels, is accepted."""
    for labels in (None, frozenset({"app"})):
        assert add(cluster(), document, labels=labels).objects
    with pytest.raises(ReadError) as refused:
        add(cluster(), document, labels=frozenset({"job-name"}))
    problem = "selects pods by app; the dump lacks that label. Plan against the live cluster"
    assert str(refused.value) == f"{FIRST}: {field}: {problem}"


SCHEDULING: Document = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}


def test_a_job_with_scheduling_is_planned_as_the_gang_that_its_controller_creates() -> None:
    expansion = add(cluster(), job(parallelism=3, scheduling=SCHEDULING), kubernetes="1.37")
    (made_group,) = (each for each in expansion.objects if isinstance(each, PodGroup))
    assert (made_group.ref.name, made_group.min_count) == ("train", 3)
    assert made_group.disruption_mode is DisruptionMode.POD_GROUP
    assert list(expansion.targets) == [GroupKey(True, "t", "train")]
    assert any("WorkloadWithJob" in note for note in expansion.notes)


def _jobset(scheduling: Document | None, *, job_scheduling: Document | None = None) -> Document:
    """Make a JobSet of a driver and two Jobs of three workers."""
    spec = {"parallelism": 3, "completions": 3, "template": template()}
    worker = {**spec, **({"scheduling": job_scheduling} if job_scheduling is not None else {})}
    roles = [
        {"name": "driver", "template": {"spec": {**spec, "parallelism": 1, "completions": 1}}},
        {"name": "worker", "replicas": 2, "template": {"spec": worker}},
    ]
    asked = {"scheduling": scheduling} if scheduling is not None else {}
    return made("jobset.x-k8s.io/v1alpha2", "JobSet", "js", {**asked, "replicatedJobs": roles})


@pytest.mark.parametrize(
    ("jobset", "groups", "gate"),
    [
        (_jobset({}), {"js": 7}, "JobSetWorkloadAwareSchedulingAPI (spec.scheduling)"),
        (
            _jobset({"schedulingPolicy": {"gang": {"minCount": 5}}}),
            {"js": 5},
            "JobSetWorkloadAwareSchedulingAPI (spec.scheduling)",
        ),
        (
            _jobset({"replicatedJobs": [{"targetReplicatedJobs": ["driver", "worker"]}]}),
            {"js-driver-worker": 7},
            "(spec.scheduling.replicatedJobs[0])",
        ),
        (
            _jobset(
                {
                    "replicatedJobs": [
                        {"targetReplicatedJobs": ["driver"], "schedulingPolicy": {"basic": {}}},
                        {"targetReplicatedJobs": ["worker"]},
                    ]
                }
            ),
            {"js-worker": 6},
            "(spec.scheduling.replicatedJobs[1])",
        ),
        (
            _jobset({"replicatedJobs": [{"targetReplicatedJobs": ["worker"], "job": {}}]}),
            {"js-worker-0": 3, "js-worker-1": 3},
            "(spec.scheduling.replicatedJobs[0].job)",
        ),
        (
            _jobset(None, job_scheduling=SCHEDULING),
            {"js-worker-0": 3, "js-worker-1": 3},
            "WorkloadWithJob (spec.replicatedJobs[1].template.spec.scheduling)",
        ),
        (_jobset(None, job_scheduling={"schedulingPolicy": {"basic": {}}}), {}, ""),
    ],
    ids=["all pods", "minCount", "two roles", "one role", "each Job", "the field of the Jobs", "basic"],
)
def test_a_jobset_with_scheduling_is_planned_as_the_gangs_that_its_controller_creates(
    jobset: Document, groups: dict[str, int], gate: str
) -> None:
    expansion = add(cluster(), jobset, kubernetes="1.38")
    found = [each for each in expansion.objects if isinstance(each, PodGroup)]
    assert {each.ref.name: each.min_count for each in found} == groups
    assert any(gate in note for note in expansion.notes) is bool(gate)
    members = Counter(
        each.spec.schedulingGroup.podGroupName
        for each in pods(expansion).values()
        if each.spec.schedulingGroup is not None
    )
    assert members.keys() == groups.keys()
    assert all(members[name] >= least for name, least in groups.items())


def test_before_1_38_a_job_of_a_jobset_gets_no_group() -> None:
    """The Job controller leaves a Job with an owner to it."""
    expansion = add(cluster(), _jobset(None, job_scheduling=SCHEDULING), kubernetes="1.37")
    assert not any(isinstance(each, PodGroup) for each in expansion.objects)
    path = "spec.replicatedJobs[1].template.spec.scheduling"
    assert any(f"without the group of {path}: 1.37" in note for note in expansion.notes)


def test_roles_of_a_jobset_that_wait_for_each_other_have_a_gang_each() -> None:
    jobset = _jobset({})
    jobset["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    expansion = add(cluster(), jobset, kubernetes="1.37")
    found = [each for each in expansion.objects if isinstance(each, PodGroup)]
    assert {each.ref.name: each.min_count for each in found} == {"js-driver": 1}


def test_a_server_without_the_field_creates_no_gang() -> None:
    expansion = add(cluster(), job(parallelism=3, scheduling=SCHEDULING), kubernetes="1.36")
    assert not any(isinstance(each, PodGroup) for each in expansion.objects)
    assert "Job t/train: planned without the groups of spec.scheduling" in expansion.notes
