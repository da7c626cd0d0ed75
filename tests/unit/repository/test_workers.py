"""The assignment of tests to workers: whole folders, and long ones first."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.support import workers

ROOT = Path(__file__).parents[3]
_PASSED = re.compile(r"^\[(gw\d)\] \[ *\d+%\] PASSED ((tests/.*)/test_.*)::", re.MULTILINE)


def test_long_folders_are_there() -> None:
    """A renamed folder would start last."""
    assert [name for name in workers._LONG if not (ROOT / name).is_dir()] == []
    assert set(workers._BY_MODULE) < set(workers._LONG)


def test_a_folder_is_one_workers_and_a_long_one_its_first(tmp_path: Path) -> None:
    """A long folder starts first even if it has many files, and is last by name."""
    long, divided = workers._LONG[1], workers._BY_MODULE[0]
    for folder in ("tests/a", "tests/b", "tests/c", long, divided):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("one", "two"):
            text = "def test_x(): pass\ndef test_y(): pass\n"
            (tmp_path / folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    line = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--import-mode=importlib", "--rootdir=."]
    line += ["-p", "tests.support.workers", "--dist", "loadscope", "--no-loadscope-reorder"]
    done = subprocess.run(
        line,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = _PASSED.findall(done.stdout)
    assert len(found) == 20
    ran: dict[str, list[str]] = defaultdict(list)
    for worker, module, folder in found:
        ran[worker].append(module if folder == divided else folder)
    assert set.intersection(*map(set, ran.values())) == set()
    (first,) = [folders[0] for folders in ran.values() if long in folders]
    assert first == long
