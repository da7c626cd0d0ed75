"""action.yml: its steps run as GitHub's runner does, in the repository of examples/ci."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.support.audit.action import ACTION, STEPS, WORKFLOW, Job, example_job
from tests.support.audit.repository import ROOT, add_mistake, checkout

from podium.cli.render.formats import FINGERPRINT


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return checkout(tmp_path / "repository")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "runner"
    folder.mkdir()
    return folder


def test_each_input_is_used_and_each_expression_has_a_value() -> None:
    """Expressions are in `env`, `with` and `if`: in a script they would be pasted as code."""
    text = (ROOT / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    identifiers = {step["id"] for step in STEPS if "id" in step}
    assert set(re.findall(r"steps\.(\w+)\.outputs", text)) == identifiers
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{'0' * 40}"))
    for name, each in ACTION["inputs"].items():
        assert each["description"], name
        assert f"| `{name}` |" in (ROOT / "docs" / "ci.md").read_text("utf-8")


def test_the_workflow_of_the_example_uses_the_action() -> None:
    """It may write comments and security events only."""
    # YAML 1.1 reads `on` as true; GitHub's reader does not.
    assert set(WORKFLOW) == {"name", True, "permissions", "jobs"}
    assert WORKFLOW["permissions"] == {
        "contents": "read",
        "pull-requests": "write",
        "security-events": "write",
    }


def test_the_job_fails_on_new_findings_only(repository: Path, files: Path) -> None:
    """The unchanged repository passes without a comment; a mistake fails with one."""
    unchanged = example_job(repository, files)
    assert unchanged.play() == 0, unchanged.output
    assert unchanged.ran[-1] == "Fail on findings"
    assert (unchanged.output.count("::error"), unchanged.sent) == (0, [])
    shutil.rmtree(files / "podium")
    add_mistake(repository)
    changed = example_job(repository, files)
    assert changed.play() == 3
    assert changed.ran[-1] == "Fail on findings"
    (line,) = [line for line in changed.output.splitlines() if line.startswith("::error")]
    assert line.startswith("::error file=deploy/mistake.yaml,line=4,title=template-class-missing::")
    body = f"-F body=@{files}/podium.md"
    assert changed.sent == [f"api --silent repos/example/manifests/issues/7/comments {body}"]


def test_a_comment_is_edited_when_the_findings_are_gone(repository: Path, files: Path) -> None:
    job = example_job(repository, files)
    (files / "ids.txt").write_text("11\n12\n")
    assert job.play() == 0, job.output
    (call,) = job.sent
    assert call.startswith("api --silent --method PATCH repos/example/manifests/issues/comments/11 ")


def test_the_summary_and_the_comment_have_the_report_as_code(repository: Path, files: Path) -> None:
    """No line of a manifest is Markdown, and a long report is cut to the length of a comment."""
    add_mistake(repository)
    job = example_job(repository, files)
    job.play()
    text = (files / "podium.md").read_text("utf-8")
    lines = text.removeprefix("<!-- podium audit -->\n### Podium audit\n\n").splitlines()
    assert [line for line in lines if not line.startswith("    ")] == []
    assert "template-class-missing" in text
    assert (files / "summary.md").read_text("utf-8") == text
    (files / "podium.txt").write_text("ä" * 90 + "\n" * 90_000, "utf-8")
    assert job.run(next(step for step in STEPS if step.get("name") == "Write the summary")) == 0
    text = (files / "podium.md").read_text("utf-8")
    assert text.endswith("The report is cut.\n")
    assert len(text) < 65_536


def test_the_upload_has_all_findings_that_are_not_ignored(repository: Path, files: Path) -> None:
    """Known findings are uploaded too, with their places: code scanning tracks findings itself."""
    add_mistake(repository)
    job = example_job(repository, files)
    job.play()
    assert "github/codeql-action/upload-sarif" in job.ran
    upload = next(step for step in STEPS if "upload-sarif" in step.get("uses", ""))
    log = json.loads(Path(job.value(upload["with"]["sarif_file"])).read_text("utf-8"))
    results = log["runs"][0]["results"]
    places = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results]
    assert sorted(places) == ["deploy/mistake.yaml", "deploy/train.yaml"]
    assert all(FINGERPRINT in each["partialFingerprints"] for each in results)


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 3), ("error", 0), ("never", 0)])
def test_the_inputs_choose_paths_severity_and_kubernetes(
    repository: Path, files: Path, fail_on: str, code: int
) -> None:
    """The finding is a warning. A path has a space, and another one is a subfolder."""
    add_mistake(repository)
    (repository / "my jobs" / "nightly").mkdir(parents=True)
    shutil.move(repository / "deploy" / "mistake.yaml", repository / "my jobs" / "nightly")
    paths = "deploy/classes.yaml\n\nmy jobs\n"
    job = Job(repository, files, paths=paths, kubernetes="1.36", **{"fail-on": fail_on})
    assert job.play() == code, job.output
    assert "::warning file=my jobs/nightly/mistake.yaml," in job.output
    assert "Kubernetes 1.36: " in (files / "podium.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("context", "value", "skipped"),
    [
        ("inputs.comment", "false", {"Comment on the pull request"}),
        ("inputs.code-scanning", "false", {"github/codeql-action/upload-sarif"}),
        ("github.event_name", "push", {"Comment on the pull request"}),
        (
            "github.event.pull_request.head.repo.fork",
            True,
            {"Comment on the pull request", "github/codeql-action/upload-sarif"},
        ),
    ],
)
def test_steps_are_left_out(
    repository: Path, files: Path, context: str, value: object, skipped: set[str]
) -> None:
    """The inputs turn them off, and the token of a fork may do neither."""
    job = example_job(repository, files)
    job.contexts[context] = value
    assert job.play() == 0, job.output
    names = {step.get("name") or step["uses"].partition("@")[0] for step in STEPS}
    assert names - set(job.ran) == skipped | {"Install Podium"}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"paths": "\n"}, "::error::The input paths is empty."),
        ({"paths": "absent"}, "absent"),
        ({"fail-on": "all"}, "all"),
    ],
    ids=["no path", "absent path", "unknown severity"],
)
def test_an_audit_that_fails_ends_the_job_at_once(
    repository: Path, files: Path, inputs: dict[str, str], message: str
) -> None:
    job = Job(repository, files, **inputs)
    assert job.play() in (1, 2)
    assert job.ran[-1] == "Audit"
    assert message in job.output
    assert job.sent == []
