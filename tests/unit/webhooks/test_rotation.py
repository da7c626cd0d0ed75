"""A table of the steps that are due, then each step's effect on the stored state."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from podium.webhooks import certificates, rotation
from podium.webhooks.certificates import Pair
from podium.webhooks.rotation import (
    Periods,
    Replica,
    ReplicaReport,
    RotationState,
    RotationStep,
    Stored,
    advance,
    decide,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PERIODS = Periods()
ME = Replica("a", ("10.0.0.1", 9443), ("podium-webhook.podium-system.svc",))
OTHER = Replica("b", ("10.0.0.2", 9443), ("podium-webhook.podium-system.svc", "other.example"))
DAY = timedelta(days=1)
PUBLISHED = RotationState(timedelta(seconds=60))


def _advance(stored: Stored | None, step: RotationStep, me: Replica = ME, now: datetime = NOW) -> Stored:
    return advance(stored, step, me, now, periods=PERIODS, new_key=certificates.new_key)


def _decide(
    stored: Stored | None, seen: RotationState = PUBLISHED, me: Replica = ME, now: datetime = NOW
) -> RotationStep:
    return decide(stored, me, seen, now, PERIODS)


FRESH = _advance(None, RotationStep.CREATE)
BOTH = _advance(_advance(FRESH, RotationStep.RENEW, OTHER), RotationStep.REPORT)
INTRODUCED = _advance(BOTH, RotationStep.INTRODUCE)
SWITCHED = _advance(INTRODUCED, RotationStep.SWITCH)
MISMATCHED = msgspec.structs.replace(FRESH, serving=Pair(FRESH.serving.certificate, FRESH.signer.key))
FOREIGN = msgspec.structs.replace(FRESH, serving=_advance(None, RotationStep.CREATE).serving)


@dataclass
class Case:
    """A state at a time, seen by a replica."""

    stored: Stored | None
    want: RotationStep
    after: timedelta = timedelta(0)
    seen: RotationState = PUBLISHED
    me: Replica = ME


CASES = {
    "nothing stored": Case(None, RotationStep.CREATE),
    "all is well": Case(FRESH, RotationStep.REST),
    "all is well until a third of the leaf's life is left": Case(
        FRESH, RotationStep.REST, 20 * DAY - PERIODS.skew
    ),
    "a third of the leaf's life is left": Case(FRESH, RotationStep.RENEW, 20 * DAY),
    "the leaf has expired": Case(FRESH, RotationStep.RENEW, 31 * DAY),
    "the clock went back by a day": Case(FRESH, RotationStep.REST, -DAY),
    "the clock went back to before the CA": Case(MISMATCHED, RotationStep.REST, -366 * DAY),
    "a stored key of another certificate": Case(MISMATCHED, RotationStep.RENEW),
    "a stored leaf of another CA": Case(FOREIGN, RotationStep.RENEW),
    "a replica that the leaf does not name": Case(FRESH, RotationStep.RENEW, me=OTHER),
    "a replica not reported": Case(FRESH, RotationStep.REPORT, me=ME._replace(name="c")),
    "a replica at another address": Case(
        FRESH, RotationStep.REPORT, me=ME._replace(address=("10.0.0.9", 9443))
    ),
    "a leaf that another replica renewed": Case(
        _advance(BOTH, RotationStep.RENEW, OTHER), RotationStep.REPORT
    ),
    "a bundle not read back": Case(FRESH, RotationStep.PUBLISH, seen=RotationState()),
    "a leaf is renewed before the bundle is published": Case(
        FRESH, RotationStep.RENEW, 25 * DAY, seen=RotationState()
    ),
    "a next CA not read back": Case(INTRODUCED, RotationStep.PUBLISH, seen=RotationState()),
    "a next CA read back just now": Case(
        INTRODUCED, RotationStep.WAIT, seen=RotationState(timedelta(seconds=9.9))
    ),
    "a next CA read back for the grace period": Case(
        INTRODUCED, RotationStep.SWITCH, seen=RotationState(PERIODS.grace)
    ),
    "a leaf due while a next CA is not published": Case(
        INTRODUCED, RotationStep.RENEW, 25 * DAY, seen=RotationState()
    ),
    "no replica seen under the new CA": Case(SWITCHED, RotationStep.PROVE),
    "one of two replicas seen": Case(
        SWITCHED, RotationStep.PROVE, seen=PUBLISHED._replace(proven=frozenset("a"))
    ),
    "all replicas seen": Case(SWITCHED, RotationStep.DROP, seen=PUBLISHED._replace(proven=frozenset("ab"))),
    "one seen and the other silent": Case(
        SWITCHED, RotationStep.DROP, seen=PUBLISHED._replace(proven=frozenset("a"), silent=frozenset("b"))
    ),
    "one silent and the other not seen": Case(
        SWITCHED, RotationStep.PROVE, seen=PUBLISHED._replace(silent=frozenset("b"))
    ),
    "all replicas seen, the bundle not": Case(
        SWITCHED, RotationStep.PUBLISH, seen=RotationState(None, frozenset("ab"))
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_step_is_due(case: Case) -> None:
    assert _decide(case.stored, case.seen, case.me, NOW + case.after) is case.want


@pytest.mark.parametrize("ahead", [DAY, 20 * DAY, 300 * DAY])
def test_a_clock_that_is_ahead_makes_certificates_that_are_valid_now(ahead: timedelta) -> None:
    """The API server's clock is right, and it refuses a certificate that starts later."""
    later = NOW + ahead
    for state in (
        _advance(None, RotationStep.CREATE, now=later),
        _advance(FRESH, RotationStep.RENEW, now=later),
        _advance(_advance(FRESH, RotationStep.INTRODUCE, now=later), RotationStep.SWITCH, now=later),
    ):
        for pair in (state.signer, state.serving):
            made = certificates.facts(pair.certificate)
            assert made.start <= NOW < made.end


