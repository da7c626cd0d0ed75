"""Every row of the parity list, for each minor: allowed or not, code, message, rule, stored object."""

from typing import Any

import pytest
from tests.support.rules.cases import CASES, POD_FIXED, Case
from tests.support.rules.scene import (
    GOLD,
    REMOVED,
    VERSIONS,
    WORKLOAD,
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

from podium.rules.admission import Verdict

PARAMETERS = [pytest.param(case, minor, id=f"{case.id}-{minor}") for case in CASES for minor in case.minors]


def field(document: Document, path: str) -> Any:
    """Return a field by path, REMOVED if it is absent."""
    place: Any = document
    for step in path.split("."):
        try:
            place = place[int(step) if step.isdigit() else step]
        except KeyError:
            return REMOVED
    return place


def judge(case: Case, minor: str) -> Verdict:
    """Review a case by the rules."""
    version = VERSIONS[minor]
    state = cluster(workload({"podGroupTemplates": [template()]}, version, name=WORKLOAD))
    document = case.build(version)
    by = profile(minor)
    if not case.edits:
        return create(document, state, by)
    old = stored(document, state, by)
    new = old
    for path, value in case.edits.items():
        new = changed(new, path, value)
    return update(new, old, state, by, subresource=case.subresource)


@pytest.mark.parametrize("case, minor", PARAMETERS)
def test_case(case: Case, minor: str) -> None:
    """The rules give the server's answer."""
    verdict = judge(case, minor)
    message = case.message.replace("{v}", VERSIONS[minor])
    message_line = verdict.message.partition("\n")[0] if POD_FIXED in message else verdict.message
    assert (verdict.code, message_line) == (case.code, message)
    assert verdict.allowed == (case.code < 300)
    assert (verdict.admitted is not None) == verdict.allowed
    if case.rule:
        assert rules_of(verdict)[0] == case.rule
    for path, value in case.expect.items():
        assert verdict.admitted is not None
        assert field(verdict.admitted, path) == value, path


def test_a_refusal_names_its_field_and_what_to_do() -> None:
    """A finding has a message and a remedy that need no other source."""
    verdict = create(group({"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "nope"}))
    (finding,) = verdict.findings
    assert finding.field == "spec.priorityClassName"
    assert finding.message == "no PriorityClass with name nope was found"
    assert finding.fix
    assert str(finding.object) == "PodGroup default/g"


@pytest.mark.parametrize("kind", ["pod", "group"])
def test_default_class_is_written_with_its_numbers(kind: str) -> None:
    """P1, G3: without a class of its own an object gets the default's name, not only its integer."""
    state = cluster(priority_class("standard", value=7, globalDefault=True, preemptionPolicy="Never"))
    document = pod() if kind == "pod" else group({"schedulingPolicy": {"basic": {}}})
    admitted = create(document, state).admitted
    assert admitted is not None
    assert (admitted["spec"]["priorityClassName"], admitted["spec"]["priority"]) == ("standard", 7)
    assert admitted["spec"].get("preemptionPolicy") == ("Never" if kind == "pod" else None)


def test_second_default_is_refused_and_the_first_may_be_updated() -> None:
    """PC6: one default class, though it may be written again."""
    default = priority_class("first", value=1, globalDefault=True)
    state = cluster(default)
    verdict = create(priority_class("second", value=2, globalDefault=True), state)
    assert verdict.code == 403
    assert verdict.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass first is already marked as '
        "default. Only one default can exist"
    )
    assert update({**default, "description": "x"}, stored(default), state).allowed


def test_field_validation_comes_before_the_second_default() -> None:
    """PC6: a validating plugin sees only valid objects."""
    state = cluster(priority_class("first", value=1, globalDefault=True))
    verdict = create(priority_class("second", value=2_000_000_000, globalDefault=True), state)
    assert verdict.code == 422


def test_the_group_is_dropped_where_the_workload_api_is_off() -> None:
    """P12: storage drops the field, and only Podium warns."""
    verdict = create(pod(schedulingGroup={"podGroupName": "g"}), by=profile(served=False))
    assert verdict.admitted is not None
    assert "schedulingGroup" not in verdict.admitted["spec"]
    assert rules_of(verdict) == ["gated-field-dropped"]


def test_a_group_that_was_stored_stays_where_the_workload_api_was_turned_off() -> None:
    """P12: an update may carry the stored value."""
    old = stored(pod(schedulingGroup={"podGroupName": "g"}))
    verdict = update(old, old, by=profile(served=False))
    assert verdict.admitted is not None
    assert verdict.admitted["spec"]["schedulingGroup"] == {"podGroupName": "g"}


@pytest.mark.parametrize(
    "minor, version, served",
    [("1.36", "v1beta1", True), ("1.37", "v1alpha2", True), ("1.37", "v1beta1", False)],
)
def test_a_version_that_is_not_served_is_not_found(minor: str, version: str, served: bool) -> None:
    """Each minor serves its own versions, and none without the gates."""
    verdict = create(group({"schedulingPolicy": {"basic": {}}}, version), by=profile(minor, served=served))
    assert (verdict.code, verdict.reason) == (404, "NotFound")
    assert verdict.message == "the server could not find the requested resource"


def test_podiums_kinds_are_unknown_upstream() -> None:
    """Rules `upstream` are those of Kubernetes only."""
    assert create(group({"schedulingPolicy": {"basic": {}}}, native=False)).code == 404


def test_status_of_a_kind_without_one_is_not_found() -> None:
    """W18: a Workload has no status to update."""
    old = stored(workload({"podGroupTemplates": [template()]}))
    assert update(old, old, subresource="status").code == 404


def test_terminating_workload_refuses_groups_in_1_36() -> None:
    """G13: a group may not be made from a Workload that is being deleted."""
    going = workload({"podGroupTemplates": [template()]}, "v1alpha2")
    going["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00Z"
    ref = {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}
    document = group({"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": ref}, "v1alpha2")
    verdict = create(document, cluster(going), profile("1.36"))
    assert verdict.message.endswith('PodGroup rejected: Workload "w" is being deleted')


def test_stored_gated_fields_stay_and_cannot_change() -> None:
    """G26: what was stored while a gate was on is kept, and forbidden to change."""
    old = stored(group({"schedulingPolicy": {"basic": {}}}))
    old["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    kept = update(old, old)
    assert kept.admitted is not None
    assert kept.admitted["spec"]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
    verdict = update(changed(old, "spec.schedulingConstraints", {}), old)
    assert verdict.message.endswith("spec.schedulingConstraints: Forbidden")


def test_invalid_values_that_are_stored_stay_updatable() -> None:
    """A value that equals the stored one is not validated again."""
    old = stored(group({"schedulingPolicy": {"basic": {}}}))
    old["spec"]["priority"] = 2_000_000_000
    assert update(changed(old, "metadata.labels", {"a": "b"}), old).allowed


def test_stored_templates_of_unlike_priority_cannot_be_updated() -> None:
    """W17: the hand-written rule of 1.37 does run again."""
    old = stored(workload({"podGroupTemplates": [template("a"), template("b")]}))
    old["spec"]["podGroupTemplates"][0]["priority"] = 5
    assert rules_of(update(changed(old, "metadata.labels", {"a": "b"}), old)) == ["templates-unlike-priority"]


def test_system_classes_need_not_be_read() -> None:
    """The system classes exist on every server, whether or not they were read."""
    admitted = create(pod(priorityClassName="system-cluster-critical")).admitted
    assert admitted is not None
    assert admitted["spec"]["priority"] == 2_000_000_000


def test_patch_sets_only_what_differs() -> None:
    """Class, integer and policy are in one patch; a correct value is not written again."""
    assert create(pod(priorityClassName=GOLD)).patch == [
        {"op": "add", "path": "/spec/priority", "value": 1000},
        {"op": "add", "path": "/spec/preemptionPolicy", "value": "PreemptLowerPriority"},
    ]
    assert create(group({"schedulingPolicy": {"basic": {}}, "priority": 0})).patch == []


def test_patch_of_a_pod_without_spec_makes_one() -> None:
    """A JSON patch cannot add below a missing field."""
    verdict = create({**pod(), "spec": None})
    assert verdict.patch[0] == {"op": "add", "path": "/spec", "value": {}}


@pytest.mark.parametrize("minor", VERSIONS)
def test_a_default_that_exists_already_is_refused_as_a_second_one(minor: str) -> None:
    """The plugin accepts an update of the default but no second one; the store would answer 409 later."""
    default = priority_class("std", value=5, globalDefault=True)
    state, by = cluster(default), profile(minor)
    verdict = create(default, state, by)
    assert (verdict.code, rules_of(verdict)) == (403, ["second-global-default"])
    kept = stored(default, by=by)
    assert update(changed(kept, "description", "x"), kept, state, by).allowed
