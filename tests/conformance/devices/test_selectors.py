"""Device selectors against upstream's own evaluator: the result, the error's text and the cost.

Expressions and devices are generated. Some hundreds are compared in the suite, and 10,000 with
PODIUM_DIFFERENTIAL=full. The differences that remain are in kubecel/README.md, and `_explained` names them.
"""

import random
from typing import Any

import msgspec
import pytest
from tests.support.devices.witness import Witness
from tests.support.kubecel.expressions import DRIVER, Expressions, device
from tests.support.seeds import seed
from tests.support.servers import FULL

from kubecel import PlainDevice, SelectorCompileError, compile_selector
from kubecel.devices import prepare_device

pytestmark = [pytest.mark.server, pytest.mark.timeout(1800 if FULL else 120)]
_COUNT = 10_000 if FULL else 300
# The suite repeats one seed.
_SUITE_SEED = 1
_MINORS = {"1.36": 36, "1.37": 37}


def _result(expression: str, properties: dict[str, Any], minor: int) -> dict[str, Any]:
    """Return Podium's result in the form of the witness."""
    try:
        selector = compile_selector(expression, minor)
    except SelectorCompileError as error:
        return {"compileError": str(error)}
    found = selector.evaluate(prepare_device(DRIVER, msgspec.convert(properties, PlainDevice), minor))
    if found.error is not None:
        return {"runtimeError": str(found.error), "cost": found.cost}
    return {"matches": found.selected, "cost": found.cost}


def _explained(upstream: dict[str, Any], own: dict[str, Any]) -> bool:
    """Return whether two results differ only as kubecel/README.md states."""
    if upstream == own:
        return True
    if "panic" in upstream:
        return True
    if "Syntax error" in upstream.get("compileError", "") and "Syntax error" in own.get("compileError", ""):
        return True
    shown = " is not optional"
    if upstream.get("runtimeError", "").endswith(shown) and own.get("runtimeError", "").endswith(shown):
        return True
    aborted = upstream.get("runtimeError", "").startswith(("internal error", "operation cancelled"))
    return bool(aborted and upstream["runtimeError"] == own.get("runtimeError"))


def _changes_its_operand(witness: Witness, later: Witness, case: tuple[str, dict[str, Any]]) -> bool:
    """Return whether a sum differs in 1.36 alone, where it changes a decimal operand."""
    expression, properties = case
    is_sum = "add(" in expression or "sub(" in expression
    return (
        witness.minor == "1.36"
        and is_sum
        and _explained(later.select(expression, DRIVER, properties), _result(expression, properties, 37))
    )


def test_generated_selectors_have_upstreams_results(witness: Witness, witness_137: Witness) -> None:
    choice = random.Random(seed() if FULL else _SUITE_SEED)
    source = Expressions(choice)
    kinds: dict[str, int] = {}
    for _ in range(_COUNT):
        expression, properties = source.one(), device(choice)
        upstream = witness.select(expression, DRIVER, properties)
        own = _result(expression, properties, _MINORS[witness.minor])
        assert _explained(upstream, own) or _changes_its_operand(
            witness, witness_137, (expression, properties)
        ), (expression, properties)
        kind = next(iter(own))
        kinds[kind] = kinds.get(kind, 0) + 1
    # The generator reaches every kind of result.
    assert min(kinds.values()) > _COUNT // 20, kinds
    assert set(kinds) == {"matches", "runtimeError", "compileError"}


