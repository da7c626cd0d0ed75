"""The effects of pages and lines, without a server: tables, and any history."""

import json
import tracemalloc
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.informer.history import (
    History,
    Stored,
    bookmark,
    event,
    failure,
    group,
    page,
    unreadable,
)

from podium.api.membership import GroupKey
from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.kube.discovery import Served
from podium.kube.reading import WatchError
from podium.kube.reflector import ExpiredError, Reflector

API_VERSION = "scheduling.podium.dev/v1beta1"
SERVED = Served(API_VERSION, "PodGroup", READS[API_VERSION, "PodGroup"], "podgroups", namespaced=True)


OLDER = Served(
    f"{SERVED.api_version[:-7]}v1alpha2", "PodGroup",
    READS["scheduling.podium.dev/v1alpha2", "PodGroup"], "podgroups", namespaced=True,
)  # fmt: skip


class Scene:
    """A reflector, its state, and its log."""

    def __init__(self) -> None:
        self.state = ClusterState(native_served=False)
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.reflector = Reflector(
            SERVED, self.state, lambda what, fields: self.logged.append((what, fields))
        )

    def stream(self, *lines: bytes) -> None:
        self.reflector.stream_query()
        self.hear(*lines)

    def watch(self, *lines: bytes) -> None:
        self.reflector.watch_query()
        self.hear(*lines)

    def hear(self, *lines: bytes) -> None:
        for line in lines:
            self.reflector.take_line(line)

    @property
    def groups(self) -> dict[str, str | None]:
        return {key.name: found.metadata.resourceVersion for key, found in self.state.groups.items()}


@pytest.fixture
def scene() -> Scene:
    """Return a scene that has read `a` at 5 and `b` at 7, and knows version 10."""
    scene = Scene()
    scene.stream(event("ADDED", group("a", 5)), event("ADDED", group("b", 7)), bookmark(10, ends_list=True))
    assert scene.groups == {"a": "5", "b": "7"}
    return scene


META = unreadable("a", 11)["metadata"]

# The lines of a watch from version 10, the objects afterwards, and the version then known.
WATCHES: list[tuple[str, list[bytes], dict[str, str], int]] = [
    ("nothing", [], {"a": "5", "b": "7"}, 10),
    ("an object comes", [event("ADDED", group("c", 11))], {"a": "5", "b": "7", "c": "11"}, 11),
    ("an object changes", [event("MODIFIED", group("a", 11))], {"a": "11", "b": "7"}, 11),
    ("an object goes", [event("DELETED", group("a", 11))], {"b": "7"}, 11),
    ("an unknown object is deleted", [event("DELETED", group("z", 11))], {"a": "5", "b": "7"}, 11),
    (
        "an object goes and comes again",
        [event("DELETED", group("a", 11)), event("ADDED", group("a", 12))],
        {"a": "12", "b": "7"},
        12,
    ),
    ("a bookmark only", [bookmark(40)], {"a": "5", "b": "7"}, 40),
    ("the same event twice", [event("MODIFIED", group("a", 11))] * 2, {"a": "11", "b": "7"}, 11),
    (
        "an older event of the same object",
        [event("MODIFIED", group("a", 12)), event("MODIFIED", group("a", 11))],
        {"a": "12", "b": "7"},
        12,
    ),
    (
        "an older event of an object that went",
        [event("DELETED", group("a", 12)), event("MODIFIED", group("a", 11))],
        {"b": "7"},
        12,
    ),
    ("an event from before the moment", [event("DELETED", group("a", 9))], {"a": "5", "b": "7"}, 10),
    ("an object turns unreadable", [event("MODIFIED", unreadable("a", 11))], {"a": "5", "b": "7"}, 11),
    (
        "another object of the name is unreadable",
        [event("ADDED", {**unreadable("a", 11), "metadata": {**META, "uid": "other"}})],
        {"b": "7"},
        11,
    ),
    ("an unreadable object comes", [event("ADDED", unreadable("z", 11))], {"a": "5", "b": "7"}, 11),
    (
        "an object turns readable again",
        [event("MODIFIED", unreadable("a", 11)), event("MODIFIED", group("a", 12))],
        {"a": "12", "b": "7"},
        12,
    ),
    ("an unreadable object goes", [event("DELETED", unreadable("a", 11))], {"b": "7"}, 11),
]


@pytest.mark.parametrize(
    ("lines", "want", "version"), [row[1:] for row in WATCHES], ids=[row[0] for row in WATCHES]
)
def test_a_watch(scene: Scene, lines: list[bytes], want: dict[str, str], version: int) -> None:
    scene.watch(*lines)
    assert scene.groups == want
    assert scene.reflector.version == version
    assert not scene.reflector.needs_list


