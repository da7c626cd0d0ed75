"""Podium as its manifests install it, on a real API server: each process under its own account and rights.

No image runs, so the Deployments are left out and their commands are local processes. The files differ from
the shipped ones only in settings: preemption is enforced, without a limit per minute.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from tests.support.controllers.running import spawn
from tests.support.hostile.watched import Watched
from tests.support.install.scene import route
from tests.support.rights import Account
from tests.support.servers import Server
from tests.support.waiting import until
from tests.support.webhooks.running import Running
from tests.support.webhooks.running import launch as launch_webhook

from podium.api.quantity import Scale, parse
from podium.ops.doctor.facts import DEFINITIONS, MUTATING, VALIDATING
from podium.ops.install import key_of, manifests

NAMESPACE = "podium-system"
_APPLY = "application/apply-patch+yaml"
# The Deployments have no kubelet here, and Services do not route.
_LEFT_OUT = ("Deployment", "Service")
_PODIUM = Path(sys.executable).with_name("podium")
_CHOSEN = {"preemption": "enforce", "evictionsPerMinute": None}
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
# Two schedulers, of which one leads. One webhook and one controller, because all replicas have the same load.
_REPLICAS = {"webhook": 1, "controller": 1, "scheduler": 2}


class Leadership(msgspec.Struct, frozen=True):
    """The holder of a Lease, and how often it has changed."""

    holder: str
    transitions: int


class Installation:
    """The processes, and the rights of an installation."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.processes: dict[str, Watched] = {}
        self._folder = folder
        self._documents = manifests("scheduler", None)
        self._commands = {each["metadata"]["name"]: each for each in self._of("Deployment")}
        self._count = 0
        self._stack = contextlib.ExitStack()

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self._documents if each["kind"] == kind]

    def install(self) -> None:
        """Apply the manifests, start every process, and wait until each is ready."""
        for each in self._documents:
            if each["kind"] not in _LEFT_OUT:
                self._apply(each)
        for component, count in _REPLICAS.items():
            for index in range(count):
                self._start(component, f"{component}-{index}")
        self.wait_ready()

    def heal(self) -> None:
        """Start the processes again that have ended."""
        over = [name for name, each in self.processes.items() if each.ended]
        for name in over:
            self._start(name.rpartition("-")[0], name)
        if over:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until each process is ready, the API server calls the webhook, and each Lease has a leader."""
        for each in self.processes.values():
            each.running.wait_ready()
        self._route()
        until(lambda: self.leadership("controller").holder != "", "a controller leads")
        until(self._scheduling, "a scheduler leads")

    def close(self) -> None:
        """Kill every process."""
        for each in self.processes.values():
            each.kill()

    def leadership(self, component: str) -> Leadership:
        """Return the state of a component's Lease."""
        code, lease = self.server.request("GET", f"{_LEASES}/podium-{component}")
        spec = lease["spec"] if code == 200 else {}
        return Leadership(spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0)

    @property
    def log(self) -> str:
        """Return the last log lines of every process."""
        return "".join(f"\n{name}:\n{each.running.log[-3000:]}" for name, each in self.processes.items())

    def _scheduling(self) -> bool:
        each = [process.running for name, process in self.processes.items() if name.startswith("scheduler")]
        return any("podium_scheduler_leader 1.0" in running.get("/metrics")[1] for running in each)

    def _apply(self, document: Mapping[str, Any]) -> None:
        path = f"{key_of(document).path}?fieldManager=install&force=true"
        # A definition is served shortly after its creation, and so is an account's namespace.
        answers: list[Any] = []

        def applied() -> bool:
            answers[:] = self.server.request("PATCH", path, document, _APPLY)
            return answers[0] in (200, 201)

        until(applied, f"{document['kind']} is applied: {answers}", 20.0)

    def _route(self) -> None:
        """Point the registration to the local webhook once it has the certificates."""
        webhook = self.processes["webhook-0"].running
        configurations = [f"{MUTATING}/podium", f"{VALIDATING}/podium"]

        def trusted() -> bool:
            found = [self.server.request("GET", path)[1]["webhooks"] for path in configurations]
            clients = [each["clientConfig"] for webhooks in found for each in webhooks]
            for kind in ("podgroups", "workloads"):
                path = f"{DEFINITIONS}/{kind}.scheduling.podium.dev"
                conversion = self.server.request("GET", path)[1]["spec"]["conversion"]
                clients.append(conversion["webhook"]["clientConfig"])
            return all("caBundle" in each for each in clients)

        until(trusted, "the registration has the webhook's caBundle")
        route(self.server, webhook.url)

    def _start(self, component: str, name: str) -> None:
        self._count += 1
        folder = self._folder / f"{name}-{self._count}"
        folder.mkdir(parents=True)
        deployment = self._commands[f"podium-{component}"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        _, *given = container["args"]
        arguments = [each for each in given if not each.startswith(("--bind=", "--config="))]
        (file,) = [each for each in given if each.startswith("--config=")]
        arguments.append(f"--config={self._configuration(component, Path(file).name, folder)}")
        kubeconfig = Account(self.server, NAMESPACE, f"podium-{component}").kubeconfig(folder)
        arguments.append(f"--kubeconfig={kubeconfig}")
        # Fresh, because their memory is measured.
        if component == "webhook":
            running: Running = launch_webhook(
                self.server, folder, *arguments, "--host-name=127.0.0.1", fresh=True
            )
        else:
            line = [str(_PODIUM), component, *arguments, "--metrics-port=0", "--log-format=json"]
            running = spawn(line, folder / "process", fresh=True)
        limit = parse(container["resources"]["limits"]["memory"], Scale.ONE)
        self.processes[name] = Watched(name, running, limit)

    def _configuration(self, component: str, file: str, folder: Path) -> Path:
        (found,) = [
            each for each in self._of("ConfigMap") if each["metadata"]["name"] == f"podium-{component}"
        ]
        settings = yaml.safe_load(found["data"][file])
        path = folder / file
        path.write_text(
            yaml.safe_dump({**settings, **(_CHOSEN if component == "scheduler" else {})}), "utf-8"
        )
        return path


@contextlib.contextmanager
def installation(server: Server, folder: Path) -> Iterator[Installation]:
    """Yield a ready installation; its processes end with the block."""
    made = Installation(server, folder)
    with contextlib.closing(made):
        made.install()
        yield made
