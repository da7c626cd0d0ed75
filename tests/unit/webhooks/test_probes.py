"""The probes, metrics and logs of a process, and the signals that stop it."""

import asyncio
import io
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from tests.support.webhooks.client import Answer, restored_logs, serving

from podium.api.quantity import parse
from podium.kube.reading import ObjectIdentity, Undecodable
from podium.runtime import health, logs
from podium.runtime.health import LIMITS, MOST_NAMED, Probes
from podium.runtime.metrics import ScrapedMetric, new_registry, read_cluster
from podium.runtime.signals import stopping
from podium.webhooks.metrics import WebhookMetrics


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    with restored_logs():
        yield


UNDECODABLE = {
    "pods": [
        Undecodable(ObjectIdentity(namespace="team", name=f"p{n}", uid="u"), "why") for n in range(MOST_NAMED)
    ],
    "nodes": [Undecodable(ObjectIdentity(name="n1", uid="u"), "why")],
}


def get(
    missing: list[str],
    path: str,
    registry: CollectorRegistry | None = None,
    accept: str = "*/*",
    stuck: str = "",
) -> Answer:
    """GET from the plain port of a process."""
    probes = Probes(lambda: missing, registry or CollectorRegistry(), lambda: UNDECODABLE, lambda: stuck)
    routes = probes.routes()
    with serving(routes, LIMITS, tls=False) as served, served.peer() as peer:
        return peer.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n".encode())


@pytest.mark.parametrize(
    ("missing", "path", "status", "body"),
    [
        pytest.param([], "/livez", 200, b"ok\n", id="alive"),
        pytest.param(["lists"], "/livez", 200, b"ok\n", id="alive though not ready"),
        pytest.param([], "/readyz?verbose", 200, b"ok\n", id="ready"),
        pytest.param(
            ["lists", "draining"], "/readyz", 503, b"not ready: lists\nnot ready: draining\n", id="not"
        ),
        pytest.param([], "/startupz", 200, b"ok\n", id="started"),
        pytest.param([], "/healthz", 404, b"Not Found\n", id="nothing else"),
    ],
)
def test_probes(missing: list[str], path: str, status: int, body: bytes) -> None:
    answer = get(missing, path)
    assert (answer.status, answer.body) == (status, body)


