"""The objects that move and those that stay: by users, by fields of the other API, by existing objects."""

from typing import Any

import pytest
from tests.support.migrate import (
    NATIVE,
    PODIUM,
    Object,
    composite,
    group,
    job,
    leaf,
    loaded,
    planned,
    pod,
    reference,
    workload,
)

from podium.ops.migrate import Api, Item, Migration, MigrationState, plan_migration, target_version

DONE = "Succeeded"


def different_of(copy: Object, field: str, value: Any) -> Object:
    copy["spec"][field] = value
    return copy


# Objects, the target version, and for each old object its state and its users.
CASES: dict[str, tuple[list[Object], str, dict[str, tuple[MigrationState, list[str]]]]] = {
    "an unused group": ([group()], PODIUM, {"PodGroup train": (MigrationState.MOVES, [])}),
    "the other way": ([group(version=PODIUM)], NATIVE, {"PodGroup train": (MigrationState.MOVES, [])}),
    "what is there already stays out of it": ([group(version=PODIUM)], PODIUM, {}),
    "a live pod": ([group(), pod()], PODIUM, {"PodGroup train": (MigrationState.USED, ["Pod train-0"])}),
    "a live pod of a Podium group": (
        [group(version=PODIUM), pod(native=False)],
        NATIVE,
        {"PodGroup train": (MigrationState.USED, ["Pod train-0"])},
    ),
    "its owner is named": (
        [group(), pod(owner=reference("Job", "train")), pod("train-1", owner=reference("Job", "train"))],
        PODIUM,
        {"PodGroup train": (MigrationState.USED, ["Job team-a/train"])},
    ),
    "a pod that has finished needs nothing": (
        [group(), pod(phase=DONE)],
        PODIUM,
        {"PodGroup train": (MigrationState.MOVES, [])},
    ),
    "a pod of the other API's group of that name": (
        [group(), pod(native=False)],
        PODIUM,
        {"PodGroup train": (MigrationState.MOVES, [])},
    ),
    "a template that will name it": (
        [group(), job()],
        PODIUM,
        {"PodGroup train": (MigrationState.USED, ["Job team-a/train"])},
    ),
    "a controller made it": (
        [group(ownerReferences=[reference("Job", "train")])],
        PODIUM,
        {"PodGroup train": (MigrationState.USED, ["Job team-a/train"])},
    ),
    "it owns a pod": (
        [group(), pod(of="other", owner=reference("PodGroup", "train", version=NATIVE), phase=DONE)],
        PODIUM,
        {"PodGroup train": (MigrationState.USED, ["Pod train-0"])},
    ),
    "its copy is there": (
        [group(), group(version=PODIUM)],
        PODIUM,
        {"PodGroup train": (MigrationState.COPIED, [])},
    ),
    "its copy is there, with the policy that the server wrote": (
        [group(version=PODIUM), different_of(group(version=NATIVE), "preemptionPolicy", "Never")],
        NATIVE,
        {"PodGroup train": (MigrationState.COPIED, [])},
    ),
    "its name has a group of another policy": (
        [
            different_of(group(version=PODIUM), "preemptionPolicy", "Never"),
            different_of(group(version=NATIVE), "preemptionPolicy", "PreemptLowerPriority"),
        ],
        NATIVE,
        {"PodGroup train": (MigrationState.STAYS, [])},
    ),
    "its copy is there, and it is in use": (
        [group(), group(version=PODIUM), pod()],
        PODIUM,
        {"PodGroup train": (MigrationState.USED, ["Pod train-0"])},
    ),
    "it is going": (
        [group(deletionTimestamp="2026-01-01T00:00:00Z"), group(version=PODIUM)],
        PODIUM,
        {"PodGroup train": (MigrationState.LEAVING, [])},
    ),
    "a Workload goes with its group": (
        [workload(), group(workload="llm")],
        PODIUM,
        {"Workload llm": (MigrationState.MOVES, []), "PodGroup train": (MigrationState.MOVES, [])},
    ),
    "a Workload stays while a group does": (
        [workload(), group(workload="llm"), group("other", workload="llm"), pod()],
        PODIUM,
        {
            "Workload llm": (MigrationState.USED, ["PodGroup team-a/train"]),
            "PodGroup other": (MigrationState.MOVES, []),
            "PodGroup train": (MigrationState.USED, ["Pod train-0"]),
        },
    ),
    "a reference that dangles": (
        [group(workload="gone")],
        PODIUM,
        {"PodGroup train": (MigrationState.MOVES, [])},
    ),
}


