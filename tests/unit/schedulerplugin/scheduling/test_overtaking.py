"""No entry is placed on room that an entry of higher priority in backoff could have used at that moment.

Before each step a separate engine on the current cluster decides which entries in backoff fit. If the step
then binds pods of an entry of lower priority, that is a violation.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.preemption.scene import group, node
from tests.support.scheduling.rig import World, pod

from podium.api.membership import GroupKey
from podium.planner.preemption.outcome import Outcome
from podium.schedulerplugin.scheduling.effects import Bind, Effect, Key, Moment
from podium.schedulerplugin.scheduling.entry import QUEUED, EntryPhase
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

_sizes = st.sampled_from([1, 1, 2, 3])
_priorities = st.sampled_from([0, 5, 5, 10])


class Overtaking(RuleBasedStateMachine):
    """Pods and gangs of three priorities, on changing nodes, with or without a pause."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.world = self.new_world()
        self.step, self.world.scheduler.step = self.world.scheduler.step, self.judged  # type: ignore[method-assign]

    def new_world(self) -> World:
        return World(node("n0", 1))

    def judged(self, moment: Moment) -> list[Effect]:
        """Take a step, and compare its binds with the entries in backoff that fit before it."""
        backoff = self.keys(EntryPhase.BACKOFF)
        fits = {key: self.priority(key) for key in backoff if self.counts(key) and self.fits(key)}
        priorities = {key: self.priority(key) for key in self.waiting()}
        effects = self.step(moment)
        for effect in effects:
            if isinstance(effect, Bind):
                higher = [key for key, priority in fits.items() if priority > priorities[effect.key]]
                assert not higher, f"{effect.key} takes room that {higher} could take"
        return effects

    def counts(self, key: Key) -> bool:
        """Return whether only room may keep an entry waiting."""
        del key
        return True

    def fits(self, key: Key) -> bool:
        world = self.world
        return (
            LiveEngine(world.state, world.live.engine).decide(key, world.moment.now).outcome is Outcome.FITS
        )

    def waiting(self) -> list[Key]:
        return [key for pool in QUEUED for key in self.keys(pool)]

    def keys(self, pool: EntryPhase) -> list[Key]:
        """Return the entries of a pool, except for deleted lone pods."""
        keys = self.world.scheduler.queue.keys(pool)
        return [key for key in keys if isinstance(key, GroupKey) or key in self.world.state.pods]

    def priority(self, key: Key) -> int:
        state = self.world.state
        if isinstance(key, GroupKey):
            return state.groups[key].priority or 0
        return state.pods[key].spec.priority or 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    @rule(cpu=_sizes, priority=_priorities)
    def a_pod_is_created(self, cpu: int, priority: int) -> None:
        self.world.run(pod(self.fresh("p"), cpu, priority))

    @rule(cpu=st.integers(1, 2), priority=_priorities, size=st.integers(2, 4))
    def a_gang_is_created(self, cpu: int, priority: int, size: int) -> None:
        name = self.fresh("g")
        members = [pod(f"{name}-{at}", cpu, priority, group=name) for at in range(size)]
        self.world.run(group(name, priority, size), members)

    @rule(cpu=_sizes, together=st.booleans())
    def a_node_comes(self, cpu: int, together: bool) -> None:
        """Add a node; the scheduler sees it at once, or together with the next event."""
        self.world.apply(node(self.fresh("n"), cpu))
        if not together:
            self.world.run()

    @rule(which=st.integers(0, 20), together=st.booleans())
    def a_pod_ends(self, which: int, together: bool) -> None:
        running = sorted(self.world.bound())
        if running:
            self.world.die(running[which % len(running)])
        if not together:
            self.world.run()

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 3.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.later(seconds)

    @invariant()
    def no_entry_that_fits_waits_when_the_scheduler_rests(self) -> None:
        """If no entry is ACTIVE, an entry in backoff is tried at once."""
        scheduler = self.world.scheduler
        if not scheduler.has_work(self.world.seconds):
            waiting = filter(self.counts, self.keys(EntryPhase.BACKOFF))
            assert not [key for key in waiting if self.fits(key)]


Overtaking.TestCase.settings = settings(stateful_step_count=20)
test_no_entry_overtakes_a_higher_one_in_backoff = Overtaking.TestCase
