"""The gang of a pod, the name of its group, and the minimum number of its pods."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.autogroups import (
    NAMESPACE,
    Document,
    leader,
    made_by,
    namespace,
    of_job,
    of_jobset,
    owner,
    read_pod,
    reference,
    worker,
)

from podium.api.membership import GroupKey
from podium.api.podkinds.table import GANG_FORMS
from podium.groups.autogroups import LABELS, MOST_GANGS, Gang, gang_keys, gang_of, opted_in

JOBSET = "jobset.sigs.k8s.io/jobset-name"
LWS_NAME, LWS_GROUP = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"


def changed(pod: Document, labels: Mapping[str, str | None]) -> Document:
    """Return a pod with other labels; None removes one."""
    merged = {**pod["metadata"]["labels"], **labels}
    left = {key: value for key, value in merged.items() if value is not None}
    return {**pod, "metadata": {**pod["metadata"], "labels": left}}


def not_controlled(pod: Document) -> Document:
    (only,) = pod["metadata"]["ownerReferences"]
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [{**only, "controller": False}]}}


GANGS: dict[str, tuple[Document, str]] = {
    "a Job's pod": (of_job(), "Job train: train-job"),
    "a Job with dots in its name": (of_job("a.b"), "Job a.b: a.b-job"),
    "a JobSet's pod": (of_jobset(), "JobSet train: train-jobset"),
    "another role of the JobSet": (of_jobset(role="driver", index=3), "JobSet train: train-jobset"),
    "a leader": (leader(), "LeaderWorkerSet serve: serve-0-lws"),
    "a leader whose webhook runs after Podium": (
        leader(index=12, labelled=False),
        "LeaderWorkerSet serve: serve-12-lws",
    ),
    "a worker": (worker(index=12), "LeaderWorkerSet serve: serve-12-lws"),
    "a leader of a set whose name ends in a number": (
        leader("serve-1", 0),
        "LeaderWorkerSet serve-1: serve-1-0-lws",
    ),
    "a Job's pod that claims to be a JobSet's": (
        changed(of_job(), {JOBSET: "other"}),
        "Job train: train-job",
    ),
    "a JobSet's name that the Job's does not fit": (
        changed(of_jobset(), {JOBSET: "trai"}),
        "Job train-worker-0: train-worker-0-job",
    ),
    "a pod without an owner": (made_by(None), ""),
    "a pod whose owner does not control it": (not_controlled(of_job()), ""),
    "a ReplicaSet's pod": (made_by(reference("ReplicaSet", "web")), ""),
    "a Job of another API": (made_by(reference("Job", "train", "batch.volcano.sh/v1alpha1")), ""),
    "a StatefulSet without an owner": (made_by(reference("StatefulSet", "db"), "db-0"), ""),
    "a StatefulSet's pod that claims to be of a set": (
        made_by(reference("StatefulSet", "db"), "db-0", {LWS_NAME: "serve"}),
        "",
    ),
    "a worker that claims another replica": (changed(worker(), {LWS_GROUP: "1"}), ""),
    "a worker without a replica": (changed(worker(), {LWS_GROUP: None}), ""),
    "a leader that claims another replica": (changed(leader(), {LWS_GROUP: "1"}), ""),
    "a leader whose name has no number": (
        made_by(reference("StatefulSet", "a"), "a-x", {LWS_NAME: "a"}),
        "",
    ),
    "an owner of a name that no Job has": (of_job("No/Job"), ""),
}


@pytest.mark.parametrize(("pod", "wanted"), GANGS.values(), ids=GANGS)
def test_a_pods_gang(pod: Document, wanted: str) -> None:
    """The owner reference and the labels that agree with it determine the gang and its group's name."""
    gang = gang_of(read_pod(pod))
    found = "" if gang is None else f"{gang.owner.kind} {gang.owner.name}: {gang.group_name}"
    assert found == wanted
    assert gang is None or gang.owner.namespace == NAMESPACE


