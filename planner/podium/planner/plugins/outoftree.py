"""Makes a plugin of the administrator (`podium.plugins`) one of the planner's, within limits.

Its answers about nodes are kept by need until a node changes. A failure is an answer too: an exception, an
invalid result, or a call over the time budget. Then no node takes pods with that need, because nothing is
known about the nodes, and every score is 0. The plugin is called again a second later. A call that never
returns cannot be interrupted: see docs/plugins.md.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType as Frozen
from typing import Any

import numpy as np
import numpy.typing as npt

from podium.api.membership import membership
from podium.api.podrequests import allocatable, pod_requests
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.filters.counter import node_domains
from podium.planner.filters.counters import PerShape, TermCounters
from podium.planner.filters.nodes import NodeCache, StaticFilter
from podium.planner.framework import ChainContext, NodeFilter, Plugin
from podium.planner.overlay import NO_POD
from podium.planner.shapes import PodNeed, Shape, ShapeContext
from podium.planner.snapshot import Snapshot
from podium.plugins import HIGHEST, NodeFacts, NodePlugin, PodFacts
from podium.text import cut, one_line

# The time budget of a plugin for one need in one decision, and for each node of the cluster in addition.
BUDGET_SECONDS, NODE_SECONDS = 0.05, 1e-5
# A plugin that failed is called again after so long.
RETRY_SECONDS = 1.0
# So many failures in a row are reported.
REPORTED = 3
# The longest text of a plugin that is shown, in bytes.
_LONGEST = 256
# The most needs that are kept.
_NEEDS = 2**14

# The answers of a method about the nodes, by node row.
Answers = npt.NDArray[np.object_]
Clock = Callable[[], float]


class OutOfTreeNeed(PodNeed, frozen=True, cache_hash=True):
    """The `value` that the plugin returned for a pod; None if it has no say, or failed (`refused`)."""

    value: Hashable | None = None

    @property
    def node_constraints(self) -> Hashable:
        """The value."""
        return self.value

    @property
    def restricts(self) -> bool:
        """Return whether the plugin has a say."""
        return bool(self.refused) or self.value is not None


class _PluginCalls:
    """The calls of one plugin within its time budget; `failures` are those in a row, by method."""

    def __init__(self, snapshot: Snapshot, clock: Clock) -> None:
        self.failures = Counter[str]()
        self.last_failure = ""
        self._snapshot = snapshot
        self._clock = clock
        self._failed: dict[tuple[str, Hashable], str] = {}
        self._spent: dict[Hashable, float] = {}
        self._retry_at = 0.0

    def failure(self, method: str, need: Hashable) -> str:
        """Return why a method has no answer for a need now; empty if it may be called."""
        return self._failed.get((method, need), "")

    def begin_decision(self) -> bool:
        """Begin new time budgets; return whether methods that failed may be called again."""
        self._spent.clear()
        if not self._failed or self._clock() < self._retry_at:
            return False
        self._failed.clear()
        return True

    @contextmanager
    def calling(self, method: str, need: Hashable) -> Iterator[Callable[..., Any]]:
        """Begin a block that ends where a method fails; the value calls it within the time budget."""
        clock, budget = self._clock, BUDGET_SECONDS + NODE_SECONDS * len(self._snapshot.row)

        def call(function: Callable[..., Any], *arguments: Any) -> Any:
            began = clock()
            result = function(*arguments)
            spent = self._spent[need] = self._spent.get(need, 0.0) + clock() - began
            if spent > budget:
                raise TimeoutError(f"no answer within {budget * 1000:.0f} ms")
            return result

        try:
            yield call
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            self.last_failure = f"failed in {method}: {type(error).__name__}: {error}"
            self._failed[method, need] = self.last_failure
            self.failures[method] += 1
            self._retry_at = self._clock() + RETRY_SECONDS
        else:
            self.failures[method] = 0


class OutOfTreeFilter(StaticFilter):
    """The nodes that a plugin of the administrator does not refuse."""

    def __init__(self, plugin: "OutOfTreePlugin", snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._plugin = plugin

    def reads(self, shape: Shape) -> Hashable:
        """Return the need."""
        return self._plugin.value(shape)

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return the plugin's reason against a node row, or its failure; None if it passes."""
        reasons = self._plugin.answers("filter", self._plugin.value(shape))
        return None if self.mask(shape)[row] else str(reasons[row])

    def refused_by_reason(self, shape: Shape, rows: Bools) -> Mapping[str, Bools]:
        """Return refused node rows by the plugin's reason."""
        reasons = self._plugin.answers("filter", self._plugin.value(shape))
        texts = dict.fromkeys(reasons[rows].tolist())
        return {str(text): rows & np.equal(reasons, text).astype(np.bool_) for text in texts}

    def _feasible(self, shape: Shape) -> Bools:
        value = self._plugin.value(shape)
        if value is None:
            return self._snapshot.alive
        reasons = self._plugin.answers("filter", value).tolist()
        return np.array([reason is None for reason in reasons], np.bool_)


