"""The user's folders (XDG base directories): built programs are cache, running clusters are state."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of built control planes: `$XDG_CACHE_HOME/podium/controlplane`."""
    return _base(environ, "XDG_CACHE_HOME", ".cache") / "podium" / "controlplane"


def clusters(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of running clusters, one folder each: `$XDG_STATE_HOME/podium/clusters`."""
    return _base(environ, "XDG_STATE_HOME", ".local/state") / "podium" / "clusters"


def _base(environ: Mapping[str, str], variable: str, default: str) -> Path:
    path = Path(environ.get(variable, ""))
    # The XDG specification says to ignore relative paths.
    return path if path.is_absolute() else Path.home() / default
