"""The part of a pod that decides where it may go, in one canonical and hashable form that its copies share.

A cluster of a hundred thousand pods has a few hundred shapes. So everything that is read from manifests
(selectors, terms, claims, sums) is computed once for each shape. Every cache of a filter is by shape. Two
spellings of the same constraint are one shape where that costs nothing: order, defaults, matchLabels.

Each plugin adds its need. Constraints that Podium cannot evaluate are in `missing`, by name and in words for
a reader. Such a pod counts on its node, but is not placed. Plugins fill in the defaults of an API server too,
for pods that come from files.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from podium.api.podrequests import LATEST, UnusableQuantity, pod_requests
from podium.api.schedulable import Schedulable
from podium.api.selectors import Labels, Selector

T = TypeVar("T")


class PodNeed(msgspec.Struct, frozen=True, cache_hash=True):
    """The need of a pod for one plugin, a value that is equal for the copies of a pod.

    `refused` says why no node can take the pod, in kube-scheduler's words; empty if one can. Each property
    has the answer of a need that depends on no other pod.
    """

    refused: str = ""

    @property
    def node_constraints(self) -> Hashable:
        """The part that decides which nodes suit the pod, apart from other pods."""
        return ()

    @property
    def node_preferences(self) -> Hashable:
        """The part by which nodes alone are scored."""
        return ()

    @property
    def selectors(self) -> Iterable[Selector]:
        """The selectors by which it selects other pods."""
        return ()

    def looks_at(self, shape: "Shape", namespace: str, labels: Labels) -> bool:  # noqa: ARG002 - as above
        """Return whether a pod of a namespace with these labels counts for the pod, which has the `shape`.

        A namespace that is selected by its labels may be any.
        """
        return False

    @property
    def looks_around(self) -> bool:
        """Whether the labels of other pods restrict the nodes of the pod."""
        return False

    @property
    def alike(self) -> "PodNeed":
        """The need without what differs between copies, such as the names of claims."""
        return self

    @property
    def restricts(self) -> bool:
        """Whether objects that come or change may change the nodes of the pod."""
        return bool(self.refused)

    @property
    def weight(self) -> int:
        """The number of parts, an estimate of the memory that they take."""
        return sum(len(part) for part in msgspec.structs.astuple(self) if isinstance(part, tuple))

    @property
    def attaches(self) -> bool:
        """Whether nodes limit what it takes, beside their resources."""
        return False

    @property
    def used_alone(self) -> tuple[Hashable, ...]:
        """The things that the pod would use alone, in the cluster or on its node."""
        return ()


# The affinity terms of one pod, to nodes and to pods. Each takes about 20 microseconds when the pod changes.
MOST_TERMS = 1_000


class ShapeContext:
    """The facts that plugins share while the shape of one pod is computed.

    The pod has `requested` resources by these names. `minor` is the kube-scheduler release that counts.
    `missing` collects what cannot be evaluated.
    """

    def __init__(self, requested: Collection[str] = (), minor: int = LATEST) -> None:
        self.requested = requested
        self.minor = minor
        self.missing: dict[str, None] = {}
        self._terms_left = MOST_TERMS

    def term_limit(self) -> Callable[[Iterable[T] | None], Iterator[T]]:
        """Return a function that yields affinity terms of one plugin, until these are MOST_TERMS.

        A pod with more terms in all plugins is not evaluated.
        """
        left = MOST_TERMS

        def within_limit(terms: Iterable[T] | None) -> Iterator[T]:
            nonlocal left
            for term in terms or ():
                self._terms_left -= 1
                if self._terms_left < 0:
                    self.missing[f"more than {MOST_TERMS:,} affinity terms"] = None
                if not left:
                    return
                left -= 1
                yield term

        return within_limit


class NeedSource(Protocol):
    """A plugin, as far as the shape of a pod depends on it."""

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> PodNeed:
        """Return what a pod needs of the plugin."""


class Shape(NamedTuple):
    """Everything that decides where a pod may go; equal for the copies of a pod.

    Of `labels` a snapshot keeps what selectors distinguish (see `labels`); `labelled` pods have some.

    `requests` are in milli cpu and units (see `podium.api.podrequests`), `scored` is (milli cpu, bytes) for
    scores. `refused` says why no node can take the pod, empty if one can. `needs` are those of the plugins,
    by place.
    """

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    scored: tuple[int, int] = (0, 0)
    refused: str = ""
    needs: tuple[PodNeed, ...] = ()
    unusable: tuple[UnusableQuantity, ...] = ()
    missing: tuple[str, ...] = ()
    labelled: bool = False


def need_at(at: int) -> Callable[[Shape], Any]:
    """Return the function that reads the need of the plugin at a place in `Shape.needs`."""
    return lambda shape: shape.needs[at]


def weight(shape: Shape) -> int:
    """Return the number of parts of a shape, an estimate of the memory that it takes."""
    return sum(len(part) for part in shape if isinstance(part, tuple)) + sum(
        need.weight for need in shape.needs
    )


def shape_of(pod: Schedulable, plugins: Sequence[NeedSource] = (), minor: int = LATEST) -> Shape:
    """Return the shape of a pod; `minor` is the kube-scheduler release whose sums and features count."""
    taken, labels = pod_requests(pod, minor), pod.metadata.labels or {}
    context = ShapeContext(taken.amounts.keys(), minor)
    for problem in taken.unusable:
        context.missing[f"{problem.field}: {problem.why}"] = None
    needs = tuple(plugin.pre_filter(pod, context) for plugin in plugins)
    return Shape(
        namespace=pod.metadata.namespace or "",
        labels=tuple(sorted(labels.items())),
        requests=tuple(sorted(taken.amounts.items())),
        scored=taken.scored,
        refused=next(filter(None, (need.refused for need in needs)), ""),
        needs=needs,
        unusable=taken.unusable,
        missing=tuple(sorted(context.missing)),
        labelled=bool(labels),
    )
