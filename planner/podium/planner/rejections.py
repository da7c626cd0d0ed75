"""Remembers nodes whose kubelets rejected pods recently, by the pods' requirements.

A kubelet knows facts that no object shows: the health of hardware, NUMA alignment, attach limits. The owner
of a rejected pod creates it again, and by scores alone it would go to the same node forever. So for some
minutes, pods with the same requirements take any other node that fits. The next leader starts without this
memory.
"""

from podium.api.schedulable import Schedulable
from podium.planner.filters.chain import node_constraints
from podium.planner.shapes import Shape

# For so many seconds a node is avoided, and so many rejections are remembered: the oldest make room.
SECONDS = 300
MOST = 4096

# A kubelet without room for a pod fails it with such a reason: OutOfcpu, OutOfmemory, OutOfnvidia.com/gpu.
_NO_ROOM = "OutOf"
# A kubelet's other reasons not to admit a pod (pkg/kubelet of 1.37); it fails no running pod with them.
_NOT_ADMITTED = frozenset(
    (
        "AppArmor",
        "EmptyPodSharedPoolError",
        "InitContainerRestartPolicyForbidden",
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeShutdown",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SupplementalGroupsPolicyNotSupported",
        "SysctlForbidden",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "VolumeAttachmentLimitExceeded",
    )
)


def rejected_for(pod: Schedulable) -> str:
    """Return the reason for which a kubelet rejected a pod, empty for a pod that it did not reject."""
    status = pod.status
    reason = (status.reason if status is not None and status.phase == "Failed" else None) or ""
    return reason if reason.startswith(_NO_ROOM) or reason in _NOT_ADMITTED else ""


class Rejections:
    """The nodes, by name, that pods are to avoid; times are seconds of one clock."""

    def __init__(self) -> None:
        # The end of each avoidance, the earliest first.
        self._until: dict[tuple[int, str], float] = {}
        self._nodes: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def record(self, shape: Shape, node: str, seconds: float) -> None:
        """Record that a kubelet rejected a pod of a shape now."""
        requirements = _requirements_hash(shape)
        self._drop((requirements, node))
        while len(self._until) >= MOST:
            self._drop(next(iter(self._until)))
        self._until[requirements, node] = seconds + SECONDS
        self._nodes.setdefault(requirements, {})[node] = None

    def expire(self, seconds: float) -> None:
        """Forget rejections that have expired."""
        while self._until:
            first, until = next(iter(self._until.items()))
            if until > seconds:
                break
            self._drop(first)

    def nodes(self, shape: Shape) -> tuple[str, ...]:
        """Return the nodes that pods of a shape are to avoid."""
        return tuple(self._nodes.get(_requirements_hash(shape), ())) if self._nodes else ()

    def _drop(self, key: tuple[int, str]) -> None:
        if self._until.pop(key, None) is None:
            return
        requirements, node = key
        del self._nodes[requirements][node]
        if not self._nodes[requirements]:
            del self._nodes[requirements]


def _requirements_hash(shape: Shape) -> int:
    """Return a hash of a pod's requirements: a pod may be a megabyte, and is gone by then."""
    return hash((shape.namespace, shape.requests, *node_constraints(shape)))
