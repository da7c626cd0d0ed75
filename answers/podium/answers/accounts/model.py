"""The report of `podium why` on one pod or group as values: the JSON contract.

The terminal output is rendered from the same values.

Field names are those of the JSON output. A sentence is for a person; a word in CamelCase is for programs.
Times are RFC 3339 in UTC, and empty if no source recorded them.
"""

from enum import StrEnum

import msgspec


class RunState(StrEnum):
    """The present state of the pod or group."""

    WAITING = "Waiting"
    # It has a node, and no container of it has started.
    STARTING = "Starting"
    RUNNING = "Running"
    LEAVING = "Leaving"
    FINISHED = "Finished"
    # A group without pods that waits for none, because it has no minCount.
    EMPTY = "Empty"
    # The object does not exist, but events or records still mention it.
    GONE = "Gone"


class By(StrEnum):
    """The actor that removed a pod, or would have removed it."""

    PODIUM = "Podium"
    # Podium planned it under `preemption: observe`, and nothing was deleted.
    PODIUM_OBSERVED = "PodiumObserved"
    # Podium's scheduler tried, and the API server refused the deletion.
    PODIUM_REFUSED = "PodiumRefused"
    KUBE_SCHEDULER = "KubeScheduler"
    # Another scheduler, or a scheduler whose name is unknown.
    SCHEDULER = "Scheduler"
    EVICTION_API = "EvictionAPI"
    KUBELET_PRESSURE = "KubeletNodePressure"
    KUBELET_LIMIT = "KubeletPodLimit"
    KUBELET_CRITICAL = "KubeletCriticalPod"
    KUBELET_SHUTDOWN = "KubeletNodeShutdown"
    # The remaining data does not say which kind of kubelet eviction it was.
    KUBELET = "Kubelet"
    TAINT_MANAGER = "TaintManager"
    POD_GC = "PodGC"
    # The reason of the condition is not one of Kubernetes.
    OTHER = "Other"
    # No disruption: a user or a controller deleted the pod.
    DELETED = "Deleted"


class Of(StrEnum):
    """The relation of the evicted object to the object that the query names."""

    ITSELF = "Itself"
    # A whole group was evicted, including the queried pod or its predecessor.
    GROUP = "Group"
    # An earlier object with the same name.
    EARLIER = "Earlier"
    # Another pod or group with the same controller.
    WORKLOAD = "Workload"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The pod or group that the query names.

    `about` describes it in sentences: its scheduler, node, group and members.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    about: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return kind and name: `Pod team-a/train-0`."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The effective priority: for placement (`placed`: queue and preemption), and as a victim (`victim`).

    `own` is the priority of the pod itself, or of the group. `rule` says why these values are in force,
    `source` where they come from, `problems` what is wrong with them, and `fix` how to correct that.
    """

    placed: int
    victim: int
    own: int
    className: str
    rule: str
    source: str
    problems: tuple[str, ...] = ()
    fix: str = ""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why the pod or group waits; a list starts with the reason to address first."""

    cause: str
    message: str
    since: str = ""
    fix: str


class EvictionPreemptor(msgspec.Struct, frozen=True, kw_only=True):
    """The pod or group for which the eviction was made.

    A preemptor whose name the reader may not know has only a UID. A priority of None is unknown.
    """

    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    priority: int | None = None

    def __str__(self) -> str:
        """Return kind and name, or kind and UID if the name is unknown."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.name else f"{self.kind} {self.uid}"


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """An eviction or deletion of the object or of some of its pods; `words` describe it.

    `saving` is one of podium.api.records.Saving if it was asked to save its work and had the time for that,
    else empty. `told` names the sources of this information.
    """

    time: str
    by: By
    of: Of
    words: str
    scheduler: str = ""
    preemptor: EvictionPreemptor | None = None
    pods: tuple[str, ...]
    node: str = ""
    message: str = ""
    saving: str = ""
    told: tuple[str, ...]
    fix: str


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """A preemption that Podium planned for the object, from its records: counts of victims and no names.

    Of its victims `asked` pods were asked to save their work and `saved` did. It waited `waitedMilliseconds`.
    The accelerator-seconds that victims lost, and that they saved, are `workLost` and `workSaved`.
    """

    time: str
    mode: str
    result: str
    units: int
    pods: int
    message: str = ""
    workLost: int = 0
    workSaved: int = 0
    asked: int = 0
    saved: int = 0
    waitedMilliseconds: int = 0


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `podium whatif`: whether the object would be placed, and at what cost.

    `outcome` has the values of `podium whatif`.
    """

    semantics: str
    outcome: str
    message: str
    units: int
    pods: int
    nodeReasons: tuple[str, ...] = ()


class ExcludedDevices(msgspec.Struct, frozen=True, kw_only=True):
    """The number of devices that one reason keeps from a request."""

    reason: str
    devices: int


class NodeDevices(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of one node for a request: all, those that it can have, and the others by reason."""

    node: str
    devices: int
    free: int
    excluded: tuple[ExcludedDevices, ...] = ()


class RequestDevices(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a claim that finds too few devices, with the sums of its `nodes` nodes.

    `needed` is the number of devices on one node, 0 for all that match. `together` says why free devices do
    not suffice, empty if there are too few. `nearest` are the nodes with the most free devices.
    """

    claim: str
    request: str
    needed: int
    nodes: int
    devices: int
    free: int
    excluded: tuple[ExcludedDevices, ...] = ()
    together: str = ""
    nearest: tuple[NodeDevices, ...] = ()


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report on one pod or group.

    `unknown` lists what could not be read, each with the reason. `settings` names the scheduler's settings
    and their source; empty for kube-scheduler's rules.
    """

    object: Subject
    state: RunState
    summary: str
    since: str
    priority: Counted | None
    waiting: tuple[Wait, ...] = ()
    prospect: Prospect | None = None
    devices: tuple[RequestDevices, ...] = ()
    departures: tuple[Departure, ...] = ()
    gains: tuple[Gain, ...] = ()
    unknown: tuple[str, ...] = ()
    settings: str = ""
