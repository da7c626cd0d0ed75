"""Pods and the templates of owners follow their group to the other API; everything else stays."""

import copy
from typing import Any

import pytest

from podium.api.foreigngroups import COSCHEDULING
from podium.api.regroup import ForeignMembers, regroup

NATIVE = "scheduling.k8s.io/v1beta1"
PODIUM = "scheduling.podium.dev/v1beta1"
LABEL = "scheduling.podium.dev/pod-group"
FIELD = {"schedulingGroup": {"podGroupName": "train"}}


def pod(spec: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": "p"} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def owner(kind: str, spec: dict[str, Any], api_version: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "o"}, "spec": spec}


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [], **spec}}


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"} | labels}, "spec": {"containers": []}}


BY_LABEL = labelled(**{LABEL: "train"})
# native form, Podium's form
PAIRS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("pod", pod({"containers": []} | FIELD, app="a"), pod({"containers": []}, app="a", **{LABEL: "train"})),
    ("pod without labels", pod({"containers": []} | FIELD), pod({"containers": []}, **{LABEL: "train"})),
    (
        "deployment",
        owner("Deployment", {"replicas": 2, "template": template(**FIELD)}),
        owner("Deployment", {"replicas": 2, "template": BY_LABEL}),
    ),
    (
        "job template without metadata",
        owner("Job", {"template": {"spec": FIELD}}, "batch/v1"),
        owner("Job", {"template": {"metadata": {"labels": {LABEL: "train"}}, "spec": {}}}, "batch/v1"),
    ),
    (
        "cron job",
        owner("CronJob", {"jobTemplate": {"spec": {"template": template(**FIELD)}}}, "batch/v1"),
        owner("CronJob", {"jobTemplate": {"spec": {"template": BY_LABEL}}}, "batch/v1"),
    ),
    (
        "one of two roles of a job set",
        owner(
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "a", "template": {"spec": {"template": template()}}},
                    {"name": "b", "template": {"spec": {"template": template(**FIELD)}}},
                ]
            },
            "jobset.x-k8s.io/v1alpha2",
        ),
        owner(
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "a", "template": {"spec": {"template": template()}}},
                    {"name": "b", "template": {"spec": {"template": BY_LABEL}}},
                ]
            },
            "jobset.x-k8s.io/v1alpha2",
        ),
    ),
    (
        "leader and workers",
        owner(
            "LeaderWorkerSet",
            {
                "leaderWorkerTemplate": {
                    "leaderTemplate": template(**FIELD),
                    "workerTemplate": template(**FIELD),
                }
            },
            "leaderworkerset.x-k8s.io/v1",
        ),
        owner(
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"leaderTemplate": BY_LABEL, "workerTemplate": BY_LABEL}},
            "leaderworkerset.x-k8s.io/v1",
        ),
    ),
]


@pytest.mark.parametrize(("native", "podium"), [row[1:] for row in PAIRS], ids=[row[0] for row in PAIRS])
def test_membership_moves_and_comes_back(native: dict[str, Any], podium: dict[str, Any]) -> None:
    """Both forms of every owner are rewritten each way; in its own API nothing changes, and no input does."""
    before = copy.deepcopy((native, podium))
    assert regroup(native, PODIUM) == (podium, [])
    assert regroup(native, NATIVE) == (native, [])
    assert regroup(podium, PODIUM) == (podium, [])
    back = regroup(podium, NATIVE).document
    # A template without metadata keeps an empty one, which a server writes in the same way.
    assert back == native or back["spec"]["template"] == {"metadata": {}} | native["spec"]["template"]
    assert (native, podium) == before


UNTOUCHED: list[tuple[str, dict[str, Any]]] = [
    ("a pod in no group", pod({"containers": []}, app="a")),
    ("an empty group", pod({"schedulingGroup": {}})),
    ("a null group", pod({"schedulingGroup": None})),
    ("an owner without template", owner("Deployment", {})),
    ("another kind", {"apiVersion": "v1", "kind": "ConfigMap", "data": {LABEL: "train"}}),
    ("an owner of another API", owner("Deployment", {"template": template(**FIELD)}, "example.com/v1")),
]


@pytest.mark.parametrize("document", [row[1] for row in UNTOUCHED], ids=[row[0] for row in UNTOUCHED])
@pytest.mark.parametrize("target", [NATIVE, PODIUM])
def test_objects_in_no_group_pass_unchanged(document: dict[str, Any], target: str) -> None:
    assert regroup(document, target) == (document, [])


@pytest.mark.parametrize("target", [NATIVE, PODIUM])
def test_of_two_names_the_field_rules(target: str) -> None:
    """A pod with both forms is rewritten as on a server; a note has the lost name."""
    both = pod(FIELD, **{LABEL: "other"})
    document, notes = regroup(both, target)
    assert document == (pod(FIELD) if target == NATIVE else pod({}, **{LABEL: "train"}))
    text = "names other, spec.schedulingGroup.podGroupName names train: the field is used"
    assert notes == [(f"metadata.labels[{LABEL}]", text, True)]


def test_a_name_too_long_for_a_label_stays_in_the_field() -> None:
    long = owner("Job", {"template": template(schedulingGroup={"podGroupName": "x" * 64})}, "batch/v1")
    document, notes = regroup(long, PODIUM)
    assert document == long
    assert notes == [
        (
            "spec.template.spec.schedulingGroup.podGroupName",
            "its 64 characters exceed the limit of a label, 63; unchanged",
            True,
        )
    ]


def test_a_label_that_its_owner_selects_by_stays() -> None:
    """A Deployment must select the labels of its template, and its selector cannot change."""
    selector = {"matchLabels": {LABEL: "train"}}
    document, notes = regroup(owner("Deployment", {"selector": selector, "template": BY_LABEL}), NATIVE)
    assert notes == []
    assert document["spec"]["template"]["metadata"] == BY_LABEL["metadata"]
    assert document["spec"]["template"]["spec"] == {"containers": []} | FIELD


THEIRS = "scheduling.x-k8s.io/pod-group"


def test_a_label_of_another_project_that_its_owner_selects_by_stays() -> None:
    theirs = labelled(**{THEIRS: "train"})
    document = owner("Deployment", {"selector": {"matchLabels": {THEIRS: "train"}}, "template": theirs})
    source = ForeignMembers(COSCHEDULING, {})
    new = regroup(document, PODIUM, source).document["spec"]["template"]
    assert new["metadata"]["labels"] == {"app": "a", THEIRS: "train", LABEL: "train"}
    assert source.classes == {("", "train"): {""}}


@pytest.mark.parametrize(
    ("target", "member"),
    [(NATIVE, pod(FIELD, **{THEIRS: "x"})), (PODIUM, pod({}, **{LABEL: "g", THEIRS: "x"}))],
)
def test_a_member_stays_in_its_group_whatever_another_project_calls_it(
    target: str, member: dict[str, Any]
) -> None:
    assert regroup(member, target, ForeignMembers(COSCHEDULING, {})) == (member, [])


def test_a_reference_of_1_35_is_reported_with_the_group_to_create() -> None:
    """A later server drops the field, and one object cannot become two."""
    reference = {"name": "w", "podGroup": "workers", "podGroupReplicaKey": "0"}
    document = owner("Deployment", {"template": template(workloadRef=reference)})
    converted = regroup(document, NATIVE)
    assert converted.document == document
    (note,) = converted.notes
    assert (note.field, note.lost) == ("spec.template.spec.workloadRef", True)
    assert "Create PodGroup w-workers-0" in note.text
