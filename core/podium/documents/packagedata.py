"""The location of Podium's files that are not Python.

A checkout keeps them at its root, where people read and change them. A wheel carries the same folders inside
the package (force-include in pyproject.toml). The checkout comes first, so that an edited manifest is used.
"""

from pathlib import Path
from typing import Literal

from podium.errors import PodiumError

# Folder names, each with its path in a checkout.
_CHECKOUT = {
    "manifests": "manifests",
    "docs": "docs",
}


def folder(name: Literal["manifests", "docs"]) -> Path:
    """Return the folder of package data called `name`. Raises PodiumError if this installation has none."""
    package = Path(__file__).resolve().parents[1]
    candidates = (package.parents[1] / _CHECKOUT[name], package / "data" / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise PodiumError(f"{candidates[1]} is missing. Reinstall podium-k8s")
