"""Further kinds that create pods: Ray, Kubeflow, Volcano, Spark, Grove, Argo and Knative, in one table.

Their objects are read from manifests only: a cluster has their pods. Each kind has the places of its pod
templates, and the fields whose product is the number of pods that exist before any of them runs.

Sources: the API types of ray-project/kuberay, kubeflow/training-operator, kubeflow/mpi-operator,
kubeflow/trainer, volcano-sh/apis, kubeflow/spark-operator, ai-dynamo/grove, argoproj/argo-workflows and
knative/serving.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from podium.api.core import PodTemplate
from podium.api.fieldpath import Path, parse_path
from podium.api.podcreators import PodCreator

# A step that matches every item of a list, or every key of a mapping.
_EACH = "*"


class Number(NamedTuple):
    """A factor of the number of pods: the first of some fields that is set, else a default."""

    fields: tuple[str, ...]
    default: int = 1


class Role(NamedTuple):
    """The pods of one template.

    `path` is the place of the template, with `*` for each item. `numbers` are the factors of the number of
    pods, with the same items; without factors the number is not known. `name` is the field of its name, and
    `default_name` the name without such a field. `times` reads one more factor from the object, as the value
    of a field. `build` makes a pod template of an item that is none, and `spec` is then the place of the
    fields of the pod's spec in the item. `own` are fields that the kind adds to the pod's spec.
    """

    path: str
    numbers: tuple[Number, ...] = ()
    name: str = ""
    default_name: str = ""
    times: Callable[[Mapping[str, Any], str], tuple[str, Any]] | None = None
    build: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None
    spec: str = "spec"
    own: frozenset[str] = frozenset()


class PodMaker(NamedTuple):
    """A kind that creates pods.

    `suspend` is the field that keeps it from creating them. `gang` means that its pods belong together.
    `label` is the label of the pods with its name, `role_label` that with the name of their role.
    `elsewhere` says where the pods are described if not in the object.
    """

    roles: tuple[Role, ...] = ()
    suspend: str = ""
    gang: bool = True
    label: str = ""
    role_label: str = ""
    elsewhere: str = ""


class FoundRole(NamedTuple):
    """A pod template of one object: its place, its name, itself, and the number of its pods if known.

    `own` are fields that the kind adds to the pod's spec.
    """

    path: str
    spec_path: str
    name: str
    template: dict[str, Any]
    number: int | None
    own: frozenset[str]

    def placed(self, field: str) -> str:
        """Return the path in the object of a field of the template (`.spec.containers`)."""
        inner = field.removeprefix(".spec")
        return f"{self.path}{field}" if inner == field else f"{self.spec_path}{inner}"


class MadePods(PodCreator, gc=False):
    """An object of a kind in POD_MAKERS."""

    spec: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, which becomes an error of the input, for a template that cannot be read."""
        for role in self.roles():
            try:
                msgspec.convert(role.template, PodTemplate)
            except msgspec.ValidationError as error:
                problem, _, field = str(error).partition(" - at `$")
                raise ValueError(f"{problem} - at `$.{role.placed(field.rstrip('`'))}`") from None

    def roles(self) -> Iterator[FoundRole]:
        """Yield its pod templates."""
        document = {"spec": self.spec or {}}
        for role in self._maker.roles:
            for found in _places(document, parse_path(role.path), ()):
                yield _found(document, role, found)

    def templates(self) -> Iterator[tuple[str, PodTemplate]]:
        """Yield the templates with their field paths."""
        for role in self.roles():
            yield role.path, msgspec.convert(role.template, PodTemplate)

    def pod_numbers(self) -> dict[str, int]:
        """Return the number of pods of each template, if it is known."""
        return {role.path: role.number for role in self.roles() if role.number is not None}

    def spec_paths(self) -> dict[str, str]:
        """Return the place of the fields of a pod's spec for templates that do not have them under `spec`."""
        return {role.path: role.spec_path for role in self.roles() if role.spec_path != f"{role.path}.spec"}

    @property
    def suspended(self) -> bool:
        """Return whether it creates no pods until it is resumed."""
        suspend = self._maker.suspend
        return bool(suspend) and _value({"spec": self.spec or {}}, parse_path(suspend)) is True

    def gangs(self) -> tuple[int, int]:
        """Return the one gang of its pods with its size, or no gang."""
        if not self._maker.gang:
            return 0, 0
        return 1, 0 if self.suspended else sum(self.pod_numbers().values())

    @property
    def _maker(self) -> PodMaker:
        return POD_MAKERS[self.apiVersion, self.kind]


