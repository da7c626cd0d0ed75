"""Every form in which Kubernetes objects are stored gives the same objects."""

import gzip
import json
import tracemalloc
from typing import Any

import pytest

from podium.api.core import Pod
from podium.documents import textfile
from podium.documents.document import ReadError, TemplateError
from podium.documents.split import split

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
TEMPLATE = "looks like a template ({{ ... }}), not YAML. Render it first, for example with `helm template`"


def _json(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent).encode()


def _list(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


# name, input, documents found: (origin, kind, name)
SHAPES: list[tuple[str, bytes, list[tuple[str, str, str]]]] = [
    ("one JSON object", _json(POD), [("f, document 1", "Pod", "a")]),
    (
        "JSON values one after the other",
        _json(POD) + _json(NODE),
        [("f, document 1", "Pod", "a"), ("f, document 2", "Node", "n")],
    ),
    (
        "a JSON value a line",
        _json(POD) + b"\n" + _json(NODE) + b"\n",
        [("f, document 1", "Pod", "a"), ("f, document 2", "Node", "n")],
    ),
    (
        "JSON values parted as YAML documents",
        b"---\n" + _json(POD, 2) + b"\n---\n" + _json(NODE, 2) + b"\n---\n",
        [("f, document 1", "Pod", "a"), ("f, document 2", "Node", "n")],
    ),
    (
        "YAML after JSON",
        _json(POD) + b"\n---\nkind: Node\napiVersion: v1\nmetadata: {name: 'n'}\n",
        [("f, document 1", "Pod", "a"), ("f, document 2", "Node", "n")],
    ),
    (
        "a v1 List",
        _json(_list(POD, NODE), 4),
        [("f, document 1, items[0]", "Pod", "a"), ("f, document 1, items[1]", "Node", "n")],
    ),
    (
        "a List in a List",
        _json(_list(POD, _list(NODE))),
        [("f, document 1, items[0]", "Pod", "a"), ("f, document 1, items[1].items[0]", "Node", "n")],
    ),
    (
        "a typed List whose items say nothing of their kind",
        _json({"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}),
        [("f, document 1, items[0]", "Pod", "a")],
    ),
    (
        "a typed List in a List",
        _json(_list({"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]})),
        [("f, document 1, items[0].items[0]", "Node", "n")],
    ),
    (
        "a typed List whose item says its kind",
        _json({"kind": "PodList", "apiVersion": "v1", "items": [NODE]}),
        [("f, document 1, items[0]", "Node", "n")],
    ),
    ("an object with items that is no List", _json({**POD, "items": [1]}), [("f, document 1", "Pod", "a")]),
    (
        "a kind that ends in List and is none",
        _json({"apiVersion": "a/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": {"b": 1}}),
        [("f, document 1", "AllowList", "a")],
    ),
    (
        "kind before apiVersion",
        b'{"kind":"Pod","metadata":{"name":"a"},"apiVersion":"v1"}',
        [("f, document 1", "Pod", "a")],
    ),
    (
        "escapes in the header",
        (
            b'{"apiVersion":"v1","items":[{"apiVersion":"v\\u0031","kind":"P\\u006fd","metadata":{"name":"a"}}],'
            b'"kind":"List"}'
        ),
        [("f, document 1, items[0]", "Pod", "a")],
    ),
    ("a byte order mark", b"\xef\xbb\xbf" + _json(POD), [("f, document 1", "Pod", "a")]),
    ("gzip", gzip.compress(_json(POD)), [("f, document 1", "Pod", "a")]),
    (
        "gzip in several members, padded",
        gzip.compress(_json(POD)) + gzip.compress(_json(NODE)) + bytes(7),
        [("f, document 1", "Pod", "a"), ("f, document 2", "Node", "n")],
    ),
    (
        "YAML documents, empty ones counted",
        b"# first\n---\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\n# last\n",
        [("f, document 2", "Pod", "a")],
    ),
    (
        "a YAML List",
        b"apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n",
        [("f, document 1, items[0]", "Pod", "a")],
    ),
    (
        "YAML in flow style",
        b"{apiVersion: v1, kind: Pod, metadata: {name: a}}",
        [("f, document 1", "Pod", "a")],
    ),
    ("nothing", b"", []),
    ("white space", b" \n\t", []),
    ("a comment", b"# nothing\n", []),
    ("text beyond ASCII over a chunk's end", b" " * ((1 << 20) - 1) + "# ä\n".encode(), []),
]


@pytest.mark.parametrize(("data", "found"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES])
def test_every_shape_gives_its_objects(data: bytes, found: list[tuple[str, str, str]]) -> None:
    """Objects come in order, with their origin."""
    documents = list(split(data, "f"))
    assert [(str(each.origin), each.kind, each.value()["metadata"]["name"]) for each in documents] == found


@pytest.mark.parametrize(("data", "found"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES])
def test_a_typed_read_has_kind_and_version(data: bytes, found: list[tuple[str, str, str]]) -> None:
    """An item gets the kind and version of its typed List, as if the item had them."""
    for document, (_, kind, name) in zip(split(data, "f"), found, strict=True):
        pod = document.read(Pod)
        assert (pod.apiVersion, pod.kind, pod.metadata.name) == (document.apiVersion, kind, name)


@pytest.mark.parametrize("items", ["[]", "null"])
@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_an_empty_list_is_given_as_itself(kind: str, items: str) -> None:
    """An empty typed List means an empty list; without items it is an ordinary object."""
    found = list(split(f'{{"apiVersion":"v1","kind":"{kind}","items":{items}}}'.encode(), "f"))
    assert [each.kind for each in found] == [kind]
    yaml = list(split(f"apiVersion: v1\nkind: {kind}\nitems: {items}\n".encode(), "f"))
    assert [each.kind for each in yaml] == [kind]


def test_an_item_without_any_field() -> None:
    """The smallest item of a typed List is an object too."""
    (document,) = split(b'{"apiVersion":"v1","kind":"PodList","items":[ { } ]}', "f")
    assert document.value() == {"apiVersion": "v1", "kind": "Pod"}
    assert document.read(Pod).kind == "Pod"


def test_json_takes_the_last_of_two_keys_as_the_server_does() -> None:
    """YAML refuses them, see test_yaml."""
    (document,) = split(b'{"apiVersion":"v1","kind":"Pod","spec":{"priority":1,"priority":2}}', "f")
    assert document.read(Pod).spec.priority == 2


def test_a_pod_reads_the_same_from_json_and_from_yaml() -> None:
    """YAML is decoded through untyped values, JSON directly into the Struct."""
    (from_json,) = split(b'{"apiVersion":"v1","kind":"Pod","spec":{"priority":7,"containers":[{}]}}', "f")
    (from_yaml,) = split(b"{apiVersion: v1, kind: Pod, spec: {priority: 7, containers: [{}]}}", "f")
    assert from_json.read(Pod) == from_yaml.read(Pod)


REFUSED: list[tuple[str, bytes, str]] = [
    (
        "JSON that ends too early",
        b'{"apiVersion":"v1",\n"kind":"Pod"',
        "f, document 1, line 2: the JSON is truncated",
    ),
    (
        "a second value that ends too early",
        _json(POD) + b'\n{"a":',
        "f, document 2, line 2: the JSON is truncated",
    ),
    (
        "bad JSON",
        b'{"apiVersion":"v1",\n\n"kind":}',
        "f, document 1, line 3: malformed JSON: invalid character",
    ),
    ("NaN", b'{"a":\nNaN}', "f, document 1, line 2: malformed JSON: invalid character"),
    ("Infinity", b'{"a":-Infinity}', "f, document 1, line 1: malformed JSON: invalid character"),
    ("deep JSON", b'{"a":' * 99999, "f, document 1, line 1: nested too deeply (more than 200 levels)"),
    (
        "bad YAML",
        b"a: 1\nb: [\n",
        "f, document 1, line 3: malformed YAML: did not find expected node content",
    ),
    (
        "a template",
        b"kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n",
        "f, document 1, line 3: " + TEMPLATE,
    ),
    ("a template from its first line", b"{{- if\n .on }}\na: 1\n", "f, document 1, line 1: " + TEMPLATE),
    (
        "a block of a template",
        b"a: 1\nb:\n  {{- toYaml .Values.b | nindent 2 }}\n",
        "f, document 1, line 3: " + TEMPLATE,
    ),
    (
        "bad YAML below text of a template",
        b'a: "{{ $labels.pod }}"\nb: c: d\n',
        "f, document 1, line 2: malformed YAML: mapping values are not allowed in this context",
    ),
    (
        "bad YAML in a later document",
        b"kind: Pod\napiVersion: v1\n---\na: 1\na: 2\n",
        "f, document 2, line 5: malformed YAML: the key 'a' is written twice in one mapping",
    ),
    (
        "bad YAML after JSON",
        _json(POD) + b"\n---\na: b: c\n",
        "f, document 2, line 3: malformed YAML: mapping values are not allowed in this context",
    ),
    (
        "YAML with a control character",
        b"a: 1\nb: \x01\n",
        "f, document 1, line 2: malformed YAML: control characters are not allowed (U+0001)",
    ),
    (
        "a bare list",
        b"[]",
        (
            "f, document 1, line 1: expected a Kubernetes object, got list; write it as "
            '{"apiVersion": "v1", "kind": "List", "items": [...]}'
        ),
    ),
    ("text", b"hello", "f, document 1, line 1: expected a Kubernetes object, got string"),
    ("a number", b"\n7", "f, document 1, line 2: expected a Kubernetes object, got integer"),
    (
        "an item that is a number",
        _json(_list(POD, 1), 1),
        "f, document 1, items[1], line 12: expected a Kubernetes object, got integer",
    ),
    (
        "an item that is null",
        b"kind: List\napiVersion: v1\nitems:\n- \n",
        "f, document 1, items[0], line 4: expected a Kubernetes object, got null",
    ),
    (
        "no kind",
        b'{"apiVersion":"v1"}',
        "f, document 1, line 1: kind: is missing or not a string; this is not a Kubernetes object",
    ),
    (
        "no apiVersion",
        b"\nkind: Pod\n",
        "f, document 1, line 2: apiVersion: is missing or not a string; this is not a Kubernetes object",
    ),
    (
        "a kind that is a number",
        b'{"apiVersion":"v1",\n"kind":1}',
        "f, document 1, line 2: kind: is missing or not a string; this is not a Kubernetes object",
    ),
    (
        "an empty kind",
        b'{"apiVersion":"v1","kind":""}',
        "f, document 1, line 1: kind: is missing or not a string; this is not a Kubernetes object",
    ),
    (
        "an item of a v1 List without kind",
        _json(_list({})),
        (
            "f, document 1, items[0], line 1: apiVersion: is missing or not a string; "
            "this is not a Kubernetes object"
        ),
    ),
    (
        "Lists in Lists in Lists",
        b'{"apiVersion":"v1","kind":"List","items":[' * 20 + b"]}" * 20,
        "f, document 1, " + ".".join(["items[0]"] * 16) + ", line 1: Lists nested more than 16 deep",
    ),
    (
        "truncated gzip",
        gzip.compress(_json(POD))[:-9],
        "f: the gzip data is truncated",
    ),
    (
        "gzip with a wrong checksum",
        gzip.compress(_json(POD))[:-8] + bytes(8),
        "f: the gzip data is damaged (Error -3 while decompressing data: incorrect data check)",
    ),
    (
        "something after gzip",
        gzip.compress(_json(POD)) + b"x",
        "f: the gzip data is truncated",
    ),
    ("bytes that are not UTF-8", b"a: 1\nb: \xff\n", "f, line 2: not UTF-8 (byte 8)"),
    ("UTF-8 cut short", "a: ä".encode()[:-1], "f, line 1: not UTF-8 (byte 3)"),
    ("UTF-16", "kind: Pod".encode("utf-16"), "f, line 1: not UTF-8 (byte 0)"),
]


def test_decompressed_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is refused as soon as its output exceeds the limit, not after all of it."""
    monkeypatch.setattr(textfile, "MAX_BYTES", 1 << 20)
    bomb = gzip.compress(bytes(256 << 20), compresslevel=1)
    tracemalloc.start()
    try:
        with pytest.raises(ReadError, match="the gzip data unpacks to more than 1 MiB"):
            list(split(bomb, "f"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 << 20


@pytest.mark.parametrize(
    ("data", "expected"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_document_that_is_not_kubernetes_is_refused_in_one_line(data: bytes, expected: str) -> None:
    """The line names file, document, item and line."""
    with pytest.raises(ReadError) as refused:
        list(split(data, "f"))
    assert str(refused.value) == expected


def test_documents_before_a_broken_one_are_given_first() -> None:
    """A reader that stops there must not use them; a reader that shows them may."""
    documents = split(_json(POD) + b"{", "f")
    assert next(documents).kind == "Pod"
    with pytest.raises(ReadError):
        next(documents)


@pytest.mark.parametrize(
    ("value", "placeholder"),
    [
        ("$PRIORITY", "$PRIORITY"),
        ("${PRIORITY}  # by envsubst", "${PRIORITY}"),
        ("'$PRIORITY'", ""),
        ("high", ""),
    ],
)
def test_a_wrong_type_in_a_file_for_envsubst_is_a_template(value: str, placeholder: str) -> None:
    """A whole value of that form is a placeholder; in quotes it is a text."""
    written = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  priority: {value}\n"
    (document,) = split(written.encode(), "a.yaml")
    with pytest.raises(ReadError, match="expected integer") as error:
        document.read(Pod)
    assert isinstance(error.value, TemplateError) == bool(placeholder)
    assert (f"looks like a template ({placeholder}). Render it first" in str(error.value)) == bool(
        placeholder
    )
