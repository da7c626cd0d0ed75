"""Simulated time, and machines whose processes run in it: the same seed gives the same run.

The world is a queue of events. Each machine has an event loop of its own, which runs until it has nothing to
do at this moment, and then names the time of its next timer. So a second in which nothing happens costs
nothing, and a machine can be slow, paused, killed or wrong about the time without an effect on the others.

A process takes all that it reads of its machine from a `Host`, and sleeps on its event loop. So it runs here
as it is.
"""

import asyncio
import heapq
import random
import selectors
import socket
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self, TypeVar

from podium.runtime.host import Connect, Host

T = TypeVar("T")

EPOCH = datetime(2026, 12, 1, tzinfo=UTC)
# A timer may be due at a time that the sum of two floats does not reach.
_LEAST_SECONDS = 1e-6
# A decision of the planner takes milliseconds, and one in a hundred up to its limit of a second.
_DECISION_SECONDS, _LONG_DECISION_SECONDS, _LONG_DECISIONS = 0.02, 1.0, 0.01
# After its end a world goes on for so long, so that processes can end.
_END_SECONDS = 60.0


class World:
    """The time and its events; `random` is the source of every choice in it. At its end all machines end."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.seconds = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.machines: dict[Machine, None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for machine in list(self.machines):
            machine.ended = _unheard
            machine.kill()
        self.run(self.seconds + _END_SECONDS)
        for machine in list(self.machines):
            machine.shut_down()

    @property
    def now(self) -> datetime:
        """Return the true time."""
        return EPOCH + timedelta(seconds=self.seconds)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` in so many seconds, after what was asked for earlier."""
        self._count += 1
        heapq.heappush(self._events, (self.seconds + max(seconds, 0.0), self._count, action))

    def run(self, until: float) -> None:
        """Let time pass until a moment in seconds."""
        while self._events and self._events[0][0] <= until:
            self.seconds, _, action = heapq.heappop(self._events)
            action()
        self.seconds = max(self.seconds, until)


def _unheard(_error: BaseException | None) -> None:
    """Ignore the end of a process."""


class Machine:
    """A machine with one process. `network` is False once nothing that the process sends arrives any more."""

    def __init__(self, world: World, name: str, connect: Callable[["Machine"], Connect]) -> None:
        self.world = world
        self.name = name
        self.network = True
        self.random = random.Random(world.random.getrandbits(64))  # noqa: S311
        self.loop = _VirtualLoop(self)
        self.ports: dict[int, Port] = {}
        # The seconds by which the wall clock is ahead.
        self.ahead = 0.0
        self.ended: Callable[[BaseException | None], None] = _unheard
        self._connect = connect
        self._paused_until = 0.0
        self._waking = False
        self._next = 0
        self._process: asyncio.Task[None] | None = None
        world.machines[self] = None

    @property
    def host(self) -> Host:
        """Return what a process reads of this machine."""
        return Host(
            clock=lambda: self.world.seconds,
            now=lambda: self.world.now + timedelta(seconds=self.ahead),
            random=self.random.random,
            token=lambda: f"{self.random.getrandbits(32):08x}",
            name=lambda: self.name,
            connect=self._connect(self),
            listen=self._listen,
            executor=lambda: _Thread(self),
        )

    def start(self, process: Callable[[Host], Coroutine[Any, Any, None]]) -> None:
        """Start the process; `ended` is called with its error."""
        self._process = self.loop.create_task(process(self.host))
        self._process.add_done_callback(self._ended)
        self.wake()

    def stop(self) -> None:
        """Send SIGTERM."""
        handler = self.loop.handlers.get(15)
        if handler is not None:
            self.soon(handler)
        elif self._process is not None:
            self._process.cancel()
            self.wake()

    def kill(self) -> None:
        """Send SIGKILL: what the process still does reaches nobody."""
        self.network = False
        if self._process is not None:
            self._process.cancel()
            self.wake()

    def pause(self, seconds: float) -> None:
        """Let the process do nothing for a time, as on a machine that swaps or is suspended."""
        self._paused_until = max(self._paused_until, self.world.seconds + seconds)

    def soon(self, action: Callable[[], object]) -> None:
        """Call a function on the machine's event loop."""
        self.loop.call_soon(action)
        self.wake()

    def wake(self, seconds: float = 0.0) -> None:
        """Run the event loop in so many seconds, unless it runs before."""
        if seconds > 0.0:
            self._next += 1
            turn = self._next
            self.world.after(
                max(seconds, _LEAST_SECONDS), lambda: self._run() if turn == self._next else None
            )
        elif not self._waking:
            self._waking = True
            self.world.after(0.0, self._run)

    def _run(self) -> None:
        if self.loop.is_closed():
            return
        if self.world.seconds < self._paused_until:
            self.world.after(self._paused_until - self.world.seconds, self._run)
            return
        self._waking = False
        self.loop.run_forever()

    def _ended(self, process: "asyncio.Task[None]") -> None:
        error = asyncio.CancelledError() if process.cancelled() else process.exception()
        self.network = False
        self.world.after(0.0, self.shut_down)
        self.ended(error)

    def shut_down(self) -> None:
        """End what still runs, at once."""
        self.network = False
        self.world.machines.pop(self, None)
        if self.loop.is_closed():
            return
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        # A task that wants to wait now would wait for ever.
        if left:
            with suppress(RuntimeError):
                self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.close()

    def _listen(self, _address: str, number: int) -> socket.socket:
        port = Port(number or 30000 + len(self.ports))
        self.ports[port.number] = port
        return port  # type: ignore[return-value]  # what HTTPServer asks of a listening socket


