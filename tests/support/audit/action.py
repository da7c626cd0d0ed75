"""The steps of action.yml as GitHub's runner runs them, in a repository of a user."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.support.audit.repository import EXAMPLE, ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
WORKFLOW = yaml.safe_load((EXAMPLE / "workflow.yaml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
_EXPRESSION = re.compile(r"\$\{\{ ([\w.-]+) \}\}")
_CONTEXT = re.compile(r"\b(?:inputs|github|steps|runner)\.[\w.-]+")
# A client of GitHub that answers with the ids in a file, and notes its arguments.
_GH = """\
#!/bin/sh
echo "$*" >> "$RUNNER_TEMP/gh.txt"
case "$*" in *--jq*) cat "$RUNNER_TEMP/ids.txt" ;; esac
"""


class Job:
    """A job that runs the action: `files` is the runner's folder, `contexts` the values of expressions."""

    def __init__(self, repository: Path, files: Path, **inputs: str) -> None:
        self.repository = repository
        self.files = files
        defaults = {name: each["default"] for name, each in ACTION["inputs"].items()}
        assert set(inputs) <= set(defaults)
        self.contexts: dict[str, object] = {
            **{f"inputs.{name}": value for name, value in (defaults | inputs).items()},
            "github.event_name": "pull_request",
            "github.event.number": "7",
            "github.event.pull_request.head.repo.fork": False,
            "github.token": "token",
            "runner.temp": str(files),
            "steps.python.outputs.python-path": sys.executable,
        }
        self.ran: list[str] = []
        self.output = ""
        (files / "ids.txt").write_text("")
        (files / "gh").write_text(_GH)
        (files / "gh").chmod(0o755)

    def play(self, *, install: bool = False) -> int:
        """Run the steps until one fails, and return its exit code; else 0."""
        if not install:
            (self.files / "podium").mkdir()
            (self.files / "podium" / "bin").symlink_to(Path(sys.executable).parent)
        for step in STEPS:
            if not self._wanted(step.get("if", "true")) or (
                step.get("name") == "Install Podium" and not install
            ):
                continue
            self.ran.append(step.get("name") or step["uses"].partition("@")[0])
            if "run" in step and (code := self.run(step)):
                return code
        return 0

    def value(self, text: str) -> str:
        """Return a text with the values of its expressions."""
        return _EXPRESSION.sub(lambda match: str(self.contexts[match[1]]), text)

    def _wanted(self, condition: str) -> bool:
        python = _CONTEXT.sub(lambda match: repr(self.contexts[match[0]]), condition)
        for word, operator in (("&&", "and"), ("||", "or"), ("true", "True")):
            python = re.sub(rf"(?<!['\w]){re.escape(word)}(?!['\w])", operator, python)
        return bool(eval(python, {}))

    def run(self, step: dict[str, Any]) -> int:
        """Run the script of a step, and return its exit code."""
        assert step["shell"] == "bash"
        script = self.files / "script.sh"
        script.write_text(step["run"], "utf-8")
        output = self.files / "output.txt"
        output.write_text("")
        environ = {
            **os.environ,
            **{name: self.value(text) for name, text in step.get("env", {}).items()},
            "PATH": f"{self.files}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_REPOSITORY": "example/manifests",
            "GITHUB_STEP_SUMMARY": str(self.files / "summary.md"),
            "RUNNER_TEMP": str(self.files),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.repository,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        self.output += done.stdout + done.stderr
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.contexts[f"steps.{step['id']}.outputs.{name}"] = value
        return done.returncode

    @property
    def sent(self) -> list[str]:
        """Return the calls of GitHub's API that write."""
        calls = self.files / "gh.txt"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [line for line in lines if "--jq" not in line]


def example_job(repository: Path, files: Path, **inputs: str) -> Job:
    """Return the job of examples/ci/workflow.yaml."""
    (job,) = WORKFLOW["jobs"].values()
    *_, step = job["steps"]
    return Job(repository, files, **step["with"], **inputs)
