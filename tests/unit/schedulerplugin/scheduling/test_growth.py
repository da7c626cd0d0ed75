"""The work for one event does not grow with the objects that a tenant makes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.devices.scene import claim as device_claim
from tests.support.filters.builders import claim, mounts
from tests.support.preemption.scene import composite, group, node
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.rig import World, pod
from tests.support.steps import steps

from podium.api.meta import Condition
from podium.cluster.state import Readable
from podium.schedulerplugin.scheduling.effects import Bind

SMALL = 200
# The same events of twice the objects may take twice the steps, and some more for structures that grow.
_TOTAL = 2.6
# The longest callback may not grow by more than this.
_ONE = 1.5

Change = Callable[[World], None]


class Growth(NamedTuple):
    """The objects at the start, and the changes whose steps are counted."""

    before: list[Readable]
    changes: Sequence[Change]
    hold_binds: bool = False


def comes(*objects: Readable) -> Change:
    return lambda world: world.apply(*objects)


def goes(obj: Readable) -> Change:
    return lambda world: world.state.remove(obj)


def written(obj: Any, number: int) -> Any:
    """Return an object as after a write of its annotations."""
    metadata = msgspec.structs.replace(obj.metadata, annotations={"written": str(number)})
    return msgspec.structs.replace(obj, metadata=metadata)


def reported(obj: Any, number: int) -> Any:
    """Return a group as after a write of its conditions."""
    condition = Condition(type="Reported", status="True", message=str(number))
    return msgspec.structs.replace(obj, conditions=(condition,))


def _leaves(size: int, *, whole: bool = False, **fields: Any) -> list[Any]:
    return [
        composite("tree", 10, size, whole=whole),
        *(group(f"g{at}", 10, 1, composite="tree", **fields) for at in range(size)),
    ]


def _of_leaves(size: int, where: str | None = None, cpu: int = 9) -> list[Any]:
    return [pod(f"p{at}", cpu, 10, group=f"g{at}", node=where) for at in range(size)]


def children_come(size: int) -> Growth:
    root, *children = _leaves(size)
    return Growth([root, *_of_leaves(size)], [comes(child) for child in children])


def children_are_reported(size: int) -> Growth:
    root, *children = _leaves(size)
    changes = [comes(reported(child, at)) for at, child in enumerate(children)]
    return Growth([root, *children, *_of_leaves(size)], changes)


def children_of_a_running_tree_change(size: int) -> Growth:
    root, *children = _leaves(size, whole=True)
    changes = [comes(written(child, at)) for at, child in enumerate(children)]
    return Growth([root, *children, *_of_leaves(size, "n1", 0)], changes)


def the_root_comes_and_goes(size: int) -> Growth:
    root, *children = _leaves(size)
    return Growth([*children, *_of_leaves(size)], [comes(root), goes(root)] * size)


def pods_of_a_running_tree_go(size: int) -> Growth:
    pods = _of_leaves(size, "n1", 0)
    return Growth([*_leaves(size, whole=True), *pods], [goes(each) for each in pods])


def children_go(size: int) -> Growth:
    root, *children = _leaves(size)
    return Growth([root, *children, *_of_leaves(size)], [goes(child) for child in children])


def members_are_bound(size: int) -> Growth:
    pods = gang("g", size=size, cpu=0, priority=10)
    bound = [
        msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, nodeName="n1")) for each in pods
    ]
    changes = [comes(each) for each in bound]
    return Growth([group("g", 10, size, whole=True), *pods], changes, hold_binds=True)


def binds_of_a_group_end_one_by_one(size: int) -> Growth:
    def fails(at: int, world: World) -> None:
        (bind,) = world.held
        assert isinstance(bind, Bind)
        world.scheduler.holds.bind_failed(bind.key, *bind.pods[at], settled=True)

    pods = gang("g", size=size, cpu=0, priority=10)
    changes = [partial(fails, at) for at in range(size)]
    return Growth([group("g", 10, size, whole=True), *pods], changes, hold_binds=True)


def members_of_a_lower_priority_come(size: int) -> Growth:
    return Growth([group("g", 10, size)], [comes(each) for each in gang("g", size=size, cpu=9, priority=1)])


def members_of_a_running_group_go(size: int) -> Growth:
    pods = [running(f"g-{at}", cpu=0, priority=10, group="g") for at in range(size)]
    return Growth([group("g", 10, 1, whole=True), *pods], [goes(each) for each in pods])


def a_group_is_written(size: int) -> Growth:
    whole = group("g", 10, size)
    changes = [comes(written(whole, at)) for at in range(size)]
    return Growth([whole, *gang("g", size=size, cpu=9, priority=10)], changes)


def a_group_with_claims_is_written(size: int) -> Growth:
    whole = group("g", 10, size, claims=("c",))
    pods = gang("g", size=size, priority=10, resourceClaims=[{"name": "c", "resourceClaimName": "shared"}])
    return Growth([whole, *pods], [comes(written(whole, at)) for at in range(size)])


def a_device_claim_of_many_pods_is_written(size: int) -> Growth:
    shared = device_claim("shared")
    names = [{"name": "c", "resourceClaimName": "shared"}]
    pods = [pod(f"p{at}", resourceClaims=names) for at in range(size)]
    return Growth([shared, *pods], [comes(written(shared, at)) for at in range(size)])


def pods_of_one_device_claim_go(size: int) -> Growth:
    names = [{"name": "c", "resourceClaimName": "shared"}]
    pods = [pod(f"p{at}", resourceClaims=names) for at in range(size)]
    held = device_claim("shared", held=["n1/gpu-0"], users=["other"])
    return Growth([held, *pods], [goes(each) for each in pods])


def a_volume_claim_of_many_pods_is_written(size: int) -> Growth:
    shared = claim("shared")
    pods = [pod(f"p{at}", **mounts("shared")) for at in range(size)]
    return Growth([shared, *pods], [comes(written(shared, at)) for at in range(size)])


def nodes_go_beside_many_pods(size: int) -> Growth:
    nodes = [node(f"m{at}") for at in range(size)]
    return Growth([*nodes, *(pod(f"p{at}", 9) for at in range(size))], [goes(each) for each in nodes])


GROWTHS: list[Callable[[int], Growth]] = [
    children_come,
    children_are_reported,
    children_of_a_running_tree_change,
    children_go,
    the_root_comes_and_goes,
    pods_of_a_running_tree_go,
    members_are_bound,
    binds_of_a_group_end_one_by_one,
    members_of_a_lower_priority_come,
    members_of_a_running_group_go,
    a_group_is_written,
    a_group_with_claims_is_written,
    a_device_claim_of_many_pods_is_written,
    pods_of_one_device_claim_go,
    a_volume_claim_of_many_pods_is_written,
    nodes_go_beside_many_pods,
]


def _work(growth: Growth) -> tuple[int, int, int]:
    """Return the steps of all changes, of the longest one, and of the scheduler's next look."""
    world = World(node("n1", room={"pods": "10000"}))
    world.hold_binds = growth.hold_binds
    world.run(*growth.before)
    each = [steps(partial(change, world)) for change in growth.changes]
    return sum(each), max(each), steps(world.run)


@pytest.mark.parametrize("growth", GROWTHS, ids=lambda each: each.__name__.replace("_", " "))
def test_the_work_of_an_event_does_not_grow(growth: Callable[[int], Growth]) -> None:
    _work(growth(4))
    small, large = _work(growth(SMALL)), _work(growth(2 * SMALL))
    assert large[0] <= _TOTAL * small[0], (small, large)
    assert large[1] <= _ONE * small[1], (small, large)
    assert large[2] <= _TOTAL * small[2] + 1000, (small, large)