class Port:
    """A listening port; `accept` returns the connections in `waiting`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.waiting: list[Any] = []
        self.ready: Callable[[], object] | None = None

    def setblocking(self, _flag: bool) -> None:
        """Do nothing: nothing blocks here."""

    def getsockname(self) -> tuple[str, int]:
        """Return address and number."""
        return "127.0.0.1", self.number

    def accept(self) -> tuple[Any, tuple[str, int]]:
        """Return the oldest connection that waits. Raises BlockingIOError if none does."""
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.pop(0), ("127.0.0.1", 0)

    def close(self) -> None:
        """Accept nothing more."""
        self.ready = None


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on the world's time. It stops whenever it would wait."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.handlers: dict[int, Callable[[], object]] = {}
        super().__init__(_Idle(self))

    def time(self) -> float:
        return self._machine.world.seconds

    def pause_until(self, seconds: float | None) -> None:
        """Stop, and go on in so many seconds; None if no timer runs."""
        self.stop()
        if seconds is not None:
            self._machine.wake(seconds)

    def call_soon_threadsafe(self, callback: Any, *args: Any, **named: Any) -> asyncio.Handle:  # type: ignore[override]  # any arguments
        handle = self.call_soon(callback, *args, **named)
        self._machine.wake()
        return handle

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]  # any arguments
        self.handlers[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.handlers.pop(sig, None) is not None

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]  # any arguments
        if isinstance(fd, Port):
            fd.ready = lambda: callback(*args)
        else:
            super().add_reader(fd, callback, *args)

    def remove_reader(self, fd: Any) -> bool:
        if isinstance(fd, Port):
            fd.ready = None
            return True
        return super().remove_reader(fd)

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], Any], sock: Any, **_named: Any
    ) -> tuple[Any, Any]:
        """Connect a protocol to one end of a simulated connection, which needs no TLS."""
        protocol = protocol_factory()
        sock.connect(protocol)
        return sock, protocol


class _Idle(selectors.BaseSelector):
    """A selector without file descriptors: it tells the loop that it waits."""

    def __init__(self, loop: _VirtualLoop) -> None:
        self._loop = loop
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._loop.pause_until(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._keys.clear()


class _Thread(Executor):
    """Runs work at once, and delivers its result after a time that the machine draws."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        chance = self._machine.random
        longest = _LONG_DECISION_SECONDS if chance.random() < _LONG_DECISIONS else _DECISION_SECONDS
        try:
            deliver = partial(future.set_result, fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - as a thread does
            deliver = partial(future.set_exception, error)
        self._machine.world.after(chance.random() * longest, deliver)
        return future
