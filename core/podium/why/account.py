"""What `podium why` says of one pod or group, as values: the JSON contract, and what the terminal shows.

The fields are the wire's. A sentence is for a person; a word in CamelCase is for programs. Times are RFC 3339
in UTC, empty where nobody wrote them down.
"""

from enum import StrEnum

import msgspec


class State(StrEnum):
    """What it is at."""

    WAITING = "Waiting"
    RUNNING = "Running"
    LEAVING = "Leaving"
    FINISHED = "Finished"
    # It is not there; something of it is still known.
    GONE = "Gone"


class By(StrEnum):
    """Who made a pod go, or would have."""

    PODIUM = "Podium"
    # Podium planned it under `preemption: observe`, and nothing was deleted.
    PODIUM_OBSERVED = "PodiumObserved"
    KUBE_SCHEDULER = "KubeScheduler"
    # Another scheduler, or one whose name is not known.
    SCHEDULER = "Scheduler"
    EVICTION_API = "EvictionAPI"
    KUBELET_PRESSURE = "KubeletNodePressure"
    KUBELET_CRITICAL = "KubeletCriticalPod"
    KUBELET_SHUTDOWN = "KubeletNodeShutdown"
    # Not told apart by what is left of it.
    KUBELET = "Kubelet"
    TAINT_MANAGER = "TaintManager"
    POD_GC = "PodGC"
    # The condition names a reason that is not Kubernetes' own.
    OTHER = "Other"
    # No disruption at all: somebody, or its controller, deleted it.
    DELETED = "Deleted"


class Of(StrEnum):
    """Whose departure it was, seen from who is asked about."""

    ITSELF = "Itself"
    # A whole group goes at once, the pod that is asked about or an earlier one in its place among it.
    GROUP = "Group"
    # One of the same name before it.
    EARLIER = "Earlier"
    # Another pod or group that the same controller made.
    WORKLOAD = "Workload"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked about; `about` says in sentences what it is: its scheduler, node, group, members."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    about: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Kind and name as a person says them."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The integers that count: when it is `placed` (queue, preemption), and against a preemptor (`victim`).

    `own` is the integer of the pod itself, or of the group. `rule` says why these count, `source` where they
    come from, `problems` what is wrong with them, and `fix` what to do about that.
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
    """One reason why it waits; the first in a list is the one to begin with."""

    cause: str
    message: str
    since: str = ""
    fix: str


class Preemptor(msgspec.Struct, frozen=True, kw_only=True):
    """For whom it had to go. Whose name the reader may not know has a UID only; None is not known."""

    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    priority: int | None = None

    def __str__(self) -> str:
        """Kind and name, or the UID in its place."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.name else f"{self.kind} {self.uid}"


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """How it, or some of its pods, were made to go; `words` say so. `told` names where that is known from."""

    time: str
    by: By
    of: Of
    words: str
    scheduler: str = ""
    preemptor: Preemptor | None = None
    pods: tuple[str, ...]
    node: str = ""
    message: str = ""
    told: tuple[str, ...]
    fix: str


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """A preemption that Podium planned for it, by its records; of whom it took, numbers only."""

    time: str
    mode: str
    result: str
    units: int
    pods: int
    message: str = ""


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """What `podium whatif` answers: would it be placed, and at whose cost; `outcome` as there."""

    semantics: str
    outcome: str
    message: str
    units: int
    pods: int
    nodeReasons: tuple[str, ...] = ()


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is said of one pod or group; `unknown` names what could not be read, each with why.

    `settings` names the scheduler's settings and their source; empty for kube-scheduler's rules.
    """

    object: Subject
    state: State
    summary: str
    since: str
    priority: Counted | None
    waiting: tuple[Wait, ...] = ()
    prospect: Prospect | None = None
    departures: tuple[Departure, ...] = ()
    gains: tuple[Gain, ...] = ()
    unknown: tuple[str, ...] = ()
    settings: str = ""
