"""The session that docs/scheduler.md shows is run as it stands, and its configuration is the default."""

import re
from pathlib import Path

import pytest
import yaml
from tests.fixtures.servers import Server
from tests.ground.test_readme import ROOT, played

from podium.cli.schedulerfile import SchedulerModel
from podium.schedulerplugin.scheduling.settings import FIELDS, LiveSettings

PAGE = (ROOT / "docs" / "scheduler.md").read_text(encoding="utf-8")


def test_the_configuration_is_complete_and_the_default() -> None:
    (block,) = re.findall(r"```yaml\n(apiVersion: config\.podium\.dev/v1\n.*?)```", PAGE, re.DOTALL)
    # A YAML 1.1 reader would make booleans of no value that stands there.
    document = yaml.safe_load(block)
    assert set(document) == set(SchedulerModel.model_fields)
    assert set(document) - {"apiVersion", "kind"} == set(FIELDS)
    assert SchedulerModel.model_validate(document).settings() == LiveSettings()


@pytest.mark.server
def test_the_session_runs(server_137: Server, tmp_path: Path) -> None:
    """What would be evicted is said first, and done once that is wanted."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (session,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    printed = played(session, server_137, tmp_path)
    assert "preemption is only observed" in printed
    assert printed.rindex("job.batch/train condition met") > printed.index("preemption is only observed")
