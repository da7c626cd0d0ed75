"""Loading: indexed, counted and refused objects, and the kinds that allow no conclusion."""

import json
from pathlib import Path
from typing import Any

import pytest

from podium.api.findings import ObjectError, ObjectRef
from podium.api.inputnotes import DuplicateInput
from podium.api.membership import GroupKey
from podium.api.reads import READS, Kind, Reads
from podium.api.schedulable import SCHEDULING_READS, Schedulable, SchedulableNode
from podium.documents.clusterinfo import CLUSTER_INFO
from podium.documents.document import Document, ReadError
from podium.documents.load import NOT_IN_INPUT, Loaded, load_state
from podium.documents.scope import Scope
from podium.documents.split import split


def _object(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "t"}, **fields}


def _documents(*objects: dict[str, Any], file: str = "f") -> list[Document]:
    return list(split(b"\n".join(json.dumps(each).encode() for each in objects), file))


def _load(*objects: dict[str, Any], strict: bool = False, reads: Reads = READS) -> Loaded:
    return load_state(_documents(*objects), strict=strict, reads=reads)


POD = _object("v1", "Pod", "p", spec={"schedulingGroup": {"podGroupName": "g"}})


@pytest.mark.parametrize("reads", [READS, SCHEDULING_READS], ids=["audit", "scheduling"])
def test_every_kind_reaches_the_index(reads: Reads) -> None:
    """The input has one object of each served kind that is read, and no other."""
    wanted = {
        (api_version, kind): _object(api_version, kind, f"n{number}", spec={})
        for number, (api_version, kind) in enumerate(SCHEDULING_READS)
    }
    loaded = _load(*wanted.values(), reads=reads, strict=True)
    state = loaded.state
    indexes = (
        state.pods,
        state.nodes,
        state.classes,
        state.budgets,
        state.groups,
        state.composites,
        state.workloads,
        state.kueue_workloads,
        state.foreign_groups,
        state.owners,
        state.namespaces,
        state.claims,
        state.volumes,
        state.storage_classes,
        state.csi_nodes,
        state.csi_drivers,
        state.storage_capacities,
        state.attachments,
        state.resource_claims,
        state.claim_templates,
        state.device_classes,
        state.resource_slices,
    )
    assert sum(len(index) for index in indexes) == len(reads)
    assert loaded.listed == {read.kind for read in reads.values()}
    assert state.unread == {}
    assert loaded.skipped == {}


def test_pods_and_nodes_are_read_as_schedulers_see_them_where_that_is_asked() -> None:
    """The objects of an audit stay small."""
    pod = _object("v1", "Pod", "p", spec={"tolerations": [{"key": "a"}]})
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [{"key": "a"}]}}
    state = _load(pod, node, reads=SCHEDULING_READS).state
    found, where = state.pods["t", "p"], state.nodes["n"]
    assert isinstance(found, Schedulable)
    assert found.spec.tolerations is not None
    assert isinstance(where, SchedulableNode)
    small = _load(pod, node).state
    assert not isinstance(small.pods["t", "p"], Schedulable)
    assert not isinstance(small.nodes["n"], SchedulableNode)


def test_a_stored_pod_with_the_native_field_is_a_member() -> None:
    """Offline the field itself proves that its server stores it."""
    loaded = _load(POD)
    assert list(loaded.state.members(GroupKey(True, "t", "g"))) == ["p"]


def test_kinds_that_are_not_in_the_input_are_unread() -> None:
    """Absence of objects proves nothing; an empty typed List does.

    Few clusters have composite groups, so no rule waits for them.
    """
    loaded = _load(POD, {"apiVersion": "v1", "kind": "NodeList", "items": []})
    assert loaded.listed == {Kind.POD, Kind.NODE}
    kinds = {str(read.kind) for read in READS.values()} - loaded.listed - {Kind.COMPOSITE_GROUP}
    assert loaded.state.unread == dict.fromkeys(kinds, NOT_IN_INPUT)


def test_composite_groups_that_a_dump_could_not_read_are_unread() -> None:
    unread = {"CompositePodGroup": "missing permission: list compositepodgroups"}
    info = {"apiVersion": CLUSTER_INFO[0], "kind": CLUSTER_INFO[1], "unread": unread}
    assert _load(info).state.unread.items() >= unread.items()


