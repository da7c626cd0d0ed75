"""JSON is decoded the same on every interpreter, at the limit of nesting and far above it."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from podium import jsontext
from podium.api.events import PAST_READS
from podium.api.schedulable import SCHEDULING_READS
from podium.jsontext import MAX_DEPTH, TOO_DEEP, Decoder, DepthError, cut, parse

ROOT = Path(__file__).parents[2]
# Around the limits of msgspec in Python 3.11, 3.12 and 3.13, and above that of any.
FAR = [MAX_DEPTH + 1, 251, 990, 1_500, 9_990, 10_010, 100_000, 1_000_000]


class Named(msgspec.Struct):
    """A type that limits the depth of its values."""

    name: str = ""
    kept: msgspec.Raw = msgspec.Raw(b"")


class Tree(msgspec.Struct):
    """A type that does not."""

    below: "list[Tree] | None" = None


def nested(levels: int, inside: str = "") -> bytes:
    return b"[" * levels + inside.encode() + b"]" * levels


def deep_object(levels: int, name: str = '"a"') -> bytes:
    """Return an object with a list of this depth before its name."""
    return b'{"x":%s,\n"name":%s}' % (nested(levels), name.encode())


def at_depth(frames: int, work: Callable[[], Any]) -> Any:
    return at_depth(frames - 1, work) if frames else work()


class TestSkipping:
    """A field that the type does not name may have any depth."""

    @pytest.mark.parametrize("levels", [1, MAX_DEPTH, *FAR])
    def test_the_rest_is_decoded(self, levels: int) -> None:
        assert parse(deep_object(levels), Named).name == "a"
        assert parse(b'[{"x":1},%s]' % deep_object(levels), list[Named])[1].name == "a"

    @pytest.mark.parametrize("levels", FAR)
    def test_a_wrong_type_behind_it_is_named(self, levels: int) -> None:
        with pytest.raises(msgspec.ValidationError, match=r"Expected `str`, got `int` - at `\$\.name`"):
            parse(deep_object(levels, "1"), Named)

    @pytest.mark.parametrize("levels", FAR)
    @pytest.mark.parametrize("more", [b"  ", b" {}", b"\n]", b" " * 200_000 + b"1"])
    def test_trailing_characters_are_at_their_byte(self, levels: int, more: bytes) -> None:
        text = deep_object(levels)
        if not more.strip():
            assert parse(text + more, Named).name == "a"
            return
        with pytest.raises(msgspec.DecodeError) as refused:
            parse(text + more, Named)
        offset = len(text + more) - len(more.strip())
        assert str(refused.value) == f"JSON is malformed: trailing characters (byte {offset + 1})"

    @pytest.mark.parametrize("levels", [260, *FAR[2:]])
    @pytest.mark.parametrize("end", [b"", b"}", b"]" * 255 + b"x"], ids=["cut off", "mismatched", "a letter"])
    def test_a_text_that_is_malformed_too_is_too_deep(self, levels: int, end: bytes) -> None:
        with pytest.raises(DepthError, match=re.escape(TOO_DEEP)):
            parse(b'{"x":' + b"[" * levels + end, Named)

    @pytest.mark.parametrize("levels", FAR)
    def test_no_more_than_a_chunk_behind_a_deep_value_is_looked_at(self, levels: int) -> None:
        """Many deep values in sequence take linear time."""
        text = deep_object(levels)
        first, end = jsontext._shallow(memoryview(text + b" {}" * 100_000), 250)
        assert (first is None) == (levels < 250)
        assert end <= len(text) + jsontext._CHUNK

    def test_a_full_stack_is_not_a_deep_text(self) -> None:
        """Of 1,000 frames the caller has used 600."""
        text = deep_object(5_000)
        room = sys.getrecursionlimit() - 400 - len(_frames())
        assert at_depth(room, lambda: parse(text, Named)).name == "a"


def _frames() -> list[Any]:
    frame: Any = sys._getframe()
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


class TestValues:
    """A value that no type limits has MAX_DEPTH levels."""

    @pytest.mark.parametrize("wanted", [Any, list[Any], list[object], list[list[Any] | int]])
    def test_at_the_limit_it_is_decoded(self, wanted: Any) -> None:
        for refuses in (False, True):
            assert parse(nested(MAX_DEPTH), wanted, refuses=refuses) == json.loads(nested(MAX_DEPTH))

    @pytest.mark.parametrize("levels", FAR)
    @pytest.mark.parametrize("inside", ["", "1", '"]"', '{"a":[]},[2]'])
    def test_above_it_is_left_out_or_refused(self, levels: int, inside: str) -> None:
        text = nested(levels, inside)
        assert parse(text, Any) == json.loads(nested(MAX_DEPTH, "0"))
        with pytest.raises(DepthError) as refused:
            parse(text, Any, refuses=True)
        assert str(refused.value) == "nested too deeply (more than 200 levels)"

    @pytest.mark.parametrize("levels", FAR)
    def test_a_type_within_itself_has_no_limit(self, levels: int) -> None:
        text = b'{"below":[' * levels + b"]}" * levels
        with pytest.raises(DepthError):
            parse(text, Tree, refuses=True)
        with pytest.raises(msgspec.ValidationError, match="Expected `object"):
            parse(text, Tree)

    @pytest.mark.parametrize("text", [b"[" * 50, b'{"a":"' + b"[" * 500, b"]" * 500, b"[}" * 500, b"", b"[1"])
    def test_a_malformed_text_stays_one(self, text: bytes) -> None:
        for refuses in (False, True):
            with pytest.raises(msgspec.DecodeError, match=r"malformed|truncated"):
                parse(text, Any, refuses=refuses)

    def test_raw_parts_have_any_depth(self) -> None:
        assert Decoder(Named)._limited
        assert Decoder(dict[str, msgspec.Raw])._limited
        assert not Decoder(dict[str, Any])._limited
        assert not Decoder(dict[str, object])._limited
        assert not Decoder(list[Tree])._limited


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='\\"[]{}\n\ud7ff\U0001f600a'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='\\"[{', max_size=3), inner),
    max_leaves=12,
)


def _wrapped(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [1, value, "]"] if level % 2 else {"k\\": value, '"': []}
    return value


def _cut(value: Any, levels: int = MAX_DEPTH) -> Any:
    if not isinstance(value, list | dict):
        return value
    if not levels:
        return 0
    if isinstance(value, list):
        return [_cut(each, levels - 1) for each in value]
    return {key: _cut(each, levels - 1) for key, each in value.items()}


@given(JSON, st.integers(MAX_DEPTH - 5, MAX_DEPTH + 5), st.booleans(), st.none() | st.integers(0, 2))
def test_only_what_is_deeper_changes(value: Any, levels: int, ascii_only: bool, indent: int | None) -> None:
    value = _wrapped(value, levels)
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    shallow = cut(text)
    assert json.loads(bytes(memoryview(shallow))) == _cut(value)
    assert (shallow is text) == (_cut(value) == value)
    assert len(memoryview(shallow)) == len(text)
    assert [at for at, byte in enumerate(memoryview(shallow)) if byte == 10] == [
        at for at, byte in enumerate(text) if byte == 10
    ]


@given(JSON, st.integers(1, 9))
def test_chunks_of_any_size_make_no_difference(value: Any, size: int) -> None:
    text = json.dumps(_wrapped(value, 5)).encode()
    with pytest.MonkeyPatch.context() as patch:
        whole = jsontext._shallow(memoryview(text), 4)[0]
        patch.setattr(jsontext, "_CHUNK", size)
        assert jsontext._shallow(memoryview(text), 4)[0] == whole


@given(st.binary())
def test_any_bytes(text: bytes) -> None:
    """Any bytes are decoded or refused."""
    cut(text)
    for wanted in (Any, Named, Tree):
        try:
            parse(text, wanted)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


@pytest.mark.parametrize(
    "text",
    [b"[" * (3 << 20), nested(3 << 19), b"[" + b"[]," * (1 << 20) + b"0]", nested(30_000, "[[]],0")],
    ids=["open", "closed", "wide", "on the limit of a chunk"],
)
def test_a_text_of_a_tenant_is_cut_in_linear_time(text: bytes) -> None:
    """Counted as chunks: none is looked at twice."""
    assert jsontext._shallow(memoryview(text), MAX_DEPTH)[1] == len(text)


def test_no_read_names_a_field_that_is_left_out() -> None:
    """An owner's pod templates are among them."""
    reads = {read.type for read in (*SCHEDULING_READS.values(), *PAST_READS.values())}
    # A page of a List has the objects two levels down, a watch event one.
    assert max(map(_levels, reads)) + 2 < MAX_DEPTH / 2


def _levels(wanted: Any, within: tuple[Any, ...] = ()) -> int:
    """Count the levels of a type; one that holds itself counts once."""
    if wanted in within:
        return 0
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        fields = msgspec.structs.fields(wanted)
        return 1 + max((_levels(field.type, (*within, wanted)) for field in fields), default=0)
    own = int(get_origin(wanted) in (list, dict))
    return own + max((_levels(each, within) for each in get_args(wanted)), default=0)


def test_no_other_module_takes_the_interpreters_limit_for_a_bound() -> None:
    """CEL's evaluator has limits of its own; ruff bans the other decoders of JSON."""
    files = [path for root in ROOT.glob("*/podium") for path in root.rglob("*.py")]
    catching = {path.relative_to(ROOT) for path in files if "RecursionError" in path.read_text()}
    assert {path for path in catching if "cel" not in path.parts} == {Path("core/podium/jsontext.py")}
