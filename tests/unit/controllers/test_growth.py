"""The work of the controller for one event does not grow with the objects that a tenant makes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.autogroups import NAMESPACE, namespace
from tests.support.preemption.scene import composite, group, pod
from tests.support.steps import steps

from podium.cluster.reader import ClusterReader
from podium.cluster.state import ClusterState, Readable
from podium.controllers import autogroups
from podium.controllers.manager import touched
from podium.groups.trees import MAX_GROUPS


class Change(NamedTuple):
    """The objects that exist, and one change of an object."""

    objects: list[Any]
    before: Readable | None
    after: Readable | None


def a_child_of_an_absent_root_comes(size: int) -> Change:
    children = [group(f"g{at}", 10, composite="root", native=False) for at in range(size)]
    return Change(children, None, children[0])


def a_root_comes(size: int) -> Change:
    children = [group(f"g{at}", 10, composite="root", native=False) for at in range(size)]
    return Change(children, None, composite("root", 10, native=False))


def a_member_comes(size: int) -> Change:
    members = [pod(f"p{at}", group="g") for at in range(size)]
    return Change([group("g", 10), *members], None, members[0])


def a_namespace_of_many_groups_is_written(size: int) -> Change:
    metadata = msgspec.structs.replace(namespace().metadata, resourceVersion="2")
    again = msgspec.structs.replace(namespace(), metadata=metadata)
    return Change([group(f"g{at}", native=False) for at in range(size)], namespace(), again)


CHANGES: list[Callable[[int], Change]] = [
    a_child_of_an_absent_root_comes,
    a_root_comes,
    a_member_comes,
    a_namespace_of_many_groups_is_written,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__.replace("_", " "))
def test_the_groups_of_a_change_are_found_in_constant_steps(
    change: Callable[[int], Change],
) -> None:
    few, many = (_touching(change(size)) for size in (10, 100))
    assert many <= few


def _touching(change: Change) -> int:
    state = ClusterState(native_served=True)
    for each in change.objects:
        state.apply(each)
    return steps(lambda: [*touched(state, change.before, change.after)])


def test_a_root_of_more_groups_than_are_scheduled_is_not_created() -> None:
    """Its children are looked at for each of their changes."""

    def decide(size: int) -> Callable[[], object]:
        state = ClusterState(native_served=False)
        state.apply(namespace())
        children = [_child(f"g{at}") for at in range(size)]
        for each in children:
            state.apply(each)
        key = next(iter(state.children))
        view: ClusterReader = state
        return partial(autogroups.decide, view, key)

    at_limit, beyond = (steps(decide(size)) for size in (MAX_GROUPS - 1, MAX_GROUPS))
    assert beyond < at_limit


def _child(name: str) -> Any:
    made = group(name, 10, composite="root", native=False)
    metadata = msgspec.structs.replace(made.metadata, namespace=NAMESPACE)
    return msgspec.structs.replace(
        made, metadata=metadata, ref=msgspec.structs.replace(made.ref, namespace=NAMESPACE)
    )
