"""Rules about devices: claims that no node can satisfy, missing classes, selectors that match nothing.

A claim that kube-controller-manager created is a copy of its template, so only the template is reported.
Claims that have devices are not checked.

No scheduler allocates a claim if no node can use as many matching devices as a request needs. This test is
necessary, not sufficient, as that of `capacity`. Devices in use, tainted devices and those of older slices or
incomplete pools count too, because all of that changes. Constraints and shared counters are left out.

Any user who may create a claim chooses its selectors, so the effort of evaluations and the number of
comparisons are limited. A selector without an answer counts as a match.

Source: the allocator of k8s.io/dynamic-resource-allocation, as kube-scheduler 1.36 and 1.37 use it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from kubecel import SelectorAnswers, SelectorCompileError, UnansweredSelectorError
from podium.api.claims import ClaimingPod
from podium.api.core import Node, RawQuantity
from podium.api.devices import (
    ALL,
    DEVICE_API,
    Device,
    DeviceClaim,
    DeviceRequest,
    DeviceRequirement,
    DeviceSelector,
    ResourceSlice,
)
from podium.api.findings import ObjectRef, Severity
from podium.api.meta import ObjectMeta
from podium.api.quantity import QuantityError, parse
from podium.api.reads import Kind
from podium.api.selectors import NodeRequirement, NodeSelector, node_terms
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import ClusterReader, Name
from podium.rules.rule import Rule
from podium.text import count

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


_CLAIMS = frozenset({Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS})
_ENCODER = msgspec.json.Encoder()
# The most characters of an error of a selector.
_ERROR = 200

DEVICE_CLASS_MISSING = Rule(
    id="device-class-missing",
    severity=Severity.ERROR,
    title="A claim for devices names a DeviceClass that does not exist",
    why="While a class of its claims does not exist, kube-scheduler refuses a pod on every node. An existing "
    "class of another alternative does not help. Claims with devices are not checked.",
    source="kube-scheduler (DynamicResources, PreFilter)",
    needs=_CLAIMS,
)
CLAIM_UNSATISFIABLE = Rule(
    id="claim-unsatisfiable",
    severity=Severity.ERROR,
    title="No node can satisfy a claim for devices",
    why="A pod gets all devices of a claim from one node. The check counts the matching devices "
    "of each node and request, by the selectors of class and request and by the requested capacity. "
    "Devices in use and tainted devices count too; constraints and shared counters are not checked. "
    "Templates are checked if a pod or a group uses them.",
    source="kube-scheduler (DynamicResources, structured allocator)",
    needs=_CLAIMS | {Kind.RESOURCE_SLICE, Kind.NODE},
)
SELECTOR_UNMATCHED = Rule(
    id="device-selector-unmatched",
    severity=Severity.WARNING,
    title="A device selector matches no published device",
    why="A selector with a misspelt driver, attribute or value excludes every device. A selector that fails "
    "on a device refuses the pod. The selectors of a request are checked on the devices of its class, each "
    "selector alone.",
    source="kube-scheduler (DynamicResources, structured allocator)",
    needs=frozenset({Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE}),
)


class _DeviceClaimPlace(NamedTuple):
    """A claim or a template, with the place of its `devices` and its content as a key."""

    ref: ObjectRef
    metadata: ObjectMeta
    field: str
    devices: DeviceClaim
    key: bytes


def device_class_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find claims and templates whose classes do not exist."""
    classes = survey.view.device_classes
    for source in _sources(survey):
        if not survey.absent(Kind.DEVICE_CLASS, [source.metadata]):
            continue
        for field, requirement in _requirements(source):
            name = requirement.deviceClassName
            if name and name not in classes:
                message = f"DeviceClass {name} does not exist."
                fix = f"create DeviceClass {name}, or recreate it with an existing class"
                finding = DEVICE_CLASS_MISSING.finding(source.ref, f"{field}.deviceClassName", message, fix)
                yield AuditFinding(finding, f"create DeviceClass {name}")


def claim_unsatisfiable(survey: Survey) -> Iterator[AuditFinding]:
    """Find claims and used templates for which no node has enough devices."""
    used = _used_templates(survey)
    published = PublishedDevices(survey.view, survey.minor)
    lacks: dict[bytes, RequestLack | None] = {}
    for source in _sources(survey):
        if not all(survey.absent(kind, [source.metadata]) for kind in (Kind.NODE, Kind.RESOURCE_SLICE)):
            continue
        if source.ref.kind == "ResourceClaimTemplate" and (source.ref.namespace, source.ref.name) not in used:
            continue
        names = [requirement.deviceClassName for _, requirement in _requirements(source)]
        if not all(name in survey.view.device_classes for name in names):
            continue
        if source.key not in lacks:
            lacks[source.key] = published.lack(source.devices.requests or ())
        lack = lacks[source.key]
        if lack is not None:
            fix = "correct the request or its selectors, or add nodes with such devices"
            message = _lack_message(lack, len(published.devices))
            yield AuditFinding(
                CLAIM_UNSATISFIABLE.finding(source.ref, f"{source.field}.requests", message, fix)
            )
    yield from _left_out(survey, published, CLAIM_UNSATISFIABLE)


