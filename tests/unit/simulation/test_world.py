"""Simulated time: machines sleep, wait, pause and die in it, and the same seed gives the same run."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest

from podium.kube.connection import Connection
from podium.kube.timeouts import within
from podium.runtime.host import Connect, Host
from podium.simulation.world import EPOCH, Machine, World

Process = Callable[[Host], Coroutine[Any, Any, None]]


def _unconnected(_machine: Machine) -> Connect:
    def connect(_kubeconfig: str | None, _context: str | None) -> AbstractAsyncContextManager[Connection]:
        raise AssertionError("no process here connects")

    return connect


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with World(1) as world:
        yield world


def _machine(world: World, process: Process) -> Machine:
    machine = Machine(world, "m", _unconnected)
    machine.start(process)
    return machine


def test_a_process_sleeps_in_the_time_of_the_world(world: World) -> None:
    seen = list[float]()

    async def process(host: Host) -> None:
        for seconds in (1.0, 3600.0, 0.0):
            await asyncio.sleep(seconds)
            seen.append(host.clock())

    _machine(world, process)
    world.run(10_000.0)
    assert seen == [1.0, 3601.0, 3601.0]
    assert world.seconds == 10_000.0


def test_a_timeout_ends_at_its_time(world: World) -> None:
    seen = list[float]()

    async def process(host: Host) -> None:
        with suppress(TimeoutError):
            await within(2.5, asyncio.Event().wait())
        seen.append(host.clock())

    _machine(world, process)
    world.run(10.0)
    assert seen == [2.5]


def test_a_paused_machine_does_nothing_until_its_pause_ends(world: World) -> None:
    seen = list[float]()

    async def process(host: Host) -> None:
        while True:
            await asyncio.sleep(1.0)
            seen.append(host.clock())

    machine = _machine(world, process)
    world.run(2.0)
    machine.pause(5.5)
    world.run(9.0)
    assert seen == [1.0, 2.0, 7.5, 8.5]


def test_a_clock_that_is_wrong_is_wrong_for_one_machine_and_for_its_wall_time_only(world: World) -> None:
    seen = list[float]()

    async def process(host: Host) -> None:
        await asyncio.sleep(1.0)
        seen.extend([(host.now() - EPOCH).total_seconds(), host.clock()])

    machine = _machine(world, process)
    machine.ahead = -3600.0
    _machine(world, process)
    world.run(2.0)
    assert seen == [-3599.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("signal", [15, 9])
def test_a_process_ends_by_a_signal_and_tells_its_machine(world: World, signal: int) -> None:
    ends = list[BaseException | None]()
    cleaned = list[bool]()

    async def process(_host: Host) -> None:
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(15, asked.set)
        try:
            await asked.wait()
        finally:
            cleaned.append(machine.network)

    machine = _machine(world, process)
    machine.ended = ends.append
    world.run(1.0)
    (machine.stop if signal == 15 else machine.kill)()
    world.run(2.0)
    assert cleaned == [signal == 15]
    assert machine.loop.is_closed()
    assert isinstance(ends[0], asyncio.CancelledError) if signal == 9 else ends == [None]


def test_work_of_a_thread_is_done_later(world: World) -> None:
    seen = list[object]()

    async def process(host: Host) -> None:
        loop = asyncio.get_running_loop()
        executor = host.executor()
        seen.append(await loop.run_in_executor(executor, lambda: "done"))
        seen.append(host.clock() > 0.0)
        with pytest.raises(ValueError, match="wrong"):
            await loop.run_in_executor(executor, int, "wrong")

    machine = _machine(world, process)
    ends = list[BaseException | None]()
    machine.ended = ends.append
    world.run(10.0)
    assert seen == ["done", True]
    assert ends == [None]


def test_the_same_seed_gives_the_same_run() -> None:
    def story(seed: int) -> list[tuple[str, float]]:
        seen = list[tuple[str, float]]()

        async def process(host: Host) -> None:
            for _ in range(20):
                await asyncio.sleep(host.random())
                seen.append((host.token(), host.clock()))

        with World(seed) as world:
            for _ in range(3):
                _machine(world, process)
            world.run(100.0)
        return seen

    assert len(story(1)) == 60
    assert story(1) == story(1)
    assert story(1) != story(2)
