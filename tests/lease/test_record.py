"""What a Lease says and what one writes into it, as values."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import msgspec
import pytest

from podium.service import lease
from podium.service.lease import Record, Terms

_TERMS = Terms()
_TIME = "2026-11-21T00:00:00.000000Z"


class _Free(NamedTuple):
    record: Record
    age: float
    wanted: float


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(_Free(Record(), 0, 0), id="nothing is said"),
        pytest.param(_Free(Record("", 15), 0, 0), id="nobody holds it"),
        pytest.param(_Free(Record("other", 15), 0, 15), id="just changed"),
        pytest.param(_Free(Record("other", 15), 14, 1), id="not yet"),
        pytest.param(_Free(Record("other", 15), 15, 0), id="its time is over"),
        pytest.param(_Free(Record("other", 60), 15, 45), id="the holder's own duration counts"),
        pytest.param(_Free(Record("other"), 5, 10), id="no duration is ours"),
        pytest.param(
            _Free(Record("other", 15, renewTime="9999-01-01T00:00:00.000000Z"), 15, 0), id="no times"
        ),
    ],
)
def test_a_lease_is_free_when_nobody_holds_it_or_nothing_was_heard_of_who_does(case: _Free) -> None:
    seen = lease.Seen({}, "7", case.record, 100.0)
    assert lease.free_in(seen, _TERMS, 100.0 + case.age) == case.wanted


def _document(version: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u", "resourceVersion": version}, "spec": spec}


def test_any_write_is_a_sign_of_life_and_reading_is_none() -> None:
    """A label that somebody sets counts, for nobody can tell what else was written before it."""
    first = lease.observe(None, _document("1", holderIdentity="other"), 10.0)
    again = lease.observe(first, _document("1", holderIdentity="other"), 20.0)
    later = lease.observe(again, _document("2", holderIdentity="other"), 30.0)
    assert (first.since, again.since, later.since) == (10.0, 10.0, 30.0)


def test_a_renewal_is_never_the_same_as_the_one_before() -> None:
    """A wall clock that stands still must not make a write that changes nothing, which nobody would see."""
    now = datetime(2026, 11, 21, tzinfo=UTC)
    term = Record("a", 15, _TIME, None, 0)
    assert lease.renewed(term, now, None).renewTime == _TIME
    assert lease.renewed(term, now, _TIME).renewTime == "2026-11-21T00:00:00.000001Z"


def test_times_are_written_as_api_servers_take_them() -> None:
    """UTC, six digits, Z: they refuse anything else."""
    east = timezone(timedelta(hours=2))
    assert lease.micro_time(datetime(2026, 11, 21, 2, 0, 0, 5, tzinfo=east)) == "2026-11-21T00:00:00.000005Z"


def test_a_term_is_ours_by_who_began_it_and_when() -> None:
    """Whatever renewal of it; another process may have our name."""
    term = Record("a", 15, _TIME, None, 3)
    assert lease.is_of(msgspec.structs.replace(term, renewTime=_TIME), term)
    assert not lease.is_of(Record(), None)
    for change in (
        {"holderIdentity": "b"},
        {"leaseDurationSeconds": 14},
        {"acquireTime": "2026-11-21T00:00:01.000000Z"},
        {"leaseTransitions": 4},
    ):
        assert not lease.is_of(msgspec.structs.replace(term, **change), term), change


def test_the_steady_clock_goes_on() -> None:
    before = lease.steady()
    assert lease.steady() >= before
