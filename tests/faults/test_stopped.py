"""Each process is stopped at any moment of its start and its work, and ends in order within seconds.

The processes' own code runs here, on their own event loop. Every task counts its steps, from one await to the
next. So a moment is a number of steps, and the test covers every point that a signal can hit. A hang in one
stop of a hundred needs many stops, so no stop starts a process.
"""

import asyncio
import gc
import io
import os
import random
import signal
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.typing import FilteringBoundLogger
from tests.support.controllers.running import install
from tests.support.proxy import ANY, Cut, Fault, Hold, Proxy, Refuse
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, Server, exclusive
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.webhooks.client import restored_logs
from tools.devcluster.controlplane.releases import NEWEST

from podium.cli.commands.scheduler import source
from podium.controllers import process as controller
from podium.controllers.manager import Rules
from podium.errors import PodiumError
from podium.runtime import logs
from podium.runtime.manager import ManagerOptions
from podium.schedulerplugin.live import process as scheduler
from podium.webhooks import process as webhook
from podium.webhooks.registration import Endpoint

pytestmark = [
    pytest.mark.server,
    # uvloop leaves a connection that is cancelled while it is made to the end of the loop, or to the
    # collector.
    pytest.mark.filterwarnings("ignore:unclosed (resource|transport):ResourceWarning"),
]

# Stops of one process in `make test`.
MOMENTS = 30
# Turns of the loop in which all tasks receive the stop and end.
_TURNS = 100
# A process without a step for this long waits for input.
_QUIET_SECONDS = 0.3

Work = Coroutine[Any, Any, None]
# The work of a process, given its kubeconfig, a unique name, a folder and its log.
Process = Callable[[Path, str, Path, FilteringBoundLogger], Work]


def _options(kubeconfig: Path, name: str) -> ManagerOptions:
    return ManagerOptions(kubeconfig=str(kubeconfig), lease=("default", name))


def _scheduler(kubeconfig: Path, name: str, _folder: Path, log: FilteringBoundLogger) -> Work:
    return scheduler.run(_options(kubeconfig, name), source(None), log)


def _controller(kubeconfig: Path, name: str, _folder: Path, log: FilteringBoundLogger) -> Work:
    return controller.run(_options(kubeconfig, name), Rules(), log)


def _webhook(kubeconfig: Path, _name: str, folder: Path, log: FilteringBoundLogger) -> Work:
    settings = webhook.WebhookSettings(
        certificates=webhook.Folder(folder),
        kubeconfig=str(kubeconfig),
        port=0,
        register=Endpoint(url="https://127.0.0.1:9"),
        drain_seconds=0.0,
    )
    return webhook.run(settings, log)


PROCESSES: dict[str, Process] = {"scheduler": _scheduler, "controller": _controller, "webhook": _webhook}


class _Steps(Coroutine[Any, Any, Any]):
    """A task's work; `told` is called at each step, and returns the turns of the loop to wait."""

    def __init__(self, work: Coroutine[Any, Any, Any], told: Callable[[], int]) -> None:
        self._work = work
        self._told = told
        self._held = 0
        self._value: Any = None

    def send(self, value: Any) -> Any:
        if not self._held:
            self._held, self._value = self._told() + 1, value
        self._held -= 1
        return None if self._held else self._work.send(self._value)

    def throw(self, *error: Any) -> Any:
        self._held = 0
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()


