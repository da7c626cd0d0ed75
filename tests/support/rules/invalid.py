"""Objects that a server refuses for a missing field, a selector or a restart policy, and its messages."""

from typing import Any, NamedTuple

CONTAINERS: list[dict[str, Any]] = [{"name": "a", "image": "b"}]
SELECTOR = {"matchLabels": {"a": "b"}}
_CONTAINERS = "spec.containers: Required value"
_UNSUPPORTED = 'Unsupported value: "Never": supported values: "Always"'
_ENDING = 'spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
_LABELS = "`selector` does not match template `labels`"
_VERSIONS = {"Pod": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}


class Invalid(NamedTuple):
    """A kind, its spec, and the field errors in the order of the server; valid without errors."""

    kind: str
    spec: dict[str, Any] | None
    errors: tuple[str, ...] = ()
    name: str = "x"

    def document(self, namespace: str) -> dict[str, Any]:
        """Return the object."""
        version = _VERSIONS.get(self.kind, "apps/v1")
        metadata = {"name": self.name, "namespace": namespace}
        document = {"apiVersion": version, "kind": self.kind, "metadata": metadata}
        return document if self.spec is None else {**document, "spec": self.spec}

    def message(self) -> str:
        """Return the message of the server's Status, empty if it accepts the object."""
        group = _VERSIONS.get(self.kind, "apps/v1").rpartition("/")[0]
        kind = f"{self.kind}.{group}" if group else self.kind
        listed = self.errors[0] if len(self.errors) == 1 else f"[{', '.join(self.errors)}]"
        return f'{kind} "{self.name}" is invalid: {listed}' if self.errors else ""


def template(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod template with a container."""
    return {"metadata": {"labels": labels or {"a": "b"}}, "spec": {"containers": CONTAINERS, **spec}}


def _selecting(kind: str) -> list[Invalid]:
    absent = () if kind == "DaemonSet" else ("spec.selector: Required value",)
    named = "deployment" if kind == "ReplicaSet" else kind.lower()
    labels = "spec.template.metadata.labels: Invalid value: "
    return [
        Invalid(kind, {"selector": SELECTOR, "template": template()}),
        Invalid(kind, {"template": template()}, (*absent, f'{labels}{{"a":"b"}}: {_LABELS}')),
        Invalid(
            kind,
            {"selector": {}, "template": template()},
            (f"spec.selector: Invalid value: {{}}: empty selector is invalid for {named}",),
        ),
        Invalid(
            kind,
            {"selector": SELECTOR, "template": template({"a": "c"})},
            (f'{labels}{{"a":"c"}}: {_LABELS}',),
        ),
        Invalid(
            kind,
            {"selector": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}, "template": template()},
            (f'{labels}{{"a":"b"}}: {_LABELS}',),
        ),
        Invalid(
            kind,
            {"selector": SELECTOR, "template": template(restartPolicy="Never")},
            (f"spec.template.spec.restartPolicy: {_UNSUPPORTED}",),
        ),
        Invalid(kind, {"selector": SELECTOR}, (f"{labels}null: {_LABELS}", f"spec.template.{_CONTAINERS}")),
        Invalid(kind, None, (*absent, f"{labels}null: {_LABELS}", f"spec.template.{_CONTAINERS}")),
        Invalid(
            kind,
            {"selector": SELECTOR, "template": template()},
            ("metadata.name: Required value: name or generateName is required",),
            "",
        ),
    ]


CASES = [
    Invalid("Pod", {"containers": CONTAINERS}),
    Invalid("Pod", None, (_CONTAINERS,)),
    Invalid("Pod", {"containers": []}, (_CONTAINERS,)),
    Invalid(
        "Pod",
        {"containers": [{}]},
        ("spec.containers[0].name: Required value", "spec.containers[0].image: Required value"),
    ),
    Invalid("Pod", {"containers": [{"name": "a"}]}, ("spec.containers[0].image: Required value",)),
    Invalid(
        "Pod",
        {"containers": CONTAINERS, "initContainers": [{"name": "i"}]},
        ("spec.initContainers[0].image: Required value",),
    ),
    Invalid("Pod", {"containers": CONTAINERS, "volumes": [{}]}, ("spec.volumes[0].name: Required value",)),
    Invalid(
        "Pod",
        {"containers": [{**CONTAINERS[0], "ports": [{"name": "http"}]}]},
        ("spec.containers[0].ports[0].containerPort: Required value",),
    ),
    Invalid(
        "Pod",
        {"containers": CONTAINERS, "schedulingGroup": {}},
        ("spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`",),
    ),
    *(case for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet") for case in _selecting(kind)),
    Invalid("Job", {"template": template(restartPolicy="Never")}),
    Invalid("Job", {"template": template()}, (f"spec.template.{_ENDING}",)),
    Invalid("Job", {"template": template(restartPolicy="Always")}, (f"spec.template.{_ENDING}",)),
    Invalid("Job", {}, (f"spec.template.{_CONTAINERS}", f"spec.template.{_ENDING}")),
    Invalid(
        "CronJob",
        {"jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}},
        ("spec.schedule: Required value",),
    ),
    Invalid(
        "CronJob",
        {"schedule": "0 0 * * *"},
        (f"spec.jobTemplate.spec.template.{_CONTAINERS}", f"spec.jobTemplate.spec.template.{_ENDING}"),
    ),
]
