"""A user's repository with the files of examples/ci, and a mistake to commit into it."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "ci"
# A manifest with a class that does not exist: a new error.
_MISTAKE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: mistake, namespace: research}
spec: {template: {spec: {priorityClassName: reserch, containers: [{name: main}]}}}
"""


def checkout(folder: Path) -> Path:
    """Return a repository in a new folder, as in the recipes."""
    return Path(shutil.copytree(EXAMPLE, folder))


def add_mistake(repository: Path) -> None:
    """Add a manifest with a finding that is not in the baseline."""
    (repository / "deploy" / "mistake.yaml").write_text(_MISTAKE, "utf-8")
