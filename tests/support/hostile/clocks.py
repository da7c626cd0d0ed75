"""Processes whose wall clocks a test sets while they run; their steady clocks go on as before.

libfaketime (Debian: libfaketime) answers in place of the kernel. It reads the offset from a file.
"""

from pathlib import Path

import pytest
from tests.support.hostile.installation import Program

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
