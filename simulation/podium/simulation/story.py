"""One run: a cluster with Podium's processes, a storm of faults and work, and a quiet time after it.

A seed draws a story, which is a list of things that happen, and every fault of a request. A story with some
of its parts left out is a story too, so a run that fails can be made short.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import structlog

from podium.api.minors import MINORS
from podium.controllers import process as controllers
from podium.controllers.manager import Rules
from podium.crds.definitions import crds, records
from podium.planner.settings import LiveSettings
from podium.runtime.host import Host
from podium.runtime.leaserecord import Terms
from podium.runtime.manager import ManagerOptions
from podium.schedulerplugin.live import process as scheduler
from podium.schedulerplugin.live.settingsreload import SettingsSource
from podium.simulation.actors import Client, Collectors, Kubelets, Owners, SimulatedWorkload
from podium.simulation.apiserver.messages import ApiResponse
from podium.simulation.apiserver.patching import MERGE_PATCH
from podium.simulation.apiserver.server import ApiServer
from podium.simulation.apiserver.storage import Change
from podium.simulation.judge import Judge
from podium.simulation.network import CALM, Faults, Network
from podium.simulation.world import Machine, World
from podium.stderr import say

NAMESPACE = "team"
CLASSES = {"low": 10, "middle": 100, "high": 1000}
_CORES = 4
_RESTART_SECONDS = 5.0
# The seconds of faults and new work, and those after which nothing more should change. A replica that was
# killed keeps the lease for 15 s, and a backoff is at most a minute.
STORM, QUIET = 600.0, 300.0
_STEP_SECONDS = 20.0
# A node that was lost comes back.
_NODE_SECONDS = 40.0
# The share of groups whose pods have their class.
_ALIKE = 0.9


class StoryEvent(NamedTuple):
    """Something that happens: when, in seconds, its kind, and what the kind needs."""

    at: float
    kind: str
    subject: str = ""
    value: float = 0.0
    workload: SimulatedWorkload | None = None


class Story(NamedTuple):
    """The run of a seed before its faults: the number of nodes, and the events in order."""

    seed: int
    nodes: int
    events: tuple[StoryEvent, ...]


class RunResult(NamedTuple):
    """The end of a run: what did not hold, a digest of all that happened, and how much it was."""

    broken: list[str]
    digest: str
    binds: int
    victims: int
    seconds: float


def drawn(seed: int) -> Story:
    """Return the story of a seed."""
    chance = Random(seed)  # noqa: S311
    nodes = chance.randint(2, 6)
    events = [StoryEvent(0.0, "faults", value=chance.random())]
    at, count = 0.0, 0
    while (at := at + chance.expovariate(1 / _STEP_SECONDS)) < STORM:
        share = chance.random()
        if share < 0.55:
            count += 1
            events.append(StoryEvent(at, "create", workload=_workload(chance, f"w{count}")))
        elif share < 0.65:
            events.append(StoryEvent(at, "remove", value=chance.random()))
        else:
            events.append(_fault(chance, at))
    return Story(seed, nodes, tuple(events))


def _workload(chance: Random, name: str) -> SimulatedWorkload:
    own = chance.choice(tuple(CLASSES))
    return SimulatedWorkload(
        name,
        size=chance.choice((1, 1, 2, 3, 4, 6)),
        cpu=chance.choice((1, 1, 2, 4)),
        priority_class=own,
        group_class=own if chance.random() < _ALIKE else chance.choice(tuple(CLASSES)),
        mode=chance.choice(("", "single", "all", "all")),
        seconds=chance.choice((0, 30, 120, 400)),
    )


def _fault(chance: Random, at: float) -> StoryEvent:
    kind = chance.choice(("kill", "stop", "pause", "clock", "faults", "restart", "compact", "node"))
    subject = chance.choice(("scheduler-0", "scheduler-1", "controller-0"))
    value = {
        "pause": chance.choice((0.5, 5.0, 12.0, 40.0)),
        "clock": chance.choice((-3600.0, -5.0, 5.0, 3600.0)),
        "restart": chance.choice((0.1, 3.0, 30.0)),
        "node": float(chance.randrange(6)),
    }.get(kind, chance.random())
    return StoryEvent(at, kind, subject, value)


def run(story: Story, *, tells: bool = False) -> RunResult:
    """Let a story happen, and return what did not hold; `tells` writes the logs of the processes."""
    with World(story.seed) as world:
        cluster = _Cluster(world, story, tells=tells)
        for event in story.events:
            world.after(event.at, partial(cluster.happen, event))
        world.run(STORM)
        cluster.calm()
        world.run(STORM + QUIET)
        cluster.judge.quiet()
        judge = cluster.judge
        broken = judge.broken + cluster.bugs
        return RunResult(broken, cluster.journal.hexdigest(), judge.binds, judge.victims, world.seconds)


class _Cluster:
    """The parts of a run. `bugs` are lines of the logs that a correct process never writes."""

    def __init__(self, world: World, story: Story, *, tells: bool) -> None:
        self.world = world
        self.tells = tells
        self.journal = sha256()
        self.bugs: list[str] = []
        self.server = ApiServer(
            MINORS[38],
            lambda: world.now,
            lambda: str(UUID(int=world.random.getrandbits(128))),
            lambda: f"{world.random.getrandbits(20):05x}",
        )
        self.network = Network(world, self.server)
        self.server.changed.append(self._record)
        self._nodes = story.nodes
        self._client = Client(self.network, "admin")
        self._prepare()
        self.kubelets = Kubelets(self.network)
        Collectors(self.network)
        self.owners = Owners(self.network, NAMESPACE)
        settings = LiveSettings(records_namespace="podium-system")
        self.judge = Judge(self.network, settings.engine)
        options = ManagerOptions(terms=Terms())
        filtering = structlog.make_filtering_bound_logger(logging.INFO)
        log = structlog.wrap_logger(None, processors=[self._log], wrapper_class=filtering)
        self._processes: dict[str, Callable[[Host], Any]] = {
            **{
                f"scheduler-{index}": lambda host: scheduler.run(
                    options, SettingsSource(lambda: settings), log, host=host
                )
                for index in range(2)
            },
            "controller-0": lambda host: controllers.run(options, Rules(), log, host=host),
        }
        self._machines: dict[str, Machine] = {}
        for name in self._processes:
            self._start(name)

    def happen(self, event: StoryEvent) -> None:
        """Let an event of the story happen."""
        machine = self._machines.get(event.subject)
        match event.kind:
            case "create":
                assert event.workload is not None
                self.owners.create(event.workload)
            case "remove":
                names = list(self.owners.workloads)
                if names:
                    self.owners.remove(names[int(event.value * len(names))])
            case "faults":
                self.network.faults = _weather(event.value)
            case "restart":
                self.network.restart(event.value)
            case "compact":
                self.server.compact()
            case "node":
                self._lose(f"node-{event.value % self._nodes:g}")
            case "kill" if machine is not None:
                machine.kill()
            case "stop" if machine is not None:
                machine.stop()
            case "pause" if machine is not None:
                machine.pause(event.value)
            case "clock" if machine is not None:
                machine.ahead += event.value

    def calm(self) -> None:
        """End all faults, and all changes but those that follow from others."""
        self.network.faults = CALM
        self.kubelets.endless = True

    def _prepare(self) -> None:
        client = self._client
        for name in (NAMESPACE, "podium-system", "default"):
            client.request_until_done("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for definition in (*crds(), records()):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            client.request_until_done("POST", path, definition)
        for name, value in CLASSES.items():
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            client.request_until_done("POST", path, {"metadata": {"name": name}, "value": value})
        for index in range(self._nodes):
            self._add(f"node-{index}")

    def _add(self, name: str) -> None:
        room = {"cpu": str(_CORES), "memory": "64Gi", "pods": "110"}
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": room, "capacity": room},
        }

        def untaint(_created: ApiResponse) -> None:
            # A new node is tainted until its controller knows that it is ready.
            body = {"spec": {"taints": None}}
            self._client.request_until_done("PATCH", f"/api/v1/nodes/{name}", body, kind=MERGE_PATCH)

        self._client.request_until_done("POST", "/api/v1/nodes", node, done=untaint)

    def _lose(self, name: str) -> None:
        self._client.request_until_done("DELETE", f"/api/v1/nodes/{name}")
        self.world.after(_NODE_SECONDS, partial(self._add, name))

    def _start(self, name: str) -> None:
        machine = self._machines[name] = Machine(self.world, name, self.network.connect)
        machine.ended = lambda error: self._ended(name, error)
        machine.start(self._processes[name])

    def _ended(self, name: str, error: BaseException | None) -> None:
        self.journal.update(f"{self.world.seconds} {name} ended {type(error).__name__}\n".encode())
        self.world.after(self.world.random.random() * _RESTART_SECONDS, partial(self._start, name))

    def _record(self, resource: str, change: Change) -> None:
        self.journal.update(f"{self.world.seconds} {resource} ".encode() + change.line)

    def _log(self, _logger: Any, _method: str, event: structlog.typing.EventDict) -> str:
        text = msgspec.json.encode(event, enc_hook=str).decode()
        self.journal.update(f"{self.world.seconds} {text}\n".encode())
        if "bug" in str(event["event"]) or "Traceback" in text:
            self.bugs.append(f"{self.world.seconds:.3f} s: {text}")
        if self.tells:
            say(f"{self.world.seconds:10.3f} {text}")
        raise structlog.DropEvent


def _weather(value: float) -> Faults:
    """Return the faults of a number from 0 to 1: none, some, or many of one kind."""
    chance = Random(value)  # noqa: S311
    if value < 0.2:
        return CALM

    def some(most: float) -> float:
        return chance.choice((0.0, most / 4, most))

    return Faults(
        latency=chance.choice((0.005, 0.05, 1.0)),
        lag=chance.choice((0.02, 0.5, 3.0)),
        lost_request=some(0.1),
        lost_answer=some(0.1),
        refused=some(0.2),
        slow=some(0.1),
        stale=some(0.1),
        broken=some(0.1),
    )


def shortened(story: Story, fails: Callable[[Story], bool]) -> Story:
    """Return a story that still fails, and of which no part can be left out."""
    events: Sequence[StoryEvent] = story.events
    size = len(events) // 2
    while size:
        at = 0
        while at < len(events):
            fewer = (*events[:at], *events[at + size :])
            if fails(story._replace(events=fewer)):
                events = fewer
            else:
                at += size
        size //= 2
    return story._replace(events=tuple(events))
