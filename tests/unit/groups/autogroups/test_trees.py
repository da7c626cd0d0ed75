"""The trees of JobSets and LeaderWorkerSets: names, sizes, fields, and when the controller creates a root."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import priority_class
from tests.support.autogroups import (
    ASKING,
    GROUP_LABEL,
    NAMESPACE,
    TREE,
    Document,
    leader,
    namespace,
    of_job,
    of_jobset,
    owner,
    read_pod,
    with_labels,
    worker,
)
from tests.support.steps import steps

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.podkinds.kind import PodOwner
from podium.api.reads import READS
from podium.cluster.state import ClusterState, Readable
from podium.controllers.actions import ApplyGroup, CreateGroup
from podium.controllers.autogroups import decide
from podium.controllers.manager import touched
from podium.groups.autogroups import MOST_GANGS, gang_of, owner_keys, root_of

V1BETA1 = "scheduling.podium.dev/v1beta1"
ROOT = GroupKey(False, NAMESPACE, "train-jobset", composite=True)
LEAF = GroupKey(False, NAMESPACE, "train-worker-0-child")
SINGLE = {"scheduling.podium.dev/gang-disruption": "single"}
REQUIRED, PREFERRED = (f"scheduling.podium.dev/{each}-topology" for each in ("required", "preferred"))


def role(name: str = "worker", replicas: int = 2, labels: Document | None = None, **rest: Any) -> Document:
    """Return a role of Jobs of three pods, which ask for a tree unless `labels` differ."""
    asked = {**ASKING, **TREE} if labels is None else labels
    template = {"metadata": {"labels": asked, "annotations": rest.pop("annotations", {})}}
    job = {"spec": {"parallelism": 3, "template": template}}
    return {"name": name, "replicas": replicas, "template": job, **rest}


def jobset(*roles: Document, **spec: Any) -> PodOwner:
    metadata = spec.pop("metadata", {})
    return owner("JobSet", "train", {"replicatedJobs": list(roles or (role(),)), **spec}, **metadata)


def lws(*, annotations: Document | None = None, **spec: Any) -> PodOwner:
    template = {"metadata": {"labels": {**ASKING, **TREE}}}
    pair = {"size": 3, "workerTemplate": template}
    return owner("LeaderWorkerSet", "serve", {"leaderWorkerTemplate": pair, **spec}, annotations=annotations)


def member(document: Document, group: str = LEAF.name, class_name: str = "", **metadata: Any) -> Pod:
    """Return a pod that asks for a tree, with the webhook's label."""
    document = with_labels(document, {**TREE, GROUP_LABEL: group})
    spec = {"priority": 100 if class_name else 0, "priorityClassName": class_name or None}
    return read_pod(document | {"spec": spec, "metadata": document["metadata"] | metadata})


def stored(document: Document) -> Any:
    """Return a group as the server stores the document of a decision."""
    metadata = document["metadata"] | {"uid": "uid-of-group", "resourceVersion": "7"}
    read = READS[V1BETA1, document["kind"]]
    return read.neutral(msgspec.convert(document | {"metadata": metadata}, read.type))


def state(*objects: Readable) -> ClusterState:
    made = ClusterState(native_served=False)
    for each in objects:
        made.apply(each)
    return made


def wanted(view: ClusterState, key: GroupKey) -> Document | None:
    """Return the created or applied document, None without one."""
    actions = decide(view, key).actions
    if not actions:
        return None
    (action,) = actions
    assert isinstance(action, CreateGroup | ApplyGroup)
    kind = "CompositePodGroup" if key.composite else "PodGroup"
    assert action.ref == ObjectRef(V1BETA1, kind, key.namespace, key.name)
    return dict(action.document)


def planted(*objects: Readable) -> ClusterState:
    """Return a cluster in which the group of the first Job exists."""
    view = state(namespace(), *objects)
    document = wanted(view, LEAF)
    assert document is not None
    view.apply(stored(document))
    return view


NAMES: dict[str, tuple[Document, tuple[str, str]]] = {
    "a Job of a JobSet": (of_jobset(index=3), ("train-worker-3-child", "train-jobset")),
    "a leader": (leader(index=1), ("serve-1-lws", "serve-lws")),
    "a worker": (worker(index=1), ("serve-1-lws", "serve-lws")),
    "a Job has no tree": (of_job(), ("train-job", "")),
}


@pytest.mark.parametrize(("pod", "names"), NAMES.values(), ids=NAMES)
def test_a_pod_names_its_group_and_the_root(pod: Document, names: tuple[str, str]) -> None:
    gang = gang_of(read_pod(with_labels(pod, TREE)))
    assert gang is not None
    assert (gang.group_name, gang.root) == names


