"""The worked examples of CONTRIBUTING.md run, and its targets exist."""

import re
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support import expand as files
from tests.support.audit.builders import cluster, findings, priority_class
from tests.support.docs.pages import ROOT

from podium.answers.admission import makes_pods
from podium.answers.expansion import added
from podium.api.podkinds import custom
from podium.api.podkinds import table as podkinds_table
from podium.api.reads import Kind, Read
from podium.audit import table
from podium.audit.table import AuditCheck
from podium.cli import main

_TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def _example(section: str) -> dict[str, Any]:
    """Return the names that the first Python block of a section defines."""
    block = re.search(
        r"^```python\n(.*?)^```", _TEXT.partition(f"\n## {section}\n")[2], re.MULTILINE | re.DOTALL
    )
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    return names


def test_the_rule_of_the_page_finds_a_short_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = _example("Add an audit rule")
    rule = names["CLASS_SHORT_NAME"]
    monkeypatch.setattr(
        "podium.answers.audits.run.CHECKS", (*table.CHECKS, AuditCheck(rule, names["class_short_name"]))
    )
    monkeypatch.setattr("podium.audit.table.RULES", (*table.RULES, rule), raising=False)
    found = findings(rule.id, cluster(priority_class("a", 1), priority_class("gold", 2)))
    assert [each.object.name for each in found] == ["a"]


def test_the_kind_of_the_page_is_planned_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row alone is enough for `whatif --add` and the rules."""
    row = _example("Add a kind that creates pods")["KIND"]
    monkeypatch.setitem(custom._ROWS, row.api_kind, row)
    monkeypatch.setitem(podkinds_table.OWNER_KINDS, row.api_kind, row)
    read = Read(Kind.OWNER, row.type, row.plural, row.type.neutral)
    monkeypatch.setitem(added._READS, row.api_kind, read)
    spec = {"workers": {"replicas": 2, "template": files.template()}}
    simulation = files.made(row.api_version, row.kind, "flow", spec)
    (label,) = row.groups
    created = files.pods(files.add(files.cluster(), simulation))
    assert {name: pod.metadata.labels for name, pod in created.items()} == {
        f"flow-worker-{index}": {label.key: "flow"} for index in range(2)
    }
    assert makes_pods(simulation)
    paused = files.made(row.api_version, row.kind, "flow", {**spec, "paused": True})
    (problem,) = files.add(files.cluster(), paused, files.pod()).unplanned.values()
    assert "spec.paused: it is suspended" in problem


def test_the_command_of_the_page_runs() -> None:
    """The command has the exit codes of all commands."""
    command = _example("Add a command")["command"]
    assert CliRunner().invoke(command, ["train"]).stdout == "train: 5 characters\n"
    assert CliRunner().invoke(command, ["x" * 64]).exit_code == main.EXIT_FINDINGS


def test_every_target_of_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for name in ("AGENTS.md", "CONTRIBUTING.md", "RELEASE.md"):
        named = " ".join(re.findall(r"`make ([a-z0-9 -]+)`", (ROOT / name).read_text("utf-8"))).split()
        assert named, name
        assert set(named) <= targets, name


def test_each_workflow_runs_make_targets_and_pinned_actions() -> None:
    """A step runs git or a make target; targets are spelled out for Windows, which has no make.

    Signing and publishing have no target: only a release can do them.
    """
    recipes = set(re.findall(r"^\t\$\(PYTHON\) (.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yaml")):
        text = path.read_text("utf-8")
        for used in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), used
        programs = ("git ", "cosign ", "helm push ", "gh ") if path.name == "release.yaml" else ("git ",)
        for line in re.findall(r"run: (.*)", text):
            called = line.removeprefix("python ") in recipes or _targets(line) <= targets
            assert called or line.startswith(programs), line
            # A value in braces would be pasted into the script: it goes through the environment.
            assert "${{" not in line


def _targets(line: str) -> set[str]:
    """Return the targets of a command of make, without variables and the redirection of its output."""
    words = line.removeprefix("make ").partition(" >> ")[0].split()
    return {word for word in words if not re.fullmatch(r"[A-Z]+=\w+", word)}
