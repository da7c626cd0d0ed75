"""KEP-4832's order: announcements first, then all victims but one, then that one; a failure stops it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scheduling.recording import Recorded, Write, pod

from podium.api.meta import Condition
from podium.errors import PodiumError
from podium.kube.connection import RefusedError, SilentError
from podium.kube.preconditions import LeaseOverError, StaleError
from podium.planner.liveplugin import GoneError
from podium.schedulerplugin.live.evictor import Carried, Conditions, Still, carry_out
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Preemptor, RefusedVictim, Unit
from podium.schedulerplugin.scheduling.preemptions import Announcements


def _unit(*names: str) -> Unit:
    return Unit("PodGroup", "team", names[0], "uid-unit", 1, tuple(pod(name) for name in names))


EVICT = Evict(
    key=("team", "urgent"),
    preemptor=Preemptor("podgroup", "team", "urgent", "uid-urgent", 10),
    nominations=((pod("u1"), "n1"), (pod("u2"), "n2")),
    units=(_unit("v1", "v2"), _unit("v3")),
    domain="cluster",
    message="0/2 nodes are available",
    cleared=(pod("low"),),
)
NO = RefusedError("https://api", "WRITE", 500, "InternalError", "no")
# The answer is the same the next time.
NEVER = RefusedError("https://api", "WRITE", 403, "Forbidden", "never")
TOO_LARGE = RefusedError("https://api", "WRITE", 500, "", "etcdserver: request is too large")
VICTIMS = tuple(each.name for each in EVICT.victims)
NOMINATIONS = [Write("nominate", "u1", "n1"), Write("nominate", "u2", "n2")]
CLEARS = [Write("nominate", "low")]
MARKS = [Write("mark", name, "True") for name in VICTIMS]
SPARES = [Write("mark", name, "False") for name in VICTIMS]
DELETES = [Write("delete", name) for name in VICTIMS]
ANNOUNCED = [*NOMINATIONS, *CLEARS, *MARKS]


async def _not_taken(_unit: Unit) -> bool:
    return False


CONDITIONS = Conditions(
    waiting=lambda _pod: Condition("PodScheduled", "False"),
    target=lambda _pod: Condition("DisruptionTarget", "True"),
    withdrawn=lambda _pod: Condition("DisruptionTarget", "False"),
    group=_not_taken,
)


def everything(evict: Evict) -> Announcements:
    """Announce all victims, each pod by itself, as kube-scheduler does."""
    return Announcements(evict.nominations, evict.victims, ())


async def _yes() -> str:
    return ""


def _because(why: str) -> Still:
    async def still() -> str:
        return why

    return still


async def test_the_order() -> None:
    """All announcements are written before the first delete, and all other deletes before the last."""
    writes = Recorded()

    async def still() -> str:
        writes.story.append("asked")
        return ""

    assert await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=still) == Carried(
        EVICT.victims
    )
    assert writes.story == [
        *[("begun", each) for each in ANNOUNCED],
        *[("done", each) for each in ANNOUNCED],
        "asked",
        *[("begun", each) for each in DELETES[:-1]],
        *[("done", each) for each in DELETES[:-1]],
        ("begun", DELETES[-1]),
        ("done", DELETES[-1]),
    ]


async def test_one_victim_is_the_last() -> None:
    """There is nothing to do before it."""
    writes = Recorded()
    evict = EVICT._replace(units=(_unit("v1"),), nominations=(), cleared=())
    assert await carry_out(evict, everything(evict), writes, CONDITIONS, still=_yes) == Carried((pod("v1"),))
    assert writes.begun == [MARKS[0], DELETES[0]]


NOTHING = Announcements((), (), ())
GROUPS = Announcements((), (pod("v3"),), EVICT.units[:1])


def _group_marks(writes: Recorded, *, taken: bool) -> Conditions:
    """Record when a group is marked, and whether the API server accepted it."""

    async def group(unit: Unit) -> bool:
        writes.story.append(("group", unit.name))
        return taken

    return CONDITIONS._replace(group=group)


async def test_with_nothing_to_announce_the_first_write_is_a_delete() -> None:
    writes = Recorded()
    evict = EVICT._replace(cleared=())
    assert await carry_out(evict, NOTHING, writes, CONDITIONS, still=_yes) == Carried(EVICT.victims)
    assert writes.begun == DELETES


async def test_nothing_is_withdrawn_that_was_not_announced() -> None:
    writes = Recorded({DELETES[0]: NO})
    carried = await carry_out(EVICT, NOTHING, writes, CONDITIONS, still=_yes)
    assert carried.error
    assert not any(each.what == "mark" for each in writes.begun)


async def test_a_group_is_marked_in_place_of_its_pods() -> None:
    """It is marked before the first delete, like a pod; the caller withdraws the mark."""
    writes = Recorded()
    marks = _group_marks(writes, taken=True)
    assert await carry_out(EVICT, GROUPS, writes, marks, still=_because("no")) == Carried((), "no")
    assert ("group", "v1") in writes.story
    assert writes.begun == [*CLEARS, MARKS[2], SPARES[2]]


async def test_the_pods_of_a_group_that_cannot_be_marked_are() -> None:
    writes = Recorded()
    marks = _group_marks(writes, taken=False)
    assert await carry_out(EVICT, GROUPS, writes, marks, still=_yes) == Carried(EVICT.victims)
    assert {each.pod for each in writes.begun[: -len(DELETES)] if each.what == "mark"} == {"v1", "v2", "v3"}


async def test_without_any_mark_there_is_no_delete() -> None:
    """If neither the group nor its pods can be marked, the preemption does not start."""
    writes = Recorded({MARKS[1]: NO})
    marks = _group_marks(writes, taken=False)
    carried = await carry_out(EVICT, GROUPS, writes, marks, still=_yes)
    assert carried.error
    assert carried.deleted == ()
    assert [each for each in writes.begun if each in SPARES] == [SPARES[2], *SPARES[:2]]


async def test_a_preemption_that_is_no_longer_wanted_deletes_no_pod() -> None:
    """The preemptor was deleted or the mode switched off: no pod is evicted, and marks are withdrawn."""
    writes = Recorded()
    carried = await carry_out(
        EVICT, everything(EVICT), writes, CONDITIONS, still=_because("preemption is off")
    )
    assert carried == Carried((), "preemption is off", error=False)
    assert writes.begun == [*ANNOUNCED, *SPARES]


async def test_a_mark_that_stands_is_not_written_again() -> None:
    """A mark that an earlier process of ours wrote is withdrawn like our own when no victim is deleted."""
    conditions = CONDITIONS._replace(target=lambda ref: None if ref.name == "v2" else CONDITIONS.target(ref))
    writes = Recorded()
    await carry_out(EVICT, everything(EVICT), writes, conditions, still=_because("no"))
    assert MARKS[1] not in writes.begun
    assert SPARES[1] in writes.begun


def _refused(write: Write, error: RefusedError) -> tuple[RefusedVictim, ...]:
    """Return the victim whose eviction a failing write ends."""
    return (
        (RefusedVictim(pod(write.pod), error.message, error is not NO),)
        if write in (*MARKS, *DELETES)
        else ()
    )


@pytest.mark.parametrize(
    "failing", [*NOMINATIONS, *MARKS, *DELETES], ids=lambda each: f"{each.what} {each.pod}"
)
async def test_the_first_error_ends_it(failing: Write) -> None:
    """After a failure at any step the next one does not start, and the mark of a staying pod is withdrawn."""
    writes = Recorded({failing: NO})
    carried = await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes)
    deleted = [each for each in DELETES if each in writes.done]
    gone = tuple(pod(each.pod) for each in deleted)
    assert carried == Carried(
        gone, str(NO), error=True, unsure=failing in DELETES, refused=_refused(failing, NO)
    )
    if failing in ANNOUNCED:
        assert deleted == []
    elif failing != DELETES[-1]:
        assert DELETES[-1] not in writes.begun
    stay = [each.pod for each in MARKS if Write("delete", each.pod) not in deleted]
    assert [each for each in writes.begun if each in SPARES] == [
        Write("mark", name, "False") for name in stay
    ]


@pytest.mark.parametrize("error", [NEVER, TOO_LARGE], ids=lambda each: str(each.code))
@pytest.mark.parametrize("failing", ANNOUNCED, ids=lambda each: f"{each.what} {each.pod}")
async def test_an_announcement_that_is_refused_for_good_is_left_out(
    failing: Write, error: RefusedError
) -> None:
    """It only informs; a pod must not stay because its status takes no more."""
    writes = Recorded({failing: error})
    carried = await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes)
    assert carried == Carried(EVICT.victims)


@pytest.mark.parametrize("error", [NO, GoneError("gone"), PodiumError("the connection was lost")], ids=str)
async def test_a_nomination_of_another_pod_that_is_not_cleared_stops_nothing(error: PodiumError) -> None:
    writes = Recorded({CLEARS[0]: error})
    carried = await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes)
    assert carried == Carried(EVICT.victims)


async def test_a_mark_that_was_refused_is_not_withdrawn() -> None:
    writes = Recorded({MARKS[0]: NEVER})
    await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_because("no"))
    assert [each for each in writes.begun if each in SPARES] == SPARES[1:]


async def test_the_second_time_any_mark_is_left_out() -> None:
    """An answer that is another one each time would keep the pod for ever."""
    writes = Recorded({MARKS[0]: NO})
    evict = EVICT._replace(refused=(pod("v1"),))
    assert await carry_out(evict, everything(evict), writes, CONDITIONS, still=_yes) == Carried(evict.victims)


@pytest.mark.parametrize("error", [NEVER, TOO_LARGE], ids=lambda each: str(each.code))
@pytest.mark.parametrize("failing", DELETES, ids=lambda each: each.pod)
async def test_a_victim_that_the_api_server_keeps_is_named(failing: Write, error: RefusedError) -> None:
    """Nothing was done, so the other victims need not be chosen again."""
    writes = Recorded({failing: error})
    carried = await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes)
    why = f"pod team/{failing.pod} cannot be evicted: the API server refuses its deletion: {error.message}"
    assert (carried.failed, carried.error, carried.unsure) == (why, True, False)
    assert carried.refused == _refused(failing, error)


@pytest.mark.parametrize(
    ("refused", "doubted"),
    [("v3", ""), ("v2 v3", ""), ("v1 v2 v3", ""), ("v3", "v2"), ("", "v3"), ("v2", "v1 v3")],
)
async def test_victims_that_may_stay_are_deleted_before_the_others(refused: str, doubted: str) -> None:
    """If they stay, no other one goes in vain; the last victim is deleted last in any case."""
    first, second = refused.split(), doubted.split()
    evict = EVICT._replace(refused=tuple(map(pod, first)), doubted=tuple(map(pod, second)))
    writes = Recorded()
    assert not (await carry_out(evict, NOTHING, writes, CONDITIONS, still=_yes)).failed
    order = [each.pod for each in writes.begun if each.what == "delete"]
    assert order == sorted(VICTIMS, key=lambda name: (name not in first, name not in second))
    assert writes.story[-2:] == [("begun", Write("delete", order[-1])), ("done", Write("delete", order[-1]))]
    for some in filter(None, (first, second)):
        writes = Recorded({Write("delete", name): NEVER for name in some})
        carried = await carry_out(evict, NOTHING, writes, CONDITIONS, still=_yes)
        allowed = {*first, *some} if some is second else set(first)
        assert {each.pod for each in writes.begun if each.what == "delete"} <= allowed
        assert {each.name for each in carried.deleted} <= allowed - set(some)


async def test_deletes_that_may_fail_are_tried_first() -> None:
    """A policy shows itself before any victim is gone; an answer that may change is the delete's."""
    evict = EVICT._replace(refused=(pod("v3"),), doubted=(pod("v2"),))
    tries = {Write("try", name) for name in ("v2", "v3")}
    writes = Recorded({Write("try", "v2"): NEVER})
    carried = await carry_out(evict, NOTHING, writes, CONDITIONS, still=_yes)
    assert (carried.deleted, carried.refused) == ((), (RefusedVictim(pod("v2"), "never", True),))
    assert {each for each in writes.begun if each.what != "nominate"} == tries
    writes = Recorded({Write("try", "v2"): NO})
    assert set((await carry_out(evict, NOTHING, writes, CONDITIONS, still=_yes)).deleted) == set(
        EVICT.victims
    )


