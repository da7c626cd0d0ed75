"""v1 Event as it is read: what somebody told of an object, for about an hour, while the object may be gone.

Where a pod was deleted its conditions went with it, so a scheduler's event is the last word on it that other
than Podium's records have. Events of events.k8s.io are the same objects and are read in this version, too.
"""

import msgspec

from podium.api.meta import ObjectMeta
from podium.api.reads import Kind, Read, Reads, same


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


# Apart from READS: no rule and no plan looks at the past.
EVENT_READS: Reads = {("v1", "Event"): Read(Kind.EVENT, Event, "events", same)}
