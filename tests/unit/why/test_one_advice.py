"""The fix of a divergent group is the audit's, in `podium why` and so in the UI."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from podium.cli.main import command

TRAINING = str(Path(__file__).parents[3] / "examples" / "training-1.37.json.gz")
GROUPS = ("team-vision/ablation", "team-speech/nightly-asr", "team-ranking/retrain")


def report(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(command, [*arguments, "-f", TRAINING, "-o", "json"]).stdout)


@pytest.mark.parametrize("name", GROUPS)
def test_why_and_audit_give_one_advice(name: str) -> None:
    """For the reason of the wait and for the priority, and for each pod of the group."""
    namespace, _, group = name.partition("/")
    audit = report("audit", "--select", "pod-priority-differs")
    (fix,) = (
        each["fix"]
        for each in audit["findings"]
        if (each["object"]["namespace"], each["object"]["name"]) == (namespace, group)
    )
    told = report("why", "group", name)
    assert told["priority"]["fix"] == fix
    assert told["waiting"][0]["fix"] == fix
    (divergent,) = (
        each for each in audit["groups"] if (each["namespace"], each["name"]) == (namespace, group)
    )
    pod = report("why", "pod", f"{namespace}/{divergent['divergent'][0]['pod']}")
    assert pod["priority"]["fix"] == fix