@given(st.lists(st.integers(1, 100), min_size=1, max_size=5, unique=True), st.integers(1, 63))
def test_groups_of_a_tree_have_names_of_their_own_that_fit(indices: list[int], length: int) -> None:
    """The names of Jobs may be longer than a label."""
    gangs = [
        gang_of(read_pod(with_labels(of_jobset("n" * length, "worker", index), TREE))) for index in indices
    ]
    names = {name for gang in gangs if gang is not None for name in (gang.group_name, gang.root)}
    assert len(names) == len(indices) + 1
    assert max(map(len, names)) <= 63


def test_a_job_of_a_jobset_has_a_group_in_its_tree() -> None:
    """Its minCount is that of the Job, and its topology that of the role's template."""
    annotations = {REQUIRED: "rack", PREFERRED: "host"}
    view = state(
        namespace(),
        jobset(role("driver", 1), role(annotations=annotations)),
        priority_class("gold", 100),
        member(of_jobset(), class_name="gold"),
    )
    document = wanted(view, LEAF)
    assert document is not None
    assert document["metadata"]["annotations"] == {PREFERRED: "host"}
    assert document["metadata"]["ownerReferences"][0]["kind"] == "JobSet"
    assert document["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "gold",
        "disruptionMode": {"all": {}},
        "workloadRef": {"workloadName": "train-jobset", "templateName": "child"},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "parentCompositePodGroupName": "train-jobset",
    }


