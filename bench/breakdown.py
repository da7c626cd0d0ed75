"""Where the time of one webhook request goes: the same server with parts left out, and the parts alone.

Differences of processor time between servers that lack a part say what the part costs where it runs, among
all the others; the handler's own parts are timed in a loop, with everything they touch in the processor's
caches. Beside ours stands aiohttp's low-level server, so what an exchange of our own is worth stays known.
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

from podium.rules.target import Phase
from podium.rules.webhook import judge
from podium.service import logs
from podium.service.messages import Ask
from podium.service.metrics import new_registry
from podium.webhooks import review
from podium.webhooks.certificates import authority, leaf, new_key
from podium.webhooks.metrics import Metrics

SECONDS = 3.0
_LOOP = 2_000
_NOTE = f"""
Processor time of a request, {rig.CONNECTIONS} kept connections always busy. `canned` answers without looking
at the request; parts of the handler are timed alone, in a loop, without the rest between them.
"""


class Served(NamedTuple):
    """One way to serve: whose server, which answer, with TLS or without."""

    server: str
    answer: str
    tls: bool

    @property
    def text(self) -> str:
        """Name it."""
        return f"{self.server}, {self.answer} answer, {'TLS' if self.tls else 'no TLS'}"


_SERVED = (
    Served("ours", "canned", tls=False),
    Served("ours", "canned", tls=True),
    Served("ours", "judged", tls=True),
    Served("aiohttp", "canned", tls=True),
    Served("aiohttp", "judged", tls=True),
)


def measure() -> Section:
    """Measure it all; takes about four minutes."""
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
            rows += [
                Row(f"{kind}: {served.text}", spread(cost[1:], "µs", 0)) for served, cost in costs.items()
            ]
            rows += [Row(f"{kind}, alone: {what}", figure) for what, figure in alone(body)]
    return Section("Where a request's time goes", rows, _NOTE)


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
    read = review.decode(body, Phase.MUTATE)
    request = read.request
    assert request is not None
    known, profile = stages.Known(), stages.profile()
    verdict = judge(Phase.MUTATE, request, known.state, profile)
    metrics = Metrics(new_registry())
    log = logs.configure("json", "info")
    ask, handler = Ask("/mutate", body, deadline=float("inf"), began=0.0), stages.judged()
    parts: dict[str, Callable[[], object]] = {
        "the whole handler": lambda: handler(ask),
        "decode": lambda: review.decode(body, Phase.MUTATE),
        "rules": lambda: judge(Phase.MUTATE, request, known.state, profile),
        "encode": lambda: review.encode(read, verdict),
        "metrics": lambda: metrics.judged(read, verdict, 0.001),
        "a log call below the level": lambda: log.debug(
            "allowed", uid=read.uid, name=read.name, kind=read.kind
        ),
    }
    with rig.on(rig.REST):
        return [(what, spread(looped(work), "µs", 1)) for what, work in parts.items()]


def looped(work: Callable[[], object]) -> list[float]:
    """Give the µs of processor time of one call, for each round."""
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
