"""The part of a pod that decides where it may go, in one canonical and hashable form that its copies share.

A cluster of a hundred thousand pods has a few hundred shapes. So everything that is read from manifests
(selectors, terms, claims, sums) is computed once for each shape. Every cache of a filter is by shape. Two
spellings of the same constraint are one shape where that costs nothing: order, defaults, matchLabels.

Constraints that Podium cannot evaluate are in `missing`, by name and in words for a reader. Such a pod counts
on its node, but is not placed. Defaults that an API server fills in are filled in here too, for pods that
come from files.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from podium.api import schedulable as api
from podium.api.claims import claims_of_pod
from podium.api.podrequests import LATEST, UnusableQuantity, pod_requests, resized
from podium.api.schedulable import Schedulable, Taint
from podium.api.selectors import (
    Labels,
    NodeRequirement,
    Requirement,
    Selector,
    conjoined,
    node_terms,
    selector_of,
)
from podium.planner.features import required as required_features

T = TypeVar("T")
# JSON has integers of any size, where MessagePack has 64 bits; both take the same time.
_ENCODER = msgspec.json.Encoder()


class ShapeToleration(NamedTuple):
    """A toleration; an empty key or effect matches all of them."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration covers a taint; operators behind a gate (Lt, Gt) tolerate nothing."""
        if self.effect not in ("", taint.effect or "") or self.key not in ("", taint.key or ""):
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == (taint.value or ""))


class HostPort(NamedTuple):
    """A host port that a pod takes; the address 0.0.0.0 takes it on all addresses."""

    protocol: str
    ip: str
    port: int


