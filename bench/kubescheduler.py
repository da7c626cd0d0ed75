"""A kube-scheduler on an API server of ours, for its own metrics of preemption.

It runs without a controller manager and without kubelets, so nothing else writes. Nodes stay as made, a pod
that it deletes is gone at once (terminationGracePeriodSeconds 0), and only the scheduler works.
"""

import contextlib
import http.client
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.support.component import component
from tests.support.servers import Server
from tools.devcluster.controlplane import process
from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.components import CERTIFICATES
from tools.devcluster.controlplane.releases import BUILDABLE

from podium.errors import PodiumError

# The release of every comparison with kube-scheduler, which may be a prerelease.
PEER = BUILDABLE[max(BUILDABLE)]
_NAME = "kube-scheduler"
# With its default of 50 requests a second it would delete and bind for minutes.
_QPS = 5_000
_PATIENCE_SECONDS = 300.0
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Evaluations(NamedTuple):
    """The number of preemptions that a scheduler has planned and carried out, and their seconds."""

    times: int
    seconds: float


class Scheduler:
    """A running kube-scheduler; `pid` is its process."""

    def __init__(self, client: Client, pid: int) -> None:
        self.pid = pid
        self._client = client

    def evaluations(self, preemptor: str) -> Evaluations:
        """Return its plans for preemptors of a kind, `pod` or `podgroup`."""
        name, labels = "preemption_evaluation_duration_seconds", {"preemptor": preemptor, "result": "Success"}
        return Evaluations(int(self._sum(f"{name}_count", labels)), self._sum(f"{name}_sum", labels))

    def until_known(self, kind: str, count: int) -> None:
        """Wait until its cache has this many `nodes` or `pods` (bound ones)."""
        _until(lambda: self._sum("cache_size", {"type": kind}) == count, f"to know {count} {kind}")

    def next_evaluation(self, preemptor: str, before: Evaluations, count: int = 1) -> float:
        """Wait until it has planned this many more times; return the mean in seconds."""
        _until(lambda: self.evaluations(preemptor).times >= before.times + count, f"to preempt {count} times")
        after = self.evaluations(preemptor)
        return (after.seconds - before.seconds) / (after.times - before.times)

    def _sum(self, name: str, labels: dict[str, str]) -> float:
        """Return the sum of the samples of a metric with these labels."""
        code, text = self._client.request("GET", "/metrics")
        if code != 200:
            raise PodiumError(f"kube-scheduler's metrics: HTTP {code}")
        samples = re.findall(rf"^scheduler_{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)
        return sum(
            float(value) for given, value in samples if labels.items() <= dict(_LABEL.findall(given)).items()
        )


@contextlib.contextmanager
def scheduling(server: Server, *gates: str) -> Iterator[Scheduler]:
    """Run a kube-scheduler of the server's release, with more feature gates (`NAME=true`).

    Raises PodiumError if it does not start.
    """
    with contextlib.ExitStack() as held:
        port = process.reserve_port(held, 0)
        quick = [f"--kube-api-qps={_QPS}", f"--kube-api-burst={_QPS}"]
        quick += [f"--feature-gates={gate}" for gate in gates]
        pid = held.enter_context(component(server, _NAME, lambda arguments: (*arguments, *quick), port=port))
        url = f"https://127.0.0.1:{port}"
        authority = server.folder / CERTIFICATES / f"{_NAME}.crt"

        def connect() -> Client:
            return Client(url, server.access.token, authority)

        if not process.wait_until(lambda: _is_ready(connect), seconds=_PATIENCE_SECONDS):
            raise PodiumError(f"kube-scheduler is not ready after {_PATIENCE_SECONDS:.0f} s")
        yield Scheduler(held.enter_context(contextlib.closing(connect())), pid)


def _is_ready(connect: Callable[[], Client]) -> bool:
    # Not started yet: no certificate, or no listener.
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connect()) as client:
        return client.request("GET", "/healthz")[0] == 200
    return False


def _until(reached: Callable[[], bool], description: str) -> None:
    if not process.wait_until(reached, seconds=_PATIENCE_SECONDS):
        raise PodiumError(f"waited {_PATIENCE_SECONDS:.0f} s for kube-scheduler {description}")
