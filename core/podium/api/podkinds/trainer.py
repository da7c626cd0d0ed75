"""The JobSet that kubeflow/trainer creates for a TrainJob.

A TrainJob has no pod template. Its runtime (TrainingRuntime or ClusterTrainingRuntime) is a JobSet, in which
it sets the number of nodes, the resources of each node, and patches of the pods. Steps that load data or a
model are left out: one pod each, which ends before the training begins.

Source: pkg/runtime of kubeflow/trainer (the jobset and mpi plugins).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from podium.api.podkinds.created import value_at
from podium.api.podkinds.custom import TRAINER, TRAINJOB_STEP
from podium.api.podkinds.jobset import JOBSET_KEY

TRAINJOB_KEY = (TRAINER, "TrainJob")
_CLUSTER, _NAMESPACED = "ClusterTrainingRuntime", "TrainingRuntime"
# The name of a role, and of the container in it, that spec.trainer changes.
_NODE = "node"
# Patches of containers change no request.
_CONTAINERS = ("containers", "initContainers")

_Value = dict[str, Any]


class RuntimeIdentity(NamedTuple):
    """A runtime: its kind, its namespace (empty for a ClusterTrainingRuntime) and its name."""

    kind: str
    namespace: str
    name: str


def is_runtime(api_version: str, kind: str) -> bool:
    """Return whether a kind is a runtime."""
    return api_version == TRAINER and kind in (_CLUSTER, _NAMESPACED)


def runtime_identity(kind: str, runtime: Mapping[str, Any]) -> RuntimeIdentity:
    """Return the identity of a runtime."""
    return _identity(kind, _map(runtime, "metadata"))


def runtime_of(trainjob: Mapping[str, Any]) -> RuntimeIdentity:
    """Return the identity of the runtime of a TrainJob."""
    ref = _map(trainjob, "spec", "runtimeRef")
    named = {**_map(trainjob, "metadata"), "name": ref.get("name")}
    return _identity(str(ref.get("kind") or _CLUSTER), named)


def jobset_of(trainjob: Mapping[str, Any], runtime: Mapping[str, Any]) -> _Value:
    """Return the JobSet of a TrainJob, which has its name and labels."""
    spec = {**_map(runtime, "spec", "template", "spec")}
    roles = _maps(spec.get("replicatedJobs"))
    loading = [role.get("name") for role in roles if _step(role).endswith("-initializer")]
    training = [role for role in roles if role.get("name") not in loading]
    spec["replicatedJobs"] = [_role(_after(role, loading), trainjob, runtime) for role in training]
    if (suspend := _map(trainjob, "spec").get("suspend")) is not None:
        spec["suspend"] = suspend
    api_version, kind = JOBSET_KEY
    return {"apiVersion": api_version, "kind": kind, "metadata": _map(trainjob, "metadata"), "spec": spec}


def _identity(kind: str, metadata: Mapping[str, Any]) -> RuntimeIdentity:
    namespace = "" if kind == _CLUSTER else metadata.get("namespace") or "default"
    return RuntimeIdentity(kind, str(namespace), str(metadata.get("name") or ""))


def _step(role: _Value) -> str:
    return str(_map(role, "template", "metadata", "labels").get(TRAINJOB_STEP, ""))


def _after(role: _Value, ended: list[Any]) -> _Value:
    """Return a role that no longer waits for roles that have ended."""
    waits = [wait for wait in _maps(role.get("dependsOn")) if wait.get("name") not in ended]
    return {**role, "dependsOn": waits}


def _role(role: _Value, trainjob: Mapping[str, Any], runtime: Mapping[str, Any]) -> _Value:
    """Return a role of the runtime with the numbers, resources and patches of a TrainJob."""
    job = _map(role, "template")
    spec, pods = {**_map(job, "spec")}, {**_map(job, "spec", "template")}
    pod_spec = {**_map(pods, "spec")}
    trains = _step(role) == "trainer"
    if trains or role.get("name") == _NODE:
        trainer = _map(trainjob, "spec", "trainer")
        number = _nodes(role, trainer, runtime, trains=trains)
        spec |= {"parallelism": number, "completions": number}
        if resources := trainer.get("resourcesPerNode"):
            pod_spec["containers"] = [
                {**container, "resources": resources} if container.get("name") == _NODE else container
                for container in _maps(pod_spec.get("containers"))
            ]
    if "volcano" in _map(runtime, "spec", "podGroupPolicy"):
        pod_spec.setdefault("schedulerName", "volcano")
    metadata = _map(pods, "metadata")
    for patch in _patches(role.get("name"), trainjob):
        pod_spec |= {key: value for key, value in _map(patch, "spec").items() if key not in _CONTAINERS}
        for texts in ("labels", "annotations"):
            if patched := _map(patch, "metadata", texts):
                metadata = {**metadata, texts: {**_map(metadata, texts), **patched}}
    spec["template"] = {**pods, "metadata": metadata, "spec": pod_spec}
    return {**role, "template": {**job, "spec": spec}}


def _nodes(role: _Value, trainer: _Value, runtime: Mapping[str, Any], *, trains: bool) -> Any:
    """Return the number of pods of a role that trains. With MPI the launcher is one pod beside the nodes."""
    policy = _map(runtime, "spec", "mlPolicy")
    number = trainer.get("numNodes") or policy.get("numNodes") or 1
    if "mpi" not in policy:
        return number if trains else 1
    if role.get("name") != _NODE:
        return 1
    launcher = _map(policy, "mpi").get("runLauncherAsNode") is True
    return max(number - 1, 1) if launcher and isinstance(number, int) else number


def _patches(role: Any, trainjob: Mapping[str, Any]) -> list[_Value]:
    """Return the patches of the pod template of a role, in the present and the former field."""
    spec = _map(trainjob, "spec")
    patches = []
    for patch in _maps(spec.get("runtimePatches")):
        roles = _maps(_map(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs"))
        patches += [
            _map(patched, "template", "spec", "template") for patched in roles if patched.get("name") == role
        ]
    for patch in _maps(spec.get("podTemplateOverrides")):
        if any(job.get("name") == role for job in _maps(patch.get("targetJobs"))):
            patches.append(patch)
    return patches


def _maps(value: Any) -> list[_Value]:
    """Return the mappings in a list; empty for other types."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _map(value: Any, *path: str) -> _Value:
    """Return the mapping at a path; empty if there is none."""
    value = value_at(value, *path)
    return value if isinstance(value, dict) else {}
