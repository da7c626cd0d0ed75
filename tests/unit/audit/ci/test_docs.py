"""docs/ci.md and examples/ci: fields are documented, and recipes work as described."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.audit.repository import EXAMPLE, ROOT, add_mistake, checkout
from tests.support.shell import run

from podium.cli.config.auditfile import AuditModel, IgnoreModel

DOCS = ROOT.joinpath("docs", "ci.md").read_text("utf-8")
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
PRE_COMMIT = yaml.safe_load((EXAMPLE / "pre-commit-config.yaml").read_text("utf-8"))

# pre-commit's keys of a hook (pre-commit.com, "Creating new hooks") that ours may use.
HOOK_KEYS = {"id", "name", "entry", "language", "files", "types_or", "pass_filenames", "description", "args"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return checkout(tmp_path / "repository")


def test_every_field_of_the_configuration_is_documented() -> None:
    """The example has all fields and the kind; the table has all but apiVersion and kind."""
    section = DOCS.partition("## The configuration\n")[2].partition("\n##")[0]
    written = re.match(r"\n(    .*\n)+", section)
    assert written is not None
    document = yaml.safe_load(written[0])
    model = AuditModel.model_validate({**document, "ignores": [_dated(each) for each in document["ignores"]]})
    assert set(document) == set(AuditModel.model_fields)
    assert set(document["ignores"][0]) == set(IgnoreModel.model_fields)
    assert model.ignores[0].reason
    rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert rows == ["severities", *IgnoreModel.model_fields]


def _dated(ignore: dict[str, Any]) -> dict[str, Any]:
    """Return an ignore with its day as text: PyYAML reads it as a date, our reader does not."""
    return {**ignore, "expires": str(ignore["expires"])}


def test_the_baseline_in_the_example_is_of_the_example(repository: Path) -> None:
    """The example equals the output of the first command."""
    done = run("podium audit -f deploy --config audit.yaml -o json --fail-on never", repository)
    assert json.loads(done.stdout) == json.loads((repository / "baseline.json").read_text("utf-8"))


def test_the_hook_is_one() -> None:
    """The hook has the fields that pre-commit requires, and the example names it."""
    (hook,) = HOOKS
    assert {"id", "name", "entry", "language"} <= set(hook) <= HOOK_KEYS
    assert re.search(hook["files"], "deploy/train.yaml")
    assert not re.search(hook["files"], "README.md")
    (asked,) = PRE_COMMIT["repos"][0]["hooks"]
    assert asked["id"] == hook["id"]


def test_the_hook_fails_on_what_is_new_alone(repository: Path) -> None:
    """The hook runs without file names, in the repository's folder."""
    (hook,) = HOOKS
    (asked,) = PRE_COMMIT["repos"][0]["hooks"]
    command = [*shlex.split(hook["entry"]), *asked["args"]]
    assert hook["pass_filenames"] is False
    assert run(command, repository).returncode == 0
    add_mistake(repository)
    assert run(command, repository).returncode == 3


def test_the_hook_without_arguments_reads_the_repository_and_no_cluster(repository: Path) -> None:
    """Without the variable, a kubeconfig of the user would decide what is audited."""
    (hook,) = HOOKS
    done = run(shlex.join([*shlex.split(hook["entry"]), *hook["args"]]), repository)
    assert "from the current folder" in done.stdout
