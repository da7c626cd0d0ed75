"""The JobSets that kubeflow/trainer would create for the TrainJobs of a file, from the runtimes in the file.

A TrainJob has no pod template. Its runtime (TrainingRuntime or ClusterTrainingRuntime) is a JobSet, in which
the TrainJob sets the number of nodes, the resources of each node, and patches of the pods. Runtimes create
nothing. Steps that load data or a model are left out: one pod each, which ends before the training begins.

Source: pkg/runtime of kubeflow/trainer (the jobset and mpi plugins).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from podium.documents.document import Document
from podium.groups.inferred import TRAINJOB_STEP

_TRAINER = "trainer.kubeflow.org/v1alpha1"
_JOBSET = "jobset.x-k8s.io/v1alpha2"
_CLUSTER, _NAMESPACED = "ClusterTrainingRuntime", "TrainingRuntime"
# The name of a role, and of the container in it, that spec.trainer changes.
_NODE = "node"
# Patches of containers change no request.
_CONTAINERS = ("containers", "initContainers")

_Value = dict[str, Any]


def with_jobsets(documents: Iterable[Document]) -> list[Document]:
    """Return documents without runtimes, and with a JobSet in place of each TrainJob of one of them."""
    listed = list(documents)
    runtimes = {
        _identity(each.kind, _map(each.value(), "metadata")): each.value()
        for each in listed
        if _is(each, _CLUSTER, _NAMESPACED)
    }
    found = []
    for document in listed:
        if _is(document, _CLUSTER, _NAMESPACED):
            continue
        runtime = runtimes.get(_runtime_of(document.value())) if _is(document, "TrainJob") else None
        found.append(document if runtime is None else _jobset(document, runtime))
    return found


def _is(document: Document, *kinds: str) -> bool:
    return document.apiVersion == _TRAINER and document.kind in kinds


def _identity(kind: str, metadata: Mapping[str, Any]) -> tuple[str, str, str]:
    namespace = "" if kind == _CLUSTER else metadata.get("namespace") or "default"
    return kind, str(namespace), str(metadata.get("name") or "")


def _runtime_of(trainjob: _Value) -> tuple[str, str, str]:
    ref = _map(trainjob, "spec", "runtimeRef")
    named = {**_map(trainjob, "metadata"), "name": ref.get("name")}
    return _identity(str(ref.get("kind") or _CLUSTER), named)


def _jobset(document: Document, runtime: _Value) -> Document:
    """Return the JobSet of a TrainJob, which has its name and labels."""
    trainjob = document.value()
    spec = {**_map(runtime, "spec", "template", "spec")}
    roles = _maps(spec.get("replicatedJobs"))
    first = [each.get("name") for each in roles if _step(each).endswith("-initializer")]
    rest = [each for each in roles if each.get("name") not in first]
    spec["replicatedJobs"] = [_role(_after(each, first), trainjob, runtime) for each in rest]
    if (suspend := _map(trainjob, "spec").get("suspend")) is not None:
        spec["suspend"] = suspend
    meta = _map(trainjob, "metadata")
    value = {"apiVersion": _JOBSET, "kind": "JobSet", "metadata": meta, "spec": spec}
    return msgspec.structs.replace(document, apiVersion=_JOBSET, kind="JobSet", body=value, inherits=False)


def _step(role: _Value) -> str:
    return str(_map(role, "template", "metadata", "labels").get(TRAINJOB_STEP, ""))


def _after(role: _Value, ended: list[Any]) -> _Value:
    """Return a role that no longer waits for roles that have ended."""
    waits = [each for each in _maps(role.get("dependsOn")) if each.get("name") not in ended]
    return {**role, "dependsOn": waits}


def _role(role: _Value, trainjob: _Value, runtime: _Value) -> _Value:
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
                {**each, "resources": resources} if each.get("name") == _NODE else each
                for each in _maps(pod_spec.get("containers"))
            ]
    if "volcano" in _map(runtime, "spec", "podGroupPolicy"):
        pod_spec.setdefault("schedulerName", "volcano")
    for patch in _patches(role.get("name"), trainjob):
        pod_spec |= {key: each for key, each in _map(patch, "spec").items() if key not in _CONTAINERS}
    spec["template"] = {**pods, "spec": pod_spec}
    return {**role, "template": {**job, "spec": spec}}


def _nodes(role: _Value, trainer: _Value, runtime: _Value, *, trains: bool) -> Any:
    """Return the number of pods of a role that trains. With MPI the launcher is one pod beside the nodes."""
    policy = _map(runtime, "spec", "mlPolicy")
    number = trainer.get("numNodes") or policy.get("numNodes") or 1
    if "mpi" not in policy:
        return number if trains else 1
    if role.get("name") != _NODE:
        return 1
    launcher = _map(policy, "mpi").get("runLauncherAsNode") is True
    return max(number - 1, 1) if launcher and isinstance(number, int) else number


def _patches(role: Any, trainjob: _Value) -> list[_Value]:
    """Return the patches of the pod template of a role, in the present and the former field."""
    spec = _map(trainjob, "spec")
    found = []
    for patch in _maps(spec.get("runtimePatches")):
        roles = _maps(_map(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs"))
        found += [_map(each, "template", "spec", "template") for each in roles if each.get("name") == role]
    for patch in _maps(spec.get("podTemplateOverrides")):
        if any(each.get("name") == role for each in _maps(patch.get("targetJobs"))):
            found.append(patch)
    return found


def _maps(value: Any) -> list[_Value]:
    """Return the mappings in a list; empty for other types."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _map(value: Any, *path: str) -> _Value:
    """Return the mapping at a path; empty if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
