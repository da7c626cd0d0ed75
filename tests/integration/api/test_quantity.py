"""Quantities compared with a table of upstream's answers, with their own output, and with real servers."""

import json
import os
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.servers import Server

from kubecel.quantityscanner import MAX_TEXT, MAX_UNITS
from podium.api.core import RawQuantity
from podium.api.quantity import QuantityError, Scale, canonical, parse

# text, the stored text, nano units
TABLE: list[tuple[str, RawQuantity, str, int]] = [
    ("one", "1", "1", 10**9),
    ("milli", "500m", "500m", 500 * 10**6),
    ("a half is 500 milli", "0.5", "500m", 500 * 10**6),
    ("1000 milli is one", "1000m", "1", 10**9),
    ("no point before the unit", "1.5Gi", "1536Mi", 1536 * 2**20 * 10**9),
    ("as large a suffix as is whole", "1000k", "1M", 10**15),
    ("as large a binary suffix as is whole", "1024Ki", "1Mi", 2**20 * 10**9),
    ("an exponent stays an exponent", "1e3", "1e3", 10**12),
    ("an exponent becomes a multiple of three", "1e4", "10e3", 10**13),
    ("E alone is exa", "2E", "2E", 2 * 10**27),
    ("E before digits is an exponent", "2E3", "2E3", 2 * 10**12),
    ("a JSON integer", 2000, "2k", 2 * 10**12),
    ("a JSON number", 1.5, "1500m", 1_500_000_000),
    ("a JSON number with an exponent", 1e22, "10e21", MAX_UNITS * 10**9),
    ("negative", "-1.5Gi", "-1536Mi", -1536 * 2**20 * 10**9),
    ("finer than nano rounds up", "0.1n", "1n", 1),
    ("finer than nano rounds away from zero", "-0.1n", "-1n", -1),
    ("a tiny exponent rounds up", "1e-2000000000", "1e-9", 1),
    ("fewer than 1024 bytes lose the binary suffix", "0.5Ki", "512", 512 * 10**9),
    ("a binary suffix with a remainder becomes milli", "1.1Ki", "1126400m", 1126400 * 10**6),
    ("a binary suffix is capped", "10Ei", "9223372036854775807", MAX_UNITS * 10**9),
    ("a decimal is capped in value only", "1e30", "1e30", MAX_UNITS * 10**9),
    ("the cap is negative too", "-1e2000000000", "-100e1999999998", -MAX_UNITS * 10**9),
    ("past exa upstream drops the suffix", "1000E", "1", MAX_UNITS * 10**9),
    ("a plus sign is kept", "+1", "+1", 10**9),
    ("trailing zeros are kept", "1.500", "1.500", 1_500_000_000),
    ("leading zeros are kept", "007Ki", "007Ki", 7 * 1024 * 10**9),
    ("leading zeros before the point are not", "00.5", "500m", 500 * 10**6),
    ("a lone suffix is zero", "m", "0", 0),
    ("a lone point is zero", ".", "0", 0),
    ("a lone sign is zero", "-", "0", 0),
    ("zero loses its suffix", "0Gi", "0", 0),
    ("zero of any exponent", "0e2000000000", "0", 0),
    ("spaces around are trimmed", " 1Gi ", "1Gi", 2**30 * 10**9),
]

MALFORMED: list[tuple[str, RawQuantity]] = [
    ("empty", ""),
    ("unknown suffix", "1GB"),
    ("lower case k in binary", "1ki"),
    ("exponent without digits", "1e"),
    ("exponent with a fraction", "1e3.5"),
    ("exponent and suffix", "1e3k"),
    ("two signs", "--1"),
    ("two points", "1.1.1"),
    ("a space inside", "1 Gi"),
    ("digits of another script", "\uff11"),
    ("hexadecimal", "0x10"),
    ("large binary suffix with no number", "Ei"),
    ("an exponent wider than 32 bits", "1e2147483648"),
    ("a boolean", True),
    ("no number", float("nan")),
    ("infinite", float("inf")),
    ("longer than any quantity", "1" * (MAX_TEXT + 1)),
]


