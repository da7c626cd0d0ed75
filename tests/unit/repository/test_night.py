"""Every command without arguments, with wrong input, and without a cluster.

Each answer is one line that names the fault, or a usage; never a traceback, and never a false success.
"""

import asyncio
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from tests.support import shell
from tests.support.connection.fake import Answer, Fake, serving, status

from podium.cli.main import COMMANDS, command
from podium.errors import PodiumError

# The files or the cluster that each command reads; processes retry a cluster that is down.
OF_FILES = {
    "audit": ["audit"],
    "admit": ["admit"],
    "whatif": ["whatif", "--pod", "a/b"],
    "why": ["why", "pod", "a/b"],
    "preflight": ["preflight", "--to", "1.37"],
    "migrate": ["migrate", "--to", "native"],
    "convert": ["convert", "--to", "scheduling.k8s.io/v1beta1"],
    "report": ["report"],
    "ui": ["ui"],
}
OF_A_CLUSTER = {
    **{name: OF_FILES[name] for name in ("audit", "whatif", "why", "preflight", "migrate", "report", "ui")},
    "doctor": ["doctor"],
    "dump": ["dump"],
}
PROCESSES = {
    "webhook": ["webhook", "--cert-dir", "."],
    "controller": ["controller"],
    "scheduler": ["scheduler"],
}

POD = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "a"}}'
FILES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "No such file or directory"),
    "empty": (b"", "no Kubernetes object found"),
    "binary": (bytes(range(128, 256)) * 9, "not UTF-8"),
    "words": (b"just words\n", "expected a Kubernetes object, got string"),
    "of another tool": (b"services:\n  web: {image: x}\n", "not a Kubernetes object"),
    "cut": (POD[:40], "the JSON is truncated"),
    "cut gzip": (gzip.compress(POD)[:-9], "is truncated"),
    "nested without end": (b"[" * 200_000, "nested too deeply"),
}


def run(*arguments: str) -> Result:
    """Run a command to its end: an exit code or one line of ours."""
    done = CliRunner(env={"KUBECONFIG": None, "KUBERNETES_SERVICE_HOST": None}).invoke(
        command, arguments, prog_name="podium"
    )
    if done.exception is not None:
        assert isinstance(done.exception, PodiumError | SystemExit), done.exception
    return done


def line(*arguments: str) -> str:
    """Return the last line of a command."""
    error = run(*arguments).exception
    assert isinstance(error, PodiumError)
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_there(name: str, tmp_path: Path) -> None:
    """In a process of its own, because click keeps state within a process."""
    for flag in ("-h", "--help"):
        done = shell.run(["podium", name, flag], tmp_path)
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: podium {name} ")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "explain"])
def test_nothing_is_asked_of_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kubeconfig, the error names the missing option or the missing kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run(name)
    if isinstance(done.exception, PodiumError):
        assert str(done.exception).startswith("~/.kube/config: kubeconfig not found. Name another with ")
    else:
        assert done.exit_code == 2
        assert "Usage: podium" in done.output


