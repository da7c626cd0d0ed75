"""Any bytes are read as documents or as one line of error: never another exception, never half a List."""

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from podium.api.reads import READS
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.load import load_state
from podium.documents.split import split
from podium.errors import PodiumError

# A busy machine is no failure; the profile sets the number of examples.
untimed = settings(deadline=None)

EXAMPLES = Path(__file__).parents[3] / "examples"


@cache
def _seeds() -> list[bytes]:
    """Real documents: two of each kind from a real server's dump, as JSON, as YAML, as gzip."""
    data = gzip.decompress((EXAMPLES / "training-1.36.json.gz").read_bytes())
    kinds: dict[str, list[Any]] = {}
    for item in json.loads(data)["items"]:
        kinds.setdefault(item["kind"], []).append(item)
    items = [item for found in kinds.values() for item in found[:2]]
    whole = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    typed = {"apiVersion": "v1", "kind": "PodList", "items": kinds["Pod"][:2]}
    indented = json.dumps(whole, indent=4).encode()
    return [
        indented,
        json.dumps(typed).encode(),
        b"\n".join(json.dumps(item).encode() for item in items[:4]),
        yaml.safe_dump_all(items[:6]).encode(),
        gzip.compress(indented, mtime=0),
    ]


def _readable(data: bytes) -> None:
    """Read everything in the bytes; one line of error is as good as objects."""
    try:
        for document in split(data, "f"):
            read = SCHEDULING_READS.get((document.apiVersion, document.kind))
            document.value()
            if read is not None:
                read.neutral(document.read(read.type))
    except PodiumError as error:
        _check_line(error)
    for reads in (READS, SCHEDULING_READS):
        try:
            load_state(split(data, "f"), strict=False, reads=reads)
        except PodiumError as error:
            _check_line(error)


def _check_line(error: PodiumError) -> None:
    line = str(error)
    assert line.startswith("f")
    assert line.isprintable()


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """Return a damaged document: bytes changed, removed, repeated, truncated, or inserted."""
    data = bytearray(draw(st.sampled_from(_seeds())))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 40))
        match draw(st.sampled_from(("change", "cut", "double", "end", "insert"))):
            case "change":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del data[at : at + length]
            case "double":
                data[at:at] = data[at : at + length]
            case "end":
                del data[at:]
            case _:
                data[at:at] = draw(
                    st.sampled_from(
                        (
                            b"NaN",
                            b"1e999",
                            b"null",
                            b'"',
                            b"{",
                            b"]",
                            b"\n---\n",
                            b"\xff",
                            b"\\ud800",
                            b"&a ",
                            b"*a ",
                            b"99999999999999999999",
                            b"1.5",
                            b"[" * 300,
                            b"<<: ",
                            b"!!int ",
                            b"\x1f\x8b",
                            b"\xef\xbb\xbf",
                        )
                    )
                )
    return bytes(data)


@untimed
@given(_damaged())
def test_damaged_documents_are_read_or_refused_in_one_line(data: bytes) -> None:
    _readable(data)


@untimed
@given(st.binary(max_size=400))
@example(b"\x1f\x8b")
@example(gzip.compress(b'{"a":')[:12])
def test_random_bytes_are_read_or_refused_in_one_line(data: bytes) -> None:
    _readable(data)


@untimed
@given(st.text(st.sampled_from('{}[]":,-&*!|>%#?\n\t aA01.eE+_\\u~<kindList'), max_size=120))
def test_random_punctuation_is_read_or_refused_in_one_line(text: str) -> None:
    _readable(text.encode())


# JSON that both notations share: text that YAML can write, and integers that both keep.
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
_LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | _TEXT
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_FIELDS = {
    "metadata": ("name", "namespace", "labels", "annotations", "generation", "ownerReferences"),
    "spec": (
        "priority",
        "priorityClassName",
        "containers",
        "schedulingGroup",
        "template",
        "podGroupTemplates",
        "disruptionMode",
        "schedulingPolicy",
        "selector",
        "minAvailable",
    ),
    "status": ("phase", "conditions", "allocatable"),
}


class _Dumper(yaml.SafeDumper):
    """Writes YAML for a reader like kubectl: quotes text that only kubectl reads as another type."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(".*", re.DOTALL), list("-+.0123456789"))


def _yaml(value: object, *, flow: bool) -> bytes:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow)
    return text.encode()


@st.composite
def _objects(draw: st.DrawFn) -> dict[str, Any]:
    """An object of a known kind, with right and wrong values in the fields that are read."""
    api_version, kind = draw(st.sampled_from(sorted(READS)))
    found: dict[str, Any] = {"apiVersion": api_version, "kind": kind}
    for part, fields in _FIELDS.items():
        if draw(st.booleans()):
            found[part] = {
                field: draw(_TREES) for field in draw(st.lists(st.sampled_from(fields), max_size=3))
            }
    return found


@untimed
@given(_objects())
def test_json_and_yaml_of_one_value_read_the_same(value: dict[str, Any]) -> None:
    """YAML and JSON give the same value, or the same error for a field, in block and in flow style."""
    answers = [
        _answer(json.dumps(value).encode()),
        _answer(_yaml(value, flow=False)),
        _answer(_yaml(value, flow=True)),
        _answer(json.dumps({"apiVersion": "v1", "kind": "List", "items": [value]}).encode()),
    ]
    assert answers[1:] == answers[:1] * 3


def _answer(data: bytes) -> tuple[object, object]:
    (document,) = split(data, "f")
    read = READS[document.apiVersion, document.kind]
    value = document.value()
    try:
        return value, read.neutral(document.read(read.type))
    except PodiumError as error:
        # Without the place, which differs: the field and the fault.
        return value, str(error).partition(": ")[2]


@untimed
@given(_TREES)
def test_a_value_of_any_shape_survives_both_notations(tree: object) -> None:
    """YAML reads text as text and numbers as numbers, whatever they look like."""
    value = {"apiVersion": "a/v1", "kind": "Any", "tree": tree}
    for data in (json.dumps(value).encode(), _yaml(value, flow=False), _yaml(value, flow=True)):
        (document,) = split(data, "f")
        assert document.value() == value
