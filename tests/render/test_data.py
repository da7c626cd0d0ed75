"""JSON and YAML: the contract's shape, and that YAML reads back as the same value."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from tests.render import sample

from podium.cli.render.data import as_json, as_yaml, audit_document
from podium.cli.render.formats import render
from podium.documents.split import split
from podium.report import AuditReport

# Text as msgspec can read it from JSON: anything but half a surrogate pair.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def test_json_is_the_contract() -> None:
    """The envelope, and the keys of findings and groups, are what other programs rely on."""
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


def test_what_does_not_count_is_in_the_contract_too() -> None:
    """Known, ignored and gone findings are written as the others; ignored ones with reason and last day."""
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
    """A written report can be another audit's baseline: it decodes to the values it was written from."""
    (document,) = split(render(report, output, sample.context()).encode(), f"report.{output}")
    assert document.read(AuditReport) == report


def test_yaml_is_the_same_document() -> None:
    """YAML has the contents of JSON, hostile names included."""
    document = audit_document(sample.sick())
    assert yaml.safe_load(as_yaml(document)) == json.loads(as_json(document))


@given(st.dictionaries(TEXT, VALUES, max_size=5))
@example(
    {"a": "", "true": "no", "1": "1e3", "n": "0x1f", "-": "- a", ": ": "#", "~": "null", "\u2028": "\x85"}
)
@example({"a" * 2000: {"b" * 2000: ["c"]}, "d": [{"e" * 1100: 1, "f": 2}]})
@example({"a": [1e16, 1e-7, 1.5e300, -0.0, 5e-324]})
@example({"a": [[], {}, [[1, [2]], {"b": [{"c": None}]}], True]})
def test_yaml_reads_back(value: dict[str, Any]) -> None:
    """PyYAML reads every plain value of a report unchanged from its YAML."""
    # An empty document is written as nothing, which YAML reads as null.
    assert (yaml.safe_load(as_yaml(value)) or {}) == value


@pytest.mark.parametrize(
    "text", ["yes", "No", "on", "OFF", "null", "True", "y", "N", "12", "1.5", "", " a", "a: b"]
)
def test_yaml_quotes_what_is_not_text(text: str) -> None:
    """Text that YAML 1.1 would read as something else is quoted."""
    assert as_yaml({"key": text}) == f'key: "{text}"\n'
