"""Generated scripts of writes are answered alike, and the webhooks do not affect native objects.

`make test` runs the same scripts each time. `PODIUM_DIFFERENTIAL=full` runs twenty times as many new ones, of
the seed PODIUM_SEED if there is one. A schema's texts have more variants than the list of explanations
covers: new scripts find these, and must not fail an unrelated change.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.admission.generator import Kind, scenario
from tests.support.parity import generated
from tests.support.parity.compare import Exchange
from tests.support.parity.explained import explained, explanations
from tests.support.parity.sides import Sides
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL
from tests.support.webhooks.running import running

pytestmark = pytest.mark.server

_THREADS = 6
_SCRIPTS = 240 if FULL else 12
_SEED = 5710


def test_generated_writes_are_answered_alike(sides: Sides) -> None:
    """Random creates and updates of Podium's kinds have the answers of native kinds."""
    _agree(sides, _exchanges(sides, Kind.GROUP, Kind.WORKLOAD))


def test_generated_trees_are_answered_alike(trees: Sides) -> None:
    """So have composite groups and trees of templates, with all gates of native groups on."""
    exchanges = _exchanges(trees, Kind.GROUP, Kind.WORKLOAD, Kind.COMPOSITE, trees=True)
    _agree(trees, exchanges, gates=True)


def _agree(sides: Sides, exchanges: Iterable[Exchange], *, gates: bool = False) -> None:
    known = explanations(sides.minor, gates=gates)
    wrong = []
    for exchange in exchanges:
        rest, names = explained(exchange, known)
        if not rest.equal:
            wrong.append(f"{rest}\n  after {names}\n  sent {exchange.case.document}")
    assert not wrong, f"{sides}: {len(wrong)} differ\n" + "\n".join(wrong[:10])


def test_native_objects_do_not_feel_the_webhooks(gated: Sides, tmp_path: Path) -> None:
    """With a served Workload API, every native write has exactly the answer of a server without Podium."""
    with running(gated.podium.server, tmp_path):
        made = list(_exchanges(gated, Kind.GROUP, Kind.WORKLOAD, Kind.POD))
    wrong = [str(one) for one in made if not one.equal]
    assert not wrong, f"{gated}: {len(wrong)} differ\n" + "\n".join(wrong[:10])


def _exchanges(sides: Sides, *kinds: Kind, trees: bool = False) -> Iterator[Exchange]:
    seed = new_seed() if FULL else _SEED

    def played(index: int) -> list[Exchange]:
        with sides.anew() as own:
            return list(generated.run(own, scenario(seed, index, sides.minor, trees=trees), *kinds))

    with ThreadPoolExecutor(_THREADS) as pool:
        made = [exchange for script in pool.map(played, range(_SCRIPTS)) for exchange in script]
    assert len(made) > _SCRIPTS
    yield from made
