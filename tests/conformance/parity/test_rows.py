"""Podium's kinds have the answers of native kinds: every case, every way of writing, or an explanation."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest
from tests.support.parity.case import Case, group, workload
from tests.support.parity.cases import cases
from tests.support.parity.compare import Exchange, exchanges
from tests.support.parity.explained import explained, explanations
from tests.support.parity.scene import NAMESPACE, set_default, unset_default
from tests.support.parity.sides import Sides, Way
from tests.support.servers import FULL

pytestmark = pytest.mark.server

# Enough threads to wait for the servers; a webhook holds a request whose class it does not know yet.
_THREADS = 6


def test_every_row_is_answered_alike(sides: Sides) -> None:
    """Verdict, code, reason, text and stored object are equal, or explained; every reason is needed."""
    known = explanations(sides.minor)
    used: set[str] = set()
    wrong: list[str] = []
    for exchange in _all(sides):
        rest, names = explained(exchange, known)
        used.update(names)
        if not rest.equal:
            wrong.append(f"{rest}\n  after {', '.join(names) or 'nothing'}")
    assert not wrong, f"{sides}: {len(wrong)} differ\n" + "\n".join(wrong[:20])
    assert {explanation.name for explanation in known if sides.minor in explanation.needed} <= used


def _all(sides: Sides) -> Iterator[Exchange]:
    by_default: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases(sides.minor):
        by_default[case.default].append(case)
    yield from _side_by_side(sides, by_default.pop(""))
    for name, under in by_default.items():
        set_default(sides, name)
        yield from _side_by_side(sides, under)
        unset_default(sides, name)


def _side_by_side(sides: Sides, rows: Iterable[Case]) -> Iterator[Exchange]:
    """Send several cases at a time to the servers, each over its own connections."""
    free: SimpleQueue[Sides] = SimpleQueue()

    def tried(numbered: tuple[int, Case]) -> list[Exchange]:
        own = free.get()
        try:
            return list(exchanges(own, NAMESPACE, numbered[1], numbered[0], full=FULL))
        finally:
            free.put(own)

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(_THREADS) as pool:
        for _ in range(_THREADS):
            free.put(stack.enter_context(sides.anew()))
        for made in pool.map(tried, enumerate(rows)):
            yield from made


def test_a_put_makes_nothing(sides: Sides) -> None:
    """A PUT of an absent object gets 404 from both servers (G31)."""
    metadata = {"name": "nowhere", "namespace": NAMESPACE}
    for document in (group(), workload()):
        kind = "PodGroup" if "schedulingPolicy" in document["spec"] else "Workload"
        native, podium = (
            side.write(Way.REPLACE_BLINDLY, {"kind": kind, "metadata": metadata, **document})
            for side in sides
        )
        assert native == podium
        assert native.code == 404
