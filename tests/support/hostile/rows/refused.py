"""Pods that cannot be marked or deleted: full to etcd's byte, or kept by policies of others."""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from tests.support.hostile.attacked import DELETE_DENIED, STATUS_DENIED
from tests.support.hostile.honest import CPU, NODES
from tests.support.hostile.kubelets import SILENT
from tests.support.hostile.rows.amounts import asking
from tests.support.hostile.table import Table
from tests.support.hostile.tenant import PAD, PODS, Tenant
from tests.support.waiting import until

ROWS = Table()
_ALL: dict[str, Any] = {"all": {}}
# Annotations take at most 256 KiB of the 1.5 MiB, so most of a pod is in its spec.
LARGE_ENV = [{"name": "A", "value": "y" * 1_400_000}]
# Room that each pod has, and the first step from there.
_ROOM, _FIRST_STEP = 170_000, 2**11
_HOLD = ["example.com/hold"]
# Writes of a pod whose owner never stops, and the seconds between them.
_TIMES, _BETWEEN_SECONDS = 200, 0.1


def _pod(tenant: Tenant, node: str, group: str = "", env: Any = (), **metadata: Any) -> str:
    """Create a pod that takes all of a node, on that node."""
    main = {**asking({"cpu": str(CPU)}), "env": env}
    return tenant.pod(main, metadata=metadata, group=group, nodeName=node)


def _large(tenant: Tenant, node: str, group: str = "", **metadata: Any) -> str:
    return _pod(tenant, node, group, LARGE_ENV, **metadata)


def _is(tenant: Tenant, path: str, phase: str) -> bool:
    found: str = json.loads(tenant.read(path))["status"]["phase"]
    return found == phase


def _fill(tenant: Tenant, names: Iterable[str], phase: str = "Running") -> None:
    """Extend pods of a phase until a byte more is refused."""
    for name in names:
        path = f"{PODS}/{name}"
        until(partial(_is, tenant, path, phase), f"{name} is {phase}")
        pad(tenant, path)


def pad(tenant: Tenant, path: str) -> None:
    """Extend an annotation of a pod with LARGE_ENV until a byte more is refused."""
    room, step = _ROOM, _FIRST_STEP
    while step:
        body = {"metadata": {"annotations": {PAD: "x" * (room + step)}}}
        if tenant.tried("PATCH", path, body).code == 200:
            room += step
        else:
            step //= 2


@ROWS.filling
def full_to_the_byte(tenant: Tenant) -> None:
    """Running pods on all nodes to which no byte can be added."""
    _fill(tenant, [_large(tenant, node) for node in NODES])


@ROWS.filling
def full_members_of_a_gang(tenant: Tenant) -> None:
    """The same as a gang that is evicted as a whole."""
    group = tenant.group(len(NODES), disruptionMode=_ALL)
    _fill(tenant, [_large(tenant, node, group) for node in NODES])


@ROWS.filling
def full_and_held_by_finalizers(tenant: Tenant) -> None:
    """The same with finalizers, on two of four nodes: the room of the others is enough."""
    _fill(tenant, [_large(tenant, node, finalizers=_HOLD) for node in NODES[:2]])
    for node in NODES[2:]:
        _pod(tenant, node)


@ROWS.filling
def full_from_the_start(tenant: Tenant) -> None:
    """Pods that are full before a kubelet writes their status, on two of four nodes."""
    _fill(tenant, [_large(tenant, node, labels={SILENT: "yes"}) for node in NODES[:2]], "Pending")
    for node in NODES[2:]:
        _pod(tenant, node)


def _denied(tenant: Tenant, label: str, nodes: Iterable[str], group: str = "") -> list[str]:
    """Create pods about which a policy of others denies a write."""
    labels = {label: "yes"}
    return [_pod(tenant, node, group, labels=labels) for node in nodes]


@ROWS.filling
def deletes_denied(tenant: Tenant) -> None:
    """A policy of others denies the deletion of the pods of two of four nodes."""
    _denied(tenant, DELETE_DENIED, NODES[:2])
    for node in NODES[2:]:
        _pod(tenant, node)


@ROWS.filling
def deletes_of_members_denied(tenant: Tenant) -> None:
    """The same of two members of a gang that is evicted as a whole: it goes without them."""
    group = tenant.group(len(NODES), disruptionMode=_ALL)
    _denied(tenant, DELETE_DENIED, NODES[:2], group)
    for node in NODES[2:]:
        _pod(tenant, node, group)


@ROWS.filling
def deletes_denied_of_pods_that_change(tenant: Tenant) -> None:
    """The same while the owner writes the pods all the time."""
    names = _denied(tenant, DELETE_DENIED, NODES[:2])
    for node in NODES[2:]:
        _pod(tenant, node)

    def change(over: Any) -> None:
        with tenant.another("changes") as mine:
            for number in range(_TIMES):
                for name in names:
                    mine.tried("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": {"at": str(number)}}})
                if over.wait(_BETWEEN_SECONDS):
                    return

    tenant.meanwhile(change)


@ROWS.filling
def statuses_denied(tenant: Tenant) -> None:
    """A policy of others denies the status of the pods of all nodes."""
    _denied(tenant, STATUS_DENIED, NODES)


@ROWS.filling
def statuses_of_members_denied(tenant: Tenant) -> None:
    """The same of a gang that is evicted as a whole."""
    _denied(tenant, STATUS_DENIED, NODES, tenant.group(len(NODES), disruptionMode=_ALL))
