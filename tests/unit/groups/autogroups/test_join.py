"""The webhook's part of auto groups: the group and the scheduler of a new pod, from bytes to bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.autogroups import (
    ASKING,
    GROUP_LABEL,
    TREE,
    Document,
    leader,
    made_by,
    of_job,
    of_jobset,
    reference,
    with_labels,
    worker,
)
from tests.support.rules.scene import cluster, profile
from tests.support.webhooks.reviews import PODIUM, Answer, ask, mutate, validate

from podium.rules.context import Profile
from podium.rules.podiumrule import AdmissionPhase
from podium.rules.policy import Policy, RuleLevel

UNSERVED = profile(rules="podium", served=False)
INHERIT = profile(rules="podium", policy=Policy(levels={"member-priority": RuleLevel.INHERIT}))
ORPHAN = made_by(None)


def joined(pod: Document, *, scheduled: bool = False, by: Profile = UNSERVED, **rest: Any) -> Answer:
    phase = AdmissionPhase.SCHEDULED_GANG if scheduled else AdmissionPhase.GANG
    return ask(phase, pod, by=by, namespace="team-a", name="", **rest)


def group_of(pod: Document) -> Any:
    return pod["metadata"]["labels"].get(GROUP_LABEL)


def altered(pod: Document, *, labels: Document | None = None, **spec: Any) -> Document:
    metadata = pod["metadata"] | {"labels": pod["metadata"]["labels"] | (labels or {})}
    return pod | {"metadata": metadata, "spec": pod["spec"] | spec}


JOINING = {
    "a Job": (of_job(), "train-job"),
    "a JobSet": (of_jobset(), "train-jobset"),
    "a leader": (leader(), "serve-0-lws"),
    "a leader not labelled yet": (leader(labelled=False), "serve-0-lws"),
    "a worker": (worker(index=7), "serve-7-lws"),
    "a Job of a JobSet as a tree": (with_labels(of_jobset(), TREE), "train-worker-0-child"),
    "a worker of a set as a tree": (with_labels(worker(index=7), TREE), "serve-7-lws"),
    "a Job that asks for a tree": (with_labels(of_job(), TREE), "train-job"),
}


@pytest.mark.parametrize(("pod", "group"), JOINING.values(), ids=JOINING)
@pytest.mark.parametrize("scheduled", [False, True])
def test_a_pod_joins_its_gang(pod: Document, group: str, scheduled: bool) -> None:
    """The pod gets the label and, if its namespace requires it, the scheduler; nothing else changes."""
    answer = joined(pod, scheduled=scheduled)
    assert answer.response["allowed"]
    assert "warnings" not in answer.response
    scheduler = "podium-scheduler" if scheduled else "default-scheduler"
    assert answer.patched == altered(pod, labels={GROUP_LABEL: group}, schedulerName=scheduler)
    # A second call adds nothing.
    assert joined(answer.patched, scheduled=scheduled).verdict.patch == []


LEFT_ALONE = {
    "a group of its own": altered(of_job(), labels={GROUP_LABEL: "mine"}),
    "no wish": altered(of_job(), labels={"scheduling.podium.dev/gang": "no"}),
}


@pytest.mark.parametrize("pod", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_a_group_named_by_the_pod_stays(pod: Document) -> None:
    """A changed registration sends more pods to the webhook, which leaves these unchanged."""
    answer = joined(pod, scheduled=True)
    assert (answer.response["allowed"], answer.verdict.patch, answer.verdict.warnings) == (True, [], [])


def test_another_scheduler_stays() -> None:
    """The pod joins its gang, and its own scheduler schedules it."""
    pod = altered(of_job(), schedulerName="volcano")
    assert joined(pod, scheduled=True).patched == altered(pod, labels={GROUP_LABEL: "train-job"})


def test_a_scheduler_that_decoding_has_not_defaulted_is_set() -> None:
    pod = of_job()
    del pod["spec"]["schedulerName"]
    assert joined(pod, scheduled=True).patched["spec"]["schedulerName"] == "podium-scheduler"


def test_the_native_group_counts_where_it_is_served() -> None:
    """On other servers storage drops the field, and the pod would be in no group."""
    pod = altered(of_job(), schedulingGroup={"podGroupName": "native"})
    assert joined(pod, by=PODIUM).verdict.patch == []
    assert group_of(joined(pod, by=UNSERVED).patched) == "train-job"


def test_a_pod_of_an_unknown_owner_gets_a_warning() -> None:
    """The pod stays unchanged and in no group."""
    answer = joined(ORPHAN, scheduled=True)
    assert answer.response["allowed"]
    assert answer.verdict.patch == []
    (warning,) = answer.response["warnings"]
    assert warning == (
        "metadata.labels[scheduling.podium.dev/gang]: no Job, JobSet or LeaderWorkerSet created this "
        "pod, so it joins no group"
    )
    assert [finding.rule for finding in answer.verdict.findings] == ["gang-without-owner"]


@pytest.mark.parametrize(("level", "code"), [(RuleLevel.DENY, 403), (RuleLevel.OFF, 200)])
def test_the_level_rules(level: RuleLevel, code: int) -> None:
    """An administrator may refuse such a pod, or ignore it."""
    by = profile(rules="podium", served=False, policy=Policy(levels={"gang-without-owner": level}))
    answer = joined(ORPHAN, by=by)
    assert answer.response.get("status", {}).get("code", 200) == code
    assert "warnings" not in answer.response
    assert group_of(joined(of_job(), by=by).patched) == "train-job"


def test_no_pod_waits_for_a_group_that_comes_after_it() -> None:
    """With `inherit` a pod waits for its group; the pod of an auto group comes before its group."""
    pod = joined(of_job(), by=INHERIT).patched
    assert mutate(pod, by=INHERIT, view=cluster()).verdict.awaits == ()
    named = altered(pod, labels={"scheduling.podium.dev/gang": "no"})
    assert mutate(named, by=INHERIT, view=cluster()).verdict.awaits != ()


def test_the_label_is_guarded_from_then_on() -> None:
    """The label is guarded like that of any member."""
    pod = joined(of_job()).patched
    answer = validate(altered(pod, labels={GROUP_LABEL: "other"}), pod, by=UNSERVED)
    assert answer.response["status"]["code"] == 403


@pytest.mark.parametrize(
    "broken",
    [
        of_job() | {"metadata": {"labels": "text"}},
        of_job() | {"metadata": {"labels": ASKING, "ownerReferences": [{"name": 5, "controller": True}]}},
        of_job() | {"spec": {"schedulerName": 5}},
        of_job() | {"spec": None},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": ASKING}},
        {"apiVersion": "scheduling.podium.dev/v1beta1", "kind": "PodGroup", "metadata": {"labels": ASKING}},
    ],
)
@pytest.mark.parametrize("phase", [AdmissionPhase.GANG, AdmissionPhase.SCHEDULED_GANG])
def test_an_invalid_pod_is_left_to_the_api_server(broken: Document, phase: AdmissionPhase) -> None:
    """The server refuses values of wrong types; they are no bug of ours."""
    assert ask(phase, broken, by=UNSERVED).response["allowed"]


TEXT = st.one_of(st.none(), st.text("abJo0-./", max_size=6), st.integers(0, 2))
OWNERS = st.lists(
    st.dictionaries(
        st.sampled_from(["apiVersion", "kind", "name", "uid", "controller"]), st.one_of(TEXT, st.booleans())
    ),
    max_size=2,
)


@given(TEXT, st.dictionaries(st.sampled_from(sorted(of_jobset()["metadata"]["labels"])), TEXT), OWNERS)
def test_any_pod_gets_an_answer(name: Any, labels: Document, owners: list[Document]) -> None:
    """Any metadata gets an answer; a patched pod needs no second patch."""
    fitting = [{**reference("Job", "train"), **owner} for owner in owners]
    metadata = {"name": name, "labels": {**ASKING, **labels}, "ownerReferences": fitting}
    answer = joined(of_job() | {"metadata": metadata}, scheduled=True)
    assert answer.response["allowed"]
    assert joined(answer.patched, scheduled=True).verdict.patch == [] or answer.verdict.patch == []
