"""Hostile device selectors end at a limit: no recursion, time or memory without a bound.

Tenants write selectors. Every case ends with upstream's error, or with a result, within the cost limit.
"""

import pytest

from podium.api.devices import Device
from podium.cel.nodes import SelectorCompileError, SelectorRuntimeError
from podium.cel.selector import KEPT_BYTES, SelectorCache, compile_selector

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
        pytest.param(
            " || ".join(f"'a'.matches('(a{{1,30}}){{1,30}}{number}')" for number in range(200)),
            "regular expressions of the selector are too large",
            id="many repetitions",
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
        pytest.param(
            f"lists.range(100).exists(i, '{'a' * 60}'.matches('((a{{1,30}}){{1,30}}b)+'))",
            id="searches that cost little",
        ),
        pytest.param(
            "lists.range(2000).exists(i, 'a'.matches('(a{1,30}){1,30}b' + string(i)))",
            id="patterns made at run time",
        ),
        pytest.param(
            "lists.range(100000).exists(i, dyn('a').matches('(a{1,900}b){30}c' + string(i)) || false)",
            id="refused patterns made at run time",
        ),
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


def test_compiled_selectors_are_kept_up_to_a_size() -> None:
    cache, pattern = SelectorCache(), "".join(f"(a{{1,30}}){{1,30}}{number}" for number in range(8))
    first = f"'0'.matches('{pattern}')"
    sizes = []
    for number in range(400):
        cache.get(f"'{number}'.matches('{pattern}')", 37)
        sizes.append(cache.size)
    assert max(sizes) <= KEPT_BYTES
    assert sizes[-1] > KEPT_BYTES / 2
    assert cache.get("'399'.matches('" + pattern + "')", 37)[1] == 0, "the last one is kept"
    assert cache.get(first, 37)[1] > 0, "the first one is compiled again"
