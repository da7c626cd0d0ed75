"""The state of a Deployment's rollout as a function of its objects: what it lacks, and the causes.

`podium doctor` quotes the reasons and messages that the kubelet, the schedulers and the controllers write
into statuses and Events.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from podium.api.core import POD_SCHEDULED
from podium.text import count, cut, one_line

Document = dict[str, Any]

# Maximum length of a quoted message in bytes.
_LONGEST = 500
# The reasons of a waiting container that starts normally (pkg/kubelet/kubelet_pods.go).
_NORMAL = ("", "ContainerCreating", "PodInitializing")
_CRASH_LOOP = "CrashLoopBackOff"
# The kubelet retries neither with success (pkg/kubelet/images/types.go).
_NO_IMAGE = ("InvalidImageName", "ErrImageNeverPull")
_PULL = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
# A container may exit twice while it starts, for example before its network works.
_CRASHES = 3
# The Deployment controller's annotation on ReplicaSets: the number of the revision.
_REVISION = "deployment.kubernetes.io/revision"


class CauseKind(StrEnum):
    """The kind of a cause that keeps a rollout from its end."""

    PAUSED = "paused"
    REFUSED = "refused"
    UNSCHEDULED = "unscheduled"
    NO_IMAGE = "no image"
    PULL = "pull"
    CONTAINER = "container"
    CRASHED = "crashed"
    STARTING = "starting"
    NOT_READY = "not ready"
    FAILED = "failed"


# The kinds that only a person mends come first, then those that other programs may mend for a while.
_ORDER = (
    *(CauseKind.PAUSED, CauseKind.NO_IMAGE, CauseKind.CRASHED),
    *(CauseKind.REFUSED, CauseKind.CONTAINER, CauseKind.PULL),
)


class ContainerLog(NamedTuple):
    """The log of a container, or of its instance before the running one."""

    pod: str
    container: str
    previous: bool = False

    def __str__(self) -> str:
        return f"{self.pod} -c {self.container}{' --previous' if self.previous else ''}"


class Cause(NamedTuple):
    """A cause: the object in words, and the reason and message in that object's status or Events.

    `log` is the log that may explain it, or None if the container has not run.
    """

    kind: CauseKind
    object: str
    reason: str
    message: str = ""
    log: ContainerLog | None = None

    def __str__(self) -> str:
        message = f": {cut(one_line(self.message), _LONGEST)}" if self.message else ""
        return f"{self.object}: {self.reason}{message}"


class Rollout(NamedTuple):
    """The part that a rollout lacks, in words (empty if complete), and why, the most lasting cause first."""

    lacks: str
    causes: Sequence[Cause]

    @property
    def why(self) -> str:
        """Return the first cause in words with the number of the others; empty if none is known."""
        if not self.causes:
            return ""
        more = len(self.causes) - 1
        return f"{self.causes[0]} (and {count(more, 'other cause')})" if more else str(self.causes[0])


def rollout(
    deployment: Document,
    replica_sets: Iterable[Document],
    pods: Iterable[Document],
    events: Sequence[Document],
) -> Rollout:
    """Return the state of a rollout; the objects may include those of other Deployments.

    Only the newest ReplicaSet and its pods count, because older ones are to be replaced.
    """
    lacks = lacking(deployment)
    # Until the controller has read the spec, the newest ReplicaSet and its pods are those of an older one.
    if not lacks or _is_stale(deployment):
        return Rollout(lacks, ())
    newest = _newest(deployment, replica_sets)
    causes = [*_deployment_causes(deployment)]
    if newest is not None:
        causes += _replica_set_causes(newest, events)
        ours = [pod for pod in pods if _owner(pod) == newest["metadata"]["uid"]]
        causes += [cause for pod in ours if not _ending(pod) for cause in _pod_causes(pod, events)]
    elif not causes:
        causes += _refusals(deployment, f"Deployment {deployment['metadata']['name']}")
    causes.sort(key=lambda item: (*_ORDER, item.kind).index(item.kind))
    return Rollout(lacks, causes or [*_overdue(deployment)])


def lacking(deployment: Document) -> str:
    """Return what a Deployment lacks to run its spec, as `kubectl rollout status` does; empty if nothing."""
    status = deployment.get("status") or {}
    replicas = deployment["spec"].get("replicas", 1)
    if _is_stale(deployment):
        return "was not processed by its controller yet"
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < replicas:
        return f"has {updated} of {replicas} new pods"
    if status.get("replicas", 0) > updated:
        return f"has {status['replicas'] - updated} old pods left"
    return "" if available >= replicas else f"has {available} of {replicas} pods available"


def _is_stale(deployment: Document) -> bool:
    observed = (deployment.get("status") or {}).get("observedGeneration", 0)
    return bool(observed < deployment["metadata"].get("generation", 0))


def _newest(deployment: Document, replica_sets: Iterable[Document]) -> Document | None:
    """Return the ReplicaSet of the highest revision; the controller renumbers the one it rolls back to."""
    owned = [
        replica_set
        for replica_set in replica_sets
        if _owner(replica_set) == deployment["metadata"].get("uid")
    ]
    return max(owned, key=_revision, default=None)


def _revision(replica_set: Document) -> int:
    text = str((replica_set["metadata"].get("annotations") or {}).get(_REVISION, ""))
    return int(text) if text.isdecimal() else 0


def _owner(document: Document) -> str | None:
    owners = document["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), None)


def _ending(pod: Document) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _deployment_causes(deployment: Document) -> Iterator[Cause]:
    name = f"Deployment {deployment['metadata']['name']}"
    if deployment["spec"].get("paused"):
        yield Cause(CauseKind.PAUSED, name, "paused", "kubectl rollout resume lets it continue")
    for condition in conditions(deployment, "Progressing", "False"):
        if condition.get("reason") == "ReplicaSetCreateError":
            yield Cause(CauseKind.REFUSED, name, condition["reason"], condition.get("message", ""))


def _overdue(deployment: Document) -> Iterator[Cause]:
    """Yield the controller's own judgement, for a rollout without another cause."""
    for condition in conditions(deployment, "Progressing", "False"):
        name = f"Deployment {deployment['metadata']['name']}"
        yield Cause(CauseKind.STARTING, name, condition.get("reason", ""), condition.get("message", ""))