class Away(Recorded):
    """A server that is down for this many deletes."""

    def __init__(self, times: int, error: PodiumError) -> None:
        super().__init__()
        self.left = times
        self._error = error

    async def delete(self, pod: PodRef) -> None:
        self.left -= 1
        if self.left >= 0:
            raise self._error
        await super().delete(pod)


@pytest.mark.parametrize(
    "error",
    [PodiumError("the connection was lost"), RefusedError("https://api", "DELETE", 503, "Reason", "no")],
    ids=["no answer", "503"],
)
async def test_a_server_that_is_away_is_asked_until_it_is_back(error: PodiumError) -> None:
    """No other pods are evicted instead of those already deleted; but the retries end."""
    writes = Away(15, error)
    assert await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes) == Carried(EVICT.victims)
    carried = await carry_out(EVICT, everything(EVICT), Away(10_000, error), CONDITIONS, still=_yes)
    assert carried[:4] == ((), str(error), True, True)
    assert not any(each.final for each in carried.refused)


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (SilentError("no answer"), 1),
        (StaleError(RefusedError("https://api", "DELETE", 409, "Conflict", "no"), gone=False), 1),
        (RefusedError("https://api", "DELETE", 503, "", 'admission webhook "w" denied the request: no'), 1),
        (RefusedError("https://api", "DELETE", 503, "", "no"), 20),
    ],
    ids=["silence", "a conflict", "a webhook's 503", "503"],
)
async def test_only_a_server_that_is_away_is_asked_again(error: PodiumError, times: int) -> None:
    """A write was repeated for some seconds by then, and for a minute if there was no answer."""
    evict = EVICT._replace(units=EVICT.units[1:])
    writes = Away(10_000, error)
    carried = await carry_out(evict, NOTHING, writes, CONDITIONS, still=_yes)
    assert carried.error
    assert 10_000 - writes.left == times