@pytest.mark.parametrize("pod", [of_job(), of_jobset(), leader(), leader(labelled=False), worker()])
def test_only_the_named_labels_are_looked_at(pod: Document) -> None:
    """The transform that keeps pods small keeps these labels."""
    kept = {key: value for key, value in pod["metadata"]["labels"].items() if key in LABELS}
    small = {**pod, "metadata": {**pod["metadata"], "labels": kept}, "spec": {}}
    assert gang_of(read_pod(small)) == gang_of(read_pod(pod))


SIZES: dict[str, tuple[str, Document | None, tuple[int, int]]] = {
    "a Job of one pod": ("Job", {}, (1, 1)),
    "a Job": ("Job", {"parallelism": 4}, (1, 4)),
    "a Job of fewer pods than it may have": ("Job", {"parallelism": 8, "completions": 3}, (1, 3)),
    "a Job of many rounds": ("Job", {"parallelism": 3, "completions": 30}, (1, 3)),
    "a Job that does nothing": ("Job", {"parallelism": 0}, (1, 0)),
    "a Job that is suspended": ("Job", {"parallelism": 4, "suspend": True}, (1, 0)),
    "a Job without a spec": ("Job", None, (0, 0)),
    "a JobSet": (
        "JobSet",
        {
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": {}}},
                {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 4}}},
                {"name": "few", "replicas": 3, "template": {"spec": {"parallelism": 4, "completions": 2}}},
                {"name": "none", "replicas": 0, "template": {"spec": {"parallelism": 4}}},
            ]
        },
        (1, 15),
    ),
    "a JobSet in order": (
        "JobSet",
        {
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "replicatedJobs": [
                {"name": "none", "replicas": 0},
                {"name": "driver", "replicas": 2},
                {"name": "worker", "template": {"spec": {"parallelism": 4}}},
            ],
        },
        (1, 2),
    ),
    "a JobSet in any order": (
        "JobSet",
        {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}, "replicatedJobs": [{}, {}]},
        (1, 2),
    ),
    "a JobSet of a role that waits": (
        "JobSet",
        {
            "replicatedJobs": [
                {"name": "driver", "replicas": 2},
                {"name": "worker", "dependsOn": [{"name": "driver", "status": "Ready"}], "replicas": 5},
            ]
        },
        (1, 2),
    ),
    "a JobSet that is suspended": ("JobSet", {"suspend": True, "replicatedJobs": [{}]}, (1, 0)),
    "a LeaderWorkerSet of one pod": ("LeaderWorkerSet", {"leaderWorkerTemplate": {}}, (1, 1)),
    "a LeaderWorkerSet": ("LeaderWorkerSet", {"replicas": 3, "leaderWorkerTemplate": {"size": 4}}, (3, 4)),
    "a LeaderWorkerSet whose leaders come first": (
        "LeaderWorkerSet",
        {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4}},
        (1, 1),
    ),
    "a Deployment": ("Deployment", {"replicas": 3}, (0, 0)),
    "a CronJob": ("CronJob", {"jobTemplate": {"spec": {"parallelism": 4}}}, (0, 0)),
}


@pytest.mark.parametrize(("kind", "spec", "wanted"), SIZES.values(), ids=SIZES)
def test_an_owners_gangs(kind: str, spec: Document | None, wanted: tuple[int, int]) -> None:
    """The number of gangs of an owner, and the pods of each that exist before any of them runs."""
    found = owner(kind, "x", spec)
    assert (found.gangs, found.gang_size) == wanted
    assert (found.gangs == 0) == (next(iter(gang_keys(found)), None) is None)


def test_a_jobs_last_round_is_smaller() -> None:
    """With ten completions and four in parallel, two pods remain when eight are done."""
    spec = {"parallelism": 4, "completions": 10}
    sizes = [owner("Job", "x", spec, status={"succeeded": done}).gang_size for done in (0, 6, 7, 8, 10)]
    assert sizes == [4, 4, 3, 2, 0]


