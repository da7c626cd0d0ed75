"""The queue: the next key, and the next attempt of a key without a node: no key and no event is lost."""

from dataclasses import dataclass

import pytest
from tests.scheduler.ground import GANG, PODIUM_GANG, ROOM, A, B, C, Ground, waits

from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.scheduling.hints import Hints
from podium.schedulerplugin.scheduling.queue import Pool, Queue


class Scene:
    """A queue and its hints."""

    def __init__(self, *keys: Key) -> None:
        self.hints = Hints()
        self.queue = Queue(self.hints)
        for key in keys:
            self.queue.put(key, 5, 0.0)

    def order(self, now: float = 0.0) -> list[Key]:
        """Take all that is ACTIVE."""
        found = []
        while (key := self.queue.pop(now)) is not None:
            found.append(key)
        return found

    def fail(self, key: Key, now: float, times: int = 1) -> None:
        """Try a key so often, in vain each time."""
        for _ in range(times):
            self.queue.activate(key)
            assert self.queue.pop(now) == key
            self.queue.park(key, ROOM, now)


@pytest.mark.parametrize(
    "puts, order",
    [
        pytest.param([(A, 1, 0.0), (B, 9, 0.0)], [B, A], id="the highest priority first"),
        pytest.param([(A, -5, 0.0), (B, 0, 0.0)], [B, A], id="priorities below zero"),
        pytest.param([(A, 5, 9.0), (B, 5, 1.0)], [B, A], id="then who waits longest"),
        pytest.param([(C, 5, 0.0), (A, 5, 0.0), (B, 5, 0.0)], [A, B, C], id="then by name, not by arrival"),
        pytest.param(
            [(GANG, 5, 0.0), (PODIUM_GANG, 5, 0.0), (C, 5, 0.0), (B, 5, 0.0)],
            [B, PODIUM_GANG, GANG, C],
            id="pods and groups of one name are told apart",
        ),
        pytest.param([(A, 1, 0.0), (B, 2, 0.0), (A, 3, 0.0)], [A, B], id="a priority that rose"),
        pytest.param([(A, 3, 0.0), (B, 2, 0.0), (A, 1, 0.0)], [B, A], id="a priority that sank"),
    ],
)
def test_order(puts: list[tuple[Key, int, float]], order: list[Key]) -> None:
    """Keys are tried by priority, by how long they wait, by name."""
    scene = Scene()
    for put in puts:
        scene.queue.put(*put)
    assert scene.order() == order


def test_who_failed_to_be_bound_goes_first_among_its_equals_once() -> None:
    """`first` is before all of the same priority and behind higher ones, and ends with the next attempt."""
    scene = Scene(A, B, C)
    scene.queue.put(GANG, 6, 0.0)
    scene.queue.activate(C, first=True)
    assert scene.order() == [GANG, C, A, B]
    for key in (A, B, C):
        scene.queue.activate(key)
        scene.queue.park(key, ROOM, 0.0)
    assert scene.order() == [A, B, C]


def test_what_is_given_back_was_never_tried() -> None:
    """A key that was popped and not tried is where it was, with as many attempts."""
    scene = Scene(A, B)
    scene.queue.activate(B, first=True)
    assert scene.queue.pop(0.0) == B
    scene.queue.give_back(B)
    assert scene.queue.first(0.0) == B
    scene.fail(B, 0.0)
    scene.queue.wake([B], 0.0)
    assert scene.queue.due(0.0) == 1.0


@pytest.mark.parametrize(
    "attempts, seconds", [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0), (5000, 10.0)]
)
def test_backoff(attempts: int, seconds: float) -> None:
    """The wait after an error doubles from 1 to 10 seconds, whatever wakes a key."""
    scene = Scene(A)
    scene.fail(A, 100.0, attempts - 1)
    scene.queue.activate(A)
    assert scene.queue.pop(100.0) == A
    scene.queue.back_off(A, 100.0)
    scene.queue.wake([A], 100.5)
    assert scene.queue.pool_of(A) is Pool.BACKOFF
    assert scene.queue.due(100.5) == 100.0 + seconds
    assert scene.queue.first(100.0 + seconds - 0.25) is None
    assert scene.queue.first(100.0 + seconds) == A


@pytest.mark.parametrize(
    "woken, active, order",
    [
        pytest.param({"high": 7, "mid": 5}, {}, ["high", "mid"], id="no key is ACTIVE"),
        pytest.param({"high": 7, "mid": 5}, {"low": 3}, ["high", "mid", "low"], id="a lower key is ACTIVE"),
        pytest.param({"mid": 5}, {"low": 3, "high": 7}, ["high", "mid", "low"], id="between ACTIVE keys"),
        pytest.param({"b": 5}, {"c": 5, "high": 7}, ["high", "c", "b"], id="after its equals"),
    ],
)
def test_a_woken_key_is_tried_before_lower_ones(
    woken: dict[str, int], active: dict[str, int], order: list[str]
) -> None:
    """Within its backoff, however often it has failed."""
    scene = Scene()
    for attempts, (name, priority) in enumerate(woken.items(), 5):
        scene.queue.put(("team-a", name), priority, 0.0)
        scene.fail(("team-a", name), 99.5, attempts)
    for name, priority in active.items():
        scene.queue.put(("team-a", name), priority, 0.0)
    scene.queue.wake([("team-a", name) for name in woken], 99.5)
    assert scene.order(99.5) == [("team-a", name) for name in order]


