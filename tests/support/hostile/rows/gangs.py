"""Groups and their members: numbers, references, modes, changes of membership, protection."""

from typing import Any

from tests.support.hostile.attacked import WIDE, WIDE_NODES
from tests.support.hostile.honest import CPU, HOST, LOW, NODES, ZONE
from tests.support.hostile.rows.amounts import asking
from tests.support.hostile.rows.sizes import ESCAPED
from tests.support.hostile.rows.terms import apart
from tests.support.hostile.table import Table
from tests.support.hostile.tenant import GROUPS, OLD_GROUPS, PODS, WORKLOADS, Tenant

from podium.api.groups import GROUP_LABEL

ROWS = Table()
_ALL: dict[str, Any] = {"all": {}}
_DELAY = "scheduling.podium.dev/preemption-delay"
_PREEMPTED_AS = "scheduling.podium.dev/preemption-priority-class"
_MOST_COUNT = 2**31 - 1
_SOME, _FEW = 30, 15
# Pods on every node of the wide pool, which fill the nodes.
_ONE = {"cpu": "1"}


def _whole_nodes(tenant: Tenant, group: str) -> None:
    for node in NODES:
        tenant.pod(asking({"cpu": str(CPU)}), group=group, nodeName=node)


def _wide_victims(tenant: Tenant, count: int = WIDE_NODES, **spec: Any) -> None:
    for number in range(count):
        labels = {"index": str(number), "victim": "yes"}
        tenant.pod(asking(_ONE), metadata={"labels": labels}, nodeName=f"{WIDE}-{number}", **spec)


def _wide_gang(tenant: Tenant, count: int, **spec: Any) -> None:
    group = tenant.group(count, priorityClassName=LOW)
    for number in range(count):
        # Like the pods of an Indexed Job: one label differs.
        metadata = {"labels": {"gang": tenant.prefix, "index": str(number)}}
        chosen = {"priorityClassName": LOW, "nodeSelector": {"pool": WIDE}, **spec}
        tenant.pod(asking(_ONE), metadata=metadata, group=group, **chosen)


@ROWS.row
def one_pod_a_host(tenant: Tenant) -> None:
    """A gang that needs every node of a pool, where a cheaper pod runs on each."""
    _wide_victims(tenant)
    _wide_gang(tenant, WIDE_NODES, affinity=apart(gang=tenant.prefix))


@ROWS.row
def one_pod_a_host_of_too_few(tenant: Tenant) -> None:
    """A gang with one pod a host and one member more than hosts."""
    _wide_victims(tenant, _SOME)
    _wide_gang(tenant, WIDE_NODES + 1, affinity=apart(gang=tenant.prefix))


@ROWS.row
def spread_over_hosts(tenant: Tenant) -> None:
    """A gang that is spread evenly over full hosts, and over zones."""
    _wide_victims(tenant, _SOME)
    selector = {"matchLabels": {"gang": tenant.prefix}}
    fields = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    spreads = [{"topologyKey": key, **fields} for key in (HOST, ZONE)]
    _wide_gang(tenant, _SOME, topologySpreadConstraints=spreads)


@ROWS.row
def lone_pod_among_gangs(tenant: Tenant) -> None:
    """A pod that must preempt one of many whole gangs, each of one pod a host."""
    for first in range(0, 3 * _FEW, _FEW):
        gang = tenant.group(_FEW, disruptionMode=_ALL)
        for number in range(first, first + _FEW):
            labels = {"victims": gang, "index": str(number)}
            chosen = {"nodeName": f"{WIDE}-{number}", "affinity": apart(victims=gang)}
            tenant.pod(asking(_ONE), metadata={"labels": labels}, group=gang, **chosen)
    tenant.pod(asking(_ONE), priorityClassName=LOW, nodeSelector={"pool": WIDE})


@ROWS.filling
def helper_that_joins_later(tenant: Tenant) -> None:
    """A whole gang of priority 0, and a pod of another scheduler that tries to join it while it runs."""
    group = tenant.group(len(NODES), disruptionMode=_ALL)
    _whole_nodes(tenant, group)
    helper = tenant.pod(nodeName=NODES[0], schedulerName="default-scheduler")
    # Refused or not: it must not protect any pod.
    tenant.tried("PATCH", f"{PODS}/{helper}", {"metadata": {"labels": {GROUP_LABEL: group}}})