async def test_deletes_are_not_sent_again_after_the_lease_expired() -> None:
    carried = await carry_out(EVICT, everything(EVICT), Away(1, LeaseOverError()), CONDITIONS, still=_yes)
    assert carried.failed == str(LeaseOverError())
    assert carried.refused == ()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("failing", "code", "unsure"),
    [
        (DELETES[0], 504, (True, False)),
        (DELETES[0], 500, (True, False)),
        (DELETES[0], 403, (False, False)),
        (DELETES[0], 429, (False, False)),
        (MARKS[0], 503, (False, True)),
    ],
    ids=str,
)
async def test_a_delete_without_an_answer_may_have_been_done(
    failing: Write, code: int, unsure: tuple[bool, bool], again: bool
) -> None:
    """The delete may still arrive if a resumed preemption fails before a repeat; a repeat settles it."""
    writes = Recorded({failing: RefusedError("https://api", "DELETE", code, "Reason", "no")})
    carried = await carry_out(EVICT._replace(again=again), everything(EVICT), writes, CONDITIONS, still=_yes)
    assert carried.unsure == unsure[again]


@pytest.mark.parametrize("gone", [*CLEARS, *MARKS], ids=lambda each: f"{each.what} {each.pod}")
async def test_a_victim_that_is_gone_counts_as_deleted(gone: Write) -> None:
    """A victim that ended by itself needs no delete; the last of the remaining ones is deleted last."""
    writes = Recorded({gone: GoneError("gone")})
    carried = await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes)
    left = [name for name in VICTIMS if name != gone.pod]
    assert carried == Carried(tuple(pod(name) for name in left))
    assert [each.pod for each in writes.begun if each.what == "delete"] == left


