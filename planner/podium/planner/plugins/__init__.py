"""The plugins of the planner: a module or a folder with everything of one capability. Others are out of tree.

Their order is that of kube-scheduler's filters.
"""

from collections.abc import Collection, Iterable
from functools import partial

from podium.planner.framework import LeftOutPlugin, Plugin
from podium.planner.plugins.declaredfeatures import DeclaredFeaturesPlugin
from podium.planner.plugins.devices.plugin import DevicesPlugin
from podium.planner.plugins.nodeaffinity import NodeAffinityPlugin
from podium.planner.plugins.nodeports import NodePortsPlugin
from podium.planner.plugins.noderesources import NodeResourcesPlugin
from podium.planner.plugins.outoftree import OutOfTreePlugin
from podium.planner.plugins.podaffinity.plugin import PodAffinityPlugin
from podium.planner.plugins.tainttoleration import TaintTolerationPlugin
from podium.planner.plugins.topologyspread import TopologySpreadPlugin
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.snapshot import PluginFactory
from podium.plugins import load_plugin

PLUGINS = (
    TaintTolerationPlugin,
    NodeAffinityPlugin,
    NodePortsPlugin,
    NodeResourcesPlugin,
    VolumesPlugin,
    TopologySpreadPlugin,
    PodAffinityPlugin,
    DevicesPlugin,
    DeclaredFeaturesPlugin,
)


def plugins_with(names: Iterable[str], without: Collection[type[Plugin]] = ()) -> tuple[PluginFactory, ...]:
    """Return these, and the administrator's of these names. Raises PodiumUsageError for one without use.

    A pod that needs one of those `without` is not judged.
    """
    kept = (partial(LeftOutPlugin, plugin) if plugin in without else plugin for plugin in PLUGINS)
    return (*kept, *(partial(OutOfTreePlugin, name, load_plugin(name)) for name in names))