class PodTerm(NamedTuple):
    """Other pods by namespace (by name, or by its labels) and by label; without a selector, none of them."""

    namespaces: frozenset[str]
    namespace_selector: Selector | None
    selector: Selector | None
    topology_key: str

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Return whether the term selects a pod of a namespace."""
        within = namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        )
        return within and self.selector is not None and self.selector.matches(labels)


class SpreadConstraint(NamedTuple):
    """A limit on the difference in the number of selected pods between domains of a topology key."""

    max_skew: int
    topology_key: str
    selector: Selector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


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
    def alike(self) -> "PodNeed":
        """The need without what differs between copies, such as the names of claims."""
        return self

    @property
    def restricts(self) -> bool:
        """Whether it may restrict the nodes of the pod."""
        return bool(self.refused)

    @property
    def weight(self) -> int:
        """The number of parts, an estimate of the memory that they take."""
        return 1

    @property
    def attaches(self) -> bool:
        """Whether nodes limit what it takes, beside their resources."""
        return False

    @property
    def used_alone(self) -> tuple[Hashable, ...]:
        """The things that the pod would use alone, in the cluster or on its node."""
        return ()

    def excludes(self, other: "PodNeed", *, on_node: bool) -> bool:  # noqa: ARG002 - nothing is used alone
        """Return whether two pods cannot use what they need, on one node or anywhere in the cluster."""
        return False


class NeedSource(Protocol):
    """A plugin, as far as the shape of a pod depends on it."""

    def pre_filter(
        self, pod: Schedulable, requested: Collection[str], minor: int, missing: dict[str, None]
    ) -> PodNeed:
        """Return what a pod needs of the plugin."""

    def fingerprint(self, pod: Schedulable) -> object:
        """Return a value for JSON that is equal for pods with equal needs; None if none is cheap."""


class UnjudgedNeeds:
    """The needs of a planner without the plugin that `judges` them: a pod that has one is not judged."""

    def __init__(self, judges: str, asks: Callable[[Schedulable], object]) -> None:
        self._judges = judges
        self._asks = asks

    def pre_filter(
        self,
        pod: Schedulable,
        requested: Collection[str],  # noqa: ARG002 - the plugin is left out
        minor: int,  # noqa: ARG002 - as above
        missing: dict[str, None],
    ) -> PodNeed:
        """Add what the pod needs to `missing`."""
        if self._asks(pod):
            missing[self._judges] = None
        return PodNeed()

    def fingerprint(self, pod: Schedulable) -> object:
        """Return whether the pod has such a need."""
        return bool(self._asks(pod))


# The needs that a plugin judges, by name, and the test for a pod that has one.
_NEEDS: Mapping[str, Callable[[Schedulable], object]] = {
    "volume claims": claims_of_pod,
    "resource claims": lambda pod: pod.spec.resourceClaims,
}


def unjudged(judged: Collection[str]) -> Iterator[UnjudgedNeeds]:
    """Yield the sources of the needs that no plugin has `judged`, by `Plugin.JUDGES`."""
    return (UnjudgedNeeds(name, asks) for name, asks in _NEEDS.items() if name not in judged)


class Shape(NamedTuple):
    """Everything that decides where a pod may go; equal for the copies of a pod.

    Of `labels` a snapshot keeps what selectors distinguish (see `labels`); `labelled` pods have some.

    `requests` are in milli cpu and units (see `podium.api.podrequests`), `scored` is (milli cpu, bytes) for
    scores. One term of `node_required` must match; None requires nothing. `features` are those that a node
    must declare (see `features`). `preferred_pods` have a negative weight if the pods are to be avoided.
    `node_name` is set by a caller that plans for a pod that names a node it is not on yet.

    `refused` says why no node can take the pod, empty if one can. `needs` are those of the plugins, by place.
    """

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    scored: tuple[int, int] = (0, 0)
    node_name: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    node_required: tuple[NodeRequirement, ...] | None = None
    node_preferred: tuple[tuple[int, NodeRequirement], ...] = ()
    tolerations: tuple[ShapeToleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    preferred_pods: tuple[tuple[int, PodTerm], ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    soft_spread: tuple[SpreadConstraint, ...] = ()
    refused: str = ""
    needs: tuple[PodNeed, ...] = ()
    features: tuple[str, ...] = ()
    unusable: tuple[UnusableQuantity, ...] = ()
    missing: tuple[str, ...] = ()
    labelled: bool = False


def need_at(at: int) -> Callable[[Shape], Any]:
    """Return the function that reads the need of the plugin at a place in `Shape.needs`."""
    return lambda shape: shape.needs[at]


def weight(shape: Shape) -> int:
    """Return the number of parts of a shape, an estimate of the memory that it takes."""
    terms = (*(shape.node_required or ()), *(term for _, term in shape.node_preferred))
    parts = sum(len(part) for part in shape if isinstance(part, tuple))
    return parts + sum(len(term.expressions) for term in terms) + sum(need.weight for need in shape.needs)


def fingerprint(
    pod: Schedulable, labels: tuple[tuple[str, str], ...], plugins: Sequence[NeedSource]
) -> bytes | None:
    """Return bytes that are equal only for pods of one shape, and cheaper than it; None if claims count.

    `labels` are those of the shape.
    """
    spec = pod.spec
    own = []
    for plugin in plugins:
        mark = plugin.fingerprint(pod)
        if mark is None:
            return None
        own.append(mark)
    return _ENCODER.encode(
        (
            pod.metadata.namespace,
            labels,
            bool(pod.metadata.labels),
            _merged(pod),
            spec.containers,
            spec.initContainers,
            spec.resources,
            spec.overhead,
            spec.hostNetwork,
            spec.hostUsers,
            spec.ephemeralContainers,
            spec.nodeSelector,
            spec.affinity,
            spec.tolerations,
            spec.topologySpreadConstraints,
            own,
            resized(pod),
        )
    )


def _merged(pod: Schedulable) -> list[tuple[str, str | None]]:
    """Return the labels of a pod that its own terms and constraints merge into their selectors."""
    affinity, labels = pod.spec.affinity, pod.metadata.labels or {}
    keys: list[str] = []
    for constraint in pod.spec.topologySpreadConstraints or ():
        keys += constraint.matchLabelKeys or ()
    for kind in (affinity.podAffinity, affinity.podAntiAffinity) if affinity is not None else ():
        preferred_terms = kind.preferredDuringSchedulingIgnoredDuringExecution if kind is not None else None
        terms = kind.requiredDuringSchedulingIgnoredDuringExecution if kind is not None else None
        for term in (*(terms or ()), *(preferred.podAffinityTerm for preferred in preferred_terms or ())):
            if term is not None:
                keys += (*(term.matchLabelKeys or ()), *(term.mismatchLabelKeys or ()))
    return [(key, labels.get(key)) for key in keys]


def shape_of(pod: Schedulable, plugins: Sequence[NeedSource] = (), minor: int = LATEST) -> Shape:
    """Return the shape of a pod; `minor` is the kube-scheduler release whose sums and features count."""
    return _ShapeBuilder(pod, plugins).shape(minor)


# The affinity terms of one pod, of all kinds. Each takes about 20 microseconds when the pod changes.
MOST_TERMS = 1_000


class _ShapeBuilder:
    """Builds one shape, and collects the constraints that it cannot evaluate."""

    def __init__(self, pod: Schedulable, plugins: Sequence[NeedSource]) -> None:
        self.spec = pod.spec
        self.pod = pod
        self.plugins = plugins
        self.namespace = pod.metadata.namespace or ""
        self.labels = pod.metadata.labels or {}
        self.missing: dict[str, None] = {}
        self.terms_left = MOST_TERMS

    def shape(self, minor: int) -> Shape:
        spec = self.spec
        taken = pod_requests(self.pod, minor)
        for problem in taken.unusable:
            self.missing[f"{problem.field}: {problem.why}"] = None
        for constraint in spec.topologySpreadConstraints or ():
            if constraint.whenUnsatisfiable not in (None, "DoNotSchedule", "ScheduleAnyway"):
                self.missing[f"the spread constraint action {constraint.whenUnsatisfiable}"] = None
        affinity = spec.affinity or api.Affinity()
        near, apart = affinity.podAffinity or api.PodAffinity(), affinity.podAntiAffinity or api.PodAffinity()
        # The first that are read are the most important: those that other pods must obey, too.
        anti_affinity = self.terms(apart.requiredDuringSchedulingIgnoredDuringExecution)
        required, preferred = self.nodes(affinity.nodeAffinity or api.NodeAffinity())
        requested, missing = taken.amounts.keys(), self.missing
        needs = tuple(plugin.pre_filter(self.pod, requested, minor, missing) for plugin in self.plugins)
        return Shape(
            namespace=self.namespace,
            labels=tuple(sorted(self.labels.items())),
            requests=tuple(sorted(taken.amounts.items())),
            scored=taken.scored,
            selector=tuple(sorted((spec.nodeSelector or {}).items())),
            node_required=required,
            node_preferred=preferred,
            tolerations=self.tolerations(),
            ports=self.ports(),
            pod_affinity=self.terms(near.requiredDuringSchedulingIgnoredDuringExecution),
            pod_anti_affinity=anti_affinity,
            preferred_pods=self.preferred_terms(near, 1) + self.preferred_terms(apart, -1),
            spread=self.spread("DoNotSchedule"),
            soft_spread=self.spread("ScheduleAnyway"),
            refused=next(filter(None, (need.refused for need in needs)), ""),
            needs=needs,
            features=required_features(self.pod, minor),
            unusable=taken.unusable,
            missing=tuple(sorted(self.missing)),
            labelled=bool(self.labels),
        )

    def nodes(
        self, affinity: api.NodeAffinity
    ) -> tuple[tuple[NodeRequirement, ...] | None, tuple[tuple[int, NodeRequirement], ...]]:
        required = affinity.requiredDuringSchedulingIgnoredDuringExecution
        preferred = tuple(
            (preferred.weight, term)
            for preferred in self.within_limit(affinity.preferredDuringSchedulingIgnoredDuringExecution)
            if preferred.weight and preferred.preference is not None
            for term in node_terms([preferred.preference], self.missing)
        )
        terms = (
            None
            if required is None
            else node_terms(self.within_limit(required.nodeSelectorTerms), self.missing)
        )
        return terms, tuple(sorted(preferred))

    def within_limit(self, terms: Iterable[T] | None) -> Iterator[T]:
        """Yield affinity terms until the pod has MOST_TERMS."""
        for term in terms or ():
            if not self.terms_left:
                self.missing[f"more than {MOST_TERMS:,} affinity terms"] = None
                return
            self.terms_left -= 1
            yield term

    def tolerations(self) -> tuple[ShapeToleration, ...]:
        tolerations = {
            ShapeToleration(
                toleration.key or "",
                toleration.operator or "Equal",
                toleration.value or "",
                toleration.effect or "",
            )
            for toleration in self.spec.tolerations or ()
        }
        for toleration in tolerations:
            if toleration.operator not in ("Equal", "Exists"):
                self.missing[f"the toleration operator {toleration.operator}"] = None
        return tuple(sorted(tolerations))

    def ports(self) -> tuple[HostPort, ...]:
        """Return the host ports that the pod keeps; an init container that ends keeps none."""
        ports: set[HostPort] = set()
        sidecars = (init for init in self.spec.initContainers or () if init.restartPolicy == "Always")
        for container in (*(self.spec.containers or ()), *sidecars):
            for port in container.ports or ():
                number = port.hostPort or (port.containerPort if self.spec.hostNetwork else None)
                if number is not None and number > 0:
                    ports.add(HostPort(port.protocol or "TCP", port.hostIP or "0.0.0.0", number))  # noqa: S104 # nothing binds it
        return tuple(sorted(ports))

    def terms(self, terms: Iterable[api.PodAffinityTerm] | None) -> tuple[PodTerm, ...]:
        return tuple(map(self.pod_term, self.within_limit(terms)))

    def preferred_terms(self, affinity: api.PodAffinity, sign: int) -> tuple[tuple[int, PodTerm], ...]:
        return tuple(
            (sign * preferred.weight, self.pod_term(preferred.podAffinityTerm))
            for preferred in self.within_limit(affinity.preferredDuringSchedulingIgnoredDuringExecution)
            if preferred.weight and preferred.podAffinityTerm is not None
        )

    def pod_term(self, term: api.PodAffinityTerm) -> PodTerm:
        namespaces = frozenset(term.namespaces or ())
        if not namespaces and term.namespaceSelector is None:
            namespaces = frozenset({self.namespace})
        selector = selector_of(term.labelSelector, self.missing)
        if selector is not None and (term.matchLabelKeys or term.mismatchLabelKeys):
            # A server merged these when the pod was created; labels may have changed since.
            merged = {requirement.key for requirement in selector.requirements}
            more = [
                Requirement(key, operator, (self.labels[key],))
                for keys, operator in ((term.matchLabelKeys, "In"), (term.mismatchLabelKeys, "NotIn"))
                for key in keys or ()
                if key in self.labels and key not in merged
            ]
            selector = conjoined(*selector.requirements, *more)
        return PodTerm(
            namespaces, selector_of(term.namespaceSelector, self.missing), selector, term.topologyKey or ""
        )

    def spread(self, action: str) -> tuple[SpreadConstraint, ...]:
        constraints: list[SpreadConstraint] = []
        for constraint in self.spec.topologySpreadConstraints or ():
            if (constraint.whenUnsatisfiable or "DoNotSchedule") != action:
                continue
            selector = selector_of(constraint.labelSelector, self.missing)
            if selector is not None and constraint.matchLabelKeys:
                keys = [key for key in constraint.matchLabelKeys if key in self.labels]
                own = (Requirement(key, "In", (self.labels[key],)) for key in keys)
                selector = conjoined(*selector.requirements, *own)
            constraints.append(
                SpreadConstraint(
                    constraint.maxSkew or 0,
                    constraint.topologyKey or "",
                    selector,
                    1 if constraint.minDomains is None else constraint.minDomains,
                    (constraint.nodeAffinityPolicy or "Honor") == "Honor",
                    constraint.nodeTaintsPolicy == "Honor",
                )
            )
        return tuple(constraints)
