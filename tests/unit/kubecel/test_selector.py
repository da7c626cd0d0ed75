"""Selectors of both minors: results, and the errors that kube-scheduler shows."""

import pytest

from kubecel import (
    PlainAttribute,
    PlainCapacity,
    PlainDevice,
    SelectorCompileError,
    SelectorRuntimeError,
    compile_selector,
)

_DRIVER = "gpu.example.com"
_DEVICE = PlainDevice(
    attributes={
        "model": PlainAttribute(string="a100"),
        "index": PlainAttribute(integer=3),
        "version": PlainAttribute(version="1.2.3"),
        "dra.example.com/healthy": PlainAttribute(boolean=True),
    },
    capacity={"memory": PlainCapacity(value="80Gi")},
)
_NO_SUM = (
    "compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'"
    "\n | 1 + 'a' == 2\n | ..^"
)
_NO_BOOL = (
    "CEL result of type string could not be converted to bool: unsupported native conversion from string to"
    " 'bool'"
)
_TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for"
    " optional fields"
)


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model == 'a100'",
        "device.attributes['dra.example.com'].healthy",
        "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.2.0'))",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) > 0",
        "!('model' in device.attributes['unknown.example.com'])",
        "!has(device.attributes['gpu.example.com'].family)",
        "device.attributes['gpu.example.com'].?family.orValue('none') == 'none'",
        "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.model.matches('^a[0-9]+$'))",
        "!device.allowMultipleAllocations",
        "1 / 0 == 1 || true",
    ],
)
def test_a_device_is_selected(expression: str, minor: int) -> None:
    assert compile_selector(expression, minor).selects(_DRIVER, _DEVICE) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        (
            "device.a == 'x'",
            "compilation failed: ERROR: <input>:1:7: undefined field 'a'\n | device.a == 'x'\n | ......^",
        ),
        (
            "1 + 'a' == 2",
            _NO_SUM,
        ),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
    ],
)
def test_an_expression_is_refused(expression: str, text: str) -> None:
    for minor in (36, 37):
        with pytest.raises(SelectorCompileError) as refused:
            compile_selector(expression, minor)
        assert str(refused.value) == text


@pytest.mark.parametrize(
    ("expression", "text", "hint"),
    [
        ("device.attributes['gpu.example.com'].family == 'x'", "no such key: family", _HINT),
        ("device.attributes['gpu.example.com'].model > 1", "no such overload", ""),
        (
            "device.attributes['gpu.example.com'].model.isGreaterThan(semver('1.0.0'))",
            "no such overload: isGreaterThan(string, kubernetes.Semver)",
            "",
        ),
        (
            "device.attributes['gpu.example.com'].model",
            _NO_BOOL,
            "",
        ),
        (
            "lists.range(2000).all(x, lists.range(2000).all(y, true))",
            "operation cancelled: actual cost limit exceeded",
            "",
        ),
    ],
)
def test_an_evaluation_fails(expression: str, text: str, hint: str) -> None:
    for minor, shown in ((36, text), (37, text + hint)):
        with pytest.raises(SelectorRuntimeError) as failed:
            compile_selector(expression, minor).selects(_DRIVER, _DEVICE)
        assert str(failed.value) == shown


def test_a_list_is_an_attribute_since_137() -> None:
    device = PlainDevice(attributes={"models": PlainAttribute(strings=["a", "b"])})
    expression = "device.attributes['gpu.example.com'].models.includes('b')"
    assert compile_selector(expression, 37).selects(_DRIVER, device) is True
    with pytest.raises(SelectorRuntimeError, match="attribute models: unsupported attribute value"):
        compile_selector(expression, 36).selects(_DRIVER, device)


def test_an_invalid_version_fails_every_selector() -> None:
    device = PlainDevice(attributes={"version": PlainAttribute(version="1")})
    with pytest.raises(SelectorRuntimeError) as failed:
        compile_selector("true").selects(_DRIVER, device)
    text = "attribute version: parse semantic version: No Major.Minor.Patch elements found"
    assert str(failed.value) == text


def test_a_compiled_selector_is_kept() -> None:
    assert compile_selector("true", 36) is compile_selector("true", 36)
    assert compile_selector("true", 36) is not compile_selector("true", 37)
