"""JSON and YAML of `podium whatif` have the documented keys and the same contents."""

import json

import pytest
import yaml
from tests.support import whatif as sample
from tests.support.render.sample import HOSTILE

from podium.answers.whatifreport import WhatIf
from podium.cli.render.data import as_json, as_text, whatif_document

KEYS = [
    "apiVersion",
    "kind",
    "semantics",
    "outcome",
    "message",
    "minimalPriority",
    "harm",
    "topology",
    "placements",
    "victims",
    "spared",
    "nodes",
    "findings",
    "workloads",
    "notRead",
    "approximation",
    "replicas",
]
UNIT = ["kind", "namespace", "name", "priority", "pods", "violatesBudget", "reason"]
REPORTS = {"costly": sample.costly(HOSTILE), "fits": sample.fits(), "hopeless": sample.hopeless()}


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_json_is_the_contract(report: WhatIf) -> None:
    """The keys, in order, are those that other programs rely on, for each outcome."""
    document = json.loads(as_json(whatif_document(report)))
    assert list(document) == KEYS
    assert (document["apiVersion"], document["kind"]) == ("cli.podium.dev/v1", "WhatIfReport")
    for unit in document["victims"] + document["spared"]:
        assert list(unit) == UNIT
        assert all(list(pod) == ["name", "node"] for pod in unit["pods"])
    assert all(list(placed) == ["pod", "node"] for placed in document["placements"])
    assert all(list(node) == ["reason", "count", "examples"] for node in document["nodes"])
    assert all(
        list(finding) == ["rule", "severity", "object", "field", "message", "fix", "fingerprint"]
        for finding in document["findings"]
    )


def test_values_are_the_plans() -> None:
    """Names are exact, absent values are null, and a violated budget is a boolean."""
    document = json.loads(as_json(whatif_document(sample.costly(HOSTILE))))
    assert document["victims"][0]["name"] == HOSTILE
    assert document["victims"][0]["violatesBudget"] is True
    assert document["outcome"] == "FitsAfterPreemption"
    assert document["harm"] == {
        "violations": 4,
        "levels": [{"priority": 100, "units": 1, "pods": 4}, {"priority": 0, "units": 1, "pods": 1}],
        "acceleratorSeconds": 45_000,
        "acceleratorSecondsSaved": 0,
    }
    free = json.loads(as_json(whatif_document(sample.fits())))
    assert (free["minimalPriority"], free["harm"]) == (None, None)


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_yaml_is_the_same_document(report: WhatIf) -> None:
    """YAML has the contents of JSON, hostile names included."""
    document = whatif_document(report)
    assert yaml.safe_load(as_text(document, "yaml")) == json.loads(as_json(document))
