"""A victim that cannot be evicted stays alone: plans are without it, and no other pod goes in vain for it.

The writes of a preemption are those of the evictor, against an API server that refuses some of them for ever.
"""

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.recording import Write
from tests.support.scheduling.rig import World, pod
from tests.unit.schedulerplugin.scheduling.test_scheduler_begun import marked_for_deletion

from podium.api.schedulable import Schedulable
from podium.errors import PodiumError
from podium.kube.connection import RefusedError
from podium.kube.preconditions import StaleError
from podium.schedulerplugin.scheduling.effects import Evict, RefusedVictim

DENIED = RefusedError("https://api", "DELETE", 403, "Forbidden", "a policy denies it")
TOO_LARGE = RefusedError("https://api", "DELETE", 500, "", "etcdserver: request is too large")
IN_TROUBLE = RefusedError("https://api", "DELETE", 500, "InternalError", "no")
CONFLICT = StaleError(RefusedError("https://api", "DELETE", 409, "Conflict", "no"), gone=False)
ANSWERS = {
    "denied": DENIED,
    "too large": TOO_LARGE,
    "in trouble": IN_TROUBLE,
    "a conflict": CONFLICT,
    "busy": RefusedError("https://api", "DELETE", 429, "TooManyRequests", "later"),
    "no answer": PodiumError("the connection was lost"),
}
_answers = st.sampled_from(list(ANSWERS.values()))
_whole_hour = 3600.0


def refuse_deletes(world: World, *names: str, answer: Exception = DENIED) -> None:
    world.refusals |= {Write("delete", name): answer for name in names}


def touch(world: World, name: str) -> None:
    """Write a pod in another version."""
    stored = world.state.pods[NS, name]
    assert isinstance(stored, Schedulable)
    world.version += 1
    metadata = msgspec.structs.replace(stored.metadata, resourceVersion=str(world.version))
    world.run(msgspec.structs.replace(stored, metadata=metadata))


@pytest.mark.parametrize("answer", [DENIED, TOO_LARGE], ids=["denied", "too large"])
def test_the_next_plan_is_without_it_at_once(answer: RefusedError) -> None:
    """The clock does not move."""
    world = World(node("n1", 1), node("n2", 1), running("low", "n1"), running("other", "n2", priority=5))
    refuse_deletes(world, "low", answer=answer)
    world.run(pod("high", 1, 10))
    assert world.bound() == {"low": "n1", "high": "n2"}
    assert [evict.victims[0].name for evict in world.evictions()] == ["low", "other"]


@pytest.mark.parametrize(
    ("refusing", "namespaces", "attempts"),
    [(3, 3, 4), (8, 8, 5), (8, 1, 9)],
    ids=["some namespaces", "many namespaces", "one namespace"],
)
def test_the_first_plans_in_vain_have_no_pause(refusing: int, namespaces: int, attempts: int) -> None:
    """Each new namespace may cost other pods once, so the fifth attempt waits."""
    names = [f"low-{at}" for at in range(refusing)]
    world = World(
        [node(f"n{at}", 2) for at in range(refusing + 1)],
        [
            running(name, f"n{at}", namespace=f"space-{at % namespaces}", uid=name)
            for at, name in enumerate(names)
        ],
        [running(f"also-{at}", f"n{at}", priority=1) for at in range(refusing)],
        running("other", f"n{refusing}", 2, priority=5),
    )
    refuse_deletes(world, *names)
    world.run(pod("high", 2, 10))
    assert len(world.evictions()) == attempts
    assert ("high" in world.bound()) == (refusing < attempts)
    gone = {each for each in range(refusing) if (NS, f"also-{each}") not in world.state.pods}
    assert len(gone) == min(namespaces, attempts, refusing)
    world.later(60)
    assert world.bound()["high"] == f"n{refusing}"


def test_a_policy_that_keeps_many_pods_costs_one_other() -> None:
    """The first refusal comes after a delete; then deletes in the namespace are tried without effect."""
    names = [f"low-{at}" for at in range(8)]
    world = World(
        [node(f"n{at}", 2) for at in range(9)],
        [running(name, f"n{at}") for at, name in enumerate(names)],
        [running(f"also-{at}", f"n{at}", priority=1) for at in range(8)],
        running("other", "n8", 2, priority=5),
    )
    refuse_deletes(world, *names)
    world.refusals |= {Write("try", name): DENIED for name in names}
    world.run(pod("high", 2, 10))
    assert world.bound()["high"] == "n8"
    assert sum(name.startswith("also") for name in world.bound()) == 7


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_any_answer_counts_the_second_time(answer: Exception) -> None:
    world = World(node("n1", 1), node("n2", 1), running("low", "n1"), running("other", "n2", priority=5))
    refuse_deletes(world, "low", answer=answer)
    world.run(pod("high", 1, 10))
    world.later(5)
    assert world.bound() == {"low": "n1", "high": "n2"}
    assert [each.pod.name for each in world.effects if isinstance(each, RefusedVictim)] == ["low"]


