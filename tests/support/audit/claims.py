"""Pods with claims for audit tests, as the audit reads them, and nodes with labels."""

from typing import Any

import msgspec
from tests.support.audit.builders import NS, node, pod
from tests.support.filters import builders

from podium.api.claims import ClaimingPod
from podium.api.core import Node, Pod
from podium.api.storage import PersistentVolume, PersistentVolumeClaim

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def claiming(name: str, *claims: str, ephemeral: tuple[str, ...] = (), cpu: str = "1", **fields: Any) -> Pod:
    """Make a pending member of the group train with these claims."""
    made = msgspec.to_builtins(
        pod(name, requests={"cpu": cpu}, **{"group": "train", "node": None, "phase": "Pending"} | fields)
    )
    made["spec"] |= builders.mounts(*claims, ephemeral=ephemeral)
    return msgspec.convert(made, ClaimingPod)


def claim(name: str, volume: str | None = None, **spec: Any) -> PersistentVolumeClaim:
    """Make a claim, bound if a volume is given."""
    return builders.claim(name, volume, namespace=NS, **spec)


def volume(name: str, key: str, *values: str) -> PersistentVolume:
    """Make a volume that nodes with one of these values of a label reach."""
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return builders.volume(name, terms=terms)


def zoned(name: str, zone: str | None, cpu: str = "4", **fields: Any) -> Node:
    """Make a node in a zone."""
    made = node(name, {"cpu": cpu}, **fields)
    made.metadata.labels = {HOST: name} | ({} if zone is None else {ZONE: zone})
    return made