_NAMED = [
    "device.attributes['gpu.example.com'].model == 'a100'",
    "device.attributes['gpu.example.com'].?family.orValue('none') == 'none'",
    "device.attributes['gpu.example.com'].family == 'x'",
    "device.attributes['unknown.example.com'].family == 'x'",
    "device.attributes.gpu == 1",
    "device.unknown",
    "device.driver",
    "[1][dyn(quantity('1').add(1))] == 1",
    "dyn(quantity('1').add(1)).all(x, true)",
    "dyn(quantity('1')).all(x, true)",
    "unknown(device)",
    "1 + 'a' == 2",
    "device.attributes['gpu.example.com'].model > 1",
    "device.attributes['gpu.example.com'].model.isGreaterThan(semver('1.0.0'))",
    "device.capacity['gpu.example.com'].memory == quantity('40960Mi')",
    "device.capacity['gpu.example.com'].memory.add(1).isInteger()",
    "quantity('40Gi') == device.capacity['gpu.example.com'].memory.add(0)",
    "device.attributes['gpu.example.com'].includes('a100')",
    "device.driver.includes('gpu.example.com')",
    "[1, 'a'].size() == 2",
    "'%d'.format(['a']) == ''",
    "'%s %d'.format(['a']) == ''",
    "dyn(b'x') in {'a': 1}",
    "dyn(b'x') in {}",
    "dyn(semver('7.0.0')) in {'a': device.driver}",
    "dyn(semver('7.0.0')) in device.attributes",
    "dyn(b'x') in device.attributes['gpu.example.com']",
    "-9223372036854775808.0 < -9223372036854775806",
    "dyn(9223372036854775807) == 9223372036854775808.0",
    "9007199254740993 > 9007199254740992.0",
    "18446744073709551615u < 18446744073709551616.0",
    "dyn(9007199254740992.0) in [9007199254740993]",
    "[dyn(9007199254740993)] == [dyn(9007199254740992.0)]",
    "dyn([9007199254740993]).indexOf(9007199254740992.0) == 0",
    "{9007199254740993: 1}[dyn(9007199254740992.0)] == 1",
    "dyn(0.0 / 0.0) == 1",
    "0.0 / 0.0 > 1",
    "'a'.sortBy(x, x).sortBy(x, x) == []",
    "semver('\u00e9', true).major() == 1",
    "ip('%e'.format([-15.0])) == ip('::1')",
    "ip('%.30e'.format([1e-300])) == ip('::1')",
    "ip('%e'.format(['NaN'])) == ip('::1')",
    "ip('%.30f'.format(['-Infinity'])) == ip('::1')",
    "ip('%f'.format([-0.0])) == ip('::1')",
    "ip('%.0f'.format([-0.3])) == ip('::1')",
    "quantity('--1').isInteger()",
    "quantity('.').isInteger()",
    "quantity('Ei').isInteger()",
    "quantity('1e').isInteger()",
    "quantity('0.0').isInteger()",
    "quantity('500m').sub(-9223372036854775808).isLessThan(quantity('40Gi'))",
    "quantity('1').sub(-9223372036854775808).isLessThan(quantity('40Gi'))",
    "quantity('-1').sub(-9223372036854775808).isLessThan(quantity('40Gi'))",
    "quantity('1').add(quantity('0.0Gi')).isInteger()",
    "quantity('1e900').add(1).isGreaterThan(quantity('1e900'))",
    "quantity('1e30').isGreaterThan(quantity('1e20'))",
    "quantity('1e33').asApproximateFloat() == 1e33",
    "quantity('1e400').asApproximateFloat() > 1e308",
    "quantity('12345678901234567890').asApproximateFloat() == 12345678901234567890.0",
    # A comparison with a decimal changes its receiver.
    "device.capacity['gpu.example.com'].memory.isInteger()",
    (
        "device.capacity['gpu.example.com'].memory.isLessThan(quantity('1.5Gi'))"
        " || device.capacity['gpu.example.com'].memory.isInteger()"
    ),
    (
        "quantity('1.5Gi').isLessThan(device.capacity['gpu.example.com'].memory)"
        " && device.capacity['gpu.example.com'].memory.isInteger()"
    ),
    "[quantity('1e3')].exists(x, x.isLessThan(quantity('1.5Gi')) && !x.isInteger())",
    "{quantity('1'): 1, quantity('1'): 2}.size() == 2",
    "device.driver.matches('[')",
    "device.driver.find('[') == ''",
    "duration('x') == duration('1s')",
    "device.driver.startsWith(1)",
    "has(device)",
    "[1].all(1, true)",
    "true && ",
    "(true",
    "true true",
    "1.0 / 0.0 > 1.0",
    "1 / 0 == 1",
    "9223372036854775807 + 1 == 0",
    "lists.range(1000).map(x, lists.range(1000)).size() == 1000",
    "device.attributes['gpu.example.com'].model",
]


@pytest.mark.parametrize("expression", _NAMED)
def test_a_named_selector_has_upstreams_result(witness: Witness, expression: str) -> None:
    properties = {
        "name": "device-0",
        "attributes": {"model": {"string": "a100"}},
        "capacity": {"memory": {"value": "40Gi"}},
    }
    upstream = witness.select(expression, DRIVER, properties)
    own = _result(expression, properties, _MINORS[witness.minor])
    assert _explained(upstream, own)
