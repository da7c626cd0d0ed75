"""Modules that Kubernetes 1.38.0-beta.0 requires and the module proxy does not serve.

`k8s.io/apiextensions-api` has the types and the client that 1.37 keeps in apiextensions-apiserver.
`k8s.io/ktesting` is imported by tests only, so an empty module is enough. Once the proxy serves both for the
release, this module and the `replace` lines of v1.38/go.mod go.
"""

import json
import os
import shutil
from pathlib import Path

from tools.devcluster.controlplane.process import capture

from podium.errors import PodiumError

_SOURCE, _MOVED = "k8s.io/apiextensions-apiserver", "k8s.io/apiextensions-api"
_PACKAGES = ("pkg/apis/apiextensions/v1", "pkg/apis/apiextensions/v1beta1", "pkg/client")
# Conversions stay behind, because they need the internal types, but for the variable that others read.
_CONVERSIONS = ("conversion.go", "zz_generated.conversion.go")
_NULL = 'package {}\n\nvar nullLiteral = []byte("null")\n'
_REPLACED = {
    f"{_SOURCE}/pkg": f"{_MOVED}/pkg",
    "sigs.k8s.io/structured-merge-diff/v6": "sigs.k8s.io/structured-merge-diff/v7",
}
_GO = "1.26.0"


def write(module: Path, older: Path, go: Path) -> None:
    """Write the modules into the folder `module`, from the release that the module in `older` pins by hash.

    Raises PodiumError if Go cannot download that release.
    """
    settings = {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    answer = capture(
        [str(go), "-C", str(older), "mod", "download", "-json", _SOURCE], {**os.environ, **settings}
    )
    if answer.returncode:
        raise PodiumError(f"{_SOURCE} cannot be downloaded: {answer.stderr.strip() or answer.stdout.strip()}")
    source = Path(json.loads(answer.stdout)["Dir"])
    _new_module(module / "ktesting", "k8s.io/ktesting")
    moved = module / "apiextensions-api"
    _new_module(moved, _MOVED)
    for package in _PACKAGES:
        for file in sorted((source / package).rglob("*.go")):
            copy, text = moved / file.relative_to(source), file.read_text(encoding="utf-8")
            copy.parent.mkdir(parents=True, exist_ok=True)
            if file.name == _CONVERSIONS[0]:
                copy.write_text(_NULL.format(copy.parent.name), encoding="utf-8")
            elif file.name not in _CONVERSIONS:
                for old, new in _REPLACED.items():
                    text = text.replace(old, new)
                copy.write_text(text, encoding="utf-8")


def _new_module(folder: Path, name: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "go.mod").write_text(f"module {name}\n\ngo {_GO}\n", encoding="utf-8")
