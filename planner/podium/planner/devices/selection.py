"""The selector that excludes a device, for explanations, within a total effort.

The search asks whether all selectors of a request match. An explanation asks which of them does not.
"""

from collections.abc import Iterable

from kubecel import CelError, SelectorAnswers
from podium.api.devices import Device, ResourceSlice
from podium.planner.devices.errors import AllocationError
from podium.planner.devices.inventory import PoolDevice, drivers_devices
from podium.planner.devices.requests import DeviceNeed
from podium.planner.devices.search import TOO_LONG

# The most effort of all evaluations for one explanation, in microseconds, roughly. A short selector takes
# about 10 units.
MAX_EFFORT = 5_000_000
# The most characters of an error.
_ERROR = 160


class SelectorExclusions:
    """The answers of selectors in the form of the search, and in words."""

    def __init__(self, minor: int, slices: Iterable[ResourceSlice], effort: int = MAX_EFFORT) -> None:
        self._answers = SelectorAnswers(minor, drivers_devices(slices), effort)
        # A selector of each expression, in words.
        self._selectors: dict[str, str] = {}

    @property
    def exhausted(self) -> bool:
        """Return whether no effort is left."""
        return self._answers.exhausted

    @property
    def costliest(self) -> str:
        """Return the selector that took the most effort, if none is left for others."""
        return self._selectors.get(self._answers.costliest or "", "")

    def select(self, expression: str, driver: str, device: Device) -> bool:
        """Return whether an expression selects a device.

        Raises AllocationError if no effort is left, and the error of the expression.
        """
        answer = self._answers.answer(expression, driver, device)
        if answer is None:
            raise AllocationError(TOO_LONG)
        if isinstance(answer, bool):
            return answer
        raise answer.with_traceback(None)

    def exclusion(self, requirement: DeviceNeed, device: PoolDevice) -> str:
        """Return how selectors exclude a device, in words; empty if all match.

        Raises AllocationError if no effort is left.
        """
        selectors = requirement.selectors
        of_class = f" of class {selectors.class_name}"
        for expressions, owner in ((selectors.of_class, of_class), (selectors.of_request, "")):
            for number, expression in enumerate(expressions, start=1):
                whose = owner or f" of request {requirement.name}"
                self._selectors.setdefault(expression, f"selector {number}{whose}")
                try:
                    if not self.select(expression, device.driver, device.device):
                        return f"excluded by selector {number}{owner}"
                except AllocationError:
                    raise
                except CelError as error:
                    return f"on which selector {number}{owner} fails ({shortened(str(error))})"
        return ""


def shortened(text: str) -> str:
    """Return an error in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _ERROR else f"{line[:_ERROR]}..."
