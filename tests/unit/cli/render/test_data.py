"""JSON and YAML have the documented shape and the same contents."""

import json

import pytest
import yaml
from tests.support.render import sample

from podium.answers.audits.report import AuditReport
from podium.cli.render.data import as_text, audit_document
from podium.cli.render.formats import render
from podium.documents.split import split


def test_json_is_the_contract() -> None:
    """The keys of the envelope, of findings and of groups are those that other programs rely on."""
    document = json.loads(render(sample.sick(), "json", sample.context()))
    assert list(document) == [
        "apiVersion",
        "kind",
        "summary",
        "findings",
        "groups",
        "known",
        "ignored",
        "gone",
    ]
    assert (document["apiVersion"], document["kind"]) == ("cli.podium.dev/v1", "AuditReport")
    assert {tuple(finding) for finding in document["findings"]} == {
        ("rule", "severity", "object", "field", "message", "fix", "fingerprint")
    }
    assert {tuple(finding["object"]) for finding in document["findings"]} == {
        ("apiVersion", "kind", "namespace", "name")
    }
    assert {tuple(group) for group in document["groups"]} == {
        ("apiVersion", "namespace", "name", "source", "priority", "members", "divergent")
    }
    assert document["findings"][8]["object"]["name"] == sample.HOSTILE


def test_findings_that_do_not_count_are_in_the_contract() -> None:
    """Known, ignored and fixed findings have the usual keys; ignored ones have reason and last day."""
    document = json.loads(render(sample.triaged(), "json", sample.context()))
    keys = ("rule", "severity", "object", "field", "message", "fix", "fingerprint")
    assert {tuple(finding) for finding in document["known"] + document["gone"]} == {keys}
    assert {tuple(finding) for finding in document["ignored"]} == {(*keys, "reason", "expires")}
    assert set(document["summary"]["baseline"]) == {
        "name",
        "kubernetes",
        "known",
        "gone",
        "notLookedFor",
        "newlyChecked",
    }


@pytest.mark.parametrize("report", [sample.sick(), sample.triaged()], ids=["sick", "triaged"])
@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_written_report_reads_back(report: AuditReport, output: str) -> None:
    """A written report is a valid baseline: it decodes to the values it was written from."""
    (document,) = split(render(report, output, sample.context()).encode(), f"report.{output}")
    assert document.read(AuditReport) == report


def test_yaml_is_the_same_document() -> None:
    """YAML has the contents of JSON, hostile names included."""
    document = audit_document(sample.sick())
    assert yaml.safe_load(as_text(document, "yaml")) == json.loads(as_text(document, "json"))
