"""The features that a pod requires of its node, and that a node declares (KEP-5328).

A kubelet refuses a pod with a feature that it does not have (PodFeatureUnsupported). Each kube-scheduler
release fixes the fields from which it infers a feature, and a newer one knows more features.

Source: component-helpers/nodedeclaredfeatures 0.36.3 and 0.37.0. The gate NodeDeclaredFeatures is on by
default in 1.36, locked on in 1.37, and off in 1.35.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from podium.api.schedulable import Schedulable, SchedulableNode, SchedulableSpec


def _restarts_all(spec: SchedulableSpec) -> bool:
    containers = chain(spec.containers or (), spec.initContainers or ())
    rules = chain.from_iterable(container.restartPolicyRules or () for container in containers)
    return any(rule.action == "RestartAllContainers" for rule in rules)


def _maps_users_on_host_network(spec: SchedulableSpec) -> bool:
    return bool(spec.hostNetwork) and spec.hostUsers is False


def _has_mount_options(spec: SchedulableSpec) -> bool:
    mounts = (
        *(container.volumeMounts for container in spec.containers or ()),
        *(container.volumeMounts for container in spec.initContainers or ()),
        *(container.volumeMounts for container in spec.ephemeralContainers or ()),
    )
    return any(mount.bindMountOptions for mount in chain.from_iterable(filter(None, mounts)))


# By feature: the first minor whose kube-scheduler infers it, and whether a pod requires it.
_FEATURES: dict[str, tuple[int, Callable[[SchedulableSpec], bool]]] = {
    "RestartAllContainersOnContainerExits": (36, _restarts_all),
    "UserNamespacesHostNetworkSupport": (36, _maps_users_on_host_network),
    "VolumeBindMountOptions": (37, _has_mount_options),
}


def required(pod: Schedulable, minor: int) -> tuple[str, ...]:
    """Return the features that a pod requires of its node, in order, as kube-scheduler 1.`minor` does."""
    return tuple(_required(pod.spec, minor))


def declared(node: SchedulableNode) -> frozenset[str]:
    """Return the features that a node declares, of those that a pod may require."""
    return frozenset(_FEATURES).intersection((node.status.declaredFeatures if node.status else None) or ())


def _required(spec: SchedulableSpec, minor: int) -> Iterator[str]:
    for name, (since, requires) in _FEATURES.items():
        if minor >= since and requires(spec):
            yield name
