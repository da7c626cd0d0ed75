"""Which step of the certificates' life is due: a state that replicas share, and a function from it to a step.

A client must at no moment meet a leaf that the bundle it holds does not vouch for, and it may hold the bundle
of some seconds ago. So a CA is replaced in this order, and no other: both CAs are in the bundle (INTRODUCE),
the API server is seen to have it (PUBLISH), and to have had it for longer than its watches lag (WAIT); only
then comes a leaf under the new CA and goes the old CA's key (SWITCH); every replica is seen to serve under
the new CA, or not to have done so for minutes (PROVE); the old CA leaves the bundle (DROP). A leaf alone is
renewed in one step.

There is no leader. Every step that writes is a compare-and-swap on the one stored state and gives the same
kind of result whoever does it, so a replica that loses the race reads again and finds the work done, and one
that dies leaves a state from which anybody goes on. Two rules make that safe. The wait is counted by each
replica, on its own clock, from its own reading-back: no stored time, hence no trust in others' clocks. And a
replica says in the stored state what it is about to serve before it serves it (REPORT), so whoever drops a CA
by compare-and-swap knows everybody who may still serve under it.

A replica that vanished (its node is lost, SIGKILL) leaves its report behind. It must not keep a leaked CA
trusted, so a report holds the old CA for `patience` looks only: a live replica reads the store at each look.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from podium import certificates
from podium.certificates import Pair
from podium.errors import PodiumError

NewKey = Callable[[], ec.EllipticCurvePrivateKey]


class Periods(NamedTuple):
    """How long things live and waits last. CA and leaf are renewed when a third of their life is left."""

    ca: timedelta = timedelta(days=365)
    leaf: timedelta = timedelta(days=30)
    # By how much the clocks of replicas and API servers may differ: certificates start earlier by that, and a
    # leaf counts as expired that much later.
    skew: timedelta = timedelta(hours=1)
    # Longer than an API server's watch of its webhook configurations lags behind (well under a second).
    grace: timedelta = timedelta(seconds=10)
    poll: timedelta = timedelta(seconds=10)
    # How many looks in a row may find a replica not under the new CA before it counts as gone. A live one
    # reads the store at every poll, so 12 looks forgive two minutes without an API server. Looks and not
    # seconds: a replica that was suspended itself has given the others no time. A poll takes at most 12 s
    # (jitter) and an unanswered probe 5 s more, so 12 looks take 3.4 minutes at most.
    patience: int = 12


USUAL = Periods()


class Report(msgspec.Struct, frozen=True):
    """One replica: where the others reach it, the names it must be called by, and the leaf it may serve.

    `leaf` is that leaf's fingerprint; nothing it serves is valid after `end`.
    """

    replica: str
    address: tuple[str, int]
    names: tuple[str, ...]
    leaf: str
    end: datetime


class Stored(msgspec.Struct, frozen=True):
    """What replicas share. `next` is the CA being introduced, `retired` the one that goes."""

    signer: Pair
    serving: Pair
    next: Pair | None = None
    retired: bytes = b""
    reports: tuple[Report, ...] = ()

    @property
    def bundle(self) -> bytes:
        """What API servers are to trust: PEM, oldest first, so a switch of signers does not change a byte."""
        return self.retired + self.signer.certificate + (self.next.certificate if self.next else b"")


class Replica(NamedTuple):
    """The one that decides: its name, where others reach it, and what API servers call it."""

    name: str
    address: tuple[str, int]
    names: tuple[str, ...]


class Seen(NamedTuple):
    """An observation: for how long the bundle has been read back, and which replicas serve under the signer.

    `silent` are the replicas that have not done so for `patience` looks.
    """

    published: timedelta | None = None
    proven: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()


class Step(StrEnum):
    """What is due. Those of WRITES are `advance`d in the store, the rest is done or waited for outside."""

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


WRITES = frozenset({Step.CREATE, Step.RENEW, Step.REPORT, Step.INTRODUCE, Step.SWITCH, Step.DROP})


def decide(stored: Stored | None, me: Replica, seen: Seen, now: datetime, periods: Periods) -> Step:
    """Give the one step that is due. Raises PodiumError for a state whose CA cannot be read."""
    if stored is None:
        return Step.CREATE
    if stored.next and seen.published is not None and seen.published >= periods.grace:
        return Step.SWITCH
    if _leaf_due(stored, me, now, periods):
        return Step.RENEW
    if _report(stored, me) not in stored.reports:
        return Step.REPORT
    if seen.published is None:
        return Step.PUBLISH
    if stored.next:
        return Step.WAIT
    if stored.retired:
        settled = seen.proven | seen.silent
        missing = [report for report in stored.reports if report.replica not in settled]
        return Step.PROVE if any(now < report.end + periods.skew for report in missing) else Step.DROP
    if authority_due(stored, now, periods):
        return Step.INTRODUCE
    return Step.REST


def advance(
    stored: Stored | None, step: Step, me: Replica, now: datetime, *, periods: Periods, new_key: NewKey
) -> Stored:
    """Give the state after a step of WRITES."""
    if stored is None:
        ca = _authority(now, periods, new_key)
        fresh = Stored(signer=ca, serving=_leaf(ca, me.names, now, periods, new_key))
        return _reported(fresh, me, now, periods)
    names = _names(stored, me)
    match step:
        case Step.RENEW:
            serving = _leaf(stored.signer, names, now, periods, new_key)
            return _reported(msgspec.structs.replace(stored, serving=serving), me, now, periods)
        case Step.REPORT:
            return _reported(stored, me, now, periods)
        case Step.INTRODUCE:
            return introduce(stored, now, periods, new_key)
        case Step.SWITCH if stored.next:
            serving = _leaf(stored.next, names, now, periods, new_key)
            switched = msgspec.structs.replace(
                stored,
                signer=stored.next,
                serving=serving,
                next=None,
                retired=stored.signer.certificate,
            )
            return _reported(switched, me, now, periods)
        case Step.DROP:
            return msgspec.structs.replace(stored, retired=b"")
        case _:
            raise AssertionError(step)


def introduce(stored: Stored, now: datetime, periods: Periods, new_key: NewKey) -> Stored:
    """Give the state with a next CA, the one that is there already if a rotation is under way."""
    if stored.next or stored.retired:
        return stored
    return msgspec.structs.replace(stored, next=_authority(now, periods, new_key))


def withdraw(stored: Stored, me: Replica) -> Stored:
    """Give the state without this replica, which serves no more."""
    rest = tuple(report for report in stored.reports if report.replica != me.name)
    return msgspec.structs.replace(stored, reports=rest)


def authority_due(stored: Stored, now: datetime, periods: Periods) -> bool:
    """Tell whether less than a third of the CA's life is left."""
    return now >= certificates.facts(stored.signer.certificate).end - periods.ca / 3


