"""Processes and one API server in simulated time: a test chooses every delay, loss and pause.

Each process has an event loop of its own, so that one can be paused or killed while the others continue. A
request arrives even if its sender gave up or ended.
"""

import asyncio
import heapq
import itertools
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self, cast

import msgspec

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.runtime.leaderelection import Elector
from podium.runtime.leaserecord import Terms

NAMESPACE, NAME = "system", "controller"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_START = datetime(2026, 11, 21, tzinfo=UTC)
# More turns than any test needs at one moment, so that an endless loop fails instead of hanging.
_TURNS = 200_000


class Outcome(NamedTuple):
    """The delay and the result of one request: seconds there and back (inf: never).

    `code` refuses it before any effect; `cut` loses the connection after its effect; `body` replaces the
    answer.
    """

    there: float = 0.01
    back: float = 0.01
    code: int = 0
    cut: bool = False
    body: bytes | None = None


FINE = Outcome()
HUNG = Outcome(back=math.inf)

# A holder whose own clock is decades late.
OTHER = {
    "holderIdentity": "other",
    "leaseDurationSeconds": 15,
    "acquireTime": "1999-01-01T00:00:00.000000Z",
    "renewTime": "1999-01-01T00:00:00.000000Z",
    "leaseTransitions": 7,
}


# As its holder released it.
RELEASED = {**OTHER, "holderIdentity": "", "leaseDurationSeconds": 1}


class Request(NamedTuple):
    """A request as it arrived, and its answer."""

    at: float
    sender: str
    method: str
    code: int
    spec: dict[str, Any]


class Server:
    """The one Lease, with an API server's preconditions.

    `lease` is the object, None if it does not exist.
    """

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.requests: list[Request] = []
        self._versions = itertools.count(1)

    def put(self, spec: dict[str, Any] | None, **metadata: Any) -> None:
        """Create the Lease, or change it as a user with kubectl does."""
        fresh = {"name": NAME, "namespace": NAMESPACE, "uid": f"uid-{next(self._versions)}"}
        old = fresh if self.lease is None else self.lease["metadata"]
        self._store({"metadata": {**old, **metadata}, "spec": spec})

    def _store(self, lease: dict[str, Any]) -> None:
        version = str(next(self._versions))
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": version}}

    def edit(self, **spec: Any) -> None:
        """Change some fields of the spec."""
        assert self.lease is not None
        self.put({**self.lease["spec"], **spec})

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the Lease, empty without one."""
        return dict(self.lease["spec"] or {}) if self.lease is not None else {}

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Answer a request."""
        there = self.lease
        match method:
            case "GET" if path == f"{PATH}/{NAME}":
                return (404, None) if there is None else (200, there)
            case "POST" if path == PATH:
                if there is not None:
                    return 409, None
                self.put(body["spec"], **body["metadata"])
                return 201, self.lease
            case "PUT" if path == f"{PATH}/{NAME}":
                given = body["metadata"]
                if there is None or (given["uid"], given["resourceVersion"]) != (
                    there["metadata"]["uid"],
                    there["metadata"]["resourceVersion"],
                ):
                    return 409, None
                # A write without a change makes no new version.
                if body != there:
                    self._store(body)
                return 200, self.lease
            case _:
                raise AssertionError(f"{method} {path} is no business of an elector's")


class _Nothing:
    """A selector without files."""

    def select(self, _timeout: float | None) -> list[Any]:
        return []


class _Loop(asyncio.BaseEventLoop):
    """An event loop that runs one turn on demand, by a given clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._selector = _Nothing()

    def time(self) -> float:
        return self._clock()

    def turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()

    def due(self) -> float:
        """Return when the next callback is due, by the loop's own clock."""
        if self._ready:  # type: ignore[attr-defined]  # there is no public way to ask
            return -math.inf
        return self._scheduled[0].when() if self._scheduled else math.inf  # type: ignore[attr-defined]

    def _process_events(self, event_list: list[Any]) -> None:
        pass


