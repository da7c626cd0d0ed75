"""The training cluster of examples/: a GPU cluster of 200 nodes with the faults of a year of operation.

Everything here is a value; `take.py` applies it to a real control plane. Stages exist because divergence has
a history: a class is recreated between two stages, a default is added, a class is deleted.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

Manifest = dict[str, Any]
GPU = "nvidia.com/gpu"
TEAMS = ("team-vision", "team-speech", "team-ranking", "inference", "platform")


class Shape(NamedTuple):
    """The differences between the served versions: the apiVersion, and fields of a mode and a template."""

    api_version: str
    single: Any
    together: Any

    def template_ref(self, workload: str, template: str) -> Manifest:
        """Return the spec field that names a group's template."""
        if self.api_version.endswith("v1alpha2"):
            inner = {"workloadName": workload, "podGroupTemplateName": template}
            return {"podGroupTemplateRef": {"workload": inner}}
        return {"workloadRef": {"workloadName": workload, "templateName": template}}


SHAPES = {
    "1.36": Shape("scheduling.k8s.io/v1alpha2", "Pod", "PodGroup"),
    "1.37": Shape("scheduling.k8s.io/v1beta1", {"single": {}}, {"all": {}}),
}


def priority_class(name: str, value: int, **more: Any) -> Manifest:
    """Make a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "annotations": more.pop("annotations", {})},
        "value": value,
        **more,
    }


def pod_spec(
    *, gpus: int = 0, cpu: str = "8", class_name: str = "", group: str = "", **more: Any
) -> Manifest:
    """Make the spec of a training pod; with a group it is a member of it."""
    requests = {"cpu": cpu, "memory": "32Gi"} | ({GPU: str(gpus)} if gpus else {})
    container = {
        "name": "worker",
        "image": "registry.example/train:1",
        "resources": {"requests": requests, "limits": {GPU: str(gpus)} if gpus else {}},
    }
    spec: Manifest = {"containers": [container], "terminationGracePeriodSeconds": 5, **more}
    if class_name:
        spec["priorityClassName"] = class_name
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return spec


def job(namespace: str, name: str, size: int, spec: Manifest, **labels: str) -> Manifest:
    """Make an indexed Job with parallel pods."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name, **labels}},
        "spec": {
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": size,
            "backoffLimit": 4,
            "template": {
                "metadata": {"labels": {"app": name, **labels}},
                "spec": {"restartPolicy": "Never", **spec},
            },
        },
    }


def deployment(namespace: str, name: str, replicas: int, spec: Manifest) -> Manifest:
    """Make a Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def gang(
    shape: Shape, namespace: str, name: str, size: int, class_name: str = "", **spec: Any
) -> list[Manifest]:
    """Make the objects of a controller for a gang: a Workload with one template and the PodGroup from it."""
    policy = {"gang": {"minCount": size}}
    chosen = {"priorityClassName": class_name} if class_name else {}
    mode = {"disruptionMode": shape.together}
    template = {"name": "workers", "schedulingPolicy": policy, **mode, **chosen}
    controller = {"apiGroup": "batch", "kind": "Job", "name": name}
    return [
        {
            "apiVersion": shape.api_version,
            "kind": "Workload",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"controllerRef": controller, "podGroupTemplates": [template]},
        },
        {
            "apiVersion": shape.api_version,
            "kind": "PodGroup",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {
                **shape.template_ref(name, "workers"),
                "schedulingPolicy": policy,
                **mode,
                **chosen,
                **spec,
            },
        },
    ]


def good_gangs(shape: Shape) -> Iterator[Manifest]:
    """Make gangs whose group and members agree: most of a cluster."""
    sizes = {"team-vision": (16, 8, 8, 4), "team-speech": (32, 8, 4), "team-ranking": (24, 16, 8, 4)}
    classes = ("research", "production", "research-low")
    for namespace, counts in sizes.items():
        for index, size in enumerate(counts):
            name, class_name = f"train-{index:02d}", classes[index % len(classes)]
            yield from gang(shape, namespace, name, size, class_name)
            yield job(namespace, name, size, pod_spec(gpus=8, cpu="64", class_name=class_name, group=name))


def services() -> Iterator[Manifest]:
    """Yield the objects without gangs: inference Deployments, a platform agent, and a budget."""
    for index in range(6):
        spec = pod_spec(gpus=1, class_name="production")
        yield deployment("inference", f"model-{index}", 8, spec)
    yield deployment("platform", "dashboard", 2, pod_spec(cpu="1", class_name="production"))
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "inference", "name": "model-0"},
        "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "model-0"}}},
    }


def namespaces() -> list[Manifest]:
    """Make the teams' namespaces."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}} for team in TEAMS]


