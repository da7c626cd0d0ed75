"""The queue: the next key, and the next attempt of a key without a node; no key and no event is lost."""

from collections.abc import Callable

import pytest
from tests.support.scheduling.fixedrooms import GANG, PODIUM_GANG, ROOM, A, B, C, ClusterQueries, evict, waits

from podium.schedulerplugin.scheduling.effects import Key
from podium.schedulerplugin.scheduling.entry import EntryPhase
from podium.schedulerplugin.scheduling.queue import Queue
from podium.schedulerplugin.scheduling.queueinghints import Hints


class Scene:
    """A queue and its hints."""

    def __init__(self, *keys: Key) -> None:
        self.hints = Hints()
        self.queue = Queue(self.hints)
        for key in keys:
            self.queue.enqueue(key, 5, 0.0)

    def order(self, now: float = 0.0) -> list[Key]:
        """Pop all ACTIVE keys."""
        keys = []
        while (key := self.queue.pop(now)) is not None:
            keys.append(key)
        return keys

    def fail(self, key: Key, now: float, times: int = 1) -> None:
        """Try a key this many times, without success."""
        for _ in range(times):
            self.queue.activate(key)
            assert self.queue.pop(now) == key
            self.queue.park(key, ROOM, now)


@pytest.mark.parametrize(
    "puts, order",
    [
        pytest.param([(A, 1, 0.0), (B, 9, 0.0)], [B, A], id="the highest priority first"),
        pytest.param([(A, -5, 0.0), (B, 0, 0.0)], [B, A], id="priorities below zero"),
        pytest.param([(A, 5, 9.0), (B, 5, 1.0)], [B, A], id="then the longest wait"),
        pytest.param([(C, 5, 0.0), (A, 5, 0.0), (B, 5, 0.0)], [A, B, C], id="then by name, not by arrival"),
        pytest.param(
            [(GANG, 5, 0.0), (PODIUM_GANG, 5, 0.0), (C, 5, 0.0), (B, 5, 0.0)],
            [B, PODIUM_GANG, GANG, C],
            id="a pod and a group may share a name",
        ),
        pytest.param([(A, 1, 0.0), (B, 2, 0.0), (A, 3, 0.0)], [A, B], id="a priority that rose"),
        pytest.param([(A, 3, 0.0), (B, 2, 0.0), (A, 1, 0.0)], [B, A], id="a priority that sank"),
    ],
)
def test_order(puts: list[tuple[Key, int, float]], order: list[Key]) -> None:
    """Keys are tried by priority, by how long they wait, by name."""
    scene = Scene()
    for put in puts:
        scene.queue.enqueue(*put)
    assert scene.order() == order


def test_a_namespace_with_slow_decisions_gets_a_quarter_of_the_time() -> None:
    """Its entries come after those of others whatever their priority, until the time is repaid."""
    slow = [("slow", f"pod-{number}") for number in range(3)]
    scene = Scene()
    for key in slow:
        scene.queue.enqueue(key, 9, 0.0)
    assert scene.queue.pop(1.0) == slow[0]
    scene.queue.back_off(slow[0], 1.0)
    scene.queue.demote(slow[0], 1.0, 1.0)
    scene.queue.enqueue(A, 5, 2.0)
    assert scene.order(2.0) == [A, *slow[1:], slow[0]]
    for key in (A, *slow):
        scene.queue.park(key, ROOM, 2.0)
        scene.queue.activate(key)
    assert scene.order(4.9) == [A, *slow]
    for key in (A, *slow):
        scene.queue.give_back(key)
    assert scene.order(5.0) == [*slow, A]


def test_an_entry_with_a_failed_bind_is_first_in_its_priority_once() -> None:
    """A key with `first` is before all of its priority and behind higher ones, until its next attempt."""
    scene = Scene(A, B, C)
    scene.queue.enqueue(GANG, 6, 0.0)
    scene.queue.activate(C, first=True)
    assert scene.order() == [GANG, C, A, B]
    for key in (A, B, C):
        scene.queue.park(key, ROOM, 0.0)
        scene.queue.activate(key)
    assert scene.order() == [A, B, C]


def test_an_entry_that_is_given_back_counts_as_never_tried() -> None:
    """A key that was popped and not tried returns to its place, with as many attempts."""
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
    assert scene.queue.phase_of(A) is EntryPhase.BACKOFF
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
    """An early attempt is within its backoff, however often it has failed."""
    scene = Scene()
    for attempts, (name, priority) in enumerate(woken.items(), 5):
        scene.queue.enqueue(("team-a", name), priority, 0.0)
        scene.fail(("team-a", name), 99.5, attempts)
    for name, priority in active.items():
        scene.queue.enqueue(("team-a", name), priority, 0.0)
    scene.queue.wake([("team-a", name) for name in woken], 99.5)
    assert scene.order(99.5) == [("team-a", name) for name in order]


