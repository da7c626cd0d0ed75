"""Further kinds that create pods: Ray, Kubeflow, Volcano, Spark, Grove, Argo and Knative, as rows.

Their objects are read from manifests only: a cluster has their pods. Each kind has the places of its pod
templates, and the fields whose product is the number of pods that exist before any of them runs.

Sources: the API types of ray-project/kuberay, kubeflow/training-operator, kubeflow/mpi-operator,
kubeflow/trainer, volcano-sh/apis, kubeflow/spark-operator, ai-dynamo/grove, argoproj/argo-workflows and
knative/serving.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from podium.api.core import PodTemplate
from podium.api.fieldpath import Path, at, parse_path
from podium.api.podkinds.created import Batch, Copy, CreatedPods, controller_reference, value_at
from podium.api.podkinds.jobset import JOBSET_NAME
from podium.api.podkinds.kind import (
    GroupLabel,
    Number,
    OwnerKind,
    OwnerLabel,
    PodCreator,
    PodOwner,
    Rank,
    Role,
    Spec,
)

# A step that matches every item of a list, or every key of a mapping.
_ITEM = "*"
# volcano-sh/apis: set as annotations, and in newer releases as labels too.
VOLCANO_JOB = "volcano.sh/job-name"
VOLCANO_TASK = "volcano.sh/task-spec"
# kubeflow/training-operator (v1): PyTorchJob, MPIJob and related kinds; the label does not tell which.
TRAINING_JOB = "training.kubeflow.org/job-name"
TRAINING_ROLE = "training.kubeflow.org/replica-type"
# ray-project/kuberay: every pod has labels for its cluster and its group of workers.
RAY_CLUSTER = "ray.io/cluster"
RAY_ROLE = "ray.io/group"
# ai-dynamo/grove: the gang of a pod, and its role in the gang.
GROVE_GANG = "grove.io/podgang"
GROVE_ROLE = "grove.io/podclique"
# The PodCliqueSet of a pod of Grove.
GROVE_SET = "app.kubernetes.io/part-of"
# knative/serving: the Service of a pod.
KNATIVE_SERVICE = "serving.knative.dev/service"


class RoleTemplate(NamedTuple):
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


class CustomPodCreator(PodCreator, gc=False):
    """An object of a kind without a type of its own: its row has the places of its pods."""

    spec: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, which becomes an error of the input, for a template that cannot be read."""
        for role in self.roles():
            try:
                msgspec.convert(role.template, PodTemplate)
            except msgspec.ValidationError as error:
                problem, _, field = str(error).partition(" - at `$")
                raise ValueError(f"{problem} - at `$.{role.placed(field.rstrip('`'))}`") from None

    def roles(self) -> Iterator[RoleTemplate]:
        """Yield its pod templates."""
        document = {"spec": self.spec or {}}
        for role in self._row.roles:
            for item in _items(document, parse_path(role.path), ()):
                yield _role_template(document, role, item)

    def neutral(self) -> PodOwner:
        """Return its neutral form, with one gang if its pods belong together."""
        roles = list(self.roles())
        pods = {role.path: role.number for role in roles if role.number is not None}
        suspend, together = self._row.suspend, self._row.together
        suspended = bool(suspend) and value_at({"spec": self.spec}, *suspend.split(".")) is True
        return PodOwner(
            self.ref,
            self.metadata,
            {role.path: msgspec.convert(role.template, PodTemplate) for role in roles},
            gangs=int(together),
            gang_size=sum(pods.values()) if together and not suspended else 0,
            pods=pods,
            spec_paths={role.path: role.spec_path for role in roles if role.spec_path != f"{role.path}.spec"},
            suspended=suspended,
        )

    def template_documents(self, _document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """Return its whole pod templates by field path, built of items that are none."""
        return {role.path: role.template for role in self.roles()}

    def pod_specs(self, document: Mapping[str, Any]) -> Iterator[Spec]:
        """Yield the specs of its pods; a Spark driver or a step of a Workflow has none of its own."""
        for role in self.roles():
            if role.spec_path != role.path and role.template.get("spec") is not None:
                yield Spec(role.spec_path, at(document, parse_path(role.spec_path)), role.own)

    def unplanned(self) -> tuple[str, str]:
        """Return the field and the reason for which its pods cannot be planned, empty if they can."""
        if self._row.elsewhere:
            return "spec", f"{self._row.elsewhere}. Add the runtime to the file"
        if any(role.number is None for role in self.roles()):
            return (
                "spec",
                f"the number of pods of a {self.kind} depends on its steps. Add the pods themselves",
            )
        return "", ""

    def created(self, owner: PodOwner, _document: Mapping[str, Any]) -> CreatedPods:
        """Return the pods of each role; their controllers may also write labels that no plan reads."""
        row, ref = self._row, owner.ref
        batches = []
        for role in self.roles():
            labels = {row.label: ref.name} if row.label else {}
            labels |= {row.role_label: role.name} if row.role_label and role.name else {}
            base = "-".join(filter(None, (ref.name, role.name)))
            copies = tuple(Copy(f"{base}-{index}", labels) for index in range(role.number or 0))
            batches.append(Batch(role.path, controller_reference(ref), copies, role=role.name))
        return CreatedPods(tuple(batches))

    @property
    def _row(self) -> OwnerKind:
        return _ROWS[self.apiVersion, self.kind]


class _PathValue(NamedTuple):
    """A value in a document: its path, the keys that stood for `*`, and the value."""

    path: str
    keys: Path
    value: Mapping[str, Any]


def _items(value: Any, steps: Path, keys: Path, path: str = "") -> Iterator[_PathValue]:
    """Yield the mappings at a path with `*` steps."""
    if not steps:
        if isinstance(value, dict):
            yield _PathValue(path, keys, value)
        return
    step, rest = steps[0], steps[1:]
    if step != _ITEM:
        if isinstance(value, dict) and step in value:
            yield from _items(value[step], rest, keys, f"{path}.{step}".lstrip("."))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _items(item, rest, (*keys, key), f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _items(item, rest, (*keys, index), f"{path}[{index}]")


def _value(document: Any, steps: Path, keys: Path = ()) -> Any:
    """Return the value at a path whose `*` steps are these keys, or None."""
    left = iter(keys)
    for step in steps:
        key = next(left) if step == _ITEM else step
        if isinstance(document, list) and isinstance(key, int):
            document = document[key]
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document


def _role_template(document: Mapping[str, Any], role: Role, item: _PathValue) -> RoleTemplate:
    named = _value(document, parse_path(role.name), item.keys) if role.name else None
    if not isinstance(named, str):
        named = next((key for key in item.keys if isinstance(key, str)), role.default_name)
    number = _number(document, role, item.keys, named)
    template = dict(item.value) if role.build is None else role.build(document, item.value)
    spec_path = f"{item.path}.{role.spec}".rstrip(".")
    return RoleTemplate(item.path, spec_path, named.lower(), template, number, role.own)


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


def _clique(document: Mapping[str, Any], clique: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a PodClique of Grove, with the class of the whole set by default."""
    spec = dict(value_at(clique, "spec", "podSpec") or {})
    default = value_at(document, "spec", "template", "priorityClassName")
    if default and not spec.get("priorityClassName"):
        spec["priorityClassName"] = default
    metadata = {key: clique[key] for key in ("labels", "annotations") if clique.get(key)}
    return {"metadata": metadata, "spec": spec}


def _scaled(document: Mapping[str, Any], clique: str) -> tuple[str, Any]:
    """Return the replicas of the scaling group of a clique of Grove, 1 without a group."""
    groups = value_at(document, "spec", "template", "podCliqueScalingGroups")
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
    spec["schedulerName"] = spec.get("schedulerName") or job.get("schedulerName") or "volcano"
    return {**template, "spec": spec}


def _step(document: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a step of an Argo Workflow; a step without a container has no pod."""
    workflow = document["spec"].get("workflowSpec")
    workflow = workflow if isinstance(workflow, dict) else document["spec"]
    spec: dict[str, Any] = {
        "containers": [
            container
            for container in (step.get("container"), step.get("script"))
            if isinstance(container, dict)
        ]
    }
    for field, default in (("priorityClassName", "podPriorityClassName"), ("schedulerName", "schedulerName")):
        if value := step.get(field) or workflow.get(default):
            spec[field] = value
    return {"metadata": step.get("metadata") or {}, "spec": spec}


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
    amount = _MEMORY.fullmatch(str(text).lower())
    if amount is None:
        return None
    return int(amount[1]) * {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}[amount[2] or "m"] // 1024


# Fields that a driver or an executor has like a pod's spec.
_SPARK_FIELDS = (
    *("priorityClassName", "nodeSelector", "affinity", "tolerations", "hostNetwork"),
    *("terminationGracePeriodSeconds", "initContainers"),
)
_MEMORY = re.compile(r"(\d{1,12})([kmgt]?)(?:i?b)?")


# The rows.

_ONE = (Number(()),)


def _ray(api_version: str, kind: str, cluster: str, suspend: str = "spec.suspend") -> OwnerKind:
    """Return a kind with a RayCluster at a path."""
    workers = f"{cluster}.workerGroupSpecs.*"
    number = (
        Number((f"{workers}.replicas", f"{workers}.minReplicas"), default=0),
        Number((f"{workers}.numOfHosts",)),
    )
    roles = (
        Role(f"{cluster}.headGroupSpec.template", _ONE, default_name="head"),
        Role(f"{workers}.template", number, f"{workers}.groupName"),
    )
    label = GroupLabel(RAY_CLUSTER, "ray.io/v1", "RayCluster", role=RAY_ROLE)
    return OwnerKind(api_version, kind, CustomPodCreator, groups=(label,), roles=roles, suspend=suspend)


def _training(kind: str, field: str, api_version: str = "kubeflow.org/v1") -> OwnerKind:
    """Return a job of the training operator, whose roles are the keys of a mapping."""
    path = f"spec.{field}.*"
    return OwnerKind(
        api_version,
        kind,
        CustomPodCreator,
        groups=(GroupLabel(TRAINING_JOB, "kubeflow.org/v1", "Job", Rank.FAMILY, role=TRAINING_ROLE),),
        # Only mpi-operator starts pods by a Job; training-operator creates them itself.
        owner=OwnerLabel(TRAINING_JOB, "Job") if api_version == _MPI else None,
        roles=(Role(f"{path}.template", (Number((f"{path}.replicas",)),)),),
        suspend="spec.runPolicy.suspend",
        label=TRAINING_JOB,
        role_label=TRAINING_ROLE,
    )


def _runtime(kind: str, *, namespaced: bool) -> OwnerKind:
    """Return a runtime of Kubeflow Trainer; the number of its pods is that of its TrainJobs."""
    path = "spec.template.spec.replicatedJobs.*"
    roles = (Role(f"{path}.template.spec.template", name=f"{path}.name"),)
    return OwnerKind(TRAINER, kind, CustomPodCreator, namespaced=namespaced, roles=roles)


def _workflow(kind: str, workflow: str, suspend: str = "") -> OwnerKind:
    """Return a kind of Argo with a workflow at a path."""
    steps = f"{workflow}.templates.*"
    roles = (Role(steps, name=f"{steps}.name", build=_step, spec=""),)
    return OwnerKind(_ARGO, kind, CustomPodCreator, roles=roles, suspend=suspend, together=False)


_ARGO = "argoproj.io/v1alpha1"
_MPI = "kubeflow.org/v2beta1"
TRAINER = "trainer.kubeflow.org/v1alpha1"
# kubeflow/trainer: a TrainJob runs as a JobSet of the same name; the label names the step of a pod.
TRAINJOB_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_EXECUTORS = (Number(("spec.executor.instances",)),)
# The fields of a revision of Knative beside those of its pod.
_REVISION = frozenset(
    ("containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds")
)
_CLIQUES = "spec.template.cliques.*"
_TASKS = "spec.tasks.*"
_NUMBER_OF_TASKS = (Number((f"{_TASKS}.replicas",), default=0),)
_VOLCANO = ("batch.volcano.sh/v1alpha1", "Job")
KINDS = (
    OwnerKind(
        *_VOLCANO,
        CustomPodCreator,
        groups=(GroupLabel(VOLCANO_JOB, *_VOLCANO, Rank.SCHEDULER, role=VOLCANO_TASK, annotation=True),),
        roles=(Role(f"{_TASKS}.template", _NUMBER_OF_TASKS, f"{_TASKS}.name", build=_task),),
        label=VOLCANO_JOB,
        role_label=VOLCANO_TASK,
    ),
    OwnerKind(
        TRAINER,
        "TrainJob",
        CustomPodCreator,
        groups=(GroupLabel(JOBSET_NAME, TRAINER, "TrainJob", needed=TRAINJOB_STEP, through="JobSet"),),
        owner=OwnerLabel(JOBSET_NAME, "Job", needed=TRAINJOB_STEP),
        suspend="spec.suspend",
        elsewhere="its pods are described in the runtime of spec.runtimeRef",
    ),
    _runtime("TrainingRuntime", namespaced=True),
    _runtime("ClusterTrainingRuntime", namespaced=False),
    _training("PyTorchJob", "pytorchReplicaSpecs"),
    _training("TFJob", "tfReplicaSpecs"),
    _training("XGBoostJob", "xgbReplicaSpecs"),
    _training("PaddleJob", "paddleReplicaSpecs"),
    _training("MPIJob", "mpiReplicaSpecs"),
    _training("MPIJob", "mpiReplicaSpecs", _MPI),
    _training("JAXJob", "jaxReplicaSpecs"),
    *(
        row
        for version in ("ray.io/v1", "ray.io/v1alpha1")
        for row in (
            _ray(version, "RayCluster", "spec"),
            _ray(version, "RayJob", "spec.rayClusterSpec"),
            _ray(version, "RayService", "spec.rayClusterConfig", suspend=""),
        )
    ),
    OwnerKind(
        "grove.io/v1alpha1",
        "PodCliqueSet",
        CustomPodCreator,
        groups=(GroupLabel(GROVE_GANG, "scheduler.grove.io/v1alpha1", "PodGang", role=GROVE_ROLE),),
        owner=OwnerLabel(GROVE_SET, "PodClique", needed=GROVE_GANG),
        roles=(
            Role(
                _CLIQUES,
                (Number(("spec.replicas",), default=0), Number((f"{_CLIQUES}.spec.replicas",))),
                f"{_CLIQUES}.name",
                times=_scaled,
                build=_clique,
                spec="spec.podSpec",
            ),
        ),
        label=GROVE_SET,
        role_label=GROVE_ROLE,
    ),
    OwnerKind(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        CustomPodCreator,
        roles=(
            Role("spec.driver", _ONE, default_name="driver", build=_spark, spec=""),
            Role("spec.executor", _EXECUTORS, default_name="executor", build=_spark, spec=""),
        ),
        together=False,
        label="sparkoperator.k8s.io/app-name",
        role_label="spark-role",
    ),
    _workflow("Workflow", "spec", suspend="spec.suspend"),
    _workflow("WorkflowTemplate", "spec"),
    _workflow("CronWorkflow", "spec.workflowSpec"),
    OwnerKind(
        "serving.knative.dev/v1",
        "Service",
        CustomPodCreator,
        owner=OwnerLabel(KNATIVE_SERVICE, "ReplicaSet"),
        roles=(
            Role(
                "spec.template",
                (Number(("spec.template.metadata.annotations[autoscaling.knative.dev/min-scale]",)),),
                own=_REVISION,
            ),
        ),
        together=False,
        label=KNATIVE_SERVICE,
    ),
)
_ROWS = {row.api_kind: row for row in KINDS}
