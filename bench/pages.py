"""`podium ui` on a large cluster: the time of each page, and the memory of the process.

The cluster is full, and its groups of high priority wait, so every group page needs a plan.
"""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from bench import cluster
from bench.commands import PODIUM
from bench.results import Row, Section, spread

ROUNDS = 3
# The number of pods that fit on a node of bench.cluster: an accelerator each.
_A_NODE = 8
_LOW, _HIGH = "research-low", "production"
_NOTE = """
{nodes:,} nodes, {pods:,} pods and {groups:,} groups, {waiting:,} of which wait, in a file as kubectl writes
it. Pages are asked for in this order; but for the link the seconds are the processor's, of the process that
serves them. {rounds} rounds, each with a process of its own.
"""


class Size(NamedTuple):
    """The number of full nodes, of running groups, of waiting groups, and of pods in each."""

    nodes: int = 5_000
    running: int = 500
    waiting: int = 300
    waiting_pods: int = 34


# The requests in turn, and the page that each shows.
PAGES = {
    "the first overview": "/",
    "a further one": "/?state=waiting",
    "the page of a group that waits, with the first plan": "/group?name=team/wait-0",
    "of another, with a further plan": "/group?name=team/wait-1",
    "the page of a group that runs": "/group?name=team/run-0",
    "divergences": "/divergences",
    "what would evict it": "/threats?name=team/run-0",
}


class Visit(NamedTuple):
    """Seconds until the link was printed, processor seconds by page, peak resident MiB."""

    link: float
    pages: dict[str, float]
    peak: float


def measure() -> Section:
    """Measure it; takes about a minute."""
    size = Size()
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "cluster.json"
        write(dump, size)
        visits = [visit(dump) for _ in range(ROUNDS)]
    rows = [
        Row("from the start to the link", spread([visited.link for visited in visits], "s", 1)),
        *(Row(page, spread([visited.pages[page] for visited in visits], "s")) for page in PAGES),
        Row("peak resident memory", spread([visited.peak for visited in visits], "MiB", 0)),
    ]
    note = _NOTE.format(
        nodes=size.nodes,
        pods=size.nodes * _A_NODE + size.waiting * size.waiting_pods,
        groups=size.running + size.waiting,
        waiting=size.waiting,
        rounds=ROUNDS,
    )
    return Section("Pages", rows, note)


def write(path: Path, size: Size) -> None:
    """Write the cluster as a List."""
    items = ",\n".join(_items(size))
    path.write_text(f'{{"apiVersion": "v1", "kind": "List", "items": [\n{items}\n]}}\n', encoding="utf-8")


def visit(dump: Path) -> Visit:
    """Serve the dump and request every page."""
    began = time.perf_counter()
    with subprocess.Popen([PODIUM, "ui", "-f", str(dump)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = urlsplit(process.stdout.readline().strip())
            ready = time.perf_counter() - began
            return Visit(ready, _pages(link, process.pid), _peak(process.pid))
        finally:
            process.send_signal(signal.SIGINT)


def _pages(link: SplitResult, process: int) -> dict[str, float]:
    assert link.hostname is not None
    with closing(http.client.HTTPConnection(link.hostname, link.port)) as server:
        cookie = _get(server, f"/?{link.query}").getheader("Set-Cookie") or ""
        pages = {}
        for page, target in PAGES.items():
            before = _processor_seconds(process)
            _get(server, target, cookie.partition(";")[0])
            pages[page] = _processor_seconds(process) - before
    return pages


def _get(server: http.client.HTTPConnection, target: str, cookie: str = "") -> http.client.HTTPResponse:
    server.request("GET", target, headers={"Cookie": cookie})
    answer = server.getresponse()
    answer.read()
    assert answer.status == 200, f"{target}: {answer.status}"
    return answer


def _processor_seconds(process: int) -> float:
    # The name may contain spaces; user and system time are fields 14 and 15 after it.
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _items(size: Size) -> Iterator[str]:
    for name, value in cluster.CLASSES.items():
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        yield json.dumps({**made, "value": value})
    node, group, pod, waiting = map(
        json.dumps, (cluster.node_document(), cluster.group_document(), cluster.pod_document(), _waiting())
    )
    for index in range(size.nodes):
        yield node.replace("@node@", f"node-{index}")
    for index in range(size.running):
        yield _filled(group, _LOW, group=f"run-{index}")
    for index in range(size.nodes * _A_NODE):
        gang, place = f"run-{index % size.running}", f"node-{index // _A_NODE}"
        yield _filled(pod, _LOW, group=gang, pod=f"{gang}-{index}", node=place)
    for index in range(size.waiting):
        gang = f"wait-{index}"
        yield _filled(group, _HIGH, group=gang)
        for member in range(size.waiting_pods):
            yield _filled(waiting, _HIGH, group=gang, pod=f"{gang}-{member}")


def _waiting() -> Any:
    """Return a pending member with holes; the claim that it names does not exist."""
    pod = cluster.pod_document()
    del pod["spec"]["nodeName"], pod["spec"]["volumes"]
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no place"}
    return {**pod, "status": {"phase": "Pending", "conditions": [why]}}


def _filled(text: str, class_name: str, **holes: str) -> str:
    filled = text.replace("-31337", str(cluster.CLASSES[class_name]))
    for hole, name in {"class": class_name, "ns": "team", "uid": holes.get("pod", ""), **holes}.items():
        filled = filled.replace(f"@{hole}@", name)
    return filled
