"""A gang that holds room delays no entry of higher priority, and no entry for ever."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import node
from tests.support.scheduling.rig import World, pod
from tests.unit.schedulerplugin.scheduling.test_overtaking import Overtaking

from podium.api.membership import GroupKey
from podium.planner.settings import PreemptionMode
from podium.schedulerplugin.scheduling.effects import Effect, Key, Moment
from podium.schedulerplugin.scheduling.entry import EntryPhase

HOLD = 30


class Holding(Overtaking):
    """The events of Overtaking, while waiting gangs hold room."""

    def __init__(self) -> None:
        super().__init__()
        # When the last hold began and ended; None while no hold has ended.
        self.began = 0.0
        self.last: tuple[float, float] | None = None

    def new_world(self) -> World:
        return World(node("n0", 1), gang_hold_seconds=HOLD)

    @initialize(mode=st.sampled_from([PreemptionMode.ENFORCE, PreemptionMode.OFF]), busy=st.integers(0, 3))
    def a_gang_waits(self, mode: PreemptionMode, busy: int) -> None:
        """It holds the free room of three nodes, if that is too little for it."""
        self.world.live = self.world.live._replace(mode=mode)
        for at in range(1, 4):
            self.world.apply(node(f"n{at}", 1))
        for at in range(busy):
            self.world.apply(pod(f"busy-{at}", 1, 5, node=f"n{at}"))
        self.a_gang_is_created(1, 5, 4)

    @rule(seconds=st.sampled_from([10.0, HOLD, 2 * HOLD]))
    def a_long_time_passes(self, seconds: float) -> None:
        self.world.later(seconds)

    @rule(which=st.integers(0, 20))
    def a_waiting_pod_is_deleted(self, which: int) -> None:
        pods = sorted(name for (_, name) in self.world.state.pods if name not in self.world.bound())
        if pods:
            self.world.die(pods[which % len(pods)])
        self.world.run()

    @rule(which=st.integers(0, 20))
    def another_scheduler_binds_a_pod(self, which: int) -> None:
        free = sorted(name for name, room in self.free().items() if room >= 1)
        if free:
            name = self.fresh("foreign")
            self.world.run(pod(name, 1, 5, node=free[which % len(free)], schedulerName="other"))

    @rule(seconds=st.sampled_from([0, HOLD]))
    def the_setting_changes(self, seconds: int) -> None:
        self.world.live = self.world.live._replace(gang_hold_seconds=seconds)
        self.world.scheduler.switched()
        self.world.run()

    def judged(self, moment: Moment) -> list[Effect]:
        """Check the step's binds, and that a hold starts only after a pause."""
        hold = self.world.scheduler.holds
        before = hold.holder
        effects = super().judged(moment)
        if before is not None and hold.holder is None:
            self.last = self.began, moment.seconds
        elif before is None and hold.holder is not None:
            assert self.last is None or moment.seconds - self.last[1] >= self.last[1] - self.last[0]
            self.began = moment.seconds
        return effects

    def counts(self, key: Key) -> bool:
        """Return whether an entry is of higher priority than the gang that holds room, or that gang."""
        holder = self.world.scheduler.holds.holder
        return holder is None or key == holder or self.priority(key) > self.priority(holder)

    def free(self) -> dict[str, float]:
        """Return the free cpus of each node by the API server's objects."""
        free = {
            name: float(str((each.status.allocatable or {})["cpu"])) if each.status is not None else 0.0
            for name, each in self.world.state.nodes.items()
        }
        for (_, name), where in ((key, each.spec.nodeName) for key, each in self.world.state.pods.items()):
            if where:
                free[where] -= self.cpu(name)
        return free

    def cpu(self, name: str) -> float:
        resources = (self.world.state.pods[NS, name].spec.containers or [])[0].resources
        assert resources is not None
        return float(str((resources.requests or {})["cpu"]))

    @invariant()
    def no_hold_lasts_longer_than_it_may(self) -> None:
        world = self.world
        if world.scheduler.holds.holder is not None and not world.scheduler.has_work(world.seconds):
            assert world.seconds < self.began + HOLD

    @invariant()
    def only_free_room_is_held_and_by_one_gang(self) -> None:
        scheduler, free = self.world.scheduler, self.free()
        if scheduler.has_work(self.world.seconds):
            return
        engine = scheduler.engine
        for row in engine.nominated().tolist():
            each = engine.snapshot.pods[row]
            assert each is not None
            if scheduler.entries.keys((row,)) == {scheduler.holds.holder}:
                free[engine.nomination(row)] -= self.cpu(each.metadata.name or "")
            else:
                assert self.world.nominated(each.metadata.name or "") == ""
        assert min(free.values(), default=0) >= 0

    @invariant()
    def no_higher_entry_that_fits_waits_for_a_change(self) -> None:
        """An entry that would fit without the hold is not parked until the hold ends."""
        scheduler, holder = self.world.scheduler, self.world.scheduler.holds.holder
        if holder is None or scheduler.has_work(self.world.seconds):
            return
        parked = self.keys(EntryPhase.UNSCHEDULABLE)
        higher = [key for key in parked if self.priority(key) > self.priority(holder)]
        assert not [key for key in higher if self.fits(key)]

    def teardown(self) -> None:
        """Without a hold every entry that fits is placed."""
        self.world.live = self.world.live._replace(gang_hold_seconds=0)
        self.world.scheduler.switched()
        self.world.later(20)
        waiting = [key for key in self.waiting() if not isinstance(key, GroupKey) or self.ready(key)]
        assert not [key for key in waiting if self.fits(key)]

    def ready(self, key: GroupKey) -> bool:
        least = self.world.state.groups[key].min_count or 0
        return len(self.world.state.members(key)) >= least


Holding.TestCase.settings = settings(stateful_step_count=25)
test_a_hold_delays_no_higher_entry_and_ends = Holding.TestCase