def test_a_start_is_over_when_the_process_is_ready() -> None:
    """The probe waits, because the kubelet records a warning for each one that fails."""
    missing, looks = ["lists"], []

    def look() -> list[str]:
        looks.append(1)
        return missing if len(looks) < 3 else []

    probes = Probes(look, CollectorRegistry(), lambda: UNDECODABLE, lambda: "")
    with serving(probes.routes(), LIMITS, tls=False) as served, served.peer() as peer:
        answer = peer.ask(b"GET /startupz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (answer.status, len(looks)) == (200, 3)


def test_a_start_that_lasts_is_left_to_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an API server does not answer, a restart would not help."""
    monkeypatch.setattr(health, "START_SECONDS", 0.3)
    assert get(["lists"], "/startupz").status == 200
    assert get(["lists"], "/startupz", stuck="busy for ever").status == 500
    assert get(["lists"], "/readyz").status == 503


def test_a_process_with_a_stuck_thread_is_not_alive() -> None:
    """The kubelet restarts it, and the answer has the reason."""
    answer = get([], "/livez", stuck="busy for ever")
    assert (answer.status, answer.body) == (500, b"busy for ever\n")


def test_objects_that_cannot_be_decoded_are_named() -> None:
    """The number is a hundred at most."""
    answer = get([], "/undecodable")
    assert answer.headers["Content-Type"] == "application/json"
    named = json.loads(answer.body)
    assert named[:2] == [
        {"resource": "nodes", "namespace": "", "name": "n1", "error": "why"},
        {"resource": "pods", "namespace": "team", "name": "p0", "error": "why"},
    ]
    assert len(named) == MOST_NAMED


class _Cluster:
    observer_errors = 2
    longest_callback = 0.25

    def ages(self) -> dict[str, float]:
        return {"podgroups.scheduling.podium.dev": 1.5}

    def undecodable(self) -> dict[str, list[str]]:
        return {"pods": ["a"]}

    def undecodable_reads(self) -> dict[str, int]:
        return {"pods": 3}


def registry_with_all() -> CollectorRegistry:
    registry = new_registry()
    read_cluster(registry, _Cluster())
    metrics = WebhookMetrics(registry)
    metrics.read(
        in_flight=lambda: 3,
        expiries=lambda: {"serving": 1_800_000_000.0},
    )
    metrics.count_refusal("waiting")
    metrics.count_refusal("review")
    metrics.converted(0.01)
    return registry


def test_metrics_are_read_when_they_are_asked_for() -> None:
    answer = get([], "/metrics", registry_with_all())
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
    assert found["podium_admission_in_flight",] == 3
    assert found["podium_cache_age_seconds", "podgroups.scheduling.podium.dev"] == 1.5
    assert found["podium_undecodable_objects", "pods"] == 1
    assert found["podium_undecodable_reads_total", "pods"] == 3
    assert found["podium_observer_errors_total",] == 2
    assert found["podium_longest_callback_seconds",] == 0.25
    assert found["podium_certificate_expiry_timestamp_seconds", "serving"] == 1_800_000_000
    assert found["podium_admission_shed_total", "waiting"] == 1
    assert found["podium_admission_errors_total", "review"] == 1
    assert found["podium_conversion_duration_seconds_count",] == 1
    assert found["process_resident_memory_bytes",] > 0
    assert not [name for name, *_ in found if name.endswith("_created")]


def test_open_metrics_is_served_on_request() -> None:
    answer = get([], "/metrics", registry_with_all(), "application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


def test_a_reading_that_fails_is_not_silent() -> None:
    """The scrape is 500: a missing metric would look like a process without problems."""

    def unreadable() -> dict[tuple[str, ...], float]:
        raise OSError("gone")

    registry = CollectorRegistry()
    Counter("fine", "Fine.", registry=registry)
    registry.register(ScrapedMetric("broken", "Broken.", ("label",), unreadable))
    assert get([], "/metrics", registry).status == 500


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_of_json_for_each_event() -> None:
    """Time, level and event come first; an exception is one string, whatever bytes it contains."""
    stream = io.StringIO()
    log = logs.configure("json", "info", stream)
    log.debug("unseen")
    log.info("seen", zone=1, area="\ud800\n")
    log.error("failed", exc_info=LookupError("why"))
    seen, failed = lines(stream)
    assert list(seen) == ["time", "level", "event", "zone", "area"]
    assert (seen["level"], seen["event"], seen["area"]) == ("info", "seen", "\ud800\n")
    assert seen["time"].endswith("Z")
    assert failed["exception"] == "LookupError: why"


def test_lines_for_a_terminal() -> None:
    stream = io.StringIO()
    logs.configure("text", "info", stream).info("serving", port=9443)
    (line,) = stream.getvalue().splitlines()
    assert "serving" in line
    assert line.endswith("port=9443")
    assert "\x1b" not in line


@pytest.mark.parametrize("level", ["debug", "info"])
def test_libraries_speak_the_same_way_when_it_matters(level: str) -> None:
    """They log nothing below a warning: kubernetes_asyncio would write the bodies of responses."""
    stream = io.StringIO()
    logs.configure("json", level, stream)
    library = logging.getLogger("kubernetes_asyncio.client.rest")
    library.debug("response body: %s", "secret")
    library.info("too much")
    library.warning("odd: %s", "%d")
    library.error("worse", exc_info=LookupError("why"))
    odd, worse = lines(stream)
    assert (odd["level"], odd["event"], odd["logger"]) == ("warning", "odd: %d", library.name)
    assert (worse["level"], worse["error"]) == ("error", "LookupError: why")


def _of_a_library() -> None:
    json.loads("{")


def _of_ours() -> None:
    try:
        parse("many")
    except ValueError as error:
        raise LookupError("nothing\nfound") from error


@pytest.mark.parametrize("style", ["json", "text"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("fails, expected", [(_of_a_library, []), (_of_ours, ["in parse", "many"])])
def test_an_unhandled_error_is_one_line(
    fails: Callable[[], None], expected: list[str], loop: str, style: logs.Format
) -> None:
    """A line has a traceback if our code is in it."""

    async def work() -> None:
        asyncio.get_running_loop().call_soon(fails)
        await asyncio.sleep(0)

    stream = io.StringIO()
    logs.configure(style, "info", stream)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(work())
    (line,) = stream.getvalue().splitlines()
    assert "Exception in callback" in line
    assert ("Traceback" in line) == bool(expected)
    for each in expected or ["JSONDecodeError: Expecting property name"]:
        assert each in line


@pytest.mark.parametrize("handlers", [True, False], ids=["on the loop", "of Python, as on Windows"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_ask_and_then_insist(
    number: signal.Signals, handlers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    if not handlers:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", refuse)
    before = signal.getsignal(number)
    with stopping() as stop:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.asked.wait(), 10)
        assert not stop.insisted.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.insisted.wait(), 10)
    assert signal.getsignal(number) in (before, signal.SIG_DFL, signal.default_int_handler)
