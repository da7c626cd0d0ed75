"""Amounts of resources: many names, more than 53 or 63 bits, every form of a quantity."""

from typing import Any

from tests.support.hostile.honest import NODES
from tests.support.hostile.table import Table
from tests.support.hostile.tenant import Tenant, container

ROWS = Table()
_PAST_DOUBLES = str(2**52 + 1)
_MOST = str(2**63 - 1)
# A resource of which every node has eight.
OFFERED, UNKNOWN = "example.com/offered", "example.com/unknown"
_OTHER = "default-scheduler"


def asking(amounts: dict[str, str], name: str = "main") -> dict[str, Any]:
    """Return a container that requests amounts; resources that are not Kubernetes' own get limits, too."""
    extended = {key: value for key, value in amounts.items() if "/" in key or key.startswith("hugepages")}
    return container(name, resources={"requests": amounts, "limits": extended})


def _names(count: int) -> dict[str, str]:
    return {f"e.x/{number}": "1" for number in range(count)}


@ROWS.row
def resources_of_another(tenant: Tenant) -> None:
    """8,000 names in a pending pod of another scheduler."""
    tenant.pod(asking(_names(8_000)), schedulerName=_OTHER)


@ROWS.row
def resources(tenant: Tenant) -> None:
    """8,000 names in a pending pod."""
    tenant.pod(asking(_names(8_000)))


@ROWS.row
def most_resources(tenant: Tenant) -> None:
    """20,000 names, each as a request or a limit."""
    tenant.pod(asking(_names(20_000)))


@ROWS.row
def resources_on_a_node(tenant: Tenant) -> None:
    """8,000 names on each of the nodes, each pod of a scheduler of its own."""
    for number, node in enumerate(NODES):
        tenant.pod(asking(_names(8_000)), nodeName=node, schedulerName=f"other-{number}")


@ROWS.row
def resources_over_containers(tenant: Tenant) -> None:
    """1,000 containers with ten names of their own each."""
    tenant.pod(
        *(
            asking({f"e.x/{number}-{part}": "1" for part in range(10)}, f"c{number}")
            for number in range(1_000)
        )
    )


@ROWS.row
def resources_that_change(tenant: Tenant) -> None:
    """Forty pods with 200 names of their own each."""
    for number in range(40):
        tenant.pod(asking({f"e.x/{number}-{part}": "1" for part in range(200)}))


@ROWS.row
def past_doubles_of_the_unknown(tenant: Tenant) -> None:
    """More than 2^52 of a resource that no node has, on every node, in pods that cannot be evicted."""
    for node in NODES:
        tenant.pod(asking({UNKNOWN: _PAST_DOUBLES}), nodeName=node, schedulerName=_OTHER)


@ROWS.row
def most_of_the_unknown(tenant: Tenant) -> None:
    """2^63 - 1 of the same resource, in three containers each."""
    for node in NODES:
        tenant.pod(
            *(asking({UNKNOWN: _MOST}, f"c{n}") for n in range(3)), nodeName=node, schedulerName=_OTHER
        )


@ROWS.row
def past_doubles_of_the_offered(tenant: Tenant) -> None:
    """More than 2^52 of a resource of which every node has eight: only this resource is exhausted."""
    for node in NODES:
        tenant.pod(asking({OFFERED: _PAST_DOUBLES}), nodeName=node, schedulerName=_OTHER)


@ROWS.filling
def evictable_past_doubles(tenant: Tenant) -> None:
    """Pods of Podium's scheduler that overflow the sum of cpus and fill all nodes."""
    for node in NODES:
        tenant.pod(asking({"cpu": "1e15", OFFERED: _PAST_DOUBLES}), nodeName=node)


@ROWS.row
def cpu_past_everything(tenant: Tenant) -> None:
    """A pending pod with the largest accepted cpu."""
    for amount in ("1e15", "9223372036854775", "9P", _MOST):
        tenant.pod(asking({"cpu": amount}))


@ROWS.row
def memory_past_everything(tenant: Tenant) -> None:
    """A pending pod with the largest accepted memory, ephemeral storage and hugepages."""
    for name in ("memory", "ephemeral-storage"):
        for amount in ("1Ei", "7Ei", "1E", _MOST, "99999999999999999999E"):
            tenant.pod(asking({name: amount}))


@ROWS.row
def memory_of_a_node_past_everything(tenant: Tenant) -> None:
    """One pod's request takes all memory of a node that others need."""
    tenant.pod(asking({"memory": _MOST, "cpu": "1e12"}), nodeName=NODES[0], schedulerName=_OTHER)


@ROWS.row
def tiny_amounts(tenant: Tenant) -> None:
    """Amounts below the smallest unit: fractions of a byte, and of a thousandth."""
    for amount in ("1n", "0.000001m", "1e-9", "0.0000000001"):
        tenant.pod(asking({"memory": amount}))
        tenant.pod(asking({"ephemeral-storage": amount}))


@ROWS.row
def forms_of_quantities(tenant: Tenant) -> None:
    """Every form in which a quantity may be written."""
    forms = (
        "1e3",
        "1E3",
        "1Ki",
        "1k",
        "1.5Gi",
        "+1",
        ".5Gi",
        "1.",
        "0001",
        "1e+3",
        "1000e-3",
        "12e6",
        "-0",
        "0",
        "1u",
    )
    tenant.pod(*(asking({"memory": form}, f"c{number}") for number, form in enumerate(forms)))


@ROWS.row
def long_quantity(tenant: Tenant) -> None:
    """A thousand digits."""
    tenant.pod(asking({"memory": "0" * 1_000 + "1"}), asking({"memory": "1." + "0" * 1_000}, "second"))
    tenant.pod(asking({"memory": "9" * 1_000}))


@ROWS.row
def sum_past_everything(tenant: Tenant) -> None:
    """2,000 containers, each with the largest request."""
    tenant.pod(*(asking({"memory": _MOST, "cpu": "1e15"}, f"c{number}") for number in range(2_000)))


@ROWS.row
def sum_past_everything_on_a_node(tenant: Tenant) -> None:
    """The same on a node that others need."""
    tenant.pod(*(asking({"memory": _MOST}, f"c{n}") for n in range(200)), nodeName=NODES[0])


@ROWS.row
def hugepages_of_all_sizes(tenant: Tenant) -> None:
    """500 page sizes."""
    sizes = {f"hugepages-{number}Ki": f"{number}Ki" for number in range(1, 501)}
    tenant.pod(asking({**sizes, "memory": "1", "cpu": "1m"}))


@ROWS.row
def amounts_of_a_pod(tenant: Tenant) -> None:
    """The pod's own resources, and its containers'."""
    tenant.pod(asking({"memory": "1"}), resources={"requests": {"memory": _MOST, "cpu": "1e15"}})


@ROWS.row
def limits_alone(tenant: Tenant) -> None:
    """Limits without requests, and zero requests of everything."""
    tenant.pod(container(resources={"limits": {"cpu": "1e15", "memory": _MOST, UNKNOWN: _PAST_DOUBLES}}))
    tenant.pod(asking({"cpu": "0", "memory": "0", UNKNOWN: "0", OFFERED: "0"}))


@ROWS.row
def a_gang_that_can_never_fit(tenant: Tenant) -> None:
    """Members that each request more than the cluster has, by different amounts."""
    group = tenant.group(40)
    for number in range(40):
        tenant.pod(asking({"cpu": f"{1000 + number}", UNKNOWN: str(2**52 + number)}), group=group)
