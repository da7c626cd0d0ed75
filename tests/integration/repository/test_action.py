"""action.yml installs Podium from its own checkout, and audits with it."""

from pathlib import Path

import pytest
from tests.support.audit.action import example_job
from tests.support.audit.repository import checkout


@pytest.mark.checkout
def test_the_action_installs_podium(tmp_path: Path) -> None:
    """The packages are those that pip resolves today, in a new virtual environment."""
    (tmp_path / "runner").mkdir()
    job = example_job(checkout(tmp_path / "repository"), tmp_path / "runner")
    assert job.play(install=True) == 0, job.output
    assert not (tmp_path / "runner" / "podium" / "bin").is_symlink()