async def test_when_all_have_gone_there_is_nothing_to_delete() -> None:
    writes = Recorded({each: GoneError("gone") for each in MARKS})
    assert await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes) == Carried(())
    assert writes.begun == ANNOUNCED


async def test_nothing_is_evicted_for_a_pod_that_is_no_more() -> None:
    writes = Recorded({NOMINATIONS[1]: GoneError("pod team/u2 is gone")})
    carried = await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes)
    assert carried == Carried((), "pod team/u2 is gone", error=True)
    assert not any(each.what == "delete" for each in writes.begun)


@pytest.mark.parametrize("number", range(len(ANNOUNCED) + len(DELETES)))
async def test_cancelled_it_leaves_the_record(number: int) -> None:
    """After a lost lease no other write starts and no mark is withdrawn: the next leader reads them."""
    writes = Recorded(limit=1)
    work = asyncio.create_task(carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_yes))
    writes.at(number + 1, work.cancel)
    with pytest.raises(asyncio.CancelledError):
        await work
    assert writes.begun == [*ANNOUNCED, *DELETES][: number + 1]


async def test_pods_with_marks_that_cannot_be_withdrawn_are_returned() -> None:
    """The preemptor does not wait until a failing server was asked about each."""
    writes = Recorded({SPARES[0]: GoneError("gone"), SPARES[1]: NO}, limit=1)
    carried = await carry_out(EVICT, everything(EVICT), writes, CONDITIONS, still=_because("unwanted"))
    assert carried.still_marked == (pod("v2"), pod("v3"))
    assert [each for each in writes.begun if each in SPARES] == SPARES[:2]