def test_an_empty_v1_list_proves_nothing() -> None:
    """Kubectl prints an empty List for any request."""
    loaded = _load({"apiVersion": "v1", "kind": "List", "items": []})
    assert loaded.listed == set()
    assert loaded.skipped == {}


def test_other_kinds_are_counted() -> None:
    """The count is by version and kind; the items of a List count, an empty List does not."""
    settings = {"apiVersion": "v1", "kind": "ConfigMap"}
    loaded = _load(settings, settings, {"apiVersion": "net/v1", "kind": "WayList", "items": [{}, {}, {}]})
    assert loaded.skipped == {"v1 ConfigMap": 2, "net/v1 Way": 3}


def test_strict_refuses_other_kinds() -> None:
    with pytest.raises(ReadError) as refused:
        _load(POD, {"apiVersion": "v1", "kind": "ConfigMap"}, strict=True)
    assert str(refused.value) == "f, document 2, line 2: Podium does not read v1 ConfigMap (--strict)"


def test_strict_takes_empty_lists_and_what_a_dump_says() -> None:
    """The parts of a dump's header are no objects of other kinds."""
    loaded = _load(
        {"apiVersion": "v1", "kind": "List", "items": []},
        {"apiVersion": "v1", "kind": "PodList", "items": []},
        {"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "server": "v1.37.0"},
        strict=True,
    )
    assert loaded.server == "v1.37.0"


def test_a_version_that_is_not_read_makes_its_kind_unread() -> None:
    """Otherwise its objects would count as absent, although others of the kind were read."""
    group = _object("scheduling.k8s.io/v1beta1", "PodGroup", "a")
    newer = _object("scheduling.k8s.io/v2", "PodGroup", "b")
    loaded = _load(group, newer)
    assert len(loaded.state.groups) == 1
    assert loaded.skipped == {"scheduling.k8s.io/v2 PodGroup": 1}
    assert loaded.state.unread["PodGroup"] == (
        "some are of scheduling.k8s.io/v2 PodGroup, a version that Podium does not read"
    )


DUPLICATES = [
    ("a pod", POD, POD, "Pod t/p"),
    (
        "a group in two versions",
        _object("scheduling.k8s.io/v1alpha3", "PodGroup", "g"),
        _object("scheduling.k8s.io/v1beta1", "PodGroup", "g"),
        "PodGroup t/g",
    ),
    (
        "a class, whatever namespace is written",
        _object("scheduling.k8s.io/v1", "PriorityClass", "c"),
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}},
        "PriorityClass c",
    ),
    (
        "default is where an object without namespace is",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
        "Pod default/p",
    ),
]


@pytest.mark.parametrize(
    ("first", "second", "name"), [case[1:] for case in DUPLICATES], ids=[case[0] for case in DUPLICATES]
)
def test_an_object_twice_is_refused_with_both_places(
    first: dict[str, Any], second: dict[str, Any], name: str
) -> None:
    documents = [
        *_documents(first, file="a"),
        *_documents(POD | {"metadata": {"name": "x"}}, second, file="b"),
    ]
    with pytest.raises(ReadError) as refused:
        load_state(documents, strict=True)
    assert str(refused.value) == (
        f"b, document 2, line 2: {name} is in the input twice, first in a, document 1. Remove one"
    )


@pytest.mark.parametrize(
    ("first", "second", "name"), [case[1:] for case in DUPLICATES], ids=[case[0] for case in DUPLICATES]
)
def test_of_an_object_twice_the_last_counts_and_both_places_are_noted(
    first: dict[str, Any], second: dict[str, Any], name: str
) -> None:
    documents = [*_documents(first, file="a"), *_documents(second, file="b")]
    loaded = load_state(documents, strict=False, keep=(Kind.POD_GROUP,))
    assert loaded.notes.duplicates == [DuplicateInput(name, "a, document 1", "b, document 1")]
    assert list(loaded.notes.lines()) == [
        f"in the input twice, the last one counts: {name} (a, document 1; b, document 1)"
    ]
    assert [each.origin.file for each in loaded.documents.values()] in ([], ["b"])


def test_the_same_name_in_another_group_or_namespace_is_another_object() -> None:
    loaded = _load(
        _object("scheduling.k8s.io/v1beta1", "PodGroup", "g"),
        _object("scheduling.podium.dev/v1beta1", "PodGroup", "g"),
        _object("kueue.x-k8s.io/v1beta1", "Workload", "g"),
        POD,
        POD | {"metadata": {"name": "p", "namespace": "u"}},
    )
    assert (len(loaded.state.groups), len(loaded.state.pods)) == (2, 2)


