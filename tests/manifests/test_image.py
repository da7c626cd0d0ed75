"""The contents of the image, as far as they are known without building it."""

import re

from podium.data import folder

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


def test_what_only_builds_is_not_in_the_image() -> None:
    """The second stage gets what the project itself needs, and what that needs."""
    users = _users()
    needed: set[str] = {_PROJECT}
    while more := {name for name, by in users.items() if by & needed} - needed:
        needed |= more
    builds = users.keys() - needed
    assert "hatchling" in builds
    dockerfile = (_ROOT / "Dockerfile").read_text(encoding="utf-8")
    (line,) = re.findall(r"pip uninstall --yes (.+?) \\", dockerfile)
    assert set(line.split()) == builds | {"pip"}
