"""What a filter answers to the chain, in the words of kube-scheduler's framework.

A filter judges the nodes of one snapshot for a shape, that is for all pods alike, and never for a single pod.
Each method has the answer of a filter that has nothing to say, so a filter overrides only what concerns it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from podium.planner.arrays import Bools
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.counters import DomainCounters
from podium.planner.shapes import Shape


class NodeFilter(ABC):
    """A filter on one snapshot: which nodes take a pod of a shape, and why the others do not.

    `static` are the filters that judge the part of it that depends on nodes alone. `counters` are its
    counters of pods. `revision` grows when `concerns` may answer otherwise for a shape that stays.
    """

    # Whether a refused node keeps pods out. Otherwise it lacks what the pod requires.
    KEEPS_OUT: ClassVar[bool] = False

    static: tuple["NodeFilter", ...] = ()
    counters: tuple[DomainCounters[Any], ...] = ()
    revision: int = 0

    @abstractmethod
    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape now."""

    @abstractmethod
    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, None if it passes."""

    def reasons(self, shape: Shape, row: int) -> tuple[str, ...]:
        """Return all reasons against a node row; empty if it passes."""
        reason = self.reason(shape, row)
        return () if reason is None else (reason,)

    def refused(self, shape: Shape, rows: Bools) -> Mapping[str, Bools]:
        """Return those of some rows, all of which the filter refuses, by reason; a row may have several."""
        return {self.reason(shape, int(rows.argmax())) or "": rows}

    def concerns(self, shape: Shape) -> bool:  # noqa: ARG002 - a filter on nodes alone
        """Return whether the filter may refuse a node for a shape because of other pods."""
        return False

    def possible(self, shape: Shape) -> Bools | None:  # noqa: ARG002 - as above
        """Return the node rows that may pass once other pods are gone; None for all that `static` takes."""
        return None

    def possible_at(self, shape: Shape, row: int) -> bool:
        """Return whether one node row is in `possible`."""
        possible = self.possible(shape)
        return possible is None or possible.item(row)

    def regardless_of(
        self,
        shape: Shape,
        others: Sequence[Shape],  # noqa: ARG002 - for filters that count labels
        deadline: Deadline = NEVER,  # noqa: ARG002 - as above
    ) -> tuple[Bools, Bools]:
        """Return the node rows that the filter never refuses, and those that it always refuses.

        This holds whichever pods of the shapes `others` are removed or come back.
        """
        mask, possible = self.mask(shape), self.possible(shape)
        return mask, np.zeros_like(mask) if possible is None else ~possible

    def lost(self, shape: Shape, row: int) -> str | None:  # noqa: ARG002 - as above
        """Return why a node row cannot serve a pod that was assumed there before, None if it can."""
        return None

    def unmet(self, shape: Shape, nodes: Bools) -> str:  # noqa: ARG002 - as above
        """Return what keeps a pod from some `nodes` (rows) whatever is preempted; empty if nothing does."""
        return ""

    def remark(self, shape: Shape) -> str:  # noqa: ARG002 - as above
        """Return a sentence that explains the refusals of a shape; empty if reasons say enough."""
        return ""

    def reload_namespaces(self) -> None:  # noqa: B027 - most filters read none
        """Follow the namespaces: one came, went or changed its labels."""
