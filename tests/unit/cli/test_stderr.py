"""Standard error is escaped, whoever writes to it, and one message is one line."""

import ast
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.calling import invoke
from tests.unit.cli.render.test_escapes import NAMES, OBEYED, commands

from podium.runtime import logs
from podium.stderr import EscapedStream, overwrite, say

ROOT = Path(__file__).parents[3]
SOURCES = [
    path
    for root in (
        "answers",
        "core",
        "kubecel",
        "cli",
        "controllers",
        "planner",
        "schedulerplugin",
        "simulation",
        "webhooks",
    )
    for path in (ROOT / root).rglob("*.py")
]
HOSTILE = "x\x1b]0;t\x07\r\n::error::y\n##vso[task.x]\u0085\u2028\u202e\u009b31m\x7f"


@given(NAMES)
def test_a_message_is_one_line(name: str) -> None:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        say(f"podium: {name}: not found")
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith(": not found\n")
    assert not OBEYED.search(stream.getvalue())
    assert not commands(stream.getvalue())


@given(st.lists(NAMES, max_size=4))
def test_the_stream_escapes_what_is_written_by_others(texts: list[str]) -> None:
    binary = io.BytesIO()
    stream = EscapedStream(binary, encoding="utf-8", errors="backslashreplace", newline="\n")
    for text in texts:
        print(text, file=stream, flush=True)
    written = binary.getvalue().decode()
    assert not OBEYED.search(written)
    assert not commands(written)


def test_progress_replaces_one_line_of_the_terminal() -> None:
    binary = io.BytesIO()
    stream = EscapedStream(binary, encoding="utf-8")
    overwrite(stream, "reading\x1b[2J")
    overwrite(stream, "")
    assert binary.getvalue() == b"\r\x1b[Kreading\\x1b[2J\r\x1b[K"


PROGRAM = "import sys; from podium.stderr import escape_stderr; escape_stderr(); name = sys.argv[1]; "
WRITERS = {
    "traceback": "raise LookupError(name)",
    "warning": "import warnings; warnings.warn(name)",
    "logging": "import logging; logging.error(name)",
    "task": "import asyncio\nasync def task(): raise LookupError(name)\n"
    "async def main(): asyncio.create_task(task()); await asyncio.sleep(0)\nasyncio.run(main())",
    "print": "print(name, file=sys.stderr)",
    "thread": "import threading; threading.Thread(target=int, args=[name]).start()",
    "exit": "sys.exit(name)",
}


@pytest.mark.parametrize("program", WRITERS.values(), ids=list(WRITERS))
def test_texts_of_the_interpreter_and_of_libraries_are_escaped(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program, HOSTILE], capture_output=True, check=False, cwd=ROOT
    )
    text = done.stderr.decode()
    assert "31m" in text
    assert not OBEYED.search(text)
    assert not commands(text)


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/null"])
def test_a_closed_standard_error_is_no_failure(closed: str, tmp_path: Path) -> None:
    podium = Path(sys.executable).with_name("podium")
    done = subprocess.run(f"{podium} explain no-such-rule {closed}", shell=True, check=False, cwd=tmp_path)
    assert done.returncode == 2


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "t"}}
MEMBER = POD | {"spec": {"schedulingGroup": {"podGroupName": f"absent{HOSTILE}"}, "containers": []}}
CALLS = {
    "argument": ["audit", f"a{HOSTILE}.yaml"],
    "option": [f"--{HOSTILE}"],
    "option of a command": ["audit", f"--x{HOSTILE}", "-f", "pod.json"],
    "choice": ["audit", "-o", HOSTILE, "-f", "pod.json"],
    "command": [f"audit{HOSTILE}"],
    "subcommand": ["why", f"group{HOSTILE}"],
    "file": ["audit", "-f", f"a{HOSTILE}.yaml"],
    "file of a folder": ["audit", "-f", "folder"],
    "namespace": ["whatif", "-n", HOSTILE, "-f", "pod.json", "-A"],
    "pod": ["whatif", "--pod", f"t/{HOSTILE}", "-f", "pod.json"],
    "group": ["why", "group", f"t/{HOSTILE}", "-f", "pod.json"],
    "absent group": ["whatif", "-A", "-f", "pod.json"],
    "rule": ["explain", HOSTILE],
    "ignore": ["audit", "--ignore", HOSTILE, "-f", "pod.json"],
    "baseline": ["audit", "--baseline", HOSTILE, "-f", "pod.json"],
    "config": ["audit", "--config", HOSTILE, "-f", "pod.json"],
    "kubeconfig": ["audit", "--kubeconfig", HOSTILE],
    "context": ["audit", "--context", HOSTILE],
    "server": ["dump", "--kubeconfig", HOSTILE, "-o", "-"],
    "kind": ["convert", "--to", "scheduling.k8s.io/v1beta1", "-f", "kind.json", "--strict"],
    "output": ["report", "-f", "pod.json", "--output-file", f"out{HOSTILE.replace('/', '')}.txt"],
    "class": ["admit", "-f", "pod.json", "--semantics", HOSTILE],
}


@pytest.mark.parametrize("arguments", CALLS.values(), ids=list(CALLS))
def test_no_error_of_the_command_line_acts(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(MEMBER), "utf-8")
    (tmp_path / "kind.json").write_text(
        json.dumps({"apiVersion": f"a{HOSTILE}/v1", "kind": HOSTILE, "metadata": {"name": "a"}}), "utf-8"
    )
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / f"a{HOSTILE.replace('/', '')}.yaml").write_text("{", "utf-8")
    (tmp_path / "folder" / "b.json").write_text(json.dumps(MEMBER), "utf-8")
    done = invoke(arguments, tmp_path, KUBECONFIG=f"{tmp_path}/none{HOSTILE}")
    assert done.stderr
    assert "Traceback" not in done.stderr
    for line in done.stderr.splitlines():
        assert not OBEYED.search(line)
    assert not commands(done.stderr)
    # The names have line breaks; the lines are those of click's usage, or begin as a message does.
    assert not [line for line in done.stderr.split("\n") if line.startswith(("##", "::", "31m"))]


def test_lines_of_logs_have_no_escapes_of_their_own() -> None:
    """Colours would be escaped too."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    logs.configure("text", "info", stream).info("serving", port=9443)
    assert "\x1b" not in stream.getvalue()


def test_only_one_module_writes_to_standard_error() -> None:
    """Each other place calls `say` or `overwrite`, or passes the escaped stream on as it is."""
    writes = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call | ast.Attribute) and _writes(node)
    }
    own = {each for each in writes if each.startswith("core/podium/stderr.py:")}
    assert own  # the search finds such calls
    assert writes == own


def _writes(node: ast.Call | ast.Attribute) -> bool:
    text = ast.unparse(node)
    if isinstance(node, ast.Attribute):
        return text in ("sys.__stderr__", "sys.stderr.buffer", "click.get_text_stream", "click.secho")
    for keyword in node.keywords:
        to_stderr = keyword.arg == "file" and "stderr" in ast.unparse(keyword.value)
        # The question of click.confirm is constant.
        if to_stderr or (keyword.arg == "err" and ast.unparse(node.func) != "click.confirm"):
            return True
    return bool(re.match(r"sys\.stderr\.write|os\.write\(2", text))
