"""Certificate rotation: a state that replicas share, and a function from it to the next step.

A client must never receive a leaf that its bundle does not verify, and its bundle may be some seconds old. So
a CA is replaced in this order only. Both CAs are in the bundle (INTRODUCE). The API server has it (PUBLISH),
for longer than its watches lag (WAIT). Only then the new CA signs a leaf, and the key of the old CA is
deleted (SWITCH). Every replica serves under the new CA, or has not done so for minutes (PROVE). The old CA
leaves the bundle (DROP). A leaf alone is renewed in one step.

There is no leader. Every step that writes is a compare-and-swap on the stored state, and any replica gets the
same kind of result. A replica that loses the race reads again and finds the work done. A replica that dies
leaves a state from which any other continues. Two rules make that safe. First, each replica measures the wait
on its own clock from its own read-back, so no clock of another host is trusted. Second, a replica stores a
leaf before it serves it (REPORT). So a replica that drops a CA knows all replicas that may still serve under
it.

A replica that vanished (a lost node, SIGKILL) leaves its report behind. A leaked CA must not stay trusted
because of it. So a report holds the old CA for `patience` polls only: a live replica reads the store at each
poll.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from podium.errors import PodiumError
from podium.webhooks import certificates
from podium.webhooks.certificates import Pair

NewKey = Callable[[], ec.EllipticCurvePrivateKey]


class Periods(NamedTuple):
    """The durations of rotation. CA and leaf are renewed when a third of their life is left."""

    ca: timedelta = timedelta(days=365)
    leaf: timedelta = timedelta(days=30)
    # The maximum clock skew of replicas and API servers: a leaf counts as expired that much later.
    skew: timedelta = timedelta(hours=1)
    # Longer than the lag of an API server's watch of webhook configurations (well under a second).
    grace: timedelta = timedelta(seconds=10)
    poll: timedelta = timedelta(seconds=10)
    # The consecutive polls that find a replica without the new CA before it counts as gone. A live one reads
    # the store at every poll, so 12 polls tolerate two minutes without an API server. Polls and not seconds:
    # a replica that was suspended itself has given the others no time. A poll takes at most 12 s (jitter) and
    # an unanswered probe 5 s more, so 12 polls take at most 3.4 minutes.
    patience: int = 12


USUAL = Periods()
# The report for replicas that may serve under CAs of a state that is lost. It has no address, so it is never
# proven, and holds those CAs for `patience` polls.
UNKNOWN, _NOWHERE = "unknown", ("127.0.0.1", 0)


class ReplicaReport(msgspec.Struct, frozen=True):
    """One replica: its address for other replicas, its required names, and the leaf that it may serve.

    `leaf` is the fingerprint of that leaf; no certificate that the replica serves is valid after `end`.
    """

    replica: str
    address: tuple[str, int]
    names: tuple[str, ...]
    leaf: str
    end: datetime


class Stored(msgspec.Struct, frozen=True):
    """The state that replicas share. `next` is the CA being introduced, `retired` the CA being dropped."""

    signer: Pair
    serving: Pair
    next: Pair | None = None
    retired: bytes = b""
    reports: tuple[ReplicaReport, ...] = ()

    @property
    def bundle(self) -> bytes:
        """Return the CAs that API servers must trust: PEM, oldest first, so a SWITCH changes no byte."""
        return self.retired + self.signer.certificate + (self.next.certificate if self.next else b"")


class Replica(NamedTuple):
    """The replica that decides: its name, its address for other replicas, and its names for API servers."""

    name: str
    address: tuple[str, int]
    names: tuple[str, ...]


class RotationState(NamedTuple):
    """An observation: how long the bundle is published, and which replicas serve under the signer.

    `silent` holds the replicas that have not done so for `patience` polls.
    """

    published: timedelta | None = None
    proven: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()


class RotationStep(StrEnum):
    """The next step. The steps of WRITES change the stored state by `advance`; the others do not."""

    CREATE = "certificates created"
    RENEW = "leaf renewed"
    REPORT = "replica reported"
    INTRODUCE = "authority introduced"
    PUBLISH = "bundle published"
    WAIT = "waiting for watches"
    SWITCH = "authority switched"
    PROVE = "waiting for replicas"
    DROP = "authority dropped"
    REST = "resting"


WRITES = frozenset(
    {
        RotationStep.CREATE,
        RotationStep.RENEW,
        RotationStep.REPORT,
        RotationStep.INTRODUCE,
        RotationStep.SWITCH,
        RotationStep.DROP,
    }
)


def decide(
    stored: Stored | None, me: Replica, seen: RotationState, now: datetime, periods: Periods
) -> RotationStep:
    """Return the next step. Raises PodiumError for a state whose CA cannot be read."""
    if stored is None:
        return RotationStep.CREATE
    if stored.next and seen.published is not None and seen.published >= periods.grace:
        return RotationStep.SWITCH
    if _leaf_due(stored, me, now, periods):
        return RotationStep.RENEW
    if _report(stored, me) not in stored.reports:
        return RotationStep.REPORT
    if seen.published is None:
        return RotationStep.PUBLISH
    if stored.next:
        return RotationStep.WAIT
    if stored.retired:
        settled = seen.proven | seen.silent
        missing = [report for report in stored.reports if report.replica not in settled]
        return (
            RotationStep.PROVE
            if any(now < report.end + periods.skew for report in missing)
            else RotationStep.DROP
        )
    if authority_due(stored, now, periods):
        return RotationStep.INTRODUCE
    return RotationStep.REST


def advance(
    stored: Stored | None,
    step: RotationStep,
    me: Replica,
    now: datetime,
    *,
    periods: Periods,
    new_key: NewKey,
    registered: bytes = b"",
) -> Stored:
    """Return the state after a step of WRITES.

    `registered` has the CAs that API servers trust although no state has them. They stay beside a new CA
    until the replicas that serve under them have read the new state.
    """
    if stored is None:
        ca = _authority(now, periods, new_key)
        leaf = _leaf(ca, me.names, now, periods, new_key)
        unknown = ReplicaReport(UNKNOWN, _NOWHERE, me.names, "", now + periods.leaf)
        fresh = Stored(ca, leaf, retired=registered, reports=(unknown,) if registered else ())
        return _reported(fresh, me, now, periods)
    names = _leaf_names(stored, me)
    match step:
        case RotationStep.RENEW:
            serving = _leaf(stored.signer, names, now, periods, new_key)
            return _reported(msgspec.structs.replace(stored, serving=serving), me, now, periods)
        case RotationStep.REPORT:
            return _reported(stored, me, now, periods)
        case RotationStep.INTRODUCE:
            return introduce(stored, now, periods, new_key)
        case RotationStep.SWITCH if stored.next:
            serving = _leaf(stored.next, names, now, periods, new_key)
            switched = msgspec.structs.replace(
                stored,
                signer=stored.next,
                serving=serving,
                next=None,
                retired=stored.signer.certificate,
            )
            return _reported(switched, me, now, periods)
        case RotationStep.DROP:
            return msgspec.structs.replace(stored, retired=b"")
        case _:
            raise AssertionError(step)


def introduce(stored: Stored, now: datetime, periods: Periods, new_key: NewKey) -> Stored:
    """Return the state with a next CA; unchanged if a rotation is in progress."""
    if stored.next or stored.retired:
        return stored
    return msgspec.structs.replace(stored, next=_authority(now, periods, new_key))


def withdraw(stored: Stored, me: Replica) -> Stored:
    """Return the state without the report of this replica, which has stopped serving."""
    rest = tuple(report for report in stored.reports if report.replica != me.name)
    return msgspec.structs.replace(stored, reports=rest)


def authority_due(stored: Stored, now: datetime, periods: Periods) -> bool:
    """Return whether less than a third of the CA's life is left."""
    return now >= certificates.facts(stored.signer.certificate).end - periods.ca / 3


