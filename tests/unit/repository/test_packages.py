"""The packages that each command imports: those of its extra, and none of an extra for commands on files."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import grimp
import pytest
from tests.support.calling import invoke
from tools.smoke import ON_CLUSTERS, ON_FILES, ON_UNIX, ON_WINDOWS, SmokeCase, problem

from podium.cli import main
from podium.cli.main import COMMANDS

ROOT = Path(__file__).parents[3]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# The modules of distributions that have another name.
_MODULES = {"pyyaml": "yaml"}
_BASE = "base"


def _modules(requirements: list[str]) -> frozenset[str]:
    """Return the modules of requirements, with those of the extras that they name."""
    found: set[str] = set()
    for requirement in requirements:
        name, _, extra = re.split(r"[>=;\]]", requirement)[0].partition("[")
        if extra:
            found |= _modules(_PROJECT["optional-dependencies"][extra])
        else:
            found.add(_MODULES.get(name, name.replace("-", "_")))
    return frozenset(found)


PACKAGES = {_BASE: _modules(_PROJECT["dependencies"])} | {
    extra: _modules(_PROJECT["dependencies"] + requirements)
    for extra, requirements in _PROJECT["optional-dependencies"].items()
}
EXTRAS = PACKAGES["server"] - PACKAGES[_BASE]
# The modules of Python that Windows lacks.
UNIX_ONLY = frozenset(
    ("curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
)


def _without(modules: frozenset[str]) -> list[str]:
    """Return the command line of podium in a process that cannot import these modules."""
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(modules)!r}))\n"
        "from podium.cli.main import main; main()"
    )
    return [sys.executable, "-c", script]


def test_each_extra_contains_the_one_before() -> None:
    assert PACKAGES[_BASE] < PACKAGES["live"] < PACKAGES["server"]


@pytest.mark.parametrize("case", ON_FILES, ids=lambda case: case.line)
def test_a_command_on_files_needs_neither_extras_nor_unix(case: SmokeCase) -> None:
    assert problem(_without(EXTRAS | UNIX_ONLY), case) == ""


@pytest.mark.parametrize("case", ON_CLUSTERS + ON_UNIX, ids=lambda case: case.line)
def test_a_command_on_a_cluster_names_its_extra_in_one_line(case: SmokeCase) -> None:
    assert problem(_without(EXTRAS), case) == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_needs_no_extra(name: str) -> None:
    case = SmokeCase(f"{name} --help", 0, f"Usage: podium {name} ")
    assert problem(_without(EXTRAS | UNIX_ONLY), case) == ""


def test_each_command_runs_on_files_alone_or_is_tested_to_name_its_extra() -> None:
    refused = {(case.line.split()[0], case.output.split("[")[1][:-2]) for case in ON_CLUSTERS + ON_UNIX}
    without = ("explain", "manifests", "convert", "completion")
    assert refused == {(name, entry.extra) for name, entry in COMMANDS.items() if name not in without}
    assert set(without) <= {case.line.split()[0] for case in ON_FILES}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_package_that_a_module_imports_at_once_is_named_too(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The import fails while click reads the arguments, before it knows the command."""

    def refuse(module: str) -> None:
        raise ModuleNotFoundError(name="cryptography")

    monkeypatch.setattr(importlib, "import_module", refuse)
    expected = f"podium {name} needs the package cryptography. Run: pip install 'podium-k8s[{{}}]'\n"
    done = invoke([name, "--help"], tmp_path)
    assert (done.code, done.stderr) == (2, f"podium: {expected.format(COMMANDS[name].extra)}")


# `podium webhook` locks a file, too.
WINDOWS = [*((case.line, "uvloop") for case in ON_WINDOWS), ("webhook", "fcntl")]


@pytest.mark.parametrize(("name", "module"), WINDOWS)
def test_a_command_that_needs_unix_is_refused_on_windows(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No extra helps on Windows: uvloop has no build for it, and Python has no fcntl."""
    monkeypatch.setattr(sys, "platform", "win32")
    refusal = main._incomplete(name, ModuleNotFoundError(name=module))
    assert str(refusal) == f"podium {name} does not run on Windows. Use Linux, macOS or WSL"


def test_a_missing_module_of_podium_is_a_bug() -> None:
    """The error keeps its traceback, because no extra has the module."""
    error = ModuleNotFoundError(name="podium.nothing")
    assert main._incomplete("audit", error) is error


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "podium", "kubecel", include_external_packages=True, exclude_type_checking_imports=True
    )


# `podium manifests` shares a module of options with the processes, which import their logs from there.
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"manifests"}))
def test_the_extra_of_a_command_has_all_its_packages(graph: grimp.ImportGraph, name: str) -> None:
    """Imports in functions count too."""
    known = PACKAGES["server"]
    needed = known & graph.find_upstream_modules(f"podium.cli.commands.{name}")
    assert needed <= PACKAGES[COMMANDS[name].extra]


def test_the_extra_in_the_readme_runs_all_commands_there() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    [extra] = re.findall(r"^\$ pip install '\S+\[(\w+)\]'", page, re.MULTILINE)
    shown = set(re.findall(r"^(?:\$ )?podium (\w+)", page, re.MULTILINE))
    assert {"audit", "doctor", "dump", "scheduler", "ui", "why"} <= shown <= set(COMMANDS)
    assert all(PACKAGES[COMMANDS[name].extra] <= PACKAGES[extra] for name in shown)


def test_the_documentation_has_each_command_and_package_with_its_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (?:`(live|server)`|none) \| (.*) \|$", page, re.MULTILINE))
    named = {extra: set(re.findall(r"`(\w+)`", row.partition("|")[0])) for extra, row in rows.items()}
    assert set().union(*named.values()) == set(COMMANDS)
    for extra, names in named.items():
        assert {COMMANDS[name].extra for name in names} == {extra or "live"}
    packages = {
        name for row in rows.values() for name in re.findall(r"[A-Za-z]\w+(?:-\w+)?", row.partition("|")[2])
    }
    assert {
        _MODULES.get(each.lower(), each.replace("-", "_")) for each in packages - {"not", "on", "Windows"}
    } == set(PACKAGES["server"])
