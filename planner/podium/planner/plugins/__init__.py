"""The plugins of the planner, each a folder with everything of one capability; others are out of tree."""

from collections.abc import Iterable
from functools import partial

from podium.planner.plugins.devices.plugin import DevicesPlugin
from podium.planner.plugins.outoftree import OutOfTreePlugin
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.snapshot import PluginFactory
from podium.plugins import load_plugin

PLUGINS = (VolumesPlugin, DevicesPlugin)


def plugins_with(names: Iterable[str]) -> tuple[PluginFactory, ...]:
    """Return these, and the administrator's of these names. Raises PodiumUsageError for one without use."""
    return (*PLUGINS, *(partial(OutOfTreePlugin, name, load_plugin(name)) for name in names))
