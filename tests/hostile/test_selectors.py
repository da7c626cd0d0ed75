"""Hostile device selectors end at a limit: no recursion, time or memory without a bound.

Tenants write selectors. Every case ends with upstream's error, or with a result, within the cost limit.
"""

import pytest

from podium.api.devices import Device
from podium.cel.nodes import SelectorCompileError, SelectorRuntimeError
from podium.cel.selector import compile_selector

_TOO_DEEP = "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: "
_TOO_TALL = "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded"
_TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_MANY = "[0,1,2,3,4,5,6,7,8,9]"


def _nested_loops(depth: int) -> str:
    body = "true"
    for level in range(depth):
        body = f"{_MANY}.all(v{level}, {body})"
    return body


def _doubled(name: str, start: str, times: int, result: str) -> str:
    """Return a value that is added to itself in each of many bindings."""
    text = result.replace("?", f"{name}{times}")
    for level in range(times, 0, -1):
        text = f"cel.bind({name}{level}, {name}{level - 1} + {name}{level - 1}, {text})"
    return f"cel.bind({name}0, {start}, {text})"


def _repeated(times: int) -> str:
    """Return a text that a format repeats eight times in each of many bindings."""
    text = f"t{times} == ''"
    for level in range(times, 0, -1):
        parts = ", ".join([f"t{level - 1}"] * 8)
        text = f"cel.bind(t{level}, '%s%s%s%s%s%s%s%s'.format([{parts}]), {text})"
    return f"cel.bind(t0, 'aaaaaaaaaa', {text})"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("(" * 1000 + "true" + ")" * 1000, _TOO_DEEP, id="parentheses"),
        pytest.param("[" * 3000 + "]" * 3000, _TOO_DEEP, id="lists"),
        pytest.param("!(" * 1000 + "true" + ")" * 1000, _TOO_DEEP, id="negations"),
        pytest.param("1" + "+1" * 1000 + " == 1", _TOO_TALL, id="a long sum"),
        pytest.param("device" + ".a" * 1000, _TOO_TALL, id="a long path"),
        pytest.param("true ? true : " * 500 + "true", _TOO_DEEP, id="conditions"),
        pytest.param(_nested_loops(260), _TOO_DEEP, id="nested loops"),
        pytest.param("1" * 9000 + " == 1", "invalid int literal", id="a huge number"),
        pytest.param("true" + " " * 10_240, "too long", id="a long text"),
        pytest.param(
            "'a'.matches('" + "a" * 5000 + "{1001}')", "invalid matches argument", id="a repetition"
        ),
        pytest.param(
            "'a'.matches('((a{100}){100}){100}')", "invalid matches argument", id="nested repetitions"
        ),
        pytest.param(
            "'a'.matches('" + "(" * 2000 + ")" * 2000 + "')", "invalid matches argument", id="groups"
        ),
    ],
)
def test_an_expression_is_refused(expression: str, text: str) -> None:
    with pytest.raises(SelectorCompileError) as refused:
        compile_selector(expression)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(_nested_loops(30), id="nested loops"),
        pytest.param("lists.range(1000000).all(x, lists.range(1000000).all(y, true))", id="long ranges"),
        pytest.param(_doubled("a", "'aaaaaaaaaa'", 30, "? == ''"), id="a doubled text"),
        pytest.param(_doubled("a", "[1, 2, 3, 4]", 30, "? == []"), id="a doubled list"),
        pytest.param(_doubled("a", "[[1, 2], [3, 4]]", 18, "? == ?"), id="a comparison of long lists"),
        pytest.param(
            "cel.bind(s, lists.range(100000).map(i, 'aaaaaaaaaa').join(), s.replace('', s) == s)",
            id="replace",
        ),
        pytest.param("lists.range(5000).distinct() == []", id="a square"),
        pytest.param("sets.equivalent(lists.range(5000), lists.range(5000))", id="sets"),
        pytest.param(_repeated(9), id="formats"),
    ],
)
def test_an_evaluation_is_cancelled(expression: str) -> None:
    with pytest.raises(SelectorRuntimeError, match=_TOO_COSTLY):
        compile_selector(expression).selects("gpu.example.com", Device())


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 30 + "true" + ")" * 30, id="some parentheses"),
        pytest.param("[1].all(a, " * 38 + "true" + ")" * 38, id="loops over one item"),
        pytest.param("!" * 9000 + "false || true", id="many signs"),
        pytest.param(" && ".join(["true"] * 1200), id="a long conjunction"),
        pytest.param("!('" + "a" * 2000 + "'.matches('(a*)*b'))", id="a pattern that backtracks"),
        pytest.param("!('" + "a" * 60 + "'.matches('(a|aa)+$b'))", id="an ambiguous pattern"),
        pytest.param("'" + "a" * 500 + "'.matches('" + "a?" * 500 + "a" * 500 + "')", id="optional letters"),
    ],
)
def test_an_expression_is_evaluated(expression: str) -> None:
    assert compile_selector(expression).selects("gpu.example.com", Device()) is True
