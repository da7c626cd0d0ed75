"""Check that the published devices can satisfy a claim, and that selectors match some of them.

A pod gets all devices of a claim from one node. If no node can use as many matching devices as a request
needs, no scheduler allocates the claim. The test is necessary, not sufficient, as that of `capacity`. Devices
in use, tainted devices and those of older slices or incomplete pools count too, because all of that changes.
Constraints and shared counters are left out. So a finding is certain for the present nodes and slices.

Any user who may create a claim chooses its selectors, so the effort of evaluations and the number of
comparisons are limited. A selector without an answer counts as a match.

Source: the allocator of k8s.io/dynamic-resource-allocation, as kube-scheduler 1.36 and 1.37 use it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubecel import SelectorAnswers, SelectorCompileError, UnansweredSelectorError
from podium.api.core import Node, RawQuantity
from podium.api.devices import ALL, Device, DeviceRequest, DeviceRequirement, DeviceSelector, ResourceSlice
from podium.api.nodeselector import NodeSelector
from podium.api.quantity import QuantityError, parse
from podium.api.selectors import NodeRequirement, node_terms
from podium.cluster.reader import ClusterReader

# The most effort of all evaluations in microseconds, roughly.
MAX_EFFORT = 10_000_000
# The most devices and nodes that are compared with requirements.
MAX_COMPARED = 5_000_000
# The minors whose selectors can be evaluated.
_OLDEST, _NEWEST = 36, 37

_Terms = tuple[NodeRequirement, ...]
# The selectors and the capacities that decide which devices match a requirement.
_Wanted = tuple[tuple[str, ...], tuple[tuple[str, RawQuantity], ...]]


class PublishedDevice(NamedTuple):
    """A device with the nodes that can use it: one by its name, all (None), or those that match a term."""

    driver: str
    device: Device
    nodes: str | _Terms | None


class RequestLack(NamedTuple):
    """A request that no node has devices for; without a name: no node has devices for all requests.

    `needed` is the least number of an alternative, and `most` the most matching devices of one node.
    """

    request: str = ""
    needed: int = 0
    most: int = 0


class SelectorFlaw(NamedTuple):
    """A selector, by its place, that matches none of `devices` devices; `error` if it fails on all.

    Without devices, the error is the reason why it has no result.
    """

    number: int
    devices: int
    error: str


class _Matching(NamedTuple):
    """The number of matching devices: those of each node, those of all nodes, and those of terms."""

    by_node: Counter[str]
    everywhere: int
    by_terms: Counter[_Terms]

    def on(self, node: Node) -> int:
        """Return the number of these devices that a node can use."""
        name, labels = node.metadata.name or "", node.metadata.labels or {}
        selected = (
            number
            for terms, number in self.by_terms.items()
            if any(requirement.matches(name, labels) for requirement in terms)
        )
        return self.by_node[name] + self.everywhere + sum(selected)


class PublishedDevices:
    """The devices of all slices of a cluster, with the answers of selectors."""

    def __init__(
        self, view: ClusterReader, minor: int, *, effort: int = MAX_EFFORT, compared: int = MAX_COMPARED
    ) -> None:
        slices = (resource_slice for _, resource_slice in sorted(view.resource_slices.items()))
        self.devices = [device for resource_slice in slices for device in _published(resource_slice)]
        self._view = view
        owned = ((published.driver, published.device) for published in self.devices)
        self._answers = SelectorAnswers(min(max(minor, _OLDEST), _NEWEST), owned, effort)
        self._uncompared = compared
        self._matching: dict[_Wanted, _Matching] = {}

    @property
    def costliest(self) -> str | None:
        """Return the expression that took the most effort, if none is left for others."""
        return self._answers.costliest

    def lack(self, requests: Sequence[DeviceRequest]) -> RequestLack | None:
        """Return why no node has devices for these requests, None if one may have them.

        Without nodes nothing is known. The classes of the requests exist.
        """
        nodes = list(self._view.nodes.values())
        if not nodes or any(all(self._has(request, node) for request in requests) for node in nodes):
            return None
        for request in requests:
            if not any(self._has(request, node) for node in nodes):
                options = _alternatives(request)
                most = max(self._matching_of(option).on(node) for option in options for node in nodes)
                return RequestLack(request.name, min(map(_needed, options)), most)
        return RequestLack()

    def class_flaws(self, name: str) -> Iterator[SelectorFlaw]:
        """Yield the selectors of a class that match no published device."""
        yield from self._flaws(self._of_class(name), self.devices)

    def request_flaws(self, requirement: DeviceRequirement) -> Iterator[SelectorFlaw]:
        """Yield the selectors of a requirement that match none of the devices of its class."""
        own = _expressions(requirement.selectors)
        if own and self._may_compare(len(self.devices)):
            of_class = self._of_class(requirement.deviceClassName)
            yield from self._flaws(
                own, [device for device in self.devices if self._selected(of_class, device)]
            )

    def _flaws(
        self, expressions: Sequence[str], devices: Sequence[PublishedDevice]
    ) -> Iterator[SelectorFlaw]:
        for number, expression in enumerate(expressions):
            if not self._may_compare(len(devices)):
                return
            reason = None
            for device in devices:
                answer = self._answer(expression, device)
                if isinstance(answer, UnansweredSelectorError):
                    yield SelectorFlaw(number, 0, str(answer))
                    break
                if answer is True:
                    break
                # One plain answer shows that the selector does not always fail.
                reason = answer if reason is None or answer is False else reason
            else:
                if reason is not None:
                    yield SelectorFlaw(number, len(devices), reason or "")

    def _has(self, request: DeviceRequest, node: Node) -> bool:
        """Return whether a node may have enough devices for a request."""
        options = _alternatives(request)
        if not options or not self._may_compare(len(options)):
            return True
        return any(self._matching_of(option).on(node) >= _needed(option) for option in options)

    def _may_compare(self, number: int) -> bool:
        self._uncompared -= number
        return self._uncompared >= 0

    def _matching_of(self, requirement: DeviceRequirement) -> _Matching:
        expressions = (*self._of_class(requirement.deviceClassName), *_expressions(requirement.selectors))
        amounts = (requirement.capacity.requests if requirement.capacity is not None else None) or {}
        key = expressions, tuple(sorted(amounts.items()))
        if key not in self._matching:
            if not self._may_compare(len(self.devices)):
                return _Matching(Counter(), len(self.devices), Counter())
            matching = self._matching[key] = _Matching(Counter(), 0, Counter())
            everywhere = 0
            for published in self.devices:
                if not (_has_capacity(published.device, key[1]) and self._selected(expressions, published)):
                    continue
                if published.nodes is None:
                    everywhere += 1
                elif isinstance(published.nodes, str):
                    matching.by_node[published.nodes] += 1
                else:
                    matching.by_terms[published.nodes] += 1
            self._matching[key] = matching._replace(everywhere=everywhere)
        return self._matching[key]

    def _of_class(self, name: str) -> tuple[str, ...]:
        device_class = self._view.device_classes.get(name)
        return _expressions(device_class.spec.selectors if device_class is not None else None)

    def _selected(self, expressions: Iterable[str], device: PublishedDevice) -> bool:
        answers = (self._answer(expression, device) for expression in expressions)
        return all(answer is True or isinstance(answer, UnansweredSelectorError) for answer in answers)

    def _answer(self, expression: str, device: PublishedDevice) -> bool | str | UnansweredSelectorError:
        """Return whether an expression selects a device, or its error; True if no effort is left."""
        answer = self._answers.answer(expression, device.driver, device.device)
        if answer is None or isinstance(answer, bool):
            return answer is not False
        if isinstance(answer, UnansweredSelectorError):
            return answer
        if isinstance(answer, SelectorCompileError):
            return f"it does not compile: {answer}"
        return str(answer) or "it fails"


def _published(resource_slice: ResourceSlice) -> Iterator[PublishedDevice]:
    spec = resource_slice.spec
    whole = _usable_nodes(spec.nodeName, spec.nodeSelector)
    for device in spec.devices or ():
        own = _usable_nodes(device.nodeName, device.nodeSelector) if spec.perDeviceNodeSelection else whole
        yield PublishedDevice(spec.driver, device, own)


def _usable_nodes(name: str | None, selector: NodeSelector | None) -> str | _Terms | None:
    """Return the nodes that can use a device; all of them if its selector cannot be evaluated."""
    if name:
        return name
    unreadable: dict[str, None] = {}
    terms = node_terms(selector.nodeSelectorTerms, unreadable) if selector is not None else None
    return None if unreadable else terms


def _alternatives(request: DeviceRequest) -> Sequence[DeviceRequirement]:
    exactly = [] if request.exactly is None else [request.exactly]
    return request.firstAvailable or exactly


def _needed(requirement: DeviceRequirement) -> int:
    """Return the least number of devices: a request for all devices needs one."""
    if requirement.allocationMode == ALL:
        return 1
    return 1 if requirement.count is None else requirement.count


def _expressions(selectors: Iterable[DeviceSelector] | None) -> tuple[str, ...]:
    return tuple(selector.cel.expression for selector in selectors or () if selector.cel is not None)


def _has_capacity(device: Device, amounts: Iterable[tuple[str, RawQuantity]]) -> bool:
    """Return whether an empty device may have these amounts; policies only round requests up."""
    capacities = device.capacity or {}
    try:
        return all(
            name in capacities and parse(amount) <= parse(capacities[name].value) for name, amount in amounts
        )
    except QuantityError:
        return True