def _replica_set_causes(replica_set: Document, events: Sequence[Document]) -> Iterator[Cause]:
    """Yield why pods are not created. The condition keeps its first message, an Event has the latest."""
    name = f"ReplicaSet {replica_set['metadata']['name']}"
    for cause in _refusals(replica_set, name):
        event = _latest(events, replica_set, cause.reason)
        yield cause._replace(message=event["message"]) if event else cause


def _refusals(document: Document, name: str) -> Iterator[Cause]:
    for condition in conditions(document, "ReplicaFailure", "True"):
        yield Cause(CauseKind.REFUSED, name, condition.get("reason", ""), condition.get("message", ""))


def _pod_causes(pod: Document, events: Sequence[Document]) -> Iterator[Cause]:
    """Yield why a pod is not ready; nothing if it is."""
    status, name = pod.get("status") or {}, f"Pod {pod['metadata']['name']}"
    if status.get("phase") == "Failed":
        yield Cause(CauseKind.FAILED, name, status.get("reason", "Failed"), status.get("message", ""))
        return
    if any(conditions(pod, "Ready", "True")):
        return
    for condition in conditions(pod, POD_SCHEDULED, "False"):
        yield Cause(CauseKind.UNSCHEDULED, name, condition.get("reason", ""), condition.get("message", ""))
    explained = False
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for cause in _container_causes(name, pod["metadata"]["name"], container):
            explained = True
            yield cause
    if not explained:
        yield from _quiet_causes(name, pod, _latest(events, pod))


def _container_causes(name: str, pod: str, container: Document) -> Iterator[Cause]:
    """Yield why a container does not run, or crashes."""
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if container.get("ready") or _completed(state):
        return
    if reason in _NO_IMAGE:
        yield Cause(CauseKind.NO_IMAGE, name, reason, message)
    elif reason in _PULL:
        yield Cause(CauseKind.PULL, name, reason, message)
    elif container.get("restartCount", 0) or reason == _CRASH_LOOP or "terminated" in state:
        yield _crash(name, pod, container)
    elif reason not in _NORMAL:
        yield Cause(CauseKind.CONTAINER, name, reason, message)


def _completed(state: Document) -> bool:
    """Return whether an init container has done its work."""
    return (state.get("terminated") or {}).get("exitCode") == 0 and "running" not in state


def _crash(name: str, pod: str, container: Document) -> Cause:
    """Return the cause of a container that exited. The count of restarts excludes the last exit."""
    state = container.get("state") or {}
    running = "running" in state
    crashes = container.get("restartCount", 0) + (not running)
    last = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    code = last.get("exitCode", "unknown")
    parts = [f"container {container['name']} exited {count(crashes, 'time')}, last with code {code}"]
    parts += [last["reason"]] if last.get("reason", "Error") != "Error" else []
    parts += [last["message"]] if last.get("message") else []
    kind = CauseKind.CRASHED if crashes >= _CRASHES and not running else CauseKind.STARTING
    reason = (state.get("waiting") or {}).get("reason") or ("Restarted" if running else "Exited")
    return Cause(kind, name, reason, ": ".join(parts), ContainerLog(pod, container["name"], running))


def _quiet_causes(name: str, pod: Document, event: Document | None) -> Iterator[Cause]:
    """Yield why a pod is not ready whose containers report no reason: its last warning tells it."""
    states = {
        container["name"]: container for container in (pod.get("status") or {}).get("containerStatuses") or ()
    }
    running = [key for key, container in states.items() if "running" in (container.get("state") or {})]
    unready = [key for key in running if not states[key].get("ready")]
    reason, message = (event.get("reason", ""), event.get("message", "")) if event else ("", "")
    if unready:
        log = ContainerLog(pod["metadata"]["name"], unready[0])
        yield Cause(CauseKind.NOT_READY, name, reason or "running, not ready", message, log)
    elif reason:
        yield Cause(CauseKind.STARTING, name, reason, message)


def conditions(document: Document, kind: str, status: str) -> Iterator[Document]:
    """Yield the condition of a type, if it has this status."""
    for condition in (document.get("status") or {}).get("conditions") or ():
        if (condition["type"], condition["status"]) == (kind, status):
            yield condition


def _latest(events: Iterable[Document], document: Document, reason: str = "") -> Document | None:
    """Return the last warning about an object, of a reason if one is given."""
    uid = document["metadata"].get("uid")
    about = [
        event
        for event in events
        if event.get("type") == "Warning"
        and uid is not None
        and (event.get("involvedObject") or {}).get("uid") == uid
        and reason in ("", event.get("reason"))
    ]
    return max(about, key=_time, default=None)


def _time(event: Document) -> str:
    """Return when an Event last happened, in the format of the API, which sorts by time."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), ""))
