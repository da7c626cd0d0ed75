"""A table of selector expressions in Python, for tests of the allocator that do not test CEL.

It has the forms that upstream's table of the allocator and our generators use. An unknown expression is a
compile error, an absent attribute an error at run time, both with a text of the caller.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from kubecel import SelectorCompileError, SelectorRuntimeError
from podium.api.devices import Device, DeviceAttribute
from podium.api.quantity import parse

_Value = TypeVar("_Value")
_Term = Callable[[re.Match[str], str, Device], bool]


def selecting(
    compile_text: str = "undeclared", runtime_text: str = "no such key", *, lists: bool = True
) -> Callable[[str, str, Device], bool]:
    """Return an evaluator of expressions whose errors have these texts; `lists` are known attributes."""

    def select(expression: str, driver: str, device: Device) -> bool:
        if not all(_known(each, lists=lists) for each in (device.attributes or {}).values()):
            raise SelectorRuntimeError(runtime_text)
        return any(
            all(_holds(part, driver, device, compile_text, runtime_text) for part in option.split(" && "))
            for option in expression.split(" || ")
        )

    return select


def _holds(text: str, driver: str, device: Device, compile_text: str, runtime_text: str) -> bool:
    for form, term in _FORMS:
        found = form.fullmatch(text.strip())
        if found is not None:
            try:
                return term(found, driver, device)
            except KeyError:
                raise SelectorRuntimeError(runtime_text) from None
    raise SelectorCompileError(compile_text)


def _known(attribute: DeviceAttribute, *, lists: bool) -> bool:
    values = (attribute.string, attribute.integer, attribute.boolean, attribute.version)
    several = (attribute.strings, attribute.integers, attribute.booleans, attribute.versions)
    return any(each is not None for each in (*values, *(several if lists else ())))


def _attribute(found: re.Match[str], driver: str, device: Device) -> bool:
    attribute = _listed(device.attributes or {}, driver, found[1], found[2])
    wanted = found[3]
    return attribute.string == wanted if wanted is not None else bool(attribute.boolean)


def _capacity(found: re.Match[str], driver: str, device: Device) -> bool:
    listed = _listed(device.capacity or {}, driver, found[1], found[2] or found[3])
    return parse(listed.value) >= parse(found[4])


def _listed(values: dict[str, _Value], driver: str, domain: str, name: str) -> _Value:
    """Return a value by its full name, which a device may list without its driver's domain."""
    full = f"{domain}/{name}"
    return values[full] if full in values or domain != driver else values[name]


_FORMS: tuple[tuple[re.Pattern[str], _Term], ...] = (
    (re.compile(r'device\.driver == "([^"]*)"'), lambda found, driver, _: driver == found[1]),
    (
        re.compile(r"device\.allowMultipleAllocations == (true|false)"),
        lambda found, _, device: bool(device.allowMultipleAllocations) == (found[1] == "true"),
    ),
    (re.compile(r'device\.attributes\["([^"]*)"\]\.(\w+)(?: == "([^"]*)")?'), _attribute),
    (
        re.compile(
            r'device\.capacity\["([^"]*)"\](?:\.(\w+)|\["([^"]*)"\])\.compareTo\(quantity\("(.*)"\)\) >= 0'
        ),
        _capacity,
    ),
)
