"""Many objects that one other names or that name one: trees, members of a group, pods of a claim."""

from typing import Any

from tests.support.hostile.attacked import ODD_NODE, ODD_RESOURCES
from tests.support.hostile.honest import HIGH, LOW, NODES
from tests.support.hostile.rows.amounts import asking
from tests.support.hostile.table import Table
from tests.support.hostile.tenant import CLAIMS, COMPOSITES, DEVICE_CLAIMS, GROUPS, Tenant

from podium.groups.trees import MAX_GROUPS

ROWS = Table()
_SMALL = {"cpu": "10m"}
_WITH_PODS, _WRITES = 40, 40
# With a mode of its own, no group waits for the Workload, which is missing.
TEMPLATE = {
    "disruptionMode": {"single": {}},
    "workloadRef": {"workloadName": "w", "templateName": "t"},
}


def composite(tenant: Tenant, name: str, least: int = 1, **spec: Any) -> str:
    policy = {"gang": {"minGroupCount": least}}
    fields = {"schedulingPolicy": policy, "priorityClassName": HIGH, **TEMPLATE, **spec}
    body = {
        "apiVersion": "scheduling.podium.dev/v1beta1",
        "kind": "CompositePodGroup",
        "metadata": {"name": tenant.name(name)},
        "spec": fields,
    }
    return tenant.create(COMPOSITES, body)


def _tree(tenant: Tenant, size: int, **spec: Any) -> list[str]:
    """Create a root and the groups below it, some of which have a pod; return their names."""
    root = composite(tenant, "root", size - 1, **spec)
    parent = {"priorityClassName": HIGH, "parentCompositePodGroupName": root, **TEMPLATE}
    children = [tenant.group(1, **parent) for _ in range(size - 1)]
    for child in children[:_WITH_PODS]:
        tenant.pod(asking(_SMALL), group=child, priorityClassName=HIGH)
    return children


@ROWS.row
def wide_tree(tenant: Tenant) -> None:
    """A running tree of a hundred groups that are written again and again."""
    children = _tree(tenant, 100, disruptionMode={"all": {}})
    for at in range(2):
        for child in children:
            tenant.patch(GROUPS, child, {"metadata": {"annotations": {"written": str(at)}}})


@ROWS.row
def tree_past_its_limit(tenant: Tenant) -> None:
    """A tree with more groups than are scheduled."""
    _tree(tenant, MAX_GROUPS + 1)


@ROWS.row
def roots_that_come_and_go(tenant: Tenant) -> None:
    """A root of fifty groups that comes, goes and comes again."""
    _tree(tenant, 50)
    root = tenant.name("root")
    for _ in range(_WRITES // 2):
        tenant.write("DELETE", f"{COMPOSITES}/{root}")
        composite(tenant, "root")


@ROWS.row
def written_group_of_many(tenant: Tenant) -> None:
    """A group of 100 pending members that is written again and again."""
    group = tenant.group(101, priorityClassName=LOW)
    for _ in range(100):
        tenant.pod(asking(_SMALL), group=group, priorityClassName=LOW)
    for at in range(_WRITES):
        tenant.patch(GROUPS, group, {"metadata": {"annotations": {"written": str(at)}}})


@ROWS.row
def written_claims_of_many(tenant: Tenant) -> None:
    """Two claims that 100 pods name, and that are written again and again."""
    request = {"name": "r", "exactly": {"deviceClassName": "none"}}
    devices = tenant.create(DEVICE_CLAIMS, {"spec": {"devices": {"requests": [request]}}})
    access = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = tenant.create(CLAIMS, {"spec": access})
    names = [{"name": "d", "resourceClaimName": devices}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": volume}}]
    container = asking(_SMALL) | {"resources": {"requests": _SMALL, "claims": [{"name": "d"}]}}
    for _ in range(100):
        tenant.pod(container, resourceClaims=names, volumes=volumes)
    for at in range(_WRITES):
        for collection, name in ((DEVICE_CLAIMS, devices), (CLAIMS, volume)):
            tenant.patch(collection, name, {"metadata": {"annotations": {"written": str(at)}}})


@ROWS.row
def resources_that_a_node_offers(tenant: Tenant) -> None:
    """Pods that request all resources of a node that offers thousands, there and elsewhere."""
    names = dict.fromkeys(ODD_RESOURCES, "1")
    tenant.pod(asking(names))
    tenant.pod(asking(names), nodeName=ODD_NODE)
    tenant.pod(asking(names), nodeName=NODES[0], schedulerName="default-scheduler")
