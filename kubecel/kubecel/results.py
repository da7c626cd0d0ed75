"""The results of selectors on the devices of a cluster, each evaluated once and within a total effort.

Another process evaluates them, and a message to it takes longer than a usual evaluation. So a question about
one device asks about the next devices of the same driver too: about few at first, and about more the more
results were of use. A result counts only for callers that ask for it, so an expression that fails on a later
device disturbs nothing.

A tenant chooses the expressions, and each may cost as much as the API server permits. So the sum is limited,
and the devices that are left have no answer.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable

from kubecel import process
from kubecel.devices import DeviceLike
from kubecel.errors import CelError, SelectorCompileError, UnansweredSelectorError
from kubecel.selector import Evaluation

# The effort of any evaluation beside that of its expression.
_BASE = 20
# The devices of the first message about an expression, and the most of a later one.
_FIRST, _MOST = 8, 1024
# The most results that are kept; so many characters of an error or an expression count as one more.
MAX_RESULTS = 2**18
_CHARACTERS = 64

Answer = bool | CelError


class _Results:
    """The results of one expression for the devices of a driver, by place; callers asked for `used`."""

    __slots__ = ("by_place", "invalid", "same", "size", "used")

    def __init__(self, expression: str) -> None:
        # The error of the compiler, which holds for all devices.
        self.invalid = ""
        self.by_place: dict[int, Evaluation] = {}
        # Each different result once.
        self.same: dict[tuple[bool, str, int, int], Evaluation] = {}
        self.size = _weight(expression)
        self.used = 0

    def add(self, place: int, result: Evaluation) -> None:
        error = "" if result.error is None else str(result.error)
        key = result.selected, error, result.cost, result.effort
        self.by_place[place] = self.same.setdefault(key, result)
        self.size += _weight(error)


def _weight(text: str) -> int:
    return 1 + len(text) // _CHARACTERS


class DeviceResults:
    """The results for one state of the devices, as selectors of a minor see them."""

    def __init__(
        self, minor: int, devices: Iterable[tuple[str, DeviceLike]], *, most: int = MAX_RESULTS
    ) -> None:
        """`devices` are all devices with their drivers, in the order in which callers are likely to ask."""
        self._minor = minor
        self._devices: dict[str, list[DeviceLike]] = defaultdict(list)
        # The devices are kept, so that no other one gets their identity.
        self._places: dict[int, int] = {}
        for driver, device in devices:
            self._places[id(device)] = len(self._devices[driver])
            self._devices[driver].append(device)
        self._kept: OrderedDict[tuple[str, str], _Results] = OrderedDict()
        self._most = most
        self.size = 0

    def evaluate(self, expression: str, driver: str, device: DeviceLike) -> Evaluation:
        """Return the result for a device, with the effort of compiling the expression if that was necessary.

        Raises SelectorCompileError.
        """
        key = expression, driver
        results = self._kept.get(key)
        if results is None:
            results = self._kept[key] = _Results(expression)
            self.size += results.size
        self._kept.move_to_end(key)
        if results.invalid:
            raise SelectorCompileError(results.invalid)
        results.used += 1
        place = self._places[id(device)]
        result = results.by_place.get(place)
        if result is not None:
            return result
        before = results.size
        try:
            return self._asked(key, results, place)
        finally:
            self.size += results.size - before
            while self.size > self._most:
                self.size -= self._kept.popitem(last=False)[1].size

    def _asked(self, key: tuple[str, str], results: _Results, place: int) -> Evaluation:
        (expression, driver), devices = key, self._devices[key[1]]
        end = min(place + min(_FIRST + 2 * results.used, _MOST), len(devices))
        places = [at for at in range(place, end) if at not in results.by_place]
        asked = [devices[at] for at in places]
        try:
            batch = process.evaluate(expression, self._minor, driver, asked)
        except UnansweredSelectorError as error:
            # Not kept, because a later attempt may succeed.
            return Evaluation(selected=False, error=error, cost=0, effort=error.effort)
        except SelectorCompileError as error:
            results.invalid = str(error)
            results.size += _weight(results.invalid)
            raise
        for at, result in zip(places, batch.results, strict=False):
            results.add(at, result)
        return batch.results[0]._replace(effort=batch.results[0].effort + batch.compiling)


class SelectorAnswers:
    """The answers of selectors within an effort, which is in microseconds, roughly."""

    def __init__(self, minor: int, devices: Iterable[tuple[str, DeviceLike]], effort: int) -> None:
        self._results = DeviceResults(minor, devices)
        self._left = effort
        self._efforts: Counter[str] = Counter()
        self._answers: dict[tuple[str, int], Answer] = {}

    @property
    def exhausted(self) -> bool:
        """Return whether no effort is left."""
        return self._left <= 0

    @property
    def costliest(self) -> str | None:
        """Return the expression that took the most, if no effort is left for others."""
        return max(self._efforts, key=self._efforts.__getitem__, default=None) if self.exhausted else None

    def answer(self, expression: str, driver: str, device: DeviceLike) -> Answer | None:
        """Return whether an expression selects a device, or its error; None if no effort is left."""
        key = expression, id(device)
        if key not in self._answers:
            if self.exhausted:
                return None
            answer, effort = self._evaluated(expression, driver, device)
            self._answers[key] = answer
            self._efforts[expression] += effort
            self._left -= _BASE + effort
        return self._answers[key]

    def _evaluated(self, expression: str, driver: str, device: DeviceLike) -> tuple[Answer, int]:
        try:
            result = self._results.evaluate(expression, driver, device)
        except SelectorCompileError as error:
            return error, error.effort
        return (result.selected if result.error is None else result.error), result.effort
