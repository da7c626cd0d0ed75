"""The processes of an install as its pods run them: two replicas each, as soon as their Deployment exists.

They have the arguments, the configuration and the account of their pods. No image runs in a local cluster, so
they are processes of this machine.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.controllers.running import Controller
from tests.support.install.scene import NAMESPACE, json_of, launched_beside
from tests.support.rights import Account
from tests.support.servers import Server
from tests.support.starting import start
from tests.support.webhooks.running import LOG, free_port
from tests.unit.manifests.test_modes import configured, rendered

_MODE = "scheduler"
_REPLICAS = 2
_ADDRESS = "127.0.0.1"
_PODIUM = Path(sys.executable).with_name("podium")
_PLACE = "/configuration/"


@contextlib.contextmanager
def pods(server: Server, folder: Path) -> Iterator[list[Controller]]:
    """Yield the processes, which come while an install runs; the block ends them."""
    deployments = rendered(_MODE, "Deployment")

    def run(started: list[Controller], over: threading.Event) -> None:
        waiting = list(deployments)
        while waiting and not over.wait(0.1):
            for each in list(waiting):
                name = each["metadata"]["name"]
                if json_of(server, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}") is not None:
                    waiting.remove(each)
                    kept = folder / name
                    started.extend(_launch(server, kept, each, index) for index in range(_REPLICAS))

    with launched_beside(run) as started:
        yield started


def _launch(server: Server, folder: Path, deployment: dict[str, Any], index: int) -> Controller:
    """Start a replica of a Deployment."""
    name = deployment["metadata"]["name"]
    own = folder / str(index)
    own.mkdir(parents=True)
    for file, text in configured(_MODE, name).items():
        (own / file).write_text(text, encoding="utf-8")
    command, *arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    arguments = [each.replace(_PLACE, f"{own}/") for each in arguments if each != "--bind=0.0.0.0"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    line = [str(_PODIUM), command, f"--kubeconfig={Account(server, NAMESPACE, account).kubeconfig(own)}"]
    line += ["--metrics-port=0", "--log-format=json", *arguments]
    if command == "webhook":
        line += [f"--port={free_port()}", f"--host-name={_ADDRESS}"]
    else:
        line.append(f"--lease={NAMESPACE}/{name}")
    environment = {**os.environ, "POD_NAME": f"{name}-{index}", "POD_IP": _ADDRESS}
    return Controller(start(line, own / LOG, environ=environment), own, 0)
