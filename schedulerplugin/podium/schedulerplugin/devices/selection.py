"""The selector that excludes a device, for explanations, within a total effort.

The search asks whether all selectors of a request match. An explanation asks which of them does not. A tenant
chooses the expressions, and each may cost as much as the API server permits. So the sum is limited, and the
devices that are left have no answer.
"""

from podium.api.devices import Device
from podium.cel.nodes import SelectorCompileError
from podium.cel.selector import evaluate_selector
from podium.errors import PodiumError
from podium.schedulerplugin.devices.errors import AllocationError
from podium.schedulerplugin.devices.inventory import PoolDevice
from podium.schedulerplugin.devices.requests import DeviceNeed
from podium.schedulerplugin.devices.steps import SearchLimits

# The most effort of all evaluations for one explanation, in microseconds, roughly. A short selector takes
# about 10 units.
MAX_EFFORT = 5_000_000
# The effort of any evaluation beside that of its expression.
_BASE = 20
# The most characters of an error.
_ERROR = 160

_Answer = bool | PodiumError


class SelectorAnswers:
    """The answers of selectors on devices, for one minor of Kubernetes; each is computed once."""

    def __init__(self, minor: int, effort: int = MAX_EFFORT) -> None:
        self._minor = minor
        self._limits = SearchLimits(0, effort)
        # The devices are kept, so that no other one gets their identity.
        self._answers: dict[tuple[str, int], tuple[Device, _Answer]] = {}

    @property
    def exhausted(self) -> bool:
        """Return whether no effort is left."""
        return self._limits.effort <= 0

    def select(self, expression: str, driver: str, device: Device) -> bool:
        """Return whether an expression selects a device.

        Raises AllocationError if no effort is left, and the error of the expression.
        """
        key = expression, id(device)
        if key not in self._answers:
            self._limits.spend(_BASE)
            self._answers[key] = device, self._evaluated(expression, driver, device)
        answer = self._answers[key][1]
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
                try:
                    if not self.select(expression, device.driver, device.device):
                        return f"excluded by selector {number}{owner}"
                except AllocationError:
                    raise
                except PodiumError as error:
                    return f"on which selector {number}{owner} fails ({shortened(str(error))})"
        return ""

    def _evaluated(self, expression: str, driver: str, device: Device) -> _Answer:
        try:
            result = evaluate_selector(expression, self._minor, driver, device)
        except SelectorCompileError as error:
            return error
        self._limits.effort -= result.effort
        return result.selected if result.error is None else result.error


def shortened(text: str) -> str:
    """Return an error in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _ERROR else f"{line[:_ERROR]}..."
