"""The table of further kinds that create pods: their templates, numbers, classes and schedulers."""

from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.api.podkinds.custom import KINDS, CustomPodCreator
from podium.api.podkinds.kind import PodOwner
from podium.api.podkinds.table import OWNER_KINDS
from podium.documents.document import ReadError
from podium.documents.split import split

KEYS = [row.api_kind for row in KINDS]
RAY_HEAD = "headGroupSpec.template"
RAY_WORKERS = "workerGroupSpecs[0].template"


def pods(class_name: str = "", scheduler: str = "") -> dict[str, Any]:
    """Return a pod template."""
    return {
        "spec": {
            "priorityClassName": class_name or None,
            "schedulerName": scheduler or None,
            "containers": [{"name": "main"}],
        }
    }


def ray(**workers: Any) -> dict[str, Any]:
    """Return the spec of a RayCluster with one group of workers."""
    group = {"groupName": "gpu", "template": pods("low"), **workers}
    return {"headGroupSpec": {"template": pods("high")}, "workerGroupSpecs": [group]}


class Case(NamedTuple):
    """The spec of an object, and (class, scheduler, number) of each template by its path."""

    name: str
    key: tuple[str, str]
    spec: dict[str, Any]
    templates: dict[str, tuple[str | None, str | None, int | None]]


CASES = [
    Case(
        "workers on several hosts",
        ("ray.io/v1", "RayCluster"),
        ray(replicas=2, numOfHosts=4),
        {f"spec.{RAY_HEAD}": ("high", None, 1), f"spec.{RAY_WORKERS}": ("low", None, 8)},
    ),
    Case(
        "a cluster that scales begins with minReplicas",
        ("ray.io/v1", "RayJob"),
        {"rayClusterSpec": ray(minReplicas=3)},
        {
            f"spec.rayClusterSpec.{RAY_HEAD}": ("high", None, 1),
            f"spec.rayClusterSpec.{RAY_WORKERS}": ("low", None, 3),
        },
    ),
    Case(
        "no workers at first",
        ("ray.io/v1", "RayService"),
        {"rayClusterConfig": ray()},
        {
            f"spec.rayClusterConfig.{RAY_HEAD}": ("high", None, 1),
            f"spec.rayClusterConfig.{RAY_WORKERS}": ("low", None, 0),
        },
    ),
    *(
        Case(
            "roles",
            ("kubeflow.org/v1", kind),
            {field: {"Worker": {"replicas": 3, "template": pods("low")}, "Master": {"template": pods()}}},
            {
                f"spec.{field}.Worker.template": ("low", None, 3),
                f"spec.{field}.Master.template": (None, None, 1),
            },
        )
        for kind, field in (
            ("PyTorchJob", "pytorchReplicaSpecs"),
            ("TFJob", "tfReplicaSpecs"),
            ("XGBoostJob", "xgbReplicaSpecs"),
            ("PaddleJob", "paddleReplicaSpecs"),
            ("MPIJob", "mpiReplicaSpecs"),
            ("JAXJob", "jaxReplicaSpecs"),
        )
    ),
    Case(
        "the number of pods of a runtime is that of its TrainJobs",
        ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"),
        {
            "template": {
                "spec": {
                    "replicatedJobs": [{"name": "node", "template": {"spec": {"template": pods("high")}}}]
                }
            }
        },
        {"spec.template.spec.replicatedJobs[0].template.spec.template": ("high", None, None)},
    ),
    Case("its runtime has the pods", ("trainer.kubeflow.org/v1alpha1", "TrainJob"), {"runtimeRef": {}}, {}),
    Case(
        "tasks",
        ("batch.volcano.sh/v1alpha1", "Job"),
        {"tasks": [{"name": "ps", "replicas": 2, "template": pods("low", "volcano")}]},
        {"spec.tasks[0].template": ("low", "volcano", 2)},
    ),
    Case(
        "tasks with the class and the scheduler of their Job, or Volcano's own",
        ("batch.volcano.sh/v1alpha1", "Job"),
        {
            "schedulerName": "mine",
            "priorityClassName": "high",
            "tasks": [
                {"name": "ps", "replicas": 1, "template": pods()},
                {"name": "worker", "replicas": 3, "template": pods("low", "other")},
                {"name": "none", "template": pods()},
            ],
        },
        {
            "spec.tasks[0].template": ("high", "mine", 1),
            "spec.tasks[1].template": ("low", "other", 3),
            "spec.tasks[2].template": ("high", "mine", 0),
        },
    ),
    Case(
        "tasks of a Job without a scheduler",
        ("batch.volcano.sh/v1alpha1", "Job"),
        {"tasks": [{"name": "ps", "replicas": 2, "template": pods("low")}]},
        {"spec.tasks[0].template": ("low", "volcano", 2)},
    ),
    Case(
        "cliques of a scaling group",
        ("grove.io/v1alpha1", "PodCliqueSet"),
        {
            "replicas": 2,
            "template": {
                "cliques": [
                    {"name": "router", "spec": {"replicas": 1, "podSpec": {}}},
                    {"name": "leader", "spec": {"replicas": 1, "podSpec": {}}},
                    {"name": "Worker", "spec": {"replicas": 4, "podSpec": {}}},
                    {"name": "single", "spec": {"replicas": 5, "podSpec": {}}},
                ],
                "podCliqueScalingGroups": [
                    {"name": "decode", "cliqueNames": ["leader", "Worker"], "replicas": 3},
                    {"name": "default", "cliqueNames": ["single"]},
                ],
            },
        },
        {
            "spec.template.cliques[0]": (None, None, 2),
            "spec.template.cliques[1]": (None, None, 6),
            "spec.template.cliques[2]": (None, None, 24),
            "spec.template.cliques[3]": (None, None, 10),
        },
    ),
    Case(
        "a driver and executors",
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        {
            "batchScheduler": "volcano",
            "driver": {"priorityClassName": "high"},
            "executor": {"instances": 3, "schedulerName": "yunikorn"},
        },
        {"spec.driver": ("high", "volcano", 1), "spec.executor": (None, "yunikorn", 3)},
    ),
    Case(
        "cliques in replicas, with the class of the set",
        ("grove.io/v1alpha1", "PodCliqueSet"),
        {
            "replicas": 2,
            "template": {
                "priorityClassName": "low",
                "cliques": [
                    {"name": "a", "spec": {"replicas": 3, "podSpec": {"schedulerName": "kai-scheduler"}}},
                    {"name": "b", "spec": {"podSpec": {"priorityClassName": "high"}}},
                ],
            },
        },
        {
            "spec.template.cliques[0]": ("low", "kai-scheduler", 6),
            "spec.template.cliques[1]": ("high", None, 2),
        },
    ),
    Case(
        "steps, as often as they run",
        ("argoproj.io/v1alpha1", "Workflow"),
        {
            "podPriorityClassName": "low",
            "templates": [{"container": {}}, {"container": {}, "priorityClassName": "high"}],
        },
        {"spec.templates[0]": ("low", None, None), "spec.templates[1]": ("high", None, None)},
    ),
    Case(
        "the workflow of a schedule",
        ("argoproj.io/v1alpha1", "CronWorkflow"),
        {"workflowSpec": {"schedulerName": "other", "templates": [{"container": {}}]}},
        {"spec.workflowSpec.templates[0]": (None, "other", None)},
    ),
    Case(
        "at least the minimal scale",
        ("serving.knative.dev/v1", "Service"),
        {
            "template": {
                "metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "2"}},
                **pods("low"),
            }
        },
        {"spec.template": ("low", None, 2)},
    ),
]


