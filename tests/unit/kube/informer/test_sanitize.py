"""JSON is made decodable: deep values are removed, text becomes Unicode, and all else stays."""

import json
from typing import Any, get_args, get_origin

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from podium.api.events import PAST_READS
from podium.api.schedulable import SCHEDULING_READS
from podium.kube.sanitize import MOST_LEVELS, sanitize

DEEP = MOST_LEVELS + 1
SURROGATES = [
    (rb'"\ud800"', "\ufffd"),
    (rb'"\udc00"', "\ufffd"),
    (rb'"\ud83d\ude00"', "\U0001f600"),
    (rb'"\uD83D\uDE00\uD83D"', "\U0001f600\ufffd"),
    (rb'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"),
    (rb'"\\ud800"', "\\ud800"),
    (rb'"\\\ud800"', "\\\ufffd"),
    (b'"\xff\xc3\xa4"', "\ufffd\xe4"),
]


@pytest.mark.parametrize(("text", "want"), SURROGATES)
def test_text_that_is_not_unicode(text: bytes, want: str) -> None:
    assert msgspec.json.decode(sanitize(text)) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (b"[" * MOST_LEVELS + b"]" * MOST_LEVELS, b"[" * MOST_LEVELS + b"]" * MOST_LEVELS),
        (b"[" * DEEP + b"]" * DEEP, b"[" * MOST_LEVELS + b"0" + b"]" * MOST_LEVELS),
        (b'{"a":[' + b"[" * DEEP + b"1" + b"]" * DEEP + b'],"b":2}',
         b'{"a":[' + b"[" * (MOST_LEVELS - 2) + b"0" + b"]" * (MOST_LEVELS - 2) + b'],"b":2}'),
        (b"[" * MOST_LEVELS + b"[],{},[1]" + b"]" * MOST_LEVELS,
         b"[" * MOST_LEVELS + b"0,0,0" + b"]" * MOST_LEVELS),
        (b'["' + b"[" * 99 + rb"\"[\\" + b'"]', b'["' + b"[" * 99 + rb"\"[\\" + b'"]'),
    ],
    ids=["as deep as may be", "one deeper", "beside others", "several", "in a string"],
)  # fmt: skip
def test_nesting(text: bytes, want: bytes) -> None:
    assert sanitize(text) == want


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='\\"[]{}\ud7ff\U0001f600a'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='\\"[{', max_size=3), inner),
    max_leaves=12,
)


def _wrapped(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [1, value, "]"] if level % 2 else {"k\\": value, '"': []}
    return value


def _cut(value: Any, levels: int = MOST_LEVELS) -> Any:
    if not isinstance(value, list | dict):
        return value
    if not levels:
        return 0
    if isinstance(value, list):
        return [_cut(each, levels - 1) for each in value]
    return {key: _cut(each, levels - 1) for key, each in value.items()}


@given(JSON, st.integers(0, 70), st.booleans())
def test_only_what_is_deeper_changes(value: Any, levels: int, ascii_only: bool) -> None:
    value = _wrapped(value, levels)
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert json.loads(sanitize(text)) == _cut(value)


@given(st.binary())
def test_any_bytes(text: bytes) -> None:
    """The input may be any bytes; the output is Unicode."""
    sanitize(text).decode()


def test_no_read_names_a_field_that_is_left_out() -> None:
    """An owner's pod templates are among them."""
    reads = {read.type for read in (*SCHEDULING_READS.values(), *PAST_READS.values())}
    # A page of a List has the objects two levels down, a watch event one.
    assert max(map(_levels, reads)) + 2 < MOST_LEVELS / 2


def _levels(wanted: Any, within: tuple[Any, ...] = ()) -> int:
    """Count the levels of a type; one that holds itself counts once."""
    if wanted in within:
        return 0
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        fields = msgspec.structs.fields(wanted)
        return 1 + max((_levels(field.type, (*within, wanted)) for field in fields), default=0)
    own = int(get_origin(wanted) in (list, dict))
    return own + max((_levels(each, within) for each in get_args(wanted)), default=0)