@pytest.mark.parametrize(("content", "words"), FILES.values(), ids=list(FILES))
@pytest.mark.parametrize("options", OF_FILES.values(), ids=list(OF_FILES))
def test_invalid_input_is_an_error(
    options: Sequence[str], content: bytes | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the file and its actual contents."""
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("input").write_bytes(content)
    output = line(*options, "-f", "input")
    assert output.startswith("input")
    assert words in output


@pytest.mark.parametrize("options", OF_FILES.values(), ids=list(OF_FILES))
def test_a_folder_without_manifests(options: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no manifest")
    assert line(*options, "-f", str(tmp_path)) == f"{tmp_path}: no Kubernetes object found"


@pytest.mark.parametrize(
    "options", [*OF_A_CLUSTER.values(), *PROCESSES.values()], ids=[*OF_A_CLUSTER, *PROCESSES]
)
def test_an_invalid_kubeconfig_is_an_error(
    options: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\x80\x81")
    Path("empty").write_bytes(b"")
    Path("folder").mkdir()
    kinds = {
        "missing": "kubeconfig not found",
        "binary": "cannot be used as a kubeconfig: not text",
        "empty": "malformed",
        "folder": "Is a dir",
    }
    for name, words in kinds.items():
        output = line(*options, "--kubeconfig", name)
        assert output.startswith(f"{name}: ")
        assert words in output


@pytest.mark.parametrize(
    "options", [*OF_A_CLUSTER.values(), *PROCESSES.values()], ids=[*OF_A_CLUSTER, *PROCESSES]
)
def test_a_missing_kubeconfig_error_names_files(options: Sequence[str], tmp_path: Path) -> None:
    """Only commands that read files name them."""
    output = line(*options, "--kubeconfig", str(tmp_path / "missing"))
    assert output.endswith(", or read a dump or manifests with -f FILE") == (options[0] in OF_FILES)


@pytest.mark.parametrize(("wrong", "meant"), [("adit", "audit"), ("what-if", "whatif"), ("xyz", "")])
def test_a_command_that_is_not_there(wrong: str, meant: str) -> None:
    done = run(wrong)
    assert done.exit_code == 2
    assert f"No such command '{wrong}'." in done.output
    assert (f"Did you mean {meant}?" in done.output) == bool(meant)


@pytest.mark.parametrize("name", ["audit", "dump", "preflight --to 1.37", "report", "ui"])
def test_an_invalid_namespace_is_an_error(name: str) -> None:
    done = run(*name.split(), "-n", "Team A")
    assert done.exit_code == 2
    assert "-n: 'Team A' is not a valid namespace name." in done.output


def always(made: web.Response) -> Answer:
    """Answer every request with the same body."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=made.status, body=made.body, content_type="application/json")

    return answer


WEIRD = {
    "forbidden": (status(403, "Forbidden", "forbidden"), "403"),
    "expired": (status(401, "Unauthorized", "Unauthorized"), "401"),
    "a login page": (web.Response(text="<html>log in</html>"), "is this a Kubernetes API server?"),
    "something else": (web.Response(text="{}"), "is this a Kubernetes API server?"),
    "a gateway": (web.Response(status=502, text="bad gateway"), "502: bad gateway"),
}


class Weird(Fake):
    """A server with one answer to every request."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request)


@pytest.mark.parametrize(("made", "words"), WEIRD.values(), ids=list(WEIRD))
@pytest.mark.parametrize("options", OF_A_CLUSTER.values(), ids=list(OF_A_CLUSTER))
async def test_an_unusable_cluster_is_an_error(
    options: Sequence[str], made: web.Response, words: str, tmp_path: Path
) -> None:
    """It may be a cluster that refuses the caller, or no cluster at all."""
    async with serving(Weird(always(made))) as fake:
        output = await asyncio.to_thread(line, *options, "--kubeconfig", fake.kubeconfig(tmp_path))
    assert output.startswith(f"{fake.url}: GET /")
    assert words in output


@pytest.mark.parametrize("options", OF_A_CLUSTER.values(), ids=list(OF_A_CLUSTER))
def test_a_port_without_a_listener_is_an_error(options: Sequence[str], tmp_path: Path) -> None:
    fake = Fake()
    fake.url = "http://127.0.0.1:1"
    output = line(*options, "--kubeconfig", fake.kubeconfig(tmp_path))
    assert " failed: connection refused. Check that the cluster runs" in output


@pytest.mark.parametrize("name", ["audit", "dump", "doctor"])
async def test_ctrl_c_while_a_server_is_silent(name: str, tmp_path: Path) -> None:
    """The command ends at once, with exit code 130 and without a traceback."""
    requested = asyncio.Event()
    over = asyncio.Event()

    async def silent(_: web.Request) -> web.StreamResponse:
        requested.set()
        await over.wait()
        return web.Response()

    async with serving(Weird(silent)) as fake:
        program = "from podium.cli.main import main; main()"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, *OF_A_CLUSTER[name], "--kubeconfig", fake.kubeconfig(tmp_path)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "HOME": str(tmp_path)},
            # A shell that starts tests in the background makes them ignore SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        await requested.wait()
        process.send_signal(signal.SIGINT)
        stdout, stderr = await process.communicate()
        over.set()
    assert (process.returncode, stdout) == (130, b"")
    assert b"Aborted" not in stderr
    assert b"Traceback" not in stderr