def read(key: tuple[str, str], spec: Any) -> PodOwner:
    """Return an object in neutral form."""
    return decode(key, spec).neutral()


def decode(key: tuple[str, str], spec: Any) -> CustomPodCreator:
    """Return an object as it is read."""
    document = {
        "apiVersion": key[0],
        "kind": key[1],
        "metadata": {"name": "x", "namespace": "a"},
        "spec": spec,
    }
    assert OWNER_KINDS[key].type is CustomPodCreator
    return msgspec.convert(document, CustomPodCreator)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.key[1]}: {case.name}" for case in CASES])
def test_a_kind_tells_its_templates_and_numbers(case: Case) -> None:
    owner = read(case.key, case.spec)
    assert {
        path: (
            template.spec.priorityClassName if template.spec else None,
            template.spec.schedulerName if template.spec else None,
            owner.pods.get(path),
        )
        for path, template in owner.templates.items()
    } == case.templates


@pytest.mark.parametrize("key", KEYS, ids=" ".join)
def test_every_kind_has_a_case_of_its_shape(key: tuple[str, str]) -> None:
    shapes = {(OWNER_KINDS[case.key].roles, OWNER_KINDS[case.key].elsewhere) for case in CASES}
    same = (OWNER_KINDS[key].roles, OWNER_KINDS[key].elsewhere) in shapes
    assert same or key == ("argoproj.io/v1alpha1", "WorkflowTemplate")