class OutOfTreeScore(NodeFilter):
    """The score of a plugin of the administrator, and what it explains; it refuses no node."""

    def __init__(self, plugin: "OutOfTreePlugin", snapshot: Snapshot) -> None:
        self._plugin = plugin
        self._snapshot = snapshot
        # By need: the domains, and the place among them of each node row's.
        self._domains: dict[Hashable, list[Hashable]] = {}
        self._codes = NodeCache[Int64s](snapshot)
        node = node_domains(snapshot)
        counters = TermCounters[Hashable](
            snapshot,
            keys=lambda shape: (plugin.value(shape),) if self.prefers(shape) else (),
            domains=lambda _: node,
            marks=lambda value: (value,),
        )
        self.counters = (counters,)
        self._counted = PerShape(counters, lambda shape: dict(counters.candidates((plugin.value(shape),))))

    def mask(self, shape: Shape) -> Bools:  # noqa: ARG002 - it refuses none
        """Return all nodes."""
        return self._snapshot.alive

    def reason(self, shape: Shape, row: int) -> str | None:  # noqa: ARG002 - as above
        """Return None."""
        return None

    def prefers(self, shape: Shape) -> bool:
        """Return whether the plugin scores nodes for a shape."""
        return type(self._plugin.own).score is not NodePlugin.score and self._plugin.value(shape) is not None

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the weighted scores of node rows; 0 if the plugin fails."""
        plugin, value = self._plugin, self._plugin.value(shape)
        codes = self._codes.get(value, lambda: self._coded(value))
        domains, points = self._domains[value], np.zeros(len(self._domains[value]), np.int64)
        if plugin.calls.failure("domain", value) or plugin.calls.failure("score", value):
            return np.zeros(len(rows), np.int64)
        pods = self._pods(shape, codes, domains)
        with plugin.calls.calling("score", value) as call:
            for code in np.flatnonzero(np.bincount(codes[rows])).tolist():
                score = 0 if domains[code] is None else call(plugin.own.score, value, domains[code], pods)
                if not 0 <= score <= HIGHEST:
                    raise ValueError(f"{score} is not within 0 and {HIGHEST}")
                points[code] = score * plugin.own.weight
        return points[codes[rows]] if not plugin.calls.failure("score", value) else 0 * codes[rows]

    def remark(self, shape: Shape) -> str:
        """Return the plugin's sentence about the need of a shape."""
        text, plugin, value = "", self._plugin, self._plugin.value(shape)
        if value is not None and not plugin.calls.failure("explain", value):
            with plugin.calls.calling("explain", value) as call:
                text = cut(one_line(call(plugin.own.explain, value)), _LONGEST)
        return text

    def _pods(self, shape: Shape, codes: Int64s, domains: list[Hashable]) -> Mapping[Hashable, int]:
        """Return the number of pods with the need of a shape, by domain."""
        numbers = [0] * len(domains)
        for counter in self._counted.get(shape).values():
            counter.refresh(self._snapshot.node_revision)
            for row, number in counter.rows.items():
                numbers[codes.item(row)] += number
        return Frozen(
            {domain: number for domain, number in zip(domains, numbers, strict=True) if domain is not None}
        )

    def _coded(self, value: Hashable) -> Int64s:
        """Return the domain of each node row as a place in `_domains`."""
        answers = self._plugin.answers("domain", value).tolist()
        places = {domain: place for place, domain in enumerate(dict.fromkeys(answers))}
        self._domains[value] = list(places)
        return np.array([places[domain] for domain in answers], np.int64)


