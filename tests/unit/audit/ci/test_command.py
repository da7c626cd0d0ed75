"""`podium audit` with a baseline, a configuration or two inputs, from its arguments to its exit code."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.calling import Podium

from podium.cli.render.formats import FORMATS

CLASSES = ("gold", "silver")
NOW = datetime.now(UTC).date()
CONFIG = {"apiVersion": "config.podium.dev/v1", "kind": "AuditConfiguration"}


def job(name: str, class_name: str) -> dict[str, Any]:
    """Make a Job whose pods name a class."""
    template = {"spec": {"priorityClassName": class_name, "containers": [{"name": "main"}]}}
    metadata = {"name": name, "namespace": "team-a"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def cluster(name: str, *jobs: dict[str, Any]) -> str:
    """Write a file with a class and Jobs."""
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}}
    return write(name, {"apiVersion": "v1", "kind": "List", "items": [gold, *jobs]})


def write(name: str, document: Any) -> str:
    Path(name).write_text(json.dumps(document), "utf-8")
    return name


def config(**fields: Any) -> str:
    return write("audit.yaml", CONFIG | fields)


def ignore(**fields: Any) -> dict[str, Any]:
    return {"rule": "template-class-missing", "reason": "agreed"} | fields


def names(found: list[dict[str, Any]]) -> list[str]:
    return [finding["object"]["name"] for finding in found]


OLD = (job("a", "bronze"), job("b", "bronze"))
NEW = (job("b", "tin"), job("c", "bronze"))
FAIL = ("--fail-on", "warning")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_only_what_is_new_counts(podium: Podium, output: str) -> None:
    """Compared with an earlier report, a finding with another message is known, a missing one fixed."""
    old, new = cluster("old.json", *OLD), cluster("new.json", *NEW)
    assert podium("-f", old, "-o", output, "--output-file", "baseline").code == 0
    assert podium("-f", old, "--baseline", "baseline", *FAIL).code == 0
    run = podium("-f", new, "--baseline", "baseline", "-o", "json", *FAIL)
    assert run.code == 3
    assert [names(run.json[part]) for part in ("findings", "known", "gone")] == [["c"], ["b"], ["a"]]
    assert run.json["summary"]["warnings"] == 1
    assert run.json["summary"]["baseline"] == {
        "name": "baseline",
        "kubernetes": "1.37",
        "known": 1,
        "gone": 1,
        "notLookedFor": 0,
        "newlyChecked": [],
    }


def test_a_baseline_can_be_written_over_by_its_own_check(podium: Podium) -> None:
    """The baseline is read before the command writes, and then holds the remaining findings."""
    old, less = cluster("old.json", *OLD), cluster("less.json", OLD[0])
    podium("-f", old, "-o", "json", "--output-file", "b.json")
    podium("-f", less, "-o", "json", "--baseline", "b.json", "--output-file", "b.json")
    run = podium("-f", less, "-o", "json", "--baseline", "b.json")
    assert [names(run.json[part]) for part in ("findings", "known", "gone")] == [[], ["a"], []]


@pytest.mark.parametrize("output", FORMATS)
def test_the_exit_code_speaks_of_what_counts_in_every_format(podium: Podium, output: str) -> None:
    """Other listed findings do not change it."""
    old, new = cluster("old.json", *OLD), cluster("new.json", *NEW)
    podium("-f", new, "-o", "json", "--output-file", "baseline.json")
    assert podium("-f", new, "-o", output, "--baseline", "baseline.json", *FAIL).code == 0
    assert podium("--diff", old, new, "-o", output, *FAIL).code == 3
    assert podium("--diff", new, new, "-o", output, *FAIL).code == 0
    ignored = config(ignores=[ignore()])
    assert podium("-f", new, "-o", output, "--config", ignored, *FAIL).code == 0


def test_a_diff_is_an_audit_of_new_against_one_of_old(podium: Podium) -> None:
    """The result equals --baseline with a report on OLD; stderr names the role of each input."""
    old, new = cluster("old.json", *OLD), cluster("new.json", *NEW)
    podium("-f", old, "-o", "json", "--output-file", "baseline.json")
    by_report = podium("-f", new, "--baseline", "baseline.json", "-o", "json").json
    run = podium("--diff", old, new, "-o", "json")
    by_report["summary"]["baseline"]["name"] = old
    assert run.json == by_report
    judged = "Kubernetes 1.37 (assumed, because no node has a version)"
    assert run.stderr.splitlines() == [f"podium: {name}: {judged}" for name in ("old.json", "new.json")]


def test_an_ignored_finding_is_ignored_in_both_states(podium: Podium) -> None:
    """An ignored finding is neither new nor fixed."""
    old, new = cluster("old.json", *OLD), cluster("new.json", *NEW)
    chosen = config(ignores=[ignore(objects=["team-a/b", "team-a/c"])])
    run = podium("--diff", old, new, "--config", chosen, "-o", "json")
    assert [names(run.json[part]) for part in ("findings", "known", "ignored", "gone")] == [
        [],
        [],
        ["b", "c"],
        ["a"],
    ]


def test_each_side_of_a_diff_is_judged_for_its_own_minor(podium: Podium) -> None:
    """A requested version is used for both inputs; the table notes a difference."""
    info = '{"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "server": "v1.%s.0"}\n'
    for minor in ("36", "37"):
        Path(f"{minor}.json").write_text(info % minor + json.dumps(job("a", "gold")), "utf-8")
    assert (
        podium("--diff", "36.json", "37.json", "-o", "json").json["summary"]["baseline"]["kubernetes"]
        == "1.36"
    )
    assert "It is for Kubernetes 1.36." in podium("--diff", "36.json", "37.json").stdout
    assert "It is for" not in podium("--diff", "36.json", "37.json", "--kubernetes", "1.37").stdout


def test_ignores_have_a_last_day(podium: Podium) -> None:
    """Ignores hold until their last day, with their reason in the report; then findings count with a note."""
    new = cluster("new.json", *NEW)
    holding = config(ignores=[ignore(expires=(NOW + timedelta(2)).isoformat())])
    run = podium("-f", new, "--config", holding, "-o", "json", *FAIL)
    assert (run.code, names(run.json["ignored"]), run.json["summary"]["ignored"]) == (0, ["b", "c"], 2)
    assert {each["reason"] for each in run.json["ignored"]} == {"agreed"}
    over = config(ignores=[ignore(expires=(NOW - timedelta(2)).isoformat()), ignore(objects=["nowhere"])])
    run = podium("-f", new, "--config", over, *FAIL)
    assert run.code == 3
    assert "Ignored: 0 findings. 1 ignore expired; their findings count again. 1 ignore matched nothing." in (
        run.stdout
    )


def test_severities_of_ones_own_fail_or_do_not(podium: Podium) -> None:
    """The severities are those of the finding and its rule, in SARIF too."""
    new = cluster("new.json", *NEW)
    assert podium("-f", new).code == 0
    chosen = config(severities={"template-class-missing": "error"})
    assert podium("-f", new, "--config", chosen).code == 3
    (run,) = podium("-f", new, "--config", chosen, "-o", "sarif").json["runs"]
    (rule,) = [each for each in run["tool"]["driver"]["rules"] if each["id"] == "template-class-missing"]
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert {result["level"] for result in run["results"]} == {"error"}


FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"kind": "AdmissionPolicy"}, "kind: Input should be 'AuditConfiguration'"),
    "an unknown field": ({"ignore": []}, "ignore: Extra inputs are not permitted"),
    "an unknown rule": (
        {"severities": {"class-unsed": "info"}},
        "severities: rule 'class-unsed' does not exist. Did you mean class-unused?",
    ),
    "an unknown severity": (
        {"severities": {"class-unused": "fatal"}},
        "severities.class-unused: Input should be 'error', 'warning' or 'info'",
    ),
    "no reason": ({"ignores": [{"rule": "class-unused"}]}, "ignores[0].reason: Field required"),
    "an empty reason": (
        {"ignores": [ignore(reason=" ")]},
        "ignores[0].reason: String should have at least 1",
    ),
    "an ignore of an unknown rule": (
        {"ignores": [ignore(), ignore(rule="x")]},
        "ignores[1].rule: rule 'x' does not exist. docs/rules.md lists all rules.",
    ),
    "a day that never comes": (
        {"ignores": [ignore(expires="2027-02-30")]},
        "ignores[0].expires: '2027-02-30' is not a date, such as 2027-01-31",
    ),
    "a time": (
        {"ignores": [ignore(expires="2027-01-31T00:00:00Z")]},
        "ignores[0].expires: '2027-01-31T00:00:00Z' is not a date",
    ),
    "a number": ({"ignores": [ignore(expires=20270131)]}, "ignores[0].expires: 20270131 is not a date"),
    "objects that are none": (
        {"ignores": [ignore(objects=[])]},
        "ignores[0].objects: List should have at least",
    ),
    "a misspelt part of an ignore": (
        {"ignores": [ignore(object="a")]},
        "ignores[0].object: Extra inputs are not permitted",
    ),
}


@pytest.mark.parametrize(("fields", "says"), FIELDS.values(), ids=list(FIELDS))
def test_a_wrong_configuration_is_one_line(podium: Podium, fields: dict[str, Any], says: str) -> None:
    """The line has file, document, field and the fault; nothing is audited."""
    run = podium("-f", cluster("new.json"), "--config", config(**fields))
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.startswith("podium: audit.yaml, document 1")
    assert says in run.stderr
    assert run.stderr.count("\n") == 1


NO_BASELINE = {
    "missing": (None, "baseline.json: read failed: No such file or directory"),
    "empty": ("", "baseline.json: no Kubernetes object found"),
    "no JSON": ("{", "baseline.json, document 1"),
    "another kind": (json.dumps(job("a", "gold")), "baseline.json: found batch/v1 Job. Give a report of"),
    "two reports": (
        '{"apiVersion": "cli.podium.dev/v1", "kind": "AuditReport"}\n' * 2,
        "baseline.json: found 2 objects. Give a report of `podium audit -o json`",
    ),
    "half a report": (
        '{"apiVersion": "cli.podium.dev/v1", "kind": "AuditReport", "findings": []}',
        "baseline.json, document 1, line 1: object missing required field summary",
    ),
    "another report": (
        '{"apiVersion": "cli.podium.dev/v1", "kind": "PreemptionReport"}',
        "baseline.json: found cli.podium.dev/v1 PreemptionReport. Give a report of",
    ),
}


@pytest.mark.parametrize(("text", "says"), NO_BASELINE.values(), ids=list(NO_BASELINE))
def test_an_invalid_baseline_is_an_error(podium: Podium, text: str | None, says: str) -> None:
    """The command fails with one line, and never counts everything or nothing."""
    if text is not None:
        Path("baseline.json").write_text(text, "utf-8")
    run = podium("-f", cluster("new.json", *NEW), "--baseline", "baseline.json")
    assert (run.code, run.stdout) == (1, "")
    assert says in run.stderr
    assert run.stderr.count("\n") == 1


USAGE = {
    "--diff and -f": ("-f", "new.json", "--diff", "old.json", "new.json"),
    "--diff and a live cluster": ("-A", "--diff", "old.json", "new.json"),
    "--diff and --baseline": ("--baseline", "old.json", "--diff", "old.json", "new.json"),
    "--diff of one": ("--diff", "old.json"),
    "standard input twice": ("--diff", "-", "-"),
    "standard input for two things": ("-f", "-", "--baseline", "-"),
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=list(USAGE))
def test_wrong_usage(podium: Podium, arguments: tuple[str, ...]) -> None:
    """The command refuses options without effect before it reads anything."""
    run = podium(*arguments)
    assert (run.code, run.stdout) == (2, "")


def test_a_broken_half_of_a_diff_is_named(podium: Podium) -> None:
    """Either side fails as -f does."""
    new = cluster("new.json", *NEW)
    for arguments in (("missing.json", new), (new, "missing.json")):
        run = podium("--diff", *arguments)
        assert (run.code, run.stdout) == (1, "")
        assert run.stderr.endswith("podium: missing.json: read failed: No such file or directory\n")
