"""v1 Event as it is read: what somebody told of an object, for about an hour, while the object may be gone.

Where a pod was deleted its conditions went with it, so a scheduler's event is the last word on it that other
than Podium's records have. Events of events.k8s.io are the same objects and are read in this version, too.
"""

import re

import msgspec

from podium.api.meta import ObjectMeta
from podium.api.reads import Kind, Read, Reads, same
from podium.api.records import RECORD_READS

# Why events tell that somebody was made to go, and whom; nobody here asks for any other event.
PREEMPTED = "Preempted"
EVICTIONS = frozenset((PREEMPTED, "Evicted", "Preempting", "TaintManagerEviction"))
_EVICTED = ("Pod", "PodGroup")

# `Preempted by pod <uid> on node <node>`: kube-scheduler's words in an event, and Podium's.
PREEMPTED_BY = re.compile(r"Preempted by (\S+) ([0-9A-Za-z-]+) on node ([^\s,.]+)")
# kube-scheduler's words in the condition DisruptionTarget, and the UID that Podium adds.
PREEMPTOR = re.compile(r"a higher priority (\w+) \(UID ([^)\s]+)\)")


class Involved(msgspec.Struct, gc=False):
    """The object that an event is about."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class EventSource(msgspec.Struct, gc=False):
    """Who told an event, as older clients say it."""

    component: str | None = None


class Event(msgspec.Struct, gc=False):
    """core/v1 Event. Which of the times is set depends on the client that told it."""

    apiVersion: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    involvedObject: Involved = msgspec.field(default_factory=Involved)
    reason: str | None = None
    message: str | None = None
    source: EventSource | None = None
    reportingComponent: str | None = None
    firstTimestamp: str | None = None
    eventTime: str | None = None

    @property
    def time(self) -> str:
        """When it was first told (RFC 3339), or empty."""
        return self.firstTimestamp or self.eventTime or self.metadata.creationTimestamp or ""

    @property
    def reporter(self) -> str:
        """Who told it, such as `kubelet` or a schedulerName, or empty."""
        return self.reportingComponent or (self.source.component if self.source is not None else None) or ""

    @property
    def of_eviction(self) -> bool:
        """Whether it tells that a pod or group was made to go."""
        return self.involvedObject.kind in _EVICTED and self.reason in EVICTIONS


# Apart from READS: no rule and no plan looks at the past.
EVENT_READS: Reads = {("v1", "Event"): Read(Kind.EVENT, Event, "events", same)}
PAST_READS: Reads = {**EVENT_READS, **RECORD_READS}