def test_a_key_that_failed_with_an_error_is_not_tried_early() -> None:
    """A failed write would fail again; a wake does not change that."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.back_off(A, 0.0)
    scene.queue.enqueue(B, 1, 0.0)
    scene.queue.wake([A], 0.5)
    assert scene.order(0.5) == [B]
    assert scene.order(1.0) == [A]


def test_an_early_attempt_needs_a_wake_of_its_own() -> None:
    """A key that fails early waits until the next event."""
    scene = Scene(A)
    scene.fail(A, 0.0)
    scene.queue.wake([A], 0.0)
    assert scene.queue.pop(0.0) == A
    scene.queue.park(A, ROOM, 0.0)
    assert scene.order(299.0) == []


def test_early_attempts_use_a_quarter_of_the_time() -> None:
    """Early attempts are limited after a burst of a second; meanwhile lower keys are tried."""
    scene = Scene(A)
    now, attempts = 0.0, []
    scene.fail(A, now)
    scene.queue.charge([A], 60.0, now)
    while now < 100.0:
        scene.queue.wake([A], now)
        scene.queue.enqueue(B, 1, 0.0)
        key = scene.queue.pop(now)
        assert key is not None
        if key == A:
            attempts.append(now)
            scene.queue.park(A, ROOM, now)
            scene.queue.charge([A], 0.25, now)
        else:
            scene.queue.fail(B)
        now += 0.25
    assert attempts[:5] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert len(attempts) * 0.25 == pytest.approx(26, abs=0.5)


def test_a_woken_key_is_due_when_early_attempts_may_begin_again() -> None:
    """Its backoff may last longer."""
    scene = Scene(A)
    scene.fail(A, 0.0, 9)
    scene.queue.wake([A], 0.0)
    assert scene.queue.pop(0.0) == A
    scene.queue.park(A, ROOM, 0.0)
    scene.queue.wake([A], 0.0)
    scene.queue.charge([A], 1.5, 0.0)
    assert scene.queue.first(1.75) is None
    assert scene.queue.due(1.75) == 2.0
    assert scene.queue.first(2.0) == A


def test_a_backoff_that_has_passed_is_none() -> None:
    """A key that is woken long after its last attempt is tried at once."""
    scene = Scene(A)
    scene.fail(A, 0.0, 9)
    scene.queue.wake([A], 10.0)
    assert scene.queue.phase_of(A) is EntryPhase.ACTIVE


def test_an_attempt_that_failed_with_an_error_backs_off() -> None:
    """It waits from the moment it failed, whatever changes could help; a new key waits too."""
    scene = Scene(A, B)
    assert scene.queue.pop(0.0) == A
    scene.queue.back_off(A, 7.0)
    scene.queue.back_off(B, 7.5)
    assert scene.queue.keys(EntryPhase.BACKOFF) == [A, B]
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


def test_gated_entries_wait_until_they_are_opened() -> None:
    """A gate survives wakes, is no attempt, and is checked again after 5 minutes."""
    scene = Scene(A, B)
    scene.queue.gate(A, 0.0)
    scene.queue.gate(A, 200.0)
    scene.queue.wake([A], 1.0)
    scene.queue.park(B, ROOM, 0.0)
    scene.queue.open(B)
    assert scene.queue.depths() == {
        EntryPhase.ACTIVE: 1,
        EntryPhase.BACKOFF: 0,
        EntryPhase.UNSCHEDULABLE: 0,
        EntryPhase.GATED: 1,
    }
    assert scene.order() == [B]
    assert scene.queue.first(299.0) is None
    assert scene.queue.first(300.0) == A
    scene.queue.gate(A, 300.0)
    scene.queue.open(A)
    assert scene.queue.first(300.0) == A


def test_a_preemptor_waits_for_its_victims_after_its_preemption() -> None:
    """It is activated without a backoff."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.preempt(evict(A), ROOM, 0.0)
    scene.queue.park(A, ROOM._replace(awaited=frozenset({"u"})), 0.1)
    assert waits(scene.hints, A)
    scene.queue.activate(A)
    assert scene.queue.first(0.2) == A
    assert not waits(scene.hints, A)


def test_each_change_of_phase_is_counted_by_its_reason() -> None:
    """The reasons have kube-scheduler's names; an entry that was given back counts as never popped."""
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


@pytest.mark.parametrize(
    ("change", "phase"),
    [
        pytest.param(lambda _: None, EntryPhase.UNSCHEDULABLE, id="nothing"),
        pytest.param(lambda hints: hints.note_room(1, 0), EntryPhase.BACKOFF, id="room was made"),
        pytest.param(lambda hints: hints.note_node(1), EntryPhase.BACKOFF, id="a node came"),
        pytest.param(lambda hints: hints.note_gone("u"), EntryPhase.BACKOFF, id="an awaited pod went"),
        pytest.param(Hints.note_rules, EntryPhase.BACKOFF, id="a class changed"),
        pytest.param(Hints.note_restricted, EntryPhase.UNSCHEDULABLE, id="claims changed, and it has none"),
    ],
)
@pytest.mark.parametrize("looked", [False, True], ids=["not looked at", "looked at"])
def test_a_change_during_an_attempt_counts_when_the_entry_is_parked(
    change: Callable[[Hints], None], phase: EntryPhase, looked: bool
) -> None:
    """The change counts even when other entries received it meanwhile."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    change(scene.hints)
    if looked:
        scene.hints.helped(ClusterQueries())
    scene.queue.park(A, ROOM._replace(awaited=frozenset({"u"})), 0.0)
    assert scene.queue.phase_of(A) is phase


@pytest.mark.parametrize("changed", [False, True])
def test_a_change_during_a_preemption_makes_the_entry_active_at_its_end(changed: bool) -> None:
    """Without such a change the entry waits for its victims."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.preempt(evict(A), ROOM, 0.0)
    assert scene.queue.first(1000.0) is None
    if changed:
        scene.queue.wake([A], 0.0)
    scene.queue.park(A, ROOM, 0.0)
    assert scene.queue.phase_of(A) is (EntryPhase.ACTIVE if changed else EntryPhase.UNSCHEDULABLE)


def test_an_entry_with_a_failed_attempt_is_out_of_the_queue_until_it_is_added_again() -> None:
    """It starts again without a backoff."""
    scene = Scene(A)
    assert scene.queue.pop(0.0) == A
    scene.queue.fail(A)
    assert A not in scene.queue
    assert scene.queue.phase_of(A) is EntryPhase.RETRYING
    scene.queue.enqueue(A, 5, 0.0)
    assert scene.queue.pop(0.0) == A
