"""The base of filters on a node's own fields, and the evaluation of node terms for all nodes.

Nothing here depends on other pods. So an answer holds until a node changes, and pods with equal constraints
share it. Each filter keeps its masks by the part of a shape that it reads. No preemption resolves these
refusals.

A requirement on labels is evaluated once for each distinct value of a label. The results are then looked up
for all nodes at once. A requirement on a label that no node has needs no look at nodes.

kube-scheduler's reason for a refused node names no label ("node(s) didn't match Pod's node
affinity/selector"). Its reader has to know which one, because no preemption and no priority helps there. The
words are computed only for a refusal that is reported. They look at a limited number of requirements, because
a tenant may write thousands.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from podium.api.selectors import NodeRequirement, Requirement
from podium.planner.arrays import Bools, Int32s, Int64s
from podium.planner.framework import MAX_SCORE, NodeFilter
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot
from podium.text import SHOWN, count, cut, some

T = TypeVar("T", bound=npt.NDArray[Any])

# The most bytes of answers in a NodeCache: 160 masks of 100,000 nodes.
KEPT_BYTES = 2**24


class NodeCache(Generic[T]):
    """Answers about all nodes, each computed once for its key until a node changes.

    The oldest are dropped first.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._revision = -1
        self._answers: dict[Hashable, T] = {}
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the answer for a key, computed now if it is not known."""
        if self._revision != self._snapshot.node_revision:
            self._revision = self._snapshot.node_revision
            self._answers.clear()
            self._bytes = 0
        answer = self._answers.get(key)
        if answer is None:
            answer = make()
            while self._answers and self._bytes + answer.nbytes > KEPT_BYTES:
                self._bytes -= self._answers.pop(next(iter(self._answers))).nbytes
            self._answers[key] = answer
            self._bytes += answer.nbytes
        return answer


class StaticFilter(NodeFilter):
    """A filter on one snapshot: a mask kept by the part it reads, and one text for every refused node."""

    REASON: ClassVar[str]

    def __init__(self, snapshot: Snapshot, needs: Callable[[Shape], Any] = lambda _: ()) -> None:
        """`needs` returns the part of a shape that the filter judges."""
        self.static = (self,)
        self._snapshot = snapshot
        self._needs = needs
        self._kept = NodeCache[Bools](snapshot)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape; read only, and valid until a node changes."""
        return self._kept.get(self.reads(shape), lambda: self._sealed(shape))

    def reads(self, shape: Shape) -> Hashable:
        """Return the part of a shape that the answer depends on."""
        part: Hashable = self._needs(shape)
        return part

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, None if it passes."""
        return None if self.mask(shape)[row] else self.REASON

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return what the pod requires and some of `nodes` (rows) lack, with the number of nodes.

        The result is empty if another filter names it.
        """
        refused = nodes & ~self.mask(shape)
        return f"{int(refused.sum()):,} {self.reason(shape, int(refused.argmax()))}"

    def _sealed(self, shape: Shape) -> Bools:
        mask = self._snapshot.alive & self._feasible(shape)
        # Otherwise one caller's `&=` would change every later caller's answer.
        mask.flags.writeable = False
        return mask

    @abstractmethod
    def _feasible(self, shape: Shape) -> Bools:
        """Return the rows that pass; values for rows without a node do not matter."""


# The operators of requirements that a node without the label meets.
_WITHOUT_LABEL = ("NotIn", "DoesNotExist")
# The most requirements that are evaluated for one text.
MOST_WORDED = 64
# The most bytes of a key or a value in a text.
MOST_BYTES = 80


def matching(snapshot: Snapshot, term: NodeRequirement) -> Bools:
    """Return the node rows that meet every expression of a term; all rows meet an empty term."""
    passes = everywhere(snapshot)
    for requirement in term.expressions:
        if snapshot.columns.has(requirement.key):
            passes &= labelled(snapshot, requirement)
        elif requirement.operator not in _WITHOUT_LABEL:
            return ~everywhere(snapshot)
    for requirement in term.fields:
        passes &= _rows_of_name(snapshot, requirement)
    return passes


def labelled(snapshot: Snapshot, requirement: Requirement) -> Bools:
    """Return the rows that meet a requirement, evaluated once for each value of its label."""
    key, operator, values = requirement
    column, ids = snapshot.columns.column(key), snapshot.columns.values(key)
    # The last entry is for nodes without the label, whose id is -1.
    table = np.full(ids.size + 1, operator == "NotIn", np.bool_)
    if operator in ("Gt", "Lt"):
        for value, value_id in ids.of.items():
            table[value_id] = requirement.matches({key: value})
    elif operator in ("Exists", "DoesNotExist"):
        table[:-1], table[-1] = operator == "Exists", operator == "DoesNotExist"
    else:
        table[[ids.of[value] for value in values if value in ids.of]] = operator == "In"
    return table[column]


def with_names(snapshot: Snapshot, names: Iterable[str]) -> Bools:
    """Return the rows of the nodes with these names."""
    rows = np.zeros(len(snapshot.alive), np.bool_)
    rows[[snapshot.row[name] for name in names if name in snapshot.row]] = True
    return rows


def everywhere(snapshot: Snapshot) -> Bools:
    """Return all rows."""
    return np.ones(len(snapshot.alive), np.bool_)


