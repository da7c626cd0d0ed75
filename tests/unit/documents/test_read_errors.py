"""The error of a wrong field has file, document, item, line, path, and the fault in JSON's terms."""

from typing import Any

import msgspec
import pytest

from podium.api.core import Node, Pod, PodDisruptionBudget, PriorityClass
from podium.api.v1beta1 import PodGroupV1Beta1
from podium.documents.document import ReadError
from podium.documents.split import split

HEAD = b'{"apiVersion":"v1",\n"kind":"Pod",\n'

CASES: list[tuple[str, bytes, type[msgspec.Struct], str]] = [
    (
        "text for an integer",
        HEAD + b'"spec":{\n"priority":"high"}}',
        Pod,
        "f, document 1, line 4: spec.priority: expected integer or null, got string",
    ),
    (
        "a fraction for an integer",
        HEAD + b'"spec":{"priority":1.5}}',
        Pod,
        "f, document 1, line 3: spec.priority: expected integer or null, got fraction",
    ),
    (
        "a whole number written as a fraction",
        HEAD + b'"spec":{"priority":1000.0}}',
        Pod,
        "f, document 1, line 3: spec.priority: expected integer or null, got fraction",
    ),
    (
        "more than int32",
        HEAD + b'"spec":{"priority":2147483648}}',
        Pod,
        "f, document 1, line 3: spec.priority: expected integer <= 2147483647",
    ),
    (
        "less than int32, in YAML",
        b"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nvalue: -2147483649\n",
        PriorityClass,
        "f, document 1, line 3: value: expected integer >= -2147483648",
    ),
    (
        "more than 64 bits",
        HEAD + b'"spec":{"priority":99999999999999999999}}',
        Pod,
        "f, document 1, line 3: spec.priority: expected integer <= 2147483647",
    ),
    (
        "a list for an object",
        HEAD + b'"spec":[]}',
        Pod,
        "f, document 1, line 3: spec: expected object, got list",
    ),
    (
        "a number that no float holds",
        HEAD + b'"spec":{"overhead":{"cpu":1e400}}}',
        Pod,
        "f, document 1, line 3: spec.overhead[...]: number out of range",
    ),
    (
        "an element",
        HEAD + b'"spec":{"containers":[{},\n{},\n7]}}',
        Pod,
        "f, document 1, line 5: spec.containers[2]: expected object, got integer",
    ),
    (
        "a label is named by its key",
        HEAD + b'"metadata":{"labels":{"a":"b",\n"c.d/e":7}}}',
        Pod,
        "f, document 1, line 4: metadata.labels[c.d/e]: expected string, got integer",
    ),
    (
        "a resource is named by its key",
        HEAD + b'"spec":{"containers":[{"resources":{"requests":{"cpu":1,\n"memory":true}}}]}}',
        Pod,
        (
            "f, document 1, line 4: spec.containers[0].resources.requests[memory]: "
            "expected integer or fraction or string, got boolean"
        ),
    ),
    (
        "a key with a line break stays in one line",
        HEAD + b'"metadata":{"labels":{"a\\nb":1}}}',
        Pod,
        "f, document 1, line 3: metadata.labels[a\\nb]: expected string, got integer",
    ),
    (
        "a missing field",
        HEAD + b'"spec":{"selector":{"matchExpressions":[{"key":"a"}]}}}',
        PodDisruptionBudget,
        "f, document 1, line 3: spec.selector.matchExpressions[0]: object missing required field operator",
    ),
    (
        "in an item of a List",
        (
            b'{"apiVersion":"v1","kind":"List",\n"items":[{"apiVersion":"v1","kind":"Pod"},\n'
            b'{"apiVersion":"v1","kind":"Pod",\n"spec":{"nodeName":5}}]}'
        ),
        Pod,
        "f, document 1, items[1], line 4: spec.nodeName: expected string or null, got integer",
    ),
    (
        "in an item of a typed List",
        b'{"apiVersion":"v1","kind":"NodeList",\n"items":[{},\n{"status":5}]}',
        Node,
        "f, document 1, items[1], line 3: status: expected object or null, got integer",
    ),
    (
        "in a later JSON value",
        HEAD + b'"a":1}\n{"apiVersion":"v1","kind":"Pod",\n"spec":{"nodeName":5}}',
        Pod,
        "f, document 2, line 5: spec.nodeName: expected string or null, got integer",
    ),
    (
        "in YAML",
        b"apiVersion: v1\nkind: Pod\nspec:\n  priority: high\n",
        Pod,
        "f, document 1, line 4: spec.priority: expected integer or null, got string",
    ),
    (
        "in a later YAML document",
        (
            b"a: &x 1\nkind: Pod\napiVersion: v1\n---\nkind: Pod\napiVersion: v1\nmetadata:\n"
            b"  labels:\n    on: yes\n"
        ),
        Pod,
        "f, document 2, line 9: metadata.labels[true]: expected string, got boolean",
    ),
    (
        "in a YAML List",
        b"apiVersion: v1\nkind: PodList\nitems:\n- spec: {}\n- spec:\n    nodeName: 5\n",
        Pod,
        "f, document 1, items[1], line 6: spec.nodeName: expected string or null, got integer",
    ),
    (
        "the string that 1.37 no longer takes",
        b"apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nspec:\n  disruptionMode: Pod\n",
        PodGroupV1Beta1,
        "f, document 1, line 4: spec.disruptionMode: expected object or null, got string",
    ),
]


@pytest.mark.parametrize(
    ("data", "type_", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_field_is_named(data: bytes, type_: type[msgspec.Struct], expected: str) -> None:
    with pytest.raises(ReadError) as refused:
        _ = [document.read(type_) for document in split(data, "f")]
    assert str(refused.value) == expected


@pytest.mark.parametrize("text", ['"a":1e400', '"a":{"b":[1e999]}'])
def test_an_untyped_value_out_of_range(text: str) -> None:
    """An untyped read decodes every field, so it refuses what a typed one skips."""
    (document,) = split(f'{{"apiVersion":"v1","kind":"Pod",{text}}}'.encode(), "f")
    assert document.read(Pod).kind == "Pod"
    with pytest.raises(ReadError, match="number out of range"):
        document.value()


def test_a_command_names_a_field_of_a_document_it_refuses() -> None:
    """An error that a command finds itself has the same place, line and wording."""
    (document,) = split(b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n", "f")
    error: Any = document.error("is not wanted", "metadata.name")
    assert str(error) == "f, document 1, line 4: metadata.name: is not wanted"