@given(
    ends=st.dictionaries(
        st.sampled_from([*ANNOUNCED, *SPARES, *DELETES]), st.sampled_from(["gone", "no", "never"])
    ),
    unwanted=st.booleans(),
    limit=st.integers(1, 8),
    doubted=st.sets(st.sampled_from(VICTIMS)),
)
def test_whatever_fails(ends: dict[Write, str], limit: int, doubted: set[str], *, unwanted: bool) -> None:
    """No delete is before all announcements, none of the last before the others, no staying pod is marked."""
    errors = {
        write: NEVER
        if end == "never"
        else GoneError("gone")
        if end == "gone" and write.what != "delete"
        else NO
        for write, end in ends.items()
    }
    writes = Recorded(errors, limit)
    evict = EVICT._replace(refused=tuple(map(pod, sorted(doubted))))
    carried = asyncio.run(
        carry_out(evict, everything(evict), writes, CONDITIONS, still=_because("unwanted" * unwanted))
    )
    assert writes.most <= limit
    assert carried.deleted == tuple(pod(each.pod) for each in writes.done if each.what == "delete")
    gone = {each.pod for each in MARKS if isinstance(errors.get(each), GoneError)}
    meant = sorted(
        (each for each in DELETES if each.pod not in gone), key=lambda each: each.pod not in doubted
    )
    begun = [each for each in writes.begun if each.what == "delete"]
    if begun:
        assert not unwanted
        assert all(each in writes.done or errors[each] is NEVER for each in NOMINATIONS)
        assert all(each in writes.done or errors[each] is not NO or each.pod in doubted for each in MARKS)
    if meant and meant[-1] in begun:
        assert set(meant[:-1]) <= set(writes.done)
    withdrawn = {each.pod for each in writes.begun if each in SPARES}
    kept = {
        each.pod for each in MARKS if errors.get(each) is NEVER or (each.pod in doubted and each in errors)
    }
    marked = {each.pod for each in writes.begun if each in MARKS} - gone - kept
    if carried.failed:
        names = {each.name for each in carried.deleted}
        # Marks that a failing server refused are withdrawn later, except for pods that have gone.
        still_marked = {each.name for each in carried.still_marked}
        well = {each.pod for each in writes.done if each in SPARES}
        none = {each.pod for each in SPARES if isinstance(errors.get(each), GoneError)}
        assert still_marked == marked - names - well - (none & withdrawn)
    else:
        assert carried.still_marked == ()
        assert withdrawn == set()
        assert {each.pod for each in meant} == {each.name for each in carried.deleted}
