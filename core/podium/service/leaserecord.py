"""What a Lease says, and what one may conclude from it: values, for who writes and reads them.

No clock but the reader's own counts. The times in a record are for people; of them only equality matters, and
the form in which a holder gives its lease back, which is client-go's. A lease without a holder that was not
given back was emptied or deleted by somebody else, and who had it may not know yet: it is waited for as for
one that has stopped renewing.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from podium.api.times import micro_time

# What the holder was doing that may cost it the lease; the next holder begins with something else.
NOTE = "scheduling.podium.dev/deciding"


class Terms(NamedTuple):
    """The times that replicas agree on, in seconds, as client-go's defaults.

    A lease that was not renewed is anybody's after `lease_seconds`; its holder gives up after
    `renew_seconds`; it is renewed, or looked at, every `retry_seconds` and a little. Each is well above the
    next.
    """

    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


class Record(msgspec.Struct, frozen=True):
    """What a Lease says (coordination.k8s.io/v1 LeaseSpec); times are MicroTime, and only compared."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


class Seen(NamedTuple):
    """A Lease as it was last read: the whole object (empty: there is none), what of it counts, and `since`.

    `since` is the reader's own time at which it had read this resourceVersion, or that there is no Lease, for
    the first time. `torn` says that nobody holds it, and who did has not given it back.
    """

    document: Mapping[str, Any]
    version: str
    record: Record
    since: float
    torn: bool = False


class _Metadata(msgspec.Struct):
    resourceVersion: str
    uid: str


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: Record | None = None


def observe(before: Seen | None, document: Mapping[str, Any], now: float) -> Seen:
    """Give what has been seen when `document` (empty for none) was read, and that reading ended now.

    Any write counts as a sign of life. Raises msgspec.ValidationError when it is no Lease.
    """
    version, record = "", Record()
    if document:
        lease = msgspec.convert(document, _Lease)
        version, record = lease.metadata.resourceVersion, lease.spec or record
    since = before.since if before is not None and before.version == version else now
    return Seen(document, version, record, since, _torn(before, record))


def _torn(before: Seen | None, record: Record) -> bool:
    if record.holderIdentity or _given_back(record):
        return False
    if record.acquireTime is None and record.renewTime is None:
        # There is none, or nobody ever had it; unless we know better.
        return before is not None and (before.torn or bool(before.record.holderIdentity))
    return True


def _given_back(record: Record) -> bool:
    """Say whether a record without a holder is as `released` makes it."""
    times = record.acquireTime, record.renewTime
    return record.leaseDurationSeconds == 1 and times[0] is not None and times[0] == times[1]


def free_in(seen: Seen, terms: Terms, now: float) -> float:
    """Give the seconds until anybody may take the lease, 0 when it is free.

    The holder's own duration counts, which a newer release may have changed; ours where it gave none, and
    where somebody has intervened, perhaps because that duration is for ever.
    """
    if not seen.record.holderIdentity and not seen.torn:
        return 0.0
    duration = terms.lease_seconds if seen.torn else seen.record.leaseDurationSeconds or terms.lease_seconds
    return max(0.0, seen.since + duration - now)


def is_of(record: Record, term: Record | None) -> bool:
    """Whether a record is of the term that we began, whichever of its renewals.

    Another process of our name began its own at another moment.
    """
    return term is not None and record == msgspec.structs.replace(term, renewTime=record.renewTime)


def begin(seen: Seen, identity: str, terms: Terms, now: datetime, before: Record | None) -> Record:
    """Give the record that takes the lease.

    `before` is what we wanted to write last: if the lease is still as it was then, that write may yet land,
    and we shall know it for ours.
    """
    transitions = (seen.record.leaseTransitions or 0) + 1 if seen.document else 0
    if before is not None and before.leaseTransitions == transitions:
        return before
    return Record(identity, math.ceil(terms.lease_seconds), micro_time(now), None, transitions)


def renewed(term: Record, now: datetime, last: str | None) -> Record:
    """Give the record that renews a term, never with the time of the `last` one.

    A write that changes nothing is none, and nobody would see it.
    """
    stamp = micro_time(now)
    if stamp == last:
        stamp = micro_time(now + timedelta(microseconds=1))
    return msgspec.structs.replace(term, renewTime=stamp)


def released(record: Record, now: datetime) -> Record:
    """Give the record of a lease that is given back; a second is the shortest duration there is."""
    stamp = micro_time(now)
    return Record("", 1, stamp, stamp, record.leaseTransitions)


def noted(document: Mapping[str, Any]) -> str:
    """Return the note that a Lease carries, empty for none."""
    note = (document.get("metadata", {}).get("annotations") or {}).get(NOTE)
    return note if isinstance(note, str) else ""


def with_note(document: Mapping[str, Any], note: str) -> dict[str, Any]:
    """Return a Lease with this note and no other, none if it is empty."""
    metadata = {**document["metadata"]}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != NOTE}
    if note:
        annotations[NOTE] = note
    if annotations or metadata.get("annotations"):
        metadata["annotations"] = annotations
    return {**document, "metadata": metadata}
