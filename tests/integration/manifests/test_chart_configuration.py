"""The configuration files of a release: each process reads its own, and the schema knows every field."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.manifests.charts import needs_helm, release
from tools.helm.program import CHART

from podium.answers.schedulerfile import SchedulerModel
from podium.api.groups import RESERVED
from podium.cli.commands.scheduler import source
from podium.cli.config.policyfile import PolicyModel
from podium.cli.config.processoptions import policy_of
from podium.controllers.divergence import Write
from podium.controllers.manager import Rules
from podium.controllers.process import ControllerModel, read_rules
from podium.documents.configfile import Strict
from podium.planner.settings import LiveSettings, PreemptionMode, Settings
from podium.rules.policy import Allowance, Policy, RuleLevel

_SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def _on(reserved: str) -> Settings:
    return LiveSettings().engine._replace(reserved=reserved)


def _write(folder: Path, values: dict[str, Any]) -> tuple[Path, Path, Path]:
    """Write the files of the webhook, the controller and the scheduler of a release."""
    made = release({**values, "scheduler": {**values.get("scheduler", {}), "enabled": True}})
    files = (folder / "policy.yaml", folder / "controller.yaml", folder / "scheduler.yaml")
    for process, file in zip(("webhook", "controller", "scheduler"), files, strict=True):
        file.write_text(made["ConfigMap", f"podium-{process}"]["data"][file.name], encoding="utf-8")
    return files


@needs_helm
@pytest.mark.parametrize(
    ("configuration", "more", "want"),
    [
        ({}, {}, LiveSettings(_on(RESERVED), mode=PreemptionMode.OBSERVE, evictions_a_minute=5)),
        (
            {"preemption": "enforce", "evictionsPerMinute": 1_000_000},
            {"reservedNodes": "pool=podium"},
            LiveSettings(_on("pool=podium"), mode=PreemptionMode.ENFORCE, evictions_a_minute=1_000_000),
        ),
        (
            {"preemption": "off", "evictionsPerMinute": None},
            {"reservedNodes": "1"},
            LiveSettings(_on("1"), mode=PreemptionMode.OFF),
        ),
        # YAML's value of `off` without quotes, in the values as in the file.
        (
            {"preemption": False, "gangHoldSeconds": 30},
            {"reservedNodes": None},
            LiveSettings(mode=PreemptionMode.OFF, evictions_a_minute=5, gang_hold_seconds=30),
        ),
    ],
    ids=["as it is installed", "all changed", "what YAML takes for something else", "off, everywhere, more"],
)
def test_the_scheduler_reads_its_file(
    configuration: dict[str, Any], more: dict[str, Any], want: LiveSettings, tmp_path: Path
) -> None:
    """The process's own reader reads the file; the webhook gets the same nodes."""
    policy, _, scheduler = _write(tmp_path, {"scheduler": {"configuration": configuration}, **more})
    assert source(str(scheduler)).read() == want
    assert policy_of(str(policy)).reserved_nodes == bool(want.engine.reserved)


@needs_helm
def test_webhook_and_controller_read_their_files(tmp_path: Path) -> None:
    """Levels, classes, and the number of writers."""
    policy, controller, _ = _write(
        tmp_path,
        {
            "webhook": {
                "configuration": {
                    "levels": {"member-priority": "inherit", "class-allowed": False},
                    "allow": [{"namespaces": ["team-*"], "pods": ["low"]}],
                }
            },
            "controller": {"configuration": {"writers": 4, "writeConditions": "always"}},
        },
    )
    allowed = Allowance(namespaces=("team-*",), pods=("low",))
    assert policy_of(str(policy)) == Policy(
        levels={"member-priority": RuleLevel.INHERIT, "class-allowed": RuleLevel.OFF}, allow=(allowed,)
    )
    assert read_rules(str(controller)) == Rules(write=Write.ALWAYS, writers=4)


@needs_helm
def test_the_files_of_the_defaults_are_the_defaults_of_the_processes(tmp_path: Path) -> None:
    """Webhook and controller behave as without a file."""
    policy, controller, _ = _write(tmp_path, {})
    assert policy_of(str(policy)) == policy_of(None)
    assert read_rules(str(controller)) == Rules()


@pytest.mark.parametrize(
    ("process", "model"),
    [("webhook", PolicyModel), ("controller", ControllerModel), ("scheduler", SchedulerModel)],
)
def test_the_schema_knows_the_fields_of_a_file(process: str, model: type[Strict]) -> None:
    """With the same words; reservedNodes is one value of both files."""
    documented = _SCHEMA["properties"][process]["properties"]["configuration"]["properties"]
    assert documented.keys() == model.model_fields.keys() - {"apiVersion", "kind", "reservedNodes"}
    schema = model.model_json_schema()
    for name, field in documented.items():
        assert _words(field, _SCHEMA) == _words(schema["properties"][name], schema), name


def _words(about: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """Return the words that may occur somewhere below a place of a schema."""
    if "$ref" in about:
        places = schema.get("definitions") or schema["$defs"]
        return _words(places[about["$ref"].rpartition("/")[2]], schema)
    found = {each for each in about.get("enum", ()) if isinstance(each, str)}
    return found.union(*(_words(each, schema) for each in about.values() if isinstance(each, dict)))
