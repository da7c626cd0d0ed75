"""A replica of the scheduler: `python -m tests.support.scheduling.replica WANTED`, with `Wanted` as JSON.

It is the process of `podium scheduler` with a shorter lease. SIGUSR1 sets its clock forward by a minute, so
that tests of limits by the minute need not wait.
"""

import signal
import sys
import time
from typing import Any

import msgspec
import uvloop

from podium.cli.commands.scheduler import source
from podium.cluster.reader import name_in
from podium.errors import PodiumError
from podium.planner.engine import Engine
from podium.runtime import logs, manager
from podium.runtime.host import THIS_MACHINE, steady
from podium.runtime.leaderelection import Elector
from podium.runtime.leaserecord import Terms
from podium.runtime.manager import ManagerOptions
from podium.schedulerplugin.live import process
from podium.schedulerplugin.scheduling.live_engine import LiveEngine


class Wanted(msgspec.Struct, kw_only=True):
    """The settings of a replica: durations are in seconds.

    The lease is namespace and name (None: no election). A decision for a pod named `endless` does not end.
    """

    kubeconfig: str
    config: str
    lease: tuple[str, str] | None
    terms: Terms
    endless: str = ""


class _SkippingClock:
    """A steady clock that skips a minute at each SIGUSR1; timers that run already end as before."""

    def __init__(self) -> None:
        self._skipped = 0.0
        signal.signal(signal.SIGUSR1, self._skip)

    def __call__(self) -> float:
        return steady() + self._skipped

    def _skip(self, *_: object) -> None:
        self._skipped += 60.0


def _elector(*args: Any, **named: Any) -> Elector:
    return Elector(*args, **{**named, "clock": steady})


def _hang(pod: str) -> None:
    """Make decisions for a pod of this name endless, without a check of the time."""
    place, decide = LiveEngine.place_lone, Engine.decide

    def sleep_if(found: bool) -> None:
        while found:
            time.sleep(1)

    def placed(self: LiveEngine, keys: Any, *args: Any, **named: Any) -> Any:
        sleep_if(pod in [name for _, name in keys])
        return place(self, keys, *args, **named)

    def decided(self: Engine, key: Any, *args: Any, **named: Any) -> Any:
        sleep_if(name_in(key)[1] == pod)
        return decide(self, key, *args, **named)

    LiveEngine.place_lone = placed  # type: ignore[method-assign]
    Engine.decide = decided  # type: ignore[method-assign]


def main(wanted: Wanted) -> int:
    """Run a replica until it is stopped; return the exit code."""
    if wanted.endless:
        _hang(wanted.endless)
    options = ManagerOptions(
        kubeconfig=wanted.kubeconfig,
        elects=wanted.lease is not None,
        lease=wanted.lease,
        terms=wanted.terms,
    )
    try:
        log = logs.configure("json", "info")
        manager.Elector = _elector  # type: ignore[assignment,attr-defined]  # a lease does not survive a skipped minute
        host = THIS_MACHINE._replace(clock=_SkippingClock())
        uvloop.run(process.run(options, source(wanted.config), log, host=host))
    except PodiumError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Wanted)))
