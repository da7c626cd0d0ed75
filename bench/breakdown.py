"""The parts of the time of one webhook request: the same server with parts left out, and the parts alone.

The difference in processor time between servers without a part and with it is its cost in place. The
handler's own parts are timed in a loop, with all their memory in the processor's caches. aiohttp's low-level
server is timed too, to measure the gain of our own server.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from bench import reviews, rig, stages
from bench.results import ROUNDS, Row, Section, spread

from podium.rules.podiumrule import AdmissionPhase
from podium.rules.webhook import review_phase
from podium.runtime import logs
from podium.runtime.messages import HTTPRequest
from podium.runtime.metrics import new_registry
from podium.webhooks import review
from podium.webhooks.certificates import authority, leaf, new_key
from podium.webhooks.metrics import WebhookMetrics

SECONDS = 3.0
_LOOP = 2_000
_NOTE = f"""
Processor time of a request on one processor, {rig.CONNECTIONS} kept connections always busy: of the whole,
and what is more or less of it in servers that lack a part. `alone`: in a loop with nothing between, so with
everything in the processor's caches.
"""


class Served(NamedTuple):
    """A way to serve: the server, the answer, with TLS or without."""

    server: str
    answer: str
    tls: bool


_PLAIN = Served("ours", "canned", tls=False)
_EMPTY = Served("ours", "canned", tls=True)
_WHOLE = Served("ours", "judged", tls=True)
_THEIRS_EMPTY = Served("aiohttp", "canned", tls=True)
_THEIRS = Served("aiohttp", "judged", tls=True)
_SERVED = (_PLAIN, _EMPTY, _WHOLE, _THEIRS_EMPTY, _THEIRS)


def measure() -> Section:
    """Measure all parts; takes about four minutes."""
    rig.programs()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        certify(folder)
        rows: list[Row] = []
        targets = [(served, stack.enter_context(serving(served, folder))) for served in _SERVED]
        for kind, body in (("pod", reviews.pod_review()), ("PodGroup", reviews.group_review())):
            sent = folder / f"{kind}.json"
            sent.write_bytes(body)
            costs: dict[Served, list[float]] = {served: [] for served in _SERVED}
            for _ in range(ROUNDS + 1):
                for served, target in targets:
                    ca = folder / "ca.crt" if served.tls else None
                    costs[served].append(rig.timed(target, sent, ca, seconds=SECONDS).cost * 1e6)
            rows += rows_of(kind, {served: cost[1:] for served, cost in costs.items()})
            rows += [Row(f"{kind}, alone: {label}", figure) for label, figure in alone(body)]
    return Section("Where a request's time goes", rows, _NOTE)


def rows_of(kind: str, costs: dict[Served, list[float]]) -> list[Row]:
    """Return the rows of one kind of request; differences and ratios are taken round by round."""

    def less(left: Served, right: Served) -> list[float]:
        return [a - b for a, b in zip(costs[left], costs[right], strict=True)]

    ratios = [a / b for a, b in zip(costs[_THEIRS], costs[_WHOLE], strict=True)]
    return [
        Row(f"{kind}, all of it", spread(costs[_WHOLE], "µs", 0)),
        Row(f"{kind}: sockets and HTTP", spread(costs[_PLAIN], "µs", 0)),
        Row(f"{kind}: TLS", spread(less(_EMPTY, _PLAIN), "µs", 0)),
        Row(f"{kind}: Podium's handler", spread(less(_WHOLE, _EMPTY), "µs", 0)),
        Row(f"{kind}, on aiohttp's server, all of it", spread(costs[_THEIRS], "µs", 0)),
        Row(f"{kind}, on aiohttp's server: sockets, HTTP and TLS", spread(costs[_THEIRS_EMPTY], "µs", 0)),
        Row(f"{kind}, on aiohttp's server / on ours, all of it", spread(ratios, "x")),
    ]


@contextlib.contextmanager
def serving(served: Served, folder: Path) -> Iterator[rig.Target]:
    """Run one server on its processor."""
    argv = [sys.executable, "-m", "bench.stages", served.server, served.answer]
    argv += [str(folder / "tls.crt"), str(folder / "tls.key")] if served.tls else []
    with rig.on(rig.SERVER):
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        try:
            yield rig.Target(int(process.stdout.readline()), process.pid)
        finally:
            process.kill()


def alone(body: bytes) -> list[tuple[str, str]]:
    """Time the handler and its parts in this process."""
    read = review.decode(body, AdmissionPhase.MUTATE)
    request = read.request
    assert request is not None
    known, profile = stages.Known(), stages.profile()
    verdict = review_phase(AdmissionPhase.MUTATE, request, known.state, profile)
    metrics = WebhookMetrics(new_registry())
    log = logs.configure("json", "info")
    sent, handler = HTTPRequest("/mutate", body, deadline=float("inf"), began=0.0), stages.judged()
    parts: dict[str, Callable[[], object]] = {
        "the whole handler": lambda: handler(sent),
        "decode": lambda: review.decode(body, AdmissionPhase.MUTATE),
        "rules": lambda: review_phase(AdmissionPhase.MUTATE, request, known.state, profile),
        "encode": lambda: review.encode(read, verdict),
        "metrics": lambda: metrics.judged(read, verdict, 0.001),
        "a log call below the level": lambda: log.debug(
            "allowed", uid=read.uid, name=read.name, kind=read.kind
        ),
    }
    with rig.on(rig.REST):
        return [(label, spread(looped(work), "µs", 1)) for label, work in parts.items()]


def looped(work: Callable[[], object]) -> list[float]:
    """Return the µs of processor time of one call, for each round."""
    times = []
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        for _ in range(_LOOP):
            work()
        times.append((time.process_time() - start) / _LOOP * 1e6)
    return times[1:]


def certify(folder: Path) -> None:
    """Write a CA and a pair for this machine."""
    start = datetime.now(UTC)
    end = start + timedelta(days=1)
    ca = authority(new_key(), start, end)
    pair = leaf(ca, new_key(), ["127.0.0.1"], start, end)
    for name, content in (("ca.crt", ca.certificate), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_bytes(content)