def test_the_root_follows_the_first_group() -> None:
    """It belongs to the JobSet, and has the class of the pods and the topology of the JobSet."""
    made = jobset(role("driver", 1), role(), metadata={"annotations": {REQUIRED: "block"}})
    view = planted(made, priority_class("gold", 100), member(of_jobset(), class_name="gold"))
    assert wanted(view, ROOT) == {
        "apiVersion": V1BETA1,
        "kind": "CompositePodGroup",
        "metadata": {
            "name": "train-jobset",
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "podium", "scheduling.podium.dev/gang": "auto"},
            "ownerReferences": [
                {
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "name": "train",
                    "uid": "uid-of-train",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": 3}},
            "priorityClassName": "gold",
            "disruptionMode": {"all": {}},
            "workloadRef": {"workloadName": "train-jobset", "templateName": "root"},
            "schedulingConstraints": {"topology": [{"key": "block"}]},
        },
    }


ROOTS: dict[str, tuple[PodOwner, Document | None, str]] = {
    "all Jobs": (jobset(role("a", 2), role("b", 3)), {"gang": {"minGroupCount": 5}}, "all"),
    "Jobs that wait for no other role": (
        jobset(role("a", 2), role("b", 3, dependsOn=[{"name": "a"}])),
        {"gang": {"minGroupCount": 2}},
        "all",
    ),
    "the first role in order": (
        jobset(role("a", 2), role("b", 3), startupPolicy={"startupPolicyOrder": "InOrder"}),
        {"gang": {"minGroupCount": 2}},
        "all",
    ),
    "a role that does not ask": (
        jobset(role("a", 2, ASKING), role("b", 3)),
        {"gang": {"minGroupCount": 3}},
        "all",
    ),
    "single pods": (
        jobset(role("a", 2, {**ASKING, **TREE, **SINGLE})),
        {"gang": {"minGroupCount": 2}},
        "single",
    ),
    "single pods of one role": (
        jobset(role("a", 2, {**ASKING, **TREE, **SINGLE}), role("b", 1)),
        {"gang": {"minGroupCount": 3}},
        "all",
    ),
    "replicas": (lws(replicas=4), {"basic": {}}, "single"),
    "no role asks": (jobset(role("a", 2, ASKING)), None, ""),
    "a suspended JobSet": (jobset(suspend=True), None, ""),
    "no replicas": (lws(replicas=0), None, ""),
    "a Job": (owner("Job", "train", {"parallelism": 2}), None, ""),
}


@pytest.mark.parametrize(("made", "policy", "mode"), ROOTS.values(), ids=ROOTS)
def test_the_policy_and_the_mode_of_a_root(made: PodOwner, policy: Document | None, mode: str) -> None:
    document = root_of(made, "")
    if policy is None:
        assert document is None
        return
    assert document is not None
    assert document["spec"]["schedulingPolicy"] == policy
    assert document["spec"]["disruptionMode"] == {mode: {}}
    assert "priorityClassName" not in document["spec"]


def test_a_replica_has_a_group_in_its_tree() -> None:
    """Also if the leader alone asks for a tree."""
    key = GroupKey(False, NAMESPACE, "serve-1-lws")
    plain = read_pod(with_labels(worker(index=1), {GROUP_LABEL: key.name}))
    document = wanted(state(namespace(), lws(), plain, member(leader(index=1), key.name)), key)
    assert document is not None
    assert document["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert document["spec"]["parentCompositePodGroupName"] == "serve-lws"


def test_a_group_of_a_tree_follows_its_owner_in_its_count_only() -> None:
    """Its place in the tree is immutable, so it is not sent again."""
    view = planted(jobset(role(annotations={REQUIRED: "rack"})), member(of_jobset()))
    assert wanted(view, LEAF) is None
    changed = role(annotations={REQUIRED: "other"})
    changed["template"]["spec"]["parallelism"] = 5
    view.apply(jobset(changed))
    document = wanted(view, LEAF)
    assert document is not None
    assert document["spec"] == {"schedulingPolicy": {"gang": {"minCount": 5}}}
    assert "annotations" not in document["metadata"]


GONE = "2026-01-01T00:00:00Z"
NOTHING: dict[str, Callable[[], ClusterState]] = {
    "no group": lambda: state(namespace(), jobset(), member(of_jobset())),
    "a root that exists": lambda: _with_root(planted(jobset(), member(of_jobset()))),
    "no pod that asks": lambda: _without_pods(planted(jobset(), member(of_jobset()))),
    "an owner that goes": lambda: _then(
        planted(jobset(), member(of_jobset())), jobset(metadata={"deletionTimestamp": GONE})
    ),
    "a suspended owner": lambda: _then(planted(jobset(), member(of_jobset())), jobset(suspend=True)),
    "a namespace that no longer lets it": lambda: _then(
        planted(jobset(), member(of_jobset())), namespace(labels={})
    ),
}


def _then(view: ClusterState, *changes: Readable) -> ClusterState:
    for each in changes:
        view.apply(each)
    return view


def _with_root(view: ClusterState) -> ClusterState:
    return _then(view, stored(wanted(view, ROOT) or {}))


def _without_pods(view: ClusterState) -> ClusterState:
    for pod in list(view.pods.values()):
        view.remove(pod)
    return view


@pytest.mark.parametrize("view", NOTHING.values(), ids=NOTHING)
def test_no_root_is_written(view: Callable[[], ClusterState]) -> None:
    assert wanted(view(), ROOT) is None


def test_a_group_that_names_the_root_of_another_makes_none() -> None:
    """A user may create such a group with pods of another owner."""
    view = planted(jobset(), member(of_jobset()))
    other = ROOT._replace(name="other-jobset")
    document = wanted(state(namespace(), jobset(), member(of_jobset())), LEAF) or {}
    document["spec"]["parentCompositePodGroupName"] = other.name
    view.apply(stored(document))
    assert wanted(view, other) is None
    assert wanted(view, ROOT) is None


def test_a_change_leads_to_the_root_that_is_absent() -> None:
    """A new pod, the group, the owner and the namespace do; a deleted root is decided again."""
    made, pod = jobset(), member(of_jobset())
    view = planted(made, pod)
    (group,) = view.groups.values()
    assert set(touched(view, None, pod)) == {LEAF, ROOT}
    assert set(touched(view, None, group)) == {LEAF, ROOT}
    assert set(touched(view, jobset(suspend=True), made)) == {LEAF, ROOT}
    assert {LEAF, ROOT} <= set(touched(view, None, namespace()))
    _with_root(view)
    assert set(touched(view, None, pod)) == {LEAF}
    (root,) = view.composites.values()
    assert set(touched(view, root, None)) == {ROOT}


def test_an_owner_has_the_keys_of_its_tree() -> None:
    """A large number of Jobs makes no billion keys."""
    assert [*owner_keys(jobset(role("a", 2), role("b", 1, ASKING)))] == [
        ROOT._replace(composite=False),
        ROOT,
        LEAF._replace(name="train-a-0-child"),
        LEAF._replace(name="train-a-1-child"),
    ]
    assert ROOT._replace(name="serve-lws") in set(owner_keys(lws()))
    many = [role(each, 2**31 - 1) for each in "ab"]
    assert len([*owner_keys(jobset(*many))]) == MOST_GANGS + 2


def test_a_billion_jobs_of_names_that_no_job_has_are_not_counted() -> None:
    """The names are checked one by one, so the numbers are limited before."""
    jobs = jobset(role("a" * 253, 2**31 - 1))
    assert steps(lambda: [*owner_keys(jobs)]) < 300 * MOST_GANGS


def test_a_long_annotation_is_not_copied() -> None:
    """An annotation may have 256 KiB, and each group would have a copy."""
    document = root_of(lws(annotations={PREFERRED: "x" * 1_001}), "")
    assert document is not None
    assert "annotations" not in document["metadata"]
