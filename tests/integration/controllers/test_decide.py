"""When conditions and events are written: a table of named cases, and properties over any history."""

from datetime import UTC, datetime, timedelta, timezone
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import NEW, pod, pod_group, priority_class
from tests.support.servers import Server as ApiServer

from podium.api.core import Pod
from podium.api.groups import NATIVE_GROUP, PodGroup
from podium.api.meta import Condition
from podium.api.minors import WORKLOAD_VERSIONS, minor_of
from podium.api.reads import READS
from podium.controllers.actions import ApplyConditions, Reconciliation
from podium.controllers.conditions import OURS, POLICY, PRIORITY, Judged, judged
from podium.controllers.divergence import APART, LONGEST, QUIET, Times, Write, decide, flips
from podium.controllers.writer import Writer
from podium.groups.divergence import ServerInfo
from podium.kube.connection import connect

NOW = datetime(2026, 11, 21, 16, 0, 7, 999_999, tzinfo=UTC)
THEN = "2026-11-21T15:00:00Z"
SETTLED = Times(quiet=3600.0, since_write=3600.0)
SERVER = ServerInfo(37, "1.37")


def condition(status: str, kind: str = PRIORITY, **more: object) -> Condition:
    fields = {"reason": f"Because{status}", "message": f"it is {status}", "lastTransitionTime": THEN}
    return Condition(type=kind, status=status, **(fields | more))  # type: ignore[arg-type] # text options only


def wanted(status: str, kind: str = PRIORITY, **more: object) -> Judged:
    return Judged(condition(status, kind, lastTransitionTime=None, **more))


def group(*conditions: Condition, uid: str = "u1", deleted: str | None = None) -> PodGroup:
    bare = pod_group(priority=1000, class_name="gold", deleted=deleted)
    metadata = msgspec.structs.replace(bare.metadata, uid=uid, resourceVersion="41")
    return msgspec.structs.replace(bare, metadata=metadata, conditions=conditions)


def written(
    stored: PodGroup,
    *found: Judged,
    times: Times = SETTLED,
    write: Write = Write.DIVERGENT,
    now: datetime = NOW,
) -> dict[str | None, Condition] | None:
    """Return the applied conditions by type, None without a write."""
    decision = decide(stored, found, times, write, now)
    if not decision.actions:
        return None
    (action,) = decision.actions
    assert isinstance(action, ApplyConditions)
    assert (action.ref, action.uid, action.resource_version) == (stored.ref, "u1", "41")
    assert decision.again is None
    return {each.type: each for each in action.conditions}


FOREIGN = condition("True", "PodGroupInitiallyScheduled")
UNSETTLED = Times(quiet=0.0, since_write=0.0)

# Type, status and time of each applied condition; None without a write.
Applied = list[tuple[str, str, str]] | None
MOMENT = "2026-11-21T16:00:07Z"
CASES: list[tuple[str, list[Condition], list[Judged], Write, Applied]] = [
    ("never diverged: none", [], [wanted("False")], Write.DIVERGENT, None),
    ("always: it has one", [], [wanted("False")], Write.ALWAYS, [(PRIORITY, "False", MOMENT)]),
    ("diverges first", [], [wanted("True")], Write.DIVERGENT, [(PRIORITY, "True", MOMENT)]),
    ("unresolved", [], [wanted("Unknown")], Write.DIVERGENT, [(PRIORITY, "Unknown", MOMENT)]),
    (
        "mended",
        [condition("True")],
        [wanted("False")],
        Write.DIVERGENT,
        [(PRIORITY, "False", MOMENT)],
    ),
    ("true already", [condition("True")], [wanted("True")], Write.DIVERGENT, None),
    ("once diverged, is well", [condition("False")], [wanted("False")], Write.DIVERGENT, None),
    (
        "what is there is kept true",
        [condition("False", message="stale")],
        [wanted("False")],
        Write.DIVERGENT,
        [(PRIORITY, "False", THEN)],
    ),
    (
        "another reason is no flip",
        [condition("False", reason="NoMembers")],
        [wanted("False")],
        Write.DIVERGENT,
        [(PRIORITY, "False", THEN)],
    ),
    (
        "another generation was seen",
        [condition("True", observedGeneration=1)],
        [wanted("True", observedGeneration=2)],
        Write.DIVERGENT,
        [(PRIORITY, "True", THEN)],
    ),
    (
        "both axes in one apply, each with its own time",
        [condition("True"), FOREIGN],
        [wanted("True"), wanted("True", POLICY)],
        Write.DIVERGENT,
        [(PRIORITY, "True", THEN), (POLICY, "True", MOMENT)],
    ),
    (
        "an axis that is well is not added to one that is not",
        [],
        [wanted("True"), wanted("False", POLICY)],
        Write.DIVERGENT,
        [(PRIORITY, "True", MOMENT)],
    ),
    (
        "the other axis stays in the apply",
        [condition("True"), condition("False", POLICY)],
        [wanted("False"), wanted("False", POLICY)],
        Write.DIVERGENT,
        [(PRIORITY, "False", MOMENT), (POLICY, "False", THEN)],
    ),
    (
        "an axis switched off is taken away",
        [condition("True"), condition("True", POLICY)],
        [wanted("True")],
        Write.DIVERGENT,
        [(PRIORITY, "True", THEN)],
    ),
    ("the only one is taken away", [condition("True", POLICY)], [wanted("False")], Write.DIVERGENT, []),
    ("others' conditions are none of ours", [FOREIGN], [wanted("False")], Write.DIVERGENT, None),
]


