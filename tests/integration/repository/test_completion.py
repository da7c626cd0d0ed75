"""Completion in shells and kubectl, by the scripts of `podium completion`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.servers import Server

from podium.cli.main import COMMANDS

BIN = Path(sys.executable).parent
README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
SETUP = re.findall(r"`(source <\(podium completion bash\))`", README)


def run(line: list[str], **environ: str) -> str:
    """Run a program that finds podium on its PATH, and return its output."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        line, env={**os.environ, "PATH": path, **environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


CASES = {
    "a command": ("why", ["why"]),
    "commands that begin so": ("a", ["audit", "admit"]),
    "any command": ("", list(COMMANDS)),
    "no such command": ("zz", []),
    "an option": ("why --ten", ["--tenant"]),
    "an option of podium's own": ("--ver", ["--version"]),
    "no such option": ("why --zz", []),
    "a value": ("audit -o js", ["json"]),
    "a value behind its option's sign": ("audit --output = js", ["json"]),
    "an argument": ("why ", ["pod", "group"]),
}


@pytest.mark.parametrize("written, offered", CASES.values(), ids=CASES.keys())
def test_bash_completes(written: str, offered: list[str]) -> None:
    """The README's set-up completes words in bash, with bash's own splitting."""
    (setup,) = SETUP
    words = ["podium", *written.split(" ")]
    script = (
        f"{setup}; read -ra called <<<$(complete -p podium)\n"
        f'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "${{called[-2]}}" podium\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    printed = run(["bash", "--norc", "-c", script, "bash", *words])
    assert printed.split() == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("written", ["audit --config ex", "audit --config=ex", "convert -f "])
def test_a_value_that_is_not_known_is_a_file(shell: str, written: str) -> None:
    """The shell completes the name like a file."""
    *_, incomplete = words = ["podium", *written.split(" ")]
    count = incomplete if shell == "fish" else str(len(words) - 1)
    variables = {"_PODIUM_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": count}
    assert re.split(r"[,\n]", run(["podium"], **variables))[0] == "file"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_get_commands(shell: str) -> None:
    """Completions have their lines of help, by the script's own variable."""
    assert "_PODIUM_COMPLETE" in run(["podium", "completion", shell])
    count = "wh" if shell == "fish" else "1"
    variables = {"_PODIUM_COMPLETE": f"{shell}_complete", "COMP_WORDS": "podium wh", "COMP_CWORD": count}
    printed = run(["podium"], **variables)
    assert "whatif" in printed
    assert "why" in printed
    assert "audit" not in printed


@pytest.mark.server
@pytest.mark.parametrize(
    "written, offered, directive",
    [
        (["wh"], ["whatif", "why"], ":4"),
        (["why", ""], ["pod", "group"], ":4"),
        (["audit", "--output=js"], ["--output=json"], ":4"),
        (["audit", "--config", "x"], [], ":0"),
        (["zz"], [], ":4"),
    ],
)
def test_kubectl_completes(
    written: list[str], offered: list[str], directive: str, server_137: Server, tmp_path: Path
) -> None:
    """The real kubectl runs the program, and passes on its output."""
    program = tmp_path / "kubectl_complete-podium"
    program.write_text(run(["podium", "completion", "kubectl"]), encoding="utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        [str(server_137.program("kubectl")), "__complete", "podium", *written],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, last = done.stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == offered
    assert last == directive
