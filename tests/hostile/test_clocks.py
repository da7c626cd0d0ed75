"""The wall clock of Podium's processes is set while they run: by an operator, or by a time server that errs.

All of them step together, as on one machine. The API server's clock stays right.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hostile.attacked import AttackedCluster, attacked
from tests.support.hostile.honest import LOW
from tests.support.hostile.installation import Program, current
from tests.support.hostile.tenant import Tenant
from tests.support.servers import in_turn

# libfaketime (Debian: libfaketime) answers in place of the kernel, for wall clocks only. It reads the offset
# from a file.
_LIBRARIES = Path("/usr/lib")
_CLOCKED = """#!/bin/sh
export LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={file} FAKETIME_CACHE_DURATION=1
export FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1
exec "$@"
"""


class Clock:
    """The wall clock of all processes of one program."""

    def __init__(self, folder: Path) -> None:
        """Skip the test without libfaketime; `folder` gets the script and the offset."""
        self.folder = folder
        self._file = folder / "offset"
        self.step(0)

    def step(self, seconds: int) -> None:
        """Set the clock to the true time and this many seconds."""
        self._file.write_text(f"{seconds:+d}\n", "ascii")

    def program(self, of: Program) -> Program:
        """Return a program that goes by this clock."""
        library = next(_LIBRARIES.glob("*/faketime/libfaketimeMT.so.1"), None)
        if library is None:
            pytest.skip("libfaketime is not installed (Debian and Ubuntu: apt install libfaketime)")
        clocked = self._script("clocked", _CLOCKED.format(library=library, file=self._file))
        podium = self._script("podium", f'#!/bin/sh\nexec {clocked} {of.executable} "$@"\n')
        return of._replace(executable=podium, webhook=(str(clocked), *of.webhook))

    def _script(self, name: str, text: str) -> Path:
        script = self.folder / name
        script.write_text(text, "utf-8")
        script.chmod(0o755)
        return script


pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

_HOUR = 3600
_DAY = 24 * _HOUR
# Outside the life of the API server's own certificate no client can connect. It starts an hour before it.
_STEPS = {"an hour forward": _HOUR, "an hour back": -_HOUR + 300, "25 days forward": 25 * _DAY}
# The webhook's certificate is renewed by then.
_RENEWED = 20 * _DAY


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Clock:
    """Return the clock of the processes."""
    return Clock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module", params=in_turn(__name__))
def cluster(
    request: pytest.FixtureRequest, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AttackedCluster]:
    """Yield a cluster whose processes go by the clock."""
    with attacked(request.param, tmp_path_factory.mktemp("attacked"), clock.program(current())) as made:
        yield made


@pytest.mark.parametrize("seconds", [pytest.param(seconds, id=name) for name, seconds in _STEPS.items()])
def test_a_step_of_the_clock_stops_no_work(cluster: AttackedCluster, clock: Clock, seconds: int) -> None:
    """Podium works during a step and after the step back."""
    webhook = cluster.podium.processes["webhook-0"].running

    def write(tenant: Tenant) -> None:
        group = tenant.group(2, priorityClassName=LOW)
        clock.step(seconds)
        if seconds > _RENEWED:
            webhook.until(lambda: "leaf renewed" in webhook.log, "it renews its certificate")
        for _ in range(2):
            tenant.pod(group=group, priorityClassName=LOW)

    try:
        cluster.endures(write, f"clock-{abs(seconds)}")
    finally:
        clock.step(0)
    cluster.endures(lambda _: None, f"after-{abs(seconds)}")
