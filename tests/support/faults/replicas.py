"""Replicas of the webhook behind a balancer, like a Deployment behind its Service."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.support.balancer import Backend, Balancer
from tests.support.faults.replica import Wanted
from tests.support.servers import Server
from tests.support.starting import start
from tests.support.webhooks.running import LOG, Running, free_port

_SHOWN = 3000
_HERE = Path(__file__).parents[3]


class Fleet:
    """Replicas that share certificates and are called at one URL."""

    def __init__(self, server: Server, folder: Path, balancer: Balancer, wanted: dict[str, Any]) -> None:
        self.server = server
        self.balancer = balancer
        self.replicas: list[Running] = []
        self.wanted = {"kubeconfig": str(server.kubeconfig), **wanted}
        self._folder = folder
        self._count = 0

    def start(self, port: int = 0) -> Running:
        """Start a replica and wait until the balancer knows that it is ready."""
        folder = self._folder / f"replica-{self._count}"
        self._count += 1
        folder.mkdir(parents=True)
        wanted = Wanted(
            port=port or free_port(), url=f"https://127.0.0.1:{self.balancer.port}", **self.wanted
        )
        line = [sys.executable, "-m", "tests.support.faults.replica", msgspec.json.encode(wanted).decode()]
        started = Running(start(line, folder / LOG, folder=_HERE), folder, wanted.port)
        self.replicas.append(started)
        started.wait_ready()
        self.balancer.add(_backend(started))
        started.until(lambda: _backend(started) in self.balancer.ready, "the balancer knows it")
        return started

    def end(self, replica: Running, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """End a replica and return its exit code; the balancer then sees that it is gone."""
        code = replica.stop(with_signal)
        self.forget(replica)
        return code

    def forget(self, replica: Running) -> None:
        """Take a replica that has ended out of the balancer."""
        self.balancer.remove(_backend(replica))
        self.replicas.remove(replica)

    def heal(self) -> None:
        """Run two replicas again; a killed replica keeps its name, as in a StatefulSet."""
        for replica in list(self.replicas):
            if replica.process.poll() is not None:
                self.forget(replica)
                self.start(replica.port)
        while len(self.replicas) < 2:
            self.start()

    @property
    def log(self) -> str:
        """Return the last log lines of the replicas, to be shown when a test fails."""
        return "".join(f"\nreplica at {each.port}:\n{each.log[-_SHOWN:]}" for each in self.replicas)

    def close(self) -> None:
        """Kill all replicas."""
        for replica in self.replicas:
            replica.process.kill()
            replica.process.wait()


def _backend(replica: Running) -> Backend:
    return Backend(replica.port, replica.metrics_port)


@contextlib.contextmanager
def fleet(server: Server, logs: Path, count: int = 2, **wanted: Any) -> Iterator[Fleet]:
    """Yield replicas that are ready; `wanted` are fields of `Wanted`."""
    with Balancer().running() as balancer, contextlib.closing(Fleet(server, logs, balancer, wanted)) as made:
        for _ in range(count):
            made.start()
        yield made
