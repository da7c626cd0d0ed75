"""States and times: pods that never end, claims and budgets, watched owners, dry runs."""

import json
import threading
from typing import Any

from tests.support.hostile.honest import CPU, LOW, NODES
from tests.support.hostile.kubelets import STAYS
from tests.support.hostile.rows.amounts import asking
from tests.support.hostile.rows.sizes import ESCAPED
from tests.support.hostile.table import Table
from tests.support.hostile.tenant import BUDGETS, CLAIMS, GROUPS, JOBS, PODS, SETS, Tenant, container

from podium.api.groups import GROUP_LABEL

ROWS = Table()
_AUTO = {"scheduling.podium.dev/gang": "auto"}
_MOST = 2**31 - 1
_TEN_YEARS = 315_360_000
# The webhook holds at most 100 requests that wait for the objects they name.
_MORE_THAN_WAIT = 110
_HOLD = ["example.com/hold"]


def _leaving(tenant: Tenant, seconds: int, node: str, cpu: int, scheduler: str = "podium-scheduler") -> None:
    """Delete a pod that no kubelet ends before its grace period."""
    name = tenant.pod(
        asking({"cpu": str(cpu)}),
        metadata={"name": tenant.name(), "labels": {STAYS: "yes"}},
        nodeName=node,
        terminationGracePeriodSeconds=seconds,
        schedulerName=scheduler,
    )
    tenant.write("DELETE", f"{PODS}/{name}")


def _half_leaving(tenant: Tenant, scheduler: str) -> None:
    for node in NODES[:2]:
        _leaving(tenant, _TEN_YEARS, node, CPU, scheduler)
    for node in NODES[2:]:
        tenant.pod(asking({"cpu": str(CPU)}), nodeName=node)


@ROWS.filling
def leaving_for_ten_years(tenant: Tenant) -> None:
    """Deleted pods with a grace period of ten years, on two of four nodes."""
    _half_leaving(tenant, "podium-scheduler")


@ROWS.filling
def leaving_for_ten_years_of_another(tenant: Tenant) -> None:
    """The same with pods of another scheduler."""
    _half_leaving(tenant, "default-scheduler")


@ROWS.row
def leaving_for_longer_than_time(tenant: Tenant) -> None:
    """Grace periods that end past the largest time, on every node."""
    for node, seconds in zip(NODES, (2**63 - 1, 9_223_372_036, 2**62, 2**32), strict=True):
        _leaving(tenant, seconds, node, 0)


@ROWS.row
def many_that_leave(tenant: Tenant) -> None:
    """Forty deleted pods with finalizers."""
    for number in range(40):
        _leaving(tenant, _TEN_YEARS, NODES[number % len(NODES)], 0)


@ROWS.row
def pending_that_leave(tenant: Tenant) -> None:
    """Pods and gangs with finalizers that were deleted before they had a node."""
    group = tenant.group(10)
    for _ in range(10):
        metadata = {"name": tenant.name(), "finalizers": _HOLD}
        name = tenant.pod(asking({"cpu": "1000"}), metadata=metadata, group=group)
        tenant.write("DELETE", f"{PODS}/{name}")


