"""Selectors of devices choose the same devices after their strings were renamed."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecel import SelectorRuntimeError, compile_selector
from podium.api.devices import Device, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from podium.ops.selectorwords import Expression, kept_words
from podium.ops.share import Filter, pseudonyms

RENAME = pseudonyms(b"key")
DRIVERS = ("gpu.acme", "nic.acme")
MODELS, RACKS = ("x100", "x200", "model"), ("rack-1", "rack-2", "x100")


def device_class(expression: str) -> DeviceClass:
    return msgspec.convert({"spec": {"selectors": [{"cel": {"expression": expression}}]}}, DeviceClass)


def resource_slice(driver: str, **strings: str) -> ResourceSlice:
    attributes = {name: {"string": each} for name, each in strings.items()}
    return msgspec.convert(
        {"spec": {"driver": driver, "devices": [{"name": "d", "attributes": attributes}]}}, ResourceSlice
    )


def renamed(expression: str, *slices: ResourceSlice) -> str:
    stored = device_class(expression)
    words = kept_words([stored, *slices])
    shared = Filter(frozenset(), RENAME, words=words).share(stored)
    text: str = shared["spec"]["selectors"][0]["cel"]["expression"]
    return text


GPU = resource_slice("gpu.acme", model="x100", rack="rack-1")


# Expressions with braces around each text that is renamed.
@pytest.mark.parametrize(
    "marked",
    [
        'device.driver == "{gpu.acme}"',
        'device.attributes["{gpu.acme}"].model == "{x100}"',
        'device.attributes["{gpu.acme}"]["model"] in ["{x100}", "{x300}"]',
        'device.attributes["resource.kubernetes.io"].pcieRoot == "{pci0000:00}"',
        'device.capacity["{gpu.acme}"].memory.compareTo(quantity("10Gi")) >= 0',
        'device.attributes["{gpu.acme}"].index < 4 || -1 < device.attributes["{gpu.acme}"].index',
        'cel.bind(d, device.attributes["{gpu.acme}"], d.?model.orValue("{none}") == "{x100}")',
    ],
)
def test_texts_that_are_compared_are_renamed(marked: str) -> None:
    assert renamed(re.sub(r"[{}]", "", marked), GPU) == _with_names(marked)


@pytest.mark.parametrize(
    ("expression", "marked"),
    [
        ("device.driver != 'gpu.acme'", 'device.driver != "{gpu.acme}"'),
        ('device.driver == r"gpu.acme"', 'device.driver == "{gpu.acme}"'),
        ('device.driver == """gpu.acme"""', 'device.driver == "{gpu.acme}"'),
        (r'device.driver == "gpu\u002eacme"', 'device.driver == "{gpu.acme}"'),
        (
            'device.attributes["gpu.acme"].v.isGreaterThan(semver("1.2.3")) // for ACME\n && true',
            'device.attributes["{gpu.acme}"].v.isGreaterThan(semver("1.2.3")) \n && true',
        ),
    ],
    ids=["single quotes", "a raw string", "three quotes", "an escape", "a comment"],
)
def test_renamed_texts_are_written_in_one_form(expression: str, marked: str) -> None:
    assert renamed(expression, GPU) == _with_names(marked)


def _with_names(marked: str) -> str:
    return re.sub(r"\{(.*?)\}", lambda found: RENAME(found[1]), marked)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ('device.driver == "gpu.acme"', {"model", "rack"}),
        (
            'device.attributes["gpu.acme"].model.startsWith("x")',
            {"model", "rack", "gpu.acme", "x", "x100"},
        ),
        ('device.driver.endsWith(".acme")', {"model", "rack", "gpu.acme", ".acme"}),
        ('device.attributes["nic.acme"].rack < "rack-2"', {"model", "rack", "nic.acme", "rack-2", "rack-1"}),
        (
            'device.attributes["gpu.acme"]["ra" + "ck"] == "x"',
            {"model", "rack", "gpu.acme", "ra", "ck", "x", "x100", "rack-1", ""},
        ),
        (
            'device.attributes["a"].exists(k, k.startsWith("z"))',
            {"model", "rack", "a", "z", "gpu.acme", "x100", "rack-1", ""},
        ),
        ("device.attributes.unknown()", {"model", "rack", "gpu.acme", "x100", "rack-1", ""}),
        ("quantity(device.attributes.a.rack) == quantity('1')", {"model", "rack", "1", "rack-1"}),
        ("b'x' == b'x'", {"model", "rack"}),
        ("'not closed", {"model", "rack", "gpu.acme", "x100", "rack-1", ""}),
        (
            "device.attributes.`gpu.acme`.model == 'x'",
            {"model", "rack", "gpu.acme", "x100", "rack-1", "", "x"},
        ),
        ("'\\ud800' == device.driver", {"model", "rack", "gpu.acme", "x100", "rack-1", ""}),
    ],
    ids=[
        "compared only",
        "characters of one attribute",
        "characters of the driver",
        "an order",
        "a computed name",
        "a loop",
        "an unknown function",
        "a parsed attribute",
        "bytes",
        "broken",
        "an escaped name",
        "no character",
    ],
)
def test_strings_that_are_read_by_character_stay(expression: str, words: set[str]) -> None:
    """The names of attributes stay in any case."""
    assert kept_words([device_class(expression), GPU]) == words


def test_selectors_of_claims_and_templates_count() -> None:
    selector = {"cel": {"expression": 'device.attributes["gpu.acme"].rack.contains("1")'}}
    for request in ({"exactly": {"selectors": [selector]}}, {"firstAvailable": [{"selectors": [selector]}]}):
        spec = {"devices": {"requests": [request]}}
        for stored in (
            msgspec.convert({"spec": spec}, ResourceClaim),
            msgspec.convert({"spec": {"spec": spec}}, ResourceClaimTemplate),
        ):
            assert "rack-1" in kept_words([stored, GPU])


def selects(expression: str, driver: str, device: Device) -> bool | None:
    """Return whether an expression selects a device, None if it fails."""
    try:
        return compile_selector(expression).selects(driver, device)
    except SelectorRuntimeError:
        return None


_values = st.sampled_from([*MODELS, *RACKS, *DRIVERS])
_atoms = st.one_of(
    st.builds('device.driver == "{}"'.format, st.sampled_from(DRIVERS)),
    st.builds('device.driver.startsWith("{}")'.format, st.sampled_from(["gpu", "nic."])),
    st.builds('device.attributes["common.acme"].{} == "{}"'.format,
              st.sampled_from(["model", "rack"]), _values),
    st.builds('device.attributes["common.acme"]["rack"] in ["{}", "{}"]'.format, _values, _values),
    st.builds('device.attributes["common.acme"].{}.endsWith("{}")'.format,
              st.sampled_from(["model", "rack"]), st.sampled_from(["1", "00", "-2"])),
    st.just('device.attributes["common.acme"].rack < "rack-2"'),
    st.just('device.attributes["common.acme"].rack == device.attributes["common.acme"].model'),
    st.builds('device.attributes.zone.model == "{}"'.format, _values),
    st.builds('device.attributes["zone"].?model.orValue("none") == "{}"'.format, _values),
    st.builds('cel.bind(d, device.attributes["common.acme"], d.rack == r"{}")'.format, _values),
    st.builds('device.attributes["common.acme"].exists(k, k.startsWith("{}"))'.format,
              st.sampled_from(["mo", "x"])),
)  # fmt: skip
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
    ),
    max_leaves=4,
)
_slices = st.lists(
    st.tuples(st.sampled_from(DRIVERS), st.sampled_from(MODELS), st.sampled_from(RACKS)),
    min_size=1,
    max_size=4,
)


@given(st.lists(_expressions, min_size=1, max_size=3), _slices)
def test_the_same_devices_are_selected(expressions: list[str], devices: list[tuple[str, str, str]]) -> None:
    classes = [device_class(each) for each in expressions]
    slices = [
        resource_slice(driver, **{"common.acme/model": model, "common.acme/rack": rack, "zone/model": model})
        for driver, model, rack in devices
    ]
    shared = Filter(frozenset(), RENAME, words=kept_words([*classes, *slices]))
    renamed_slices = [msgspec.convert(shared.share(each), ResourceSlice) for each in slices]
    for stored in classes:
        changed = msgspec.convert(shared.share(stored), DeviceClass)
        before, after = (_selected(stored, slices), _selected(changed, renamed_slices))
        assert after == before


def _selected(stored: DeviceClass, slices: list[ResourceSlice]) -> list[bool | None]:
    (selector,) = stored.spec.selectors or []
    assert selector.cel is not None
    return [
        selects(selector.cel.expression, each.spec.driver, device)
        for each in slices
        for device in each.spec.devices or ()
    ]


@given(st.text("\"'\\rbu0041/xX{}[]().?`\n ", max_size=20))
def test_any_text_is_read(text: str) -> None:
    """An expression in a file may be anything; without renaming only comments are left out."""
    assert Expression(text.replace("/", "")).renamed(lambda word: word) == text.replace("/", "")
