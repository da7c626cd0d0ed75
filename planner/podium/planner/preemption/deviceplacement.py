"""Places the few pods of a group that need different devices on every node, in every order of their kinds.

Each pod gets the first devices that its claims can have, so an earlier pod may take those of a later one. The
orders are tried one after the other, with a bounded number of steps.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, permutations

from podium import jsontext
from podium.api.devices import DeviceClaim, DeviceRequest
from podium.planner.deadline import Deadline
from podium.planner.placement import Placer
from podium.planner.preemption.nodesearch import NodeSearch
from podium.planner.shapes import Shape

# The most pods that are tried on every node, the most kinds whose orders are tried, and the most steps.
_PODS, _KINDS, _STEPS = 8, 3, 256
_DECODER = jsontext.Decoder(DeviceClaim)


def device_attempts(
    placer: Placer, rows: Sequence[int], needed: int, deadline: Deadline
) -> Iterator[Callable[[], dict[int, int]]]:
    """Yield more ways to place pods with devices, if their claims differ; each assumes what it places."""
    snapshot, devices = placer.snapshot, placer.chain.devices
    if not any(devices.concerns(snapshot.shape_at(row)) for row in rows) or len(_kinds(placer, rows)) < 2:
        return
    # The pods that need the fewest devices are placed if not all are needed.
    chosen = sorted(rows, key=lambda row: devices_wanted(snapshot.shape_at(row)))[:needed]
    largest_first = sorted(chosen, key=lambda row: -devices_wanted(snapshot.shape_at(row)))
    yield partial(placer.place_many, largest_first, enough=needed, deadline=deadline)
    if needed <= _PODS:
        yield partial(_searched, placer, largest_first)


def _kinds(placer: Placer, rows: Sequence[int]) -> list[list[int]]:
    """Return the pods by kind; pods of one kind need equal devices and room."""
    kinds: dict[object, list[int]] = {}
    for row in rows:
        shape = placer.snapshot.shape_at(row)
        needs = tuple((each.requests, each.nodes) for each in shape.devices)
        kinds.setdefault((needs, shape.requests), []).append(row)
    return list(kinds.values())


def devices_wanted(shape: Shape) -> int:
    """Return how many devices the claims of a shape request at least."""
    return sum(_request_count(each.requests) for each in shape.devices if each.requests)


@lru_cache(maxsize=1024)
def _request_count(requests: bytes) -> int:
    return sum(map(_fewest_of, _DECODER.decode(requests).requests or ()))


def _fewest_of(request: DeviceRequest) -> int:
    if request.exactly is not None:
        return request.exactly.count or 1
    return min((each.count or 1 for each in request.firstAvailable or ()), default=0)


def _searched(placer: Placer, rows: Sequence[int]) -> dict[int, int]:
    """Place and assume pods in the first order of their kinds in which all find a node."""
    snapshot, left = placer.snapshot, _STEPS
    kinds = _kinds(placer, rows)
    orders = permutations(kinds) if len(kinds) <= _KINDS else iter([tuple(kinds)])
    for order in orders:
        search = NodeSearch(placer, list(chain.from_iterable(order)), left)
        with snapshot.trial():
            placed = search.placed()
        if placed is not None:
            for row, node in placed.items():
                snapshot.assume(row, node)
            return placed
        left -= search.steps
        if left <= 0:
            break
    return {}