def test_a_preemptor_that_needs_it_waits_and_says_so() -> None:
    """The message counts the pods and names none, because they may be another tenant's."""
    world = World(node("n1", 1), running("low"))
    refuse_deletes(world, "low")
    world.run(pod("high", 1, 10))
    assert world.message("high").endswith("1 pod is not preempted: the API server refuses the deletion.")
    attempts = len(world.evictions())
    world.later(_whole_hour)
    assert attempts < len(world.evictions()) < 12
    world.refusals.clear()
    world.later(1800)
    assert world.bound() == {"high": "n1"}


def test_it_may_be_evicted_after_a_change() -> None:
    """But not before five seconds: an owner may change a pod all the time."""
    world = World(node("n1", 1), running("low"))
    refuse_deletes(world, "low")
    world.run(pod("high", 1, 10))
    world.refusals.clear()
    touch(world, "low")
    world.later(4)
    assert "low" in world.bound()
    world.later(30)
    assert world.bound() == {"high": "n1"}


def test_an_owner_that_changes_it_all_the_time_keeps_no_other_preemptor_waiting() -> None:
    names = [f"low-{at}" for at in range(12)]
    world = World(
        [node(f"n{at}", 1) for at in range(13)],
        [running(name, f"n{at}") for at, name in enumerate(names)],
        running("other", "n12", priority=5),
    )
    refuse_deletes(world, *names)
    world.run(pod("high", 1, 10))
    for _ in range(30):
        for name in names:
            touch(world, name)
        world.later(1)
    assert world.bound()["high"] == "n12"


def test_the_other_members_of_its_group_are_evicted_without_it() -> None:
    """As for a member that is never a victim: it cannot protect the others."""
    world = World(node("n1", 1), node("n2", 1), group("g", 0, 2, whole=True), running("g-0", "n1", group="g"))
    world.apply(running("g-1", "n2", group="g"))
    refuse_deletes(world, "g-0")
    world.run(pod("high", 1, 10))
    assert world.bound() == {"g-0": "n1", "high": "n2"}


def test_a_refusal_uses_nothing_of_the_eviction_rate() -> None:
    world = World(
        node("n1", 1),
        node("n2", 1),
        running("low", "n1"),
        running("other", "n2", priority=5),
        evictions_a_minute=1,
    )
    refuse_deletes(world, "low")
    world.run(pod("high", 1, 10))
    assert world.bound() == {"low": "n1", "high": "n2"}


def test_a_leader_that_resumes_a_preemption_goes_on_without_it() -> None:
    """The mark of an earlier leader is on a pod that cannot be evicted."""
    marked = running("low", "n1", status=marked_for_deletion())
    world = World(node("n1", 1), node("n2", 1), running("other", "n2", priority=5))
    refuse_deletes(world, "low")
    world.apply(marked, pod("high", 1, 10))
    world.restart()
    world.run()
    assert world.evictions()[0].resumed
    assert world.bound() == {"low": "n1", "high": "n2"}


def test_after_a_refusal_it_is_deleted_first() -> None:
    """The others are evicted once at most, though controllers make them again."""
    names = ("low-0", "low-1", "low-2")
    world = World(node("n1", 3), [running(name) for name in names])
    refuse_deletes(world, "low-1")
    world.run(pod("high", 3, 10))
    world.later(20)
    assert world.bound().keys() == {"low-1", "low-2"}
    world.run(running("again"))
    world.later(2 * _whole_hour)
    assert world.bound().keys() == {"low-1", "low-2", "again"}
    assert len(world.evictions()) > 5


def test_a_preemptor_that_is_never_bound_evicts_less_and_less() -> None:
    """Its own binding may be refused for ever, and its victims come back each time."""
    world = World(node("n1", 1), running("low"), pod("high", 1, 10))
    world.failing = "the API server refuses the binding"
    world.run()
    names = count()
    for _ in range(3600):
        if not any(each.spec.nodeName for each in world.state.pods.values()):
            world.apply(running(f"back-{next(names)}"))
        world.later(1)
    assert len(world.evictions()) < 10


