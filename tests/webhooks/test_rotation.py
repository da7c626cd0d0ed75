"""A table of the steps that are due, then each step's effect on the stored state."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from podium import certificates
from podium.certificates import Pair
from podium.webhooks import rotation
from podium.webhooks.rotation import Periods, Replica, Report, Seen, Step, Stored, advance, decide

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PERIODS = Periods()
ME = Replica("a", ("10.0.0.1", 9443), ("podium-webhook.podium-system.svc",))
OTHER = Replica("b", ("10.0.0.2", 9443), ("podium-webhook.podium-system.svc", "other.example"))
DAY = timedelta(days=1)
PUBLISHED = Seen(timedelta(seconds=60))


def _advance(stored: Stored | None, step: Step, me: Replica = ME, now: datetime = NOW) -> Stored:
    return advance(stored, step, me, now, periods=PERIODS, new_key=certificates.new_key)


def _decide(stored: Stored | None, seen: Seen = PUBLISHED, me: Replica = ME, now: datetime = NOW) -> Step:
    return decide(stored, me, seen, now, PERIODS)


FRESH = _advance(None, Step.CREATE)
BOTH = _advance(_advance(FRESH, Step.RENEW, OTHER), Step.REPORT)
INTRODUCED = _advance(BOTH, Step.INTRODUCE)
SWITCHED = _advance(INTRODUCED, Step.SWITCH)
MISMATCHED = msgspec.structs.replace(FRESH, serving=Pair(FRESH.serving.certificate, FRESH.signer.key))
FOREIGN = msgspec.structs.replace(FRESH, serving=_advance(None, Step.CREATE).serving)


@dataclass
class Case:
    """A state at a time, seen by a replica."""

    stored: Stored | None
    want: Step
    after: timedelta = timedelta(0)
    seen: Seen = PUBLISHED
    me: Replica = ME


CASES = {
    "nothing stored": Case(None, Step.CREATE),
    "all is well": Case(FRESH, Step.REST),
    "all is well until a third of the leaf's life is left": Case(FRESH, Step.REST, 20 * DAY - PERIODS.skew),
    "a third of the leaf's life is left": Case(FRESH, Step.RENEW, 20 * DAY),
    "the leaf has expired": Case(FRESH, Step.RENEW, 31 * DAY),
    "the clock went back by more than the skew": Case(FRESH, Step.RENEW, -DAY),
    "a stored key of another certificate": Case(MISMATCHED, Step.RENEW),
    "a stored leaf of another CA": Case(FOREIGN, Step.RENEW),
    "a replica that the leaf does not name": Case(FRESH, Step.RENEW, me=OTHER),
    "a replica not reported": Case(FRESH, Step.REPORT, me=ME._replace(name="c")),
    "a replica at another address": Case(FRESH, Step.REPORT, me=ME._replace(address=("10.0.0.9", 9443))),
    "a leaf that another replica renewed": Case(_advance(BOTH, Step.RENEW, OTHER), Step.REPORT),
    "a bundle not read back": Case(FRESH, Step.PUBLISH, seen=Seen()),
    "a leaf is renewed before the bundle is published": Case(FRESH, Step.RENEW, 25 * DAY, seen=Seen()),
    "a next CA not read back": Case(INTRODUCED, Step.PUBLISH, seen=Seen()),
    "a next CA read back just now": Case(INTRODUCED, Step.WAIT, seen=Seen(timedelta(seconds=9.9))),
    "a next CA read back for the grace period": Case(INTRODUCED, Step.SWITCH, seen=Seen(PERIODS.grace)),
    "a leaf due while a next CA is not published": Case(INTRODUCED, Step.RENEW, 25 * DAY, seen=Seen()),
    "no replica seen under the new CA": Case(SWITCHED, Step.PROVE),
    "one of two replicas seen": Case(SWITCHED, Step.PROVE, seen=PUBLISHED._replace(proven=frozenset("a"))),
    "all replicas seen": Case(SWITCHED, Step.DROP, seen=PUBLISHED._replace(proven=frozenset("ab"))),
    "one seen and the other silent": Case(
        SWITCHED, Step.DROP, seen=PUBLISHED._replace(proven=frozenset("a"), silent=frozenset("b"))
    ),
    "one silent and the other not seen": Case(
        SWITCHED, Step.PROVE, seen=PUBLISHED._replace(silent=frozenset("b"))
    ),
    "all replicas seen, the bundle not": Case(SWITCHED, Step.PUBLISH, seen=Seen(None, frozenset("ab"))),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_step_is_due(case: Case) -> None:
    assert _decide(case.stored, case.seen, case.me, NOW + case.after) is case.want


def test_an_unreachable_replica_delays_the_drop_until_its_leaf_has_expired_and_no_longer() -> None:
    """B reported the leaf of 21 November and is gone; a carries on under the new CA."""
    seen = PUBLISHED._replace(proven=frozenset("a"))
    state = SWITCHED
    end = next(report.end for report in state.reports if report.replica == "b")
    last = end + PERIODS.skew
    state = _advance(state, Step.RENEW, now=last - DAY)
    assert _decide(state, seen, now=last - timedelta(seconds=1)) is Step.PROVE
    assert _decide(state, seen, now=last) is Step.DROP


def test_a_ca_is_replaced_when_a_third_of_its_life_is_left() -> None:
    due = certificates.facts(FRESH.signer.certificate).end - PERIODS.ca / 3
    renewed = _advance(FRESH, Step.RENEW, now=due - DAY)
    assert _decide(renewed, now=due - timedelta(seconds=1)) is Step.REST
    assert _decide(renewed, now=due) is Step.INTRODUCE


def test_near_the_end_of_its_ca_a_leaf_is_not_renewed_again_and_again() -> None:
    """It cannot outlive the CA, so once it lasts as long there is nothing to gain."""
    end = certificates.facts(FRESH.signer.certificate).end
    renewed = _advance(FRESH, Step.RENEW, now=end - DAY)
    assert _decide(renewed, Seen(), now=end - DAY / 2) is Step.PUBLISH


def test_an_expired_ca_is_replaced_like_any_other() -> None:
    """A cluster that slept for two years: no leaf can be had from it, the order of steps is the same."""
    later = NOW + 730 * DAY
    assert _decide(FRESH, now=later) is Step.INTRODUCE
    introduced = _advance(FRESH, Step.INTRODUCE, now=later)
    assert _decide(introduced, Seen(), now=later) is Step.PUBLISH
    switched = _advance(introduced, Step.SWITCH, now=later)
    assert _decide(switched, now=later) is Step.PROVE
    assert _decide(switched, PUBLISHED._replace(proven=frozenset("a")), now=later) is Step.DROP


def test_the_switch_changes_no_byte_of_the_bundle_and_destroys_the_old_key() -> None:
    assert SWITCHED.bundle == INTRODUCED.bundle
    assert SWITCHED.signer == INTRODUCED.next
    assert SWITCHED.next is None
    assert msgspec.json.encode(FRESH.signer.key) not in msgspec.json.encode(SWITCHED)


def test_the_bundle_grows_before_it_shrinks() -> None:
    dropped = _advance(SWITCHED, Step.DROP)
    assert INTRODUCED.bundle == BOTH.bundle + dropped.bundle
    assert dropped.serving == SWITCHED.serving


def test_one_leaf_is_good_for_every_replica_s_names() -> None:
    assert _decide(BOTH, me=ME) is Step.REST
    assert _decide(BOTH, me=OTHER) is Step.REST
    gone = rotation.withdraw(BOTH, OTHER)
    assert certificates.facts(_advance(gone, Step.RENEW).serving.certificate).names == ME.names


def test_a_report_never_takes_back_how_long_a_replica_may_serve() -> None:
    """A shorter leaf may fail to load; the one before it is then served on."""
    shorter = _advance(FRESH, Step.RENEW, now=NOW - DAY)
    [before], [after] = FRESH.reports, shorter.reports
    assert after.leaf == certificates.facts(shorter.serving.certificate).fingerprint != before.leaf
    assert after.end == before.end


def test_reports_that_have_run_out_are_forgotten() -> None:
    later = NOW + 32 * DAY
    assert [report.replica for report in _advance(BOTH, Step.RENEW, now=later).reports] == ["a"]


def test_a_rotation_under_way_is_not_begun_anew() -> None:
    for state in (INTRODUCED, SWITCHED):
        assert rotation.introduce(state, NOW, PERIODS, certificates.new_key) == state


def test_withdrawing_takes_out_one_s_own_report() -> None:
    assert [report.replica for report in rotation.withdraw(BOTH, ME).reports] == ["b"]


def test_no_text_of_the_state_holds_a_key() -> None:
    assert "PRIVATE" not in f"{SWITCHED!r} {INTRODUCED}"
    assert isinstance(SWITCHED.reports[0], Report)