def test_fields_of_a_spec_are_placed_where_the_kind_has_them() -> None:
    clique: dict[str, Any] = {"template": {"cliques": [{"spec": {"podSpec": {"containers": []}}}]}}
    owner = read(("grove.io/v1alpha1", "PodCliqueSet"), clique)
    assert owner.spec_path("spec.template.cliques[0]") == "spec.template.cliques[0].spec.podSpec"
    assert read(("sparkoperator.k8s.io/v1beta2", "SparkApplication"), {"driver": {}}).spec_path(
        "spec.driver"
    ) == ("spec.driver")


def test_a_spark_pod_requests_memory_with_overhead() -> None:
    driver = {"cores": 2, "memory": "8g", "gpu": {"name": "nvidia.com/gpu", "quantity": 1}}
    executor = {"coreRequest": "500m", "memory": "512m", "memoryOverhead": "100"}
    application = decode(
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"), {"driver": driver, "executor": executor}
    )
    documents = application.template_documents({})
    requests = [template["spec"]["containers"][0]["resources"]["requests"] for template in documents.values()]
    assert requests == [
        {"cpu": "2", "memory": "9011Mi", "nvidia.com/gpu": 1},
        {"cpu": "500m", "memory": "612Mi"},
    ]


@pytest.mark.parametrize("replicas", [-1, "many", 1.5, True, 2**31])
def test_a_wrong_number_of_pods_is_an_error_with_its_field(replicas: Any) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"spec\.workerGroupSpecs\[\*\]\.replicas"):
        read(("ray.io/v1", "RayCluster"), ray(replicas=replicas))


@pytest.mark.parametrize(
    ("key", "spec"),
    [
        (("ray.io/v1", "RayJob"), {"suspend": True, "rayClusterSpec": ray(replicas=2)}),
        (("kubeflow.org/v1", "PyTorchJob"), {"runPolicy": {"suspend": True}}),
    ],
)
def test_a_suspended_object_has_no_gang_yet(key: tuple[str, str], spec: dict[str, Any]) -> None:
    owner = read(key, spec)
    assert owner.suspended
    assert owner.gang_size == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ("spec", "template", "tasks", "replicas", "cliques", "podSpec", "driver", "gpu", "templates")
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(KEYS),
    st.dictionaries(st.sampled_from(("template", "tasks", "driver")), JSON),
)
def test_any_spec_is_read_or_is_an_error_of_the_input(key: tuple[str, str], spec: dict[str, Any]) -> None:
    try:
        owner = read(key, spec)
    except msgspec.ValidationError:
        return
    assert owner.pods.keys() <= owner.templates.keys()


NO_QUANTITY = "expected integer or fraction or string, got boolean"
WRONG = {"spec": {"priority": "high", "containers": []}}
PLACES: list[tuple[tuple[str, str], dict[str, Any], str]] = [
    (
        ("ray.io/v1", "RayCluster"),
        {"headGroupSpec": {"template": WRONG}},
        "spec.headGroupSpec.template.spec.priority: expected integer or null, got string",
    ),
    (
        ("ray.io/v1", "RayCluster"),
        {"headGroupSpec": {"template": {"metadata": {"labels": {"a": 1}}}}},
        "spec.headGroupSpec.template.metadata.labels[a]: expected string, got integer",
    ),
    (
        ("grove.io/v1alpha1", "PodCliqueSet"),
        {"template": {"cliques": [{"name": "a", "spec": {"podSpec": WRONG["spec"]}}]}},
        "spec.template.cliques[0].spec.podSpec.priority: expected integer or null, got string",
    ),
    (
        ("kubeflow.org/v1", "PyTorchJob"),
        {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"overhead": {"cpu": True}}}}}},
        f"spec.pytorchReplicaSpecs.Worker.template.spec.overhead[cpu]: {NO_QUANTITY}",
    ),
    (
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        {"driver": {"gpu": {"name": "nvidia.com/gpu", "quantity": True}}},
        f"spec.driver.containers[0].resources.requests: {NO_QUANTITY}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "spec", "expected"), PLACES)
def test_a_wrong_type_in_a_template_is_an_error_with_its_place(
    key: tuple[str, str], spec: dict[str, Any], expected: str
) -> None:
    value = {"apiVersion": key[0], "kind": key[1], "metadata": {"name": "x"}, "spec": spec}
    (document,) = split(msgspec.json.encode(value), "f")
    with pytest.raises(ReadError) as refused:
        document.read(CustomPodCreator)
    assert str(refused.value) == f"f, document 1, line 1: {expected}"