def test_a_key_that_failed_with_an_error_is_not_tried_early() -> None:
    """A write that failed would fail again; a wake does not change that."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.back_off(A, 0.0)
    scene.queue.put(B, 1, 0.0)
    scene.queue.wake([A], 0.5)
    assert scene.order(0.5) == [B]
    assert scene.order(1.0) == [A]


def test_an_early_attempt_needs_a_wake_of_its_own() -> None:
    """A key that fails early waits until something happens again."""
    scene = Scene(A)
    scene.fail(A, 0.0)
    scene.queue.wake([A], 0.0)
    assert scene.queue.pop(0.0) == A
    scene.queue.park(A, ROOM, 0.0)
    assert scene.order(299.0) == []


def test_early_attempts_use_a_quarter_of_the_time() -> None:
    """That begins after a burst of a second; meanwhile lower keys are tried. Other attempts cost nothing."""
    scene = Scene(A)
    now, attempts = 0.0, []
    scene.fail(A, now)
    scene.queue.charge([A], 60.0, now)
    while now < 100.0:
        scene.queue.wake([A], now)
        scene.queue.put(B, 1, 0.0)
        key = scene.queue.pop(now)
        assert key is not None
        if key == A:
            attempts.append(now)
            scene.queue.park(A, ROOM, now)
            scene.queue.charge([A], 0.25, now)
        else:
            scene.queue.drop(B)
        now += 0.25
    assert attempts[:5] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert len(attempts) * 0.25 == pytest.approx(26, abs=0.5)


def test_a_woken_key_is_due_when_early_attempts_may_begin_again() -> None:
    """Its backoff may last longer."""
    scene = Scene(A)
    scene.fail(A, 0.0, 9)
    scene.queue.wake([A], 0.0)
    assert scene.queue.pop(0.0) == A
    scene.queue.wake([A], 0.0)
    scene.queue.park(A, ROOM, 0.0)
    scene.queue.charge([A], 1.5, 0.0)
    assert scene.queue.first(1.75) is None
    assert scene.queue.due(1.75) == 2.0
    assert scene.queue.first(2.0) == A


def test_a_backoff_that_has_passed_is_none() -> None:
    """A key that is woken long after its last attempt is tried at once."""
    scene = Scene(A)
    scene.fail(A, 0.0, 9)
    scene.queue.wake([A], 10.0)
    assert scene.queue.pool_of(A) is Pool.ACTIVE


def test_who_was_scheduled_in_part_begins_anew() -> None:
    """After `forget` the waits start with 1 second."""
    scene = Scene(GANG)
    scene.fail(GANG, 0.0, 4)
    scene.queue.forget(GANG)
    scene.fail(GANG, 50.0)
    scene.queue.put(A, 9, 0.0)
    scene.queue.wake([GANG], 50.0)
    assert scene.queue.due(50.0) == 51.0


def test_an_attempt_that_failed_with_an_error_backs_off() -> None:
    """It waits from the moment it failed, whatever changes could help; a new key waits, too."""
    scene = Scene(A, B)
    assert scene.queue.pop(0.0) == A
    scene.queue.back_off(A, 7.0)
    scene.queue.back_off(B, 7.5)
    assert scene.queue.keys(Pool.BACKOFF) == [A, B]
    assert scene.order(8.0) == [A]
    assert scene.order(8.5) == [B]


@pytest.mark.parametrize(
    "at, due",
    [
        pytest.param(None, 300.0, id="the last resort"),
        pytest.param(40.0, 40.0, id="a window that ends"),
        pytest.param(4000.0, 300.0, id="a window that ends after the last resort"),
    ],
)
def test_parked_keys_come_back_by_themselves(at: float | None, due: float) -> None:
    """A key is tried after 5 minutes, or at its time, whatever hints say."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.park(A, ROOM, 0.0, at)
    assert scene.queue.due(0.0) == due
    assert scene.queue.first(due - 1) is None
    assert scene.queue.first(due) == A
    assert not waits(scene.hints, A)


