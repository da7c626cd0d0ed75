"""SARIF: the published schema, and the fields that code scanning relies on."""

import json
from collections import Counter
from pathlib import Path, PureWindowsPath
from typing import Any

import jsonschema
import pytest
from tests.support.render import sample

from podium.answers.audits.report import AuditReport
from podium.cli.render import formats
from podium.cli.render.formats import FINGERPRINT, file_uri, render

SCHEMA = json.loads(
    Path(__file__).with_name("schemas").joinpath("sarif-schema-2.1.0.json").read_text("utf-8")
)
REPORTS = {
    "sick": sample.sick(),
    "clean": sample.clean(),
    "large": sample.large(60),
    "triaged": sample.triaged(),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_passes_the_published_schema(report: AuditReport) -> None:
    """Every report is valid SARIF 2.1.0, including the formats of URIs and times."""
    validator = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    assert [error.message for error in validator.iter_errors(_log(report))] == []


def test_rules_carry_their_help() -> None:
    """Every selected rule is described, also rules without findings."""
    rules = _run(sample.sick())["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in sample.RULES]
    for rule, defined in zip(rules, sample.RULES, strict=True):
        assert rule["shortDescription"]["text"] == defined.title
        assert rule["fullDescription"]["text"] == defined.why
        assert defined.source in rule["help"]["text"]


def test_results_point_at_their_rule_file_and_object() -> None:
    """A result has its rule's id and index, its object, and file and line if known."""
    report = sample.sick()
    run = _run(report)
    for result, finding in zip(run["results"], report.findings, strict=True):
        assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == finding.rule
        assert result["partialFingerprints"] == {FINGERPRINT: finding.fingerprint}
        assert finding.fix.partition(sample.HOSTILE)[0] in result["message"]["text"]
        assert ("physicalLocation" in result["locations"][0]) == (sample.place(finding) is not None)
    physical = run["results"][0]["locations"][0]["physicalLocation"]
    assert physical == {
        "artifactLocation": {"uri": "dumps/week%207%2Ca%3Ab%25.json"},
        "region": {"startLine": 12},
    }
    assert run["results"][8]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "dumps/week%207%2Ca%3Ab%25.json"}
    }
    logical = [
        result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for result in run["results"]
    ]
    assert logical[0] == "team-a/PodGroup/train"
    assert logical[-1] == "PriorityClass/bronze"


def test_levels_are_the_severities() -> None:
    """Error, warning and info become error, warning and note."""
    levels = Counter(result["level"] for result in _run(sample.sick())["results"])
    assert levels == {"error": 9, "warning": 1, "note": 1}


def test_findings_that_do_not_count_have_a_state() -> None:
    """New and known findings have their baseline state, ignored ones a reason; fixed ones are left out."""
    report = sample.triaged()
    results = _run(report)["results"]
    assert Counter(result.get("baselineState") for result in results) == {"new": 1, "unchanged": 8, None: 2}
    suppressed = [result["suppressions"][0] for result in results if "suppressions" in result]
    assert [each["justification"] for each in suppressed][1:] == ["for ever"]
    assert {(each["kind"], each["status"]) for each in suppressed} == {("external", "accepted")}
    prints = {result["partialFingerprints"][FINGERPRINT] for result in results}
    assert prints.isdisjoint(finding.fingerprint for finding in report.gone)
    assert not any("baselineState" in result for result in _run(sample.sick())["results"])


def test_says_what_was_not_checked() -> None:
    """A kind that could not be read is a notification of the run."""
    texts = [
        notification["message"]["text"]
        for notification in _run(sample.sick())["invocations"][0]["toolExecutionNotifications"]
    ]
    assert texts[1] == ("Node was not checked: forbidden: list nodes (rules: budget-blocks)")


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("cluster.json", "cluster.json"),
        ("./a b/c.json", "a%20b/c.json"),
        ("../up.json", "../up.json"),
        ("/var/tmp/x.json", "file:///var/tmp/x.json"),
        ("a:b#c?.json", "a%3Ab%23c%3F.json"),
        ("caf\u00e9.json", "caf%C3%A9.json"),
        ("raw\udcff.json", "raw%FF.json"),
    ],
)
def test_file_becomes_a_uri(path: str, uri: str) -> None:
    """Paths stay relative and are escaped, also bytes that are not text."""
    assert file_uri(path) == uri


@pytest.mark.parametrize(
    ("path", "uri"),
    [("deploy\\a b.yaml", "deploy/a%20b.yaml"), ("C:\\deploy\\a.yaml", "file:///C:/deploy/a.yaml")],
)
def test_a_path_of_windows_becomes_a_uri(path: str, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PurePath", PureWindowsPath)
    assert file_uri(path) == uri


def _log(report: AuditReport) -> Any:
    return json.loads(render(report, "sarif", sample.context()))


def _run(report: AuditReport) -> Any:
    return _log(report)["runs"][0]