@pytest.mark.parametrize(
    ("value", "stored", "nanos"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_a_quantity_reads_and_prints_as_upstream_does(value: RawQuantity, stored: str, nanos: int) -> None:
    assert (canonical(value), parse(value)) == (stored, nanos)


@pytest.mark.parametrize("value", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_a_malformed_text_is_one_line(value: RawQuantity) -> None:
    """Both readers refuse the text with one short line that quotes it and gives the remedy."""
    for reader in (parse, canonical):
        with pytest.raises(QuantityError, match="is not a quantity: write a number") as caught:
            reader(value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 150


def test_scales_round_away_from_zero() -> None:
    """Rounding of 1.0005 Ki to whole units and to milli; a server writes lists of resources in milli."""
    assert [parse("-1.0005Ki", scale) for scale in (Scale.ONE, Scale.MILLI)] == [-1025, -1024512]
    assert [canonical(text, Scale.MILLI) for text in ("1u", "1.0000", "1.2345", "+1", "1.1234Gi")] == [
        "1m",
        "1",
        "1235m",
        "+1",
        "1206241565082m",
    ]


@given(st.integers(min_value=-MAX_UNITS * 10**9, max_value=MAX_UNITS * 10**9), st.sampled_from("num"))
def test_every_whole_number_of_a_unit_survives(count: int, unit: str) -> None:
    """The text that a server would store keeps the amount of a quantity exactly."""
    nanos = count * {"n": 1, "u": 10**3, "m": 10**6}[unit]
    expected = max(-MAX_UNITS * 10**9, min(MAX_UNITS * 10**9, nanos))
    assert parse(f"{count}{unit}") == expected
    assert parse(canonical(f"{count}{unit}")) == expected


@given(
    st.from_regex(
        r"[+-]?[0-9]{0,25}(\.[0-9]{0,20})?([numkMGTP]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?", fullmatch=True
    )
)
def test_the_stored_text_is_stable_and_equal(text: str) -> None:
    """Storing a stored text again changes nothing."""
    try:
        stored = canonical(text)
    except QuantityError:
        return
    assert canonical(stored) == stored
    # Below a unit upstream turns a binary suffix to decimal, so both sides are compared in nano.
    assert parse(stored) == parse(text)


@given(st.text(alphabet="+-.0123456789eEinumkKMGTP ", max_size=12))
def test_any_text_is_a_quantity_or_one_error(text: str) -> None:
    """Any exception but a QuantityError fails the test."""
    try:
        nanos = parse(text)
    except QuantityError:
        return
    assert abs(nanos) <= MAX_UNITS * 10**9


def _random_text(rng: random.Random) -> str:
    def digits(lengths: list[int]) -> str:
        return "".join(rng.choice("00123456789") for _ in range(rng.choice(lengths)))

    if rng.random() < 0.05:
        return "".join(rng.choice("+-.0123456789eEinumkKMGTP") for _ in range(rng.randrange(1, 8)))
    fraction = "." + digits([0, 1, 2, 3, 6, 9, 12, 20]) if rng.random() < 0.5 else ""
    suffix = rng.choice(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e", "E"])
    if suffix in ("e", "E"):
        suffix += rng.choice(["", "+", "-"]) + str(rng.randrange(31))
    sign, whole = rng.choice(["", "", "-", "+"]), digits([0, 1, 1, 2, 4, 9, 17, 18, 19, 30])
    return f"{sign}{whole}{fraction}{suffix}"


def _sorted_out(texts: list[str]) -> tuple[list[str], list[str]]:
    """Return the texts that Podium accepts, and those it refuses."""
    good, bad = [], []
    for text in texts:
        try:
            canonical(text)
            good.append(text)
        except QuantityError:
            bad.append(text)
    return good, bad


def _slice(texts: Sequence[RawQuantity]) -> dict[str, object]:
    """Return a ResourceSlice with quantities, which it neither rounds nor limits."""
    devices = [
        {
            "name": f"d{start}",
            "capacity": {
                f"c{index}": {"value": text} for index, text in enumerate(texts[start : start + 20])
            },
        }
        for start in range(0, len(texts), 20)
    ]
    spec = {
        "driver": "quantities.example.com",
        "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": devices,
    }
    return {"metadata": {"generateName": "quantities-"}, "spec": spec}


def _stored(server: Server, texts: list[str]) -> list[str]:
    """Write quantities to a server and read them back."""
    path = "/apis/resource.k8s.io/v1/resourceslices"
    code, made = server.request("POST", path, _slice(texts))
    assert code == 201, made
    here = f"{path}/{made['metadata']['name']}"
    code, read = server.request("GET", here)
    assert code == 200, read
    server.request("DELETE", here)
    return [
        device["capacity"][f"c{index}"]["value"]
        for device in read["spec"]["devices"]
        for index in range(len(device["capacity"]))
    ]


@pytest.mark.server
def test_a_server_stores_the_same_texts(server: Server) -> None:
    """The table and a new random sample are written to and read back from a real server."""
    rng = random.Random(os.environ.get("PODIUM_SEED", "quantity"))
    # An exponent of a billion would load the server: those rows stay in the table.
    table = [value for _, value, _, _ in TABLE if isinstance(value, str) and "00000000" not in value]
    good, _ = _sorted_out(table + [_random_text(rng) for _ in range(2000)])
    stored = _stored(server, good)
    assert {text: there for text, there in zip(good, stored, strict=True) if there != canonical(text)} == {}


@pytest.mark.server
def test_a_server_refuses_the_same_texts(server: Server) -> None:
    """A server refuses malformed texts, of the table and random, except those that only Podium refuses."""
    rng = random.Random(os.environ.get("PODIUM_SEED", "quantity"))
    _, bad = _sorted_out([_random_text(rng) for _ in range(2000)])
    ours = ("an exponent wider than 32 bits", "longer than any quantity")
    table = [value for name, value in MALFORMED if name not in ours]
    for value in [*table, *bad[:50]]:
        body = json.dumps(_slice([value]), allow_nan=True)
        code, refused = server.request(
            "POST", "/apis/resource.k8s.io/v1/resourceslices?dryRun=All", body.encode()
        )
        assert (value, code) == (value, 400), refused


@pytest.mark.server
def test_a_server_rounds_lists_of_resources_to_milli(server: Server, namespace: str) -> None:
    """Quotas, nodes and containers keep milli; a quota accepts any number of custom resources."""
    rng = random.Random(os.environ.get("PODIUM_SEED", "quantity"))
    good, _ = _sorted_out([_random_text(rng) for _ in range(1000)])
    hard = {
        f"c{index}.kubernetes.io/storage": text
        for index, text in enumerate(text for text in good if parse(text) >= 0)
    }
    quota = {"metadata": {"name": "rounding"}, "spec": {"hard": hard}}
    code, made = server.request("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    assert code == 201, made
    stored = made["spec"]["hard"]
    assert {key: stored[key] for key in hard if stored[key] != canonical(hard[key], Scale.MILLI)} == {}
