"""The read of v1 Event: a report on an object, kept for about an hour, even if the object is deleted.

When a pod is deleted its conditions are deleted too. Except for Podium's records, a scheduler's event is then
the last report on the pod. Events of events.k8s.io are the same objects and are also read in this version.
"""

import re
from typing import Literal

import msgspec

from podium.api.findings import ObjectRef
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind, Read, Reads, same
from podium.api.records import RECORD_READS

# The reasons of events about an eviction, and their victims; Podium reads no other events.
PREEMPTED, NOT_EVICTED = "Preempted", "CannotEvict"
EVICTIONS = frozenset((PREEMPTED, NOT_EVICTED, "Evicted", "Preempting", "TaintManagerEviction"))
# The text of an event about a pod, and of a record after a pod's name, before the API server's words.
CANNOT_EVICT = "cannot be evicted: the API server refuses its deletion: "
_EVICTED = ("Pod", "PodGroup")

# `Preempted by pod <uid> on node <node>`: the message of an event from kube-scheduler, and from Podium, which
# adds its counts, and the name of a preemptor of the same namespace.
PREEMPTED_BY = re.compile(r"Preempted by (\S+) ([0-9A-Za-z-]+) on node ([^\s,.]+)(?:.*, ([a-z0-9.-]+/\S+)$)?")
# The message of kube-scheduler in the condition DisruptionTarget, with the UID and name that Podium adds.
PREEMPTOR = re.compile(r"a higher priority (\w+) \(UID ([^)\s]+)\)(?:, (\S+/\S+))?")


class Involved(msgspec.Struct, gc=False):
    """The object that an event is about."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class EventSource(msgspec.Struct, gc=False):
    """The reporter of an event, in the field of older clients."""

    component: str | None = None


class EventSeries(msgspec.Struct, gc=False):
    """The repetitions of an event in newer clients."""

    lastObservedTime: str | None = None


class Event(msgspec.Struct, gc=False):
    """core/v1 Event. The client that reported it decides which of the times are set."""

    apiVersion: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    involvedObject: Involved = msgspec.field(default_factory=Involved)
    reason: str | None = None
    message: str | None = None
    source: EventSource | None = None
    reportingComponent: str | None = None
    firstTimestamp: str | None = None
    lastTimestamp: str | None = None
    eventTime: str | None = None
    series: EventSeries | None = None

    @property
    def time(self) -> str:
        """Return the time of the first report (RFC 3339), or an empty text."""
        return self.firstTimestamp or self.eventTime or self.metadata.creationTimestamp or ""

    @property
    def times(self) -> tuple[str, ...]:
        """Return all times of its reports, as written."""
        repeated = self.series.lastObservedTime if self.series is not None else None
        written = (self.firstTimestamp, self.lastTimestamp, self.eventTime, repeated)
        return tuple(filter(None, (self.metadata.creationTimestamp, *written)))

    @property
    def reporter(self) -> str:
        """Return the reporter, such as `kubelet` or a schedulerName, or an empty text."""
        return self.reportingComponent or (self.source.component if self.source is not None else None) or ""

    @property
    def of_eviction(self) -> bool:
        """Return whether it reports that a pod or group was evicted."""
        return self.involvedObject.kind in _EVICTED and self.reason in EVICTIONS


# Not part of READS, because no rule and no plan reads events.
EVENT_READS: Reads = {("v1", "Event"): Read(Kind.EVENT, Event, "events", same)}
PAST_READS: Reads = {**EVENT_READS, **RECORD_READS}


# The draft of an Event as a value: deciding what to report needs no API server (kube/events).


class EventDraft(msgspec.Struct, frozen=True):
    """The draft of an Event: `reason` and `action` in CamelCase.

    `text` is cut to the length limit of an Event. Equal notes have the same `token`, whichever process sends
    them and however often. They become one Event.
    """

    regarding: ObjectRef
    uid: str
    resource_version: str
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    text: str
    token: str
