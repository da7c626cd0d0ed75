"""The user's folders (XDG base directories): what is built is a cache, what runs is state."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Built control planes: `$XDG_CACHE_HOME/podium/controlplane`."""
    return _base(environ, "XDG_CACHE_HOME", ".cache") / "podium" / "controlplane"


def clusters(environ: Mapping[str, str] = os.environ) -> Path:
    """Running clusters, a folder each: `$XDG_STATE_HOME/podium/clusters`."""
    return _base(environ, "XDG_STATE_HOME", ".local/state") / "podium" / "clusters"


def _base(environ: Mapping[str, str], variable: str, default: str) -> Path:
    path = Path(environ.get(variable, ""))
    # The XDG specification has relative paths ignored.
    return path if path.is_absolute() else Path.home() / default
