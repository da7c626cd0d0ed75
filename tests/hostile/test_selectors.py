"""Hostile device selectors end at a limit: no recursion, time or memory without a bound.

Tenants write selectors. Every case ends with upstream's error, or with a result, within the cost limit.
"""

import inspect
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.kubecel.nesting import bound, within

from kubecel import PlainDevice, SelectorCompileError, SelectorRuntimeError, compile_selector
from kubecel.devices import prepare_device
from kubecel.selector import KEPT_BYTES, SelectorCache

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
        compile_selector(expression).selects("gpu.example.com", PlainDevice())


def test_no_call_gives_effort_back() -> None:
    endless = "lists.range(1000000).all(x, lists.range(1000000).all(y, true))"
    selector = compile_selector(f"lists.range(-9223372036854775807).size() == 0 && {endless}", 36)
    with pytest.raises(SelectorRuntimeError, match=_TOO_COSTLY):
        selector.selects("gpu.example.com", PlainDevice())


def test_a_call_that_is_refused_takes_no_effort() -> None:
    selector = compile_selector(bound("'aaaaaaaaaa'", 30, "$ + $", "$ == ''"))
    found = selector.evaluate(prepare_device("gpu.example.com", PlainDevice(), 37))
    assert str(found.error) == _TOO_COSTLY
    assert found.effort < 2000


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
    assert compile_selector(expression).selects("gpu.example.com", PlainDevice()) is True


# As deep as an expression may be, in each way, and a little deeper.
_DEEP = {
    "parentheses": "(" * 39 + "true" + ")" * 39,
    "lists": "[" * 39 + "]" * 39 + " == []",
    "lists, deeper": "[" * 41 + "]" * 41 + " == []",
    "a sum": "1" + " + 1" * 98 + " == 99",
    "a sum, deeper": "1" + " + 1" * 100 + " == 101",
    "conditions": "(true ? " * 19 + "1" + " : 2)" * 19 + " == 1",
    "loops": within(38, "[1].all(v#, $)"),
    "loops that collect": within(38, "[1].map(v#, true, $) == []"),
    "loops over optional values": within(38, "optional.of(1).optMap(v#, $).hasValue()"),
    "sorted lists": within(25, "[1].sortBy(v#, $).size() == 1"),
    "sorted lists, deeper": within(38, "[1].sortBy(v#, $) == []"),
    "variables": bound("0", 37, "$ + 1 + 1", "$ == 74"),
    "variables, deeper": bound("0", 37, "$" + " + 1" * 50, "$ == 1850"),
    "values": bound("0", 18, "[[[$]]]", "$ == $ && '%s'.format([$]) != ''"),
    "values, deeper": bound("0", 30, "[[[[[$]]]]]", "$ == $"),
    "types": bound("{1: 1}", 30, "{$: $}", "$ == $"),
    "doubled macros": "optional.of(1)" + ".optMap(a, a)" * 12 + ".hasValue()",
    "a pattern made in loops": within(
        28, "[1].transformMap(k#, v#, $).size() == 1", f"'a'.matches('{'(' * 50}a{')' * 50}' + '$')"
    ),
    "an error in a text": bound("0", 18, "[[[$]]]", "optional.unwrap([dyn($)]).size() == 1"),
}


def _answer(expression: str) -> tuple[object, ...]:
    """Return the result, the error and the cost of an expression that is compiled for it."""
    try:
        selector = SelectorCache().get(expression, 37)[0]
    except SelectorCompileError as error:
        return False, str(error)
    found = selector.evaluate(prepare_device("gpu.example.com", PlainDevice(), 37))
    return found.selected, str(found.error), found.cost, found.effort


def _at_depth(frames: int, expression: str) -> tuple[object, ...]:
    return _at_depth(frames - 1, expression) if frames else _answer(expression)


@pytest.mark.parametrize("name", _DEEP)
def test_an_answer_does_not_depend_on_the_stack_of_the_caller(name: str) -> None:
    expected = _answer(_DEEP[name])
    refused = any(words in str(expected[1]) for words in ("nested too deeply", "recursion", "types in over"))
    assert refused is name.endswith(", deeper"), expected
    room = sys.getrecursionlimit() - len(inspect.stack())
    assert [_at_depth(frames, _DEEP[name]) for frames in (80, room - 150, room - 60)] == [expected] * 3
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(_answer, _DEEP[name]).result() == expected


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