def test_objects_without_a_name_yet_are_kept_apart() -> None:
    """A manifest may hold several Jobs of one generateName."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "train-"}}
    loaded = _load(job, job)
    assert [ref.name for ref in loaded.state.owners] == ["train-*1", "train-*2"]


def test_an_object_without_any_name_is_refused() -> None:
    with pytest.raises(ReadError) as refused:
        _load({"apiVersion": "v1", "kind": "Pod", "metadata": {}})
    assert str(refused.value) == "f, document 1, line 1: metadata.name: is missing. Give the object a name"


def test_a_dump_says_what_its_objects_cannot() -> None:
    """The dump's reasons win: some objects of a kind may be present although others were not read."""
    info = {
        "apiVersion": "cli.podium.dev/v1",
        "kind": "ClusterInfo",
        "server": "v1.36.3",
        "namespace": "t",
        "selector": "app=a",
        "unread": {"Owner": "missing permission", "KueueWorkload": "not served by this cluster"},
    }
    loaded = _load(info, POD, _object("batch/v1", "Job", "j"))
    assert (loaded.server, loaded.scope) == ("v1.36.3", Scope("t", "app=a"))
    assert loaded.state.unread["Owner"] == "missing permission"
    assert loaded.state.unread["KueueWorkload"] == "not served by this cluster"
    assert loaded.state.unread["Node"] == NOT_IN_INPUT


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(), ""),
        (Scope("a"), "namespace a only"),
        (Scope("", "x=y"), "objects labelled x=y only"),
        (Scope("a", "x=y"), "namespace a, objects labelled x=y only"),
    ],
)
def test_a_part_of_the_cluster_is_called_one(scope: Scope, expected: str) -> None:
    assert scope.partial == expected


def test_origins_and_lines_are_found_again(tmp_path: Path) -> None:
    """An object is found by its identity, in whatever version the report names it."""
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD]}, indent=1))
    loaded = load_state(split(path.read_bytes(), str(path)), strict=False)
    pod = ObjectRef("v1", "Pod", "t", "p")
    assert str(loaded.origins.get(pod)) == f"{path}, document 1, items[0]"
    assert loaded.origins.line(pod, "spec.schedulingGroup.podGroupName") == 14
    assert loaded.origins.line(pod) == 5
    other = ObjectRef("v1", "Pod", "t", "q")
    assert loaded.origins.get(other) is None
    assert loaded.origins.line(other) is None
    path.unlink()
    assert load_state(_documents(POD, file=str(path)), strict=False).origins.line(pod) is None


def test_a_missing_file_has_no_lines() -> None:
    """Stdin and pipes can be read once."""
    loaded = load_state(_documents(POD, file="<stdin>"), strict=False)
    assert loaded.origins.line(ObjectRef("v1", "Pod", "t", "p")) is None


def test_a_value_that_no_rule_can_work_with_is_placed_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec:\n  overhead:\n    cpu: a lot\n"
    )
    loaded = load_state(split(file.read_bytes(), str(file)), strict=False)
    bad = ObjectError(ObjectRef("v1", "Pod", "default", "b"), "spec.overhead[cpu]", "'a lot' is no number")
    with pytest.raises(ReadError) as raised, loaded.origins.placed():
        raise bad
    assert str(raised.value) == f"{file}, document 2, line 10: spec.overhead[cpu]: 'a lot' is no number"


def test_a_value_of_an_object_that_was_not_read_keeps_its_error() -> None:
    bad = ObjectError(ObjectRef("v1", "Node", "", "n"), "status.allocatable[cpu]", "no")
    with pytest.raises(ObjectError) as raised, _load(POD).origins.placed():
        raise bad
    assert str(raised.value) == "Node n: status.allocatable[cpu]: no"


@pytest.mark.parametrize("field", ["minAvailable", "maxUnavailable"])
def test_a_budget_counts_in_32_bits(field: str) -> None:
    """The counts are those of apimachinery's IntOrString; a percentage is text."""
    budget = "policy/v1", "PodDisruptionBudget"
    assert _load(_object(*budget, "a", spec={field: 2**31 - 1}), _object(*budget, "b", spec={field: "9%"}))
    with pytest.raises(ReadError, match=f"spec.{field}: "):
        _load(_object(*budget, "a", spec={field: 2**31}))