class _FoundValue(NamedTuple):
    """A value in a document: its path, the keys that stood for `*`, and the value."""

    path: str
    keys: Path
    value: Mapping[str, Any]


def _places(value: Any, steps: Path, keys: Path, path: str = "") -> Iterator[_FoundValue]:
    """Yield the mappings at a path with `*` steps."""
    if not steps:
        if isinstance(value, dict):
            yield _FoundValue(path, keys, value)
        return
    step, rest = steps[0], steps[1:]
    if step != _EACH:
        if isinstance(value, dict) and step in value:
            yield from _places(value[step], rest, keys, f"{path}.{step}".lstrip("."))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, rest, (*keys, key), f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, rest, (*keys, index), f"{path}[{index}]")


def _value(document: Any, steps: Path, keys: Path = ()) -> Any:
    """Return the value at a path whose `*` steps are these keys, or None."""
    left = iter(keys)
    for step in steps:
        key = next(left) if step == _EACH else step
        if isinstance(document, list) and isinstance(key, int):
            document = document[key]
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document


def _found(document: Mapping[str, Any], role: Role, found: _FoundValue) -> FoundRole:
    named = _value(document, parse_path(role.name), found.keys) if role.name else None
    if not isinstance(named, str):
        named = next((key for key in found.keys if isinstance(key, str)), role.default_name)
    number = _number(document, role, found.keys, named)
    template = dict(found.value) if role.build is None else role.build(document, found.value)
    spec_path = f"{found.path}.{role.spec}".rstrip(".")
    return FoundRole(found.path, spec_path, named.lower(), template, number, role.own)


def _number(document: Mapping[str, Any], role: Role, keys: Path, name: str) -> int | None:
    """Return the product of the factors of a role, None without factors. Raises ValueError."""
    if not role.numbers:
        return None
    factors: list[tuple[str, Any]] = []
    for factor in role.numbers:
        set_fields = ((field, _value(document, parse_path(field), keys)) for field in factor.fields)
        factors.append(next(((f, v) for f, v in set_fields if v is not None), ("", factor.default)))
    if role.times is not None:
        factors.append(role.times(document, name))
    number = 1
    for field, given in factors:
        decimal = isinstance(given, str) and given.isdecimal() and len(given) < 11
        value = int(given) if decimal else given
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
            raise ValueError(f"{field.replace('.*', '[*]')}: {given!r} is not a number of pods")
        number *= value
    return number


def _ray(cluster: str) -> tuple[Role, ...]:
    groups = f"{cluster}.workerGroupSpecs.*"
    workers = (
        Number((f"{groups}.replicas", f"{groups}.minReplicas"), default=0),
        Number((f"{groups}.numOfHosts",)),
    )
    return (
        Role(f"{cluster}.headGroupSpec.template", (Number(()),), default_name="head"),
        Role(f"{groups}.template", workers, f"{groups}.groupName"),
    )


def _replicas(field: str) -> PodMaker:
    """Return a job of the training operator, whose roles are the keys of a mapping."""
    role = f"spec.{field}.*"
    return PodMaker(
        (Role(f"{role}.template", (Number((f"{role}.replicas",)),)),),
        suspend="spec.runPolicy.suspend",
        label="training.kubeflow.org/job-name",
        role_label="training.kubeflow.org/replica-type",
    )


