"""Podium as its manifests install it, on a real API server: each process under its own account and rights.

No image runs, so the Deployments are left out and their commands are local processes. The files differ from
the shipped ones only in settings: preemption is enforced, without a limit per minute.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from tests.support.controllers.running import spawn
from tests.support.hostile.watched import Watched
from tests.support.install.scene import NAMESPACE, path_of
from tests.support.rights import Account
from tests.support.servers import Server
from tests.support.waiting import comes, until
from tests.support.webhooks import deployed
from tests.support.webhooks.running import Running

from podium.api.quantity import Scale, parse
from podium.ops.doctor.facts import MUTATING, VALIDATING, manifests

_APPLY = "application/apply-patch+yaml"
# The Deployments have no kubelet here, and Services do not route.
_LEFT_OUT = ("Deployment", "Service")
_PODIUM = Path(sys.executable).with_name("podium")
_CHOSEN = {"preemption": "enforce", "evictionsPerMinute": None}
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
# Two schedulers, of which one leads. One webhook and one controller, because all replicas have the same load.
_REPLICAS = {"webhook": 1, "controller": 1, "scheduler": 2}


class Program(NamedTuple):
    """A Podium to run: its command line, that of a webhook at a local URL, and its manifests."""

    executable: Path
    webhook: tuple[str, ...]
    documents: list[dict[str, Any]]


def current() -> Program:
    """Return the Podium of this checkout."""
    return Program(_PODIUM, (sys.executable, "-m", deployed.__name__), manifests())


class Leadership(msgspec.Struct, frozen=True):
    """The holder of a Lease, and how often it has changed."""

    holder: str
    transitions: int


class Installation:
    """The processes, and the rights of an installation."""

    def __init__(self, server: Server, folder: Path, program: Program) -> None:
        self.server = server
        self.processes: dict[str, Watched] = {}
        self._folder = folder
        self._programs = {
            f"{name}-{index}": program for name, count in _REPLICAS.items() for index in range(count)
        }
        self._count = 0

    def install(self, program: Program) -> None:
        """Apply the manifests, start every process, and wait until each is ready."""
        self.apply(program)
        for name in self._programs:
            self._start(name)
        self.wait_ready()

    def apply(self, program: Program) -> None:
        """Apply the manifests of a program, and leave the processes as they are."""
        for each in program.documents:
            if each["kind"] not in _LEFT_OUT:
                self._apply(each)

    def replace(self, name: str, program: Program) -> Running:
        """Replace a process as a Deployment does: another one is ready before it is asked to stop.

        Return the former process, which is about to end.
        """
        former = self.processes[name].running
        self._programs[name] = program
        self._start(name)
        self.processes[name].running.wait_ready()
        self._route()
        former.process.send_signal(signal.SIGTERM)
        return former

    def leading(self) -> str:
        """Return the name of the scheduler that leads; empty if none does."""
        for name, each in self.processes.items():
            serves = name.startswith("scheduler") and not each.ended
            if serves and "podium_scheduler_leader 1.0" in each.running.get("/metrics")[1]:
                return name
        return ""

    def heal(self) -> None:
        """Start the processes again that have ended."""
        over = [name for name, each in self.processes.items() if each.ended]
        for name in over:
            self._start(name)
        if over:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until each process is ready, called and led."""
        for each in self.processes.values():
            each.running.wait_ready()
        self._route()
        self.wait_led()

    def wait_led(self) -> None:
        """Wait until each Lease has a leader."""
        until(lambda: self.leadership("controller").holder != "", "a controller leads")
        until(lambda: self.leading() != "", "a scheduler leads")

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

    def _apply(self, document: Mapping[str, Any]) -> None:
        webhook = self.processes.get("webhook-0")
        if webhook is not None:
            document = _routed(document, webhook.running.url)
        path = f"{path_of(document)}?fieldManager=install&force=true"
        # A definition is served shortly after its creation, and so is an account's namespace.
        answers: list[Any] = []

        def applied() -> bool:
            answers[:] = self.server.request("PATCH", path, document, _APPLY)
            return answers[0] in (200, 201)

        assert comes(applied, 20.0), f"{document['kind']} is not applied: {answers}"

    def _route(self) -> None:
        """Wait until API servers call the local webhook, and have them convert by it."""
        webhook = self.processes["webhook-0"].running
        configurations = [f"{MUTATING}/podium", f"{VALIDATING}/podium"]

        def registered() -> bool:
            found = [self.server.request("GET", path)[1].get("webhooks", ()) for path in configurations]
            urls = [each["clientConfig"]["url"] for webhooks in found for each in webhooks]
            return bool(urls) and all(each.startswith(webhook.url) for each in urls)

        until(registered, "the webhook is registered")
        deployed.convert_locally(self.server, webhook.url)

    def _start(self, name: str) -> None:
        component, program = name.rpartition("-")[0], self._programs[name]
        self._count += 1
        folder = self._folder / f"{name}-{self._count}"
        folder.mkdir(parents=True)
        deployment = _document(program, "Deployment", component)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        # Without a Deployment, which has no kubelet here.
        arguments = deployed.given_by_pod(deployment)
        (file,) = [each for each in container["args"] if each.startswith("--config=")]
        arguments.append(f"--config={_configuration(program, component, Path(file).name, folder)}")
        kubeconfig = Account(self.server, NAMESPACE, f"podium-{component}").kubeconfig(folder)
        arguments.append(f"--kubeconfig={kubeconfig}")
        # Fresh, because their memory is measured.
        if component == "webhook":
            running: Running = deployed.launch_by_service(
                self.server, folder, *arguments, program=program.webhook, deployment=False, fresh=True
            )
        else:
            line = [str(program.executable), component, *arguments, "--metrics-port=0", "--log-format=json"]
            running = spawn(line, folder / "process", fresh=True)
        limit = parse(container["resources"]["limits"]["memory"], Scale.ONE)
        self.processes[name] = Watched(name, running, limit)


def _routed(value: Any, url: str) -> Any:
    """Return a manifest that names a local process in place of each Service."""
    if isinstance(value, list):
        return [_routed(each, url) for each in value]
    if not isinstance(value, dict):
        return value
    client = value.get("clientConfig")
    if client is None:
        return {name: _routed(each, url) for name, each in value.items()}
    return {**value, "clientConfig": {"url": f"{url}{client['service']['path']}"}}


def _document(program: Program, kind: str, component: str) -> dict[str, Any]:
    (document,) = [
        each
        for each in program.documents
        if each["kind"] == kind and each["metadata"]["name"] == f"podium-{component}"
    ]
    return document


def _configuration(program: Program, component: str, file: str, folder: Path) -> Path:
    settings = yaml.safe_load(_document(program, "ConfigMap", component)["data"][file])
    path = folder / file
    path.write_text(yaml.safe_dump({**settings, **(_CHOSEN if component == "scheduler" else {})}), "utf-8")
    return path


@contextlib.contextmanager
def installation(server: Server, folder: Path, program: Program) -> Iterator[Installation]:
    """Yield a ready installation; its processes end with the block."""
    made = Installation(server, folder, program)
    with contextlib.closing(made):
        made.install(program)
        yield made
