"""Run the commands of a page in their order, in a folder with the checkout's files, as a reader would.

A test may stop before a command, prepare the conditions that the page assumes, and check the output. It fails
if it leaves a command out, so every command on a page is run. A line that calls podium alone runs in this
process, and any other line in a shell. The README's lines all run in a shell.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.support.calling import Run, invoke
from tests.support.docs.elsewhere import elsewhere
from tests.support.docs.pages import ROOT, Command
from tests.support.servers import Server
from tests.support.shell import run, words
from tests.support.waiting import PATIENCE_SECONDS, until

# The folders in which the page's commands run.
_GIVEN = ("examples", "manifests")
# These commands run until they are stopped; each reports at /readyz of its port that it works.
_PROCESS = re.compile(r"podium (webhook|controller|scheduler)(?: |$)")
_PORTS = {"webhook": 9090, "controller": 9091, "scheduler": 9092}
# Podium's commands exit with 3 if there are findings.
_FINE = (0, 3)


class PageRun:
    """The run of a page in one folder; `environ` is added to the environment of its commands.

    `shell` runs each line in a shell.
    """

    def __init__(self, folder: Path, *of: Command, shell: bool = False) -> None:
        self.folder = folder
        self.left = list(of)
        self._shell = shell
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        self.environ = {
            "HOME": str(folder),
            "XDG_CACHE_HOME": cache,
            "XDG_STATE_HOME": str(folder / "state"),
            "KUBECONFIG": "",
            # As wide as a page of docs/.
            "COLUMNS": "110",
        }
        for name in _GIVEN:
            (folder / name).symlink_to(ROOT / name)
        # The checkout's targets, without a change of its virtual environment.
        makefile = f"%:\n\t@$(MAKE) --directory={ROOT} --assume-old=.venv/.runtime $@\n"
        (folder / "Makefile").write_text(makefile, encoding="utf-8")

    def at(self, server: Server) -> "PageRun":
        """Add a server and its kubectl to the reader's environment."""
        config = self.folder / ".kube" / "config"
        config.parent.mkdir(exist_ok=True)
        shutil.copyfile(server.kubeconfig, config)
        kubectl = server.program("kubectl").parent
        programs = Path(sys.executable).parent
        self.environ |= {
            "KUBECONFIG": str(config),
            "PATH": f"{programs}{os.pathsep}{kubectl}{os.pathsep}{os.environ['PATH']}",
        }
        return self

    def given(self, script: str) -> str:
        """Run a command that the page assumes and does not show."""
        done = self._run(script, session=True)
        assert done.code == 0, done.stdout + done.stderr
        return done.stdout

    def until(self, start: str) -> str:
        """Run the commands before the next one with this prefix."""
        assert any(each.text.startswith(start) for each in self.left), f"no command begins with {start}"
        printed = ""
        while not self.left[0].text.startswith(start):
            printed += self.next()
        return printed

    def rest(self) -> str:
        """Run all remaining commands."""
        printed = ""
        while self.left:
            printed += self.next()
        return printed

    def next(self, *, fine: tuple[int, ...] = (), answer: str = "") -> str:
        """Run the next command and return its output and its errors.

        `fine` are the exit codes that it may have, if others than usual; `answer` is the reader's reply to a
        prompt.
        """
        command = self.left.pop(0)
        if elsewhere(command.text) is not None:
            return ""
        if _PROCESS.match(command.text):
            return self._process(command.text)
        done = self._run(command.text, session=command.session, answer=answer)
        usual = _FINE if command.text.startswith("podium") else (0,)
        assert done.code in (fine or usual), f"{command.text}\n{done.stdout}\n{done.stderr}"
        assert "\n".join(command.shown).strip() in done.stdout, f"{command.text}\n{done.stdout}"
        return done.stdout + done.stderr

    def _run(self, script: str, *, session: bool, answer: str = "") -> Run:
        """Run a line, or a session, which stops at a failure, as for a reader that copies line by line."""
        arguments = words(script)
        if arguments and not self._shell:
            return invoke(arguments, self.folder, answer=answer, **self.environ)
        script = f"set -eu\n{script}" if session else script
        done = run(script, self.folder, answer=answer, **self.environ)
        return Run(done.returncode, done.stdout, done.stderr)

    def _process(self, line: str) -> str:
        """Run the command until it is ready, and stop it; it must exit with 0."""
        found = _PROCESS.match(line)
        assert found is not None
        address = f"http://127.0.0.1:{_PORTS[found[1]]}/readyz"
        log = self.folder / "process.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                cwd=self.folder,
                env={**os.environ, **self.environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

        def ready() -> bool:
            assert process.poll() is None, log.read_text("utf-8")
            # Refused, not ready (an error too), or not in time.
            with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as got:
                return bool(got.status == 200)
            return False

        try:
            until(ready, f"{line} is ready")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0, log.read_text("utf-8")
        except subprocess.TimeoutExpired as error:
            error.add_note(log.read_text("utf-8"))
            raise
        finally:
            process.kill()
            process.wait()
        return log.read_text("utf-8")
