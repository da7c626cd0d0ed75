"""The plugin NodeDeclaredFeatures: features that a pod requires of its node, and a node declares (KEP-5328).

A kubelet refuses a pod with a feature that it does not have (PodFeatureUnsupported). Each kube-scheduler
release fixes the fields from which it infers a feature, and a newer one knows more features.

Source: component-helpers/nodedeclaredfeatures 0.36.3 and 0.37.0. The gate NodeDeclaredFeatures is on by
default in 1.36, locked on in 1.37, and off in 1.35.
"""

from collections.abc import Callable
from itertools import chain

import numpy as np

from podium.api.schedulable import Schedulable, SchedulableSpec
from podium.planner.arrays import Bools
from podium.planner.filters.nodes import StaticFilter, everywhere, share
from podium.planner.framework import ChainContext, NodeFilter, Plugin
from podium.planner.shapes import PodNeed, Shape, ShapeContext, need_at
from podium.planner.snapshot import Snapshot
from podium.text import some


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


class FeatureNeed(PodNeed, frozen=True, cache_hash=True):
    """The `features` that a pod requires of its node, in order."""

    features: tuple[str, ...] = ()

    @property
    def node_constraints(self) -> tuple[str, ...]:
        """The features."""
        return self.features


class DeclaredFeaturesFilter(StaticFilter):
    """Nodes whose kubelet declares every feature that a pod requires."""

    REASON = "node(s) didn't match Pod's required features"

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return the features that the pod requires."""
        having = share(int((nodes & self.mask(shape)).sum()), nodes, "declares", "declare")
        return f"required features {some(self._needs(shape))}: {having} them"

    def _feasible(self, shape: Shape) -> Bools:
        features = self._needs(shape)
        if not features:
            return everywhere(self._snapshot)
        sets = self._snapshot.columns.features
        table = np.zeros(sets.ids.size, np.bool_)
        for declared, set_id in sets.ids.of.items():
            table[set_id] = declared.issuperset(features)
        return table[sets.rows]


class DeclaredFeaturesPlugin(Plugin):
    """The filter on declared features of one snapshot."""

    JUDGES = "required features"
    SPEC = ("hostNetwork", "hostUsers", "ephemeralContainers")

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.needs: Callable[[Shape], FeatureNeed] = need_at(at)
        self._snapshot = snapshot

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> FeatureNeed:
        """Return the features that a pod requires."""
        return FeatureNeed(features=required_features(pod, context.minor))

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:  # noqa: ARG002 - the same in all
        """Return NodeDeclaredFeatures."""
        return (DeclaredFeaturesFilter(self._snapshot, lambda shape: self.needs(shape).features),)


def required_features(pod: Schedulable, minor: int) -> tuple[str, ...]:
    """Return the features that a pod requires of its node, in order, as kube-scheduler 1.`minor` does."""
    return tuple(
        name for name, (since, requires) in _FEATURES.items() if minor >= since and requires(pod.spec)
    )
