"""Closures of comprehensions, and the local variables that they declare.

The start value of an accumulator is evaluated when it is read first: that makes `cel.bind` lazy. An error
of a step becomes the value of the accumulator, which `&&` and `||` of later steps may absorb.

Source: cel-go interpreter/interpretable.go (evalFold, folder).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubecel.calls import Runnable
from kubecel.effort import COST_LIMIT, MAX_STEPS, CostLimitError, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.gotext import go_type
from kubecel.values import Map

_COST, _UNCHARGED = 0, 1
# The effort of a loop without rounds.
_LOOP = 8
_UNSET = object()


@dataclass(frozen=True, slots=True)
class LocalVariable:
    """A place in the frame; an accumulator has a start value, and may collect a list or a map in place."""

    slot: int
    start: Runnable | None = None
    # How deep the evaluation of the start is.
    levels: int = 0
    collects: type | None = None

    def read(self) -> Runnable:
        """Return the closure that reads the variable."""
        slot, start = self.slot, self.start
        if start is None:
            return lambda frame: frame[slot]

        def run(frame: list) -> object:  # type: ignore[type-arg]
            value = frame[slot]
            if value is _UNSET:
                value = frame[slot] = _outcome(start, frame)
            if isinstance(value, SelectorRuntimeError):
                raise value
            return value

        return run


def collecting(variable: LocalVariable, added: Runnable) -> Runnable:
    """Return the addition to a list that only the loop itself holds."""
    read, slot = variable.read(), variable.slot

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[_COST] += 1
        failed: SelectorRuntimeError | None = None
        try:
            read(frame)
        except SelectorRuntimeError as error:
            failed = error
        frame[_COST] += 1
        try:
            more = added(frame)
        except SelectorRuntimeError as error:
            raise failed or error from None
        if failed is not None:
            raise failed
        items = frame[slot]
        meter.make_items(len(more))  # type: ignore[arg-type]
        items += more
        return items

    return run


def _outcome(run: Runnable, frame: list) -> object:  # type: ignore[type-arg]
    """Return a value, or the error in its place."""
    try:
        return run(frame)
    except SelectorRuntimeError as error:
        return error


def fold(
    ranged: Runnable,
    accumulator: LocalVariable,
    variables: tuple[LocalVariable, LocalVariable | None],
    bodies: tuple[Runnable, Runnable, Runnable],
) -> Runnable:
    """Return a loop over a list or a map; the bodies are its condition, its step and its result."""
    condition, step, result = bodies
    held, first = accumulator.slot, variables[0].slot
    second = variables[1].slot if variables[1] is not None else None

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[_UNCHARGED] += _LOOP
        items = ranged(frame)
        frame[held] = accumulator.collects() if accumulator.collects is not None else _UNSET
        for key, value in _rounds(items, pairs=second is not None):
            frame[first] = key
            if second is not None:
                frame[second] = value
            going = _outcome(condition, frame)
            if going is False:
                break
            frame[held] = _outcome(step, frame)
            cost = frame[_COST]
            if cost > COST_LIMIT or cost + frame[_UNCHARGED] > MAX_STEPS:
                raise CostLimitError
        # A macro may use a value twice, which doubles the work with each loop around it.
        cost = frame[_COST]
        if cost > COST_LIMIT or cost + frame[_UNCHARGED] > MAX_STEPS:
            raise CostLimitError
        return result(frame)

    return run


def _rounds(items: object, *, pairs: bool) -> Iterator[tuple[object, object]]:
    """Iterate over the values of the loop's variables."""
    if isinstance(items, list):
        return iter(enumerate(items)) if pairs else ((item, None) for item in items)
    if isinstance(items, Map):
        return iter(items.entries.values())
    shown = go_type(items)
    if pairs:
        raise SelectorRuntimeError(f"unsupported comprehension range type: {shown}")
    raise SelectorRuntimeError(f"got '{shown}', expected iterable type")
