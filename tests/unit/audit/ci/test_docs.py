"""docs/ci.md and examples/ci: fields are documented, and recipes work as described."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.shell import run

from podium.cli.config.auditfile import AuditModel, IgnoreModel
from podium.cli.render.formats import FINGERPRINT

ROOT = Path(__file__).parents[4]
DOCS = ROOT.joinpath("docs", "ci.md").read_text("utf-8")
EXAMPLE = ROOT / "examples" / "ci"

WORKFLOW = yaml.safe_load((EXAMPLE / "workflow.yaml").read_text("utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
PRE_COMMIT = yaml.safe_load((EXAMPLE / "pre-commit-config.yaml").read_text("utf-8"))

# pre-commit's keys of a hook (pre-commit.com, "Creating new hooks") that ours may use.
HOOK_KEYS = {"id", "name", "entry", "language", "files", "types_or", "pass_filenames", "description", "args"}
# A manifest with a class that does not exist: a new error.
MISTAKE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: mistake, namespace: research}
spec: {template: {spec: {priorityClassName: reserch, containers: [{name: main}]}}}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a user's repository, as in the recipes."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "repository"))


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


def _steps() -> dict[str, dict[str, Any]]:
    steps = WORKFLOW["jobs"]["audit"]["steps"]
    return {step.get("name") or step["uses"]: step for step in steps}


def _play(name: str, repository: Path) -> "subprocess.CompletedProcess[str]":
    """Run a step as GitHub's runner does: Python directly, any other shell with bash."""
    step = _steps()[name]
    if step.get("shell") == "python":
        return run([sys.executable, "-c", step["run"]], repository)
    return run(["bash", "-eo", "pipefail", "-c", step["run"]], repository)


def test_the_workflow_is_one() -> None:
    """The workflow may write security events only, and every step runs a command or uses an action."""
    # YAML 1.1 reads `on` as true; GitHub's reader does not.
    assert set(WORKFLOW) == {"name", True, "permissions", "jobs"}
    assert WORKFLOW["permissions"] == {"contents": "read", "security-events": "write"}
    (job,) = WORKFLOW["jobs"].values()
    assert set(job) == {"runs-on", "steps"}
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert set(step) <= {"name", "run", "uses", "with", "if", "shell"}
        assert re.fullmatch(r"[\w-]+/[\w/-]+@v\d+", step.get("uses", "a/b@v1"))


def test_the_workflow_fails_on_what_is_new_alone(repository: Path) -> None:
    """The unchanged repository passes; an error is one annotation in its file, and fails."""
    passed = _play("Fail on what is new", repository)
    assert (passed.returncode, passed.stdout.count("::error")) == (0, 0)
    (repository / "deploy" / "mistake.yaml").write_text(MISTAKE, "utf-8")
    failed = _play("Fail on what is new", repository)
    assert failed.returncode == 3
    (line,) = [line for line in failed.stdout.splitlines() if line.startswith("::error")]
    assert line.startswith("::error file=deploy/mistake.yaml,line=4,title=template-class-missing::")


def test_the_workflow_uploads_all_that_is_not_ignored(repository: Path) -> None:
    """Known findings are uploaded too, with their places: code scanning tracks findings itself."""
    (repository / "deploy" / "mistake.yaml").write_text(MISTAKE, "utf-8")
    for name in ("Report all for code scanning", "Leave out what is ignored, which code scanning would show"):
        done = _play(name, repository)
        assert done.returncode == 0, done.stderr
    upload = next(step for step in _steps().values() if "upload-sarif" in step.get("uses", ""))
    log = json.loads((repository / upload["with"]["sarif_file"]).read_text("utf-8"))
    results = log["runs"][0]["results"]
    files = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results]
    assert sorted(files) == ["deploy/mistake.yaml", "deploy/train.yaml"]
    assert all(FINGERPRINT in each["partialFingerprints"] for each in results)


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
    (repository / "deploy" / "mistake.yaml").write_text(MISTAKE, "utf-8")
    assert run(command, repository).returncode == 3


def test_the_hook_without_arguments_reads_the_repository_and_no_cluster(repository: Path) -> None:
    """Without the variable, a kubeconfig of the user would decide what is audited."""
    (hook,) = HOOKS
    done = run(shlex.join([*shlex.split(hook["entry"]), *hook["args"]]), repository)
    assert "from the current folder" in done.stdout