@ROWS.filling
def helper_of_another_scheduler(tenant: Tenant) -> None:
    """The same with a pod that is a member from its creation."""
    group = tenant.group(len(NODES), disruptionMode=_ALL)
    _whole_nodes(tenant, group)
    tenant.pod(group=group, nodeName=NODES[0], schedulerName="default-scheduler")


@ROWS.filling
def helper_that_cannot_be_counted(tenant: Tenant) -> None:
    """A member whose request overflows."""
    group = tenant.group(len(NODES), disruptionMode=_ALL)
    _whole_nodes(tenant, group)
    tenant.pod(asking({"example.com/unknown": str(2**52 + 1)}), group=group, nodeName=NODES[0])


@ROWS.filling
def native_helper(tenant: Tenant) -> None:
    """A native group with a member of another scheduler."""
    older = tenant.server.release.minor == "1.36"
    group = tenant.native_group(len(NODES), disruptionMode="PodGroup" if older else _ALL)
    member: dict[str, Any] = {"schedulingGroup": {"podGroupName": group}}
    for node in NODES:
        tenant.pod(asking({"cpu": str(CPU)}), nodeName=node, **member)
    tenant.pod(nodeName=NODES[0], schedulerName="default-scheduler", **member)


@ROWS.filling
def preempted_as_somebody_else(tenant: Tenant) -> None:
    """A group with the highest class, or with a class that does not exist."""
    for value in ("system-node-critical", "none", "", ESCAPED * 1_000):
        tenant.group(2, metadata={"annotations": {_PREEMPTED_AS: value}})
    group = tenant.group(len(NODES), metadata={"annotations": {_PREEMPTED_AS: "system-node-critical"}})
    _whole_nodes(tenant, group)


@ROWS.filling
def members_of_many_priorities(tenant: Tenant) -> None:
    """A whole gang with two members of higher priority than the others."""
    group = tenant.group(len(NODES), disruptionMode=_ALL, priorityClassName=LOW)
    for number, node in enumerate(NODES):
        chosen: dict[str, Any] = {"priorityClassName": LOW} if number % 2 else {}
        tenant.pod(asking({"cpu": str(CPU)}), group=group, nodeName=node, **chosen)


@ROWS.row
def delays_that_are_none(tenant: Tenant) -> None:
    """Preemption delays that are too long, have too many digits, or are not a duration."""
    for text in ("9999999999h", "1e9s", "-5m", "5", "\u0665m", "9" * 10_000 + "s", "", "0s", "1h" * 5_000):
        group = tenant.group(2, metadata={"annotations": {_DELAY: text}}, priorityClassName=LOW)
        for _ in range(2):
            tenant.pod(asking({"cpu": str(CPU)}), group=group, priorityClassName=LOW)


@ROWS.row
def many_groups(tenant: Tenant) -> None:
    """A hundred groups without a member."""
    for number in range(100):
        tenant.group(1 + number)


@ROWS.row
def many_native_groups(tenant: Tenant) -> None:
    """Fifty native groups without a member."""
    for number in range(50):
        tenant.native_group(1 + number)


@ROWS.row
def many_gangs(tenant: Tenant) -> None:
    """25 gangs of two that wait for room that never becomes free."""
    for _ in range(25):
        group = tenant.group(2, priorityClassName=LOW)
        for _ in range(2):
            tenant.pod(asking({"cpu": "1000"}), group=group, priorityClassName=LOW)


@ROWS.row
def gangs_above_all(tenant: Tenant) -> None:
    """Pods of the highest class that fit on no node."""
    for number in range(20):
        tenant.pod(asking({"cpu": str(1000 + number)}), priorityClassName="system-node-critical")


@ROWS.row
def largest_counts(tenant: Tenant) -> None:
    """Groups that wait for 2^31 - 1 members."""
    group, native = tenant.group(_MOST_COUNT), tenant.native_group(_MOST_COUNT)
    for _ in range(5):
        tenant.pod(group=group)
        tenant.pod(schedulingGroup={"podGroupName": native})


@ROWS.row
def counts_that_change(tenant: Tenant) -> None:
    """A minCount that changes thirty times while members wait."""
    group = tenant.group(5)
    for _ in range(4):
        tenant.pod(asking({"cpu": "1000"}), group=group)
    for number in range(30):
        policy = {"schedulingPolicy": {"gang": {"minCount": 2 + number % 9}}}
        tenant.patch(GROUPS, group, {"spec": policy})