def any_term(snapshot: Snapshot, terms: Iterable[NodeRequirement]) -> Bools:
    """Return the node rows that meet one of some terms."""
    passes = np.zeros(len(snapshot.alive), np.bool_)
    for term in terms:
        passes |= matching(snapshot, term)
    return passes


def all_terms(snapshot: Snapshot, alternatives: Iterable[Iterable[NodeRequirement]]) -> Bools:
    """Return the node rows that meet one term of each of some alternatives."""
    passes = everywhere(snapshot)
    for terms in alternatives:
        passes &= any_term(snapshot, terms)
    return passes


def share(number: int, nodes: Bools, singular: str, plural: str) -> str:
    """Return how many of some nodes (rows) do what the verbs say: `no node has`, `2 of 4 nodes have`."""
    total = int(nodes.sum())
    if not number:
        return f"no node {singular}"
    if number == total:
        return f"the only node {singular}" if total == 1 else f"all {total:,} nodes {plural}"
    return f"{number:,} of {count(total, 'node')} {singular if number == 1 else plural}"


def unmet_terms(snapshot: Snapshot, nodes: Bools, terms: Sequence[NodeRequirement]) -> str:
    """Return which requirements not all `nodes` (rows) meet, with how many meet them; empty for none.

    One of the terms must hold. Of several it is the one for which some node lacks the fewest requirements.
    """
    judged: list[_Term] = []
    left = MOST_WORDED
    for term in terms:
        if judged and len(term.expressions) + len(term.fields) > left:
            break
        judged.append(_judged_term(snapshot, nodes, term, left))
        left -= judged[-1].requirements
    if not judged:
        return ""
    nearest = min(judged, key=lambda term: (term.lacking, -term.nearest))
    if len(terms) == 1:
        return nearest.words(nodes)
    number = int((any_term(snapshot, terms[: len(judged)]) & nodes).sum())
    the = "" if len(judged) == len(terms) else "the first "
    meet = share(number, nodes, "meets", "meet")
    which = f"{meet} {'one' if number else 'any'} of {the}{len(judged)} affinity terms"
    return f"{which}, and the nearest needs {nearest.words(nodes)}"


class _Term(NamedTuple):
    """The number of `requirements` of a term, and those that not all nodes meet: how many do, and in words.

    At least `lacking` requirements are unmet on each node, and no more on `nearest` nodes.
    """

    requirements: int
    unmet: tuple[tuple[int, str], ...]
    lacking: int
    nearest: int

    def words(self, nodes: Bools) -> str:
        """Return the requirements that not all nodes meet, those that the fewest meet first."""
        unmet = sorted(self.unmet, key=lambda requirement: requirement[0])
        texts = [words for _, words in unmet[:SHOWN]]
        if len(unmet) > SHOWN:
            texts.append(count(len(unmet) - SHOWN, "more requirement"))
        number = self.nearest if not self.lacking else 0
        if len(unmet) > 1 and number < unmet[0][0]:
            together = "both" if len(unmet) == 2 else "all of them"
            texts.append(f"and {share(number, nodes, 'meets', 'meet')} {together}")
        return ", ".join(texts)


def _judged_term(snapshot: Snapshot, nodes: Bools, term: NodeRequirement, most: int) -> _Term:
    """Return the first `most` requirements of a term, evaluated."""
    requirements = (*term.expressions, *term.fields)[:most]
    lacking: Int32s = np.zeros(len(nodes), np.int32)
    unmet = []
    for at, requirement in enumerate(requirements):
        field = at >= len(term.expressions)
        rows = _rows_of_name(snapshot, requirement) if field else labelled(snapshot, requirement)
        lacking += ~rows
        if (nodes & ~rows).any():
            number = int((rows & nodes).sum())
            subject, label = _worded(requirement, field=field)
            verbs = ("meets", "meet") if label == "this" else ("has", "have")
            unmet.append((number, f"{subject}: {share(number, nodes, *verbs)} {label}"))
    fewest = int(lacking[nodes].min(initial=len(requirements)))
    return _Term(len(requirements), tuple(unmet), fewest, int((lacking[nodes] == fewest).sum()))


def _worded(requirement: Requirement, *, field: bool) -> tuple[str, str]:
    """Return a requirement as `kubectl get --selector` writes it, and what a node that meets it has."""
    key, value = cut(requirement.key, MOST_BYTES), cut(some(requirement.values), SHOWN * MOST_BYTES)
    single = len(requirement.values) == 1
    match requirement.operator:
        case "In":
            equal = f"{key}={value}", "this name" if field else "this label"
            return equal if single else (f"{key} in ({value})", "such a label")
        case "NotIn":
            return f"{key}!={value}" if single else f"{key} notin ({value})", "this"
        case "Exists":
            return key, "this label"
        case "DoesNotExist":
            return f"!{key}", "this"
        case "Gt" | "Lt" as operator:
            return f"{key}{'>' if operator == 'Gt' else '<'}{value}", "this"
        case operator:
            return f"{key} {cut(operator, MOST_BYTES)}", "this"


def _rows_of_name(snapshot: Snapshot, requirement: Requirement) -> Bools:
    # The name is the only field there is.
    rows = with_names(snapshot, requirement.values)
    return rows if requirement.operator == "In" else ~rows


def scaled(values: Int32s) -> Int64s:
    """Return nonnegative values scaled to 0 to MAX_SCORE by their largest; all 0 stay 0."""
    return values.astype(np.int64) * MAX_SCORE // max(int(values.max(initial=0)), 1)