class Run:
    """A run of a process that is stopped at its step number `moment`, or else when it is idle.

    The action of that step is done first, or (`late`) when all other tasks have received the stop.
    """

    def __init__(self, moment: int = 0, *, late: bool = False) -> None:
        # Until the stop.
        self.steps = 0
        self._moment = moment
        self._late = late
        self._told = False
        self._stream = io.StringIO()

    @property
    def log(self) -> str:
        return self._stream.getvalue()

    def through(self, work: Callable[[FilteringBoundLogger], Work], trouble: Callable[[], None]) -> None:
        """Run it to its end; call `trouble` when it is idle, right before the stop."""
        log = logs.configure("json", "info", self._stream)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.get_loop().set_task_factory(self._task)
            runner.run(self._bounded(work(log), trouble))
        # A scheduler has frozen the existing objects.
        gc.unfreeze()

    async def _bounded(self, work: Work, trouble: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._look, 0, trouble)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await work

    def _look(self, seen: int, trouble: Callable[[], None]) -> None:
        """Stop it if no step was done since this number of steps."""
        if self._told:
            return
        if self.steps == seen:
            trouble()
            self._stop()
        else:
            asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._look, self.steps, trouble)

    def _task(self, loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_Steps(work, self._step), loop=loop, **options)

    def _step(self) -> int:
        self.steps += not self._told
        if self._told or self.steps != self._moment:
            return 0
        self._stop()
        return _TURNS * self._late

    def _stop(self) -> None:
        if not self._told:
            self._told = True
            os.kill(os.getpid(), signal.SIGTERM)


class Stage:
    """The environment of the runs of one process, one after the other."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._folder = folder
        self._count = 0

    def stopped(
        self,
        kubeconfig: Path,
        moment: int = 0,
        *,
        late: bool = False,
        trouble: Callable[[], None] = lambda: None,
    ) -> int:
        """Run the process until it is stopped and has ended in order; return its steps until then."""
        self._count += 1
        name = f"{self._kind}-{self._count}"
        folder = self._folder / name
        folder.mkdir()
        run = Run(moment, late=late)
        with restored_logs():
            process = PROCESSES[self._kind]
            try:
                run.through(lambda log: process(kubeconfig, name, folder, log), trouble)
            except (TimeoutError, PodiumError) as error:
                when = f"at step {moment} ({late=})" if moment else "when it was quiet"
                raise AssertionError(f"told to stop {when}: {error!r}\n{run.log}") from error
        assert "Traceback" not in run.log, run.log
        return run.steps

    def held(self, server: Server) -> list[dict[str, Any]]:
        """Return the Leases that were not released."""
        leases = server.request("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases")[1]["items"]
        return [
            each
            for each in leases
            if each["metadata"]["name"].startswith(f"{self._kind}-") and each["spec"].get("holderIdentity")
        ]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a server with Podium's kinds, on which webhooks without a process may be registered."""
    with exclusive(NEWEST) as made:
        install(made)
        yield made


@pytest.fixture(params=PROCESSES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield Stage(request.param, tmp_path)
    # The remains of a run must not warn in a later test.
    gc.collect()


def test_at_any_moment(stage: Stage, server: Server) -> None:
    """Stop each process at moments of its start, and when it is idle; at length, at all moments.

    PODIUM_SEED repeats a run.
    """
    steps = stage.stopped(server.kubeconfig)
    # The first step ends when signal handlers are set.
    moments = [(moment, late) for moment in range(2, steps + 1) for late in (True, False)]
    for moment, late in moments if FULL else random.Random(new_seed()).sample(moments, MOMENTS):
        stage.stopped(server.kubeconfig, moment, late=late)
    assert stage.held(server) == []


TROUBLES: dict[str, Fault] = {
    "silent": Hold(lost=True),
    "away": Cut(answered=False),
    "in trouble": Refuse(503, "ServiceUnavailable", retry_after=3600),
    "forbids all": Refuse(403, "Forbidden"),
}


@pytest.fixture(scope="module")
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server).running() as made:
        yield made


@pytest.mark.parametrize("from_the_start", [True, False], ids=["from the start", "later"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_while_the_server_is(
    trouble: str, stage: Stage, proxy: Proxy, tmp_path: Path, *, from_the_start: bool
) -> None:
    """The process ends in order, with any request in flight or at its end."""
    with ExitStack() as stack:

        def begin() -> None:
            stack.enter_context(proxy.fault(ANY, TROUBLES[trouble]))

        kubeconfig = proxy.kubeconfig(tmp_path)
        if from_the_start:
            begin()
            stage.stopped(kubeconfig)
        else:
            stage.stopped(kubeconfig, trouble=begin)
