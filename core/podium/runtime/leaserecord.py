"""The content of a Lease and the conclusions from it, as values, apart from any request or clock.

Only the reader's own clock counts. The times in a record are for people; code compares them for equality
only, and recognises the form in which client-go releases a lease. A lease without a holder that was not
released was emptied or deleted by another client, and its holder may not know yet. So a candidate waits for
it as for a holder that stopped renewing.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from podium.api.times import micro_time

# Names the holder's current work. If that work costs it the lease, the next holder begins with other work.
NOTE = "scheduling.podium.dev/deciding"


class Terms(NamedTuple):
    """The times that replicas agree on, in seconds; the defaults are client-go's.

    A lease that was not renewed is free after `lease_seconds`. Its holder gives up after `renew_seconds`. It
    is renewed, or read, every `retry_seconds` plus jitter. Each is well above the next.
    """

    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


class Record(msgspec.Struct, frozen=True):
    """The spec of a Lease (coordination.k8s.io/v1); times are MicroTime, and only compared for equality."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


class ObservedLease(NamedTuple):
    """A Lease as last read: the object (empty if there is none), its version and record, and `since`.

    `since` is the reader's own time when it first read this resourceVersion, or first found no Lease.
    `emptied` says that the lease has no holder, and the former holder did not release it.
    """

    document: Mapping[str, Any]
    version: str
    record: Record
    since: float
    emptied: bool = False


class _LeaseMetadata(msgspec.Struct):
    resourceVersion: str
    uid: str


class _Lease(msgspec.Struct):
    metadata: _LeaseMetadata
    spec: Record | None = None


def observe(before: ObservedLease | None, document: Mapping[str, Any], now: float) -> ObservedLease:
    """Return the Lease after a read of `document` (empty for none) that ended `now`.

    Any write counts as a sign of life. Raises msgspec.ValidationError when the document is not a Lease.
    """
    version, record = "", Record()
    if document:
        lease = msgspec.convert(document, _Lease)
        version, record = lease.metadata.resourceVersion, lease.spec or record
    since = before.since if before is not None and before.version == version else now
    return ObservedLease(document, version, record, since, _was_emptied(before, record))


def _was_emptied(before: ObservedLease | None, record: Record) -> bool:
    if record.holderIdentity or _given_back(record):
        return False
    if record.acquireTime is None and record.renewTime is None:
        # The Lease does not exist or never had a holder, unless an earlier read shows one.
        return before is not None and (before.emptied or bool(before.record.holderIdentity))
    return True


def _given_back(record: Record) -> bool:
    """Return whether a record without a holder has the form that `released` returns."""
    times = record.acquireTime, record.renewTime
    return record.leaseDurationSeconds == 1 and times[0] is not None and times[0] == times[1]


def free_in(seen: ObservedLease, terms: Terms, now: float) -> float:
    """Return the seconds until any replica may take the lease; 0 when it is free.

    The duration in the record counts, because a newer release may have changed it. Ours counts if the record
    has none, or if another client edited the Lease, because the recorded duration may then never end.
    """
    if not seen.record.holderIdentity and not seen.emptied:
        return 0.0
    duration = (
        terms.lease_seconds if seen.emptied else seen.record.leaseDurationSeconds or terms.lease_seconds
    )
    return max(0.0, seen.since + duration - now)


def is_of(record: Record, term: Record | None) -> bool:
    """Return whether a record belongs to the term that we began, with any renewal time.

    Another process with our name would have begun its term at another moment.
    """
    return term is not None and record == msgspec.structs.replace(term, renewTime=record.renewTime)


def acquire_record(
    seen: ObservedLease, identity: str, terms: Terms, now: datetime, before: Record | None
) -> Record:
    """Return the record that takes the lease.

    `before` is the record of our last write. If the Lease is unchanged since, that write may still take
    effect, and with the same record we recognise it as ours.
    """
    transitions = (seen.record.leaseTransitions or 0) + 1 if seen.document else 0
    if before is not None and before.leaseTransitions == transitions:
        return before
    return Record(identity, math.ceil(terms.lease_seconds), micro_time(now), None, transitions)


def renewed(term: Record, now: datetime, last: str | None) -> Record:
    """Return the record that renews a term, with another time than the `last` renewal.

    A write without a change is a no-op, which other replicas would not see.
    """
    stamp = micro_time(now)
    if stamp == last:
        stamp = micro_time(now + timedelta(microseconds=1))
    return msgspec.structs.replace(term, renewTime=stamp)


def released(record: Record, now: datetime) -> Record:
    """Return the record of a released lease; one second is the shortest valid duration."""
    stamp = micro_time(now)
    return Record("", 1, stamp, stamp, record.leaseTransitions)


def noted(document: Mapping[str, Any]) -> str:
    """Return the note in a Lease; empty for none."""
    note = (document.get("metadata", {}).get("annotations") or {}).get(NOTE)
    return note if isinstance(note, str) else ""


def with_note(document: Mapping[str, Any], note: str) -> dict[str, Any]:
    """Return a Lease with this note only; without any if it is empty."""
    metadata = {**document["metadata"]}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != NOTE}
    if note:
        annotations[NOTE] = note
    if annotations or metadata.get("annotations"):
        metadata["annotations"] = annotations
    return {**document, "metadata": metadata}
