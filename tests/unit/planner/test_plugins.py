"""The plugins of the planner: one folder each, which no module outside names but those listed here."""

import re
from pathlib import Path

import numpy as np
from tests.support.filters.builders import node, pod

from podium.planner import plugins
from podium.planner.filters.chain import Chain
from podium.planner.snapshot import Snapshot

PLANNER = Path(plugins.__file__).parents[1]
# The modules outside the folder that import it: the registry.
IMPORTERS = {"plugins/__init__.py"}


def test_modules_outside_the_folder_of_volumes_do_not_import_it() -> None:
    importers = {
        str(module.relative_to(PLANNER))
        for module in PLANNER.rglob("*.py")
        if re.search(r"^from podium\.planner\.plugins\.volumes", module.read_text("utf-8"), re.MULTILINE)
    }
    assert {name for name in importers if not name.startswith("plugins/volumes/")} == IMPORTERS


def test_a_snapshot_without_plugins_places_pods() -> None:
    snapshot = Snapshot()
    chain = Chain(snapshot, {})
    for name, cpu in (("small", "1"), ("large", "4")):
        snapshot.apply(None, node(name, {"cpu": cpu, "pods": 10}))
    shape = snapshot.shape_of(pod("p", {"cpu": "2"}))
    assert shape.needs == ()
    assert np.flatnonzero(chain.feasible(shape)).tolist() == [snapshot.row["large"]]
