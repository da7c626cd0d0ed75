"""The index that informers feed: a removed object is in no index, and membership follows the API."""

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from podium.api.core import Namespace, Node, Pod, PodDisruptionBudget, PodSpec, PriorityClass, SchedulingGroup
from podium.api.findings import ObjectRef
from podium.api.foreigngroups import ForeignGroup, KueueWorkload
from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP, DisruptionMode, PodGroup, Workload
from podium.api.membership import GroupKey, membership
from podium.api.meta import ObjectMeta
from podium.api.podkinds.kind import PodOwner
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from podium.cluster.state import ClusterState, Observer, Readable

META = ObjectMeta(name="x", namespace="team")


def _group(api_group: str) -> PodGroup:
    ref = ObjectRef(f"{api_group}/v1beta1", "PodGroup", "team", "x")
    return PodGroup(ref, META, None, DisruptionMode.POD, "", None, None, None)


def _workload(api_group: str) -> Workload:
    return Workload(ObjectRef(f"{api_group}/v1beta1", "Workload", "team", "x"), META, {})


def _pod(name: str, native: str | None = None, label: str | None = None) -> Pod:
    field = None if native is None else SchedulingGroup(podGroupName=native)
    labels = None if label is None else {GROUP_LABEL: label}
    return Pod(
        metadata=ObjectMeta(name=name, namespace="team", labels=labels), spec=PodSpec(schedulingGroup=field)
    )


EVERY_KIND: list[Readable] = [
    _pod("x"),
    _pod("x", label="g"),
    Node(metadata=ObjectMeta(name="x")),
    Namespace(metadata=ObjectMeta(name="x")),
    PriorityClass(metadata=ObjectMeta(name="x")),
    PodDisruptionBudget(metadata=META),
    Schedulable(metadata=META),
    SchedulableNode(metadata=ObjectMeta(name="x")),
    PersistentVolumeClaim(metadata=META),
    PersistentVolume(metadata=ObjectMeta(name="x")),
    StorageClass(metadata=ObjectMeta(name="x")),
    CSINode(metadata=ObjectMeta(name="x")),
    CSIDriver(metadata=ObjectMeta(name="x")),
    CSIStorageCapacity(metadata=META),
    VolumeAttachment(metadata=ObjectMeta(name="x")),
    KueueWorkload("kueue.x-k8s.io/v1beta1", "Workload", metadata=META),
    ForeignGroup("scheduling.x-k8s.io/v1alpha1", metadata=META),
    _group(NATIVE_GROUP),
    _group(PODIUM_GROUP),
    _workload(NATIVE_GROUP),
    _workload(PODIUM_GROUP),
    PodOwner(ObjectRef("batch/v1", "Job", "team", "x"), META, {}),
]


def _contents(state: ClusterState) -> dict[str, Any]:
    """Return every index of a state without the revision."""
    return {name: value for name, value in vars(state).items() if name != "revision"}


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda obj: str(getattr(obj, "ref", type(obj).__name__)))
def test_an_object_that_was_removed_leaves_nothing(obj: Readable) -> None:
    """Each step is a revision; the removal of a missing object is none."""
    state, empty = ClusterState(native_served=True), ClusterState(native_served=True)
    state.apply(obj)
    assert _contents(state) != _contents(empty)
    state.remove(obj)
    assert _contents(state) == _contents(empty)
    assert state.revision == 2
    state.remove(obj)
    assert state.revision == 2


def test_a_copy_holds_every_kind_and_is_another() -> None:
    state = ClusterState(native_served=True, unread={"Node": "forbidden"})
    for each in EVERY_KIND:
        state.apply(each)
    before, copy = _contents(state), state.copy()
    assert _contents(copy) == before
    for each in EVERY_KIND:
        copy.remove(each)
    assert _contents(state) == before


def test_a_group_of_one_api_is_not_that_of_the_other() -> None:
    state = ClusterState(native_served=True)
    state.apply(_group(NATIVE_GROUP))
    state.remove(_group(PODIUM_GROUP))
    assert list(state.groups) == [GroupKey(True, "team", "x")]


NAMES = st.sampled_from(["a", "b", "c"])
GROUPS = st.none() | st.sampled_from(["g", "h"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.builds(_pod, NAMES, GROUPS, GROUPS)),
        st.tuples(st.just("remove"), st.builds(_pod, NAMES)),
        st.tuples(st.just("serve"), st.booleans()),
    ),
    max_size=30,
)


