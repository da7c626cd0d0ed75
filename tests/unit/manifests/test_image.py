"""The contents of the image, checked without building it."""

import inspect
import re
import tomllib
from importlib import import_module

from tests.unit.manifests.test_modes import rendered
from tools.release import locked

from podium.documents.files import folder

_ROOT = folder("manifests").parent
_DOCKERFILE = (_ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_build_dependencies_are_not_in_the_image() -> None:
    """The second stage gets the project's dependencies, direct and indirect."""
    packages = locked.packages()
    builds = {each.name for each in packages} - {each.name for each in locked.runtime(packages)}
    assert "hatchling" in builds
    (line,) = re.findall(r"pip uninstall --yes (.+?)$", _DOCKERFILE, re.MULTILINE)
    assert set(line.split()) == builds | {"pip"}


def test_the_image_is_small_pinned_and_not_of_root() -> None:
    """Two stages from one base by digest, packages by hash, and a user by number."""
    (base,) = re.findall(r"^ARG BASE=(.*)$", _DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"^FROM (.*)$", _DOCKERFILE, re.MULTILINE) == ["${BASE} AS build", "${BASE}"]
    installs = re.findall(r"pip install (.*)", _DOCKERFILE)
    assert all("--require-hashes" in each or "--no-deps" in each for each in installs)
    last = _DOCKERFILE.rpartition("FROM")[2]
    (user,) = re.findall(r"^USER (.*)$", last, re.MULTILINE)
    assert (user, last.index("USER") < last.index("ENTRYPOINT")) == ("65532:65532", True)
    for each in rendered("scheduler", "Deployment"):
        context = each["spec"]["template"]["spec"]["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == user


def test_two_builds_of_the_image_can_be_equal() -> None:
    """The stage that compiles gets the commit's date; the release rewrites the dates of all files."""
    build = _DOCKERFILE.partition("FROM ${BASE} AS build")[2].partition("FROM")[0]
    assert build.index("ARG SOURCE_DATE_EPOCH") < build.index("RUN")
    workflow = (_ROOT / ".github" / "workflows" / "release.yaml").read_text(encoding="utf-8")
    assert "rewrite-timestamp=true" in workflow
    assert "SOURCE_DATE_EPOCH: ${{ steps.commit.outputs.epoch }}" in workflow


def test_the_last_stage_imports_every_process() -> None:
    """An image without a part of a process would fail only in the cluster."""
    (code,) = re.findall(r'^RUN python -c "(import .+?)"', _DOCKERFILE.rpartition("FROM")[2], re.MULTILINE)
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
    paths.add("hatch_build.py")
    lines = (_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    assert paths <= {line[1:] for line in lines if line.startswith("!")}