class Process:
    """A replica: `rate` and `offset` are its clock's; `skew` is the error of its wall clock in seconds.

    Its work as a leader takes `wind_down` seconds to end; `led` holds the start of each term.
    """

    def __init__(self, world: "World", name: str, *, rate: float = 1.0, offset: float = 0.0) -> None:
        self.name = name
        self.skew = 0.0
        self.frozen: datetime | None = None
        self.wind_down = 0.0
        self.paused_until = 0.0
        self.alive = True
        self.logged: list[tuple[float, str, dict[str, Any]]] = []
        self.led: list[float] = []
        self._world = world
        self.rate = rate
        self.offset = offset
        self._working = False
        self.loop = _Loop(self.clock)
        # Asyncio logs lost errors when the garbage collector finds them. In Python 3.11 their traceback is a
        # SystemError inside an ast.parse, which Hypothesis calls.
        self.lost: list[str] = []
        self.loop.set_exception_handler(lambda _loop, context: self.lost.append(context["message"]))
        self.elector = self._candidate()
        self.task: asyncio.Task[None] | None = None

    def clock(self) -> float:
        return self.offset + self._world.now * self.rate

    def wall(self) -> datetime:
        return self.frozen or _START + timedelta(seconds=self._world.now + self.skew)

    def start(self, lead: Callable[[], Awaitable[None]] | None = None) -> None:
        """Start again, as a new process of the same name."""
        self.elector = self._candidate()
        self._working = False
        self.task = self.loop.create_task(self.elector.run(lead or self.lead))

    def stop(self) -> None:
        """Cancel it, as SIGTERM does."""
        if self.task is not None:
            self.loop.call_soon(self.task.cancel)

    def due(self) -> float:
        """Return when it next runs, in the world's time."""
        if not self.alive:
            return math.inf
        wanted = (self.loop.due() - self.offset) / self.rate
        return max(wanted, self.paused_until, self._world.now)

    def runs(self) -> bool:
        return self.alive and self.task is not None and not self.task.done()

    def works(self) -> bool:
        """Return whether its work as a leader runs."""
        return self._working

    def may_act(self) -> bool:
        return self.alive and self.elector.remaining() > 0

    @property
    def failure(self) -> BaseException | None:
        """Return how the process ended: its exception, a CancelledError, or None."""
        assert self.task is not None
        assert self.task.done(), f"{self.name} still runs"
        return asyncio.CancelledError() if self.task.cancelled() else self.task.exception()

    def events(self) -> list[str]:
        return [event for _, event, _ in self.logged]

    async def lead(self) -> None:
        """Lead until the end of the test."""
        self._working = True
        self.led.append(self._world.now)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await asyncio.sleep(self.wind_down)
            finally:
                self._working = False

    def _candidate(self) -> Elector:
        return Elector(
            cast("Connection", _Wire(self._world, self)),
            NAMESPACE,
            NAME,
            self.name,
            terms=self._world.terms,
            clock=self.clock,
            now=self.wall,
            sleep=asyncio.sleep,
            random=self._world.random,
            log_event=lambda event, fields: self.logged.append((self._world.now, event, fields)),
        )


class _Wire:
    """A process's connection, with the methods that an elector calls."""

    def __init__(self, world: "World", process: Process) -> None:
        self._world = world
        self._process = process

    async def get(self, path: str, **query: str) -> bytes:
        assert not query
        return await self._ask("GET", path, None)

    async def send(self, method: str, path: str, body: Any, *, patient: bool) -> bytes:
        assert not patient, "when to ask again is the elector's own business"
        return await self._ask(method, path, msgspec.json.decode(msgspec.json.encode(body)))

    async def _ask(self, method: str, path: str, body: Any) -> bytes:
        world, process = self._world, self._process
        if world.over:
            raise PodiumError("the world is over")
        outcome = next(world.outcomes, FINE)
        answered: asyncio.Future[tuple[int, bytes]] = process.loop.create_future()

        def arrive() -> None:
            code, stored = (outcome.code, None) if outcome.code else world.server.answer(method, path, body)
            spec = (body or {}).get("spec") or {}
            world.server.requests.append(Request(world.now, process.name, method, code, spec))
            world.arrived(process, world.server.requests[-1])
            answer = msgspec.json.encode(stored) if outcome.body is None else outcome.body
            world.at(world.now + outcome.back, lambda: deliver(code, answer))

        def deliver(code: int, answer: bytes) -> None:
            if not answered.done() and not process.loop.is_closed():
                answered.set_result((code, answer))

        world.at(world.now + outcome.there, arrive)
        code, answer = await answered
        if outcome.cut:
            raise PodiumError(f"connection lost during {method} {path}")
        if code >= 300:
            raise RefusedError("https://server", f"{method} {path}", code, "Reason", "because")
        return answer


