"""Writers that keep an API server busy during a fault, and record the result of each write.

Each client repeats a round: create a group and a member, change the group. Then it reads the group in the
version that needs conversion, tries to remove the member from it, and deletes both. A write can only be right
if the webhook has acted on it: a group has its class's integer, and the member keeps its label, which only
the webhook guards. So a skipped webhook is detected like a failing one. The API server's count of failed
calls (`webhook_failures`) is a second measurement.
"""

import contextlib
import itertools
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any, NamedTuple

from tests.support.servers import Server
from tools.devcluster.controlplane.client import Client

from podium.api.groups import GROUP_LABEL, PODIUM_GROUP

API, OLDER = f"{PODIUM_GROUP}/v1beta1", f"{PODIUM_GROUP}/v1alpha2"
CLASS, VALUE = "faults", 1000
MERGE = "application/merge-patch+json"

# An API server's answers while it stops or starts.
_AWAY = ("apiserver is shutting down", "not yet ready to handle request", "before all known HTTP paths")
_COUNTED = re.compile(
    r"^apiserver_admission_webhook_(?P<what>fail_open_count|rejection_count)\{(?P<labels>[^}]*)\}"
    r" (?P<value>\S+)$",
    re.MULTILINE,
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Write(NamedTuple):
    """A write: when it began and ended (time.monotonic), its kind, and the fault of the answer, if any."""

    began: float
    ended: float
    kind: str
    action: str
    code: int  # 0: no answer, the API server is down
    wrong: str

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def __str__(self) -> str:
        return f"{self.began:.3f} +{self.seconds:.3f} s: {self.action} {self.kind}: {self.code} {self.wrong}"


class _Step(NamedTuple):
    """A request of a round."""

    action: str
    kind: str
    method: str
    path: str
    body: Any = None


class Record:
    """All writes so far."""

    def __init__(self) -> None:
        self.writes: list[Write] = []

    def failures(self, *kinds: str) -> list[Write]:
        """Return the failed writes, of these kinds or of all."""
        return [write for write in list(self.writes) if write.wrong and (not kinds or write.kind in kinds)]

    def unanswered(self) -> list[Write]:
        """Return the writes without an answer of an API server."""
        return [write for write in list(self.writes) if not write.code]

    def done(self, kind: str, action: str) -> int:
        """Return the number of successful writes."""
        return Counter((one.kind, one.action) for one in list(self.writes) if one.code and not one.wrong)[
            kind, action
        ]

    @property
    def slowest(self) -> float:
        """Return the duration of the longest write in seconds."""
        return max(write.seconds for write in list(self.writes))

    def __str__(self) -> str:
        """Return the reached rate in writes a second, which is less than wanted on a busy machine."""
        writes = sorted(self.writes)
        rate = len(writes) / (writes[-1].ended - writes[0].began)
        return f"{len(writes)} writes, {rate:.0f} a second, the slowest {self.slowest:.3f} s"


class _RoundOverError(Exception):
    """A write failed, or the API server is down, so the next writes of the round would fail too."""


class Writer:
    """Clients that write `rate` times a second in total, from `start` to `stop`."""

    def __init__(self, server: Server, namespace: str, rate: float, clients: int, *, older: bool) -> None:
        self.record = Record()
        self.clients = clients
        self._server = server
        self._namespace = namespace
        self._rate = rate
        self._older = older
        self._rounds = itertools.count()
        self._turns = itertools.count()
        self._over = threading.Event()
        self._began = time.monotonic()
        self._threads = [threading.Thread(target=self._write, name=f"writer {n}") for n in range(clients)]

    def start(self) -> None:
        """Start writing."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, after every client has ended its round."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int) -> None:
        """Wait until this many further writes have ended."""
        wanted = len(self.record.writes) + count
        deadline = time.monotonic() + 60
        while len(self.record.writes) < wanted:
            assert time.monotonic() < deadline, "the writers do not get on"
            self._over.wait(0.02)

    def _write(self) -> None:
        with contextlib.closing(self._server.access.client()) as client:
            while not self._over.is_set():
                with contextlib.suppress(_RoundOverError):
                    self._round(client, f"w{next(self._rounds)}")

    def _round(self, client: Client, name: str) -> None:
        groups = f"/apis/{API}/namespaces/{self._namespace}/podgroups"
        older = f"/apis/{OLDER}/namespaces/{self._namespace}/podgroups"
        pods = f"/api/v1/namespaces/{self._namespace}/pods"
        changed = {"metadata": {"labels": {"changed": "yes"}}}
        left = {"metadata": {"labels": {GROUP_LABEL: None}}}
        self._send(client, _Step("create", "PodGroup", "POST", groups, group(name)))
        self._send(client, _Step("create", "Pod", "POST", pods, member(name)))
        self._send(client, _Step("change", "PodGroup", "PATCH", f"{groups}/{name}", changed))
        if self._older:
            self._send(client, _Step("convert", "PodGroup", "GET", f"{older}/{name}"))
        self._send(client, _Step("leave", "Pod", "PATCH", f"{pods}/{name}", left))
        self._send(client, _Step("delete", "Pod", "DELETE", f"{pods}/{name}"))
        self._send(client, _Step("delete", "PodGroup", "DELETE", f"{groups}/{name}"))

    def _send(self, client: Client, step: "_Step") -> None:
        """Write once at the scheduled time, and record the result."""
        self._over.wait(self._began + next(self._turns) / self._rate - time.monotonic())
        action, kind, method, path, body = step
        began = time.monotonic()
        try:
            code, answer = client.request(
                method, path, body, MERGE if method == "PATCH" else "application/json"
            )
            away = any(text in str(answer) for text in _AWAY)
        except (OSError, HTTPException) as error:
            code, answer, away = 0, error, True
        wrong = "" if away else _wrong(action, kind, code, answer)
        self.record.writes.append(Write(began, time.monotonic(), kind, action, 0 if away else code, wrong))
        if away:
            self._over.wait(0.1)
        if away or wrong:
            raise _RoundOverError


def _wrong(action: str, kind: str, code: int, answer: Any) -> str:
    """Return the fault of an answer, empty for a right one."""
    message = str(answer.get("message", answer) if isinstance(answer, dict) else answer)
    if action == "leave":
        refused = code >= 400 and "pods.podium.dev" in message and GROUP_LABEL in message
        return "" if refused else f"the label is not guarded: {message if code >= 400 else 'accepted'}"
    if code >= 300:
        return message
    if kind == "PodGroup" and "spec" in answer and answer["spec"].get("priority") != VALUE:
        return f"the webhook has not acted: {answer['spec']}"
    return ""


def group(name: str, class_name: str = CLASS) -> dict[str, Any]:
    """Return a PodGroup with a class and without its integer."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": class_name}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def member(name: str) -> dict[str, Any]:
    """Return a pod that is a member of the group of its name; no scheduler places it on a node."""
    spec = {
        "schedulerName": "none",
        "priorityClassName": CLASS,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "example.com/none"}],
    }
    return {"metadata": {"name": name, "labels": {GROUP_LABEL: name}}, "spec": spec}


def new_class(server: Server, name: str = CLASS) -> None:
    """Make a PriorityClass of the writers' value."""
    body = {"metadata": {"name": name}, "value": VALUE}
    code, answer = server.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    assert code == 201, answer


def webhook_failures(server: Server) -> Counter[str]:
    """Return the number of failed calls of each webhook, as counted by the API server since it started."""
    code, text = server.request("GET", "/metrics")
    assert code == 200, text
    counted: Counter[str] = Counter()
    for found in _COUNTED.finditer(text):
        labels = dict(_LABEL.findall(found["labels"]))
        if found["what"] == "fail_open_count" or labels["error_type"] != "no_error":
            counted[labels["name"]] += int(float(found["value"]))
    return counted


@contextlib.contextmanager
def writing(
    server: Server, namespace: str, *, rate: float = 200, clients: int = 16, older: bool = True
) -> Iterator[Writer]:
    """Write while the block runs; `older` includes reads that need a conversion."""
    writer = Writer(server, namespace, rate, clients, older=older)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()
        sys.stderr.write(f"{writer.record}\n")
