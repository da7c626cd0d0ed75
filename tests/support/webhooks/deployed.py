"""The webhook by Service on a server without kubelets: its Deployment is an object that tests change.

API servers cannot reach a Service here. As a module this is the command line of `podium`, but it registers
LOCAL_URL of its environment in place of each Service.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.rights import Account
from tests.support.servers import Server
from tests.support.webhooks.running import Running, ending, launch
from tests.unit.manifests.test_modes import configured, rendered

from podium.cli.main import main
from podium.ops.doctor.facts import DEFINITIONS
from podium.webhooks import registration
from podium.webhooks.registration import Endpoint

NAMESPACE, NAME = "podium-system", "podium-webhook"
OWN = f"{NAMESPACE}/{NAME}"
LOCAL_URL = "PODIUM_TEST_LOCAL_URL"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
DEPLOYMENT = f"{DEPLOYMENTS}/{NAME}"
_MERGE = "application/merge-patch+json"


def new_deployment(server: Server, *, replicas: int, available: int, name: str = NAME) -> None:
    """Create a process's Deployment, in a namespace that exists."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    body = {"metadata": {"name": name}, "spec": {**spec, "replicas": replicas}}
    code, answer = server.request("POST", DEPLOYMENTS, body)
    assert code == 201, answer
    report_available(server, available, name)


def report_available(server: Server, available: int, name: str = NAME) -> None:
    """Set the number of available replicas, as the Deployment controller does."""
    status = {"replicas": available, "readyReplicas": available, "availableReplicas": available}
    code, answer = server.request("PATCH", f"{DEPLOYMENTS}/{name}/status", {"status": status}, _MERGE)
    assert code == 200, answer


def scale(server: Server, replicas: int, name: str = NAME) -> None:
    """Scale the Deployment, as kubectl does."""
    code, answer = server.request("PATCH", f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}}, _MERGE)
    assert code == 200, answer


class _LocalEndpoint(Endpoint, frozen=True, kw_only=True):
    """A Service at which a local process answers."""

    def client(self, path: str, bundle: bytes | None) -> dict[str, Any]:
        """Return the clientConfig of the local process."""
        return Endpoint(url=os.environ[LOCAL_URL]).client(path, bundle)


def launch_by_service(
    server: Server,
    folder: Path,
    *arguments: str,
    program: Sequence[str] = (sys.executable, "-m", __name__),
    deployment: bool = True,
    fresh: bool = False,
) -> Running:
    """Start a process that registers by Service, without waiting; its certificates are in the folder."""
    given = [*arguments, f"--register-service={OWN}", "--host-name=127.0.0.1"]
    given += [f"--deployment={OWN}"] if deployment else []
    environ = functools.partial(_environ, os.environ)
    return launch(server, folder, *given, program=program, environ=environ, fresh=fresh)


def _environ(environ: Mapping[str, str], url: str) -> Mapping[str, str]:
    # As in a pod: replicas that share a Secret must reach each other.
    return {"POD_IP": "127.0.0.1", **environ, LOCAL_URL: url}


@contextlib.contextmanager
def by_service(server: Server, folder: Path, *arguments: str, deployment: bool = True) -> Iterator[Running]:
    """Yield a ready process that registers by Service."""
    started = launch_by_service(server, folder, *arguments, deployment=deployment)
    with ending(started):
        started.wait_ready()
        yield started


@contextlib.contextmanager
def installed(server: Server, folder: Path, *, deployment: bool = False) -> Iterator[Running]:
    """Yield the installed webhook as a process, with the arguments, the file and the account of its pods.

    With its `deployment` it is one of the pods of that. Without, it converts groups too, as no pod can here.
    """
    folder.mkdir(exist_ok=True)
    [own] = [each for each in rendered("scheduler", "Deployment") if each["metadata"]["name"] == NAME]
    policy = folder / "policy.yaml"
    policy.write_text(configured("scheduler", NAME)[policy.name], encoding="utf-8")
    kubeconfig = Account(server, NAMESPACE, NAME).kubeconfig(folder)
    given = [*given_by_pod(own), f"--config={policy}", f"--kubeconfig={kubeconfig}"]
    with by_service(server, folder, *given, deployment=deployment) as webhook:
        if not deployment:
            convert_locally(server, webhook.url)
        yield webhook


def given_by_pod(deployment: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a Deployment's process that a test keeps: those on its place are the test's."""
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    by_test = ("--bind=", "--config=", "--register-service=", "--deployment=")
    return [each for each in container["args"][1:] if not each.startswith(by_test)]


def convert_locally(server: Server, url: str) -> None:
    """Have API servers convert groups by a local process, because Services do not route here."""
    for kind in ("podgroups", "workloads"):
        path = f"{DEFINITIONS}/{kind}.scheduling.podium.dev"
        code, found = server.request("GET", path)
        assert code == 200, found
        bundle = found["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
        client = {"service": None, "url": f"{url}/convert", "caBundle": bundle}
        body = {"spec": {"conversion": {"webhook": {"clientConfig": client}}}}
        code, answer = server.request("PATCH", path, body, _MERGE)
        assert code == 200, answer


if __name__ == "__main__":
    registration.Endpoint = _LocalEndpoint  # type: ignore[misc]
    main()
