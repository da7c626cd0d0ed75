"""The process as its pages describe it: its rights, its readiness, and its leader election.

Under an account with only the page's rights it does everything once, through a proxy that records its
requests. Other processes lose a right while they run, or take over from each other.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import CONTAINER, NATIVE
from tests.support.connection.devices import SLICE
from tests.support.controllers.running import (
    MERGE,
    PODIUM_API,
    Controller,
    Place,
    Space,
    install,
    new_class,
    resolved,
    spawn,
)
from tests.support.proxy import Cut, Hold, Proxy, Refuse, Where
from tests.support.rights import NAMESPACE, Account, Page, Right, asked, make
from tests.support.servers import TREES, Server, exclusive
from tests.support.waiting import until
from tests.support.webhooks.running import ending
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.devices import DEVICE_API
from podium.api.findings import group_of
from podium.api.groups import COMPOSITE_INITIALLY_SCHEDULED, NATIVE_GROUP
from podium.api.reads import COMPOSITE_VERSION, PODIUM_COMPOSITE
from podium.crds import definitions

pytestmark = pytest.mark.server

NAME = "podium-scheduler"
PAGE = Page("scheduler-reference.md", NAME)
LOW, HIGH = "rights-low", "rights-high"
PODIUM = Path(sys.executable).with_name("podium")
LEADS = "\npodium_scheduler_leader 1.0"
RECORDS = f"/apis/{PODIUM_API}/namespaces/{NAMESPACE}/preemptionrecords"
COMPOSITES = {True: COMPOSITE_VERSION, False: PODIUM_COMPOSITE}
ROOT_CONDITIONS = {COMPOSITE_INITIALLY_SCHEDULED: ("True", "Scheduled")}
STORAGE = {"storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"}
DEVICES = {"resourceclaims", "deviceclasses", "resourceslices"}
DEVICE_PATH = f"/apis/{DEVICE_API}"
NATIVE_API = f"{NATIVE_GROUP}/{NATIVE[NEWEST.minor][0]}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a server with every kind that the scheduler watches, native groups and Podium's."""
    with exclusive(NEWEST, apiserver=(f"--feature-gates={TREES}",)) as made:
        install(made)
        make(made, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions.records())
        until(lambda: made.request("GET", RECORDS)[0] == 200, "records are served")
        new_class(made, LOW, 100)
        new_class(made, HIGH, 1000)
        yield made


@pytest.fixture(scope="module")
def account(server: Server) -> Account:
    """Return an account with the page's rights only."""
    return PAGE.account(server)


def launch(kubeconfig: Path, folder: Path, *arguments: str) -> Controller:
    """Start a scheduler without waiting."""
    line = [str(PODIUM), "scheduler", f"--kubeconfig={kubeconfig}", "--metrics-port=0", "--log-format=json"]
    return spawn([*line, *arguments], folder)


