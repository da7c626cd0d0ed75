"""Objects that a decoder refuses: on every path such an object is read, or kept and counted."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import example, given
from tests.support.informer.history import bookmark, event
from tests.support.informer.hostile import CASES, Case, pod, text

from podium.api.core import Pod
from podium.api.reads import FOLLOWED, Read, Reads
from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.state import ClusterState, Readable
from podium.controllers.process import transform as for_controller
from podium.kube.connection import LONGEST_LINE
from podium.kube.discovery import Served
from podium.kube.reading import Keep
from podium.kube.reflector import Reflector, whole
from podium.schedulerplugin.live.transforms import transform as for_scheduler

KEY = ("evil", "x")
NEXT = json.dumps(pod("next", 9)).encode()


class Scene:
    """A reflector of pods, its state, and its log."""

    def __init__(self, reads: Reads = SCHEDULING_READS, keep: Keep = whole) -> None:
        self.state = ClusterState(native_served=False)
        self.logged: list[dict[str, Any]] = []
        read: Read = reads["v1", "Pod"]
        served = Served("v1", "Pod", read, "pods", namespaced=True)
        self.reflector = Reflector(served, self.state, self._log_event, transform=keep)

    def _log_event(self, what: str, fields: dict[str, Any]) -> None:
        assert what == "object not decodable"
        self.logged.append(fields)

    def stream(self, *pods: bytes) -> None:
        """List pods by a watch that continues."""
        self.reflector.stream_query()
        for each in pods:
            self.reflector.take_line(_added(each))
        self.reflector.take_line(bookmark(20, ends_list=True))

    def watch(self, *pods: bytes) -> None:
        """Send them after a list without them."""
        self.stream()
        self.reflector.version = 1
        self.reflector.watch_query()
        for each in pods:
            self.reflector.take_line(_added(each))

    def page(self, *pods: bytes) -> None:
        """List them in one page."""
        self.reflector.list_query()
        marks = {f"m{number}": each.decode("utf-8", "surrogateescape") for number, each in enumerate(pods)}
        body = {
            "kind": "PodList",
            "metadata": {"resourceVersion": "20"},
            "items": [f"@{each}" for each in marks],
        }
        assert not self.reflector.take_page(text(body, **marks))


def _added(pod: bytes) -> bytes:
    return b'{"type":"ADDED","object":' + pod + b"}\n"


class Process(NamedTuple):
    """A process's way of reading pods."""

    reads: Reads
    keep: Keep


PROCESSES = {
    "scheduler": Process(SCHEDULING_READS, for_scheduler),
    "controller": Process(FOLLOWED, for_controller),
}
WAYS: dict[str, Callable[..., None]] = {"stream": Scene.stream, "watch": Scene.watch, "page": Scene.page}


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_one_object_is_seen_or_counted_and_the_next_one_read(case: Case, way: str, process: str) -> None:
    """A pod that was never decoded occupies its node with the amounts that can be read."""
    scene = Scene(*PROCESSES[process])
    WAYS[way](scene, case.text, NEXT)
    assert ("evil", "next") in scene.state.pods
    found = scene.state.pods.get(KEY)
    if case.decodable:
        assert found is not None
        assert (scene.reflector.undecodable, scene.logged) == ({}, [])
        assert process == "controller" or _kept(found) == ("n1", {"cpu": "1", "nvidia.com/gpu": "1"})
        return
    # The controller reads fewer fields, and an unread field cannot be wrong.
    if process == "controller" and not scene.reflector.undecodable:
        assert found is not None
        return
    assert list(scene.reflector.undecodable) == [KEY]
    assert [(logged["namespace"], logged["name"]) for logged in scene.logged] == [KEY]
    if process == "controller":
        # The controller keeps neither nodes nor amounts.
        assert (found is None) == (case.kept is None)
    else:
        assert (None if found is None else _kept(found)) == case.kept


def _kept(found: Pod) -> tuple[str | None, dict[str, Any]]:
    containers = found.spec.containers or []
    resources = containers[0].resources if containers else None
    return found.spec.nodeName, (resources.requests if resources is not None else None) or {}


BROKEN = [case for case in CASES if not case.decodable]


@pytest.mark.parametrize("again", ["watch", "stream", "page"])
@pytest.mark.parametrize("case", BROKEN, ids=[case.id for case in BROKEN])
def test_an_undecodable_field_keeps_its_known_value(case: Case, again: str) -> None:
    """Only the wrong field keeps its old value; a pod that was bound since occupies its node."""
    scene = Scene(*PROCESSES["scheduler"])
    pending = pod("x", 3)
    del pending["spec"]["nodeName"]
    scene.stream(json.dumps({**pending, "spec": {**pending["spec"], "priority": 5}}).encode())
    if again == "watch":
        scene.reflector.version = 3
        scene.reflector.watch_query()
        scene.reflector.take_line(_added(case.text))
    else:
        scene.reflector.expire()
        WAYS[again](scene, case.text)
    found = scene.state.pods[KEY]
    node = case.kept[0] if case.kept is not None else None
    assert found.spec.nodeName == node
    assert _kept(found)[1] == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert list(scene.reflector.undecodable) == [KEY]
    if "priority" in case.id:
        assert found.spec.priority == 5


