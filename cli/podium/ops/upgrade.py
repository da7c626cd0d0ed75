"""The installed Podium as values: its versions and mode, and the objects that a newer version does not have.

An upgrade is an install over an older one, so its steps are those of `podium.ops.install`. It keeps the mode
and the registry of the image. An object belongs to an install if it has our label, so objects of other tools
are neither counted nor removed.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from podium.errors import PodiumError
from podium.ops.install import VERSION, Action, Document, InstallOutcome, key_of, rank

_NUMBER = re.compile(r"\d+(\.\d+)*")
# A slash follows a port, but never a tag.
_TAG = re.compile(r"(:[^/:@]+)?(@[^/@]+)?$")
# Only `podium uninstall` removes data and the kinds that hold it.
_KEPT = ("CustomResourceDefinition", "Namespace", "Lease")


class Installed(NamedTuple):
    """The running version of each process by its name, empty if no install created it."""

    versions: dict[str, str]
    mode: str
    image: str  # Of the webhook.


def installed(inventory: Sequence[Document]) -> Installed:
    """Return the versions, mode and image of the objects that installs created."""
    deployments = {each["metadata"]["name"]: each for each in inventory if each["kind"] == "Deployment"}
    versions = {name: each["metadata"]["labels"].get(VERSION, "") for name, each in deployments.items()}
    # A deleted Deployment may leave its configuration, which still counts.
    scheduler = any(each["metadata"]["name"] == "podium-scheduler" for each in inventory)
    images = [
        container["image"]
        for name, each in deployments.items()
        if name == "podium-webhook"
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    return Installed(versions, "scheduler" if scheduler else "admission", images[0] if images else "")


def others(found: Installed, version: str) -> str:
    """Return the running versions that are not this one, in words; empty if there are none."""
    return ", ".join(sorted({each or "an unknown version" for each in found.versions.values()} - {version}))


def image(found: Installed, version: str) -> str | None:
    """Return the image of a version in the registry of the running one; None if nothing runs."""
    return f"{_TAG.sub('', found.image)}:{version}" if found.image else None


def require_upgrade(found: Installed, version: str, *, downgrade: bool) -> None:
    """Raise PodiumError if the change to a version is not an upgrade."""
    if not found.versions:
        raise PodiumError(
            "no installation of podium install found. Run podium install, or upgrade with the tool "
            "that installed Podium (helm, kubectl)"
        )
    newer = sorted({each for each in found.versions.values() if _numbers(each) > _numbers(version)})
    if newer and not downgrade:
        raise PodiumError(
            f"{', '.join(newer)} is installed, newer than this podium {version}. Use podium of that "
            "version, or --allow-downgrade"
        )


def surplus(inventory: Sequence[Document], documents: Sequence[Document]) -> Iterator[InstallOutcome]:
    """Yield the objects of installs that a version does not have, in reverse order of application."""
    wanted = {key_of(each) for each in documents}
    for each in sorted(inventory, key=rank, reverse=True):
        if key_of(each) not in wanted and each["kind"] not in _KEPT:
            yield InstallOutcome(key_of(each), Action.REMOVED, each, None)


def _numbers(version: str) -> tuple[int, ...]:
    found = _NUMBER.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()
