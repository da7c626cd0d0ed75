"""What is installed already, as values: of which versions and mode, and what of it a newer one has no more.

An upgrade is an install over an older one, so its steps are those of `podium.ops.install`. It keeps the mode
and the place that the image is pulled from. What an install has made is known by its label, so what other
tools made or changed is neither counted nor taken away.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from podium.errors import PodiumError
from podium.ops.install import VERSION, Action, Document, Outcome, key_of, rank

_NUMBER = re.compile(r"\d+(\.\d+)*")
# A port has a slash after it; a tag has not.
_TAG = re.compile(r"(:[^/:@]+)?(@[^/@]+)?$")
# Data, with all that it holds, is taken away by nobody but `podium uninstall`.
_KEPT = ("CustomResourceDefinition", "Namespace", "Lease")


class Installed(NamedTuple):
    """What runs: the version of each process by its name, empty where no install has made any."""

    versions: dict[str, str]
    mode: str
    image: str  # of the webhook


def installed(inventory: Sequence[Document]) -> Installed:
    """Read what runs off what installs have made."""
    deployments = {each["metadata"]["name"]: each for each in inventory if each["kind"] == "Deployment"}
    versions = {name: each["metadata"]["labels"].get(VERSION, "") for name, each in deployments.items()}
    # Whose Deployment somebody has taken away may still want its configuration.
    scheduler = any(each["metadata"]["name"] == "podium-scheduler" for each in inventory)
    images = [
        container["image"]
        for name, each in deployments.items()
        if name == "podium-webhook"
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    return Installed(versions, "scheduler" if scheduler else "admission", images[0] if images else "")


def others(found: Installed, version: str) -> str:
    """Name the versions that run and are not this one; empty where there are none."""
    return ", ".join(sorted({each or "an unknown version" for each in found.versions.values()} - {version}))


def image(found: Installed, version: str) -> str | None:
    """Give the image of a version, from where the one that runs was pulled; None where nothing runs."""
    return f"{_TAG.sub('', found.image)}:{version}" if found.image else None


def check(found: Installed, version: str, *, downgrade: bool) -> None:
    """Raise PodiumError where an upgrade to a version is none."""
    if not found.versions:
        raise PodiumError(
            "podium install has installed nothing here to upgrade: use it, or the tool that installed Podium "
            "(helm, kubectl)"
        )
    newer = sorted({each for each in found.versions.values() if _numbers(each) > _numbers(version)})
    if newer and not downgrade:
        raise PodiumError(
            f"{', '.join(newer)} is installed and this is podium {version}: use the podium of that version, "
            "or go back with --allow-downgrade"
        )


def surplus(inventory: Sequence[Document], documents: Sequence[Document]) -> Iterator[Outcome]:
    """Give what installs have made and a version has no more; what was applied last is removed first."""
    wanted = {key_of(each) for each in documents}
    for each in sorted(inventory, key=rank, reverse=True):
        if key_of(each) not in wanted and each["kind"] not in _KEPT:
            yield Outcome(key_of(each), Action.REMOVED, each, None)


def _numbers(version: str) -> tuple[int, ...]:
    found = _NUMBER.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()