def test_it_is_counted_while_it_is_there_and_named_once() -> None:
    """Another object of the name is reported too."""
    scene = Scene()
    broken = json.dumps(pod("x", 7, spec={"priority": "high"})).encode()
    scene.stream(broken, broken)
    assert (len(scene.reflector.undecodable), scene.reflector.undecodable_reads, len(scene.logged)) == (
        1,
        2,
        1,
    )
    scene.reflector.watch_query()
    scene.reflector.take_line(_added(json.dumps(pod("x", 21)).encode()))
    assert not scene.reflector.undecodable
    scene.reflector.take_line(_added(json.dumps(pod("x", 22, spec={"priority": "high"})).encode()))
    assert (len(scene.reflector.undecodable), scene.reflector.undecodable_reads, len(scene.logged)) == (
        1,
        3,
        1,
    )
    scene.reflector.take_line(event("DELETED", pod("x", 23, spec={"priority": "high"})))
    assert (scene.reflector.undecodable, dict(scene.state.pods)) == ({}, {})
    scene.reflector.take_line(_added(json.dumps(pod("x", 24, spec={"priority": "high"})).encode()))
    assert len(scene.logged) == 2


def test_one_that_vanished_between_two_lists_is_counted_no_more() -> None:
    scene = Scene()
    scene.stream(json.dumps(pod("x", 7, spec={"priority": "high"})).encode())
    scene.reflector.expire()
    scene.stream(NEXT)
    assert (scene.reflector.undecodable, set(scene.state.pods)) == ({}, {("evil", "next")})


def test_a_line_past_the_bound_keeps_what_was_known() -> None:
    """The line is truncated; metadata come before all fields that can be this long."""
    scene = Scene()
    scene.stream(json.dumps(pod("x", 7)).encode())
    scene.reflector.watch_query()
    line = _added(json.dumps(pod("x", 21, spec={"a": "x" * LONGEST_LINE})).encode())
    scene.reflector.take_line(line[:LONGEST_LINE])
    assert scene.reflector.version == 21
    assert scene.state.pods[KEY].metadata.resourceVersion == "7"
    assert [logged["error"] for logged in scene.logged] == ["more than 16 MiB of JSON"]
    gone = event("DELETED", pod("x", 22, spec={"a": "x" * LONGEST_LINE}))
    scene.reflector.take_line(gone[:LONGEST_LINE])
    assert (dict(scene.state.pods), scene.reflector.undecodable) == ({}, {})


def test_a_transform_that_fails_puts_one_object_in_doubt() -> None:
    """A bug of ours affects one object; the others continue."""

    def keep(obj: Readable) -> Readable:
        if obj.metadata.name == "x":
            raise ZeroDivisionError("a bug")
        return obj

    scene = Scene(keep=keep)
    scene.stream(json.dumps(pod("x")).encode(), NEXT)
    assert set(scene.state.pods) == {("evil", "next")}
    assert [logged["error"] for logged in scene.logged] == ["a bug"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
PATHS = [
    ("metadata", "labels"), ("metadata", "ownerReferences"), ("metadata", "deletionTimestamp"),
    ("spec",), ("spec", "containers"), ("spec", "containers", 0), ("spec", "containers", 0, "resources"),
    ("spec", "containers", 0, "resources", "requests"), ("spec", "nodeName"), ("spec", "priority"),
    ("spec", "affinity"), ("spec", "tolerations"), ("spec", "volumes"), ("spec", "overhead"),
    ("status",), ("status", "conditions"), ("status", "phase"), ("status", "containerStatuses"),
]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(PATHS), JSON), min_size=1, max_size=3), st.sampled_from(sorted(WAYS))
)
@example([(("spec", "containers", 0, "resources", "requests"), {"": -(2**63) - 1})], "page")
def test_anything_anywhere_in_a_pod_stops_nothing(changes: list[tuple[Any, Any]], way: str) -> None:
    scene = Scene(*PROCESSES["scheduler"])
    broken = pod("x")
    for path, value in changes:
        part: Any = broken
        for step in path[:-1]:
            part = part[step] if _has(part, step) else {}
        if isinstance(part, dict) or _has(part, path[-1]):
            part[path[-1]] = value
    WAYS[way](scene, json.dumps(broken).encode(), NEXT)
    assert ("evil", "next") in scene.state.pods
    spec = broken["spec"]
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    if isinstance(node, str) and node:
        assert scene.state.pods[KEY].spec.nodeName == node


def _has(part: Any, step: str | int) -> bool:
    if isinstance(part, dict):
        return step in part
    return isinstance(part, list) and isinstance(step, int) and step < len(part)
