"""Two replicas of the reconciler, each behind its own proxy, and a storm of changes.

A replica that ends is started again, as by a Deployment. So a test continues after a replica that lost its
lease has exited with an error.
"""

import contextlib
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec
from tests.support.controllers.history import History, truth
from tests.support.controllers.running import PRIORITY as CONDITION
from tests.support.controllers.running import Controller, Place, Space, conditions, new_class, place, spawn
from tests.support.faults.contender import Wanted
from tests.support.proxy import Call, Proxy, Where
from tests.support.waiting import PATIENCE_SECONDS, until

from podium.runtime.leaserecord import Terms

# A third of an installation's durations.
TERMS = Terms(lease_seconds=6.0, renew_seconds=4.0, retry_seconds=0.8)
# Everything is right this long after the last change: the lease of an installation, and 5 s.
BOUND_SECONDS = Terms().lease_seconds + 5.0
# For tests without a change of leader: this lease outlives the pauses of a busy machine.
STEADY = Terms(lease_seconds=90.0, renew_seconds=60.0, retry_seconds=0.8)
LEASES = Where("/leases")
# The classes of a storm's groups and of the members that differ.
SAME, OTHER = "storm-high", "storm-low"
# The minimum number of changes before a fault, and during it.
FEW = 60
_SHOWN = 4000
# Between two changes of a storm.
_PAUSE_SECONDS = 0.015


class Contender:
    """A replica: a process, and its proxy to the API server, which the next process uses too."""

    def __init__(self, lease: tuple[str, str], proxy: Proxy, folder: Path, terms: Terms) -> None:
        self.proxy = proxy
        self._lease = lease
        self._terms = terms
        self._folder = folder
        self._kubeconfig = str(proxy.kubeconfig(folder))
        self._count = 0
        self.process = self._start()

    @property
    def leads(self) -> bool:
        """Return whether it reports that it leads; a replica that has ended does not."""
        with contextlib.suppress(OSError):
            return not self.ended and self.process.ready and self.process.leads()
        return False

    @property
    def ended(self) -> bool:
        return self.process.process.poll() is not None

    def again(self) -> None:
        """Start the process again if it has ended, and wait until it is ready."""
        self.process = self._start()
        self.process.wait_ready()

    def _start(self) -> Controller:
        wanted = Wanted(kubeconfig=self._kubeconfig, lease=self._lease, terms=self._terms)
        self._count += 1
        line = [sys.executable, "-m", "tests.support.faults.contender", msgspec.json.encode(wanted).decode()]
        return spawn(line, self._folder / f"process-{self._count}")