def _leaf_due(stored: Stored, me: Replica, now: datetime, periods: Periods) -> bool:
    """Return whether a new leaf is needed: the stored one is not usable, or a new one is valid for longer."""
    signer = certificates.facts(stored.signer.certificate)
    # Before the CA's start the clock is wrong, and a leaf that ends by such a clock has expired for others.
    if not signer.start <= now < signer.end:
        return False
    try:
        leaf = certificates.verify_pair(stored.serving, me.names, now)
    except PodiumError:
        return True
    if not certificates.issued(stored.serving.certificate, stored.signer.certificate):
        return True
    return now >= leaf.end - periods.leaf / 3 and leaf.end < min(signer.end, now + periods.leaf)


def _report(stored: Stored, me: Replica) -> ReplicaReport:
    leaf = certificates.facts(stored.serving.certificate)
    # The replica serves its former leaf until the new one is loaded, or if loading fails.
    ends = [report.end for report in stored.reports if report.replica == me.name]
    return ReplicaReport(me.name, me.address, me.names, leaf.fingerprint, max([leaf.end, *ends]))


def _reported(stored: Stored, me: Replica, now: datetime, periods: Periods) -> Stored:
    """Return the state with our current report, and without expired reports."""
    others = [
        report for report in stored.reports if report.replica != me.name and now < report.end + periods.skew
    ]
    return msgspec.structs.replace(stored, reports=(*others, _report(stored, me)))


def _leaf_names(stored: Stored, me: Replica) -> tuple[str, ...]:
    """Return the names that a leaf needs: those of every replica, because all serve the same leaf."""
    return tuple(dict.fromkeys([*me.names, *(name for report in stored.reports for name in report.names)]))


def _authority(now: datetime, periods: Periods, new_key: NewKey) -> Pair:
    """Return a CA that starts earlier by its whole life.

    If this replica's clock is ahead, its certificates are still valid for API servers whose clocks are right.
    """
    return certificates.authority(new_key(), now - periods.ca, now + periods.ca)


def _leaf(ca: Pair, names: tuple[str, ...], now: datetime, periods: Periods, new_key: NewKey) -> Pair:
    start = certificates.facts(ca.certificate).start
    return certificates.leaf(ca, new_key(), names, start, now + periods.leaf)
