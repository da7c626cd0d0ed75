"""Rules about devices: claims that no node can satisfy, missing classes, selectors that match nothing.

A claim that kube-controller-manager created is a copy of its template, so only the template is reported.
Claims that have devices are not checked.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from podium.api.claims import ClaimingPod
from podium.api.devices import DEVICE_API, DeviceClaim, DeviceRequirement
from podium.api.findings import ObjectRef, Severity
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind
from podium.audit.publisheddevices import PublishedDevices, RequestLack, SelectorFlaw
from podium.audit.survey import AuditFinding, Survey
from podium.cluster.reader import Name
from podium.rules.rule import Rule
from podium.text import count

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
