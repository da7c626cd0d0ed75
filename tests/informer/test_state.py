"""The index that informers feed: what goes is gone from everywhere, and membership follows the API."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from podium.api.core import Node, Pod, PodDisruptionBudget, PodSpec, PriorityClass, SchedulingGroup
from podium.api.foreign import KueueWorkload, Owner
from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP, DisruptionMode, PodGroup, Workload
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.findings import ObjectRef
from podium.state import Readable, State

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
    PriorityClass(metadata=ObjectMeta(name="x")),
    PodDisruptionBudget(metadata=META),
    KueueWorkload("kueue.x-k8s.io/v1beta1", "Workload", metadata=META),
    _group(NATIVE_GROUP),
    _group(PODIUM_GROUP),
    _workload(NATIVE_GROUP),
    _workload(PODIUM_GROUP),
    Owner(ObjectRef("batch/v1", "Job", "team", "x"), META, {}),
]


def _contents(state: State) -> dict[str, Any]:
    """Give every index of a state, the revision apart."""
    return {name: value for name, value in vars(state).items() if name != "revision"}


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda obj: str(getattr(obj, "ref", type(obj).__name__)))
def test_an_object_that_was_removed_leaves_nothing(obj: Readable) -> None:
    """Each step is a revision; to remove what is not there is none."""
    state, empty = State(native_served=True), State(native_served=True)
    state.apply(obj)
    assert _contents(state) != _contents(empty)
    state.remove(obj)
    assert _contents(state) == _contents(empty)
    assert state.revision == 2
    state.remove(obj)
    assert state.revision == 2


def test_a_group_of_one_api_is_not_that_of_the_other() -> None:
    state = State(native_served=True)
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
    """Whatever came, went or was served in between."""
    state = State(native_served=False)
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
    anew = State(native_served=state.native_served)
    for pod in state.pods.values():
        anew.apply(pod)
    assert _contents(anew) == _contents(state)


def _copied(state: State) -> tuple[Any, ...]:
    members = {key: dict(pods) for key, pods in state.referenced_groups().items()}
    return dict(state.pods), members, state.native_served


def test_what_cannot_be_read_is_news_when_it_changes() -> None:
    state = State(native_served=False)
    state.note_unread({"Pod": "why"})
    state.note_unread({"Pod": "why"})
    assert (state.unread, state.revision) == ({"Pod": "why"}, 1)