class Gangs:
    """Gangs of two in a namespace, for one node that each of them fills."""

    def __init__(self, where: Place, name: str) -> None:
        self.space = Space(where)
        self.node = f"node-{name}"
        room = {"cpu": "2", "memory": "8Gi", "pods": "10"}
        node = {
            "metadata": {"name": self.node, "labels": {"rights": self.space.name}},
            "status": {"allocatable": room, "capacity": room},
        }
        make(where.server, "/api/v1/nodes", node)

    def gang(self, name: str, class_name: str, **fields: Any) -> None:
        """Make a gang with its pods; `fields` are fields of its spec."""
        self.space.group(name, class_name, **fields)
        container = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
        for index in range(2):
            self.space.pod(
                f"{name}-{index}",
                name,
                class_name,
                schedulerName=NAME,
                containers=[container],
                nodeSelector={"rights": self.space.name},
                terminationGracePeriodSeconds=0,
            )

    def tree(self, name: str, class_name: str) -> None:
        """Make a composite group with a gang below it."""
        place, space = self.space.place, self.space
        spec: dict[str, Any] = {
            "schedulingPolicy": {"basic": {}},
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "priorityClassName": class_name,
        }
        if not place.native:
            spec["priority"] = resolved(space.server, class_name)
        version = COMPOSITES[place.native]
        head = {"apiVersion": version, "kind": "CompositePodGroup", "metadata": {"name": "root"}}
        path = f"/apis/{version}/namespaces/{space.name}/compositepodgroups"
        make(space.server, path, {**head, "spec": spec})
        self.gang(name, class_name, parentCompositePodGroupName="root", workloadRef=spec["workloadRef"])

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Return status and reason of the conditions of the root, by type."""
        version, namespace = COMPOSITES[self.space.place.native], self.space.name
        path = f"/apis/{version}/namespaces/{namespace}/compositepodgroups/root"
        _, root = self.space.server.request("GET", path)
        found = root.get("status", {}).get("conditions", ())
        return {each["type"]: (each["status"], each["reason"]) for each in found}

    def runs(self, name: str) -> Callable[[], bool]:
        """Return a function that returns whether both pods of a gang have a node."""

        def bound() -> bool:
            pods = [self._pod(f"{name}-{index}") for index in range(2)]
            return all(pod.get("spec", {}).get("nodeName") == self.node for pod in pods)

        return bound

    def _pod(self, name: str) -> dict[str, Any]:
        code, pod = self.space.server.request("GET", self.space.pods_path(name))
        return pod if code == 200 else {}


def records(server: Server) -> list[dict[str, Any]]:
    """Return the history of the scheduler."""
    code, answer = server.request("GET", RECORDS)
    assert code == 200, answer
    found: list[dict[str, Any]] = answer["items"]
    return found


def edit_records(server: Server) -> None:
    """Change the stored history, so that its last writer must read it again."""
    for record in records(server):
        path = f"{RECORDS}/{record['metadata']['name']}"
        code, answer = server.request("PATCH", path, {"metadata": {"labels": {"seen": "yes"}}}, MERGE)
        assert code == 200, answer


def preemptors(server: Server) -> set[str]:
    """Return the namespaces of the preemptors."""
    return {plan["preemptor"]["namespace"] for record in records(server) for plan in record["plans"]}


def want_volumes(space: Space) -> None:
    """Make a pod with two claims that are bound when it has a node: one is provisioned, one has a volume."""
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
    for name, by in (("network", "csi.example.com"), ("local", "kubernetes.io/no-provisioner")):
        made = {"metadata": {"name": name}, "provisioner": by, "volumeBindingMode": "WaitForFirstConsumer"}
        make(space.server, "/apis/storage.k8s.io/v1/storageclasses", made)
        claim = {"metadata": {"name": name}, "spec": {**common, "storageClassName": name}}
        make(space.server, f"/api/v1/namespaces/{space.name}/persistentvolumeclaims", claim)
    disk = {
        "capacity": size,
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "hostPath": {"path": "/disk"},
    }
    make(space.server, "/api/v1/persistentvolumes", {"metadata": {"name": "disk"}, "spec": disk})
    available = {"status": {"phase": "Available"}}
    code, answer = space.server.request("PATCH", "/api/v1/persistentvolumes/disk/status", available, MERGE)
    assert code == 200, answer
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("network", "local")]
    spec = {
        "schedulerName": NAME,
        "containers": [{"name": "main", "image": "none"}],
        "nodeSelector": {"rights": space.name},
        "volumes": volumes,
    }
    space.ask("POST", space.pods_path(), {"metadata": {"name": "stateful"}, "spec": spec}, code=201)


def want_devices(gangs: Gangs) -> None:
    """Give the node of some gangs a device, and make a pod with a claim for it."""
    space, api = gangs.space, f"/apis/{DEVICE_API}"
    pool = {"name": "devices", "generation": 1, "resourceSliceCount": 1}
    offered = {
        "driver": "gpu.example.com",
        "nodeName": gangs.node,
        "pool": pool,
        "devices": [{"name": "gpu"}, {"name": "second"}],
    }
    make(space.server, f"{api}/resourceslices", {"metadata": {"name": "devices"}, "spec": offered})
    provides = {"extendedResourceName": "example.com/gpu"}
    make(space.server, f"{api}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": provides})
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}
    make(space.server, f"{api}/namespaces/{space.name}/resourceclaims", claim)
    spec = {
        "schedulerName": NAME,
        "containers": [{"name": "main", "image": "none"}],
        "nodeSelector": {"rights": space.name},
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    }
    space.ask("POST", space.pods_path(), {"metadata": {"name": "claiming"}, "spec": spec}, code=201)
    amounts = {"example.com/gpu": "1"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulerName": NAME, "containers": [container], "nodeSelector": {"rights": space.name}}
    space.ask("POST", space.pods_path(), {"metadata": {"name": "requesting"}, "spec": spec}, code=201)


def use_each(server: Server, proxy: Proxy, kubeconfig: Path, folder: Path) -> None:
    """List where watches have no initial list, schedule, preempt, and read after a lost answer."""
    lease = f"--lease={NAMESPACE}/{NAME}"
    lists = {right for right in PAGE.listed() if right.verb == "list"}
    with proxy.fault(Where(watch=True), Refuse(422, "Invalid")):
        older = launch(kubeconfig, folder / "older", lease)
        with ending(older):
            older.until(lambda: lists <= asked(proxy), "it lists")
    newer = launch(kubeconfig, folder / "newer", lease, f"--deployment={NAMESPACE}/{NAME}")
    with ending(newer):
        newer.wait_ready()
        for name, api in (("native", NATIVE_API), ("podium", PODIUM_API)):
            gangs = Gangs(Place(server, api), name)
            edit_records(server)
            with proxy.fault(Where("/binding$", "POST"), Cut(answered=True), times=1):
                gangs.gang("low", LOW)
                newer.until(gangs.runs("low"), "the lower gang runs")
            gangs.tree("high", HIGH)
            newer.until(gangs.runs("high"), "the higher tree runs")
            newer.until(lambda: gangs.conditions() == ROOT_CONDITIONS, "the root is scheduled")  # noqa: B023
            space = gangs.space.name
            newer.until(lambda: space in preemptors(server), "it is recorded")  # noqa: B023 - called here
        want_volumes(Gangs(Place(server, NATIVE_API), "volumes").space)
        refused = Where("/resourceclaims/requesting-[^/]+/status$", "PATCH")
        # The claim that was created is deleted then.
        with proxy.fault(refused, Refuse(422, "Invalid"), times=1):
            want_devices(Gangs(Place(server, NATIVE_API), "devices"))
            at_the_end = Right("apps", "deployments", "get")
            newer.until(lambda: PAGE.listed() - {at_the_end} <= asked(proxy), "each right is used")
    assert "Traceback" not in newer.log


def test_they_are_enough_and_each_is_used(server: Server, account: Account, tmp_path: Path) -> None:
    """No request is refused, and no other right is used."""
    with Proxy(server).running() as proxy:
        use_each(server, proxy, account.kubeconfig(tmp_path, proxy.url), tmp_path)
        assert asked(proxy) - {None} == PAGE.listed()
        assert [call for call in proxy.calls if call.code == 403] == []


@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_a_process_that_loses_the_right_to_read_is_not_ready(
    code: int, reason: str, server: Server, tmp_path: Path
) -> None:
    """/readyz names the unreadable kind; the process is ready again when the kind can be read."""
    with Proxy(server).running() as proxy:
        started = launch(proxy.kubeconfig(tmp_path), tmp_path / "one", "--no-leader-elect")
        with ending(started):
            started.wait_ready()
            with proxy.fault(Where("/pods$"), Refuse(code, reason)):
                proxy.drop(Where("/pods$", watch=True))
                started.until(lambda: started.get("/readyz")[0] == 503, "it is not ready")
                assert "pods cannot be read: " in started.get("/readyz")[1]
                assert f"{code} {reason}" in started.get("/readyz")[1]
            started.wait_ready()


def test_a_process_without_the_rights_on_storage_devices_and_trees_schedules(
    server: Server, tmp_path: Path
) -> None:
    """It may be upgraded before its roles. It reads each kind as soon as it may."""
    with Proxy(server).running() as proxy, ExitStack() as stack:
        newer = Where("/apis/(storage|resource).k8s.io/v1/.+|/compositepodgroups$")
        with proxy.fault(newer, Refuse(403, "Forbidden")):
            started = launch(proxy.kubeconfig(tmp_path), tmp_path / "one", "--no-leader-elect")
            stack.enter_context(ending(started))
            started.wait_ready()
            gangs = Gangs(Place(server, NATIVE_API), "unstored")
            gangs.gang("train", HIGH)
            started.until(gangs.runs("train"), "it schedules")
            failed = {each["resource"] for each in started.events if each["event"] == "watch failed"}
            trees = {f"compositepodgroups.{group_of(version)}" for version in COMPOSITES.values()}
            newer_kinds = {f"{each}.storage.k8s.io" for each in STORAGE}
            newer_kinds |= {f"{each}.resource.k8s.io" for each in DEVICES}
            assert failed == newer_kinds | trees
        started.until(lambda: started.log.count('"watch resumed"') == len(failed), "it reads all of them")
        started.wait_ready()


WRITTEN = {
    *("pods", "poddisruptionbudgets", "podgroups", "compositepodgroups"),
    *("persistentvolumeclaims", "persistentvolumes", "resourceclaims"),
}


def test_the_next_leader_catches_up_with_the_former(server: Server, tmp_path: Path) -> None:
    """A leader that is stopped releases the lease. The standby lists the kinds that a leader writes.

    It begins no other lists, and lists here because the collections are small.
    """
    lease = f"--lease={server.new_namespace('lease-')}/scheduler"
    with Proxy(server).running() as proxy:

        def lists() -> Counter[str]:
            return Counter(call.path for call in list(proxy.calls) if "sendInitialEvents" in call.query)

        first = launch(server.kubeconfig, tmp_path / "first", lease)
        with ending(first):
            first.wait_ready()
            first.until(lambda: LEADS in first.get("/metrics")[1], "it leads")
            second = launch(proxy.kubeconfig(tmp_path), tmp_path / "second", lease)
            with ending(second):
                second.wait_ready()
                assert "\npodium_scheduler_leader 0.0" in second.get("/metrics")[1]
                before = lists()
                assert set(before.values()) == {1}
                assert first.stop() == 0
                second.until(lambda: LEADS in second.get("/metrics")[1], "the other leads")
                again = Counter(path for path in before if path.rpartition("/")[2] in WRITTEN)
                assert {path.rpartition("/")[2] for path in again} == WRITTEN
                second.until(lambda: lists() == before + again, "it has listed what a leader writes")
                gangs = Gangs(Place(server, NATIVE_API), "taken")
                gangs.gang("train", HIGH)
                second.until(gangs.runs("train"), "it schedules")
    events = [event["event"] for event in first.events]
    assert events[-3:] == ["stopping", "lease released", "stopped"]
    assert [event["event"] for event in second.events].count("scheduling") == 1


def test_a_standby_costs_one_watch_of_each_kind(server: Server, tmp_path: Path) -> None:
    """It is ready when its engine is built. It leads with the settings that it has read meanwhile."""
    lease = f"--lease={server.new_namespace('lease-')}/scheduler"
    config = tmp_path / "scheduler.yaml"
    text = "apiVersion: config.podium.dev/v1\nkind: SchedulerConfiguration\npreemption: {}\n"
    config.write_text(text.format("enforce"), encoding="utf-8")
    first = launch(server.kubeconfig, tmp_path / "first", lease)
    with ending(first), Proxy(server).running() as proxy:
        first.wait_ready()
        first.until(lambda: LEADS in first.get("/metrics")[1], "it leads")
        standbys = [
            launch(proxy.kubeconfig(tmp_path), tmp_path / name, lease, f"--config={config}")
            for name in ("second", "third")
        ]
        with ending(standbys[0]), ending(standbys[1]):
            for each in standbys:
                each.wait_ready()
            config.write_text(text.format("off"), encoding="utf-8")
            standbys[0].until(
                lambda: all("configuration changed" in each.log for each in standbys),
                "they read the settings",
            )
            calls = list(proxy.calls)
            watches = Counter(call.path for call in calls if "watch" in call.query)
            assert watches
            assert set(watches.values()) == {2}
            others = {call.path for call in calls if "watch" not in call.query}
            assert not others & set(watches)
            assert first.stop() == 0
            standbys[0].until(lambda: any('"scheduling"' in each.log for each in standbys), "one schedules")
    (scheduling,) = [event for each in standbys for event in each.events if event["event"] == "scheduling"]
    assert scheduling["preemption"] == "off"


def test_evictions_without_a_lease_mean_that_it_was_deleted(
    server: Server, account: Account, tmp_path: Path
) -> None:
    """The end of its holder is unknown; if no process led before, evictions are allowed at once."""
    gangs = Gangs(Place(server, NATIVE_API), "deleted")
    without_lease = ("delete", "lease", f"--namespace={NAMESPACE}", NAME, "--ignore-not-found")
    kubeconfig = account.kubeconfig(tmp_path, server.url)
    server.request("DELETE", RECORDS)
    server.kubectl(*without_lease)

    def message_after(run: str, work: Callable[[Controller], None]) -> str:
        arguments = (f"--lease={NAMESPACE}/{NAME}", "--evictions-per-minute=5")
        started = launch(kubeconfig, tmp_path / run, *arguments)
        with ending(started):
            started.wait_ready()
            started.until(lambda: '"scheduling"' in started.log, "it schedules")
            work(started)
        server.kubectl(*without_lease)
        return started.log

    def preempt(started: Controller) -> None:
        gangs.gang("low", LOW)
        started.until(gangs.runs("low"), "the lower gang runs")
        gangs.gang("high", HIGH)
        started.until(gangs.runs("high"), "the higher gang runs")
        started.until(lambda: gangs.space.name in preemptors(server), "it is recorded")

    first = message_after("first", preempt)
    assert "nothing is evicted for a minute" not in first
    assert '"lease released"' in first
    second = message_after("second", lambda _started: None)
    assert "nothing is evicted for a minute" in second
    assert "the lease is missing, though an earlier leader evicted pods" in second


@pytest.mark.parametrize(
    ("devices", "reserved", "warnings"),
    [
        pytest.param(True, False, 1, id="devices of all nodes"),
        pytest.param(True, True, 0, id="devices of reserved nodes"),
        pytest.param(False, False, 0, id="no devices"),
    ],
)
def test_devices_that_others_may_allocate_are_one_warning(
    server: Server, account: Account, tmp_path: Path, *, devices: bool, reserved: bool, warnings: int
) -> None:
    config = tmp_path / "scheduler.yaml"
    line = "reservedNodes: scheduling.podium.dev/reserved\n" if reserved else ""
    config.write_text(
        f"apiVersion: config.podium.dev/v1\nkind: SchedulerConfiguration\n{line}", encoding="utf-8"
    )
    slices = f"{DEVICE_PATH}/resourceslices"
    server.request("DELETE", slices)
    if devices:
        make(server, slices, SLICE)
    kubeconfig = account.kubeconfig(tmp_path, server.url)
    started = launch(kubeconfig, tmp_path / "one", f"--lease={NAMESPACE}/{NAME}", f"--config={config}")
    with ending(started):
        started.wait_ready()
        started.until(lambda: '"scheduling"' in started.log, "it schedules")
    server.request("DELETE", slices)
    levels = [json.loads(each)["level"] for each in started.log.splitlines() if "devices are shared" in each]
    assert levels == ["warning"] * warnings


def test_evictions_in_flight_at_shutdown_are_recorded(
    server: Server, account: Account, tmp_path: Path
) -> None:
    """Its successor counts the eviction, and need not wait, because the former leader ended in order."""
    gangs = Gangs(Place(server, NATIVE_API), "stopped")
    with Proxy(server).running() as proxy:
        kubeconfig = account.kubeconfig(tmp_path, proxy.url)
        started = launch(kubeconfig, tmp_path / "one", f"--lease={NAMESPACE}/{NAME}")
        with ending(started):
            started.wait_ready()
            gangs.gang("low", LOW)
            started.until(gangs.runs("low"), "the lower gang runs")
            with proxy.fault(Where("/pods/[^/]+$", "DELETE"), Hold()) as held:
                gangs.gang("high", HIGH)
                started.until(lambda: held.hits >= 1, "a delete is under way")
                assert started.stop() == 0
    plans = [plan for record in records(server) for plan in record["plans"]]
    (plan,) = [plan for plan in plans if plan["preemptor"]["namespace"] == gangs.space.name]
    assert (plan["mode"], plan["result"]) == ("Enforced", "Failed")
    assert plan["message"] == "the scheduler stopped before it was done"
    assert [unit["namespace"] for unit in plan["units"]] == [gangs.space.name] * plan["unitCount"]
    assert [event["event"] for event in started.events][-1] == "stopped"
