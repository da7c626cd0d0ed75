"""`podium webhook` compared with the same webhook in Go: throughput, latency, memory, on one processor.

Podium runs as users start it, against a real API server with 10,000 groups. So its rules, metrics, limits,
logs and informers are timed. The peer (bench/golang/peer) gets the same certificate and requests, and the
classes and groups that it needs. It must give the same answers before it is timed.
"""

import base64
import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import reviews, rig
from bench.results import ROUNDS, Row, Section, spread
from tests.support.servers import Server, exclusive
from tests.support.webhooks.running import Running, running
from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.releases import NEWEST
from tools.devcluster.controlplane.state import load as load_cluster

from podium.errors import PodiumError

GROUPS = 10_000
RATE = 500
SECONDS = 5.0
# The idle time of a process before its memory is read.
_REST_SECONDS = 3.0
_WRITERS = 4
_GROUPS_PATH = f"/apis/{reviews.API}/namespaces/{reviews.NAMESPACE}/podgroups"
_NOTE = f"""
{rig.CONNECTIONS} kept connections, TLS 1.3, server pinned to one processor (GOMAXPROCS=1 for Go), load and
everything else on another; {GROUPS:,} PodGroups cached by Podium. Throughput: each connection always busy,
{SECONDS:.0f} s. Latency: {RATE} requests a second at random times (Poisson), counted from the intended time.
Processor time is the server's own, for a request: other programs disturb it least.
"""


def measure() -> Section:
    """Measure all cases; takes about eight minutes."""
    programs = rig.programs()
    with tempfile.TemporaryDirectory() as name, exclusive(NEWEST, workload_api=False) as server:
        folder = Path(name)
        set_up(server)
        with podium(server, folder / "empty", rig.SERVER) as webhook:
            empty = idle(webhook)
            fill(server)
            grown = idle(webhook)
        for component in _components(server):
            rig.move(component, rig.REST)
        with podium(server, folder / "full", rig.SERVER) as webhook, peer(programs, folder) as reference:
            full = idle(webhook)
            ours = rig.Target(webhook.port, webhook.pid)
            rows = beside(ours, reference, folder, webhook.folder / "certificates" / "ca.crt")
            loaded = idle(webhook)
            memory = {
                "Podium, idle, no groups": empty,
                f"Podium, idle, {GROUPS:,} groups": full,
                f"Podium, idle, {GROUPS:,} groups, which came while it ran": grown,
                f"Podium, after the load above, {GROUPS:,} groups": loaded,
                "Go, after the load above, one group": rig.resident(reference.pid),
            }
    rows += [Row(f"{label}, resident", f"{size:,.0f} MiB") for label, size in memory.items()]
    return Section("Admission webhook", rows, _NOTE)


def set_up(server: Server) -> None:
    """Create the class and the namespace."""
    for path, document in (
        ("/apis/scheduling.k8s.io/v1/priorityclasses", reviews.priority_class()),
        ("/api/v1/namespaces", {"metadata": {"name": reviews.NAMESPACE}}),
    ):
        created(server.request("POST", path, document))


@contextlib.contextmanager
def podium(server: Server, folder: Path, processor: int | None = None) -> Iterator[Running]:
    """Run `podium webhook`, on one processor if it is named, until it is ready."""
    policy = folder.with_suffix(".json")
    document = {"apiVersion": "config.podium.dev/v1", "kind": "AdmissionPolicy", "levels": reviews.LEVELS}
    policy.write_text(json.dumps(document), encoding="utf-8")
    with contextlib.ExitStack() as stack:
        with rig.on(processor) if processor is not None else contextlib.nullcontext():
            started = stack.enter_context(running(server, folder, f"--config={policy}"))
        yield started


