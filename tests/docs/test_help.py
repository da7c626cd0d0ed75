"""The examples in the help of each command: two a command, and each runs.

Examples that read files run here. Those that need a cluster run in test_pages.py, and those of `podium ui` in
tests/integration/cli/ui/test_docs.py.
"""

import re
import shutil
from pathlib import Path

import pytest
from tests.support.calling import invoke
from tests.support.docs.help import EXAMPLES, OFFLINE, offered
from tests.support.docs.pages import ROOT
from tests.support.shell import run, words

from podium.cli.main import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_two_examples(name: str) -> None:
    """Each example has a line that describes it."""
    examples = EXAMPLES[name]
    assert len(examples) == 2
    assert all(re.search(rf"\bpodium {name}\b", line) for line in examples)
    assert len(offered(name)) == 2


@pytest.mark.parametrize("line", OFFLINE)
def test_an_example_with_files_runs(line: str, tmp_path: Path) -> None:
    """The command exits with 0, or with 3 for findings."""
    for name, source in {
        "cluster.json.gz": "training-1.37.json.gz",
        "cluster-1.36.json.gz": "training-1.36.json.gz",
        "cluster.yaml": "preemption/cluster.yaml",
        "group.yaml": "admit/gang.yaml",
        "groups.yaml": "admit/gang.yaml",
        "urgent.yaml": "preemption/urgent.yaml",
        "records.yaml": "preemption/records.yaml",
        "policy.yaml": "webhook/policy.yaml",
    }.items():
        shutil.copyfile(ROOT / "examples" / source, tmp_path / name)
    if words(line):
        code, stdout, stderr = invoke(words(line), tmp_path)
    else:
        done = run(["bash", "-c", line], tmp_path)
        code, stdout, stderr = done.returncode, done.stdout, done.stderr
    assert code in (0, 3), stdout + stderr