def states(migration: Migration) -> dict[str, tuple[MigrationState, list[str]]]:
    return {f"{each.object.kind} {each.object.name}": (each.state, each.users) for each in migration.items}


def only(migration: Migration) -> Item:
    (item,) = migration.items
    return item


@pytest.mark.parametrize("name", CASES)
def test_the_outcome_of_each_object(name: str) -> None:
    objects, target, expected = CASES[name]
    assert states(planned(*objects, target=target)) == expected
    assert states(planned(*reversed(objects), target=target)) == expected


def test_a_copy_says_what_the_original_said() -> None:
    """Labels, annotations and foreign owners are copied; fields of the server and nulls are left out."""
    owner = reference("Cluster", "ours", version="v1", controller=False)
    old = group(labels={"team": "a"}, annotations={"note": "kept"}, ownerReferences=[owner])
    old["spec"]["schedulingConstraints"] = None
    old["status"] = {"conditions": []}
    (move,) = planned(old).moves
    assert move.copies
    assert move.deletes
    assert move.copy == {
        "apiVersion": PODIUM,
        "kind": "PodGroup",
        "metadata": {
            "name": "train",
            "namespace": "team-a",
            "labels": {"team": "a"},
            "annotations": {"note": "kept"},
            "ownerReferences": [owner],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}},
    }


def test_a_reference_to_a_workload_waits_for_its_copy() -> None:
    """The copy has a UID of its own; an owner of unknown UID would be deleted."""
    owner = reference("Workload", "llm", version=NATIVE)
    _, move = planned(workload(), group(workload="llm", ownerReferences=[owner])).moves
    assert move.item.state is MigrationState.MOVES
    assert "ownerReferences" not in move.copy["metadata"]
    (waiting,) = move.owners
    assert waiting == {"apiVersion": PODIUM, "kind": "Workload", "name": "llm", "controller": True}


def different(field: str, value: Any) -> Object:
    return different_of(group(version=PODIUM), field, value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedulingPolicy", {"gang": {"minCount": 3}}),
        ("disruptionMode", {"single": {}}),
        ("priorityClassName", "gold"),
        ("priority", 5),
        ("schedulingConstraints", {"topology": [{"key": "rack"}]}),
        ("workloadRef", {"workloadName": "llm", "templateName": "worker"}),
    ],
)
def test_another_group_of_the_name_is_never_written_over(field: str, value: Any) -> None:
    """The original is not deleted either, as the two differ."""
    migration = planned(group(), different(field, value))
    item = only(migration)
    assert (item.state, item.why) == (MigrationState.STAYS, f"{PODIUM} has another object of this name")
    assert not any(move.copies or move.deletes for move in migration.moves)


