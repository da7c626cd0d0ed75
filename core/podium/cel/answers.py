"""The answers of selectors on devices, each computed once and within a total effort.

A tenant chooses the expressions, and each may cost as much as the API server permits. So the sum is limited,
and the devices that are left have no answer.
"""

from podium.api.devices import Device
from podium.cel.nodes import SelectorCompileError
from podium.cel.selector import evaluate_selector
from podium.errors import PodiumError

# The effort of any evaluation beside that of its expression.
_BASE = 20

Answer = bool | PodiumError


class SelectorAnswers:
    """The answers for one minor of Kubernetes; the effort is in microseconds, roughly."""

    def __init__(self, minor: int, effort: int) -> None:
        self._minor = minor
        self._left = effort
        # The devices are kept, so that no other one gets their identity.
        self._answers: dict[tuple[str, int], tuple[Device, Answer]] = {}

    @property
    def exhausted(self) -> bool:
        """Return whether no effort is left."""
        return self._left <= 0

    def answer(self, expression: str, driver: str, device: Device) -> Answer | None:
        """Return whether an expression selects a device, or its error; None if no effort is left."""
        key = expression, id(device)
        if key not in self._answers:
            if self.exhausted:
                return None
            self._left -= _BASE
            self._answers[key] = device, self._evaluated(expression, driver, device)
        return self._answers[key][1]

    def _evaluated(self, expression: str, driver: str, device: Device) -> Answer:
        try:
            result = evaluate_selector(expression, self._minor, driver, device)
        except SelectorCompileError as error:
            self._left -= error.effort
            return error
        self._left -= result.effort
        return result.selected if result.error is None else result.error
