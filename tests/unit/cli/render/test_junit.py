"""JUnit: the published schema, and the counts that CI servers show."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from tests.support.render import sample

from podium.answers.audits.report import AuditReport
from podium.api.findings import ObjectRef
from podium.cli.render.formats import render

SCHEMA = xmlschema.XMLSchema(str(Path(__file__).with_name("schemas") / "junit-10.xsd"))
REPORTS = {
    "sick": sample.sick(),
    "clean": sample.clean(),
    "large": sample.large(60),
    "triaged": sample.triaged(),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_passes_the_published_schema(report: AuditReport) -> None:
    """Every report is valid by Jenkins's published schema."""
    SCHEMA.validate(render(report, "junit", sample.context()))


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_counts_are_what_stands_there(report: AuditReport) -> None:
    """The totals equal the cases, and every finding is one failure."""
    root = _root(report)
    assert len(root.findall(".//failure")) == int(root.attrib["failures"]) == len(report.findings)
    assert len(root.findall(".//testcase")) == int(root.attrib["tests"])
    for suite in root.findall("testsuite"):
        counts = {"tests": "testcase", "failures": ".//failure", "skipped": ".//skipped"}
        assert {name: int(suite.attrib[name]) for name in counts} == {
            name: len(suite.findall(path)) for name, path in counts.items()
        }


def test_every_rule_is_a_suite() -> None:
    """A clean rule passes, and a rule that could not run is skipped with its reason."""
    suites = {suite.attrib["name"]: suite for suite in _root(sample.sick()).findall("testsuite")}
    assert set(suites) == {rule.id for rule in sample.RULES}
    assert list(suites[sample.CLEAN.id].iter("failure")) == []
    assert [case.attrib["name"] for case in suites[sample.CLEAN.id].iter("testcase")] == [sample.CLEAN.title]
    skipped = suites[sample.BUDGETS.id].find("testcase/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "Node: forbidden: list nodes"


def test_findings_that_do_not_count_are_skipped_with_a_reason() -> None:
    """A known or ignored finding is a case that neither failed nor passed."""
    cases = _root(sample.triaged()).findall("testsuite[@name='divergent-priority']/testcase")
    assert [case.find("failure") is not None for case in cases] == [True] + [False] * 7
    why = [skipped.attrib["message"] for skipped in _root(sample.triaged()).iter("skipped")]
    assert why.count("known: in the baseline audit/baseline.json") == 8
    assert "ignored: for ever" in why


def test_failure_says_what_and_where() -> None:
    """A failure has the severity as its type, and message, fix, file and line as its text."""
    failure = _root(sample.sick()).find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.attrib["type"] == "error"
    assert failure.text.splitlines() == [
        "2 of 8 live pods have another priority than the group's 1000: 0 (train-3, train-4).",
        "Fix: Recreate the pods from a template with class gold.",
        "dumps/week 7,a:b%.json:12",
    ]


@given(st.text(st.characters(exclude_categories=[]), max_size=30))
def test_any_text_is_valid_xml(text: str) -> None:
    """For any message, the file parses and has one failure for it."""
    finding = sample.DIVERGENT.finding(ObjectRef("v1", "Pod", text, text), text, text, text)
    report = AuditReport(summary=sample.clean().summary, findings=[finding], groups=[])
    assert len(_root(report).findall(".//failure")) == 1


def _root(report: AuditReport) -> ET.Element:
    return ET.fromstring(render(report, "junit", sample.context()))
