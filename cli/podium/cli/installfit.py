"""Check that a cluster can run an install, before anything is written.

An API server that is too old refuses some objects with its own messages. If every node is reserved, for
Podium's scheduler or others, Podium's own pods would wait until the timeout, and the install would be undone.
Only taints, cordons and labels of nodes are checked: free room changes, and other pods may be evicted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from podium.api.minors import minor_of
from podium.api.reads import Kind
from podium.api.schedulable import SCHEDULING_READS, Schedulable, SchedulableNode
from podium.cli.live import LiveLoader, TerminalProgress
from podium.documents.scope import Scope
from podium.errors import PodiumError
from podium.kube.listing import read_cluster
from podium.ops.doctor.server import MINIMA, lacking
from podium.ops.install import Document
from podium.planner.filters.nodes import TaintTolerationFilter, node_filters, untolerated
from podium.planner.snapshot import Snapshot
from podium.text import listed

if TYPE_CHECKING:
    from podium.kube.connection import Connection

_NODES = {key: read for key, read in SCHEDULING_READS.items() if read.kind is Kind.NODE}


async def require_fit(
    connection: "Connection", version: str, mode: str, documents: Sequence[Document]
) -> None:
    """Raise PodiumError if a cluster of this version cannot run the documents of a mode."""
    if why := too_old(version, mode):
        raise PodiumError(f"nothing was written: {why}")
    terminal = TerminalProgress()
    taken, _ = await read_cluster(
        connection, Scope(), terminal, lambda discovery: LiveLoader(discovery, _NODES), _NODES
    )
    terminal.clear()
    # If nodes may not be listed, the list is empty and there is no error.
    nodes = taken.loader.done().state.nodes.values()
    if why := unplaceable(documents, [each for each in nodes if isinstance(each, SchedulableNode)]):
        raise PodiumError(f"nothing was written: {why}")


def too_old(version: str, mode: str) -> str:
    """Return what a mode needs if a server is too old for it; empty if not, or if its version is unknown."""
    minor = minor_of(version)
    needed = [each for each in MINIMA if mode in each.installed_by]
    short = [each for each in needed if minor is not None and minor < each.minor]
    if not short:
        return ""
    return f"Kubernetes {version}: {lacking(short)}. Upgrade the cluster, or use only the command line"


def unplaceable(documents: Iterable[Document], nodes: Sequence[SchedulableNode]) -> str:
    """Return which pods no node would take, and why; empty if each pod has a node.

    The text is also empty if there is no node at all: an autoscaler may create the first for the pods.
    """
    snapshot = Snapshot()
    for node in nodes:
        snapshot.add_node(node)
    processes: dict[str, list[str]] = defaultdict(list)
    for each in documents:
        if each["kind"] == "Deployment" and (why := _refusals(snapshot, each)):
            processes[why].append(each["metadata"]["name"])
    if not processes:
        return ""
    explanation = "; ".join(f"those of {listed(sorted(names))}: {why}" for why, names in processes.items())
    return (
        f"none of {len(nodes):,} nodes accepts Podium's own pods, {explanation}. Remove the taint from a "
        "node (kubectl taint node NODE KEY-), uncordon a node, or add a node"
    )


def _refusals(snapshot: Snapshot, deployment: Document) -> str:
    """Return why all nodes refuse a Deployment's pods, in kube-scheduler's words; empty if one takes them."""
    metadata = {name: deployment["metadata"][name] for name in ("name", "namespace")}
    template = deployment["spec"]["template"]["spec"]
    snapshot.add_pod(msgspec.convert({"metadata": metadata, "spec": template}, Schedulable))
    row = snapshot.pod_row[metadata["namespace"], metadata["name"]]
    shape = snapshot.shapes[snapshot.shape.item(row)]
    filters = node_filters(snapshot)
    reasons: Counter[str] = Counter()
    for node in snapshot.row.values():
        refused = next(((each, why) for each in filters if (why := each.reason(shape, node))), None)
        if refused is None:
            return ""
        by, why = refused
        if isinstance(by, TaintTolerationFilter):
            taints = snapshot.columns.taints.of[node]
            keys = sorted({each.key or "" for each in untolerated(shape.tolerations, taints)})
            why = f"{why} {', '.join(keys)}"
        reasons[why] += 1
    return ", ".join(f"{number:,} {why}" for why, number in reasons.most_common())