def selector_unmatched(survey: Survey) -> Iterator[AuditFinding]:
    """Find selectors of classes, claims and templates that match no published device."""
    published = PublishedDevices(survey.view, survey.minor)
    for name, device_class in sorted(survey.view.device_classes.items()):
        if not survey.absent(Kind.RESOURCE_SLICE, [device_class.metadata]):
            continue
        ref = ObjectRef(DEVICE_API, "DeviceClass", "", name)
        for flaw in published.class_flaws(name):
            yield _selector_finding(ref, "spec", flaw, count(flaw.devices, "published device"))
    flaws: dict[bytes, list[tuple[str, str, SelectorFlaw]]] = {}
    for source in _sources(survey) if survey.read(Kind.RESOURCE_CLAIM) else ():
        if not survey.absent(Kind.RESOURCE_SLICE, [source.metadata]):
            continue
        if source.key not in flaws:
            flaws[source.key] = [
                (
                    field.removeprefix(source.field),
                    f"{count(flaw.devices, 'device')} of class {requirement.deviceClassName}",
                    flaw,
                )
                for field, requirement in _requirements(source)
                if requirement.deviceClassName in survey.view.device_classes
                for flaw in published.request_flaws(requirement)
            ]
        for place, devices, flaw in flaws[source.key]:
            yield _selector_finding(source.ref, f"{source.field}{place}", flaw, devices)
    yield from _left_out(survey, published, SELECTOR_UNMATCHED)


def _left_out(survey: Survey, published: PublishedDevices, rule: Rule) -> Iterator[AuditFinding]:
    """Yield the selector that left no effort for others, if there is one."""
    costliest = published.costliest
    classes = sorted(survey.view.device_classes.items())
    places = [
        *(
            (ObjectRef(DEVICE_API, "DeviceClass", "", name), "spec", device_class.spec.selectors)
            for name, device_class in classes
        ),
        *(
            (source.ref, field, requirement.selectors)
            for source in _sources(survey)
            for field, requirement in _requirements(source)
        ),
    ]
    for ref, field, selectors in places if costliest is not None else ():
        for number, selector in enumerate(selectors or ()):
            if selector.cel is not None and selector.cel.expression == costliest:
                message = (
                    "it takes too long to evaluate, so other selectors were left out and count as matching."
                )
                place = f"{field}.selectors[{number}].cel.expression"
                yield AuditFinding(rule.finding(ref, place, message, "simplify the expression"))
                return


def _selector_finding(ref: ObjectRef, field: str, flaw: SelectorFlaw, devices: str) -> AuditFinding:
    place = f"{field}.selectors[{flaw.number}].cel.expression"
    error = " ".join(flaw.error.split())[:_ERROR]
    if not flaw.devices:
        fix = "simplify the selector"
        return AuditFinding(SELECTOR_UNMATCHED.finding(ref, place, f"{error}.", fix), fix)
    message = f"it fails on each of {devices}: {error}." if error else f"it matches none of {devices}."
    fix = "compare driver, attributes and values with kubectl get resourceslices -o yaml"
    return AuditFinding(SELECTOR_UNMATCHED.finding(ref, place, message, fix), fix)


def _lack_message(lack: RequestLack, devices: int) -> str:
    if not devices:
        return "no device is published."
    if not lack.request:
        return "each request finds devices on a node, but no node has devices for all requests."
    offer = f"the most that a node has is {lack.most:,}" if lack.most else "no node has any"
    need = f"request {lack.request} needs {count(lack.needed, 'matching device')} on one node"
    return f"{need}, and {offer} ({devices:,} published)."


def _sources(survey: Survey) -> Iterator[_DeviceClaimPlace]:
    """Yield the templates, and the claims without devices that are no copy of a template."""
    view = survey.view
    templates: set[tuple[str, bytes]] = set()
    for (namespace, name), template in sorted(view.claim_templates.items()):
        devices = template.spec.spec.devices
        key = _ENCODER.encode(devices)
        templates.add((namespace, key))
        ref = ObjectRef(DEVICE_API, "ResourceClaimTemplate", namespace, name)
        yield _DeviceClaimPlace(ref, template.metadata, "spec.spec.devices", devices, key)
    for (namespace, name), claim in sorted(view.resource_claims.items()):
        if claim.metadata.deletionTimestamp or (claim.status is not None and claim.status.allocation):
            continue
        key = _ENCODER.encode(claim.spec.devices)
        if claim.metadata.controller() is None or (namespace, key) not in templates:
            ref = ObjectRef(DEVICE_API, "ResourceClaim", namespace, name)
            yield _DeviceClaimPlace(ref, claim.metadata, "spec.devices", claim.spec.devices, key)


def _requirements(source: _DeviceClaimPlace) -> Iterator[tuple[str, DeviceRequirement]]:
    """Yield the requirements of a claim with their fields."""
    for at, request in enumerate(source.devices.requests or ()):
        field = f"{source.field}.requests[{at}]"
        if request.exactly is not None:
            yield f"{field}.exactly", request.exactly
        for number, subrequest in enumerate(request.firstAvailable or ()):
            yield f"{field}.firstAvailable[{number}]", subrequest


def _used_templates(survey: Survey) -> set[Name]:
    """Return the templates that live pods and groups name."""
    view = survey.view
    if not view.claim_templates:
        return set()
    entries = [
        (pod.metadata.namespace or "", claim)
        for pod in view.pods.values()
        if isinstance(pod, ClaimingPod) and not pod.finished
        for claim in pod.spec.resourceClaims or ()
    ]
    entries += [
        (group.ref.namespace, claim) for group in view.groups.values() for claim in group.claims or ()
    ]
    return {(namespace, claim.resourceClaimTemplateName or "") for namespace, claim in entries}
