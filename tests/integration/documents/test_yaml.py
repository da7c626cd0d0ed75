"""YAML is read as kubectl reads it: a table of its answers, and kubectl itself."""

import json
import os
import random
from typing import Any

import pytest
from tests.support.servers import Server

from podium.documents.yamldoc import MAX_ALIASED, YamlError, lines, load_all
from podium.jsontext import MAX_DEPTH

SCALARS: list[tuple[str, Any]] = [
    ("yes", True),
    ("y", True),
    ("On", True),
    ("TRUE", True),
    ("no", False),
    ("N", False),
    ("off", False),
    ("tRUE", "tRUE"),
    ("~", None),
    ("Null", None),
    ("", None),
    ("12", 12),
    ("+12", 12),
    ("-0", 0),
    ("0777", 511),
    ("-017", -15),
    ("0o17", 15),
    ("0x1F", 31),
    ("-0b11", -3),
    ("0b+11", 3),
    ("0b-1_0", -2),
    ("-0b+1", "-0b+1"),
    ("0B+1", "0B+1"),
    ("1_000", 1000),
    ("08", 8),
    ("1e3", 1000),
    ("1.0", 1),
    ("1.5", 1.5),
    (".5", 0.5),
    ("5.", 5),
    ("1e21", 1e21),
    ("1e400", "1e400"),
    ("1" * 500, "1" * 500),
    ("12:30", "12:30"),
    ("2020-01-01", "2020-01-01"),
    ("2020-01-01T10:00:00Z", "2020-01-01T10:00:00Z"),
    ("1.2.3", "1.2.3"),
    ("500m", "500m"),
    ("64Gi", "64Gi"),
    ("=", "="),
    ("<<", "<<"),
    ('"yes"', "yes"),
    ("'12'", "12"),
    ("! 12", "12"),
    ("!!str 12", "12"),
    ("!!int '12'", 12),
    ("!!float 1", 1),
    ("!!timestamp 2020-01-01", "2020-01-01"),
    ("!own 12", "12"),
    ("|\n  12\n", "12\n"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS, ids=[case[0] for case in SCALARS])
def test_a_scalar_is_what_kubectl_takes_it_for(text: str, value: Any) -> None:
    (document,) = load_all(f"a: {text}\n".encode())
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


VALUES: list[tuple[str, str, Any]] = [
    ("keys become text", "{1: a, on: b, 0x10: c}", {"1": "a", "true": "b", "16": "c"}),
    ("an alias is a copy", "a: &x {b: [1]}\nc: *x", {"a": {"b": [1]}, "c": {"b": [1]}}),
    ("an alias may be a key", "a: &x key\n*x : 1", {"a": "key", "key": 1}),
    ("an anchor may be on a key", "&x key: *x", {"key": "key"}),
    ("a later anchor of the same name counts", "a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
    ("merge", "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}),
    (
        "what is written wins over a merge after it",
        "a: &x {b: 1}\nd: {b: 2, <<: *x}",
        {"a": {"b": 1}, "d": {"b": 2}},
    ),
    (
        "the first of several merged wins",
        "- &x {b: 1}\n- &y {b: 2}\n- {<<: [*x, *y]}",
        [{"b": 1}, {"b": 2}, {"b": 1}],
    ),
    ("a quoted << is a key", '{"<<": 1}', {"<<": 1}),
    ("nested", "a:\n- b: 1\n  c:\n  - - d\n", {"a": [{"b": 1, "c": [["d"]]}]}),
    ("as deep as is allowed", "[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
]


@pytest.mark.parametrize(("text", "value"), [case[1:] for case in VALUES], ids=[case[0] for case in VALUES])
def test_a_document_is_its_value(text: str, value: Any) -> None:
    (document,) = load_all(text.encode())
    if value is not None:
        assert document == value


def test_a_copy_of_an_alias_can_be_changed_alone() -> None:
    """Documents share no values: an edit in one place must not change another."""
    (document,) = load_all(b"a: &x {b: {c: 1}}\nd: *x\ne: {<<: *x}")
    document["d"]["b"]["c"] = 2
    document["e"]["b"]["c"] = 3
    assert document["a"] == {"b": {"c": 1}}


_BOMB = (
    "a: &a ["
    + ",".join("x" * 10)
    + "]\n"
    + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
        for before, name in zip("abcdefg", "bcdefgh", strict=True)
    )
)
_DEEP = "".join(
    f"a{step}: &a{step} {'[' * 60}{f'*a{step - 1}' if step else ''}{']' * 60}\n" for step in range(9)
)
REFUSED: list[tuple[str, str, str, int]] = [
    ("the same key twice", "a: 1\nb: 2\na: 3", "the key 'a' is written twice in one mapping", 3),
    ("the same key in two spellings", "1: a\n'1': b", "the key '1' is written twice in one mapping", 2),
    ("a key that is null", "~: 1", "a key must be text; quote it", 1),
    ("a key that is a fraction", "1.10: 1", "a key must be text; quote it", 1),
    ("a key that is a list", "? [1]\n: 2", "a mapping or a list cannot be a key", 1),
    ("an alias key that is a list", "a: &x [1]\n*x : 2", "a key must be text; quote it", 2),
    ("infinity", "a: -.Inf", "-.Inf cannot be written as JSON", 1),
    ("not a number", "a:\n  .nan", ".nan cannot be written as JSON", 2),
    ("binary", "a: !!binary aGk=", "!!binary is not supported; write the base64 text without the tag", 1),
    ("a tag its value does not fit", "a: !!int x", "'x' is not a !!int", 1),
    ("an alias without anchor", "a: *x", "the alias *x has no anchor", 1),
    ("an alias of another document", "&x a\n---\n*x", "the alias *x has no anchor", 3),
    ("an alias in its own anchor", "&x [*x]", "the alias *x contains itself", 1),
    ("merging a number", "<<: 1", "the merge key << needs a mapping or a list of mappings", 1),
    ("merging a list of numbers", "<<: [1]", "the merge key << needs a mapping or a list of mappings", 1),
    ("too deep", "[" * (MAX_DEPTH + 1), f"nested more than {MAX_DEPTH} deep", 1),
    ("very deep", "- " * 100_000, f"nested more than {MAX_DEPTH} deep", 1),
    ("too deep by aliases", _DEEP, f"nested more than {MAX_DEPTH} deep", 4),
    ("a billion laughs", _BOMB, "excessive aliasing", 6),
    ("a tab", "a:\n\tb: 1", "a tab indents this line. Use spaces", 2),
    ("another YAML", "%YAML 3.0\n---\na: 1", "found incompatible YAML document", 1),
]


@pytest.mark.parametrize(
    ("text", "problem", "line"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_text_that_kubectl_misreads_or_cannot_read_is_refused(text: str, problem: str, line: int) -> None:
    with pytest.raises(YamlError) as refused:
        list(load_all(text.encode()))
    assert (refused.value.problem, refused.value.line) == (problem, line)


def test_aliases_are_bounded_over_the_whole_document() -> None:
    """Many small aliases are refused like one large one."""
    assert MAX_ALIASED == 400_000
    text = f"a: &x [{','.join('x' * 999)}]\n" + "".join(f"b{n}: *x\n" for n in range(400))
    assert len(next(load_all(text.encode()))) == 401
    with pytest.raises(YamlError, match="excessive aliasing"):
        list(load_all((text + "c: *x\n").encode()))


def test_the_line_of_every_field() -> None:
    """Lines are those of a key and of an element's first line, and none of other documents."""
    text = b"# c\nz: 1\n---\na:\n- b: 1\n\n  c: {d: 2,\n    e: 3}\n- x\n"
    assert lines(text, 1) == {
        (): 4,
        ("a",): 4,
        ("a", 0): 5,
        ("a", 0, "b"): 5,
        ("a", 0, "c"): 7,
        ("a", 0, "c", "d"): 7,
        ("a", 0, "c", "e"): 8,
        ("a", 1): 9,
    }
    assert lines(text, 2) == {}


@pytest.mark.server
def test_random_scalars_are_what_kubectl_takes_them_for(server_137: Server) -> None:
    """Thousands of scalars that look like numbers, booleans and dates, in one manifest."""
    chooser = random.Random(os.environ.get("PODIUM_SEED", "scalars"))
    words = ("true", "yes", "on", "null", "no", "off", "nan", "inf", "y", "n")
    texts: set[str] = set()
    while len(texts) < 3000:
        if chooser.random() < 0.1:
            word = chooser.choice(words)
            text = "".join(chooser.choice((char, char.upper())) for char in word)
        else:
            text = "".join(chooser.choices("0123456789_+-.eExXobBfF:T", k=chooser.randint(1, 7)))
        # Texts that cannot be plain scalars, whatever their meaning.
        if not text.endswith(":") and text not in ("-", "---", "..."):
            texts.add(text)
    ordered = sorted(texts)
    body = "".join(f"- {text}\n" for text in ordered)
    manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nprobe:\n{body}"
    create = ("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-")
    theirs = json.loads(server_137.kubectl(*create, stdin=manifest))["probe"]
    (ours,) = load_all(manifest.encode())
    # kubectl rounds numbers beyond 64 bits; here they stay exact.
    different = [
        (text, mine, yours)
        for text, mine, yours in zip(ordered, ours["probe"], theirs, strict=True)
        if (mine != yours or type(mine) is not type(yours))
        and not (isinstance(mine, int) and abs(mine) > 2**63)
    ]
    assert different == []
