"""`podium controller` as users run it, and short methods for changes to the groups that it reconciles."""

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.connection.cluster import CONTAINER, NATIVE
from tests.support.servers import Server, exclusive, in_turn
from tests.support.starting import start
from tests.support.waiting import comes, until
from tests.support.webhooks.running import LOG, Running, ending
from tools.devcluster.controlplane.releases import NEWEST, RELEASES

from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP
from podium.crds import definitions

PRIORITY, POLICY = "PodsNotMatchingPriority", "PodsNotMatchingPreemptionPolicy"
MERGE = "application/merge-patch+json"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODIUM_API = f"{PODIUM_GROUP}/v1beta1"
_PODIUM = Path(sys.executable).with_name("podium")
_NUMBERS = itertools.count()


class Controller(Running):
    """A process of `podium controller`."""

    def leads(self) -> bool:
        """Return whether its metrics report that it leads."""
        return "\npodium_leader 1.0" in self.get("/metrics")[1]

    def wait_leading(self) -> None:
        """Wait until it works as a leader."""
        self.until(self.leads, "it leads")


def launch(kubeconfig: Path, folder: Path, lease: tuple[str, str] | None, *arguments: str) -> Controller:
    """Start the process without waiting; `folder` gets its log."""
    line = [str(_PODIUM), "controller", f"--kubeconfig={kubeconfig}"]
    line += [] if lease is None else [f"--lease={'/'.join(lease)}"]
    return spawn([*line, "--metrics-port=0", "--log-format=json", *arguments], folder)


def spawn(line: list[str], folder: Path, *, fresh: bool = False) -> Controller:
    """Start a process that logs into a folder."""
    folder.mkdir(parents=True)
    started = start(line, folder / LOG, folder=Path(__file__).parents[3], fresh=fresh)
    return Controller(started, folder, 0)


@contextlib.contextmanager
def running(
    server: Server, folder: Path, *arguments: str, kubeconfig: Path | None = None, lease: str = "controller"
) -> Iterator[Controller]:
    """Yield a leading process, and stop it; its exit code must be 0 unless the test stopped it."""
    namespace = server.new_namespace("lease-")
    started = launch(kubeconfig or server.kubeconfig, folder, (namespace, lease), *arguments)
    with ending(started):
        started.wait_ready()
        started.wait_leading()
        yield started


def configuration(folder: Path, **settings: Any) -> str:
    """Write a ControllerConfiguration; return the option that names it."""
    path = folder / f"configuration-{next(_NUMBERS)}.json"
    kinds = {"apiVersion": "config.podium.dev/v1", "kind": "ControllerConfiguration"}
    path.write_text(json.dumps({**kinds, **settings}), encoding="utf-8")
    return f"--config={path}"


class Found(NamedTuple):
    """A condition of a group as it is stored."""

    status: str
    reason: str
    message: str
    since: str


class Place(NamedTuple):
    """Groups of one API on one server."""

    server: Server
    api: str

    @property
    def native(self) -> bool:
        return self.api.startswith(f"{NATIVE_GROUP}/")


def places(module: str) -> tuple[str, ...]:
    """Return where a module has groups: of the native API of a minor, and Podium's own without the gates."""
    return (*in_turn(module), "podium")


@contextlib.contextmanager
def place(name: str, *gates: str) -> Iterator[Place]:
    """Start a server of its own for one of `places`, with more feature gates (`NAME=true`)."""
    if name in RELEASES:
        apiserver = tuple(f"--feature-gates={gate}" for gate in gates)
        with exclusive(RELEASES[name], apiserver=apiserver) as server:
            yield Place(server, f"{NATIVE_GROUP}/{NATIVE[name][0]}")
    else:
        with exclusive(NEWEST, workload_api=False) as server:
            install(server)
            yield Place(server, PODIUM_API)


def install(server: Server) -> None:
    """Install Podium's resources, without a webhook, and wait until they are served."""
    for definition in definitions.crds():
        code, answer = server.request(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition
        )
        assert code == 201, answer
    served = f"/apis/{PODIUM_API}/podgroups"
    until(lambda: server.request("GET", served)[0] == 200, "groups are served")


def new_class(server: Server, name: str, value: int, **fields: Any) -> None:
    """Make a PriorityClass and wait until pods and groups are resolved by it."""
    code, made = server.request("POST", CLASSES, {"metadata": {"name": name}, "value": value, **fields})
    assert code == 201, made
    until(lambda: resolved(server, name) == value, f"{name} counts")


def drop_class(server: Server, name: str) -> None:
    """Delete a PriorityClass and wait until it no longer counts."""
    code, answer = server.request("DELETE", f"{CLASSES}/{name}")
    assert code == 200, answer
    until(lambda: resolved(server, name) is None, f"{name} is gone")