def _clique(document: Mapping[str, Any], clique: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a PodClique of Grove, with the class of the whole set by default."""
    spec = dict(_value(clique, ("spec", "podSpec")) or {})
    default = _value(document, ("spec", "template", "priorityClassName"))
    if default and not spec.get("priorityClassName"):
        spec["priorityClassName"] = default
    metadata = {key: clique[key] for key in ("labels", "annotations") if clique.get(key)}
    return {"metadata": metadata, "spec": spec}


def _scaled(document: Mapping[str, Any], clique: str) -> tuple[str, Any]:
    """Return the replicas of the scaling group of a clique of Grove, 1 without a group."""
    groups = _value(document, ("spec", "template", "podCliqueScalingGroups"))
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        names = group.get("cliqueNames") if isinstance(group, dict) else None
        if isinstance(names, list) and clique in names:
            replicas = group.get("replicas")
            path = f"spec.template.podCliqueScalingGroups[{index}].replicas"
            return path, 1 if replicas is None else replicas
    return "", 1


def _task(document: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a task of a Volcano Job, with the Job's class and scheduler by default."""
    spec = dict(template.get("spec") or {})
    job = document["spec"]
    if not spec.get("priorityClassName") and job.get("priorityClassName"):
        spec["priorityClassName"] = job["priorityClassName"]
    spec["schedulerName"] = spec.get("schedulerName") or job.get("schedulerName") or _VOLCANO
    return {**template, "spec": spec}


def _step(document: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a step of an Argo Workflow; a step without a container has no pod."""
    workflow = document["spec"].get("workflowSpec")
    workflow = workflow if isinstance(workflow, dict) else document["spec"]
    spec: dict[str, Any] = {
        "containers": [each for each in (step.get("container"), step.get("script")) if isinstance(each, dict)]
    }
    for field, default in (("priorityClassName", "podPriorityClassName"), ("schedulerName", "schedulerName")):
        if value := step.get(field) or workflow.get(default):
            spec[field] = value
    return {"metadata": step.get("metadata") or {}, "spec": spec}


def _steps(workflow: str) -> tuple[Role, ...]:
    steps = f"{workflow}.templates.*"
    return (Role(steps, name=f"{steps}.name", build=_step, spec=""),)


def _spark(document: Mapping[str, Any], role: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a Spark driver or executor, with requests as Spark computes them."""
    requests: dict[str, Any] = {"cpu": str(role.get("coreRequest") or role.get("cores") or 1)}
    memory = _mebibytes(role.get("memory") or "1g")
    overhead = role.get("memoryOverhead")
    extra = _mebibytes(overhead) if overhead else None
    if memory is not None:
        requests["memory"] = f"{memory + (max(384, memory // 10) if extra is None else extra)}Mi"
    gpu = role.get("gpu")
    if isinstance(gpu, dict) and gpu.get("name"):
        requests[gpu["name"]] = gpu.get("quantity", 1)
    given = role.get("template") if isinstance(role.get("template"), dict) else {}
    metadata = {key: role[key] for key in ("labels", "annotations") if role.get(key)}
    spec: dict[str, Any] = dict((given or {}).get("spec") or {})
    spec["containers"] = [{"name": "spark", "resources": {"requests": requests}}]
    scheduler = role.get("schedulerName") or document["spec"].get("batchScheduler")
    spec |= {key: role[key] for key in _SPARK_FIELDS if role.get(key)}
    return {"metadata": metadata, "spec": spec | ({"schedulerName": scheduler} if scheduler else {})}


def _mebibytes(text: Any) -> int | None:
    """Return an amount of memory in Spark's notation (`512m`, `2g`, mebibytes without a unit), or None."""
    found = _MEMORY.fullmatch(str(text).lower())
    if found is None:
        return None
    return int(found[1]) * {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}[found[2] or "m"] // 1024


# Fields that a driver or an executor has like a pod's spec.
_SPARK_FIELDS = (
    *("priorityClassName", "nodeSelector", "affinity", "tolerations", "hostNetwork"),
    *("terminationGracePeriodSeconds", "initContainers"),
)
_MEMORY = re.compile(r"(\d{1,12})([kmgt]?)(?:i?b)?")
# The scheduler that Volcano's webhook gives to a Job without one.
_VOLCANO = "volcano"
_RUNTIME_ROLES = "spec.template.spec.replicatedJobs.*"
_CLIQUES = "spec.template.cliques.*"
_TASKS = "spec.tasks.*"
_MIN_SCALE = "spec.template.metadata.annotations[autoscaling.knative.dev/min-scale]"
# The fields of a revision of Knative beside those of its pod.
_REVISION = frozenset(
    ("containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds")
)
_ARGO = "argoproj.io/v1alpha1"
_KUBEFLOW = {
    "PyTorchJob": _replicas("pytorchReplicaSpecs"),
    "TFJob": _replicas("tfReplicaSpecs"),
    "XGBoostJob": _replicas("xgbReplicaSpecs"),
    "PaddleJob": _replicas("paddleReplicaSpecs"),
    "MPIJob": _replicas("mpiReplicaSpecs"),
    "JAXJob": _replicas("jaxReplicaSpecs"),
}

# The kinds among them without a namespace.
CLUSTER_MAKERS = frozenset(("ClusterTrainingRuntime",))
# By (apiVersion, kind).
POD_MAKERS: dict[tuple[str, str], PodMaker] = {
    **{
        (f"ray.io/{version}", kind): PodMaker(_ray(cluster), suspend=suspend)
        for version in ("v1", "v1alpha1")
        for kind, cluster, suspend in (
            ("RayCluster", "spec", "spec.suspend"),
            ("RayJob", "spec.rayClusterSpec", "spec.suspend"),
            ("RayService", "spec.rayClusterConfig", ""),
        )
    },
    **{("kubeflow.org/v1", kind): maker for kind, maker in _KUBEFLOW.items()},
    ("kubeflow.org/v2beta1", "MPIJob"): _KUBEFLOW["MPIJob"],
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): PodMaker(
        suspend="spec.suspend", elsewhere="its pods are described in the runtime of spec.runtimeRef"
    ),
    **{
        ("trainer.kubeflow.org/v1alpha1", kind): PodMaker(
            (Role(f"{_RUNTIME_ROLES}.template.spec.template", name=f"{_RUNTIME_ROLES}.name"),)
        )
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    },
    ("batch.volcano.sh/v1alpha1", "Job"): PodMaker(
        (
            Role(
                f"{_TASKS}.template",
                (Number((f"{_TASKS}.replicas",), default=0),),
                f"{_TASKS}.name",
                build=_task,
            ),
        ),
        label="volcano.sh/job-name",
        role_label="volcano.sh/task-spec",
    ),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): PodMaker(
        (
            Role("spec.driver", (Number(()),), default_name="driver", build=_spark, spec=""),
            Role(
                "spec.executor",
                (Number(("spec.executor.instances",)),),
                default_name="executor",
                build=_spark,
                spec="",
            ),
        ),
        gang=False,
        label="sparkoperator.k8s.io/app-name",
        role_label="spark-role",
    ),
    ("grove.io/v1alpha1", "PodCliqueSet"): PodMaker(
        (
            Role(
                _CLIQUES,
                (Number(("spec.replicas",), default=0), Number((f"{_CLIQUES}.spec.replicas",))),
                f"{_CLIQUES}.name",
                times=_scaled,
                build=_clique,
                spec="spec.podSpec",
            ),
        ),
        label="app.kubernetes.io/part-of",
        role_label="grove.io/podclique",
    ),
    (_ARGO, "Workflow"): PodMaker(_steps("spec"), suspend="spec.suspend", gang=False),
    (_ARGO, "WorkflowTemplate"): PodMaker(_steps("spec"), gang=False),
    (_ARGO, "CronWorkflow"): PodMaker(_steps("spec.workflowSpec"), gang=False),
    ("serving.knative.dev/v1", "Service"): PodMaker(
        (Role("spec.template", (Number((_MIN_SCALE,)),), own=_REVISION),),
        gang=False,
        label="serving.knative.dev/service",
    ),
}