def clean(shape: Shape) -> list[list[Manifest]]:
    """Return the stages of the cluster without faults."""
    classes = [
        priority_class("research-low", 100),
        priority_class("research", 1_000, globalDefault=True),
        priority_class("production", 10_000),
    ]
    groups = [item for item in good_gangs(shape) if item["kind"] != "Job"]
    jobs = [item for item in good_gangs(shape) if item["kind"] == "Job"]
    return [[*namespaces(), *classes], groups, [*jobs, *services()]]


class Recreate(NamedTuple):
    """A class that is deleted and created again under its name, to change its value."""

    name: str
    value: int


def drifted(shape: Shape) -> list[list[Manifest] | Recreate | str]:
    """Return the stages of the cluster with faults; a string is a class to delete."""
    bad_annotation = {"preemption-toleration.scheduling.x-k8s.io/toleration-seconds": "one hour"}
    classes = [
        priority_class("research-low", 100),
        priority_class("research", 1_000),
        priority_class("production", 10_000),
        priority_class("nightly", 500),
        priority_class("contest", 5_000),
        priority_class("patient", 50, annotations=bad_annotation),
    ]
    groups = [item for item in good_gangs(shape) if item["kind"] != "Job"]
    jobs = [item for item in good_gangs(shape) if item["kind"] == "Job"]
    before_default = [
        # Created without a default class: stored at 0, whatever class is added later.
        *gang(shape, "team-vision", "ablation", 6),
        *gang(shape, "team-speech", "nightly-asr", 8, "nightly"),
        *gang(shape, "team-ranking", "contest-entry", 4, "contest"),
        job(
            "team-speech",
            "nightly-asr",
            4,
            pod_spec(gpus=8, cpu="64", class_name="nightly", group="nightly-asr"),
        ),
        job(
            "team-ranking", "contest-entry", 4, pod_spec(gpus=8, class_name="contest", group="contest-entry")
        ),
    ]
    default = priority_class("standard", 2_000, globalDefault=True)
    later = [
        job("team-vision", "ablation", 6, pod_spec(gpus=8, cpu="64", group="ablation")),
        # The launcher kept the default class; only the workers have the group's.
        *gang(shape, "team-vision", "finetune", 9, "production"),
        job("team-vision", "finetune", 8, pod_spec(gpus=8, class_name="production", group="finetune")),
        job("team-vision", "finetune-launcher", 1, pod_spec(cpu="2", group="finetune")),
        # A second Job of the nightly group, after its class was recreated with another value.
        job("team-speech", "nightly-asr-2", 4, pod_spec(gpus=8, class_name="nightly", group="nightly-asr")),
        # The pods have a class, the group has none.
        *gang(shape, "team-ranking", "retrain", 12),
        job(
            "team-ranking",
            "retrain",
            12,
            pod_spec(gpus=8, cpu="64", class_name="production", group="retrain"),
        ),
        # Two schedulers in one gang.
        *gang(shape, "team-speech", "distill", 4, "research"),
        job("team-speech", "distill", 3, pod_spec(gpus=8, class_name="research", group="distill")),
        job(
            "team-speech",
            "distill-eval",
            1,
            pod_spec(gpus=8, class_name="research", group="distill", schedulerName="batch-scheduler"),
        ),
        # More than the whole cluster has.
        *gang(shape, "team-ranking", "moonshot", 512, "research-low"),
        job("team-ranking", "moonshot", 8, pod_spec(gpus=8, class_name="research-low", group="moonshot")),
        # This group does not exist.
        job("platform", "smoke", 2, pod_spec(cpu="2", class_name="research", group="smoke")),
        # A pod without a budget that no controller would recreate.
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": "team-vision", "name": "debug-shell"},
            "spec": pod_spec(gpus=1, class_name="research-low"),
        },
        # Accepted and inconsistent: members are evicted together, but need not run together.
        {
            "apiVersion": shape.api_version,
            "kind": "PodGroup",
            "metadata": {"namespace": "inference", "name": "shadow"},
            "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": shape.together},
        },
        *services(),
    ]
    return [
        [*namespaces(), *classes],
        groups,
        [*jobs, *before_default],
        Recreate("nightly", 700),
        [default],
        later,
        "contest",
    ]