def test_leaders_that_find_a_domain_for_their_workers_come_alone() -> None:
    """With exclusive placement workers are created when their leader is bound."""
    annotations = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4}}
    found = owner("LeaderWorkerSet", "serve", spec, annotations=annotations)
    assert (found.gangs, found.gang_size) == (2, 1)


def test_an_owners_keys_are_its_pods_groups() -> None:
    """A change of the owner leads to the groups of its pods."""
    spec = {"replicas": 3, "leaderWorkerTemplate": {"size": 2}}
    assert [*gang_keys(owner("LeaderWorkerSet", "serve", spec))] == [
        GroupKey(False, NAMESPACE, f"serve-{index}-lws") for index in range(3)
    ]
    for kind, pod in (("Job", of_job("train")), ("JobSet", of_jobset("train"))):
        (key,) = gang_keys(owner(kind, "train", {"replicatedJobs": [{}]} if kind == "JobSet" else {}))
        gang = gang_of(read_pod(pod))
        assert gang is not None
        assert key == GroupKey(False, NAMESPACE, gang.group_name)


def test_a_large_number_makes_no_billion_keys() -> None:
    """A large number in a user's object costs no memory and no time."""
    spec = {"replicas": 2**31 - 1, "leaderWorkerTemplate": {}}
    assert len([*gang_keys(owner("LeaderWorkerSet", "serve", spec))]) == MOST_GANGS


PART = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
NAMES = st.one_of(
    st.lists(PART, min_size=1, max_size=3).map(".".join),
    # As long as a label's value can be, with differences at the end only.
    st.tuples(st.integers(40, 60), PART).map(lambda parts: ("n" * parts[0] + parts[1])[:63].rstrip("-")),
    st.tuples(st.integers(40, 52), PART).map(lambda parts: "n." + "n" * parts[0] + "-1." + parts[1]),
)


def _gang(kind: str, name: str, index: int) -> Gang:
    pods = {"Job": lambda: of_job(name), "JobSet": lambda: of_jobset(name)}
    gang = gang_of(read_pod(pods.get(kind, lambda: leader(name, index))()))
    assert gang is not None
    return gang


WHOSE = st.tuples(st.sampled_from(sorted(kind for _, kind in GANG_FORMS)), NAMES, st.integers(0, 120)).map(
    lambda whose: whose if whose[0] == "LeaderWorkerSet" else (whose[0], whose[1], 0)
)


@given(st.lists(WHOSE, min_size=1, max_size=8, unique=True))
def test_names_are_the_gangs_own_and_fit_in_a_label(whose: list[tuple[str, str, int]]) -> None:
    """Different gangs have different groups, for any names of owners, and each always the same."""
    names = [_gang(*each).group_name for each in whose]
    assert len(set(names)) == len(names)
    assert names == [_gang(*each).group_name for each in whose]
    for name in names:
        assert len(name) <= 63
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)


@given(st.text("ab.-/_A", max_size=4), st.text("ab.-/_A0", max_size=4), st.text("a0-", max_size=6))
def test_whatever_a_tenant_writes_is_a_valid_label_or_no_gang(owner: str, name: str, pod: str) -> None:
    """Any client may write an owner reference; a pod with an invalid label would be refused."""
    for document in (
        made_by(reference("Job", owner), pod),
        made_by(reference("StatefulSet", owner), pod, {LWS_NAME: name}),
    ):
        gang = gang_of(read_pod(document))
        assert gang is None or re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", gang.group_name)


@pytest.mark.parametrize(
    ("rest", "wanted"),
    [
        ({}, True),
        ({"labels": {"scheduling.podium.dev/auto-groups": "yes"}}, False),
        ({"labels": None}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_a_namespace_lets_its_pods_ask(rest: dict[str, Any], wanted: bool) -> None:
    assert opted_in(namespace(**rest)) is wanted
    assert not opted_in(None)
