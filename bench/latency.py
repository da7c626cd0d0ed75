"""The cost of the webhooks for a writer: creates on an API server that calls them, and on one that does not.

Two API servers of the same kind run side by side. The writes alternate between them, one object each, so
other load on the machine affects both. No processor is reserved: this is a small cluster as it is.
"""

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench import reviews
from bench.results import ROUNDS, Row, Section, quantile, spread
from bench.webhook import created, podium, set_up
from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.groups import GROUP_LABEL
from podium.crds.definitions import crds

WRITES = 200
_PODS = f"/api/v1/namespaces/{reviews.NAMESPACE}/pods"
_GROUPS = f"/apis/{reviews.API}/namespaces/{reviews.NAMESPACE}/podgroups"
_NOTE = f"""
One client, one create after another, {WRITES} in a round on each of two API servers (Kubernetes
{NEWEST.version}, etcd's data on this disk), which take turns. A member pod and a PodGroup go to the mutating
and then to the validating webhook; for a pod in no group the API server's matchConditions spare the call.
"""


class Kind(NamedTuple):
    """A kind of write: its title, its path, and the object to be given a name."""

    text: str
    path: str
    document: dict[str, Any]

    def named(self, name: str) -> dict[str, Any]:
        """Return the object under another name."""
        return {**self.document, "metadata": {**self.document["metadata"], "name": name}}


def measure() -> Section:
    """Measure all kinds; takes about two minutes."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plain, served = (stack.enter_context(exclusive(NEWEST, workload_api=False)) for _ in range(2))
        for server in (plain, served):
            set_up(server)
        without(plain)
        stack.enter_context(podium(served, folder))
        clients = {
            name: stack.enter_context(contextlib.closing(server.access.client()))
            for name, server in (("without", plain), ("with", served))
        }
        for client in clients.values():
            created(client.request("POST", _GROUPS, reviews.pod_group()))
        for kind in kinds():
            rounds = [in_turns(clients, kind, turn) for turn in range(ROUNDS + 1)][1:]
            rows += compared(kind, rounds)
    return Section("Writes to a real API server", rows, _NOTE)


def kinds() -> list[Kind]:
    """Return the kinds of writes."""
    member = reviews.pod()
    alone = reviews.pod()
    alone["metadata"]["labels"].pop(GROUP_LABEL)
    return [
        Kind("a member pod", _PODS, member),
        Kind("a pod in no group", _PODS, alone),
        Kind("a PodGroup", _GROUPS, reviews.pod_group()),
    ]


def without(server: Server) -> None:
    """Install Podium's resources without a webhook."""
    for crd in crds():
        created(server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd))
    end = time.monotonic() + 30
    while server.request("GET", _GROUPS)[0] != 200:
        assert time.monotonic() < end, "the resources are not served"
        time.sleep(0.1)


def in_turns(clients: dict[str, Client], kind: Kind, turn: int) -> dict[str, list[float]]:
    """Create objects on both servers in turns; return the seconds of each create, ascending."""
    times: dict[str, list[float]] = {name: [] for name in clients}
    for index in range(WRITES):
        for name, client in clients.items():
            document = kind.named(f"{kind.text.replace(' ', '-').lower()}-{turn}-{index}")
            start = time.perf_counter()
            answer = client.request("POST", kind.path, document)
            times[name].append(time.perf_counter() - start)
            created(answer)
    return {name: sorted(taken) for name, taken in times.items()}


def compared(kind: Kind, rounds: list[dict[str, list[float]]]) -> list[Row]:
    """Return the rows of one kind of write."""
    rows = []
    for share in (0.5, 0.99):
        by_name = {
            name: [quantile(turn[name], share) * 1e3 for turn in rounds] for name in ("without", "with")
        }
        more = [after - before for before, after in zip(by_name["without"], by_name["with"], strict=True)]
        text = f"create {kind.text}, p{share * 100:.0f}"
        rows += [Row(f"{text}, {name} webhooks", spread(times, "ms")) for name, times in by_name.items()]
        rows.append(Row(f"{text}, difference, round by round", spread(more, "ms")))
    return rows
