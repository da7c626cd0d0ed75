"""The plugins of the planner: one folder each, which no module outside names but those listed here."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.filters.builders import NS, node, pod
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import engine_of

from podium import schedulerplugin
from podium.planner import plugins
from podium.planner.filters.chain import Chain
from podium.planner.framework import Plugin
from podium.planner.plugins import PLUGINS
from podium.planner.preemption.outcome import Outcome
from podium.planner.snapshot import Snapshot

PLANNER, SCHEDULER = Path(plugins.__file__).parents[1], Path(schedulerplugin.__file__).parent
# The modules outside the folder that import it: the registry.
IMPORTERS = {"plugins/__init__.py"}
# Those that name devices: the registry, the plan as a document, and rules of releases.
NAMING_DEVICES = {"plugins/__init__.py", "preemption/outcome.py", "semantics.py"}


def _modules(folder: str, pattern: str) -> set[str]:
    """Return the modules outside the folder of a plugin that contain a pattern."""
    paths = {str(module.relative_to(PLANNER)): module for module in PLANNER.rglob("*.py")}
    return {
        name
        for name, module in paths.items()
        if not name.startswith(f"plugins/{folder}/")
        and re.search(pattern, module.read_text("utf-8"), re.MULTILINE | re.IGNORECASE)
    }


@pytest.mark.parametrize("folder", ["volumes", "devices"])
def test_modules_outside_the_folder_of_a_plugin_do_not_import_it(folder: str) -> None:
    assert _modules(folder, rf"^\s*from podium\.planner\.plugins\.{folder}") == IMPORTERS


def test_few_modules_outside_the_folder_of_devices_name_them() -> None:
    assert _modules("devices", "device") == NAMING_DEVICES


_CLAIMS: dict[str, dict[str, Any]] = {
    "volume claims": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    "resource claims": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]},
}


@pytest.mark.parametrize("left_out", PLUGINS)
def test_an_engine_without_a_plugin_plans(left_out: type[Plugin], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that needs the plugin is not judged, and the plan says what is missing."""
    kept = tuple(plugin for plugin in PLUGINS if plugin is not left_out)
    monkeypatch.setattr(plugins, "PLUGINS", kept)
    needing = pod("needing", {"cpu": "1"}, **_CLAIMS[left_out.JUDGES])
    others = (pod("p", {"cpu": "1"}), pod("q", {"cpu": "2"}))
    engine = engine_of(node("n", {"cpu": "1", "pods": 10}), *others, needing)
    plans = {name: engine.plan((NS, name), NOW) for name in ("p", "q", "needing")}
    outcomes = [plan.outcome for plan in plans.values()]
    assert outcomes == [Outcome.FITS, Outcome.DOES_NOT_FIT, Outcome.NOT_JUDGED]
    assert left_out.JUDGES in str(plans["needing"])


def test_a_snapshot_without_plugins_places_pods() -> None:
    snapshot = Snapshot()
    chain = Chain(snapshot, {})
    for name, cpu in (("small", "1"), ("large", "4")):
        snapshot.apply(None, node(name, {"cpu": cpu, "pods": 10}))
    shape = snapshot.shape_of(pod("p", {"cpu": "2"}))
    assert not any(need.restricts for need in shape.needs)
    assert np.flatnonzero(chain.feasible(shape)).tolist() == [snapshot.row["large"]]