def _leaf_due(stored: Stored, me: Replica, now: datetime, periods: Periods) -> bool:
    """Tell whether a new leaf would be better than the stored one: it serves, or it serves for longer."""
    last = certificates.facts(stored.signer.certificate).end
    if now >= last:
        return False
    try:
        leaf = certificates.check(stored.serving, me.names, now)
    except PodiumError:
        return True
    if not certificates.issued(stored.serving.certificate, stored.signer.certificate):
        return True
    return now >= leaf.end - periods.leaf / 3 and leaf.end < min(last, now + periods.leaf)


def _report(stored: Stored, me: Replica) -> Report:
    leaf = certificates.facts(stored.serving.certificate)
    # Until the new leaf is loaded, and if loading fails, the one before is served.
    ends = [report.end for report in stored.reports if report.replica == me.name]
    return Report(me.name, me.address, me.names, leaf.fingerprint, max([leaf.end, *ends]))


def _reported(stored: Stored, me: Replica, now: datetime, periods: Periods) -> Stored:
    """Give the state with our report in place of our last one, and without those that have run out."""
    others = [
        report for report in stored.reports if report.replica != me.name and now < report.end + periods.skew
    ]
    return msgspec.structs.replace(stored, reports=(*others, _report(stored, me)))


def _names(stored: Stored, me: Replica) -> tuple[str, ...]:
    """Give the names that a leaf must be good for: those of every replica, for one leaf serves them all."""
    return tuple(dict.fromkeys([*me.names, *(name for report in stored.reports for name in report.names)]))


def _authority(now: datetime, periods: Periods, new_key: NewKey) -> Pair:
    return certificates.authority(new_key(), now - periods.skew, now + periods.ca)


def _leaf(ca: Pair, names: tuple[str, ...], now: datetime, periods: Periods, new_key: NewKey) -> Pair:
    return certificates.leaf(ca, new_key(), names, now - periods.skew, now + periods.leaf)
