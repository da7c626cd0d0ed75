"""Functions of selectors end soon, with a result or an error of CEL, for any text that a tenant writes.

Each case once took minutes, or raised an error of Python: a number whose digits are computed, a text that a
pattern reads again from each place, an exponent past the range of doubles.
"""

import contextlib

import pytest

from kubecel import PlainDevice, SelectorCompileError, SelectorRuntimeError, compile_selector

# Half a selector: the API server accepts 10 KiB.
_MANY = 4500
_TEXTS = {
    "digits": "1" * _MANY,
    "digits of a fraction": "0." + "1" * _MANY,
    "digits and a unit": "1" * _MANY + "s",
    "digits of a fraction and a unit": "0." + "1" * _MANY + "s",
    "an exponent of twenty digits": "1e" + "9" * 20,
    "an exponent of many digits": "1e" + "9" * _MANY,
    "an exponent past doubles": "1e400",
    "an exponent past memory": "1e2000000000",
    "a negative number of that size": "-1e2000000000",
    "an exponent below nanos": "1e-2000000000",
    "a decimal past memory": "9" * 19 + "e2000000000",
    "hexadecimal digits": "0x" + "f" * _MANY,
    "parts of a version": "1.0.0-" + "1." * 2000 + "1",
    "a version of many digits": "1" * _MANY + ".0.0",
    "colons": ":" * _MANY,
    "a long prefix": "10.0.0.0/" + "1" * _MANY,
    "a long port": "http://a:" + "1" * _MANY,
    "clauses": "%" * _MANY,
    "a long precision": "%." + "9" * _MANY + "f",
    "a long fraction of a second": "2020-01-01T00:00:00." + "1" * _MANY + "Z",
    "digits of an offset": "1" * _MANY + ":00",
    "a large offset": "+99999999999999999:00",
    "a long zone": "2020-01-01T00:00:00+" + "1" * _MANY,
    "many hours": "1h" * 2000,
    "digits that are not ASCII": "\u0661\u0662",
    "half a character": "\ud83d",
}
_CALLS = (
    "int({})", "uint({})", "double({})", "bool({})", "bytes({})", "duration({})", "timestamp({})",
    "quantity({}).isInteger()", "quantity({}).asInteger()", "quantity({}).asApproximateFloat()",
    "quantity({}).isGreaterThan(quantity('1'))", "quantity('1').isLessThan(quantity({}))",
    "quantity({}).add(1).isInteger()", "quantity({}).sub(quantity('1n')).compareTo(quantity({}))",
    "quantity({}) == quantity('1')", "isQuantity({})", "semver({})", "semver({}, true)", "isSemver({})",
    "ip({})", "cidr({})", "url({})", "isURL({})", "{}.format([1.5])", "'%s %x'.format([{}, {}])", "{}.size()",
    "format.dns1123Label().validate({})", "format.date().validate({})", "format.datetime().validate({})",
    "format.named({})", "timestamp('2020-01-01T00:00:00Z').getHours({})", "{} in device.attributes",
    "{}.upperAscii().replace('1', '2').split('2').size()", "sets.contains([{}], [{}])",
    "device.attributes[{}].x",
)  # fmt: skip


def _ended(expression: str) -> bool:
    """Evaluate an expression, and return True; an error that is not CEL's is raised."""
    with contextlib.suppress(SelectorCompileError, SelectorRuntimeError):
        compile_selector(expression).selects("gpu.example.com", PlainDevice())
    return True


@pytest.mark.timeout(20)
@pytest.mark.parametrize("call", _CALLS)
def test_a_hostile_text_ends_a_call_soon(call: str) -> None:
    # A comparison with a dynamic value fits every type.
    assert all(_ended(f"dyn({call.replace('{}', repr(text))}) == 1") for text in _TEXTS.values())
