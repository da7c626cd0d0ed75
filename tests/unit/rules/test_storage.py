"""The refusals of storage, in their order among the other stages."""

import pytest
from tests.support.rules.scene import (
    GANG,
    REMOVED,
    Document,
    changed,
    cluster,
    create,
    group,
    pod,
    priority_class,
    profile,
    rules_of,
    stored,
    template,
    update,
    workload,
)


@pytest.mark.parametrize(
    "document, resource",
    [
        (priority_class(value=1), 'priorityclasses.scheduling.k8s.io "c"'),
        (pod(), 'pods "p"'),
        (group(GANG), 'podgroups.scheduling.k8s.io "g"'),
        (workload({"podGroupTemplates": [template()]}), 'workloads.scheduling.k8s.io "w"'),
    ],
)
def test_a_name_that_is_taken(document: Document, resource: str) -> None:
    verdict = create(document, cluster(stored(document)))
    assert (verdict.code, verdict.reason) == (409, "AlreadyExists")
    assert verdict.message == f"{resource} already exists"


def test_a_name_that_is_still_taken() -> None:
    going = changed(stored(group(GANG)), "metadata.deletionTimestamp", "2026-11-21T09:00:00Z")
    verdict = create(group(GANG), cluster(going))
    assert verdict.message == ('object is being deleted: podgroups.scheduling.k8s.io "g" already exists')


def test_the_same_name_elsewhere_is_free() -> None:
    state = cluster(stored(group(GANG)))
    assert create(changed(group(GANG), "metadata.namespace", "other"), state).allowed
    assert create(group(GANG, native=False), state, profile(rules="podium")).allowed


def test_refusals_of_plugins_come_before_the_taken_name() -> None:
    state = cluster(stored(group(GANG)))
    assert create(group({**GANG, "priorityClassName": "nope"}), state).code == 403


def test_a_generated_name_is_never_taken() -> None:
    document = changed(changed(pod(), "metadata.name", REMOVED), "metadata.generateName", "p")
    verdict = create(document, cluster(stored(pod())))
    assert verdict.admitted is not None
    assert "name" not in verdict.admitted["metadata"]


def test_a_generated_name_in_texts_ends_in_a_stand_in() -> None:
    document = changed(changed(pod(), "metadata.name", REMOVED), "metadata.generateName", "PX-")
    assert create(document).message.startswith('Pod "PX-xxxxx" is invalid: [metadata.generateName: ')


def test_a_name_is_wanted() -> None:
    verdict = create(changed(pod(priorityClassName="nope"), "metadata.name", REMOVED))
    assert verdict.message == 'pods "Unknown" is forbidden: no PriorityClass with name nope was found'
    verdict = create(changed(pod(), "metadata.name", REMOVED))
    assert verdict.message == (
        'Pod "" is invalid: metadata.name: Required value: name or generateName is required'
    )


def test_resource_version_on_create() -> None:
    verdict = create(changed(pod(), "metadata.resourceVersion", "12"))
    assert (verdict.code, verdict.reason) == (500, "")
    assert verdict.message == "resourceVersion should not be set on objects to be created"
    assert create(changed(pod(), "metadata.resourceVersion", "0")).allowed


def test_update_of_nothing() -> None:
    verdict = update(group(GANG), None)
    assert (verdict.code, verdict.reason) == (404, "NotFound")
    assert verdict.message == 'podgroups.scheduling.k8s.io "g" not found'


def test_decoding_comes_before_the_absent_object() -> None:
    assert update(group({"priority": "x"}), None).code == 400


def test_another_uid() -> None:
    old = stored(group(GANG))
    verdict = update(changed(old, "metadata.uid", "2222"), old)
    assert (verdict.code, verdict.reason) == (409, "Conflict")
    assert verdict.message == (
        'Operation cannot be fulfilled on podgroups.scheduling.k8s.io "g": StorageError: invalid object, '
        "Code: 4, Key: /registry/podgroups/default/g, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        "failed: UID in precondition: 2222, UID in object meta: 1111"
    )


def test_resource_version_that_is_no_number() -> None:
    old = stored(group(GANG))
    verdict = update(changed(old, "metadata.resourceVersion", "x"), old)
    assert (verdict.code, verdict.message) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')


