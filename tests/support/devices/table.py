"""Upstream's table of cases for the allocator, run in a copy of its module.

The cases are in an internal package, so a test in a copy of the module runs them and records each call.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.devices.recording import Case
from tools.devcluster.controlplane import gobuild
from tools.devices.program import FOLDER, WITNESSES

_MODULE = "k8s.io/dynamic-resource-allocation"
_PACKAGE = "structured/internal/incubating"
_RECORDER = FOLDER / "table" / "record_test.go"


def cases(minor: str) -> list[Case]:
    """Return the cases of a minor's table, with upstream's answers. A test that fails is an error."""
    source = WITNESSES[minor].source(_MODULE)
    with tempfile.TemporaryDirectory() as folder:
        # The folder in Go's cache may not be written to.
        module = Path(folder) / "module"
        shutil.copytree(source, module, copy_function=shutil.copyfile)
        subprocess.run(["chmod", "-R", "u+w", module], check=True)
        shutil.copyfile(_RECORDER, module / _PACKAGE / _RECORDER.name)
        output = Path(folder) / "output"
        done = subprocess.run(
            [_go(module), "test", "-count=1", "-run=^TestRecord$", f"./{_PACKAGE}"],
            cwd=module,
            env={**os.environ, "GOTOOLCHAIN": "local", "RECORD": str(output)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
        lines = output.read_text(encoding="utf-8").splitlines()
    return [_named(json.loads(line)) for line in lines]


def _named(case: Case) -> Case:
    """Return a case with the name of its test in upstream's table, and with its sets in order."""
    sets = {
        kind: sorted(devices, key=lambda device: [*map(str, device.values())])
        for kind, devices in case["allocated"].items()
    }
    return {**case, "name": case["name"].removeprefix("TestRecord/"), "allocated": sets}


def _go(module: Path) -> Path:
    return gobuild.find_go(module, os.environ, lambda line: print(line, file=sys.stderr))  # noqa: T201
