"""Null entries of maps, which the API server reads as an empty text or as 0."""

import json
from typing import Any

import pytest
import yaml

from podium.api.core import Pod
from podium.documents.document import Document, ReadError
from podium.documents.split import split
from podium.documents.yamledit import without_null_entries

META = {"name": "p", "labels": {"a": None, "b": "c"}, "annotations": {"d": None}}
RESOURCES = {"requests": {"nvidia.com/gpu": None, "cpu": 1}, "limits": None}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": META,
    "spec": {"nodeSelector": None, "containers": [{"name": "main", "resources": RESOURCES}]},
}


def _read(value: Any, form: str) -> Document:
    text = json.dumps(value) if form == "JSON" else yaml.safe_dump(value)
    (document,) = split(text.encode(), "f")
    return document


@pytest.mark.parametrize("form", ["JSON", "YAML"])
def test_null_entries_are_zeros_and_null_fields_are_absent(form: str) -> None:
    document = _read(POD, form)
    pod = document.read(Pod)
    assert (pod.metadata.labels, pod.metadata.annotations) == ({"a": "", "b": "c"}, {"d": ""})
    resources = (pod.spec.containers or [])[0].resources
    assert resources is not None
    assert (resources.requests, resources.limits) == ({"nvidia.com/gpu": "0", "cpu": 1}, None)
    assert document.value()["metadata"]["labels"] == {"a": "", "b": "c"}
    assert document.value()["spec"]["nodeSelector"] is None


@pytest.mark.parametrize("form", ["JSON", "YAML"])
def test_other_nulls_stay_errors(form: str) -> None:
    with pytest.raises(ReadError, match=r"metadata\.ownerReferences\[0\]: expected object, got null"):
        _read({**POD, "metadata": {**META, "ownerReferences": [None]}}, form).read(Pod)


def test_a_value_without_null_entries_stays_the_same() -> None:
    value = {"labels": {"a": "b"}, "x": [{"selector": {"matchLabels": None}}, None], "requests": None}
    assert without_null_entries(value) is value
