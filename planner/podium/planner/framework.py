"""The extension points of the planner, in the words of kube-scheduler's framework.

A plugin is one capability, such as volumes: a folder of `plugins` with everything of it, registered there in
one tuple. Each snapshot has an instance of each plugin. It follows the objects of its kinds, adds its part to
the shape of a pod (`pre_filter`), and gives the chain its filters. Filters judge the nodes for a shape, that
is for all pods alike. Only `link`, `unlink` and `fingerprint` are called for a pod that comes or goes.

Each method has the answer of a plugin or filter that has nothing to say, so only what concerns it is written.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from podium.api.core import Pod
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, Name
from podium.cluster.state import Readable
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.liveplugin import LivePlugin
from podium.planner.shapes import PodNeed, Shape


class PodCounters(Protocol):
    """Counters of pods by node, which the comparer checks."""

    def differ_on(self, node_row: int, pod_rows: Rows) -> bool:
        """Return whether the counters of a node differ from the pods there."""


class Rivals(NamedTuple):
    """Pods that may take what others need; `counts` judges a pod by its row.

    If `nearby`, only those on the nodes of the others matter.
    """

    counts: Callable[[int], bool]
    nearby: bool


class HeldClaim(NamedTuple):
    """A claim with which a pod holds so many accelerators; other pods may hold it too if it is `shared`."""

    claim: Name
    amount: int
    shared: bool


class NodeFilter(ABC):
    """A filter on one snapshot: which nodes take a pod of a shape, and why the others do not.

    `static` are the filters that judge the part of it that depends on nodes alone. `counters` are its
    counters of pods. `revision` grows when `concerns` may answer otherwise for a shape that stays; None for
    a filter that never does.
    """

    # Whether a refused node keeps pods out. Otherwise it lacks what the pod requires.
    KEEPS_OUT: ClassVar[bool] = False
    # Whether pods that come back may change its answer, other than by keeping out a pod of their own.
    COUNTS: ClassVar[bool] = False
    # Why a pod waits that would fit if pods that are gone held nothing any more; empty if they hold nothing.
    AWAITS: ClassVar[str] = ""
    # Whether what it needs of a node is no sum: a search finds what suits a pod, and few nodes are asked.
    SEARCHES: ClassVar[bool] = False
    # By texts in its reasons: the rule by which kube-scheduler evicts no pod for them.
    NEVER_FREED: ClassVar[Mapping[str, str]] = {}

    static: tuple["NodeFilter", ...] = ()
    counters: tuple[PodCounters, ...] = ()
    revision: int | None = None

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

    def refused_by_reason(self, shape: Shape, rows: Bools) -> Mapping[str, Bools]:
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

    def rivals(self, members: Collection[Shape]) -> Rivals | None:  # noqa: ARG002 - as above
        """Return the pods that may take what members of these shapes need; None for none."""
        return None

    def once_released(self) -> AbstractContextManager[bool]:
        """Begin a block in which pods that are gone hold nothing; the value says whether they held any."""
        return nullcontext(False)

    def prefers(self, shape: Shape) -> bool:  # noqa: ARG002 - as above
        """Return whether the filter scores nodes for a shape."""
        return False

    def scores(self, shape: Shape, rows: Rows) -> Int64s:  # noqa: ARG002 - as above
        """Return the weighted score of node rows, which are the whole choice and pass."""
        return np.zeros(len(rows), np.int64)

    def sought(self, shape: Shape) -> tuple[int, Hashable]:  # noqa: ARG002 - as above
        """Return how many things a search finds for a shape at least, and a value for which things."""
        return 0, None

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


class Effect(IntEnum):
    """The effect of a change of an object on decisions that were kept."""

    NOTHING = 0
    # It makes no room: a decision that finds none stays.
    LESS_ROOM = 1
    ANY = 2


class Plugin(LivePlugin, ABC):
    """One capability on one snapshot."""

    # The needs that a planner without it does not judge (see `shapes.unjudged`).
    JUDGES: ClassVar[str] = ""
    # Whether its filters come after those for the terms of other pods.
    LATE: ClassVar[bool] = False
    # Whether `held` has answers.
    HOLDS: ClassVar[bool] = False

    @abstractmethod
    def pre_filter(
        self, pod: Schedulable, requested: Collection[str], minor: int, missing: dict[str, None]
    ) -> PodNeed:
        """Return what a pod needs of the capability, beside the resources that it has `requested`.

        `minor` is the kube-scheduler release that counts; `missing` collects what cannot be evaluated.
        """

    @abstractmethod
    def filters(self, *, own_rules: bool) -> tuple[NodeFilter, ...]:
        """Return the filters in kube-scheduler's order; by `own_rules` as Podium decides, else as it does."""

    def fingerprint(self, pod: Schedulable) -> object:  # noqa: ARG002 - it reads no pod
        """Return a value for JSON that is equal for pods with equal needs; None if none is cheap."""
        return ()

    def objects(self, view: ClusterReader) -> Iterator[object]:  # noqa: ARG002 - it follows nothing
        """Yield the objects that it follows; objects that others refer to come first."""
        yield from ()

    def apply(self, before: object, after: object) -> Effect | None:  # noqa: ARG002 - as above
        """Follow one change of an object; None for an object of another kind."""
        return None

    def link(self, row: int, pod: Schedulable) -> None:
        """Register a pod that came, for the objects that its needs follow."""

    def unlink(self, row: int, pod: Schedulable) -> None:
        """Forget a pod that `link` registered."""

    def changed_users(self) -> Iterable[int]:
        """Return the pods (rows) whose needs may have changed since the last call."""
        return ()

    def shape_came(self, shape_id: int, shape: Shape) -> None:
        """Register a new shape."""

    def shape_went(self, shape_id: int) -> None:
        """Forget a shape of which no pod is left."""

    def held(self, row: int) -> Sequence[HeldClaim]:  # noqa: ARG002 - as above
        """Return what a pod holds beside the resources of its node."""
        return ()

    def binds(self, pod_row: int) -> bool:  # noqa: ARG002 - as above
        """Return whether something may be written before a pod is bound."""
        return False

    def bound(self, pod_rows: Iterable[int], view: ClusterReader) -> Iterator[Readable]:  # noqa: ARG002 - as above
        """Yield the objects as they are once assumed pods are bound."""
        yield from ()

    def removed(self, pods: Collection[Pod], view: ClusterReader) -> Iterator[Readable]:  # noqa: ARG002 - as above
        """Yield the objects as controllers leave them once pods are gone."""
        yield from ()

    def explain(self, pod_row: int) -> Mapping[str, object]:  # noqa: ARG002 - as above
        """Return what an assumed pod gets on its node, as values for fields of `outcome.Placed`."""
        return {}

    def fault(self) -> str:
        """Return why the plugin does not work, for the log; empty if it does."""
        return ""

    def differences(self, view: ClusterReader, pod: Schedulable) -> Iterator[str]:  # noqa: ARG002 - as above
        """Yield how what is stored for a pod differs from the cluster."""
        yield from ()
