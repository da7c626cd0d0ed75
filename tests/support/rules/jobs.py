"""New Jobs with spec.scheduling, or with annotations that name a template, and the errors of servers.

The servers have the gate WorkloadWithJob on. Without it they drop spec.scheduling.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.rules.invalid import template

_GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
_BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
_ALL: dict[str, Any] = {"disruptionMode": {"all": {}}}
_WORKLOAD, _TEMPLATE = "scheduling.k8s.io/workload-name", "scheduling.k8s.io/group-template-name"
_POLICY = "spec.scheduling.schedulingPolicy"
_WHOLE = (
    'spec.scheduling.disruptionMode: Invalid value: "": the disruptionMode `all` is not supported with the '
    "Basic scheduling policy"
)
_GROUP = "spec.scheduling: Invalid value: must not be set together with template.spec.schedulingGroup"


def _beside(annotation: str) -> str:
    return f"spec.scheduling: Invalid value: must not be set together with the {annotation} annotation"


def _alone(annotation: str) -> str:
    path = f"metadata.annotations[{annotation}]"
    detail = f"must be set to a non-empty value when {_WORKLOAD} or {_TEMPLATE} is set"
    return f"{path}: Required value: {detail}"


@dataclass(frozen=True)
class NewJob:
    """A Job's spec.scheduling, its other ways to a group, and the errors of 1.37 and those of 1.38 only."""

    scheduling: dict[str, Any] | None
    errors: tuple[str, ...] = ()
    from_1_38: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    group: str = ""

    def errors_of(self, minor: int) -> tuple[str, ...]:
        """Return the errors of a server of a minor; a declared error of both minors comes last."""
        return (*self.from_1_38, *self.errors) if minor >= 38 else self.errors

    def document(self, namespace: str, kind: str = "Job") -> dict[str, Any]:
        """Return the Job, or a CronJob of such Jobs."""
        group = {"schedulingGroup": {"podGroupName": self.group}} if self.group else {}
        spec: dict[str, Any] = {"parallelism": 4, "template": template(restartPolicy="Never", **group)}
        if self.scheduling is not None:
            spec["scheduling"] = self.scheduling
        metadata: dict[str, Any] = {"annotations": self.annotations} if self.annotations else {}
        named = {"name": "x", "namespace": namespace}
        head = {"apiVersion": "batch/v1", "kind": kind}
        if kind == "Job":
            return {**head, "metadata": {**metadata, **named}, "spec": spec}
        jobs = {"schedule": "0 0 * * *", "jobTemplate": {"metadata": metadata, "spec": spec}}
        return {**head, "metadata": named, "spec": jobs}


JOBS: dict[str, NewJob] = {
    "no scheduling": NewJob(None),
    "an empty one": NewJob({}),
    "a gang": NewJob(_GANG),
    "a gang of all pods": NewJob({"schedulingPolicy": {"gang": {}}}),
    "a gang of mode all": NewJob({**_GANG, **_ALL}),
    "basic": NewJob({**_BASIC, "disruptionMode": {"single": {}}}),
    "a topology": NewJob({"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}}),
    "claims": NewJob({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu-1"}]}),
    "a gang of more pods than run": NewJob(
        {"schedulingPolicy": {"gang": {"minCount": 5}}},
        (f"{_POLICY}.gang.minCount: Invalid value: 5: must not be greater than parallelism (4)",),
    ),
    "a gang of none": NewJob(
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        (f"{_POLICY}.gang.minCount: Invalid value: 0: must be greater than or equal to 1",),
    ),
    "neither policy": NewJob(
        {"schedulingPolicy": {}}, (f'{_POLICY}: Invalid value: "": must specify one of: `basic`, `gang`',)
    ),
    "both policies": NewJob(
        {"schedulingPolicy": {"basic": {}, "gang": {}}},
        (f'{_POLICY}: Invalid value: "{{basic, gang}}": must specify exactly one of: `basic`, `gang`',),
    ),
    "basic of mode all": NewJob({**_BASIC, **_ALL}, (_WHOLE,)),
    "mode all without a policy": NewJob(_ALL, (_WHOLE,)),
    "neither mode": NewJob(
        {**_GANG, "disruptionMode": {}},
        ('spec.scheduling.disruptionMode: Invalid value: "": must specify one of: `single`, `all`',),
    ),
    "two topologies": NewJob(
        {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        ("spec.scheduling.schedulingConstraints.topology: Too many: 2: must have at most 1 item",),
    ),
    "a claim without a name": NewJob(
        {"resourceClaims": [{"resourceClaimName": "gpu-1"}]},
        ("spec.scheduling.resourceClaims[0].name: Required value",),
    ),
    "a gang beside a group": NewJob(_GANG, (), (_GROUP,), group="train"),
    "a group": NewJob(None, group="train"),
    "a gang beside a template": NewJob(
        _GANG, (), (_beside(_WORKLOAD),), {_WORKLOAD: "train", _TEMPLATE: "workers"}
    ),
    "a gang beside half a template": NewJob(
        _GANG, (), (_beside(_TEMPLATE), _alone(_WORKLOAD)), {_TEMPLATE: "workers"}
    ),
    "a template": NewJob(None, annotations={_WORKLOAD: "train", _TEMPLATE: "workers"}),
    "a template without its Workload": NewJob(None, (), (_alone(_WORKLOAD),), {_TEMPLATE: "workers"}),
    "a Workload without a template": NewJob(None, (), (_alone(_TEMPLATE),), {_WORKLOAD: "train"}),
    "empty names": NewJob(None, (), (_alone(_WORKLOAD), _alone(_TEMPLATE)), {_WORKLOAD: "", _TEMPLATE: ""}),
    "several errors": NewJob(
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        (f"{_POLICY}.gang.minCount: Invalid value: 0: must be greater than or equal to 1",),
        (_GROUP, _beside(_WORKLOAD)),
        {_WORKLOAD: "train", _TEMPLATE: "workers"},
        "train",
    ),
}
