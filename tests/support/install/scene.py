"""A whole cluster to install into: its Deployments become available, because kwok simulates kubelets.

No image runs, so the webhook, which writes the caBundle, is a local process. It has its pod's arguments and
account, and starts once the account exists. The cluster's objects can be listed, before and after.
"""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.support.calling import invoke
from tests.support.controllers import running as reconciling
from tests.support.rights import Account
from tests.support.servers import Server
from tests.support.waiting import until
from tests.support.webhooks.running import Running, ending, launch
from tests.unit.manifests.test_modes import configured, rendered

from podium.ops.doctor.facts import DEFINITIONS, MUTATING, VALIDATING

_PODIUM = Path(sys.executable).with_name("podium")
NAMESPACE = "podium-system"
GROUPS = "/apis/scheduling.podium.dev/v1beta1/namespaces/default/podgroups"
MERGE = "application/merge-patch+json"
# Kinds whose objects come and go by themselves, or record deleted ones. The API server removes the address of
# a Service that was not created a minute later.
_RESTLESS = ("events", "leases", "endpoints", "endpointslices", "nodes", "ipaddresses")

P = TypeVar("P", bound=Running)


def podium(
    server: Server, *arguments: str, kubeconfig: Path | None = None, code: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Call a command of ours against a server, in this process; it must exit with this code."""
    line = _arguments(server, arguments, kubeconfig)
    done = invoke(line, Path.cwd())
    assert done.code == code, f"{done.code}\n{done.stdout}\n{done.stderr}"
    return subprocess.CompletedProcess(line, *done)


def podium_process(server: Server, *arguments: str) -> None:
    """Run a command of ours as a process, which may run beside another; it must exit with 0."""
    line = _line(server, arguments)
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"


@contextlib.contextmanager
def halted(server: Server, *arguments: str, at: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a command of ours that has just printed a line; the block must end it, or it is killed."""
    line = _line(server, arguments)
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines: list[str] = []
        try:
            while at not in "".join(lines[-1:]):
                lines.append(process.stderr.readline())
                assert lines[-1], "".join(lines)
            yield process
        finally:
            process.kill()


def _line(server: Server, arguments: tuple[str, ...]) -> list[str]:
    return [str(_PODIUM), *_arguments(server, arguments)]


def _arguments(server: Server, arguments: tuple[str, ...], kubeconfig: Path | None = None) -> list[str]:
    command, *rest = arguments
    return [command, f"--kubeconfig={kubeconfig or server.kubeconfig}", *rest]


# The last line of an install without a running webhook.
UNTRUSTED = "has no caBundle yet"


@contextlib.contextmanager
def launched_beside(run: Callable[[list[P], threading.Event], None]) -> Iterator[list[P]]:
    """Yield the processes that `run` starts on a thread; the block ends them.

    `run` adds each process to the list, and returns when the event is set.
    """
    started: list[P] = []
    over = threading.Event()
    thread = threading.Thread(target=run, args=(started, over))
    thread.start()
    # A failure of the block gets the processes' logs as notes.
    with contextlib.ExitStack() as stack:
        try:
            yield started
        finally:
            over.set()
            thread.join()
            for each in started:
                stack.enter_context(ending(each))


@contextlib.contextmanager
def webhook(server: Server, folder: Path) -> Iterator[list[Running]]:
    """Run the webhook as soon as its Deployment exists, as its pods would, until the block ends.

    Earlier, its Secret may not exist yet, and its account may not create one.
    """
    folder.mkdir(exist_ok=True)

    def run(started: list[Running], over: threading.Event) -> None:
        while json_of(server, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/podium-webhook") is None:
            if over.wait(0.2):
                return
        (deployment,) = [
            each
            for each in rendered("scheduler", "Deployment")
            if each["metadata"]["name"] == "podium-webhook"
        ]
        _, *arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        arguments.remove("--bind=0.0.0.0")
        arguments.remove("--config=/configuration/policy.yaml")
        policy = folder / "policy.yaml"
        policy.write_text(configured("scheduler", "podium-webhook")[policy.name], encoding="utf-8")
        arguments += [f"--config={policy}", "--host-name=127.0.0.1"]
        kubeconfig = Account(server, NAMESPACE, "podium-webhook").kubeconfig(folder)
        started.append(launch(server, folder, f"--kubeconfig={kubeconfig}", *arguments))

    with launched_beside(run) as started:
        yield started


@contextlib.contextmanager
def reconciler(server: Server, folder: Path) -> Iterator[None]:
    """Run the reconciler under its pod's account until the block ends."""
    folder.mkdir(exist_ok=True)
    kubeconfig = Account(server, NAMESPACE, "podium-controller").kubeconfig(folder)
    started = reconciling.launch(kubeconfig, folder / "controller", None)
    with ending(started):
        started.wait_ready()
        started.wait_leading()
        yield


def json_of(server: Server, path: str) -> Any:
    """Return the object at a path, or None; each call opens a connection, so any thread may call it."""
    with contextlib.closing(server.access.client()) as client:
        code, answer = client.request("GET", path)
        return answer if code == 200 else None


def stock(server: Server) -> dict[str, Any]:
    """Return all objects of every listable resource, by path, without fields that change by themselves."""
    found: dict[str, Any] = {}

    def listed(path: str, of: str) -> list[Any]:
        # A group or a resource may be terminating.
        code, answer = server.request("GET", path)
        return list(answer[of]) if code == 200 else []

    versions = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in listed("/apis", "groups")]
    for version in ["/api/v1", *versions]:
        for resource in listed(version, "resources"):
            name = resource["name"]
            if "list" not in resource["verbs"] or name in _RESTLESS:
                continue
            for each in listed(f"{version}/{name}", "items"):
                metadata = each["metadata"]
                for note in ("managedFields", "resourceVersion"):
                    metadata.pop(note, None)
                found[f"{version}/{name} {metadata.get('namespace', '')}/{metadata['name']}"] = each
    return found


def settled(server: Server) -> dict[str, Any]:
    """List all objects when controllers have settled: two equal listings without a terminating namespace."""
    seen: list[dict[str, Any]] = [{}]

    def still() -> bool:
        seen.append(stock(server))
        return seen[-1] == seen[-2] and not any(
            each["metadata"].get("deletionTimestamp") for each in seen[-1].values()
        )

    until(still, "the cluster is still")
    return seen[-1]


def new_group(server: Server, name: str, *finalizers: str) -> None:
    """Create a group as soon as that is possible."""
    body = {
        "apiVersion": "scheduling.podium.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    until(lambda: server.request("POST", GROUPS, body)[0] == 201, f"{name} is taken")


def route(server: Server, url: str) -> None:
    """Point API servers to a local process, because Services do not route here."""
    for kind in ("podgroups", "workloads"):
        path = f"{DEFINITIONS}/{kind}.scheduling.podium.dev"
        client = stored(server, path)["spec"]["conversion"]["webhook"]["clientConfig"]
        routed = {"service": None, "url": f"{url}/convert", "caBundle": client["caBundle"]}
        patch(server, path, {"spec": {"conversion": {"webhook": {"clientConfig": routed}}}})
    for path in (f"{MUTATING}/podium", f"{VALIDATING}/podium"):
        webhooks = stored(server, path)["webhooks"]
        for each in webhooks:
            client = each["clientConfig"]
            called = client.pop("service", None) or {"path": urlsplit(client["url"]).path}
            client["url"] = f"{url}{called['path']}"
        patch(server, path, {"webhooks": webhooks})


def stored(server: Server, path: str) -> Any:
    """Return the object at a path, which must exist."""
    code, answer = server.request("GET", path)
    assert code == 200, answer
    return answer


def patch(server: Server, path: str, body: Any) -> None:
    """Merge into an object; the write must be accepted."""
    code, answer = server.request("PATCH", path, body, MERGE)
    assert code == 200, answer
