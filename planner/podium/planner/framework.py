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
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from podium.api.core import Namespace, Pod
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, Name
from podium.cluster.state import Readable
from podium.planner.arrays import Bools, Int32s, Int64s, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.liveplugin import LivePlugin
from podium.planner.reprieve import Exclusion, PlacedMembers, PodsByShape, Reprieve
from podium.planner.shapes import NeedSource, PodNeed, Shape, ShapeContext

S = TypeVar("S")
T = TypeVar("T")
# The best score of one kind.
MAX_SCORE = 100


class PodCounters(Protocol):
    """Counters of pods by node, which the comparer checks."""

    def differ_on(self, node_row: int, pod_rows: Rows) -> bool:
        """Return whether the counters of a node differ from the pods there."""


class HeldClaim(NamedTuple):
    """A claim with which a pod holds so many accelerators; other pods may hold it too if it is `shared`."""

    claim: Name
    amount: int
    shared: bool


class DomainLimit(NamedTuple):
    """A limit on the pods of one shape in each domain; `domains` has the domain of each node row, or -1.

    `held` is the number of pods that count there already, by domain, and last what limits the nodes in no
    domain. A domain holds at most `level` of them, or if `even` so many more than the emptiest.
    """

    domains: Int32s
    held: list[int]
    level: int
    even: bool = False


# In `DomainLimit.held`: no pod may come, or any number, whatever the level.
FULL = 2**31


class NodeFilter(ABC):
    """A filter on one snapshot: which nodes take a pod of a shape, and why the others do not.

    Filters of other plugins find it by its `NAME` (see `ChainContext.named`), if it has one.

    `static` are the filters that judge the part of it that depends on nodes alone. `counters` are its
    counters of pods. `revision` grows when `concerns` may answer otherwise for a shape that stays; None for
    a filter that never does.
    """

    NAME: ClassVar[str] = ""
    # Whether kube-scheduler asks it before it asks any filter about a node.
    FIRST: ClassVar[bool] = False
    # Whether a refused node keeps pods out. Otherwise it lacks what the pod requires.
    KEEPS_OUT: ClassVar[bool] = False
    # Whether it may refuse a pod because other pods are gone.
    LOSES: ClassVar[bool] = False
    # Whether it refuses a pod without company.
    JOINS: ClassVar[bool] = False
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

    def reads(self, shape: Shape) -> Hashable:
        """Return the part of a shape that the answer depends on."""
        return shape

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

    def reprieve(self, members: PlacedMembers) -> Reprieve | None:  # noqa: ARG002 - as above
        """Return what it says of pods that are given back beside members; None if they do not concern it."""
        return None

    def exclusions(
        self,
        shapes: Mapping[int, Shape],  # noqa: ARG002 - as above
        pods: PodsByShape,  # noqa: ARG002 - as above
        deadline: Deadline,  # noqa: ARG002 - as above
    ) -> Iterator[Exclusion]:
        """Yield the pods that keep pods of some shapes (by id) out of a domain, or are kept out by them."""
        yield from ()

    def limits(self, shape: Shape) -> Iterable[DomainLimit]:  # noqa: ARG002 - as above
        """Return the limits on the pods of a shape in each domain."""
        return ()

    def announce(self, shape_ids: Collection[int]) -> None:  # noqa: B027 - as above
        """Follow that pods of these shapes are about to be placed; called before any check of them."""

    def drop_idle(self) -> None:  # noqa: B027 - as above
        """Forget the announced pods; called before a plan is tried."""

    def once_released(self) -> AbstractContextManager[bool]:
        """Begin a block in which pods that are gone hold nothing; the value says whether they held any."""
        return nullcontext(False)

    def prefers(self, shape: Shape) -> bool:  # noqa: ARG002 - as above
        """Return whether the filter scores nodes for a shape by other pods."""
        return False

    def differs(self, shape: Shape, rows: Rows) -> bool:  # noqa: ARG002 - as above
        """Return whether the filter scores some of these node rows differently, by nodes alone."""
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


