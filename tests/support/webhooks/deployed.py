"""The webhook by Service on a server without kubelets: its Deployment is an object that tests change.

API servers cannot reach a Service here. As a module this is the command line of `podium`, but it registers
LOCAL_URL of its environment in place of each Service.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.servers import Server
from tests.support.webhooks.running import Running, ending, launch

from podium.cli.main import main
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


def launch_by_service(server: Server, folder: Path, *arguments: str) -> Running:
    """Start a process that registers by Service, without waiting; its certificates are in the folder."""
    program = (sys.executable, "-m", __name__)
    given = (*arguments, f"--register-service={OWN}", f"--deployment={OWN}", "--host-name=127.0.0.1")
    return launch(server, folder, *given, program=program, environ=lambda url: {**os.environ, LOCAL_URL: url})


@contextlib.contextmanager
def by_service(server: Server, folder: Path, *arguments: str) -> Iterator[Running]:
    """Yield a ready process that registers by Service."""
    started = launch_by_service(server, folder, *arguments)
    with ending(started):
        started.wait_ready()
        yield started


if __name__ == "__main__":
    registration.Endpoint = _LocalEndpoint  # type: ignore[misc]
    main()
