"""The plugins of the planner, each a folder with everything of one capability."""

from podium.planner.plugins.devices.plugin import DevicesPlugin
from podium.planner.plugins.volumes.plugin import VolumesPlugin

PLUGINS = (VolumesPlugin, DevicesPlugin)
