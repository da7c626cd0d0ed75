"""An API server, kwok as kubelets, and `podium scheduler` behind a proxy.

The server and the process serve all tests of a module. A test has a sandbox: a namespace, and nodes that only
its pods may use.
"""

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import CLASSES, MERGE, Controller, Place, new_class, place, spawn
from tests.support.proxy import Call, Proxy, Where
from tests.support.scheduling.kubelet import kubelet
from tests.support.scheduling.ledger import Ledger, deleted
from tests.support.scheduling.replica import Wanted
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.webhooks.running import ending

from podium.api.groups import GROUP_LABEL
from podium.api.reads import COMPOSITE_VERSION, PODIUM_COMPOSITE
from podium.runtime.leaserecord import Terms

NAME = "podium-scheduler"
# PriorityClasses `p1` and so on, of these values.
PRIORITIES = (1, 3, 5, 7, 9)
# A third of an installation's terms.
TERMS = Terms(lease_seconds=6.0, renew_seconds=4.0, retry_seconds=0.8)
_SHOWN = 6000


class Scheduler:
    """A scheduler: a process, and the next process after its end."""

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        lease: tuple[str, str] | None = None,
        endless: str = "",
        **settings: Any,
    ) -> None:
        """Keep the options for `start`; `settings` are of SchedulerConfiguration, the rest of `Wanted`."""
        folder.mkdir(parents=True)
        self.file = folder / "configuration.json"
        self._folder = folder
        self._wanted = Wanted(
            kubeconfig=str(kubeconfig), config=str(self.file), lease=lease, terms=TERMS, endless=endless
        )
        self._count = 0
        self.configure(**settings)
        self.process: Controller

    def configure(self, **settings: Any) -> None:
        """Write the scheduler's configuration, also while it runs."""
        kinds = {"apiVersion": "config.podium.dev/v1", "kind": "SchedulerConfiguration"}
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps({**kinds, "schedulerName": NAME, **settings}), encoding="utf-8")
        written.replace(self.file)

    def start(self) -> None:
        """Start a process without waiting."""
        self._count += 1
        line = [
            sys.executable,
            "-m",
            "tests.support.scheduling.replica",
            msgspec.json.encode(self._wanted).decode(),
        ]
        self.process = spawn(line, self._folder / f"process-{self._count}")

    def again(self) -> None:
        """Start the process again if it has ended, and wait until it knows the cluster."""
        self.start()
        self.process.wait_ready()

    @contextlib.contextmanager
    def running(self) -> Iterator["Scheduler"]:
        """Run it while the block runs, without waiting for its lease."""
        self.again()
        try:
            yield self
            with ending(self.process):
                pass
        finally:
            self.kill()
        assert "Traceback" not in self.log, self.log

    def skip_minute(self) -> None:
        """Set the process's clock forward by a minute; it looks at the clock at the next change."""
        self.process.process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        """Kill the process."""
        self.process.process.kill()
        self.process.process.wait()

    @property
    def ended(self) -> bool:
        return self.process.process.poll() is not None

    @property
    def leads(self) -> bool:
        """Return whether it reports that it leads; a process that has ended does not."""
        with contextlib.suppress(OSError):
            return not self.ended and self.process.ready and self.metric("leader") == 1.0
        return False

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels; `name` is without the prefix."""
        total = 0.0
        for line in self.process.get("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            found, _, given = series.partition("{")
            if found == f"podium_scheduler_{name}" and all(
                f'{key}="{wanted}"' in given for key, wanted in labels.items()
            ):
                total += float(value)
        return total

    @property
    def log(self) -> str:
        """Return the last log lines of its processes, to be shown when a test fails."""
        logs = sorted(self._folder.glob("process-*/webhook.log"))
        return "".join(f"\n{each}:\n{each.read_text(encoding='utf-8')[-_SHOWN:]}" for each in logs[-2:])


class World:
    """A server to schedule on, with the history of its objects."""

    def __init__(self, where: Place, proxies: list[Proxy], ledger: Ledger, folder: Path) -> None:
        self.place = where
        self.server = where.server
        self.proxies = proxies
        self.ledger = ledger
        self.folder = folder
        self.schedulers: list[Scheduler] = []
        self._count = 0

    @property
    def proxy(self) -> Proxy:
        """The proxy of the only scheduler."""
        return self.proxies[0]

    @property
    def log(self) -> str:
        return "".join(each.log for each in self.schedulers)

    @contextlib.contextmanager
    def scheduling(self, *, way: int | None = 0, **options: Any) -> Iterator[Scheduler]:
        """Run a scheduler, through one of the proxies or (None) directly, for tests of speed."""
        self._count += 1
        folder = self.folder / f"scheduler-{self._count}"
        kubeconfig = self.server.kubeconfig if way is None else self.proxies[way].kubeconfig(self.folder)
        made = Scheduler(kubeconfig, folder, **options)
        self.schedulers.append(made)
        with made.running():
            yield made
        self.schedulers.remove(made)

    def forget(self) -> None:
        """Drop the history that no later test needs."""
        self.ledger.forget()
        for proxy in self.proxies:
            proxy.calls.clear()

    @contextlib.contextmanager
    def sandbox(self, scheduler: str = NAME) -> Iterator["Sandbox"]:
        """Yield a sandbox to a test; fail on violations after the test has passed."""
        made = Sandbox(self, scheduler)
        try:
            yield made
            problems = self.ledger.problems(made.calls("DELETE"), made.name)
            assert not problems, f"{problems}{self.log}"
        finally:
            made.clear()
            self.forget()


@contextlib.contextmanager
def world(name: str, folder: Path, *gates: str, ways: int = 1, kubelets: bool = True) -> Iterator[World]:
    """Yield a world of one of `places` without a scheduler; without kubelets, grace periods are 0."""
    with place(name, *gates) as where, world_of(where, folder, ways=ways, kubelets=kubelets) as made:
        yield made


@contextlib.contextmanager
def world_of(where: Place, folder: Path, *, ways: int = 1, kubelets: bool = True) -> Iterator[World]:
    """Yield a world on a server that runs already."""
    with contextlib.ExitStack() as stack:
        if kubelets:
            stack.enter_context(kubelet(where.server))
        for value in PRIORITIES:
            new_class(where.server, f"p{value}", value)
        proxies = [stack.enter_context(Proxy(where.server).running()) for _ in range(ways)]
        ledger = stack.enter_context(Ledger(where.server).open())
        yield World(where, proxies, ledger, folder)


class Sandbox:
    """A test's own namespace and nodes, and short methods for their objects."""

    def __init__(self, world: World, scheduler: str) -> None:
        self.world = world
        self.server: Server = world.server
        self.name = world.server.new_namespace("sandbox-")
        self.priorities: dict[str, int] = {}  # by the UID of the group
        self._scheduler = scheduler
        self._nodes: list[str] = []

    # --- creating -----------------------------------------------------------------------------------

    def node(
        self, name: str, cpu: int | str = 4, *, labels: dict[str, str] | None = None, **spec: Any
    ) -> str:
        """Make a node that only the sandbox's pods may use; return its real name."""
        full = self.full(name)
        room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        own = {"sandbox": self.name, "kubernetes.io/hostname": full}
        body = {
            "metadata": {"name": full, "labels": {**own, **(labels or {})}},
            "spec": spec,
            "status": {"allocatable": room, "capacity": room},
        }
        self.ask("POST", "/api/v1/nodes", body, code=201)
        self._nodes.append(full)
        return full

    def nodes(self, count: int, cpu: int | str = 4) -> None:
        """Make nodes n0, n1 ..."""
        for index in range(count):
            self.node(f"n{index}", cpu)

    def rack(self, name: str, count: int, cpu: int | str = 4) -> None:
        """Make nodes NAME0, NAME1 ... in a rack of the sandbox (see `in_rack`)."""
        for index in range(count):
            self.node(f"{name}{index}", cpu, labels={self.rack_key: name})

    @property
    def rack_key(self) -> str:
        """The label of racks, which only the nodes of the sandbox have."""
        return f"rack/{self.name}"

    @property
    def in_rack(self) -> dict[str, Any]:
        """The field of a group whose members share a rack."""
        return {"schedulingConstraints": {"topology": [{"key": self.rack_key}]}}

    def full(self, node: str) -> str:
        """Return the real name of a node."""
        return f"{self.name}-{node}"

    def group(
        self,
        name: str,
        priority: int,
        least: int | None,
        *,
        whole: bool = False,
        annotations: dict[str, str] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Create a group of minCount `least` (None: basic), with the fields that the webhook would set.

        `fields` are further ones of its spec.
        """
        policy: dict[str, Any] = {"basic": {}} if least is None else {"gang": {"minCount": least}}
        spec: dict[str, Any] = {"schedulingPolicy": policy, "priorityClassName": f"p{priority}", **fields}
        older = self.world.place.native and self.server.release.minor == "1.36"
        if whole:
            spec["disruptionMode"] = NATIVE["1.36"][1] if older else {"all": {}}
        if not self.world.place.native:
            spec["priority"] = priority
        api = self.world.place.api
        metadata = {"name": name, "annotations": annotations}
        body = {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        made = self.ask("POST", self.groups_path(), body, code=201)
        self.priorities[made["metadata"]["uid"]] = priority
        return made

    def composite(self, name: str, priority: int, least: int | None, *, whole: bool = False) -> None:
        """Create a composite group of minGroupCount `least` (None: basic), with the webhook's fields."""
        policy: dict[str, Any] = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
        spec: dict[str, Any] = {
            "schedulingPolicy": policy,
            "priorityClassName": f"p{priority}",
            "workloadRef": {"workloadName": "w", "templateName": "t"},
        }
        if whole:
            spec["disruptionMode"] = {"all": {}}
        if not self.world.place.native:
            spec["priority"] = priority
        body = {
            "apiVersion": self._composite_version,
            "kind": "CompositePodGroup",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.ask("POST", self._composites_path(), body, code=201)

    @property
    def _composite_version(self) -> str:
        return COMPOSITE_VERSION if self.world.place.native else PODIUM_COMPOSITE

    def _composites_path(self, name: str = "") -> str:
        path = f"/apis/{self._composite_version}/namespaces/{self.name}/compositepodgroups/{name}"
        return path.rstrip("/")

    def composite_status(self, name: str) -> list[dict[str, Any]]:
        """Return the conditions of a composite group."""
        found = self.ask("GET", self._composites_path(name))
        conditions: list[dict[str, Any]] = found.get("status", {}).get("conditions", [])
        return conditions

    def pod(
        self,
        name: str,
        cpu: int | str = 1,
        priority: int = 5,
        *,
        node: str = "",
        group: str = "",
        metadata: dict[str, Any] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """Make a pod; a pod with a `node` is bound already."""
        body = self.pod_body(name, cpu, priority, node=node, group=group, metadata=metadata, **spec)
        return self.ask("POST", self.pods_path(), body, code=201)

    def pod_body(
        self,
        name: str,
        cpu: int | str,
        priority: int,
        *,
        node: str = "",
        group: str = "",
        metadata: dict[str, Any] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """Return a pod without creating it."""
        meta: dict[str, Any] = {"name": name, "labels": {}, **(metadata or {})}
        fields: dict[str, Any] = {
            "schedulerName": self._scheduler,
            "priorityClassName": f"p{priority}",
            "nodeSelector": {"sandbox": self.name},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}],
            **spec,
        }
        if node:
            fields["nodeName"] = self.full(node)
        if group and self.world.place.native:
            fields["schedulingGroup"] = {"podGroupName": group}
        elif group:
            meta["labels"] = {**meta["labels"], GROUP_LABEL: group}
        return {"metadata": meta, "spec": fields}

    def members(
        self, group: str, count: int, cpu: int | str, priority: int, *, first: int = 0, **spec: Any
    ) -> list[str]:
        """Make pending members GROUP-0, GROUP-1 ...; return their names."""
        names = [f"{group}-{index}" for index in range(first, first + count)]
        for name in names:
            self.pod(name, cpu, priority, group=group, **spec)
        return names

    def gang(
        self, name: str, count: int, cpu: int | str = 4, priority: int = 5, *, least: int | None = None
    ) -> list[str]:
        """Create a gang with all its pods pending; minCount is their number by default."""
        self.group(name, priority, count if least is None else least)
        return self.members(name, count, cpu, priority)

    def running_gang(
        self, name: str, nodes: list[str], cpu: int | str, priority: int, *, whole: bool
    ) -> list[str]:
        """Make a running gang with a member on each of the nodes."""
        self.group(name, priority, len(nodes), whole=whole)
        for index, node in enumerate(nodes):
            self.pod(f"{name}-{index}", cpu, priority, node=node, group=name)
        return [f"{name}-{index}" for index in range(len(nodes))]

    # --- changing -----------------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: Any = None, *, code: int = 200, kind: str = MERGE
    ) -> dict[str, Any]:
        """Send one request that must be answered with this code."""
        found, answer = self.server.request(
            method, path, body, kind if method == "PATCH" else "application/json"
        )
        assert found == code, answer
        assert isinstance(answer, dict)
        return answer

    def patch(self, name: str, body: dict[str, Any], subresource: str = "") -> None:
        """Change a pod."""
        self.ask("PATCH", self.pods_path(name) + subresource, body)

    def end(self, name: str) -> None:
        """Remove a pod."""
        self.ask("DELETE", f"{self.pods_path(name)}?gracePeriodSeconds=0")

    def free(self, name: str) -> None:
        """Remove the finalizers of a pod."""
        self.patch(name, {"metadata": {"finalizers": None}})

    def cordon(self, node: str) -> None:
        self.ask("PATCH", f"/api/v1/nodes/{self.full(node)}", {"spec": {"unschedulable": True}})

    def remove_node(self, node: str) -> None:
        self.ask("DELETE", f"/api/v1/nodes/{self.full(node)}")

    def clear(self) -> None:
        """Delete all objects that the next test's scheduler would read."""
        for pod in self.pods().values():
            if "finalizers" in pod["metadata"]:
                self.free(pod["metadata"]["name"])
        self.server.request("DELETE", f"{self.pods_path()}?gracePeriodSeconds=0")
        for node in self._nodes:
            self.server.request("DELETE", f"/api/v1/nodes/{node}")

    # --- reading ------------------------------------------------------------------------------------

    def groups_path(self, name: str = "") -> str:
        return f"/apis/{self.world.place.api}/namespaces/{self.name}/podgroups/{name}".rstrip("/")

    def pods_path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.name}/pods/{name}".rstrip("/")

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return the existing pods, by name."""
        listed = self.ask("GET", self.pods_path())["items"]
        return {each["metadata"]["name"]: each for each in listed}

    def until(self, reached: Any, what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for a condition; after the timeout, show the sandbox's objects."""
        with contextlib.suppress(AssertionError):
            until(reached, what, seconds)
            return
        there = {name: f"{self.where(pod)} {self.message(pod)}" for name, pod in self.pods().items()}
        raise AssertionError(f"waited {seconds:.0f} s for: {what}\n{there}{self.world.log}")

    def until_bound(self, names: list[str], seconds: float = PATIENCE_SECONDS) -> dict[str, str]:
        """Wait until pods are on nodes; return the nodes' short names.

        Sends no request to the API server.
        """
        seen = self.world.ledger.pods.seen
        looked = 0
        found: dict[str, str] = {}

        def reached() -> bool:
            nonlocal looked
            for each in seen[looked:]:
                looked += 1
                metadata = each.object["metadata"]
                if metadata["namespace"] == self.name and each.object["spec"].get("nodeName"):
                    found[metadata["name"]] = self.where(each.object)
            return all(name in found for name in names)

        self.until(reached, f"{names} are bound", seconds)
        return {name: found[name] for name in names}

    def until_message(self, name: str, text: str) -> str:
        """Wait until a pod's PodScheduled=False contains this text; return the whole message."""
        self.until(lambda: text in self.message(self.pods()[name]), f"{name} says {text!r}")
        return self.message(self.pods()[name])

    def until_nominated(self, name: str, node: str) -> None:
        """Wait until a pod's status names a node as reserved (empty: none)."""
        wanted = self.full(node) if node else ""
        self.until(
            lambda: self.pods()[name]["status"].get("nominatedNodeName", "") == wanted,
            f"{name} is nominated to {node!r}",
        )

    def wait_for_decisions(self) -> None:
        """Wait until a new pod is scheduled, so that all earlier decisions have been made."""
        name = f"last-{len(self._nodes)}"
        self.node(name, 1)
        self.pod(name, 1, 9, nodeSelector={"kubernetes.io/hostname": self.full(name)})
        self.until_bound([name])

    def where(self, pod: dict[str, Any]) -> str:
        """Return the short name of a pod's node."""
        node: str = pod["spec"].get("nodeName", "")
        return node.removeprefix(f"{self.name}-")

    def message(self, pod: dict[str, Any]) -> str:
        """Return the message of a waiting pod, `reason: message`."""
        for each in pod["status"].get("conditions", ()):
            if each["type"] == "PodScheduled" and each["status"] == "False":
                return f"{each.get('reason', '')}: {each.get('message', '')}"
        return ""

    def calls(self, method: str = "", end: str = "", body: str = "") -> list[Call]:
        """Return the writes of schedulers to pods here, refused ones too, in order for each scheduler."""
        where = Where(rf"/namespaces/{self.name}/pods/[^/]+{end}$", method=method, body=body)
        calls = (call for proxy in self.world.proxies for call in proxy.writes(where))
        return [call for call in calls if b"dryRun" not in call.body]

    def evicted(self) -> list[str]:
        """Return the names of the pods that a scheduler has deleted, in order."""
        return [pod_of(call) for call in self.calls("DELETE") if call.code in (200, 202)]

    def evicted_uids(self) -> list[str]:
        return [deleted(call) for call in self.calls("DELETE") if call.code in (200, 202)]

    def touched(self) -> list[str]:
        """Return the names of the pods that were marked, or deleted."""
        return [pod_of(call) for call in (*self.calls(body="DisruptionTarget"), *self.calls("DELETE"))]

    def pods_where(self, **where: Any) -> Where:
        """Return the requests on pods here whose path ends in `end`."""
        end = where.pop("end", "")
        return Where(rf"/namespaces/{self.name}/pods/[^/]+{end}$", **where)

    @property
    def marks(self) -> Where:
        return self.pods_where(method="PATCH", end="/status", body="DisruptionTarget")

    @property
    def nominations(self) -> Where:
        return self.pods_where(method="PATCH", end="/status", body='nominatedNodeName": ?"')

    @property
    def deletes(self) -> Where:
        return self.pods_where(method="DELETE")

    @property
    def binds(self) -> Where:
        return self.pods_where(method="POST", end="/binding")