@pytest.mark.parametrize(
    ("stored", "found", "write", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_written_conditions(
    stored: list[Condition], found: list[Judged], write: Write, expected: Applied
) -> None:
    applied = written(group(*stored), *found, write=write)
    assert expected == (
        None
        if applied is None
        else [(each.type, each.status, each.lastTransitionTime) for each in applied.values()]
    )


def test_an_applied_condition_is_the_judged_one() -> None:
    applied = written(group(), wanted("True", observedGeneration=4))
    assert applied == {PRIORITY: condition("True", lastTransitionTime=MOMENT, observedGeneration=4)}


@pytest.mark.parametrize("stored", [[], [condition("True")], [condition("Unknown")]])
def test_a_flip_is_written_at_once(stored: list[Condition]) -> None:
    found = wanted("False") if stored else wanted("True")
    assert written(group(*stored), found, times=UNSETTLED) is not None


@pytest.mark.parametrize(
    ("quiet", "since_write", "again"),
    [
        (0.0, 0.0, APART),
        (0.0, 9.5, QUIET),
        (1.5, 30.0, 0.5),
        (600.0, 4.0, 6.0),
        (0.0, 59.0, 1.0),
        (QUIET, APART, None),
        (0.0, LONGEST, None),
        (0.0, inf, None),
    ],
    ids=[
        "just written",
        "not quiet yet",
        "quiet in a moment",
        "written a moment ago",
        "put off long enough in a moment",
        "settled",
        "never settles",
        "never written by us",
    ],
)
@pytest.mark.parametrize(
    "found",
    [wanted("True", message="it is still True"), wanted("True", reason="Other")],
    ids=["message", "reason"],
)
def test_a_difference_in_text_alone_waits(
    found: Judged, quiet: float, since_write: float, again: float | None
) -> None:
    decision = decide(group(condition("True")), (found,), Times(quiet, since_write), Write.DIVERGENT, NOW)
    assert decision.again == again
    assert bool(decision.actions) == (again is None)


def test_an_axis_that_is_off_waits_too() -> None:
    both = group(condition("True"), condition("True", POLICY))
    assert decide(both, (wanted("True"),), UNSETTLED, Write.DIVERGENT, NOW) == Reconciliation(again=APART)


def test_a_group_being_deleted_is_left_alone() -> None:
    assert decide(group(deleted=NEW), (wanted("True"),), SETTLED, Write.ALWAYS, NOW) == Reconciliation()


def test_the_time_of_a_flip_is_utc_in_whole_seconds_and_never_turned_back() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    applied = written(group(), wanted("True"), now=east)
    assert applied is not None
    assert applied[PRIORITY].lastTransitionTime == MOMENT
    ahead = group(condition("False", lastTransitionTime="2026-11-21T16:00:30Z"))
    applied = written(ahead, wanted("True"))
    assert applied is not None
    assert applied[PRIORITY].lastTransitionTime == "2026-11-21T16:00:30Z"


LATER = "2026-11-21T16:30:00Z"
FLIPS: list[tuple[str, list[Condition], list[Condition], list[tuple[str, str]]]] = [
    ("diverges first", [], [condition("True")], [("Warning", "PodsNotMatchingPriority")]),
    ("diverges", [condition("False")], [condition("True")], [("Warning", "PodsNotMatchingPriority")]),
    ("mended", [condition("True")], [condition("False")], [("Normal", "PodsMatchPriority")]),
    ("well from the start", [], [condition("False")], []),
    ("reworded", [condition("True")], [condition("True", message="otherwise")], []),
    ("taken away", [condition("True")], [], []),
    (
        "unresolved",
        [],
        [condition("Unknown", reason="GroupUnresolved")],
        [("Warning", "GroupUnresolved")],
    ),
    (
        "both at once",
        [condition("True")],
        [condition("False"), condition("True", POLICY)],
        [("Normal", "PodsMatchPriority"), ("Warning", "PodsNotMatchingPreemptionPolicy")],
    ),
    (
        "the second axis mended",
        [condition("True", POLICY)],
        [condition("False", POLICY)],
        [("Normal", "PodsMatchPreemptionPolicy")],
    ),
    ("others' conditions", [], [FOREIGN], []),
]


@pytest.mark.parametrize(
    ("before", "after", "told"), [case[1:] for case in FLIPS], ids=[case[0] for case in FLIPS]
)
def test_one_event_a_flip(
    before: list[Condition], after: list[Condition], told: list[tuple[str, str]]
) -> None:
    notes = flips(group(*before), group(*after))
    assert [(note.type, note.reason) for note in notes] == told


def test_a_first_list_tells_no_flip_and_a_recreated_group_does() -> None:
    diverges = group(condition("True"))
    assert flips(None, diverges) == ()
    assert len(flips(group(condition("True"), uid="u0"), diverges)) == 1


def test_a_note_says_what_the_condition_says() -> None:
    (note,) = flips(group(), group(condition("True")))
    assert (note.regarding, note.uid, note.resource_version) == (group().ref, "u1", "41")
    assert note.text == "it is True"


def test_a_flip_has_one_token_from_every_replica() -> None:
    def token(before: PodGroup, after: PodGroup) -> str:
        (note,) = flips(before, after)
        return note.token

    diverges = group(condition("True"))
    once = token(group(), diverges)
    newer = msgspec.structs.replace(
        diverges, metadata=msgspec.structs.replace(diverges.metadata, resourceVersion="99")
    )
    assert token(group(condition("False")), newer) == once
    others = {
        token(group(), group(condition("True", lastTransitionTime=LATER))),
        token(group(), group(condition("Unknown"))),
        token(group(), group(condition("True", POLICY))),
        token(group(uid="u2"), group(condition("True"), uid="u2")),
    }
    assert len({once, *others}) == 5


# Properties: a group that is written to as the API server does it, through any history of its members.
GOLD = {"gold": priority_class("gold", 1000)}
seconds = st.one_of(st.floats(0, 100), st.just(inf))
steps = st.tuples(
    st.lists(
        st.builds(
            pod,
            st.sampled_from(["a", "b", "c"]),
            priority=st.sampled_from([None, 0, 1000]),
            policy=st.sampled_from([None, "Never"]),
            terminating=st.booleans(),
            phase=st.sampled_from(["Running", "Succeeded"]),
        ),
        max_size=3,
    ),
    st.builds(Times, quiet=st.floats(0, 100), since_write=seconds),
    st.booleans(),
    # The wall clock may be set back.
    st.integers(-100, 100),
)


def stored_after(stored: PodGroup, decision: Reconciliation) -> PodGroup:
    """Apply like an API server: replace our fields, keep the others."""
    for action in decision.actions:
        assert isinstance(action, ApplyConditions)
        others = tuple(each for each in stored.conditions if each.type not in OURS)
        stored = msgspec.structs.replace(stored, conditions=others + action.conditions)
    return stored


@given(st.lists(steps, max_size=8), st.sampled_from(Write), st.booleans())
def test_any_history_keeps_what_is_stored_true(
    history: list[tuple[list[Pod], Times, bool, int]], write: Write, unresolved: bool
) -> None:
    stored = group(FOREIGN)
    if unresolved:
        stored = msgspec.structs.replace(stored, priority=None)
    now = NOW
    for members, times, policy, moved in history:
        now += timedelta(seconds=moved)
        found = judged(stored, members, GOLD, SERVER, policy=policy)
        decision = decide(stored, found, times, write, now)
        after = stored_after(stored, decision)
        was = {each.type: each for each in stored.conditions}
        is_now = {each.type: each for each in after.conditions}

        # No false status remains, whatever the times are, and others' conditions are unchanged.
        for each in found:
            kind = each.condition.type
            if kind in is_now or each.condition.status != "False" or write is Write.ALWAYS:
                assert is_now[kind].status == each.condition.status
        assert is_now[FOREIGN.type] == FOREIGN

        # A time changes if and only if its status does (a flip within one second keeps it), and only forward.
        for kind, condition in is_now.items():
            if kind in was and was[kind].status == condition.status:
                assert condition.lastTransitionTime == was[kind].lastTransitionTime
            elif kind in was:
                assert (condition.lastTransitionTime or "") >= (was[kind].lastTransitionTime or "")
            else:
                assert condition.lastTransitionTime == now.strftime("%Y-%m-%dT%H:%M:%SZ")

        # A second decision on the written state changes nothing; a postponed write is due later.
        if decision.actions:
            for again in (times, SETTLED, UNSETTLED):
                assert decide(after, found, again, write, now) == Reconciliation()
        elif decision.again is not None:
            due = Times(times.quiet + decision.again + 0.001, times.since_write + decision.again + 0.001)
            assert decide(stored, found, due, write, now).actions
        stored = after


@pytest.mark.server
async def test_an_api_server_keeps_what_was_decided(server: ApiServer, namespace: str) -> None:
    """Our condition is set, flipped and removed on a native group beside another's."""
    version = f"{NATIVE_GROUP}/{WORKLOAD_VERSIONS[minor_of(server.release.minor) or 0][0]}"
    read = READS[version, "PodGroup"]
    path = f"/apis/{version}/namespaces/{namespace}/podgroups"
    new = {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    code, made = server.request("POST", path, {"apiVersion": version, "kind": "PodGroup", **new})
    assert code == 201, made
    theirs = {
        "type": "Theirs",
        "status": "True",
        "reason": "Theirs",
        "message": "",
        "lastTransitionTime": THEN,
    }
    code, made = server.request(
        "PATCH", f"{path}/train/status", {"status": {"conditions": [theirs]}}, "application/merge-patch+json"
    )
    assert code == 200, made

    def stored() -> PodGroup:
        found: PodGroup = read.neutral(msgspec.convert(server.request("GET", f"{path}/train")[1], read.type))
        return found

    async def keep(*members: Pod, policy: bool = True) -> dict[str | None, str | None]:
        """Write the decision; return the stored statuses, after which no further write is decided."""
        for times in (SETTLED, UNSETTLED):
            before = stored()
            found = judged(before, members, {}, SERVER, policy=policy)
            decision = decide(before, found, times, Write.DIVERGENT, NOW)
            assert bool(decision.actions) == (times is SETTLED)
            for action in decision.actions:
                await writer.perform(action)
        longest.append(max(len((each.message or "").encode()) for each in stored().conditions))
        return {each.type: each.status for each in stored().conditions}

    longest: list[int] = []
    odd = pod("\u00fc" * 20_000, priority=7, policy="Never"), pod("b")
    async with connect(str(server.kubeconfig), None) as connection:
        writer = Writer(connection, lambda: inf, lambda _what, _result: None)
        assert await keep(*odd) == {"Theirs": "True", PRIORITY: "True", POLICY: "True"}
        assert longest == [32 * 1024]
        assert await keep(pod("b")) == {"Theirs": "True", PRIORITY: "False", POLICY: "False"}
        assert await keep(policy=False) == {"Theirs": "True", PRIORITY: "False"}
