"""The commands in fixes."""

import pytest

from podium.api.findings import ObjectRef
from podium.rules.commands import delete


@pytest.mark.parametrize(
    ("ref", "command"),
    [
        (
            ObjectRef("scheduling.k8s.io/v1beta1", "PodGroup", "team", "g"),
            "kubectl delete podgroup.scheduling.k8s.io g -n team --wait=false",
        ),
        (ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", "c"), "kubectl delete priorityclass c"),
    ],
    ids=["a group, which its finalizer keeps until its pods are gone", "a class"],
)
def test_delete_returns_at_once(ref: ObjectRef, command: str) -> None:
    """The command succeeds, so a user reaches the next step of the fix, which deletes the pods."""
    assert delete(ref) == command
