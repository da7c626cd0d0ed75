"""The configuration in docs/scheduler-reference.md is complete, and the default."""

import re
from pathlib import Path

import yaml

from podium.answers.schedulerfile import SchedulerModel
from podium.planner.settings import FIELDS, LiveSettings

PAGE = Path(__file__).parents[4].joinpath("docs", "scheduler-reference.md").read_text(encoding="utf-8")


def test_the_configuration_is_complete_and_the_default() -> None:
    (block,) = re.findall(r"```yaml\n(apiVersion: config\.podium\.dev/v1\n.*?)```", PAGE, re.DOTALL)
    # A YAML 1.1 reader makes booleans of no value in it.
    document = yaml.safe_load(block)
    assert set(document) == set(SchedulerModel.model_fields)
    assert set(document) - {"apiVersion", "kind"} == set(FIELDS)
    assert SchedulerModel.model_validate(document).settings() == LiveSettings()
