"""Defines an entry of the scheduler: a lone pod or a group, its phase, and all state that belongs to it.

Each entry has one record and one phase. `TRANSITIONS` lists every change of a phase that can happen, and
docs/scheduler-reference.md shows the same table as a diagram. A change that is not in the table is a bug.
Tests raise then. In production the entry takes the phase that the event has in all other cases, and the bug
is logged.

An entry exists while its pods wait, or while a bind of its pods is in flight.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, StrEnum
from typing import Final

from podium.schedulerplugin.scheduling.effects import Evict, Key, PodRef, entry_name
from podium.schedulerplugin.scheduling.queueinghints import ChangeCounts


class EntryPhase(StrEnum):
    """The phases of an entry; the first four are the queues of kube-scheduler's metric `pending_pods`."""

    # To be tried, in the order of the queue.
    ACTIVE = "active"
    # To be tried when its backoff has ended.
    BACKOFF = "backoff"
    # Found no place: to be tried when a change may help it.
    UNSCHEDULABLE = "unschedulable"
    # Must not be scheduled as it is, wherever there is room.
    GATED = "gated"
    # Being tried in this step.
    IN_FLIGHT = "in_flight"
    # Its preemption is being carried out.
    PREEMPTING = "preempting"
    # None of its pods waits, and binds of its pods are in flight.
    BINDING = "binding"
    # An attempt ended with an error: the next step looks at its pods again.
    RETRYING = "retrying"
    # No record exists.
    NONE = "none"


class EntryEvent(StrEnum):
    """The events that change the phase of an entry."""

    ADD = "pods wait"
    POP = "first in the order"
    GIVE_BACK = "not tried after all"
    PARK = "no place, or victims terminating"
    GATE = "must not be scheduled"
    BACK_OFF = "backoff not over"
    ACTIVATE = "may be tried now"
    PREEMPT = "victims chosen"
    BIND = "binds in flight, no pod waits"
    FAIL = "error"
    DROP = "no pod waits"


class Incoming(StrEnum):
    """The reasons why an entry came into a phase, named as in kube-scheduler's `queue_incoming_pods_total`.

    CLUSTER_EVENT covers all of kube-scheduler's events that name a kind of change in the cluster.
    """

    ADDED = "UnscheduledPodAdd"
    UPDATED = "UnscheduledPodUpdate"
    FAILED = "ScheduleAttemptFailure"
    BACKED_OFF = "BackoffComplete"
    EARLY = "PopFromBackoffQ"
    FLUSHED = "UnschedulableTimeout"
    ACTIVATED = "ForceActivate"
    CLUSTER_EVENT = "ClusterEvent"


# Each event leads to one phase, wherever it is allowed.
TRANSITIONS: Final[Mapping[tuple[EntryPhase, EntryEvent], EntryPhase]] = {
    (EntryPhase.NONE, EntryEvent.ADD): EntryPhase.ACTIVE,
    (EntryPhase.ACTIVE, EntryEvent.POP): EntryPhase.IN_FLIGHT,
    (EntryPhase.ACTIVE, EntryEvent.GATE): EntryPhase.GATED,
    (EntryPhase.ACTIVE, EntryEvent.BACK_OFF): EntryPhase.BACKOFF,
    # A preemption of an earlier leader is resumed.
    (EntryPhase.ACTIVE, EntryEvent.PREEMPT): EntryPhase.PREEMPTING,
    (EntryPhase.ACTIVE, EntryEvent.DROP): EntryPhase.NONE,
    (EntryPhase.IN_FLIGHT, EntryEvent.GIVE_BACK): EntryPhase.ACTIVE,
    (EntryPhase.IN_FLIGHT, EntryEvent.BACK_OFF): EntryPhase.BACKOFF,
    (EntryPhase.IN_FLIGHT, EntryEvent.PARK): EntryPhase.UNSCHEDULABLE,
    (EntryPhase.IN_FLIGHT, EntryEvent.GATE): EntryPhase.GATED,
    (EntryPhase.IN_FLIGHT, EntryEvent.PREEMPT): EntryPhase.PREEMPTING,
    (EntryPhase.IN_FLIGHT, EntryEvent.BIND): EntryPhase.BINDING,
    (EntryPhase.IN_FLIGHT, EntryEvent.FAIL): EntryPhase.RETRYING,
    (EntryPhase.BACKOFF, EntryEvent.ACTIVATE): EntryPhase.ACTIVE,
    (EntryPhase.BACKOFF, EntryEvent.BACK_OFF): EntryPhase.BACKOFF,
    (EntryPhase.BACKOFF, EntryEvent.GATE): EntryPhase.GATED,
    (EntryPhase.BACKOFF, EntryEvent.DROP): EntryPhase.NONE,
    (EntryPhase.UNSCHEDULABLE, EntryEvent.ACTIVATE): EntryPhase.ACTIVE,
    (EntryPhase.UNSCHEDULABLE, EntryEvent.BACK_OFF): EntryPhase.BACKOFF,
    (EntryPhase.UNSCHEDULABLE, EntryEvent.GATE): EntryPhase.GATED,
    (EntryPhase.UNSCHEDULABLE, EntryEvent.DROP): EntryPhase.NONE,
    (EntryPhase.GATED, EntryEvent.ACTIVATE): EntryPhase.ACTIVE,
    (EntryPhase.GATED, EntryEvent.DROP): EntryPhase.NONE,
    (EntryPhase.PREEMPTING, EntryEvent.PARK): EntryPhase.UNSCHEDULABLE,
    (EntryPhase.PREEMPTING, EntryEvent.ACTIVATE): EntryPhase.ACTIVE,
    (EntryPhase.PREEMPTING, EntryEvent.BACK_OFF): EntryPhase.BACKOFF,
    # More of its pods wait.
    (EntryPhase.BINDING, EntryEvent.ADD): EntryPhase.ACTIVE,
    (EntryPhase.BINDING, EntryEvent.FAIL): EntryPhase.RETRYING,
    (EntryPhase.BINDING, EntryEvent.DROP): EntryPhase.NONE,
    (EntryPhase.RETRYING, EntryEvent.ADD): EntryPhase.ACTIVE,
    (EntryPhase.RETRYING, EntryEvent.DROP): EntryPhase.NONE,
    # Other pods of a group were bound, and its last pods that waited are gone.
    (EntryPhase.ACTIVE, EntryEvent.BIND): EntryPhase.BINDING,
    (EntryPhase.BACKOFF, EntryEvent.BIND): EntryPhase.BINDING,
    (EntryPhase.UNSCHEDULABLE, EntryEvent.BIND): EntryPhase.BINDING,
    (EntryPhase.GATED, EntryEvent.BIND): EntryPhase.BINDING,
    (EntryPhase.RETRYING, EntryEvent.BIND): EntryPhase.BINDING,
}
_TARGETS: Final = {event: phase for (_, event), phase in TRANSITIONS.items()}