@ROWS.row
def groups_that_do_not_exist(tenant: Tenant) -> None:
    """Forty members of groups that do not exist, of both APIs."""
    for number in range(20):
        tenant.pod(group=f"none-{number}")
        tenant.pod(schedulingGroup={"podGroupName": f"none-{number}"})


@ROWS.row
def member_of_two(tenant: Tenant) -> None:
    """Members of a native group and of one of Podium's, with the same name and with others."""
    name = tenant.group(2, metadata={"name": tenant.name("same")})
    tenant.native_group(2, metadata={"name": name})
    other = tenant.native_group(2)
    for native in (name, other):
        for _ in range(2):
            tenant.pod(group=name, schedulingGroup={"podGroupName": native})


@ROWS.row
def members_before_their_group(tenant: Tenant) -> None:
    """Members first, then the group, which waits for fewer."""
    name = tenant.name("late")
    for _ in range(10):
        tenant.pod(asking({"cpu": "1000"}), group=name)
    tenant.group(3, metadata={"name": name})


@ROWS.row
def groups_that_come_and_go(tenant: Tenant) -> None:
    """The same group and members, created and deleted fifteen times."""
    name = tenant.name("again")
    for _ in range(15):
        pod = tenant.pod(asking({"cpu": "1000"}), metadata={"name": name}, group=name)
        tenant.tried("POST", GROUPS, _group(name))
        tenant.write("DELETE", f"{PODS}/{pod}")
        tenant.tried("DELETE", f"{GROUPS}/{name}")


def _group(name: str) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.podium.dev/v1beta1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}


@ROWS.row
def group_that_may_not_go(tenant: Tenant) -> None:
    """A deleted group with members and finalizers of its own."""
    group = tenant.group(2, metadata={"finalizers": [f"example.com/f{number}" for number in range(500)]})
    for _ in range(3):
        tenant.pod(asking({"cpu": "1000"}), group=group)
    tenant.write("DELETE", f"{GROUPS}/{group}")


@ROWS.row
def group_of_escapes(tenant: Tenant) -> None:
    """Annotations of a group, which is stored as JSON: 1.5 MB in etcd."""
    for _ in range(2):
        tenant.group(2, metadata={"annotations": {"a": ESCAPED * 240_000}})


@ROWS.row
def native_group_of_escapes(tenant: Tenant) -> None:
    """An owner's name of a native group, which the webhook watches too: 6 MB in a watch."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": ESCAPED * 1_000_000, "uid": "u"}
    tenant.native_group(2, metadata={"ownerReferences": [owner]})
    tenant.native_group(2, metadata={"annotations": {"a": ESCAPED * 250_000}})


@ROWS.row
def groups_that_are_converted(tenant: Tenant) -> None:
    """Ten groups of 250 KB, listed in the older version: a review of 2.5 MB."""
    for _ in range(10):
        tenant.group(2, metadata={"annotations": {"a": "x" * 250_000}})
    tenant.read(OLD_GROUPS)


@ROWS.row
def workload_of_all_templates(tenant: Tenant) -> None:
    """Workloads with the maximum number of templates, and with references to themselves."""
    templates = [
        {"name": f"t{number}", "schedulingPolicy": {"gang": {"minCount": _MOST_COUNT}}} for number in range(8)
    ]
    for number in range(5):
        name = tenant.name(f"w{number}")
        controller = {"apiGroup": "scheduling.podium.dev", "kind": "Workload", "name": name}
        body = {
            "apiVersion": "scheduling.podium.dev/v1beta1",
            "kind": "Workload",
            "metadata": {"name": name, "annotations": {"a": ESCAPED * 20_000}},
            "spec": {"podGroupTemplates": templates, "controllerRef": controller},
        }
        tenant.create(WORKLOADS, body)


@ROWS.row
def native_workload_of_all_templates(tenant: Tenant) -> None:
    """The same in the native API."""
    templates = [{"name": f"t{number}", "schedulingPolicy": {"basic": {}}} for number in range(8)]
    for _ in range(2):
        metadata = {"annotations": {"a": ESCAPED * 200_000}}
        tenant.create(
            tenant.native_workloads, {"metadata": metadata, "spec": {"podGroupTemplates": templates}}
        )


@ROWS.row
def groups_that_nobody_has_a_domain_for(tenant: Tenant) -> None:
    """Topology constraints of groups, by keys that no node has, or that every node has."""
    for key in ("no.such/key", HOST, ZONE):
        group = tenant.group(3, schedulingConstraints={"topology": [{"key": key}]})
        for _ in range(3):
            tenant.pod(group=group)