def test_an_old_object_written_by_hand_conflicts_with_nothing() -> None:
    old = create(group(GANG)).admitted
    assert update(changed(old or {}, "metadata.resourceVersion", "99"), old).allowed


@pytest.mark.parametrize(
    "path, value, shown",
    [
        ("metadata.deletionTimestamp", "2026-11-21T09:00:00Z", '"2026-11-21T09:00:00Z"'),
        ("metadata.deletionGracePeriodSeconds", 5, "5"),
        ("metadata.name", "other", '"other"'),
    ],
)
def test_identity_is_fixed(path: str, value: object, shown: str) -> None:
    old = stored(group(GANG))
    verdict = update(changed(old, path, value), old)
    assert verdict.message.endswith(f"is invalid: {path}: Invalid value: {shown}: field is immutable")
    assert rules_of(verdict) == ["metadata-immutable"]


def test_no_finalizer_is_added_to_what_is_going() -> None:
    old = changed(stored(group(GANG)), "metadata.deletionTimestamp", "2026-11-21T09:00:00Z")
    finalizers = [*old["metadata"]["finalizers"], "b.example/x", "a.example/x"]
    verdict = update(changed(old, "metadata.finalizers", finalizers), old)
    assert verdict.message.endswith(
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a.example/x", "b.example/x"}'
    )


HALF_AN_OWNER = {
    "1.36": 'apiVersion: Invalid value: "": version must not be empty',
    "1.37": "apiVersion: Required value: must not be empty",
}


@pytest.mark.parametrize("minor, want", HALF_AN_OWNER.items())
def test_half_an_owner(minor: str, want: str) -> None:
    document = changed(pod(), "metadata.ownerReferences", [{"kind": "Job", "name": "j", "uid": "1"}])
    path = "metadata.ownerReferences[0]" if minor == "1.37" else "metadata.ownerReferences"
    assert create(document, by=profile(minor)).message == f'Pod "p" is invalid: {path}.{want}'


def test_two_controllers() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    document = changed(pod(), "metadata.ownerReferences", [owner, {**owner, "name": "k"}])
    assert create(document).message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Job/j and Job/k'
    )


def test_an_event_owns_nothing() -> None:
    owner = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}
    verdict = create(changed(pod(), "metadata.ownerReferences", [owner]))
    assert verdict.message.endswith("/v1, Kind=Event is disallowed from being an owner")


@pytest.mark.parametrize(
    "path, value, ends",
    [
        ("metadata.annotations", {"a": "x" * 262144}, "Too long: may not be more than 262144 bytes"),
        ("metadata.finalizers", ["orphan", "foregroundDeletion"], "cannot be both set"),
        ("metadata.finalizers", ["hold"], "neither a standard finalizer name nor is it fully qualified"),
        (
            "metadata.generation",
            -1,
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("metadata.namespace", "a.b", "must not contain dots"),
    ],
)
def test_other_metadata(path: str, value: object, ends: str) -> None:
    assert create(changed(group(GANG), path, value)).message.endswith(ends)


def test_validating_plugins_know_the_generated_name() -> None:
    """Mutating plugins run before the server generates it."""
    nameless = changed(
        changed(group(GANG, "v1alpha2"), "metadata.name", REMOVED), "metadata.generateName", "g-"
    )
    ref = {"workload": {"workloadName": "no", "podGroupTemplateName": "t"}}
    missing = create(changed(nameless, "spec.podGroupTemplateRef", ref), by=profile("1.36"))
    assert missing.message.startswith('podgroups.scheduling.k8s.io "g-xxxxx" is forbidden: PodGroup rejected')
    unknown = create(changed(nameless, "spec.priorityClassName", "nope"), by=profile("1.36"))
    assert unknown.message.startswith('podgroups.scheduling.k8s.io "g-" is forbidden: no PriorityClass')


def test_a_pods_status_update_cannot_begin_its_deletion() -> None:
    """The strategy takes the stored timestamp, or none."""
    old = stored(pod())
    new = changed(old, "metadata.deletionTimestamp", "2026-11-21T09:00:00Z")
    verdict = update(new, old, subresource="status")
    assert verdict.admitted is not None
    assert "deletionTimestamp" not in verdict.admitted["metadata"]