def pod_of(call: Call) -> str:
    """Return the name of the pod of a request."""
    return call.path.partition("/pods/")[2].split("/")[0]


def tolerant_class(server: Server, name: str, value: int, minimum: int, seconds: int) -> None:
    """Create a class protected from preemptors below `minimum` for some seconds (-1: for ever)."""
    prefix = "preemption-toleration.scheduling.x-k8s.io"
    annotations = {
        f"{prefix}/minimum-preemptable-priority": str(minimum),
        f"{prefix}/toleration-seconds": str(seconds),
    }
    body = {"metadata": {"name": name, "annotations": annotations}, "value": value}
    code, made = server.request("POST", CLASSES, body)
    assert code == 201, made


def racks_used(bound: dict[str, str]) -> set[str]:
    """Return the racks of nodes of `Sandbox.rack`, by pod and node."""
    return {node.rstrip("0123456789") for node in bound.values()}


def assert_cheaper_rack_is_cleared(sandbox: Sandbox) -> None:
    """Let a gang want one of two full racks, of which one has a pod of a higher priority."""
    sandbox.rack("a", 2)
    sandbox.rack("b", 2)
    for node, priority in (("a0", 3), ("a1", 1), ("b0", 1), ("b1", 1)):
        sandbox.pod(f"low-{node}", 4, priority, node=node)
    sandbox.group("gang", 5, 2, **sandbox.in_rack)
    assert racks_used(sandbox.until_bound(sandbox.members("gang", 2, 4, 5))) == {"b"}
    assert sorted(sandbox.evicted()) == ["low-b0", "low-b1"]
