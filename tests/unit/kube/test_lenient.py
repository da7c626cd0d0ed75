"""Lenient decoding: a wrong part is left out or keeps its earlier value, and the rest is decoded."""

from typing import Any

import msgspec
import pytest

from podium.kube.reading import decode_parts


class Port(msgspec.Struct):
    number: int
    name: str = ""


class Thing(msgspec.Struct):
    count: int = 0
    ports: list[Port] | None = None
    limits: dict[str, int | str] | None = None
    numbers: dict[str, int] | None = None


# A value, its earlier version, and the decoded thing.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None, Thing]] = {
    "a wrong field is left out": ({"count": "x", "ports": [{"number": 1}]}, None, Thing(ports=[Port(1)])),
    "a wrong field keeps its earlier value": ({"count": "x"}, {"count": 2}, Thing(2)),
    "an earlier value of a wrong type is not used": (
        {"ports": [{"number": "x"}]},
        {"ports": 1},
        Thing(ports=[]),
    ),
    "an element without a required field is left out": (
        {"ports": [{"name": "a"}, {"number": 2}]},
        None,
        Thing(ports=[Port(2)]),
    ),
    "an element with a wrong required field is left out": (
        {"ports": [{"number": "x"}, {"number": 2}]},
        None,
        Thing(ports=[Port(2)]),
    ),
    "a wrong element keeps its earlier value": (
        {"ports": [{"number": 1}, {"name": "b"}]},
        {"ports": [{"number": 1}, {"number": 3}]},
        Thing(ports=[Port(1), Port(3)]),
    ),
    "a wrong element keeps the parts that are right": (
        {"ports": [{"number": 1, "name": 5}]},
        None,
        Thing(ports=[Port(1)]),
    ),
    "a scalar in place of a list is left out": ({"ports": 5}, None, Thing()),
    "a scalar in place of a mapping is left out": ({"limits": 5, "count": 1}, None, Thing(1)),
    "an entry keeps its text if text is allowed": (
        {"limits": {"cpu": 1.5, "gpu": 2}},
        None,
        Thing(limits={"cpu": "1.5", "gpu": 2}),
    ),
    "an entry keeps its earlier value": (
        {"limits": {"cpu": [1]}},
        {"limits": {"cpu": 4}},
        Thing(limits={"cpu": 4}),
    ),
    "an entry without an earlier value is left out": (
        {"numbers": {"a": "x", "b": 2}},
        {"numbers": {"b": 1}},
        Thing(numbers={"b": 2}),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_part_does_not_lose_the_rest(name: str) -> None:
    value, earlier, expected = CASES[name]
    spare = None if earlier is None else msgspec.json.encode(earlier)
    assert decode_parts(msgspec.json.encode(value), Thing, spare) == expected


@pytest.mark.parametrize("value", [b"5", b"[]", b'"x"', b"{", b'{"name": "no number"}'])
def test_a_value_without_a_decodable_part_is_an_error(value: bytes) -> None:
    with pytest.raises(msgspec.DecodeError, match="no part of it can be decoded"):
        decode_parts(value, Port)
