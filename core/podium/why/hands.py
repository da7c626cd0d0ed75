"""The actors that can end a pod, in words, and what to do about each.

From outside they look alike (the pod is gone), but each needs a different response.
"""

from collections.abc import Mapping

from podium.why.account import By

# `it` is the pod or group; {scheduler} is the name of the scheduler.
WORDS: Mapping[By, str] = {
    By.PODIUM: "Podium's scheduler preempted it",
    By.PODIUM_OBSERVED: "Podium's scheduler would have preempted it",
    By.KUBE_SCHEDULER: "kube-scheduler preempted it",
    By.SCHEDULER: "{scheduler} preempted it",
    By.EVICTION_API: "it was evicted through the eviction API",
    By.KUBELET_PRESSURE: "the kubelet evicted it, for its node was short of something",
    By.KUBELET_CRITICAL: "the kubelet preempted it for a critical pod",
    By.KUBELET_SHUTDOWN: "the kubelet ended it, for its node was shut down",
    By.KUBELET: "the kubelet ended it",
    By.TAINT_MANAGER: "the taint manager deleted it",
    By.POD_GC: "the garbage collector of pods deleted it",
    By.OTHER: "it was disrupted",
    By.DELETED: "it was deleted; its grace period ends",
}
_AGAIN = "its controller, if it has one, makes another, which waits its turn"
_SHIELD = "podium whatif --victim says which priority takes it"
FIXES: Mapping[By, str] = {
    By.PODIUM: f"{_AGAIN}; a higher class or a preemption toleration protects it: {_SHIELD}",
    By.PODIUM_OBSERVED: "nothing was deleted: the scheduler runs with preemption: observe",
    By.KUBE_SCHEDULER: f"{_AGAIN}; a higher class protects it: {_SHIELD}",
    By.SCHEDULER: f"{_AGAIN}; a higher class protects it: {_SHIELD}",
    By.EVICTION_API: (
        "somebody asked for it (kubectl drain, an autoscaler, a descheduler): the API server's audit log "
        "has who, and a PodDisruptionBudget limits how many at a time"
    ),
    By.KUBELET_PRESSURE: (
        "its node ran out of memory, disk or PIDs: request what the pod uses; who uses more than requested "
        "goes before priority is looked at"
    ),
    By.KUBELET_CRITICAL: (
        "a static or critical system pod needed its room on that node: reserve more for the system there"
    ),
    By.KUBELET_SHUTDOWN: "nothing of the pod was at fault: see who shut the node down",
    By.KUBELET: "kubectl describe pod, and the events of its node, say more",
    By.TAINT_MANAGER: (
        "its node has a NoExecute taint that it does not tolerate, or not any longer (not ready, "
        "unreachable, set by hand): see the node"
    ),
    By.POD_GC: "its node does not exist any more, or it was left behind there: see the node pool",
    By.OTHER: "whoever set the condition DisruptionTarget knows more",
    By.DELETED: "somebody deleted it, or its controller did: the API server's audit log has who",
}