def set_default(server: Server, name: str, *, default: bool) -> None:
    """Make a class the default one, or none, and wait until that counts."""
    before = resolved(server, "")
    code, changed = server.request("PATCH", f"{CLASSES}/{name}", {"globalDefault": default}, MERGE)
    assert code == 200, changed
    wanted = changed.get("value", 0) if default else 0
    if wanted != before:
        until(lambda: resolved(server, "") == wanted, f"{name} is{'' if default else ' not'} the default")


def resolved(server: Server, class_name: str) -> int | None:
    """Return the integer that a new pod of a class would get now; None if the class does not exist."""
    body = {
        "metadata": {"name": "probe"},
        "spec": {"containers": [CONTAINER], "priorityClassName": class_name},
    }
    code, answer = server.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", body)
    return answer["spec"]["priority"] if code == 201 else None


class Space:
    """A namespace with groups and their pods."""

    def __init__(self, where: Place, name: str | None = None) -> None:
        self.place = where
        self.server = where.server
        self.name = where.server.new_namespace() if name is None else name

    def groups_path(self, name: str = "") -> str:
        return f"/apis/{self.place.api}/namespaces/{self.name}/podgroups/{name}".rstrip("/")

    def pods_path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.name}/pods/{name}".rstrip("/")

    def ask(self, method: str, path: str, body: Any = None, *, code: int = 200) -> dict[str, Any]:
        """Send one request that must be answered with this code."""
        kind = MERGE if method == "PATCH" else "application/json"
        found, answer = self.server.request(method, path, body, kind)
        assert found == code, answer
        assert isinstance(answer, dict)
        return answer

    def group(
        self, name: str, class_name: str = "", *, resolve: bool = True, **fields: Any
    ) -> dict[str, Any]:
        """Create a gang of two; the test sets the fields that the webhook would resolve of Podium's group.

        `fields` are further fields of its spec.
        """
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}, **fields}
        if class_name:
            spec["priorityClassName"] = class_name
        if resolve and not self.place.native:
            spec["priority"] = resolved(self.server, class_name)
        body = {"apiVersion": self.place.api, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        return self.ask("POST", self.groups_path(), body, code=201)

    def pod(self, name: str, group: str, class_name: str = "", **fields: Any) -> None:
        """Make a member; `fields` are fields of its spec."""
        self.ask("POST", self.pods_path(), self.member(name, group, class_name, **fields), code=201)

    def member(self, name: str, group: str, class_name: str = "", **fields: Any) -> dict[str, Any]:
        """Return a member without creating it."""
        spec = {"containers": [CONTAINER], "priorityClassName": class_name, **fields}
        metadata: dict[str, Any] = {"name": name}
        if self.place.native:
            spec["schedulingGroup"] = {"podGroupName": group}
        else:
            metadata["labels"] = {GROUP_LABEL: group}
        return {"metadata": metadata, "spec": spec}

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        """Report that a pod has ended, as its kubelet would."""
        self.ask("PATCH", f"{self.pods_path(name)}/status", {"status": {"phase": phase}})

    def remove(self, name: str) -> None:
        """Delete a pod; a pod on a node stays until its kubelet reports its end."""
        self.ask("DELETE", self.pods_path(name))

    def end(self, name: str) -> None:
        """Remove a pod with grace period 0 and without its finalizers."""
        self.ask("DELETE", f"{self.pods_path(name)}?gracePeriodSeconds=0")

    def remove_group(self, name: str) -> None:
        """Delete a group and its finalizer, with or without members."""
        self.ask("DELETE", self.groups_path(name))
        code, answer = self.server.request(
            "PATCH", self.groups_path(name), {"metadata": {"finalizers": None}}, MERGE
        )
        assert code in (200, 404), answer
        until(lambda: self.server.request("GET", self.groups_path(name))[0] == 404, f"group {name} is gone")

    def conditions(self, name: str) -> dict[str, Found]:
        """Return a group's conditions by type."""
        return conditions(self.ask("GET", self.groups_path(name)))

    def expect(self, name: str, status: str, reason: str, text: str = "", *, axis: str = PRIORITY) -> Found:
        """Wait until a group's condition has this status and text; return the condition."""
        seen: list[Found] = []

        def reached() -> bool:
            seen[:] = [each for kind, each in self.conditions(name).items() if kind == axis]
            return any(each[:2] == (status, reason) and text in each.message for each in seen)

        ended = comes(reached)
        assert ended, f"{axis} of {name} should be {status} {reason} {text!r}; it is {seen}"
        return seen[0]


def conditions(group: dict[str, Any]) -> dict[str, Found]:
    """Return the conditions of a stored group by type."""
    found = group.get("status", {}).get("conditions", ())
    return {
        each["type"]: Found(each["status"], each["reason"], each["message"], each["lastTransitionTime"])
        for each in found
    }


def moment(since: str) -> float:
    """Return a lastTransitionTime as seconds since 1970."""
    return time.mktime(time.strptime(since, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
