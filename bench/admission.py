"""Typical admission requests for the bench: a gang's PodGroup and one of its pods, created and updated."""

from collections.abc import Callable
from typing import Any

from podium.api.core import PriorityClass
from podium.api.meta import ObjectMeta
from podium.cluster.state import ClusterState
from podium.rules.admission import Operation, Profile, Request, review

COUNT = 5_000
GROUP: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "team-a", "labels": {"app": "train"}},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 8}},
        "disruptionMode": {"all": {}},
        "priorityClassName": "research",
    },
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train-0", "namespace": "team-a", "labels": {"app": "train"}},
    "spec": {
        "priorityClassName": "research",
        "schedulingGroup": {"podGroupName": "train"},
        "containers": [{"name": "worker", "image": "registry.example/train:1"}],
    },
}


def cases() -> list[tuple[str, int, Callable[[], object]]]:
    """Return (what, objects, work) for each kind of request."""
    state = ClusterState(native_served=True)
    state.apply(PriorityClass(metadata=ObjectMeta(name="research"), value=1_000))
    profile = Profile(kubernetes="1.37", rules="podium")

    def creating(document: dict[str, Any]) -> Callable[[], object]:
        request = Request(operation=Operation.CREATE, object=document)
        return lambda: [review(request, state, profile) for _ in range(COUNT)]

    def updating(document: dict[str, Any]) -> Callable[[], object]:
        stored = review(Request(operation=Operation.CREATE, object=document), state, profile).admitted
        assert stored is not None
        request = Request(operation=Operation.UPDATE, object=stored, old=stored)
        return lambda: [review(request, state, profile) for _ in range(COUNT)]

    return [
        ("create a PodGroup", COUNT, creating(GROUP)),
        ("create a member pod", COUNT, creating(POD)),
        ("update a PodGroup", COUNT, updating(GROUP)),
        ("update a member pod", COUNT, updating(POD)),
    ]
