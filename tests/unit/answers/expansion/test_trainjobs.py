"""TrainJobs with their runtimes: the JobSets that kubeflow/trainer creates, and so their pods."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.expand import Document, add, cluster, made, pods, template

from podium.errors import PodiumError

TRAINER = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
FIELDS = (
    *("template", "spec", "replicatedJobs", "mlPolicy", "mpi", "numNodes", "name", "trainer", "containers"),
    *("runtimePatches", "podTemplateOverrides", "trainingRuntimeSpec", "targetJobs", "dependsOn", "metadata"),
    *("labels", "resourcesPerNode", "suspend", "podGroupPolicy", "volcano", STEP),
)
TORCH: dict[str, Any] = {"numNodes": 3, "torch": {}}


def _step(name: str, step: str = "", container: str = "node", **rest: Any) -> Document:
    labels = {STEP: step} if step else {}
    spec = template()["spec"]
    spec["containers"][0]["name"] = container
    return {
        "name": name,
        "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": spec}}},
        **rest,
    }


def _runtime(policy: Any, *steps: Document, kind: str = "ClusterTrainingRuntime", **spec: Any) -> Document:
    template = {"spec": {"replicatedJobs": list(steps)}}
    return made(TRAINER, kind, "torch", {"mlPolicy": policy, "template": template, **spec})


def _trainjob(trainer: Any = None, **spec: Any) -> Document:
    return made(TRAINER, "TrainJob", "t", {"runtimeRef": {"name": "torch"}, "trainer": trainer or {}, **spec})


NODE = _step("node", "trainer")
MPI = (_step("node"), _step("launcher", "trainer", dependsOn=[{"name": "node", "status": "Ready"}]))
LOADED = (
    _step("dataset-initializer", "dataset-initializer"),
    _step("node", "trainer", dependsOn=[{"name": "dataset-initializer", "status": "Complete"}]),
)
# The runtime, the TrainJob, and the number of pods by role.
NUMBERS: list[tuple[str, Document, Document, int]] = [
    ("the runtime's number", _runtime(TORCH, NODE), _trainjob(), 3),
    ("the TrainJob's number", _runtime(TORCH, NODE), _trainjob({"numNodes": 5}), 5),
    ("one without a number", _runtime({}, NODE), _trainjob(), 1),
    ("the data is loaded before", _runtime(TORCH, *LOADED), _trainjob(), 3),
    ("MPI nodes; the launcher follows", _runtime({"mpi": {}}, *MPI), _trainjob({"numNodes": 4}), 4),
    (
        "MPI with the launcher as a node",
        _runtime({"mpi": {"runLauncherAsNode": True}}, *MPI),
        _trainjob({"numNodes": 4}),
        3,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("runtime", "trainjob", "number"), [case[1:] for case in NUMBERS], ids=[case[0] for case in NUMBERS]
)
def test_the_pods_of_a_trainjob_are_those_of_its_jobset(
    runtime: Document, trainjob: Document, number: int
) -> None:
    found = pods(add(cluster(), runtime, trainjob))
    assert len(found) == number
    assert all(name.startswith("t-node-0-") for name in found)


def test_resources_and_patches_of_a_trainjob_count() -> None:
    """The two forms of patches are those of Trainer 2.2 and of the versions before it."""
    patch = {"metadata": {"labels": {"team": "x"}}, "spec": {"nodeSelector": {"a": "b"}}}
    role = {"name": "node", "template": {"spec": {"template": patch}}}
    override = {"metadata": {"labels": {"job": "y"}}, "spec": {"priorityClassName": "gold"}}
    spec = {
        "runtimePatches": [{"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [role]}}}}],
        "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], **override}],
    }
    trainjob = _trainjob({"numNodes": 1, "resourcesPerNode": {"requests": {"nvidia.com/gpu": 8}}}, **spec)
    (pod,) = pods(add(cluster(), _runtime(TORCH, NODE, podGroupPolicy={"volcano": {}}), trainjob)).values()
    assert (pod.spec.nodeSelector, pod.spec.priority, pod.scheduler) == ({"a": "b"}, 1000, "volcano")
    assert {"team": "x", "job": "y"}.items() <= (pod.metadata.labels or {}).items()
    (container,) = pod.spec.containers or []
    assert container.resources is not None
    assert container.resources.requests == {"nvidia.com/gpu": 8}


def test_a_trainjob_is_planned_with_a_runtime_of_its_kind_and_namespace_only() -> None:
    wrong = _runtime(TORCH, NODE, kind="TrainingRuntime")
    expansion = add(cluster(), wrong, _trainjob(), made("v1", "Pod", "p", template()["spec"]))
    (problem,) = expansion.unplanned.values()
    assert "its pods are described in the runtime of spec.runtimeRef. Add the runtime to the file" in problem
    named = _trainjob(runtimeRef={"name": "torch", "kind": "TrainingRuntime"})
    assert len(pods(add(cluster(), wrong, named))) == 3


def test_a_suspended_trainjob_has_no_pods() -> None:
    expansion = add(
        cluster(), _runtime(TORCH, NODE), _trainjob(suspend=True), made("v1", "Pod", "p", template()["spec"])
    )
    assert [text.partition(": ")[2] for text in expansion.unplanned.values()] == [
        "spec.suspend: it is suspended and has no pods. Remove the field to plan for them"
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["node", "trainer", "torch"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_any_trainjob_is_planned_or_is_an_error(runtime: Any, trainjob: Any) -> None:
    ref = {"runtimeRef": {"name": "torch"}}
    spec = {**trainjob, **ref} if isinstance(trainjob, dict) else ref
    documents = (
        made(TRAINER, "ClusterTrainingRuntime", "torch", runtime),
        made(TRAINER, "TrainJob", "t", spec),
    )
    with contextlib.suppress(PodiumError):
        assert isinstance(add(cluster(), *documents).targets, dict)
