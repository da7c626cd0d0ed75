"""Finds the budgets of a namespace that may count a pod, without evaluating every selector.

A budget is nearly always made for one app and selects it by one label. So a pod's labels lead to the few
budgets to evaluate. A selector without such a label is evaluated for every pod of its namespace.
"""

from collections.abc import Iterator

from podium.api.meta import LabelSelector
from podium.api.selectors import Selector, selector_of
from podium.rules.names import label_value, qualified_name
from podium.schedulerplugin.shapes import Shape

_VALUED = ("In", "NotIn")
_BARE = ("Exists", "DoesNotExist")


class NamespaceBudgets:
    """The budgets of a namespace, by one label that a pod must have; `rest` have no such label."""

    def __init__(self) -> None:
        self.by_label: dict[tuple[str, str], list[int]] = {}
        self.rest: list[int] = []

    def add(self, selector: Selector, budget_id: int) -> None:
        """Register a budget by its selector."""
        label = self._label(selector)
        (self.rest if label is None else self.by_label.setdefault(label, [])).append(budget_id)

    def discard(self, selector: Selector, budget_id: int) -> None:
        """Remove a budget."""
        label = self._label(selector)
        if label is None:
            self.rest.remove(budget_id)
            return
        self.by_label[label].remove(budget_id)
        if not self.by_label[label]:
            del self.by_label[label]

    def candidates(self, shape: Shape) -> list[int]:
        """Return the budgets that may count pods of a shape, each once."""
        return self.rest + [found for label in shape.labels for found in self.by_label.get(label, ())]

    def _label(self, selector: Selector) -> tuple[str, str] | None:
        for key, operator, values in selector.requirements:
            if operator == "In" and len(values) == 1:
                return key, values[0]
        return None


def parsed(given: LabelSelector | None) -> tuple[Selector | None, str | None]:
    """Return the parsed selector, None if it counts no pod, and an error message if it is wrong."""
    odd: dict[str, None] = {}
    selector = selector_of(given, odd)
    if selector is None or not selector.requirements:
        return None, None
    wrong = next(_wrongs(selector), None)
    return (None, wrong) if wrong is not None else (selector, None)


def _wrongs(selector: Selector) -> Iterator[str]:
    """Yield the parts from which kube-scheduler could not make a selector."""
    for key, operator, values in selector.requirements:
        if operator not in (*_VALUED, *_BARE):
            yield f"{operator!r} is no operator of a label selector"
        elif (operator in _VALUED) is not bool(values):
            yield f"{operator} of label {key!r} takes {'' if operator in _VALUED else 'no '}values"
        if qualified_name(key):
            yield f"{key!r} is no label key"
        if operator in _VALUED:
            yield from (f"{value!r} is no label value" for value in values if label_value(value))
