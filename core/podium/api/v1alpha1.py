"""Reads of scheduling v1alpha1: the Workload of Kubernetes 1.35, before PodGroup was a kind of its own.

A pod names one of its groups in spec.workloadRef. Later versions serve neither the object nor the field.
"""

from typing import Any

import msgspec

from podium.api.groups import NATIVE_GROUP, Template, Workload
from podium.api.v1alpha2 import ControllerRef, GroupingObject, SchedulingPolicy, min_count, reference

API_VERSION = f"{NATIVE_GROUP}/v1alpha1"


class GroupV1Alpha1(msgspec.Struct, gc=False):
    """A group of pods in a Workload."""

    name: str | None = None
    policy: SchedulingPolicy | None = None


class WorkloadSpecV1Alpha1(msgspec.Struct, gc=False):
    """spec of a Workload."""

    controllerRef: ControllerRef | None = None
    podGroups: list[GroupV1Alpha1] | None = None


class WorkloadV1Alpha1(GroupingObject, gc=False):
    """A Workload; it has no status and no priority."""

    spec: WorkloadSpecV1Alpha1 = msgspec.field(default_factory=WorkloadSpecV1Alpha1)


def neutral_workload(workload: WorkloadV1Alpha1) -> Workload:
    """Return a v1alpha1 Workload in neutral form."""
    templates = {
        f"spec.podGroups[{index}]": Template(
            name=group.name or "",
            min_count=min_count(group.policy),
            disruption_mode=None,
            priority_class_name="",
            priority=None,
            preemption_policy=None,
        )
        for index, group in enumerate(workload.spec.podGroups or ())
    }
    ref = reference(workload.apiVersion, workload.kind, workload.metadata)
    return Workload(ref=ref, metadata=workload.metadata, templates=templates)


def renamed(document: dict[str, Any], api_version: str) -> dict[str, Any]:
    """Return a Workload that its read can decode with the names of v1alpha2; the input is not changed."""
    if document.get("spec") is None:
        return {**document, "apiVersion": api_version}
    spec = dict(document["spec"])
    groups = spec.pop("podGroups", None)
    if groups is not None:
        names = {"policy": "schedulingPolicy"}
        spec["podGroupTemplates"] = [
            {names.get(field, field): value for field, value in group.items()} for group in groups
        ]
    return {**document, "apiVersion": api_version, "spec": spec}
