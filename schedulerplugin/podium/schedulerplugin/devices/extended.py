"""Extended resources that device classes provide: the claim that a scheduler makes up for a pod.

A pod can request a resource such as `example.com/gpu` from a device plugin or from a class with this name. On
a node whose device plugin offers the resource, the plugin provides it; on others, the class does. Then the
pod needs a claim with a request for each container. Containers that run at the same time need devices of
their own. An init container ends before later containers start, so it uses their devices first, and init
containers share what they need beyond these.

Source: extendeddynamicresources.go of kube-scheduler and extendedresourcecache.go of
k8s.io/dynamic-resource-allocation, 1.36 and 1.37.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podium.api.core import Container, Pod
from podium.api.devices import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    IMPLICIT_RESOURCE_PREFIX,
    DeviceClaim,
    DeviceClaimSpec,
    DeviceClass,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
)
from podium.api.meta import ObjectMeta, OwnerReference
from podium.schedulerplugin.devices.inventory import nanos

# The name of the claim before it is written. No claim of a server has it.
IN_MEMORY = "<extended-resources>"
NOT_OFFERED = "cannot fit resource"

Classes = Mapping[str, DeviceClass]


class RequestMapping(NamedTuple):
    """The request whose devices a container uses for a resource, as in status.extendedResourceClaimStatus."""

    container: str
    resource: str
    request: str


class ExtendedClaim(NamedTuple):
    """The claim for the extended resources of a pod, and the use of its requests by containers."""

    claim: ResourceClaim
    mappings: tuple[RequestMapping, ...]


class _Need(NamedTuple):
    """A request of one container: its name, and the devices that it needs beyond those that it reuses."""

    name: str
    amount: int


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that provides each extended resource: the newest, and of these the first by name."""
    found: dict[str, DeviceClass] = {}
    by_name = sorted(classes, key=lambda each: each.metadata.name or "")
    for each in sorted(by_name, key=lambda each: each.metadata.creationTimestamp or "", reverse=True):
        if each.spec.extendedResourceName is not None:
            found.setdefault(each.spec.extendedResourceName, each)
        found[f"{IMPLICIT_RESOURCE_PREFIX}{each.metadata.name}"] = each
    return found


def claims_devices(requests: Iterable[str], classes: Classes) -> bool:
    """Return whether a class provides any of the requested resources."""
    return any(_extended(name) and name in classes for name in requests)


def resources_of_classes(
    requests: Iterable[str], allocatable: Mapping[str, int], classes: Classes
) -> tuple[str, ...] | None:
    """Return the requested resources that a node needs classes for, with its allocatable amounts.

    None if a resource comes from neither a device plugin nor a class; kube-scheduler refuses the node with
    NOT_OFFERED.
    """
    found: list[str] = []
    for name in filter(_extended, requests):
        if not allocatable.get(name) and name in classes:
            found.append(name)
        elif name not in allocatable:
            return None
    return tuple(sorted(found))


def extended_claim(pod: Pod, resources: Sequence[str], classes: Classes) -> ExtendedClaim:
    """Return the claim of a pod for these resources, each of which has a class."""
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        needs, used = _needs(pod, resource)
        class_name = classes[resource].metadata.name or ""
        requests.extend(
            DeviceRequest(
                name=each.name,
                exactly=ExactRequest(
                    deviceClassName=class_name, allocationMode=EXACT_COUNT, count=each.amount
                ),
            )
            for each in needs
        )
        mappings.extend(used)
    requests.sort(key=lambda each: each.name)
    spec = DeviceClaimSpec(devices=DeviceClaim(requests=requests))
    return ExtendedClaim(ResourceClaim(metadata=_metadata(pod), spec=spec), tuple(mappings))


def _metadata(pod: Pod) -> ObjectMeta:
    name, uid = pod.metadata.name or "", pod.metadata.uid or ""
    return ObjectMeta(
        name=IN_MEMORY,
        generateName=f"{name}-extended-resources-",
        namespace=pod.metadata.namespace,
        annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        ownerReferences=[OwnerReference("v1", "Pod", name, uid, controller=True)],
    )


def _needs(pod: Pod, resource: str) -> tuple[list[_Need], list[RequestMapping]]:
    """Return the requests for one resource, and the use of each."""
    init = pod.spec.initContainers or []
    containers: list[Container] = [*init, *(pod.spec.containers or ())]
    brief = [at for at, each in enumerate(init) if each.restartPolicy != "Always"]
    lasting: dict[int, _Need] = {}
    mappings: list[RequestMapping] = []
    for at, container in enumerate(containers):
        if at not in brief:
            need, used = _need(at, container, resource, ())
            mappings.extend(used)
            if need is not None:
                lasting[at] = need
    extra: list[_Need] = []
    of_init: list[RequestMapping] = []
    for at in brief:
        later = [each for place, each in lasting.items() if place >= at]
        need, used = _need(at, containers[at], resource, later)
        of_init.extend(used)
        if need is not None:
            extra.append(need)
    if not extra:
        return list(lasting.values()), [*mappings, *of_init]
    # Init containers run one after the other, so the largest of their requests serves all.
    largest = max(extra, key=lambda each: each.amount)
    names = {each.name for each in extra}
    of_init = [each._replace(request=largest.name) if each.request in names else each for each in of_init]
    return [largest, *lasting.values()], [*mappings, *of_init]


def _need(
    at: int, container: Container, resource: str, reusable: Iterable[_Need]
) -> tuple[_Need | None, list[RequestMapping]]:
    """Return a container's own request for a resource beside the reusable ones, and the use of each."""
    resources = container.resources
    # A server fills in a request from a limit.
    requests = {**(resources.limits or {}), **(resources.requests or {})} if resources is not None else {}
    amount, rest = divmod(nanos(requests.get(resource, 0)), 10**9)
    if not amount or rest:
        return None, []
    used: list[RequestMapping] = []
    have = 0
    for each in reusable:
        have += each.amount
        used.append(RequestMapping(container.name or "", resource, each.name))
        if have >= amount:
            return None, used
    own = _Need(f"container-{at}-request-{sorted(requests).index(resource)}", amount - have)
    return own, [*used, RequestMapping(container.name or "", resource, own.name)]


def _extended(name: str) -> bool:
    """Return whether a class can provide a resource of this name."""
    if name.startswith(IMPLICIT_RESOURCE_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
