"""Go's formats, and the syntax of names, labels and reasons."""

from collections.abc import Callable

import pytest

from kubecel.goquote import go_quote
from podium.rules import names
from podium.rules.fields import go_json


@pytest.mark.parametrize(
    "text, want",
    [
        ("plain", '"plain"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x7f", r'"\x00\x7f"'),
        ("é 日本", '"é 日本"'),
        ("\u200b\ufeff", r'"\u200b\ufeff"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_go_quote(text: str, want: str) -> None:
    assert go_quote(text) == want


@pytest.mark.parametrize(
    "value, want",
    [
        (None, "null"),
        ([1, "a", {"b": None}], '[1,"a",{"b":null}]'),
        ("<&>", r'"\u003c\u0026\u003e"'),
        ("é\u2028\u2029", r'"é\u2028\u2029"'),
    ],
)
def test_go_json(value: object, want: str) -> None:
    assert go_json(value) == want


@pytest.mark.parametrize(
    "complain, good",
    [
        (names.dns_label, ["a", "a-1", "1", "x" * 63]),
        (names.dns_subdomain, ["a", "a.b-c.1", "x" * 253]),
        (names.object_name_prefix, ["a", "a-", "a.b-"]),
        (names.qualified_name, ["a", "A_.b", "example.com/a", "x" * 63, "x" * 253 + "/" + "y" * 63]),
        (names.label_value, ["", "a", "A_.b", "x" * 63]),
        (names.path_segment, ["a b", "...", ""]),
        (names.condition_reason, ["A", "A_,:b", "a1_"]),
    ],
)
def test_good_texts(complain: Callable[[str], list[str]], good: list[str]) -> None:
    for text in good:
        assert complain(text) == [], text


@pytest.mark.parametrize(
    "complain, text, ends",
    [
        (names.dns_label, "a.b", ["must not contain dots"]),
        (names.dns_label, "x" * 64, ["must be no more than 63 bytes"]),
        (names.dns_subdomain, "x" * 254, ["must be no more than 253 bytes"]),
        (names.object_name, "x" * 254, ["must be no more than 253 characters"]),
        (
            names.label_value,
            "é" * 32,
            ["must be no more than 63 bytes", "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"],
        ),
        (names.qualified_name, "", ["name part must be non-empty", "[A-Za-z0-9]')"]),
        (names.qualified_name, "/a", ["prefix part must be non-empty"]),
        (names.qualified_name, "a/", ["name part must be non-empty", "[A-Za-z0-9]')"]),
        (names.qualified_name, "a/b/c", ["'/' (e.g. 'example.com/MyName')"]),
        (names.qualified_name, "x" * 64, ["name part must be no more than 63 bytes"]),
        (names.path_segment, "..", ["may not be '..'"]),
        (names.path_segment, "a/%", ["may not contain '/'", "may not contain '%'"]),
        (names.dns_subdomain, "a\n", ["[a-z0-9])?)*')"]),
    ],
)
def test_complaints(complain: Callable[[str], list[str]], text: str, ends: list[str]) -> None:
    complaints = complain(text)
    assert len(complaints) == len(ends)
    for complaint, end in zip(complaints, ends, strict=True):
        assert complaint.endswith(end)
