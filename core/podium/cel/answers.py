"""The answers of selectors on devices, each computed once and within a total effort.

A tenant chooses the expressions, and each may cost as much as the API server permits. So the sum is limited,
and the devices that are left have no answer.
"""

from collections import Counter

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
        self._efforts: Counter[str] = Counter()
        # The devices are kept, so that no other one gets their identity.
        self._answers: dict[tuple[str, int], tuple[Device, Answer]] = {}

    @property
    def exhausted(self) -> bool:
        """Return whether no effort is left."""
        return self._left <= 0

    @property
    def costliest(self) -> str | None:
        """Return the expression that took the most, if no effort is left for others."""
        return max(self._efforts, key=self._efforts.__getitem__, default=None) if self.exhausted else None

    def answer(self, expression: str, driver: str, device: Device) -> Answer | None:
        """Return whether an expression selects a device, or its error; None if no effort is left."""
        key = expression, id(device)
        if key not in self._answers:
            if self.exhausted:
                return None
            answer, effort = self._evaluated(expression, driver, device)
            self._answers[key] = device, answer
            self._efforts[expression] += effort
            self._left -= _BASE + effort
        return self._answers[key][1]

    def _evaluated(self, expression: str, driver: str, device: Device) -> tuple[Answer, int]:
        try:
            result = evaluate_selector(expression, self._minor, driver, device)
        except SelectorCompileError as error:
            return error, error.effort
        return (result.selected if result.error is None else result.error), result.effort
