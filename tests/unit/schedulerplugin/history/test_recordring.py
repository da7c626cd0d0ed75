"""The ring of objects: nothing is lost that fits, nothing grows, and leaders continue each other's."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.history import NAME, Store, new_leader, party, plan
from tests.unit.history.test_summary import summed

from podium.api.records import MAX_PLANS, PlanMode, RecordedPlan, Result
from podium.history.records import STOPPED, counted, unfinished
from podium.history.summary import ModeSums
from podium.schedulerplugin.history.recordring import KEPT, MAX_BYTES, OBJECTS, Ring


def test_appended_plans_are_written_once() -> None:
    """The ring fills one object, and has nothing to write after its write."""
    store, ring = Store(), Ring(NAME)
    plans = [plan(at) for at in range(3)]
    for each in plans:
        assert ring.append(each)
    store.drain(ring)
    assert list(store.records) == [f"{NAME}-00"]
    assert store.plans() == plans
    assert ring.draft() is None


def test_a_plan_that_comes_while_one_is_written_is_written_next() -> None:
    store, ring = Store(), Ring(NAME)
    ring.append(plan(0))
    draft = ring.draft()
    assert draft is not None
    ring.append(plan(1))
    ring.saved(draft, store.put(draft))
    store.drain(ring)
    assert store.plans() == [plan(0), plan(1)]


def test_a_full_object_is_followed_by_the_next() -> None:
    store, ring = Store(), Ring(NAME)
    for at in range(MAX_PLANS + 1):
        ring.append(plan(at))
    store.drain(ring)
    assert [len(record.plans) for record in store.records.values()] == [MAX_PLANS, 1]
    assert [record.sequence for record in store.records.values()] == [1, 2]


def test_an_object_is_full_by_bytes_too() -> None:
    """Large plans make more objects, none of which exceeds the limit (Store.put checks)."""
    store, ring = Store(), Ring(NAME)
    units = tuple(party(f"{at:0200d}") for at in range(100))
    large = plan(0, units=units)
    size = len(msgspec.json.encode(large))
    for at in range(10):
        ring.append(plan(at, units=units))
        store.drain(ring)
    assert len(store.plans()) == 10
    assert len(store.records) == -(-10 // (MAX_BYTES // size))


def test_the_oldest_object_is_overwritten() -> None:
    """After its last object the ring starts again with the first."""
    store, ring = Store(), Ring(NAME)
    number = OBJECTS * MAX_PLANS + 1
    for at in range(number):
        ring.append(plan(at))
        store.drain(ring)
    assert len(store.records) == OBJECTS
    assert store.records[f"{NAME}-00"].plans == [plan(number - 1)]
    assert store.records[f"{NAME}-00"].sequence == OBJECTS + 1
    assert store.plans()[0] == plan(MAX_PLANS)


def test_a_new_leader_fills_the_newest_object_on() -> None:
    store, ring = Store(), Ring(NAME)
    for at in range(MAX_PLANS + 3):
        ring.append(plan(at))
    store.drain(ring)
    other = new_leader(store)
    other.append(plan(999))
    store.drain(other)
    assert store.records[f"{NAME}-01"].plans == [*(plan(MAX_PLANS + at) for at in range(3)), plan(999)]


def test_plans_before_the_restore_are_kept() -> None:
    """A list that fails at first stops no preemption."""
    store, ring = Store(), Ring(NAME)
    ring.append(plan(0))
    store.drain(ring)
    other = Ring(NAME)
    other.append(plan(1))
    other.restore(list(store.records.values()))
    store.drain(other)
    assert store.plans() == [plan(0), plan(1)]


def test_objects_of_others_in_the_namespace_are_let_alone() -> None:
    store, other = Store(), Ring("other")
    other.append(plan(0))
    store.drain(other)
    ring = new_leader(store)
    ring.append(plan(1))
    store.drain(ring)
    assert set(store.records) == {"other-00", f"{NAME}-00"}


def test_the_last_words_of_an_earlier_leader_are_kept() -> None:
    """Its write came after the read of the past: then the object has both, by time."""
    store, ring = Store(), Ring(NAME)
    ring.append(plan(0))
    store.drain(ring)
    later = new_leader(store)
    ring.append(plan(1))
    later.append(plan(2))
    store.drain(ring)
    store.drain(later)
    assert store.plans() == [plan(0), plan(1), plan(2)]


def test_an_earlier_leader_does_not_overwrite_what_a_later_one_began_anew() -> None:
    """The ring wrapped around meanwhile: its plans are older than all stored ones."""
    store, ring = Store(), Ring(NAME)
    ring.append(plan(0))
    store.drain(ring)
    later = new_leader(store)
    for at in range(1, OBJECTS * MAX_PLANS + 2):
        later.append(plan(at))
        store.drain(later)
    before = store.plans()
    ring.append(plan(70_000))
    store.drain(ring)
    assert store.plans() == before
    assert ring.dropped == 2


def test_a_deleted_object_is_created_again() -> None:
    store, ring = Store(), Ring(NAME)
    ring.append(plan(0))
    store.drain(ring)
    store.records.clear()
    ring.append(plan(1))
    store.drain(ring)
    assert store.plans() == [plan(0), plan(1)]


def test_unwritten_objects_are_bounded() -> None:
    """The newest objects are kept, and dropped ones are counted."""
    ring = Ring(NAME)
    number = (KEPT + 5) * MAX_PLANS
    for at in range(number):
        ring.append(plan(at))
    store = Store()
    store.drain(ring)
    assert ring.dropped == 5 * MAX_PLANS
    assert store.plans() == [plan(at) for at in range(ring.dropped, number)]


def test_a_plan_that_is_only_observed_is_told_once() -> None:
    """It is computed at every attempt of its preemptor; other victims are recorded, and each eviction."""
    ring = Ring(NAME)
    same = party("high")
    looks = [plan(at, PlanMode.OBSERVED, preemptor=same, units=(party("low"),)) for at in range(3)]
    assert [ring.append(each) for each in looks] == [True, False, False]
    assert ring.append(plan(4, PlanMode.OBSERVED, preemptor=same, units=(party("other"),)))
    assert ring.append(plan(6, preemptor=same, units=(party("low"),)))
    assert ring.append(plan(7, preemptor=same, units=(party("low"),)))


def test_plans_of_a_mode_of_another_version_are_dropped() -> None:
    """The API server refuses an object that holds such a plan; the other plans of the object stay."""
    store, earlier = Store(), Ring(NAME)
    for stored in (plan(0), plan(1, "Shadow"), plan(2)):
        earlier.append(stored)
    store.drain(earlier)
    ring = new_leader(store)
    ring.append(plan(3))
    store.drain(ring)
    assert store.plans() == [plan(0), plan(2), plan(3)]


def test_a_new_leader_remembers_what_was_observed() -> None:
    store, ring = Store(), Ring(NAME)
    ring.append(plan(0, PlanMode.OBSERVED))
    store.drain(ring)
    again = plan(0, PlanMode.OBSERVED)
    assert not new_leader(store).append(msgspec.structs.replace(again, time="2026-01-02T00:00:00Z"))


@given(st.lists(st.sampled_from(["append", "append", "write", "takeover", "delete"]), max_size=60))
def test_in_any_order_all_that_was_written_last_is_there(steps: list[str]) -> None:
    """Takeovers lose only unwritten plans of the former leader, and deleted objects their plans."""
    store, ring = Store(), Ring(NAME)
    unwritten: list[int] = []
    expected: set[int] = set()
    for at, step in enumerate(steps):
        match step:
            case "append":
                ring.append(plan(at))
                unwritten.append(at)
                expected.add(at)
            case "write":
                store.drain(ring)
                unwritten.clear()
            case "takeover":
                expected -= set(unwritten)
                unwritten.clear()
                ring = new_leader(store)
            case _:
                store.records.clear()
    store.drain(ring)
    times = [each.time for each in store.plans()]
    assert times == sorted(times)
    kept = {plan(at).time for at in expected}
    assert set(times) <= kept
    if "delete" not in steps:
        assert set(times) == kept


LOW = party("low"), party("other")
LEFT = plan(
    0,
    result=Result.FAILED,
    message=STOPPED,
    preemptor=party("high"),
    units=LOW,
    unitCount=2,
    podCount=1,
    violations=2,
    acceleratorSeconds=90,
    acceleratorSecondsSaved=80,
)
ENDED = plan(9, preemptor=party("high"), units=LOW[1:], unitCount=1, podCount=1, acceleratorSeconds=50)
WHOLE = msgspec.structs.replace(
    ENDED,
    units=LOW,
    unitCount=2,
    podCount=2,
    violations=2,
    acceleratorSeconds=90,
    acceleratorSecondsSaved=80,
)
SAVED = {"askedPods": 2, "savedPods": 1, "waitedMilliseconds": 9_000}
SAID = party("low", saving="Failed"), party("other", saving="Saved")


@pytest.mark.parametrize(
    ("later", "stored"),
    [
        pytest.param(ENDED, [WHOLE], id="what was left"),
        pytest.param(
            msgspec.structs.replace(ENDED, result=Result.FAILED, message=STOPPED),
            [msgspec.structs.replace(WHOLE, result=Result.FAILED, message=STOPPED)],
            id="left once more",
        ),
        pytest.param(
            msgspec.structs.replace(ENDED, **SAVED, units=SAID[1:], acceleratorSecondsSaved=7),
            [msgspec.structs.replace(WHOLE, **SAVED, units=(LOW[0], SAID[1]), acceleratorSecondsSaved=80)],
            id="asked to save",
        ),
        pytest.param(
            msgspec.structs.replace(ENDED, preemptor=party("another")),
            [LEFT, msgspec.structs.replace(ENDED, preemptor=party("another"))],
            id="of another",
        ),
        pytest.param(
            msgspec.structs.replace(ENDED, units=(party("third"),)),
            [LEFT, msgspec.structs.replace(ENDED, units=(party("third"),))],
            id="others go",
        ),
        pytest.param(
            msgspec.structs.replace(ENDED, mode=PlanMode.OBSERVED),
            [LEFT, msgspec.structs.replace(ENDED, mode=PlanMode.OBSERVED)],
            id="only observed",
        ),
    ],
)
@pytest.mark.parametrize("known", ["read before", "read after", "met"])
def test_a_resumed_plan_is_merged_with_its_beginning(
    later: RecordedPlan, stored: list[RecordedPlan], known: str
) -> None:
    """The result is the same whenever the past is read; other plans stay in place."""
    store, ring = Store(), Ring(NAME)
    ring.append(plan(0, preemptor=party("before")))
    ring.append(LEFT)
    if known == "met":
        other = new_leader(store)
        other.append(later)
        store.drain(ring)
    else:
        store.drain(ring)
        other = Ring(NAME)
        if known == "read before":
            other.restore(list(store.records.values()))
        other.append(later)
        if known == "read after":
            other.restore(list(store.records.values()))
    other.append(plan(10))
    store.drain(other)
    assert store.plans() == [plan(0, preemptor=party("before")), *stored, plan(10)]


def test_answers_stay_if_a_leader_is_stopped_after_the_wait() -> None:
    """The next leader asks no victim that was asked already, so its plan has none."""
    ring = Ring(NAME)
    ring.append(msgspec.structs.replace(LEFT, units=SAID, **SAVED))
    ring.append(ENDED)
    draft = ring.draft()
    assert draft is not None
    assert draft.plans == (msgspec.structs.replace(WHOLE, units=SAID, **SAVED),)


def test_a_resumed_plan_counts_once() -> None:
    """The next leader counts both as one, from the time it was ended."""
    store, ring = Store(), Ring(NAME)
    ring.append(LEFT)
    store.drain(ring)
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    assert unfinished(store.records.values(), begun) == [
        (begun, "uid-high", frozenset(("uid-low", "uid-other")))
    ]
    other = new_leader(store)
    other.append(ENDED)
    store.drain(other)
    assert counted(store.records.values(), begun) == [begun + timedelta(seconds=9)] * 2
    assert unfinished(store.records.values(), begun) == []
    summary = summed(*store.plans())
    assert summary.modes == (ModeSums("Enforced", 1, 0, 2, 2, {}, 2, 90, 80),)
