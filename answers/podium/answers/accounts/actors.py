"""The actors that can end a pod, in words, and what to do about each.

From outside they look alike (the pod is gone), but each needs a different response.
"""

from collections.abc import Mapping

from podium.answers.accounts.model import By
from podium.api.schedulable import Schedulable

# `it` is the pod or group; {scheduler} is the name of the scheduler.
WORDS: Mapping[By, str] = {
    By.PODIUM: "Podium's scheduler preempted it",
    By.PODIUM_OBSERVED: "Podium's scheduler would have preempted it",
    By.PODIUM_REFUSED: "Podium's scheduler could not evict it",
    By.KUBE_SCHEDULER: "kube-scheduler preempted it",
    By.SCHEDULER: "{scheduler} preempted it",
    By.EVICTION_API: "it was evicted through the eviction API",
    By.KUBELET_PRESSURE: "the kubelet evicted it because its node ran short of a resource",
    By.KUBELET_LIMIT: "the kubelet evicted it because it used more storage than its limit",
    By.KUBELET_CRITICAL: "the kubelet preempted it for a critical pod",
    By.KUBELET_SHUTDOWN: "the kubelet terminated it because its node shut down",
    By.KUBELET: "the kubelet terminated it",
    By.TAINT_MANAGER: "the taint manager deleted it",
    By.POD_GC: "the pod garbage collector deleted it",
    By.OTHER: "it was disrupted",
    By.DELETED: "it was deleted; its grace period is running",
}
_AGAIN = "its controller, if any, creates a replacement, which waits in the queue"
_PRIORITY_HINT = "podium whatif --victim shows which priority preempts it"
FIXES: Mapping[By, str] = {
    By.PODIUM: f"{_AGAIN}; a higher class or a preemption toleration protects it: {_PRIORITY_HINT}",
    By.PODIUM_OBSERVED: "no pod was deleted: the scheduler runs with `preemption: observe`",
    By.PODIUM_REFUSED: (
        "the scheduler plans without it for a while; if it should go, end what refuses the deletion, "
        "such as an admission policy, a webhook or annotations up to the size limit"
    ),
    By.KUBE_SCHEDULER: f"{_AGAIN}; a higher class protects it: {_PRIORITY_HINT}",
    By.SCHEDULER: f"{_AGAIN}; a higher class protects it: {_PRIORITY_HINT}",
    By.EVICTION_API: (
        "a client requested it (kubectl drain, an autoscaler, a descheduler): the API server's "
        "audit log names the client, and a PodDisruptionBudget limits the number at a time"
    ),
    By.KUBELET_PRESSURE: (
        "its node ran out of memory, disk or PIDs: request what the pod uses. Pods that use more "
        "than they request are evicted first, whatever their priority"
    ),
    By.KUBELET_LIMIT: (
        "it wrote more than its limit of ephemeral storage, or than the sizeLimit of an emptyDir: raise the "
        "limit, or write less. Its priority does not matter"
    ),
    By.KUBELET_CRITICAL: (
        "a static or critical system pod needed its resources on that node: reserve more for "
        "system pods there"
    ),
    By.KUBELET_SHUTDOWN: "the pod is not the cause: check why the node was shut down",
    By.KUBELET: "kubectl describe pod and the events of its node give the reason",
    By.TAINT_MANAGER: (
        "its node has a NoExecute taint that it does not tolerate, or no longer tolerates (not "
        "ready, unreachable, set by hand): check the node"
    ),
    By.POD_GC: "its node no longer exists, or the pod was orphaned on it: check the node pool",
    By.OTHER: "check the component that set the condition DisruptionTarget",
    By.DELETED: "a client or its controller deleted it: the API server's audit log names which",
}
# The next step for a failed pod, by the kind of its controller. A Job's podFailurePolicy is not read.
_AFTER: Mapping[str, str] = {
    "": "no controller replaces it: delete it, and create it again",
    "ReplicaSet": "its ReplicaSet creates another; if none came, delete this one",
    "ReplicationController": "its ReplicationController creates another; if none came, delete this one",
    "StatefulSet": "its StatefulSet deletes it and creates another",
    "DaemonSet": "its DaemonSet deletes it and creates another",
    "Job": "its Job counts a failure, unless its podFailurePolicy ignores it, and creates another up to its "
    "backoffLimit",
    "Node": "it is the mirror of a static pod: check the kubelet of its node",
}


def after_failure(pod: Schedulable) -> str:
    """Return what to do about a failed pod that is still stored; empty for any other pod.

    A ReplicaSet does not count failed pods. A StatefulSet or DaemonSet deletes them.
    """
    if pod.status is None or pod.status.phase != "Failed" or pod.metadata.deletionTimestamp is not None:
        return ""
    controller = pod.metadata.controller()
    kind = controller.kind if controller is not None else ""
    return f"it does not start again: {_AFTER.get(kind, f'delete it, so that its {kind} creates another')}"
