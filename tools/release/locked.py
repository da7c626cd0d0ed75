"""The packages of requirements.lock, and which of them a running Podium needs."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tools.release.artifacts import ROOT

_PROJECT = "podium-k8s (pyproject.toml)"


class Locked(NamedTuple):
    """A locked package: its lines, and the packages that need it by the lock file's own notes."""

    name: str
    version: str
    lines: str
    users: frozenset[str]


def packages() -> list[Locked]:
    """Return the packages of requirements.lock; one may be there in several versions, for several Pythons."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = []
    for block in filter(None, re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)):
        head = re.match(r"(\S+)==(\S+)", block)
        assert head, block
        notes = re.findall(r"^    #(?: via)? +(\S.*)$", block, re.MULTILINE)
        locked.append(Locked(head[1], head[2], block, frozenset(notes) - {"via"}))
    return locked


def runtime(locked: Iterable[Locked]) -> list[Locked]:
    """Return what the project itself needs, and what that needs. The others only build it."""
    every, needed = list(locked), {_PROJECT}
    while more := {package.name for package in every if package.users & needed} - needed:
        needed |= more
    return [package for package in every if package.name in needed]


def requirements(chosen: Iterable[Locked]) -> str:
    """Return a requirements file of some packages, with their hashes."""
    return "".join(package.lines for package in chosen)