class RoomFilter(NodeFilter):
    """The filter on the amounts that a snapshot sums up by node; each chain has one."""

    @abstractmethod
    def fits_at(self, shape: Shape) -> Callable[[int], bool]:
        """Return a function that checks the room of one row; valid until a new node or resource comes."""

    @abstractmethod
    def fits_beside(self, shape: Shape, row: int, pods: Collection[int]) -> bool:
        """Return whether a node row that fits a shape still would with more pods (rows) there."""

    @abstractmethod
    def spare(self, shape: Shape, rows: Rows) -> Int64s:
        """Return how many pods of a shape have room on each of these rows, all of which have room for one."""


class ChainContext:
    """The settings and objects that the filters of one chain share; `namespaces` may change.

    `reserved` is the label of the only nodes that may be used, if it is set (see Settings). By `own_rules`
    what a pod holds goes with it, and the delayed claims of a gang are decided together. kube-scheduler does
    neither. `empty_selector` says that spread constraints with an empty selector count all pods.
    """

    def __init__(
        self,
        namespaces: Mapping[str, Namespace],
        reserved: str = "",
        *,
        own_rules: bool = True,
        empty_selector: bool = True,
    ) -> None:
        self.namespaces = namespaces
        self.reserved = reserved
        self.own_rules = own_rules
        self.empty_selector = empty_selector
        self.named: dict[str, NodeFilter] = {}
        self._shared: dict[Callable[..., Any], Any] = {}

    def shared(self, kind: Callable[..., T], *arguments: Any) -> T:
        """Return the one object of a kind for the filters of this chain, made by the first call."""
        if kind not in self._shared:
            self._shared[kind] = kind(*arguments)
        shared: T = self._shared[kind]
        return shared

    def filters_of(self, plugins: Iterable["Plugin"]) -> Iterator[NodeFilter]:
        """Yield the filters of plugins; each finds those before it in `named`."""
        for plugin in plugins:
            filters = plugin.filters(self)
            self.named.update({own.NAME: own for own in filters if own.NAME})
            yield from filters


class Effect(IntEnum):
    """The effect of a change of an object on decisions that were kept."""

    NOTHING = 0
    # It makes no room: a decision that finds none stays.
    LESS_ROOM = 1
    ANY = 2


class Plugin(LivePlugin, NeedSource, ABC):
    """One capability on one snapshot."""

    # The needs that a planner without it does not judge (see `LeftOutPlugin`).
    JUDGES: ClassVar[str] = ""
    # The fields of a pod's spec that decide its need.
    SPEC: tuple[str, ...] = ()

    @abstractmethod
    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> PodNeed:
        """Return what a pod needs of the capability, beside resources."""

    @abstractmethod
    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:
        """Return the filters of one chain, in kube-scheduler's order."""

    def fingerprint(self, pod: Schedulable) -> object:  # noqa: ARG002 - the fields of SPEC say enough
        """Return a value for JSON that is equal for pods with equal needs and `SPEC`; None if it has none."""
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


class LeftOutPlugin(Plugin):
    """Replaces a plugin that is left out: a pod that needs it is not judged."""

    def __init__(self, plugin: Callable[[int, S], Plugin], at: int, snapshot: S) -> None:
        self._own = plugin(at, snapshot)
        self.SPEC = self._own.SPEC

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> PodNeed:
        """Return no need, and add what the pod needs to those that cannot be evaluated."""
        need = self._own.pre_filter(pod, ShapeContext(context.requested, context.minor))
        if need != type(need)():
            context.missing[self._own.JUDGES] = None
        return PodNeed()

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:  # noqa: ARG002 - it judges nothing
        """Return none."""
        return ()

    def fingerprint(self, pod: Schedulable) -> object:
        """Return the value of the plugin."""
        return self._own.fingerprint(pod)


def overriding(plugins: Iterable[Plugin], method: str) -> tuple[Plugin, ...]:
    """Return the plugins with an answer of their own, to spare the others calls for each pod."""
    return tuple(plugin for plugin in plugins if getattr(type(plugin), method) is not getattr(Plugin, method))