class Cluster:
    """Nodes of two cpus, each with two pods; some of them are members of a group that goes as a whole."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.nodes = draw(st.integers(1, 3))
        self.priorities = [draw(st.sampled_from([0, 1, 5])) for _ in range(2 * self.nodes)]
        self.members = draw(st.sets(st.integers(0, 2 * self.nodes - 1)))
        self.cpu = draw(st.sampled_from([1, 1, 2]))
        self.size = draw(st.integers(1, 3))
        self.grouped = draw(st.booleans())
        self.victim = draw(st.integers(0, 2 * self.nodes - 1))

    def world(self, **of_victim: Any) -> World:
        """Return the cluster with further fields of the spec of the victim."""
        world = World([node(f"n{at}", 2) for at in range(self.nodes)], group("g", 1, 1, whole=True))
        for at, priority in enumerate(self.priorities):
            fields = {"group": "g"} if at in self.members else {}
            own = of_victim if at == self.victim else {}
            world.apply(running(f"v{at}", f"n{at // 2}", 1, priority, **fields, **own))
        return world

    def preempt(self, world: World) -> set[str]:
        """Let a pod or a gang preempt; return its pods."""
        if self.grouped:
            pods = gang("p", size=self.size, cpu=self.cpu, priority=10)
            world.apply(group("p", 10, self.size))
        else:
            pods = [pod("p-0", self.cpu, 10)]
        world.run(pods)
        return {each.metadata.name or "" for each in pods}


_clusters = st.composite(Cluster)()


def _recreate(world: World, cluster: Cluster) -> None:
    """Make the evicted pods again where there is room, as their controllers do."""
    for at, priority in enumerate(cluster.priorities):
        name, where = f"v{at}", f"n{at // 2}"
        used = sum(each.spec.nodeName == where for each in world.state.pods.values())
        if (NS, name) not in world.state.pods and used < 2:
            fields = {"group": "g"} if at in cluster.members else {}
            world.version += 1
            world.apply(running(name, where, 1, priority, uid=f"uid-{world.version}", **fields))


@given(
    cluster=_clusters,
    delete=st.none() | _answers,
    mark=st.none() | _answers,
    unmark=st.none() | _answers,
    of_group=st.booleans(),
)
def test_whichever_write_about_a_victim_fails_for_ever(
    cluster: Cluster,
    delete: Exception | None,
    mark: Exception | None,
    unmark: Exception | None,
    *,
    of_group: bool,
) -> None:
    """A preemptor that does not need the victim is bound within a minute, in a bounded number of attempts.

    What it needs is known from the same cluster, where the victim is never evicted. If the victim's deletion
    succeeds, it is bound in any case in which it would be without a failure.
    """
    name = f"v{cluster.victim}"
    easy = cluster.world(**({} if delete is None else {"schedulerName": "another"}))
    wanted = cluster.preempt(easy)
    easy.later(60)
    world = cluster.world()
    failing = {
        Write("delete", name): delete,
        Write("mark", name, "True"): mark,
        Write("mark", name, "False"): unmark,
        Write("group", "g"): DENIED if of_group else None,
    }
    world.refusals = {write: answer for write, answer in failing.items() if answer is not None}
    cluster.preempt(world)
    world.later(60)
    if wanted <= easy.bound().keys():
        assert wanted <= world.bound().keys()
    # One attempt fails, or two if the answer may be another one; then come its holds of a minute.
    assert len(world.evictions()) <= 10


@given(cluster=_clusters, answer=_answers)
def test_no_other_pod_goes_again_and_again(cluster: Cluster, answer: Exception) -> None:
    """Controllers make the evicted pods again; over two hours each is evicted twice at most."""
    world = cluster.world()
    refuse_deletes(world, f"v{cluster.victim}", answer=answer)
    wanted = cluster.preempt(world)
    for _ in range(240):
        world.later(30)
        _recreate(world, cluster)
        world.run()
        if wanted <= world.bound().keys():
            return
    times: dict[str, int] = {}
    for evict in world.evictions():
        _count_deleted(world, evict, times)
    assert max(times.values(), default=0) <= 2


def _count_deleted(world: World, evict: Evict, times: dict[str, int]) -> None:
    for ref in evict.victims:
        live = world.state.pods.get(ref.key)
        if live is None or live.metadata.uid != ref.uid:
            times[ref.name] = times.get(ref.name, 0) + 1
