"""The contents of a Lease, read and written, as values."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import msgspec
import pytest

from podium.api.times import micro_time
from podium.runtime import host, leaserecord
from podium.runtime.leaserecord import ObservedLease, Record, Terms

_TERMS = Terms()
_TIME = "2026-11-21T00:00:00.000000Z"


class _Free(NamedTuple):
    record: Record
    age: float
    wanted: float


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(_Free(Record(), 0, 0), id="empty record"),
        pytest.param(_Free(Record("", 15), 0, 0), id="no holder"),
        pytest.param(_Free(Record("other", 15), 0, 15), id="just changed"),
        pytest.param(_Free(Record("other", 15), 14, 1), id="not yet"),
        pytest.param(_Free(Record("other", 15), 15, 0), id="expired"),
        pytest.param(_Free(Record("other", 60), 15, 45), id="the holder's own duration counts"),
        pytest.param(_Free(Record("other"), 5, 10), id="no duration is ours"),
        pytest.param(
            _Free(Record("other", 15, renewTime="9999-01-01T00:00:00.000000Z"), 15, 0), id="no times"
        ),
    ],
)
def test_a_lease_is_free_without_a_holder_or_after_silence(case: _Free) -> None:
    seen = ObservedLease({}, "7", case.record, 100.0)
    assert leaserecord.free_in(seen, _TERMS, 100.0 + case.age) == case.wanted


def _document(version: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u", "resourceVersion": version}, "spec": spec}


def test_any_write_is_a_sign_of_life_and_reading_is_none() -> None:
    """A label set by another client counts, since a write before it may have been overwritten unseen."""
    first = leaserecord.observe(None, _document("1", holderIdentity="other"), 10.0)
    again = leaserecord.observe(first, _document("1", holderIdentity="other"), 20.0)
    later = leaserecord.observe(again, _document("2", holderIdentity="other"), 30.0)
    assert (first.since, again.since, later.since) == (10.0, 10.0, 30.0)


_NOW = datetime(2026, 11, 21, tzinfo=UTC)
_HELD = msgspec.to_builtins(Record("other", 60, _TIME, _TIME, 3))
_RELEASED = msgspec.to_builtins(leaserecord.released(Record("other", 60, _TIME, _TIME, 3), _NOW))
_EMPTIED = {**_HELD, "holderIdentity": ""}


@pytest.mark.parametrize(
    ("looks", "emptied"),
    [
        pytest.param([None], False, id="there is none"),
        pytest.param([{}], False, id="a Lease that never had a holder"),
        pytest.param([_RELEASED], False, id="given back"),
        pytest.param([_HELD, _RELEASED], False, id="released while observed"),
        pytest.param([_RELEASED, None], False, id="given back and then deleted"),
        pytest.param([_EMPTIED], True, id="emptied"),
        pytest.param([{**_EMPTIED, "holderIdentity": None}], True, id="emptied by null"),
        pytest.param([_HELD, _EMPTIED], True, id="emptied while observed"),
        pytest.param([_HELD, {}], True, id="blanked"),
        pytest.param([_HELD, None], True, id="deleted"),
        pytest.param([_HELD, None, None], True, id="still deleted"),
        pytest.param([_EMPTIED, None], True, id="emptied and then deleted"),
        pytest.param([_HELD, None, _HELD], False, id="recreated by another"),
    ],
)
def test_a_lease_without_a_holder_was_given_back_or_torn_from_one(
    looks: list[dict[str, Any] | None], emptied: bool
) -> None:
    """The former holder may not know yet, so the lease stays blocked for a term, whatever its duration."""
    seen: ObservedLease | None = None
    for at, spec in enumerate(looks):
        document = {} if spec is None else _document(str(at), **spec)
        seen = leaserecord.observe(seen, document, 100.0)
    assert seen is not None
    assert seen.emptied == emptied
    if not seen.record.holderIdentity:
        assert leaserecord.free_in(seen, _TERMS, 101.0) == (14.0 if emptied else 0.0)


def test_how_long_there_is_no_lease_is_counted_from_the_first_look() -> None:
    first = leaserecord.observe(None, {}, 10.0)
    assert leaserecord.observe(first, {}, 20.0).since == 10.0


def test_a_renewal_is_never_the_same_as_the_one_before() -> None:
    """A stopped wall clock must not make a write without a change, which no watcher would see."""
    now = datetime(2026, 11, 21, tzinfo=UTC)
    term = Record("a", 15, _TIME, None, 0)
    assert leaserecord.renewed(term, now, None).renewTime == _TIME
    assert leaserecord.renewed(term, now, _TIME).renewTime == "2026-11-21T00:00:00.000001Z"


def test_times_are_written_as_api_servers_take_them() -> None:
    """Times are UTC with six digits and Z: servers refuse any other form."""
    east = timezone(timedelta(hours=2))
    assert micro_time(datetime(2026, 11, 21, 2, 0, 0, 5, tzinfo=east)) == "2026-11-21T00:00:00.000005Z"


def test_a_term_is_identified_by_holder_and_start() -> None:
    """Any renewal counts; another process may have our name."""
    term = Record("a", 15, _TIME, None, 3)
    assert leaserecord.is_of(msgspec.structs.replace(term, renewTime=_TIME), term)
    assert not leaserecord.is_of(Record(), None)
    for change in (
        {"holderIdentity": "b"},
        {"leaseDurationSeconds": 14},
        {"acquireTime": "2026-11-21T00:00:01.000000Z"},
        {"leaseTransitions": 4},
    ):
        assert not leaserecord.is_of(msgspec.structs.replace(term, **change), term), change


def test_the_steady_clock_goes_on() -> None:
    before = host.steady()
    assert host.steady() >= before
