"""The causes that keep a deleted object, as the API server and the controllers write it."""

import pytest
from tests.support.rollout.objects import Document, pod, running

from podium.ops.deletion import remaining

_LEFT = "Some resources are remaining: configmaps. has 1 resource instances"
_HELD = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
_DISCOVERY = (
    "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
    "metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1"
)
_ENDING = {"deletionTimestamp": "2026-11-26T09:00:00Z"}


def _true(kind: str, message: str, status: str = "True") -> Document:
    return {"type": kind, "status": status, "message": message}


@pytest.mark.parametrize(
    ("metadata", "conditions", "pods", "want"),
    [
        pytest.param({}, [], [], "", id="nothing"),
        pytest.param({"finalizers": ["example.com/a"]}, [], [], "finalizers example.com/a", id="a finalizer"),
        pytest.param(
            {},
            [
                _true("NamespaceDeletionDiscoveryFailure", "All resources successfully discovered", "False"),
                _true("NamespaceContentRemaining", _LEFT),
                _true("NamespaceFinalizersRemaining", _HELD),
            ],
            [],
            f"{_LEFT}; {_HELD}",
            id="a namespace with content",
        ),
        pytest.param(
            {},
            [_true("NamespaceDeletionDiscoveryFailure", _DISCOVERY)],
            [],
            _DISCOVERY,
            id="a namespace, and an API service that does not answer",
        ),
        pytest.param(
            {"finalizers": ["customresourcecleanup.apiextensions.k8s.io"]},
            [
                _true("Established", "the initial names have been accepted"),
                _true("Terminating", "could not list instances: etcd is down"),
            ],
            [],
            "finalizers customresourcecleanup.apiextensions.k8s.io; could not list instances: etcd is down",
            id="a definition whose objects cannot be deleted",
        ),
        pytest.param(
            {"finalizers": ["foregroundDeletion"]},
            [],
            [pod(running(), name="a", **_ENDING), pod(running(), name="b")],
            "finalizers foregroundDeletion; pods that have not ended: a on node node-1",
            id="a Deployment with a pod on a lost node",
        ),
    ],
)
def test_the_reasons_that_keep_a_deleted_object(
    metadata: Document, conditions: list[Document], pods: list[Document], want: str
) -> None:
    assert remaining({"metadata": metadata, "status": {"conditions": conditions}}, pods) == want
