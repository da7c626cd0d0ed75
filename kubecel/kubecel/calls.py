"""Closures of calls: the arguments, the function, and the cost of the call.

With one or two arguments all are evaluated before an error is reported, as in cel-go; with more, the
first error ends the call without a cost.

Source: cel-go interpreter/interpretable.go.
"""

from collections.abc import Callable

from kubecel.costs import Cost
from kubecel.errors import SelectorRuntimeError
from kubecel.values import Function, check_hashable, contains, read_key

Runnable = Callable[[list], object]  # type: ignore[type-arg]
# Places of a frame: the cost, and the effort that it lacks. That is negative where the cost is that of a
# size, because the function counts its own effort.
_COST, _UNCHARGED = 0, 1
# The effort of an error beside that of its call.
_FAILED = 2


def _charge(frame: list[int], price: int) -> None:
    frame[_COST] += price
    frame[_UNCHARGED] += 1 - price


def nullary(function: Function, cost: int | Cost) -> Runnable:
    """Return a call without arguments."""

    def run(frame: list) -> object:  # type: ignore[type-arg]
        result = function()
        _charge(frame, cost if isinstance(cost, int) else cost([], result))
        return result

    return run


def unary(argument: Runnable, function: Function, cost: int | Cost) -> Runnable:
    """Return a call with one argument."""
    if isinstance(cost, int):

        def fixed(frame: list) -> object:  # type: ignore[type-arg]
            try:
                return function(argument(frame))
            finally:
                frame[_COST] += cost

        return fixed

    def run(frame: list) -> object:  # type: ignore[type-arg]
        given: object = None
        try:
            given = argument(frame)
            result = function(given)
        except SelectorRuntimeError as error:
            _charge(frame, cost([error if given is None else given], error))
            raise
        _charge(frame, cost([given], result))
        return result

    return run


def binary(first: Runnable, second: Runnable, function: Function, cost: int | Cost) -> Runnable:
    """Return a call with two arguments."""
    fixed, sized = (cost, None) if isinstance(cost, int) else (0, cost)

    def run(frame: list) -> object:  # type: ignore[type-arg]
        failed: SelectorRuntimeError | None = None
        try:
            left = first(frame)
        except SelectorRuntimeError as error:
            failed = left = error
        try:
            right = second(frame)
        except SelectorRuntimeError as error:
            failed, right = failed or error, error
        if failed is None:
            try:
                result = function(left, right)
            except SelectorRuntimeError as error:
                failed = error
            else:
                price = sized([left, right], result) if sized is not None else fixed
                frame[_COST] += price
                frame[_UNCHARGED] += 1 - price
                return result
        _charge(frame, sized([left, right], failed) if sized is not None else fixed)
        frame[_UNCHARGED] += _FAILED
        raise failed

    return run


def call(arguments: list[Runnable], function: Function, cost: int | Cost) -> Runnable:
    """Return a call whose first error ends it; upstream charges for it if all arguments were evaluated."""
    rest, last = arguments[:-1], arguments[-1]

    def run(frame: list) -> object:  # type: ignore[type-arg]
        given = [argument(frame) for argument in rest]
        try:
            given.append(last(frame))
        except SelectorRuntimeError as error:
            _charge(frame, cost if isinstance(cost, int) else cost([*given, error], error))
            raise
        try:
            result = function(*given)
        except SelectorRuntimeError as error:
            _charge(frame, cost if isinstance(cost, int) else cost(given, error))
            raise
        _charge(frame, cost if isinstance(cost, int) else cost(given, result))
        return result

    return run


def constant_membership(value: Runnable, items: list[object]) -> Runnable:
    """Return the test whether a value is in a list of constants, which upstream does not charge for."""
    texts = frozenset(item for item in items if isinstance(item, str))
    rest = [item for item in items if not isinstance(item, str)]

    def run(frame: list) -> bool:  # type: ignore[type-arg]
        frame[_UNCHARGED] += 1
        candidate = value(frame)
        check_hashable(candidate)
        read_key(candidate)
        return candidate in texts if isinstance(candidate, str) else contains(rest, candidate)

    return run