class World:
    """Time, the server and its clients.

    `outcomes` are those of the first requests; all later ones succeed.
    """

    def __init__(
        self,
        names: Iterable[str] = "a",
        *,
        outcomes: Iterable[Outcome] = (),
        terms: Terms = Terms(),  # noqa: B008 - a constant
        random: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self.now = 0.0
        self.terms = terms
        self.random = random
        self.outcomes: Iterator[Outcome] = iter(outcomes)
        self.over = False
        self.server = Server()
        self.check: Callable[[], None] = lambda: None
        self.arrived: Callable[[Process, Request], None] = lambda _process, _request: None
        self._count = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.processes = {
            name: Process(self, name, offset=1000.0 * index) for index, name in enumerate(names)
        }
        self._dead: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End every task before its loop is closed."""
        self.over = True
        self.check = lambda: None
        self._events.clear()
        everybody = [*self._dead, *self.processes.values()]
        self.processes = {str(index): process for index, process in enumerate(everybody)}
        for process in everybody:
            process.alive = True
            process.paused_until = 0.0
            process.stop()
        self.run(100.0)
        for process in everybody:
            assert not process.runs(), f"{process.name} does not end"
            process.loop.close()
            assert not process.lost

    def __getitem__(self, name: str) -> Process:
        return self.processes[name]

    def kill(self, name: str) -> None:
        """Kill a process; another process of its name may be started."""
        dead = self.processes[name]
        dead.alive = False
        self._dead.append(dead)
        self.processes[name] = Process(self, name, rate=dead.rate, offset=dead.offset)

    def at(self, moment: float, do: Callable[[], None]) -> None:
        """Call a function at a moment."""
        if moment < math.inf:
            heapq.heappush(self._events, (moment, next(self._count), do))

    def run(self, seconds: float = math.inf, *, until: Callable[[], bool] = lambda: False) -> None:
        """Advance the time by some seconds, or until a condition holds."""
        end = self.now + seconds
        for _ in range(_TURNS):
            if until():
                return
            process = min(self.processes.values(), key=Process.due)
            due, happens = process.due(), self._events[0][0] if self._events else math.inf
            if min(due, happens) > end:
                assert end < math.inf, "nothing more will ever happen"
                self.now = end
                return
            if happens <= due:
                self.now = max(self.now, happens)
                heapq.heappop(self._events)[2]()
            else:
                self.now = due
                process.loop.turn()
            self.check()
        raise AssertionError("time does not pass")


def leading(*outcomes: Outcome, random: Callable[[], float] = lambda: 0.5) -> World:
    """Return a world whose one process leads; `outcomes` are those of the later requests."""
    world = World(outcomes=[FINE, FINE, *outcomes], random=random)
    world["a"].start()
    world.run(5.0, until=world["a"].works)
    assert world["a"].may_act()
    return world


def empty(world: World) -> Callable[[], None]:
    """Return a function that clears the holder of the lease, if there is a lease."""

    def do() -> None:
        if world.server.lease is not None:
            world.server.edit(holderIdentity="")

    return do


def methods(world: World) -> str:
    """Return the methods of all requests that arrived."""
    return " ".join(request.method for request in world.server.requests)