# The phases in which an entry is in the queue: some of its pods wait.
QUEUED: Final = frozenset(
    {
        EntryPhase.ACTIVE,
        EntryPhase.BACKOFF,
        EntryPhase.UNSCHEDULABLE,
        EntryPhase.GATED,
        EntryPhase.IN_FLIGHT,
        EntryPhase.PREEMPTING,
    }
)


class TransitionError(Exception):
    """An event happened in a phase in which it is not possible."""


class Preemption:
    """A preemption in flight of one entry."""

    __slots__ = ("changed", "evict", "rules")

    def __init__(self, evict: Evict, rules: int) -> None:
        self.evict = evict
        # The number of rule changes (hints' counter) when it was planned.
        self.rules = rules
        # Whether the entry's pods or group changed since.
        self.changed = False


class Entry:
    """The record of one entry; times are seconds of the steady clock, except `no_room_since`."""

    __slots__ = (
        # Its place in the queue.
        *("first", "key", "last", "phase", "priority", "since", "was_first"),
        # Its attempts.
        *("alone", "attempts", "early", "helped", "seen", "tried"),
        # Its preemptions and binds.
        *("bind_failures", "binding", "preemption", "retry", "unsure"),
        # The reasons that hold it back.
        *("counted", "eviction_failures", "held_back", "hold_failures", "no_room_since"),
        "disputed",
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.phase = EntryPhase.NONE
        # The number of binds in flight, and how many binds failed in a row.
        self.binding = 0
        self.bind_failures = 0
        # How many preemptions in a row were in vain after pods were deleted, and until when there is no
        # other.
        self.eviction_failures: tuple[int, float] | None = None
        # The status of the group's condition that contradicts its pods, as it was reported; or empty.
        self.disputed = ""
        self.enqueue(0, 0.0)
        self.restart()

    def enqueue(self, priority: int, since: float) -> None:
        """Set what an entry has that comes into the queue."""
        self.priority = priority
        self.since = since
        # Tried before all others of its priority, once; `was_first` restores this for an entry given back
        # untried.
        self.first = False
        self.was_first = False
        # Tried after all others of any priority, once.
        self.last = False
        # Whether the current attempt, or the next one, is early.
        self.early = False
        self.attempts = 0
        # When the last attempt ended.
        self.tried = float("-inf")
        # The hints' counters at the start of the current attempt.
        self.seen: ChangeCounts | None = None
        # Whether a change that it waits for happened while it was PREEMPTING.
        self.helped = False

    def restart(self) -> None:
        """Reset what ends when no pod of the entry waits any more."""
        # Tried alone, because a decision about it took too long or failed.
        self.alone = False
        # Whether a bind failed since the last look at its pods.
        self.retry = False
        self.preemption: Preemption | None = None
        # The victims of a failed preemption that may be terminating.
        self.unsure: tuple[PodRef, ...] = ()
        # Since when it has found no room.
        self.no_room_since: datetime | None = None
        # The times from which the units of its last preemption count.
        self.counted: list[float] = []
        # The plan that was held back last, by the UIDs of its victims and the reason.
        self.held_back: tuple[frozenset[str], Enum] | None = None
        # How often in a row its holds of room ran out, and before which time it begins no other.
        self.hold_failures: tuple[int, float] | None = None


def refuse(problem: str) -> None:
    """Raise TransitionError."""
    raise TransitionError(problem)


class Entries(dict[Key, Entry]):
    """The records of all entries, by key; `move` is the only way in and out."""

    def __init__(self, illegal: Callable[[str], None] = refuse) -> None:
        """`illegal` is called with a description of each event that TRANSITIONS does not allow."""
        super().__init__()
        self._illegal = illegal

    def move(self, entry: Entry, event: EntryEvent) -> None:
        """Change the phase of an entry; its record is kept until its phase is NONE."""
        phase = TRANSITIONS.get((entry.phase, event))
        if phase is None:
            self._illegal(f"{entry_name(entry.key)}: {entry.phase} has no transition for {event.name}")
            phase = _TARGETS[event]
        if phase is EntryPhase.NONE:
            self.pop(entry.key, None)
        elif entry.phase is EntryPhase.NONE:
            self[entry.key] = entry
        entry.phase = phase
