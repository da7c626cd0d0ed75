"""The plugins of the planner: a module or folder each, which no module outside names but those listed."""

import re
import tokenize
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
from podium.planner.plugins.noderesources import NodeResourcesPlugin
from podium.planner.preemption import planningstate
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
        if not name.startswith((f"plugins/{folder}/", f"plugins/{folder}.py"))
        and re.search(pattern, module.read_text("utf-8"), re.MULTILINE | re.IGNORECASE)
    }


# Labels, taints and features of nodes are arrays of the snapshot.
ARRAYS = {"arrays.py", "comparer.py", "snapshot.py"}
# By plugin: names of its subject in code, and the modules outside of all plugins that have such names.
SUBJECTS = {
    "tainttoleration": (r"taint", ARRAYS),
    "nodeaffinity": (r"affinit|node_selector|nodeSelector$", set[str]()),
    "nodeports": (r"host_?port|^ports$", set[str]()),
    "topologyspread": (r"topology_?spread|skew|spread_constraint", set[str]()),
    "podaffinity": (r"affinit", set[str]()),
    "declaredfeatures": (r"feature", ARRAYS),
    "volumes": (r"persistent_?volume|claims_of_pod", set[str]()),
}


def _names(module: Path) -> set[str]:
    with tokenize.open(module) as source:
        return {
            token.string for token in tokenize.generate_tokens(source.readline) if token.type == tokenize.NAME
        }


@pytest.mark.parametrize("name", [*SUBJECTS, "noderesources", "devices"])
def test_modules_outside_a_plugin_do_not_import_it(name: str) -> None:
    assert _modules(name, rf"^\s*from podium\.planner\.plugins\.{name}\b") == IMPORTERS


@pytest.mark.parametrize(("pattern", "modules"), SUBJECTS.values(), ids=SUBJECTS)
def test_modules_outside_the_plugins_do_not_name_their_subjects(pattern: str, modules: set[str]) -> None:
    outside = [module for module in PLANNER.rglob("*.py") if "plugins" not in module.parts]
    naming = {
        str(module.relative_to(PLANNER))
        for module in outside
        if any(re.search(pattern, name, re.IGNORECASE) for name in _names(module))
    }
    assert naming == modules


def test_few_modules_outside_the_folder_of_devices_name_them() -> None:
    assert _modules("devices", "device") == NAMING_DEVICES


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# The fields of a pod that needs a plugin, for each one that may be left out.
_NEEDS: dict[str, dict[str, Any]] = {
    "tolerations": {"tolerations": [{"operator": "Exists"}]},
    "node affinity": {"nodeSelector": {"a": "b"}},
    "host ports": {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
    "volume claims": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    "topology spread constraints": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]},
    "pod affinity": {"affinity": {"podAntiAffinity": {_REQUIRED: [{"topologyKey": "zone"}]}}},
    "resource claims": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]},
    "required features": {"hostNetwork": True, "hostUsers": False},
}
_LEFT_OUT = [plugin for plugin in PLUGINS if plugin is not NodeResourcesPlugin]


def test_the_claim_of_each_plugin_that_may_be_left_out_is_tested() -> None:
    assert [plugin.JUDGES for plugin in _LEFT_OUT] == [*_NEEDS]


@pytest.mark.parametrize("left_out", _LEFT_OUT)
def test_an_engine_without_a_plugin_plans(left_out: type[Plugin], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that needs the plugin is not judged, and the plan says what is missing."""
    monkeypatch.setattr(
        planningstate, "plugins_with", lambda names: plugins.plugins_with(names, without=[left_out])
    )
    needing = pod("needing", {"cpu": "1"}, **_NEEDS[left_out.JUDGES])
    others = (pod("p", {"cpu": "1"}), pod("q", {"cpu": "2"}))
    engine = engine_of(node("n", {"cpu": "1", "pods": 10}), *others, needing)
    plans = {name: engine.plan((NS, name), NOW) for name in ("p", "q", "needing")}
    outcomes = [plan.outcome for plan in plans.values()]
    assert outcomes == [Outcome.FITS, Outcome.DOES_NOT_FIT, Outcome.NOT_JUDGED]
    assert left_out.JUDGES in str(plans["needing"])


def test_a_snapshot_with_resources_alone_places_pods() -> None:
    snapshot = Snapshot(plugins=(NodeResourcesPlugin,))
    chain = Chain(snapshot, {})
    for name, cpu in (("small", "1"), ("large", "4")):
        snapshot.apply(None, node(name, {"cpu": cpu, "pods": 10}))
    shape = snapshot.shape_of(pod("p", {"cpu": "2"}))
    assert not any(need.restricts for need in shape.needs)
    assert np.flatnonzero(chain.feasible(shape)).tolist() == [snapshot.row["large"]]