def test_server_defaults_in_a_copy_are_no_difference() -> None:
    """The integer 0 of the Priority plugin, and an empty field, are no differences."""
    copy = different("priority", 0)
    copy["spec"]["resourceClaims"] = []
    assert only(planned(group(), copy)).state is MigrationState.COPIED


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
OLD_NATIVE, ALPHA = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1alpha3"
TREE = [composite(), leaf("a", version=PODIUM), leaf("b", version=PODIUM)]
MOVES, COPIED, USED = MigrationState.MOVES, MigrationState.COPIED, MigrationState.USED
STAYS, LEAVING = MigrationState.STAYS, MigrationState.LEAVING
# Objects, the target version, the state of each object in the order of the writes, and a part of a reason.
TREES: dict[str, tuple[list[Object], str, dict[str, MigrationState], str]] = {
    "an unused tree": (TREE, NATIVE, {"all": MOVES, "a": MOVES, "b": MOVES}, ""),
    "two levels, the root first": (
        [composite(), composite("aa", parent="all"), leaf("a", version=PODIUM, parent="aa")],
        NATIVE,
        {"all": MOVES, "aa": MOVES, "a": MOVES},
        "",
    ),
    "the other way": (
        [composite(version=ALPHA), leaf("a")],
        PODIUM,
        {"all": MOVES, "a": MOVES},
        "",
    ),
    "one group in use": (
        [*TREE, pod(of="a", native=False)],
        NATIVE,
        {"all": USED, "a": USED, "b": USED},
        "its tree has PodGroup a: in use",
    ),
    "one group that cannot move": (
        [*TREE, different_of(leaf("b"), "priority", 5), pod(of="a", native=False)],
        NATIVE,
        {"all": STAYS, "a": STAYS, "b": STAYS},
        "its tree has PodGroup b: cannot move",
    ),
    "half of the copies": (
        [*TREE, composite(version=ALPHA), leaf("a")],
        NATIVE,
        {"all": COPIED, "a": COPIED, "b": MOVES},
        "",
    ),
    "another composite group of the name": (
        [*TREE, different_of(composite(version=ALPHA), "schedulingPolicy", {"basic": {}})],
        NATIVE,
        {"all": STAYS, "a": STAYS, "b": STAYS},
        "another object of this name",
    ),
    "a copy with another parent": (
        [*TREE, group("a")],
        NATIVE,
        {"all": STAYS, "a": STAYS, "b": STAYS},
        "another object of this name",
    ),
    "a target without the kind": (
        TREE,
        OLD_NATIVE,
        {"all": STAYS, "a": STAYS, "b": STAYS},
        "has no form in scheduling.k8s.io/v1alpha2",
    ),
    "an absent root": (TREE[1:], NATIVE, {"a": STAYS, "b": STAYS}, "the composite group all does not exist"),
    "a group that is deleted without a copy": (
        [composite(), leaf("a", version=PODIUM, **GOING), leaf("b", version=PODIUM)],
        NATIVE,
        {"all": STAYS, "a": LEAVING, "b": STAYS},
        "its tree has PodGroup a: being deleted",
    ),
    "a group that is deleted after its copy": (
        [composite(), leaf("a", version=PODIUM, **GOING), composite(version=ALPHA), leaf("a")],
        NATIVE,
        {"all": COPIED, "a": LEAVING},
        "",
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_moves_whole_or_not_at_all(name: str) -> None:
    objects, target, expected, why = TREES[name]
    for given in (objects, objects[::-1]):
        migration = planned(*given, target=target)
        assert {each.object.name: each.state for each in migration.items} == expected
        assert [each.object.name for each in migration.items] == list(expected)
        assert any(why in each.why for each in migration.items)
        kept = [move for move in migration.moves if move.item.state not in (MOVES, COPIED)]
        assert not any(move.copies or move.deletes for move in kept)
        versions = {each.object.kind: each.becomes.apiVersion for each in migration.items}
        assert versions.get("CompositePodGroup") in (None, target, ALPHA)


def test_a_workload_moves_with_its_tree() -> None:
    """A difference in a composite template is a difference of the Workload."""
    templates = [{"name": "root", "schedulingPolicy": {"gang": {"minGroupCount": 2}}}]
    old, new = workload(version=PODIUM), workload()
    for each in (old, new):
        each["spec"] = {"compositePodGroupTemplates": templates}
    assert {each.state for each in planned(old, *TREE, target=NATIVE).items} == {MOVES}
    new["spec"] = {"compositePodGroupTemplates": [{**templates[0], "schedulingPolicy": {"basic": {}}}]}
    assert {each.state for each in planned(old, new, *TREE, target=NATIVE).items} == {STAYS}


def test_a_workload_is_copied_for_the_groups_that_move() -> None:
    """It is deleted with the last group that stays."""
    moves = {
        move.item.object.name: (move.copies, move.deletes)
        for move in planned(workload(), group(workload="llm"), group("other", workload="llm"), pod()).moves
    }
    assert moves == {"llm": (True, False), "other": (True, True), "train": (False, False)}


def test_manifests_are_parted_by_whether_they_are_in_use() -> None:
    """Objects that move by themselves and those that a user must create can be applied separately."""
    manifests = planned(group(), group("other"), pod()).manifests
    assert {name: [each["metadata"]["name"] for each in some] for name, some in manifests.items()} == {
        "held/team-a.yaml": ["train"],
        "moved/team-a.yaml": ["other"],
    }


@pytest.mark.parametrize(
    ("to", "minor", "version"),
    [
        (Api.PODIUM, 36, PODIUM),
        (Api.NATIVE, 35, "scheduling.k8s.io/v1alpha2"),
        (Api.NATIVE, 36, "scheduling.k8s.io/v1alpha2"),
        (Api.NATIVE, 37, NATIVE),
        (Api.NATIVE, 38, NATIVE),
    ],
)
def test_the_version_is_the_best_of_the_minor(to: Api, minor: int, version: str) -> None:
    assert target_version(to, minor) == version


def test_without_the_native_api_its_field_has_no_effect() -> None:
    """A server that does not store the field has pods by their label only."""
    read = loaded(group(version=PODIUM), pod(native=True))
    read.state.serve_native(False)
    assert only(plan_migration(read.state, read.documents, NATIVE, 37)).state is MigrationState.MOVES
