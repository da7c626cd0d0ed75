"""The shape of the distribution: one namespace package, one program with three names, a quick start."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from podium.cli.main import COMMANDS

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
ROOMS = [path for path in ROOT.glob("*/podium") if path.is_dir()]


def test_podium_is_a_namespace_package() -> None:
    """No __init__.py directly under any podium/, so every source root adds to the same package."""
    assert ROOMS
    assert [room for room in ROOMS if (room / "__init__.py").exists()] == []


@pytest.mark.parametrize("name", ["podium", "kubectl-podium", "podium-k8s"])
def test_the_program_has_three_names(name: str) -> None:
    """Each console script is the same program; under kubectl its usage has kubectl's form."""
    done = subprocess.run([BIN / name, "--help"], capture_output=True, text=True, check=True)
    title = "kubectl podium" if name.startswith("kubectl") else "podium"
    assert done.stdout.startswith(f"Usage: {title} [OPTIONS] COMMAND")


def test_help_names_every_command() -> None:
    """`--help` lists each command of the table once, in sections."""
    done = subprocess.run([BIN / "podium", "--help"], capture_output=True, text=True, check=True)
    sections = re.split(r"^(\w+) Commands:\n", done.stdout, flags=re.MULTILINE)[1:]
    listed = {
        title: re.findall(r"^  (\w+) ", lines, re.MULTILINE)
        for title, lines in zip(sections[::2], sections[1::2], strict=True)
    }
    assert [name for names in listed.values() for name in names] == list(COMMANDS)
    assert {name: title for title, names in listed.items() for name in names} == {
        name: entry.section for name, entry in COMMANDS.items()
    }


@pytest.mark.parametrize("args", [["--help"], ["audit", "--help"], ["admit", "--help"]])
def test_start_imports_no_heavy_library(args: list[str]) -> None:
    """Help needs neither numpy nor pydantic, aiohttp, the client or yaml."""
    script = (
        "import sys\nfrom podium.cli.main import command\n"
        f"command({args!r}, standalone_mode=False)\n"
        "heavy = {'numpy', 'pydantic', 'aiohttp', 'kubernetes_asyncio', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


def test_unknown_command_is_a_usage_error() -> None:
    """Usage errors are click's own: exit code 2."""
    done = subprocess.run([BIN / "podium", "rehearse"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'rehearse'" in done.stderr