@ROWS.row
def many_finalizers(tenant: Tenant) -> None:
    """A deleted pod with 3,000 finalizers."""
    finalizers = [f"example.com/f{number}" for number in range(3_000)]
    name = tenant.pod(metadata={"name": tenant.name(), "finalizers": finalizers}, nodeName=NODES[0])
    tenant.write("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


@ROWS.row
def the_same_name_again(tenant: Tenant) -> None:
    """A pod that is created and deleted forty times under one name, on other nodes and without one."""
    name = tenant.name("again")
    for number in range(40):
        spec: dict[str, Any] = {"nodeName": NODES[number % len(NODES)]} if number % 2 else {}
        # The kubelets here delete by name, which may belong to the next pod by then.
        pod = {"schedulerName": "podium-scheduler", "containers": [asking({"cpu": "10m"})], **spec}
        tenant.tried("POST", PODS, {"metadata": {"name": name}, "spec": pod})
        tenant.tried("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


@ROWS.row
def labels_that_change(tenant: Tenant) -> None:
    """A running pod whose labels change fifty times."""
    name = tenant.pod(nodeName=NODES[0])
    for number in range(50):
        tenant.patch(PODS, name, {"metadata": {"labels": {"a": f"b{number}", f"c{number}": "d"}}})


@ROWS.row
def gates_that_open(tenant: Tenant) -> None:
    """A gang with gated members, whose gates are removed one by one, all but one."""
    group = tenant.group(10)
    gate = [{"name": "example.com/gate"}]
    names = [tenant.pod(group=group, schedulingGates=gate) for _ in range(10)]
    for name in names[1:]:
        tenant.patch(PODS, name, {"spec": {"schedulingGates": None}})


@ROWS.row
def many_pending(tenant: Tenant) -> None:
    """Sixty pending pods, each of a class of its own."""
    for number in range(60):
        chosen: dict[str, Any] = {"priorityClassName": LOW} if number % 2 else {}
        tenant.pod(asking({"cpu": str(100 + number)}), **chosen)


@ROWS.row
def many_on_a_node(tenant: Tenant) -> None:
    """More pods on one node than its maximum."""
    for _ in range(120):
        tenant.pod(nodeName=NODES[0])


@ROWS.row
def node_that_does_not_exist(tenant: Tenant) -> None:
    """Pods on nodes that do not exist."""
    for number in range(30):
        tenant.pod(asking({"cpu": "1"}), nodeName=f"none-{number}")


@ROWS.row
def mirror_of_a_static_pod(tenant: Tenant) -> None:
    """Pods that claim to be static, or of a DaemonSet."""
    annotations = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    metadata = {"name": tenant.name(), "ownerReferences": [owner]}
    tenant.pod(metadata=metadata, nodeName=NODES[0])
    answer = tenant.tried(
        "POST",
        PODS,
        {
            "metadata": {"name": tenant.name(), "annotations": annotations},
            "spec": {"containers": [container()], "nodeName": NODES[0]},
        },
    )
    assert answer.code in (201, 403, 422)


@ROWS.row
def preemptors_that_may_not(tenant: Tenant) -> None:
    """Pods with preemptionPolicy Never, and the longest deadline."""
    for seconds in (1, _MOST):
        tenant.pod(
            asking({"cpu": "5"}), preemptionPolicy="PreemptLowerPriority", activeDeadlineSeconds=seconds
        )


def _budget(tenant: Tenant, **spec: Any) -> None:
    tenant.create(BUDGETS, {"spec": spec})


@ROWS.row
def budgets_over_everything(tenant: Tenant) -> None:
    """Thirty budgets over all pods of the namespace, which allow nothing."""
    tenant.pod(nodeName=NODES[0])
    for number in range(10):
        _budget(tenant, selector={}, maxUnavailable=0)
        _budget(tenant, selector={}, minAvailable=_MOST)
        _budget(tenant, selector={}, minAvailable=f"{number}%")


@ROWS.filling
def budget_that_allows_nothing(tenant: Tenant) -> None:
    """A budget of zero over the pods on all nodes."""
    _budget(tenant, selector={}, maxUnavailable=0)
    for node in NODES:
        tenant.pod(asking({"cpu": str(CPU)}), nodeName=node)


@ROWS.row
def budget_of_a_large_selector(tenant: Tenant) -> None:
    """1,000 expressions of thirty values each."""
    values = [f"v{number}" for number in range(30)]
    expressions = [{"key": f"k{n}", "operator": "NotIn", "values": values} for n in range(1_000)]
    _budget(tenant, selector={"matchExpressions": expressions}, maxUnavailable="100%")
    for node in NODES:
        tenant.pod(nodeName=node)


@ROWS.row
def evictions_of_ones_own(tenant: Tenant) -> None:
    """Repeated evictions that a budget refuses."""
    _budget(tenant, selector={}, maxUnavailable=0)
    name = tenant.pod(nodeName=NODES[0])
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    for _ in range(20):
        tenant.tried("POST", f"{PODS}/{name}/eviction", body)


def _claim(tenant: Tenant, **spec: Any) -> str:
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return tenant.create(CLAIMS, {"spec": claim_spec})


@ROWS.row
def claims_of_nothing(tenant: Tenant) -> None:
    """Claims of the largest size without volumes, and pods that wait for them."""
    for storage in ("1n", "7Ei", "99999999999E"):
        name = _claim(tenant, resources={"requests": {"storage": storage}}, volumeName="none")
        tenant.pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


@ROWS.row
def claim_of_escapes(tenant: Tenant) -> None:
    """Annotations and a selector of a claim."""
    values = [f"v{number}" for number in range(20_000)]
    selector = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    metadata = {"annotations": {"a": ESCAPED * 250_000}}
    tenant.create(CLAIMS, {"metadata": metadata, "spec": {"selector": selector, **claim_spec}})


@ROWS.row
def one_claim_of_many(tenant: Tenant) -> None:
    """Forty pods that share a claim, pending and running."""
    name = _claim(tenant, accessModes=["ReadWriteOncePod"])
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    for number in range(40):
        spec: dict[str, Any] = {"nodeName": NODES[0]} if number % 2 else {}
        tenant.pod(volumes=volumes, **spec)


@ROWS.row
def resource_claims_of_nothing(tenant: Tenant) -> None:
    """The maximum number of resource claims of a pod, none of which exists."""
    claims = [{"name": f"c{number}", "resourceClaimName": f"none-{number}"} for number in range(30)]
    tenant.pod(resourceClaims=claims)
    tenant.pod(resourceClaims=claims, nodeName=NODES[0])


@ROWS.row
def job_of_escapes(tenant: Tenant) -> None:
    """A suspended Job without a pod, whose template is 6.6 MB in a watch."""
    env = [{"name": "A", "value": ESCAPED * 1_100_000}]
    tenant.job({"spec": {"containers": [container(env=env)]}})


@ROWS.row
def set_of_escapes(tenant: Tenant) -> None:
    """The same of a StatefulSet."""
    template = {
        "metadata": {"labels": {"a": "b", **_AUTO}},
        "spec": {"containers": [container(env=[{"name": "A", "value": ESCAPED * 1_100_000}])]},
    }
    spec = {
        "serviceName": "s",
        "selector": {"matchLabels": {"a": "b"}},
        "replicas": _MOST,
        "template": template,
    }
    tenant.create(SETS, {"spec": spec})


def _owned(tenant: Tenant, job: str, uid: str, **spec: Any) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    metadata = {"name": tenant.name(), "labels": _AUTO, "ownerReferences": [owner]}
    tenant.pod(asking({"cpu": "1000"}), metadata=metadata, **spec)


@ROWS.row
def jobs_of_gangs_without_end(tenant: Tenant) -> None:
    """Jobs of 2^31 - 1 pods, each of which requests a gang."""
    template = {"metadata": {"labels": _AUTO}, "spec": {"containers": [container()]}}
    for number in range(20):
        name = tenant.job(template, parallelism=_MOST, completions=_MOST, backoffLimit=_MOST)
        job = json.loads(tenant.read(f"{JOBS}/{name}"))
        _owned(tenant, name, job["metadata"]["uid"] if number % 2 else "somebody-else")


@ROWS.row
def owners_of_gangs_that_are_not_there(tenant: Tenant) -> None:
    """Forty pods that request a gang of a Job that does not exist, or has a name that is too long."""
    for number in range(40):
        _owned(tenant, f"{'x' * (200 if number % 2 else 1)}-{number}", f"u{number}")


@ROWS.row
def many_jobs(tenant: Tenant) -> None:
    """Forty suspended Jobs."""
    for number in range(40):
        labels = {**_AUTO, "jobset.sigs.k8s.io/jobset-name": f"none-{number}"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
        tenant.job(template, parallelism=number)


@ROWS.row
def dry_runs_that_wait(tenant: Tenant) -> None:
    """Requests that name a class that does not exist, more at a time than a webhook may hold."""
    body = {
        "apiVersion": "scheduling.podium.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {"generateName": "dry-"},
        "spec": {"schedulingPolicy": {"basic": {}}, "priorityClassName": "does-not-exist"},
    }

    def ask(over: threading.Event) -> None:
        with tenant.another(tenant.prefix) as mine:
            while not over.is_set():
                mine.tried("POST", f"{GROUPS}?dryRun=All", body)

    for _ in range(_MORE_THAN_WAIT):
        tenant.meanwhile(ask)


@ROWS.row
def dry_runs_of_escapes(tenant: Tenant) -> None:
    """The largest members, four at a time, as dry runs."""
    env = [{"name": "A", "value": ESCAPED * 1_200_000}]
    body = {
        "metadata": {"generateName": "dry-", "labels": {GROUP_LABEL: "none"}},
        "spec": {"containers": [container(env=env)]},
    }

    def ask(over: threading.Event) -> None:
        with tenant.another(tenant.prefix) as mine:
            while not over.is_set():
                mine.tried("POST", f"{PODS}?dryRun=All", body)

    for _ in range(4):
        tenant.meanwhile(ask)