def test_gated_keys_wait_for_who_opens_them() -> None:
    """A gate outlasts wakes, is no attempt, and is checked again after 5 minutes."""
    scene = Scene(A, B)
    scene.queue.gate(A, 0.0)
    scene.queue.gate(A, 200.0)
    scene.queue.wake([A], 1.0)
    scene.queue.park(B, ROOM, 0.0)
    scene.queue.open(B)
    assert scene.queue.depths() == {Pool.ACTIVE: 1, Pool.BACKOFF: 0, Pool.UNSCHEDULABLE: 0, Pool.GATED: 1}
    assert scene.order() == [B]
    assert scene.queue.first(299.0) is None
    assert scene.queue.first(300.0) == A
    scene.queue.gate(A, 300.0)
    scene.queue.open(A)
    assert scene.queue.first(300.0) == A


def test_a_preemptor_waits_for_its_victims_from_its_gate() -> None:
    """From GATED a key can be parked, and is activated without a backoff."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.gate(A, 0.0)
    scene.queue.park(A, ROOM._replace(awaited=frozenset({"u"})), 0.1)
    assert waits(scene.hints, A)
    scene.queue.activate(A)
    assert scene.queue.first(0.2) == A
    assert not waits(scene.hints, A)


def test_who_came_where_is_counted_by_what_brought_it() -> None:
    """Each way into a pool is counted by upstream's name; a key that was returned was never away."""
    scene = Scene(A, B)
    scene.queue.gate(B, 0.0)
    scene.queue.open(B)
    assert scene.queue.pop(0.0) == A
    scene.queue.give_back(A)
    scene.fail(A, 0.0)
    scene.queue.wake([A], 0.0)
    assert scene.queue.first(1.0) == A
    scene.queue.park(B, ROOM, 1.0)
    assert scene.queue.pop(1.0) == A
    scene.queue.gate(A, 1.0)
    scene.queue.activate(A)
    scene.queue.back_off(B, 1.0)
    assert {f"{pool} {event}": number for (pool, event), number in scene.queue.entered.items()} == {
        "active UnscheduledPodAdd": 2,
        "gated UnscheduledPodUpdate": 1,
        "active UnscheduledPodUpdate": 1,
        "unschedulable ScheduleAttemptFailure": 1,
        "backoff ClusterEvent": 1,
        "active BackoffComplete": 1,
        "gated ScheduleAttemptFailure": 1,
        "active ForceActivate": 1,
        "backoff ScheduleAttemptFailure": 1,
    }


@dataclass
class Flight:
    """Something that happens to a key in flight, and where it is when it is parked then."""

    event: str
    pool: Pool


@pytest.mark.parametrize(
    "flight",
    [
        pytest.param(Flight("nothing", Pool.UNSCHEDULABLE), id="nothing"),
        pytest.param(Flight("put", Pool.BACKOFF), id="its pods changed"),
        pytest.param(Flight("wake", Pool.BACKOFF), id="woken"),
        pytest.param(Flight("open", Pool.ACTIVE), id="opened"),
        pytest.param(Flight("activate", Pool.ACTIVE), id="activated"),
        pytest.param(Flight("room", Pool.BACKOFF), id="room was made"),
        pytest.param(Flight("node", Pool.BACKOFF), id="a node came"),
        pytest.param(Flight("gone", Pool.BACKOFF), id="an awaited pod went"),
        pytest.param(Flight("rules", Pool.BACKOFF), id="a class changed"),
        pytest.param(Flight("volumes", Pool.UNSCHEDULABLE), id="claims changed, of which it has none"),
    ],
)
@pytest.mark.parametrize("looked", [False, True], ids=["not looked at", "looked at"])
def test_events_in_flight_count_when_the_key_comes_back(flight: Flight, looked: bool) -> None:
    """An event while a key is in flight is not lost, even when other keys received it meanwhile."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    match flight.event:
        case "put":
            scene.queue.put(A, 5, 0.0)
        case "wake":
            scene.queue.wake([A], 0.0)
        case "open":
            scene.queue.open(A)
        case "activate":
            scene.queue.activate(A)
        case "room":
            scene.hints.note_room(1, 0)
        case "node":
            scene.hints.note_node(1)
        case "gone":
            scene.hints.note_gone("u")
        case "rules":
            scene.hints.note_rules()
        case "volumes":
            scene.hints.note_volumes()
        case _:
            assert flight.event == "nothing"
    if looked:
        scene.hints.helped(Ground())
    scene.queue.park(A, ROOM._replace(awaited=frozenset({"u"})), 0.0)
    assert scene.queue.pool_of(A) is flight.pool


def test_an_event_in_flight_counts_for_a_gate_too() -> None:
    """An event that would have opened a gate while a key was in flight opens it."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.open(A)
    scene.queue.gate(A, 0.0)
    assert scene.queue.pool_of(A) is Pool.ACTIVE


def test_who_came_anew_is_not_parked_by_an_attempt_at_the_old_one() -> None:
    """A pod that is recreated while its namesake is tried stays to be tried."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.drop(A)
    scene.queue.park(A, ROOM, 0.0)
    assert A not in scene.queue
    scene.queue.put(A, 5, 0.0)
    scene.queue.park(A, ROOM, 0.0)
    assert scene.queue.first(0.0) == A
