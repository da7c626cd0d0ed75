"""The effort of compiling and evaluating a selector, counted before it is taken, and its limits.

Kubernetes' cost decides the verdict, but Python's time is not in proportion to it. A unit of effort is about
a microsecond of a processor. WORST has the worst cases of functions, beside the one unit of each call. A call
of C cannot be interrupted. So its units are checked first, and the longest text and list keep it below 50 ms.
"""

from collections.abc import Callable
from functools import partial
from threading import local

# The cost limit of a selector, and the most effort of one evaluation beside it, or of one compilation.
COST_LIMIT = 1_000_000
MAX_EFFORT = 1_000_000
# The most steps of an evaluation: those that cost something, and those that Kubernetes does not charge for.
MAX_STEPS = 2 * COST_LIMIT
# The longest list and text of one evaluation, and the bytes of all that it makes.
MAX_ITEMS, MAX_TEXT, MAX_BYTES = 1_000_000, 1_000_000, 2**26
EXCEEDED = "operation cancelled: actual cost limit exceeded"
# The amount for one unit. Characters: copied or compared; searched, or read by C; read one by one in Python.
COPIED, SEARCHED, READ = 2_000, 150, 4
# Items of a list: copied; made; compared in Python.
LISTED, MADE, COMPARED = 100, 12, 4
_CHARACTER_BYTES, _ITEM_BYTES, _OBJECT_BYTES = 4, 8, 64


class AbortedError(Exception):
    """The end of an evaluation that no operator absorbs; the selector reports its text."""


class CostLimitError(AbortedError):
    """An evaluation costs too much."""

    def __init__(self) -> None:
        """Take upstream's text."""
        super().__init__(EXCEEDED)


class Meter(local):
    """The effort and the bytes that this thread may still spend on what it compiles or evaluates."""

    left, bytes = MAX_EFFORT, MAX_BYTES

    def begin(self) -> None:
        """Begin a compilation or an evaluation."""
        self.left, self.bytes = MAX_EFFORT, MAX_BYTES

    def spend(self, units: int) -> None:
        """Count effort. Raises CostLimitError if that much is not left."""
        left = self.left - units
        if left < 0:
            raise CostLimitError
        self.left = left

    def make_text(self, length: int) -> None:
        """Count a text before it is made. Raises CostLimitError if it is too long, or there are too many."""
        if length > MAX_TEXT:
            raise CostLimitError
        self._hold(length * _CHARACTER_BYTES)
        self.spend(length // COPIED)

    def make_items(self, count: int) -> None:
        """Count the items of a list before it is made, as `make_text` does."""
        if count > MAX_ITEMS:
            raise CostLimitError
        self._hold(count * _ITEM_BYTES)
        self.spend(count // LISTED)

    def make_objects(self, count: int) -> None:
        """Count a list of new objects before it is made, as `make_text` does."""
        self.make_items(count)
        self._hold(count * _OBJECT_BYTES)
        self.spend(count // MADE)

    def _hold(self, number: int) -> None:
        self.bytes -= number
        if self.bytes < 0:
            raise CostLimitError


meter = Meter()


Worst = Callable[..., int]


def _units(units: int, *_: object) -> int:
    return units


def _by_size(units: int, rate: int) -> Worst:
    """Return the units of a call that reads its first argument, a text or a list, at a rate."""
    return lambda value, *_: units + (len(value) // rate if isinstance(value, (str, bytes, list)) else 0)


def _sorting(items: object, *_: object) -> int:
    size = len(items) if isinstance(items, list) else 0
    return 2 * size * size.bit_length()


_CONSTANT = {
    8: "getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes",
    9: "getMonth getSeconds isGlobalUnicast",
    30: "containsCIDR containsIP isLinkLocalMulticast masked",
}
# Functions that are not here count their effort themselves, or take no longer than the unit of their call.
WORST: dict[str, Worst] = {
    **{name: partial(_units, units) for units, names in _CONSTANT.items() for name in names.split()},
    **dict.fromkeys(("bool", "double", "int", "uint", "bytes", "string", "timestamp"), _by_size(2, SEARCHED)),
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "trim", "replace", "format.named"), _by_size(0, SEARCHED // 4)
    ),
    "duration": _by_size(5, 1),
    **dict.fromkeys(("ip", "isIP", "ip.isCanonical", "cidr", "isCIDR"), _by_size(15, READ)),
    **dict.fromkeys(("url", "isURL", "semver", "isSemver"), _by_size(5, READ)),
    **dict.fromkeys(("quantity", "isQuantity"), _by_size(8, SEARCHED // 2)),
    **dict.fromkeys(("max", "min", "sum", "isSorted"), _by_size(1, 1)),
    **dict.fromkeys(("optional.unwrap", "unwrapOpt"), _by_size(1, COMPARED)),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sorting),
}