class OutOfTreePlugin(Plugin):
    """A plugin of the administrator, `own`, on one snapshot; `clock` returns monotonic seconds."""

    def __init__(
        self, name: str, own: NodePlugin, at: int, snapshot: Snapshot, clock: Clock = time.monotonic
    ) -> None:
        self.name = name
        self.own = own
        self.calls = _PluginCalls(snapshot, clock)
        self._at = at
        self._snapshot = snapshot
        snapshot.reports_amounts = True
        # By what the plugin sees of a pod: equal pods get equal needs, whenever these are asked for.
        self._needs: dict[object, OutOfTreeNeed] = {}
        # The times that failed needs were asked for again.
        self._retries = 0
        self._kept = NodeCache[Answers](snapshot)
        self._facts: dict[int, NodeFacts] = {}
        snapshot.observe_nodes(self._node_changed)

    def value(self, shape: Shape) -> Hashable | None:
        """Return the need of a shape; None if the plugin has no say, or failed."""
        need = shape.needs[self._at]
        return need.value if isinstance(need, OutOfTreeNeed) else None

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> OutOfTreeNeed:
        """Return what a pod needs; a failure refuses every node."""
        requests = dict(pod_requests(pod, context.minor).amounts)
        shown = (*self._shown(pod), tuple(sorted(requests.items())))
        need = self._needs.get(shown)
        if need is None:
            if len(self._needs) == _NEEDS:
                self._needs.clear()
            namespace, group, labels, priority, _ = shown
            info, value = PodFacts(namespace, group, Frozen(dict(labels)), priority, Frozen(requests)), None
            with self.calls.calling("pre_filter", shown) as call:
                value = plain(call(self.own.pre_filter, info))
            failure = self.calls.failure("pre_filter", shown)
            need = OutOfTreeNeed(refused=self.words(failure)) if failure else OutOfTreeNeed(value=value)
            self._needs[shown] = need
        return need

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:  # noqa: ARG002 - the same by all rules
        """Return the filter, unless the plugin has none, and the score."""
        score = OutOfTreeScore(self, self._snapshot)
        filtering = type(self.own).filter is not NodePlugin.filter
        return (OutOfTreeFilter(self, self._snapshot), score) if filtering else (score,)

    def fingerprint(self, pod: Schedulable) -> object:
        """Return what the plugin sees of a pod beside its requests, and the times that it was asked again."""
        return *self._shown(pod), self._retries

    def changed_users(self) -> Iterable[int]:
        """Return the pods whose need failed, once the plugin may be called again."""
        snapshot = self._snapshot
        if snapshot.is_trying or not self.calls.begin_decision():
            return ()
        self._retries += 1
        self._needs = {shown: need for shown, need in self._needs.items() if not need.refused}
        # The masks that are kept refuse all nodes after a failure.
        snapshot.report_nodes()
        failed = [number for number, shape in snapshot.shapes.items() if shape.needs[self._at].refused]
        return np.flatnonzero(np.isin(snapshot.shape, failed) & (snapshot.home != NO_POD)).tolist()

    def fault(self) -> str:
        """Return the last failure, if several in a row failed."""
        reported = max(self.calls.failures.values(), default=0) >= REPORTED
        return self.words(self.calls.last_failure) if reported else ""

    def words(self, text: str) -> str:
        """Return a text of the plugin with its name."""
        return cut(one_line(f"plugin {self.name}: {text}"), _LONGEST)

    def answers(self, method: str, need: Hashable) -> Answers:
        """Return the reasons or domains of the nodes by row; the failure for each if the method failed."""
        return self._kept.get((method, need), lambda: self._ask(method, need))

    def _ask(self, method: str, need: Hashable) -> Answers:
        answers = np.full(len(self._snapshot.alive), None, np.object_)
        if not self.calls.failure(method, need):
            with self.calls.calling(method, need) as call:
                for row in self._snapshot.row.values():
                    if row not in self._facts:
                        self._facts[row] = node_facts(self._snapshot.objects[row])
                    answer = plain(call(getattr(self.own, method), need, self._facts[row]))
                    is_text = method == "filter" and answer is not None
                    answers[row] = self.words(str(answer)) if is_text else answer
        if failure := self.calls.failure(method, need):
            answers[:] = self.words(failure)
        return answers

    def _node_changed(self, row: int) -> None:
        self._facts.pop(row, None)

    def _shown(self, pod: Schedulable) -> tuple[Any, ...]:
        """Return the fields of PodFacts but the requests; labels are pairs."""
        labels, group = pod.metadata.labels or {}, membership(pod, native_served=True)
        shown = tuple((key, labels[key]) for key in self.own.labels if key in labels)
        name = "" if group is None else group.name
        return pod.metadata.namespace or "", name, shown, pod.spec.priority or 0


def node_facts(node: SchedulableNode | None) -> NodeFacts:
    """Return a node as plugins see it."""
    assert node is not None, "the row is a node's"
    labels, spec = dict(node.metadata.labels or {}), node.spec
    taints = (spec.taints if spec is not None else None) or ()
    shown = tuple((taint.key or "", taint.value or "", taint.effect or "") for taint in taints)
    return NodeFacts(node.metadata.name or "", Frozen(labels), shown, Frozen(allocatable(node)[0]))


def plain(value: Hashable) -> Hashable:
    """Return a value of text, numbers and tuples, whose comparison runs no code of the plugin."""
    if isinstance(value, tuple):
        for part in value:
            plain(part)
    elif not isinstance(value, str | int | float | None):
        raise TypeError(f"{type(value).__name__} is not text, a number, or a tuple of these")
    return value