@given(STEPS)
def test_membership_is_as_if_built_anew(steps: list[tuple[str, Any]]) -> None:
    """The indexes are right after any additions, removals and changes of the served API."""
    state = ClusterState(native_served=False)
    for step, value in steps:
        before = state.revision, _copied(state)
        match step:
            case "apply":
                state.apply(value)
            case "remove":
                state.remove(value)
            case _:
                state.serve_native(value)
        assert state.revision >= before[0]
        if state.revision == before[0]:
            assert _copied(state) == before[1]
    anew = ClusterState(native_served=state.native_served)
    for pod in state.pods.values():
        anew.apply(pod)
    assert _contents(anew) == _contents(state)


def _copied(state: ClusterState) -> tuple[Any, ...]:
    members = {key: dict(pods) for key, pods in state.referenced_groups().items()}
    return dict(state.pods), members, state.native_served


ANYTHING = st.sampled_from(EVERY_KIND) | st.builds(_pod, NAMES, GROUPS, GROUPS)


class Replay:
    """An observer that copies the objects from its events, and the members of each group."""

    def __init__(self, state: ClusterState) -> None:
        self.objects: dict[object, Readable] = {}
        self.pairs: list[tuple[Readable | None, Readable | None]] = []
        self._state = state
        state.observe(self)

    def __call__(self, before: Readable | None, after: Readable | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        self.pairs.append((before, after))
        key = _identity(obj)
        assert self.objects.get(key) is before
        if after is None:
            del self.objects[key]
        else:
            self.objects[key] = after
        # Readers see the same objects as observers.
        assert {id(each) for each in _objects(self._state)} == {id(each) for each in self.objects.values()}
        if isinstance(obj, Pod):
            group = membership(obj, native_served=self._state.native_served)
            if group is not None:
                assert self._state.members(group).get(obj.metadata.name or "") is after


def _identity(obj: Readable) -> object:
    """Return an object's key by its kind: a pod read for scheduling equals the pod of another read."""
    ref = getattr(obj, "ref", None)
    kind = next(base for base in type(obj).__mro__ if base.__base__ is msgspec.Struct)
    return kind, ref or (obj.metadata.namespace, obj.metadata.name)


def _objects(state: ClusterState) -> list[Readable]:
    indexes = (value for name, value in vars(state).items() if not name.startswith("_"))
    return [obj for index in indexes if isinstance(index, dict) for obj in index.values()]


@given(
    st.lists(
        st.tuples(st.sampled_from(["apply", "remove"]), ANYTHING)
        | st.tuples(st.just("serve"), st.booleans()),
        max_size=30,
    )
)
def test_observers_are_told_of_every_change(steps: list[tuple[str, Any]]) -> None:
    """The events alone give the same objects; an equal object causes no event."""
    state = ClusterState(native_served=False)
    replays = Replay(state), Replay(state)
    for step, value in steps:
        count = len(replays[0].pairs)
        pods = len(state.pods)
        before = state.revision
        match step:
            case "apply":
                state.apply(value)
                expected = 1
            case "remove":
                state.remove(value)
                expected = state.revision - before
            case _:
                state.serve_native(value)
                expected = pods * (state.revision - before)
                assert all(old is new for old, new in replays[0].pairs[count:])
        assert len(replays[0].pairs) - count == expected
    assert replays[0].pairs == replays[1].pairs
    assert replays[0].objects == {_identity(obj): obj for obj in _objects(state)}


def test_unread_kinds_raise_the_revision_when_they_change() -> None:
    state = ClusterState(native_served=False)
    state.note_unread({"Pod": "why"})
    state.note_unread({"Pod": "why"})
    assert (state.unread, state.revision) == ({"Pod": "why"}, 1)


def test_the_longest_callback_is_that_of_all_observers_for_one_change() -> None:
    """An observer that fails takes its time too."""
    time = 0.0

    def takes(seconds: float, *, fails: bool = False) -> Observer:
        def observe(_before: Readable | None, after: Readable | None) -> None:
            nonlocal time
            time += seconds if isinstance(after, Node) else seconds / 4
            if fails:
                raise ValueError("a bug")

        return observe

    state = ClusterState(native_served=False, failed=lambda _error, _obj: None, clock=lambda: time)
    state.observe(takes(1.0, fails=True))
    state.observe(takes(3.0))
    longest = []
    for each in (Namespace(metadata=META), Node(metadata=META), Namespace(metadata=META)):
        state.apply(each)
        longest.append(state.longest_callback)
    assert longest == [1.0, 4.0, 4.0]
