"""Where Podium's own files that are not Python are found: the one function that knows.

A checkout keeps them at its root, where people read and change them; a wheel carries the same folders
inside the package (force-include in pyproject.toml). The checkout comes first, so an edited manifest is the
one used.
"""

from pathlib import Path
from typing import Literal

from podium.errors import PodiumError

# What a caller asks for, and where a checkout keeps it.
_CHECKOUT = {"manifests": "manifests", "controlplane": "tools/controlplane"}


def folder(name: Literal["manifests", "controlplane"]) -> Path:
    """The folder of package data called `name`; PodiumError when this installation has none."""
    here = Path(__file__).resolve().parent
    candidates = (here.parents[1] / _CHECKOUT[name], here / "data" / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise PodiumError(
        f"{candidates[1]} is missing: this installation is incomplete, install podium-k8s again"
    )