def test_an_unreachable_replica_delays_the_drop_until_its_leaf_has_expired_and_no_longer() -> None:
    """B reported the leaf of 21 November and is gone; a continues under the new CA."""
    seen = PUBLISHED._replace(proven=frozenset("a"))
    state = SWITCHED
    end = next(report.end for report in state.reports if report.replica == "b")
    last = end + PERIODS.skew
    state = _advance(state, RotationStep.RENEW, now=last - DAY)
    assert _decide(state, seen, now=last - timedelta(seconds=1)) is RotationStep.PROVE
    assert _decide(state, seen, now=last) is RotationStep.DROP


def test_a_ca_is_replaced_when_a_third_of_its_life_is_left() -> None:
    due = certificates.facts(FRESH.signer.certificate).end - PERIODS.ca / 3
    renewed = _advance(FRESH, RotationStep.RENEW, now=due - DAY)
    assert _decide(renewed, now=due - timedelta(seconds=1)) is RotationStep.REST
    assert _decide(renewed, now=due) is RotationStep.INTRODUCE


def test_near_the_end_of_its_ca_a_leaf_is_not_renewed_again_and_again() -> None:
    """A leaf cannot outlive the CA, so a renewal gains nothing once it lasts as long."""
    end = certificates.facts(FRESH.signer.certificate).end
    renewed = _advance(FRESH, RotationStep.RENEW, now=end - DAY)
    assert _decide(renewed, RotationState(), now=end - DAY / 2) is RotationStep.PUBLISH


def test_an_expired_ca_is_replaced_like_any_other() -> None:
    """After two years of pause no leaf can be issued from it, and the order of steps is the same."""
    later = NOW + 730 * DAY
    assert _decide(FRESH, now=later) is RotationStep.INTRODUCE
    introduced = _advance(FRESH, RotationStep.INTRODUCE, now=later)
    assert _decide(introduced, RotationState(), now=later) is RotationStep.PUBLISH
    switched = _advance(introduced, RotationStep.SWITCH, now=later)
    assert _decide(switched, now=later) is RotationStep.PROVE
    assert _decide(switched, PUBLISHED._replace(proven=frozenset("a")), now=later) is RotationStep.DROP


def test_the_switch_changes_no_byte_of_the_bundle_and_destroys_the_old_key() -> None:
    assert SWITCHED.bundle == INTRODUCED.bundle
    assert SWITCHED.signer == INTRODUCED.next
    assert SWITCHED.next is None
    assert msgspec.json.encode(FRESH.signer.key) not in msgspec.json.encode(SWITCHED)


def test_the_bundle_grows_before_it_shrinks() -> None:
    dropped = _advance(SWITCHED, RotationStep.DROP)
    assert INTRODUCED.bundle == BOTH.bundle + dropped.bundle
    assert dropped.serving == SWITCHED.serving


def test_one_leaf_is_good_for_every_replica_s_names() -> None:
    assert _decide(BOTH, me=ME) is RotationStep.REST
    assert _decide(BOTH, me=OTHER) is RotationStep.REST
    gone = rotation.withdraw(BOTH, OTHER)
    assert certificates.facts(_advance(gone, RotationStep.RENEW).serving.certificate).names == ME.names


def test_a_report_never_takes_back_how_long_a_replica_may_serve() -> None:
    """A shorter leaf may fail to load; the previous one is then still served."""
    shorter = _advance(FRESH, RotationStep.RENEW, now=NOW - DAY)
    [before], [after] = FRESH.reports, shorter.reports
    assert after.leaf == certificates.facts(shorter.serving.certificate).fingerprint != before.leaf
    assert after.end == before.end


def test_reports_that_have_run_out_are_forgotten() -> None:
    later = NOW + 32 * DAY
    assert [report.replica for report in _advance(BOTH, RotationStep.RENEW, now=later).reports] == ["a"]


def test_a_rotation_under_way_is_not_begun_anew() -> None:
    for state in (INTRODUCED, SWITCHED):
        assert rotation.introduce(state, NOW, PERIODS, certificates.new_key) == state


def test_withdrawing_takes_out_one_s_own_report() -> None:
    assert [report.replica for report in rotation.withdraw(BOTH, ME).reports] == ["b"]


def test_no_text_of_the_state_holds_a_key() -> None:
    assert "PRIVATE" not in f"{SWITCHED!r} {INTRODUCED}"
    assert isinstance(SWITCHED.reports[0], ReplicaReport)
