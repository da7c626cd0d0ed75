"""Spreads the pods of a group over the power feeds of the nodes, so that no feed ends the whole group."""

from collections.abc import Mapping

from podium.plugins import NodeFacts, NodePlugin, PodFacts

FEED = "example.com/power-feed"


class PowerFeed(NodePlugin):
    """Nodes of the feed with the fewest pods of the group come first; nodes without a feed take none."""

    interface = 1
    # More than the other scores together, so that a fuller node of an emptier feed is preferred.
    weight = 10

    def pre_filter(self, pod: PodFacts) -> tuple[str, str] | None:
        """Return the group of the pod; lone pods may run on any node."""
        return (pod.namespace, pod.group) if pod.group else None

    def filter(self, need: tuple[str, str], node: NodeFacts) -> str | None:  # noqa: ARG002 - alike for all groups
        """Refuse nodes whose feed is not known."""
        return None if FEED in node.labels else f"node(s) had no label {FEED}"

    def domain(self, need: tuple[str, str], node: NodeFacts) -> str | None:  # noqa: ARG002 - as above
        """Return the feed of a node."""
        return node.labels.get(FEED)

    def score(self, need: tuple[str, str], domain: str, pods: Mapping[str, int]) -> int:  # noqa: ARG002 - as above
        """Return 100 for a feed without pods of the group, 0 for the feed with the most."""
        most = max(pods.values())
        return 100 * (most - pods[domain]) // most if most else 100

    def explain(self, need: tuple[str, str]) -> str:
        """Say which pods are spread."""
        return f"Pods of group {need[1]} run on nodes with a power feed only."
