"""A node whose kubelet is the test: it writes the statuses of pods there, and serves their logs.

kwok plays the kubelets of all other nodes, which are cordoned, so every pod of a Deployment comes to this
one. kwok keeps it ready and removes deleted pods, but does not start pods there.
"""

import contextlib
import json
import os
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from tests.support.rollout.objects import Document
from tests.support.scheduling.kubelet import kubelet
from tests.support.servers import Server
from tests.support.waiting import until
from tests.support.webhooks import pki
from tools.devcluster.controlplane import process, state
from tools.devcluster.controlplane.components import STAGES
from tools.devcluster.controlplane.nodes import node

NODE = "by-hand"
_MERGE = "application/merge-patch+json"
_POLL_SECONDS = 0.1
# The status of a pod when it is looked at for the n-th time; None leaves it as it is.
Script = Callable[[Document, int], Document | None]


class ByHand:
    """A kubelet: `script` decides what it writes, and `logs` what it serves, by container and `previous`."""

    def __init__(self, server: Server) -> None:
        self.script: Script = once()
        self.logs: dict[tuple[str, bool], str] = {}
        self.server = server
        self._looks: dict[str, int] = {}

    def look(self) -> None:
        """Write the next status of each pod of the node."""
        with contextlib.closing(self.server.access.client()) as client:
            code, found = client.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}")
            for pod in found["items"] if code == 200 else ():
                meta = pod["metadata"]
                count = self._looks[meta["uid"]] = self._looks.get(meta["uid"], 0) + 1
                status = None if "deletionTimestamp" in meta else self.script(pod, count - 1)
                if status is not None:
                    for each in status.get("containerStatuses") or ():
                        each["name"] = pod["spec"]["containers"][0]["name"]
                    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
                    code, answer = client.request("PATCH", path, {"status": status}, _MERGE)
                    assert code in (200, 404), answer

    def log(self, path: str, query: dict[str, list[str]]) -> str | None:
        """Return a log, or None if there is none: /containerLogs/NAMESPACE/POD/CONTAINER."""
        key = path.rpartition("/")[2], query.get("previous") == ["true"]
        text = self.logs.get(key)
        lines = (text or "").splitlines(keepends=True)
        return None if text is None else "".join(lines[-int(query["tailLines"][0]) :])


@contextlib.contextmanager
def by_hand(server: Server, folder: Path) -> Iterator[ByHand]:
    """Add the node to a cluster of the test's own, and play its kubelet until the block ends."""
    made = ByHand(server)
    over = threading.Event()

    def play() -> None:
        while not over.wait(_POLL_SECONDS):
            made.look()

    _end_kwok(server)
    with _serving(made, folder) as port, kubelet(server, _stages(folder)):
        for each in server.request("GET", "/api/v1/nodes")[1]["items"]:
            server.kubectl("cordon", each["metadata"]["name"])
        _add(server, port)
        thread = threading.Thread(target=play)
        thread.start()
        try:
            yield made
        finally:
            over.set()
            thread.join()


def _end_kwok(server: Server) -> None:
    """End the cluster's own kwok, which would start the pods of every node."""
    started = state.load(server.folder)
    assert started is not None
    running = started.components["kwok"].process
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: not process.alive(running), "kwok has ended")


def _stages(folder: Path) -> Path:
    """Return kwok's stages for all nodes but this one."""
    stages: list[dict[str, Any]] = list(yaml.safe_load_all(STAGES.read_text("utf-8")))
    (started,) = [each for each in stages if each["metadata"]["name"] == "pod-running"]
    elsewhere = {"key": ".spec.nodeName", "operator": "NotIn", "values": [NODE]}
    started["spec"]["selector"]["matchExpressions"].append(elsewhere)
    changed = folder / "stages.yaml"
    changed.write_text(yaml.safe_dump_all(stages), "utf-8")
    return changed


def _add(server: Server, port: int) -> None:
    document = node(0, version=server.release.version)
    document["metadata"] = {
        "name": NODE,
        "labels": {**document["metadata"]["labels"], "kubernetes.io/hostname": NODE},
    }
    document["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    document["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    code, answer = server.request("POST", "/api/v1/nodes", document)
    assert code == 201, answer

    def is_ready() -> bool:
        found = server.request("GET", f"/api/v1/nodes/{NODE}")[1]
        conditions = found["status"].get("conditions") or ()
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return ready and not found["spec"].get("taints")

    until(is_ready, "the node takes pods")


@contextlib.contextmanager
def _serving(made: ByHand, folder: Path) -> Iterator[int]:
    """Serve logs over TLS as a kubelet does; the API server does not verify a kubelet's certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            text = made.log(parts.path, parse_qs(parts.query))
            body = ("no such container" if text is None else text).encode()
            self.send_response(400 if text is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature is given
            pass

    pki.write(folder, pki.leaf(pki.authority()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.socket = context.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield http.server_address[1]
        finally:
            http.shutdown()
            thread.join()


def once(*statuses: Document) -> Script:
    """Return a script that writes these statuses one after the other, and then keeps the last."""

    def script(pod: Document, look: int) -> Document | None:
        del pod
        return _copy(statuses[look]) if look < len(statuses) else None

    return script


def shown(seen: Callable[[], int], *statuses: Document) -> Script:
    """Return a script that writes one status to all pods, and the next when a client has seen it.

    `seen` returns how many lists of pods have begun. Of two lists after the last write, the first is over.
    """
    written: dict[str, int] = {}
    position, last = 0, seen()

    def script(pod: Document, look: int) -> Document | None:
        nonlocal position, last
        del look
        if written and seen() >= last + 2:
            position = min(position + 1, len(statuses) - 1)
        if written.get(pod["metadata"]["uid"]) == position:
            return None
        written[pod["metadata"]["uid"]], last = position, seen()
        return _copy(statuses[position])

    return script


def _copy(status: Document) -> Document:
    copied: Document = json.loads(json.dumps(status))
    return copied