# Lines that end a request, with the error, and whether a list is needed afterwards.
ENDS: list[tuple[str, bytes, type[Exception], str, bool]] = [
    ("410 as an event", failure(410, "Expired"), ExpiredError, "410 Expired: because", True),
    ("another error", failure(500, "InternalError"), WatchError, "500 InternalError: because", False),
    ("half a line", b'{"type":"ADDED","object":{"meta', WatchError, "without metadata", False),
    ("no event", b"<html>\n", WatchError, "unexpected answer of the API server", False),
    ("an event without a type", b'{"object":{}}\n', WatchError, "missing required field `type`", False),
    ("an unknown type", event("RENAMED", group("a", 11)), WatchError, "of type 'RENAMED'", False),
    (
        "no resourceVersion",
        event("ADDED", {"metadata": {"name": "c"}}),
        WatchError,
        "None is not a decimal",
        False,
    ),
    (
        "a strange resourceVersion",
        event("BOOKMARK", {"metadata": {"resourceVersion": "x1"}}),
        WatchError,
        "'x1'",
        False,
    ),
    ("a restored backup", bookmark(9), ExpiredError, "is at 9, behind the 10 we know", True),
]


@pytest.mark.parametrize(
    ("line", "error", "logged", "needs_list"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_a_line_that_ends_a_watch(
    scene: Scene, line: bytes, error: type[Exception], logged: str, needs_list: bool
) -> None:
    """Known objects stay for readers, whatever comes next."""
    with pytest.raises(error, match=logged):
        scene.watch(line)
    assert scene.groups == {"a": "5", "b": "7"}
    assert scene.reflector.version == 10
    assert scene.reflector.needs_list == needs_list
    assert scene.reflector.listed


def test_until_a_list_has_ended_readers_see_the_old_objects(scene: Scene) -> None:
    """The end of the list is one change: missing objects are removed, new ones added, equal ones stay."""
    before = scene.state.groups[GroupKey(False, "team", "b")]
    revision = scene.state.revision
    scene.reflector.expire()
    scene.stream(event("ADDED", group("b", 7)), event("ADDED", group("c", 20)))
    assert scene.groups == {"a": "5", "b": "7"}
    assert scene.state.revision == revision
    scene.hear(bookmark(21, ends_list=True))
    assert scene.groups == {"b": "7", "c": "20"}
    assert scene.state.groups[GroupKey(False, "team", "b")] is before
    assert scene.state.revision == revision + 2


def test_events_among_a_streamed_list_are_part_of_it() -> None:
    """The server may begin with an older state and update it."""
    scene = Scene()
    scene.stream(
        event("ADDED", group("a", 5)),
        event("ADDED", group("b", 6)),
        event("DELETED", group("a", 8)),
        event("MODIFIED", group("b", 9)),
        bookmark(8),
        bookmark(9, ends_list=True),
    )
    assert scene.groups == {"b": "9"}
    assert scene.reflector.version == 9


def test_a_list_that_was_cut_leaves_nothing_behind(scene: Scene) -> None:
    scene.reflector.expire()
    scene.stream(event("ADDED", group("x", 20)))
    scene.stream(event("ADDED", group("y", 21)), bookmark(22, ends_list=True))
    assert scene.groups == {"y": "21"}


def test_pages_are_one_list(scene: Scene) -> None:
    """Items of native lists have neither kind nor apiVersion; an empty list is a list."""
    bare = {key: value for key, value in group("c", 12).items() if key not in ("apiVersion", "kind")}
    reflector = scene.reflector
    reflector.expire()
    reflector.list_query()
    assert reflector.take_page(page([group("b", 7)], 13, "more")) == "more"
    assert scene.groups == {"a": "5", "b": "7"}
    assert reflector.take_page(page([bare], 13)) == ""
    assert scene.groups == {"b": "7", "c": "12"}
    assert scene.state.groups[GroupKey(False, "team", "c")].ref.apiVersion == API_VERSION
    reflector.expire()
    reflector.list_query()
    reflector.take_page(page([], 14))
    assert (scene.groups, reflector.version) == ({}, 14)


def test_a_list_arrives_in_parts(scene: Scene) -> None:
    """New objects arrive before missing ones are removed, and the list counts when it is complete."""
    reflector = scene.reflector
    reflector.expire()
    reflector.stream_query()
    for name, version in (("b", 7), ("c", 11), ("d", 12)):
        reflector.take_line(event("ADDED", group(name, version)))
    reflector.take_line(bookmark(20, ends_list=True), 2)
    assert scene.groups == {"a": "5", "b": "7", "c": "11"}
    assert (reflector.arriving, reflector.needs_list, reflector.version) == (True, True, 10)
    reflector.arrive(1)
    assert scene.groups == {"a": "5", "b": "7", "c": "11", "d": "12"}
    reflector.arrive()
    assert scene.groups == {"b": "7", "c": "11", "d": "12"}
    assert (reflector.arriving, reflector.needs_list, reflector.version) == (False, False, 20)


def test_a_list_that_arrived_in_part_gives_way_to_another(scene: Scene) -> None:
    """The state has the objects of the partial list; those that the next list does not have are removed."""
    reflector = scene.reflector
    for names in (("c", "d", "e"), ("d", "f")):
        reflector.expire()
        reflector.list_query()
        reflector.take_page(page([group(name, 20) for name in names], 30), 1)
        assert reflector.arriving
    reflector.arrive()
    assert scene.groups == {"d": "20", "f": "20"}
    assert {name for _, name in reflector.known} == {"d", "f"}


def test_another_version_arrives_without_a_gap(scene: Scene) -> None:
    """An object in both versions exists after each part."""
    heir = Reflector(OLDER, scene.state, lambda *_: None, inherited=scene.reflector.known)
    heir.list_query()
    items = [{**group(name, 20), "apiVersion": OLDER.api_version} for name in ("a", "b")]
    heir.take_page(page(items, 30), 1)
    while heir.arriving:
        assert set(scene.groups) == {"a", "b"}
        heir.arrive(1)
    assert scene.groups == {"a": "20", "b": "20"}


def test_an_object_that_cannot_be_read_is_said_once() -> None:
    """Other objects continue; the next unreadable object of the name is counted again."""
    scene = Scene()
    scene.stream(
        event("ADDED", unreadable("bad", 5)), event("ADDED", group("a", 6)), bookmark(7, ends_list=True)
    )
    scene.watch(event("MODIFIED", unreadable("bad", 8)), event("MODIFIED", unreadable("bad", 9)))
    assert scene.groups == {"a": "6"}
    expected = {
        "resource": "podgroups.scheduling.podium.dev",
        "namespace": "team",
        "name": "bad",
        "uid": "uid-bad",
        "error": "Expected `int | null`, got `str` - at `$.spec.priority`",
    }
    assert scene.logged == [("object not decodable", expected)]
    scene.hear(event("DELETED", unreadable("bad", 10)), event("ADDED", unreadable("bad", 11)))
    assert len(scene.logged) == 2


def test_when_an_api_goes_its_objects_go(scene: Scene) -> None:
    scene.reflector.clear()
    assert scene.groups == {}
    assert (scene.reflector.listed, scene.reflector.needs_list) == (False, True)


def test_another_version_takes_over_without_a_gap(scene: Scene) -> None:
    """After an upgrade the objects stay until the new version's list, and are then read in it."""
    heir = Reflector(OLDER, scene.state, lambda *_: None, inherited=scene.reflector.known)
    heir.stream_query()
    assert scene.groups == {"a": "5", "b": "7"}
    heir.take_line(event("ADDED", {**group("b", 7), "apiVersion": OLDER.api_version}))
    heir.take_line(bookmark(12, ends_list=True))
    assert scene.groups == {"b": "7"}
    assert scene.state.groups[GroupKey(False, "team", "b")].ref.apiVersion == "scheduling.podium.dev/v1alpha2"


def test_the_last_applied_annotation_is_dropped() -> None:
    """The annotation repeats the object and has no reader; other annotations stay."""
    scene = Scene()
    last = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    one, two = group("a", 5), group("b", 6)
    one["metadata"]["annotations"] = last
    two["metadata"]["annotations"] = {**last, "team": "x"}
    scene.stream(event("ADDED", one), event("ADDED", two), bookmark(7, ends_list=True))
    kept = {key.name: found.metadata.annotations for key, found in scene.state.groups.items()}
    assert kept == {"a": None, "b": {"team": "x"}}


def _applied_gang(number: int) -> Stored:
    """A gang as kubectl applied it: 1.5 KB."""
    made = group(f"train-{number:06d}-workers", number + 1, priorityClassName="train-high", priority=1000)
    made["spec"]["schedulingPolicy"] = {"gang": {"minCount": 8}}
    made["spec"]["disruptionMode"] = {"all": {}}
    made["spec"]["workloadRef"] = {"workloadName": f"train-{number}", "templateName": "workers"}
    metadata = made["metadata"]
    metadata["labels"] = {"app.kubernetes.io/name": "train", "app.kubernetes.io/instance": f"train-{number}"}
    metadata["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(made)}
    metadata["creationTimestamp"] = "2026-11-21T13:00:00Z"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{number}", "uid": f"{number:036d}"}
    metadata["ownerReferences"] = [owner | {"controller": True}]
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
    made["status"] = {
        "conditions": [condition | {"message": "all of them", "lastTransitionTime": "2026-11-21T13:00:00Z"}]
    }
    return made


def test_ten_thousand_groups_are_less_than_25_mib() -> None:
    """The memory is that of one copy of each object."""
    scene = Scene()
    scene.reflector.stream_query()
    lines = [event("ADDED", _applied_gang(number)) for number in range(10_000)]
    tracemalloc.start()
    try:
        scene.hear(*lines, bookmark(20_000, ends_list=True))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(scene.state.groups) == 10_000
    assert size < 25 * 2**20


NAMES = st.sampled_from(["a", "b", "c", "d"])


class AnyHistory(RuleBasedStateMachine):
    """With writes, cuts and compactions in any order, every event is true, and together they are complete."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.scene = Scene()
        self.pending: list[bytes] = []
        self.token: list[Stored] | None = None
        self.token_version = 0
        # By name, the uid of each object that the state held last.
        self.held: dict[str, str | None] = {}

    @rule(name=NAMES, readable=st.booleans())
    def put(self, name: str, readable: bool) -> None:
        self.history.put(name, readable=readable)

    @rule(data=st.data())
    @precondition(lambda self: self.history.objects)
    def delete(self, data: st.DataObject) -> None:
        self.history.delete(data.draw(st.sampled_from(sorted(self.history.objects))))

    @rule()
    def compact(self) -> None:
        self.history.compact()

    @rule(streamed=st.booleans())
    def ask(self, streamed: bool) -> None:
        """Start a request, whatever the previous one did."""
        reflector = self.scene.reflector
        self.pending, self.token = [], None
        if not reflector.needs_list:
            reflector.watch_query()
            self.pending = self._since(reflector.version)
        elif streamed:
            reflector.stream_query()
            self.pending = [event("ADDED", obj) for obj in self.history.objects.values()]
            self.pending.append(bookmark(self.history.version, ends_list=True))
        else:
            reflector.list_query()
            self.token = list(self.history.objects.values())
            self.token_version = self.history.version

    @rule(count=st.integers(1, 4), twice=st.booleans())
    @precondition(lambda self: self.pending)
    def hear(self, count: int, twice: bool) -> None:
        """Deliver some lines; a proxy may repeat one."""
        reflector = self.scene.reflector
        for _ in range(min(count, len(self.pending))):
            line = self.pending.pop(0)
            try:
                reflector.take_line(line)
                if twice and not reflector.needs_list:
                    reflector.take_line(line)
            except ExpiredError:
                self.pending = []
                return

    @rule(count=st.integers(1, 2))
    @precondition(lambda self: self.token is not None)
    def turn_page(self, count: int) -> None:
        """Deliver a page, or the answer that the rest of the list is expired."""
        assert self.token is not None
        if self.token_version < self.history.horizon:
            self.token = None
            self.scene.reflector.expire()
            return
        items, rest = self.token[:count], self.token[count:]
        reflector = self.scene.reflector
        more = reflector.take_page(page(items, self.token_version, "more" if rest else ""))
        self.token = rest if more else None

    def _since(self, version: int) -> list[bytes]:
        changes = self.history.since(version)
        return [failure(410, "Expired")] if changes is None else [*changes, bookmark(self.history.version)]

    @invariant()
    def what_is_known_was_once_true(self) -> None:
        """The state is the server's at the reflector's version."""
        reflector = self.scene.reflector
        if not reflector.listed:
            assert self.scene.groups == {}
            return
        self._compare(self._history_at(reflector.version))

    def _compare(self, past: History) -> None:
        """Compare with a history; of an object that cannot be decoded the last known state is kept."""
        unreadable = past.unreadable()
        groups = self.scene.groups
        assert {key: groups[key] for key in groups if key not in unreadable} == past.readable()
        for name, versions in unreadable.items():
            if self.held.get(name) == past.objects[name]["metadata"]["uid"]:
                assert name in groups
            assert groups.get(name, "none") in {*versions, "none"}
        assert {name for _, name in self.scene.reflector.undecodable} == set(unreadable)
        self.held = {key.name: found.metadata.uid for key, found in self.scene.state.groups.items()}

    def _history_at(self, version: int) -> History:
        past = History()
        for change in self.history.changes:
            if change.version <= version:
                past.changes.append(change)
                name = change.object["metadata"]["name"]
                if change.type == "DELETED":
                    past.objects.pop(name, None)
                else:
                    past.objects[name] = change.object
        return past

    def teardown(self) -> None:
        """Deliver all changes at the end."""
        reflector = self.scene.reflector
        if not reflector.needs_list:
            try:
                self.scene.watch(*self._since(reflector.version))
            except ExpiredError:
                assert reflector.needs_list
        if reflector.needs_list:
            lines = [event("ADDED", obj) for obj in self.history.objects.values()]
            self.scene.stream(*lines, bookmark(self.history.version, ends_list=True))
        self._compare(self.history)
        assert reflector.version == self.history.version


TestAnyHistory = AnyHistory.TestCase
