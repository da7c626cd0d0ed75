"""The contents of the image, checked without building it."""

import inspect
import re
import tomllib
from importlib import import_module

from podium.documents.packagedata import folder

_ROOT = folder("manifests").parent
_PROJECT = "podium-k8s (pyproject.toml)"


def _users() -> dict[str, set[str]]:
    """Return the users of each locked package, by the lock file's own notes."""
    lock = (_ROOT / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)
    found = {}
    for block in filter(None, blocks):
        notes = re.findall(r"^    #(?: via)? +(\S.*)$", block, re.MULTILINE)
        found[block.partition("==")[0]] = {note for note in notes if note != "via"}
    return found


def test_build_dependencies_are_not_in_the_image() -> None:
    """The second stage gets the project's dependencies, direct and indirect."""
    users = _users()
    needed: set[str] = {_PROJECT}
    while more := {name for name, by in users.items() if by & needed} - needed:
        needed |= more
    builds = users.keys() - needed
    assert "hatchling" in builds
    dockerfile = (_ROOT / "Dockerfile").read_text(encoding="utf-8")
    (line,) = re.findall(r"pip uninstall --yes (.+?)$", dockerfile, re.MULTILINE)
    assert set(line.split()) == builds | {"pip"}


def test_the_last_stage_imports_every_process() -> None:
    """An image without a part of a process would fail only in the cluster."""
    dockerfile = (_ROOT / "Dockerfile").read_text(encoding="utf-8")
    (code,) = re.findall(r'^RUN python -c "(import .+?)"', dockerfile.rpartition("FROM")[2], re.MULTILINE)
    modules = code.removeprefix("import ").split(", ")
    commands = ("webhook", "controller", "scheduler")
    started = [inspect.getsource(import_module(f"podium.cli.commands.{name}")) for name in commands]
    processes = re.findall(r"from (podium\.\S+\.process) import", "\n".join(started))
    assert len(processes) == len(commands)
    assert set(processes) < set(modules)
    for each in modules:
        import_module(each)


def test_the_build_context_has_all_that_the_wheel_is_made_of() -> None:
    """A path that .dockerignore leaves out would be missing in the image without an error."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    paths = {each.partition("/")[0] for each in wheel["packages"]} | set(wheel["force-include"])
    lines = (_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    assert paths <= {line[1:] for line in lines if line.startswith("!")}
