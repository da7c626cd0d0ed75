"""Generated scripts of writes are answered alike, and the webhooks do not affect native objects.

`make test` runs the same scripts each time. `PODIUM_DIFFERENTIAL=full` runs ten times as many new ones, of
the seed PODIUM_SEED if there is one. A schema's texts have more variants than the list of explanations
covers: new scripts find these, and must not fail an unrelated change.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.admission.generator import Kind, scenario
from tests.support.parity import generated
from tests.support.parity.compare import Exchange
from tests.support.parity.explained import explained
from tests.support.parity.sides import Sides
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL
from tests.support.webhooks.running import running

pytestmark = pytest.mark.server

_THREADS = 6
_SCRIPTS = 120 if FULL else 12
_SEED = 5710


def test_generated_writes_are_answered_alike(sides: Sides) -> None:
    """Random creates and updates of Podium's kinds have the answers of native kinds."""
    wrong = []
    for exchange in _exchanges(sides, Kind.GROUP, Kind.WORKLOAD):
        rest, names = explained(exchange)
        if not rest.equal:
            wrong.append(f"{rest}\n  after {names}\n  sent {exchange.case.document}")
    assert not wrong, f"{sides}: {len(wrong)} differ\n" + "\n".join(wrong[:10])


def test_native_objects_do_not_feel_the_webhooks(gated: Sides, tmp_path: Path) -> None:
    """With a served Workload API, every native write has exactly the answer of a server without Podium."""
    with running(gated.podium.server, tmp_path):
        made = list(_exchanges(gated, Kind.GROUP, Kind.WORKLOAD, Kind.POD))
    wrong = [str(one) for one in made if not one.equal]
    assert not wrong, f"{gated}: {len(wrong)} differ\n" + "\n".join(wrong[:10])


def _exchanges(sides: Sides, *kinds: Kind) -> Iterator[Exchange]:
    seed = new_seed() if FULL else _SEED
    minor = sides.native.server.release.minor

    def played(index: int) -> list[Exchange]:
        with sides.anew() as own:
            return list(generated.run(own, scenario(seed, index, minor), *kinds))

    with ThreadPoolExecutor(_THREADS) as pool:
        made = [exchange for script in pool.map(played, range(_SCRIPTS)) for exchange in script]
    assert len(made) > _SCRIPTS
    yield from made