class Pair:
    """Two replicas, of which one leads, and the namespace of the current test."""

    def __init__(self, where: Place, lease: tuple[str, str], contenders: list[Contender]) -> None:
        self.lease = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}".format(*lease)
        self.contenders = contenders
        self._where = where
        self.space: Space
        self.history: History

    @contextlib.contextmanager
    def watched(self) -> Iterator["Pair"]:
        """Run both replicas with a new namespace, and keep all of its history."""
        self.heal()
        self.space = Space(self._where)
        with History(self.space).running() as self.history:
            assert self.leader in self.contenders
            try:
                yield self
            finally:
                for each in self.contenders:
                    if not each.ended:
                        each.process.process.send_signal(signal.SIGCONT)

    @property
    def leader(self) -> Contender:
        """Wait for a leader and return it."""
        until(lambda: any(each.leads for each in self.contenders), f"a contender leads:{self.log}")
        return next(each for each in self.contenders if each.leads)

    def other(self, than: Contender) -> Contender:
        return next(each for each in self.contenders if each is not than)

    @property
    def status(self) -> Where:
        """The writes to conditions in this namespace only: groups of earlier tests may still get some."""
        return Where(f"/namespaces/{self.space.name}/podgroups/[^/]+/status$")

    def done(self, contender: Contender) -> list[Call]:
        """Return the writes to conditions in this namespace that passed a replica's proxy, in order."""
        return [call for call in contender.proxy.writes(self.status) if call.code == 200]

    @property
    def log(self) -> str:
        """Return the last log lines of the replicas, to be shown when a test fails."""
        return "".join(f"\n{each.process.folder}:\n{each.process.log[-_SHOWN:]}" for each in self.contenders)

    def heal(self) -> None:
        """Start every replica again that has ended."""
        for each in self.contenders:
            if each.ended:
                each.again()

    def until(self, reached: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait; start replicas again that end meanwhile."""

        def healed() -> bool:
            self.heal()
            return reached()

        until(healed, f"{what}:{self.log}", seconds)

    def converge(self) -> None:
        """Wait within the bound until every condition is right; then check the recorded writes."""
        wrong = [""]

        def right() -> bool:
            wrong[0] = self.wrong()
            return not wrong[0]

        with contextlib.suppress(AssertionError):
            self.until(right, "every condition is so", BOUND_SECONDS)
        assert not wrong[0], f"after {BOUND_SECONDS:.0f} s: {wrong[0]}{self.log}"
        assert self.history.problems() == []
        for each in self.contenders:
            assert "Traceback" not in each.process.log, self.log
            assert _blind(self.done(each)) == []

    def wrong(self) -> str:
        """Return the groups whose condition is wrong now; empty if all are right."""
        groups = self.space.ask("GET", self.space.groups_path())["items"]
        pods = self.space.ask("GET", self.space.pods_path())["items"]
        found = []
        for group in groups:
            # A group that never differed needs no condition.
            condition = conditions(group).get(CONDITION)
            status = "False" if condition is None else condition.status
            if status != truth(group, pods):
                found.append(f"{group['metadata']['name']} is {status}")
        return ", ".join(found)

    def close(self) -> None:
        """Kill all replicas."""
        for each in self.contenders:
            each.process.process.kill()
            each.process.process.wait()


@contextlib.contextmanager
def stormy(name: str) -> Iterator[Place]:
    """Start a server of its own for one of `places`, with the classes of a storm."""
    with place(name) as made:
        new_class(made.server, SAME, 1000)
        new_class(made.server, OTHER, 100)
        yield made


@contextlib.contextmanager
def pair(where: Place, folder: Path, terms: Terms = TERMS) -> Iterator[Pair]:
    """Yield two replicas behind their proxies."""
    lease = (where.server.new_namespace("lease-"), "podium")
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(where.server).running()) for _ in range(2)]
        contenders = [
            Contender(lease, proxy, folder / f"contender-{number}", terms)
            for number, proxy in enumerate(proxies)
        ]
        made = Pair(where, lease, contenders)
        stack.callback(made.close)
        for each in contenders:
            each.process.wait_ready()
        yield made


class Storm:
    """Changes a namespace's groups and pods, one after the other, about 60 times a second.

    Without a pause, a storm takes half of a processor while a test waits for a lease to expire.
    """

    GROUPS = 12
    MEMBERS = 3

    def __init__(self, pair: Pair) -> None:
        """The groups are gang-0, gang-1 ... of class SAME; their members are of that class or of OTHER."""
        self.changes = 0
        self.groups = [f"gang-{number}" for number in range(self.GROUPS)]
        self._pair = pair
        self._space = pair.space
        self._random = random.Random(5710)
        self._over = threading.Event()
        self._there: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="storm")

    def more(self, count: int) -> None:
        """Wait for this many further changes."""
        wanted = self.changes + count
        until(lambda: self.changes >= wanted, f"{count} changes")

    @contextlib.contextmanager
    def raging(self) -> Iterator["Storm"]:
        """Make changes while the block runs, which begins after the leader's first write."""
        for name in self.groups:
            self._space.group(name, SAME)
        self._thread.start()
        try:
            until(lambda: any(map(self._pair.done, self._pair.contenders)), f"work is done:{self._pair.log}")
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop the changes."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(self._space.server.access.client()) as client:
            while not self._over.is_set():
                try:
                    self._change(client.request)
                    self.changes += 1
                    self._over.wait(_PAUSE_SECONDS)
                except (OSError, HTTPException):
                    # The API server is down, and the known state may be old: a 404 or 409 corrects it.
                    self._over.wait(0.05)

    def _change(self, request: Callable[..., tuple[int, Any]]) -> None:
        """Create a member with or without its group's class, or delete one."""
        group = self._random.choice(self.groups)
        name = f"{group}-{self._random.randrange(self.MEMBERS)}"
        if name in self._there:
            code, answer = request("DELETE", f"{self._space.pods_path(name)}?gracePeriodSeconds=0")
            assert code in (200, 404) or code >= 500, answer
            self._there.discard(name)
        else:
            class_name = self._random.choice((SAME, OTHER))
            body = self._space.member(name, group, class_name)
            code, answer = request("POST", self._space.pods_path(), body)
            assert code in (201, 409) or code >= 500, answer
            self._there.add(name)


def version(call: Call) -> int:
    """Return the resourceVersion of a write's answer."""
    return int(msgspec.json.decode(call.answer)["metadata"]["resourceVersion"])


def _blind(calls: list[Call]) -> list[str]:
    """Return the writes that changed nothing, or do not name the version that they are based on."""
    found = []
    for call in calls:
        metadata = msgspec.json.decode(call.body)["metadata"]
        if not metadata["uid"] or metadata["resourceVersion"] in ("", str(version(call))):
            found.append(call.path)
    return found
