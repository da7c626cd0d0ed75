"""Device selectors: compiled once, then asked about devices.

The environment is that of kube-scheduler, which compiles every selector as a stored expression. The
errors are those that kube-scheduler writes after `CEL compile error: ` and `CEL runtime error: `.

Tenants write selectors. One that is as costly as the API server accepts takes a second for a device. So an
evaluation tells its cost, and callers limit the sum. Compiled selectors are kept up to a number of bytes.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go and errors.go.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple, ParamSpec, TypeVar

from kubecel import statictypes as types
from kubecel.checker import check, validate
from kubecel.devices import (
    DeviceLike,
    PreparedDevice,
    UnsupportedDeviceError,
    prepare_device,
    preparing,
    with_own_quantities,
)
from kubecel.effort import COST_LIMIT, EXCEEDED, MAX_EFFORT, AbortedError, CostLimitError, meter
from kubecel.errors import SelectorCompileError, SelectorRuntimeError
from kubecel.nodes import MAX_LEVELS, Problems, TooDeepError, levels_of
from kubecel.parser import parse
from kubecel.planner import FIRST, SelectorPlan, planned_selector
from kubecel.statictypes import MAX_TYPE_DEPTH, type_text
from kubecel.values import Map, type_name

P = ParamSpec("P")
T = TypeVar("T")
NEWEST_MINOR = 37
MAX_LENGTH = 10 * 1024
# The bytes that compiled selectors may take: estimates for a character, and for an instruction of a pattern.
KEPT_BYTES = 2**26
_CHARACTER_BYTES, _INSTRUCTION_BYTES = 100, 300
# The effort after which a batch ends.
BATCH_EFFORT = 20_000
# Any evaluation fits on the stack of a caller that is no deeper, and needs a thread of its own above that.
# One of few levels takes no more frames than a thread does.
_SHALLOW, _FEW = 150, 15
_TOO_COSTLY = (
    f"the expression is too costly to compile: over {MAX_EFFORT:,} units of effort, or types in over"
    f" {MAX_TYPE_DEPTH} types"
)
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for"
    " optional fields"
)
# What Go's conversion to bool says about values of each type.
_NO_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "kubernetes.URL": "type conversion error from 'URL' to 'bool'",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
    "net.IP": "type conversion error from 'IP' to 'bool'",
    "net.CIDR": "type conversion error from 'CIDR' to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
}


class Evaluation(NamedTuple):
    """The result for one device: whether it is selected, or the error; and the cost as Kubernetes counts it.

    `effort` is the cost with what Kubernetes does not charge for, in units of about a microsecond.
    """

    selected: bool
    error: SelectorRuntimeError | None
    cost: int
    effort: int


class CompiledSelector:
    """A compiled selector of one minor of Kubernetes."""

    __slots__ = ("_changes", "_minor", "_plan", "effort", "expression", "size")

    def __init__(self, expression: str, compiled: SelectorPlan, minor: int) -> None:
        """Take the compiled expression."""
        self.expression = expression
        self._plan = compiled
        self._minor = minor
        # The effort of compiling it.
        self.effort = MAX_EFFORT - meter.left
        # Only these calls tell a quantity that a comparison has changed.
        self._changes = any(call in expression for call in ("isInteger", "asInteger", "sub"))
        # In bytes, estimated.
        self.size = _CHARACTER_BYTES * len(expression) + _INSTRUCTION_BYTES * compiled.instructions

    def selects(self, driver: str, device: DeviceLike) -> bool:
        """Return whether a device of a driver is selected. Raises SelectorRuntimeError."""
        evaluation = self.evaluate(prepare_device(driver, device, self._minor))
        if evaluation.error is not None:
            raise evaluation.error
        return evaluation.selected

    def evaluate(self, device: PreparedDevice) -> Evaluation:
        """Return the result for a prepared device with its cost."""
        if isinstance(device, UnsupportedDeviceError):
            return Evaluation(selected=False, error=SelectorRuntimeError(str(device)), cost=0, effort=0)
        if self._plan.levels <= _FEW:
            return self._evaluated(device)
        try:
            sys._getframe(_SHALLOW)  # noqa: SLF001 - nothing else tells the depth as fast
        except ValueError:
            return self._evaluated(device)
        return _on_own_stack(self._evaluated, device)

    def _evaluated(self, device: Map) -> Evaluation:
        value = with_own_quantities(device) if self._changes else device
        frame: list[object] = [0, 0, value, *(None,) * (self._plan.size - FIRST)]
        result: object = None
        error: SelectorRuntimeError | None = None
        meter.begin()
        try:
            result = self._plan.run(frame)
        except AbortedError as aborted:
            error = SelectorRuntimeError(str(aborted))
        except SelectorRuntimeError as failure:
            error = failure
        cost, uncharged = frame[:2]
        assert isinstance(cost, int)
        assert isinstance(uncharged, int)
        effort = max(0, cost + uncharged) + MAX_EFFORT - meter.left
        if cost > COST_LIMIT:
            error = SelectorRuntimeError(EXCEEDED)
        elif error is None and not isinstance(result, bool):
            error = _no_bool(result)
        if error is not None:
            return Evaluation(selected=False, error=self._explained(error), cost=cost, effort=effort)
        return Evaluation(selected=result is True, error=None, cost=cost, effort=effort)

    def _explained(self, error: SelectorRuntimeError) -> SelectorRuntimeError:
        """Return an error with the advice that 1.37 adds for a missing key."""
        if self._minor >= 37 and "no such key:" in str(error):
            return SelectorRuntimeError(f"{error}{_HINT}")
        return SelectorRuntimeError(str(error))


def _on_own_stack(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return a call's result, from a thread of its own: how deep it may go does not depend on its caller."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *args, **options).result()


def _no_bool(value: object) -> SelectorRuntimeError:
    name = type_name(value)
    reason = _NO_BOOL.get(name, f"type conversion error from '{name}' to 'bool'")
    return SelectorRuntimeError(f"CEL result of type {name} could not be converted to bool: {reason}")


class SelectorCache:
    """Compiled selectors and compile errors, the least recently used of which go first."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        """`most` is the number of bytes, as estimated."""
        self._most = most
        self._kept: OrderedDict[tuple[str, int], CompiledSelector | SelectorCompileError] = OrderedDict()
        self._lock = Lock()
        self.size = 0

    def get(self, expression: str, minor: int) -> tuple[CompiledSelector, int]:
        """Return a compiled selector, and the units of cost that it took to make it, 0 if it was kept.

        Raises SelectorCompileError.
        """
        key = expression, minor
        with self._lock:
            compiled = self._kept.get(key)
            if compiled is not None:
                self._kept.move_to_end(key)
        effort = 0
        if compiled is None:
            compiled = _on_own_stack(_compiled, expression, minor)
            effort = compiled.effort
            self._keep(key, compiled)
        if isinstance(compiled, SelectorCompileError):
            error = SelectorCompileError(str(compiled))
            error.effort = effort
            raise error
        return compiled, effort

    def _keep(self, key: tuple[str, int], compiled: CompiledSelector | SelectorCompileError) -> None:
        with self._lock:
            if key not in self._kept:
                self.size += _kept_bytes(key, compiled)
            self._kept[key] = compiled
            while self.size > self._most:
                self.size -= _kept_bytes(*self._kept.popitem(last=False))


def _kept_bytes(key: tuple[str, int], compiled: CompiledSelector | SelectorCompileError) -> int:
    if isinstance(compiled, CompiledSelector):
        return compiled.size
    return _CHARACTER_BYTES * (len(key[0]) + 10) + len(str(compiled))


_SELECTORS = SelectorCache()


def compile_selector(expression: str, minor: int = NEWEST_MINOR) -> CompiledSelector:
    """Return a compiled selector, as a minor of Kubernetes (36 or 37) compiles it, from the common cache.

    Raises SelectorCompileError.
    """
    return _SELECTORS.get(expression, minor)[0]


class Evaluations(NamedTuple):
    """The results of a selector for the first devices of a list, and the effort of compiling it."""

    results: list[Evaluation]
    compiling: int


# The signature of `evaluate_devices`: expression, minor, driver, devices.
Evaluate = Callable[[str, int, str, Sequence[DeviceLike]], Evaluations]


def evaluate_devices(expression: str, minor: int, driver: str, devices: Sequence[DeviceLike]) -> Evaluations:
    """Return the results of a selector for devices of a driver, at least that of the first one.

    The batch ends early if the selector is costly, so that devices nobody asked for yet take little time.
    Raises SelectorCompileError.
    """
    selector, compiling = _SELECTORS.get(expression, minor)
    results: list[Evaluation] = []
    left = BATCH_EFFORT - compiling
    for device in devices:
        result = selector.evaluate(prepare_device(driver, device, minor))
        result = result._replace(effort=result.effort + preparing(device))
        results.append(result)
        left -= result.effort
        if left <= 0:
            break
    return Evaluations(results, compiling)


def _compiled(expression: str, minor: int) -> CompiledSelector | SelectorCompileError:
    """Return a compiled selector, or why there is none."""
    meter.begin()
    try:
        return _compile(expression, minor)
    except CostLimitError:
        error = SelectorCompileError(_TOO_COSTLY)
    except SelectorCompileError as refused:
        error = refused.with_traceback(None)
    error.effort = MAX_EFFORT - meter.left
    return error


def _compile(expression: str, minor: int) -> CompiledSelector:
    if len(expression.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
        raise SelectorCompileError(f"too long: may not be more than {MAX_LENGTH} bytes")
    problems = Problems(expression)
    root = parse(expression, problems)
    if root is not None:
        if levels_of(root) > MAX_LEVELS:
            raise TooDeepError
        check(root, problems, minor)
        if not problems:
            validate(root, problems)
    if problems or root is None:
        raise SelectorCompileError(f"compilation failed: {problems.shown_errors()}")
    unknown = types.DYN if minor >= 37 else types.ANY
    if root.type not in (types.BOOL, unknown):
        raise SelectorCompileError(f"must evaluate to bool or the unknown type, not {type_text(root.type)}")
    return CompiledSelector(expression, planned_selector(root, minor), minor)