@contextlib.contextmanager
def peer(programs: Path, folder: Path) -> Iterator[rig.Target]:
    """Run the webhook in Go on the same processor, with the certificate in `folder`/full."""
    state = folder / "state.json"
    group = {"priorityClassName": reviews.CLASS, "priority": reviews.VALUE}
    held = {
        "classes": {reviews.CLASS: {"value": reviews.VALUE, "preemptionPolicy": "PreemptLowerPriority"}},
        "groups": {f"{reviews.NAMESPACE}/{reviews.GROUP}": group},
    }
    state.write_text(json.dumps(held), encoding="utf-8")
    pair = folder / "full" / "certificates"
    argv = [str(programs / "peer"), "-cert", str(pair / "tls.crt"), "-key", str(pair / "tls.key")]
    with rig.on(rig.SERVER):
        process = subprocess.Popen(
            [*argv, "-state", str(state)],
            env={**os.environ, "GOMAXPROCS": "1"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.stderr is not None
    with process:
        try:
            line = process.stderr.readline()
            if '"serving"' not in line:
                raise PodiumError(f"the peer does not serve: {line.strip()}")
            yield rig.Target(json.loads(line)["port"], process.pid)
        finally:
            process.terminate()


def beside(ours: rig.Target, reference: rig.Target, folder: Path, authority: Path) -> list[Row]:
    """Time both with both kinds of request, in turns."""
    rows: list[Row] = []
    for kind, body in (("pod", reviews.pod_review()), ("PodGroup", reviews.group_review())):
        review = folder / f"{kind}.json"
        review.write_bytes(body)
        same(ours, reference, body, authority)
        runs: dict[str, list[tuple[rig.Timing, rig.Timing]]] = {"Podium": [], "Go": []}
        for _ in range(ROUNDS + 1):
            for name, target in (("Podium", ours), ("Go", reference)):
                most = rig.timed(target, review, authority, seconds=SECONDS)
                steady = rig.timed(target, review, authority, seconds=SECONDS, rate=RATE)
                runs[name].append((most, steady))
        rows += compared(f"{kind} of {len(body) / 1000:.1f} KB", {k: v[1:] for k, v in runs.items()})
    return rows


def compared(label: str, runs: dict[str, list[tuple[rig.Timing, rig.Timing]]]) -> list[Row]:
    """Return the rows of one kind of request."""
    rows = []
    for name, pairs in runs.items():
        rates = [most.answers.rate for most, _ in pairs]
        rows.append(Row(f"{label}, {name}, throughput", spread(rates, "requests/s", 0)))
    ratios = [a.answers.rate / b.answers.rate for (a, _), (b, _) in zip(*runs.values(), strict=True)]
    rows.append(Row(f"{label}, Podium / Go, throughput, pair by pair", spread(ratios, "x")))
    for name, pairs in runs.items():
        costs = [most.cost * 1e6 for most, _ in pairs]
        rows.append(Row(f"{label}, {name}, processor time", spread(costs, "µs", 0)))
    for name, pairs in runs.items():
        for quantile in ("p50", "p99"):
            times = [steady.answers.quantiles[quantile] * 1e3 for _, steady in pairs]
            rows.append(Row(f"{label}, {name}, {quantile} at {RATE} a second", spread(times, "ms")))
    return rows


def same(ours: rig.Target, reference: rig.Target, body: bytes, authority: Path) -> None:
    """Check that both answer alike.

    Raises PodiumError if not.
    """
    answers = [answer(target, body, authority) for target in (ours, reference)]
    if answers[0] != answers[1]:
        raise PodiumError(f"Podium answers {answers[0]}, the peer {answers[1]}: they cannot be compared")
    if not answers[0][0] or not answers[0][1]:
        raise PodiumError(f"the request is to be allowed with a patch, not {answers[0]}")


def answer(target: rig.Target, body: bytes, authority: Path) -> tuple[bool, Any]:
    """Send one request; return whether it is allowed, and the patch."""
    with contextlib.closing(Client(f"https://127.0.0.1:{target.port}", "", authority)) as client:
        code, review = client.request("POST", "/mutate?timeout=3s", body)
    if code != 200:
        raise PodiumError(f"HTTP {code}: {review}")
    response = review["response"]
    return response["allowed"], json.loads(base64.b64decode(response.get("patch", "bnVsbA==")))


def fill(server: Server) -> None:
    """Create the groups, as a user applies them; the running webhook reviews each."""
    names = [reviews.GROUP, *(f"group-{index:05d}" for index in range(1, GROUPS))]

    def write(share: list[str]) -> None:
        with contextlib.closing(server.access.client()) as client:
            for name in share:
                created(client.request("POST", _GROUPS_PATH, reviews.applied(reviews.pod_group(name))))

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(write, [names[index::_WRITERS] for index in range(_WRITERS)]))


def idle(webhook: Running) -> float:
    """Return the resident MiB of a process after an idle time."""
    time.sleep(_REST_SECONDS)
    return rig.resident(webhook.pid)


def _components(server: Server) -> list[int]:
    cluster = load_cluster(server.folder)
    assert cluster is not None
    return [running.process.pid for running in cluster.components.values()]


def created(answer: tuple[int, Any]) -> None:
    """Check that an object was created.

    Raises PodiumError with the answer if not.
    """
    if answer[0] != 201:
        raise PodiumError(f"HTTP {answer[0]}: {answer[1]}")
