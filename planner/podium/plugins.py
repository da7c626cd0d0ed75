"""The interface for plugins of your own: a filter or a score for nodes, in Python (docs/plugins.md).

A package has a subclass of NodePlugin as an entry point of the group `podium.plugins`, and the configuration
names it. Podium calls it for pods that are alike at once, and never for each pod. All that a plugin gets is
plain values, which it must not change.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from podium.errors import PodiumUsageError
from podium.text import listed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Grows with each change after which a plugin may have to be written again.
INTERFACE_VERSION = 1
ENTRY_POINTS = "podium.plugins"
# A score is from 0 to this, and so is a weight.
HIGHEST = 100


class PodFacts(NamedTuple):
    """A pod as a plugin sees it; `group` is the name of its group, empty for a lone pod.

    `labels` are those that the plugin names. `requests` are in thousandths of a cpu, bytes, and numbers.
    """

    namespace: str
    group: str
    labels: Mapping[str, str]
    priority: int
    requests: Mapping[str, int]


class NodeFacts(NamedTuple):
    """A node as a plugin sees it; a taint is its key, value and effect.

    `allocatable` is in the units of a pod's requests.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    allocatable: Mapping[str, int]


class NodePlugin(ABC):
    """A filter, a score, or both; each method is a function of its arguments.

    `interface` is the INTERFACE_VERSION that it is written for, `labels` are the keys of pod labels that it
    reads, and `weight` multiplies its score.
    """

    interface: ClassVar[int]
    labels: ClassVar[Collection[str]] = ()
    weight: ClassVar[int] = 1

    @abstractmethod
    def pre_filter(self, pod: PodFacts) -> Hashable | None:
        """Return what a pod needs of the plugin: text, a number, or a tuple of these; None for nothing.

        Pods with equal needs are alike. All other methods get the need and no pod.
        """

    def filter(self, need: Any, node: NodeFacts) -> str | None:  # noqa: ARG002 - a plugin may only score
        """Return why a node cannot take pods with a need; None if it can."""
        return None

    def domain(self, need: Any, node: NodeFacts) -> Hashable | None:  # noqa: ARG002 - as above
        """Return the part of a node that the score depends on; nodes with equal parts are one domain.

        None gives the node a score of 0.
        """
        return None

    def score(self, need: Any, domain: Any, pods: Mapping[Any, int]) -> int:  # noqa: ARG002 - as above
        """Return 0 to 100 for the nodes of a domain, of which the highest is the best.

        `pods` has the number of pods with the need, for each domain of the cluster.
        """
        return 0

    def explain(self, need: Any) -> str:  # noqa: ARG002 - reasons may say enough
        """Return a sentence for the report on pods with a need that do not fit; empty for none."""
        return ""


def installed_plugins() -> "dict[str, EntryPoint]":
    """Return the installed plugins by name; none of them is imported."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - `--help` does not need it

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def missing_plugin(name: str) -> str:
    """Return what is wrong with the name of a plugin; empty if it is installed."""
    known = installed_plugins()
    others = listed(sorted(known)) or "none"
    return "" if name in known else f'plugin "{name}" is not installed. Installed: {others}'


def load_plugin(name: str) -> NodePlugin:
    """Import a plugin and return a new instance. Raises PodiumUsageError, in one line."""
    entry = installed_plugins().get(name)
    if entry is None:
        raise PodiumUsageError(f"{missing_plugin(name)}.")
    try:
        plugin = entry.load()()
    except Exception as error:  # any code may run at its import
        raise PodiumUsageError(
            f'plugin "{name}" ({entry.value}) cannot be loaded: {type(error).__name__}: {error}'
        ) from error
    if not isinstance(plugin, NodePlugin):
        raise PodiumUsageError(f'plugin "{name}": {entry.value} is no subclass of podium.plugins.NodePlugin.')
    version = getattr(plugin, "interface", None)
    if version != INTERFACE_VERSION:
        raise PodiumUsageError(
            f'plugin "{name}" is written for version {version} of the interface. This Podium has version '
            f"{INTERFACE_VERSION}: install a version of the plugin that is written for it."
        )
    if plugin.weight not in range(HIGHEST + 1):
        raise PodiumUsageError(f'plugin "{name}": its weight is not within 0 and {HIGHEST}.')
    return plugin
