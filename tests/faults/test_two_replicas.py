"""Two replicas behind a balancer, 200 writes a second, and the faults of an installation.

Between the API server and the replicas is a balancer that follows readiness, as endpoints do. Between the
replicas and the API server is another one, which tests can cut. Harmless events have no effect: each write
has its usual answer, and the API server has counted no failed call of a webhook.
"""

import base64
import signal
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support import controlplane_faults
from tests.support.balancer import Backend, Balancer, Link
from tests.support.faults.replicas import Fleet, fleet
from tests.support.faults.writing import (
    API,
    Record,
    Write,
    Writer,
    group,
    new_class,
    webhook_failures,
    writing,
)
from tests.support.servers import Server, exclusive, in_turn
from tests.support.webhooks.running import Running
from tools.devcluster.controlplane.releases import RELEASES

from podium.webhooks.registration import Options

pytestmark = pytest.mark.server

# The minimum number of writes before a fault, so that connections are open and warm, and after it.
FEW = 100
# An API server's timeout for a webhook that is registered without timeoutSeconds.
UNBOUNDED_SECONDS = 10
EACH = [("PodGroup", action) for action in ("create", "change", "convert", "delete")] + [
    ("Pod", action) for action in ("create", "leave", "delete")
]
SECRET = ("default", "podium-webhook-certificates")
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/podium"


@pytest.fixture(scope="module", params=in_turn(__name__))
def lonely(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server without the Workload API, for these tests only: webhooks affect a whole server."""
    with exclusive(RELEASES[request.param], workload_api=False) as server:
        new_class(server)
        yield server


@pytest.fixture(scope="module")
def network(lonely: Server) -> Iterator[Balancer]:
    """Yield the balancer between the replicas and the API server."""
    with Balancer().running() as balancer:
        balancer.add(Backend(lonely.settings.ports["kube-apiserver"]))
        yield balancer


@pytest.fixture(scope="module", params=["secret", "folder"])
def replicas(
    request: pytest.FixtureRequest,
    lonely: Server,
    network: Balancer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    """Replicas that share a Secret, or a folder."""
    folder = tmp_path_factory.mktemp("replicas")
    kubeconfig = folder / "kubeconfig"
    there = lonely.kubeconfig.read_text(encoding="utf-8")
    kubeconfig.write_text(there.replace(lonely.url, f"https://127.0.0.1:{network.port}"), encoding="utf-8")
    store: dict[str, Any] = (
        {"secret": SECRET} if request.param == "secret" else {"folder": str(folder / "ca")}
    )
    with fleet(lonely, folder, kubeconfig=str(kubeconfig), **store) as started:
        yield started


@pytest.fixture
def pair(replicas: Fleet) -> Fleet:
    """Yield two ready replicas, whatever the previous test did."""
    replicas.heal()
    return replicas


@pytest.fixture
def writer(lonely: Server, pair: Fleet) -> Iterator[Writer]:
    """Yield writers that have written for some time."""
    with writing(lonely, lonely.new_namespace()) as started:
        started.more(FEW)
        yield started


in_secret = pytest.mark.parametrize("replicas", ["secret"], indirect=True)


def finished(writer: Writer) -> Writer:
    """Wait for more writes, the last ones after the fault, and stop the writers."""
    writer.more(FEW)
    writer.stop()
    return writer


def nothing_lost(writer: Writer, pair: Fleet, *, api_server_away: bool = False) -> None:
    """Assert that each write has the right answer, and that each kind was written."""
    record = finished(writer).record
    assert not record.failures(), listed(record.failures()) + pair.log
    assert bool(record.unanswered()) == api_server_away, listed(record.unanswered())
    for done in EACH:
        assert record.done(*done) > 10, done


def refused(record: Record, kind: str) -> list[Write]:
    """Return the wrongly answered attempts to remove a member; a webhook that fails open refuses too few."""
    return [write for write in record.failures(kind) if write.code >= 300]


def late(record: Record) -> list[Write]:
    """Return the failures among the last writes, after the fault."""
    return [write for write in sorted(record.writes)[-FEW // 2 :] if write.wrong]


def listed(writes: Iterable[Write]) -> str:
    """Return writes as text."""
    return "\n".join(["", *map(str, writes)])


def leaves(fleet: Fleet) -> list[str]:
    """Return the fingerprint of the leaf that each replica has loaded last."""
    return [
        [event["leaf"] for event in replica.events if event["event"] == "certificate loaded"][-1]
        for replica in fleet.replicas
    ]


def bundle(server: Server) -> bytes:
    """Return the CAs that the API server trusts."""
    code, read = server.request("GET", CONFIGURATION)
    assert code == 200, read
    (client,) = {each["clientConfig"]["caBundle"] for each in read["webhooks"]}
    return base64.b64decode(client)


def event_count(replica: Running, event: str) -> int:
    """Return how often a replica has logged an event."""
    return sum(each["event"] == event for each in replica.events)


def until_message(replica: Running, event: str, times: int) -> None:
    """Wait until a replica has logged an event this many times."""
    replica.until(lambda: event_count(replica, event) >= times, event)


def is_made(server: Server, document: dict[str, Any]) -> bool:
    """Return whether a PodGroup is accepted now."""
    return server.request("POST", f"/apis/{API}/namespaces/default/podgroups", document)[0] == 201


def forget_certificates(server: Server, fleet: Fleet) -> None:
    """Request new certificates as an administrator does: delete the shared ones."""
    if folder := fleet.wanted.get("folder"):
        (Path(folder) / "state.json").unlink()
        return
    namespace, name = SECRET
    code, answer = server.request("DELETE", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    assert code == 200, answer


def test_a_full_rotation_costs_nothing(lonely: Server, pair: Fleet, writer: Writer) -> None:
    """A new CA, new leaves on both replicas and the old CA gone from the bundle, in a Secret and a folder."""
    counted = webhook_failures(lonely)
    # The first start keeps CAs that were registered before, until it has proven its own.
    pair.replicas[0].until(lambda: bundle(lonely).count(b"BEGIN CERTIFICATE") == 1, "one CA is trusted")
    before, served = bundle(lonely), leaves(pair)
    dropped = [event_count(replica, "authority dropped") for replica in pair.replicas]
    forget_certificates(lonely, pair)
    pair.replicas[0].until(
        lambda: (
            [event_count(replica, "authority dropped") for replica in pair.replicas] != dropped
            and bundle(lonely).count(b"BEGIN CERTIFICATE") == 1
        ),
        "the old CA is gone",
    )
    assert bundle(lonely) != before
    assert not set(leaves(pair)) & set(served)
    nothing_lost(writer, pair)
    assert webhook_failures(lonely) == counted


@in_secret
def test_a_rolling_restart_costs_nothing(lonely: Server, pair: Fleet, writer: Writer) -> None:
    """Each replica is replaced by another that is ready first; the old ones end in order."""
    counted = webhook_failures(lonely)
    for replica in list(pair.replicas):
        pair.start()
        assert pair.end(replica) == 0, replica.log
    nothing_lost(writer, pair)
    assert webhook_failures(lonely) == counted


@in_secret
def test_one_that_ends_in_order_costs_nothing(lonely: Server, pair: Fleet, writer: Writer) -> None:
    """After SIGTERM, as when a node is drained, the other replica serves on."""
    counted = webhook_failures(lonely)
    assert pair.end(pair.replicas[0]) == 0
    nothing_lost(writer, pair)
    assert webhook_failures(lonely) == counted


@in_secret
def test_a_restart_of_the_api_server_costs_no_admission(lonely: Server, pair: Fleet, writer: Writer) -> None:
    """Writes while the API server is down get no answer; every answer is right."""
    with controlplane_faults.without_api_server(lonely):
        pass
    nothing_lost(writer, pair, api_server_away=True)
    assert not webhook_failures(lonely)


@in_secret
def test_a_forgotten_past_costs_nothing(
    lonely: Server, pair: Fleet, network: Balancer, writer: Writer
) -> None:
    """Replicas that were cut off reconnect to an API server without history (410) and catch up."""
    expired = [(replica, event_count(replica, "watch expired")) for replica in pair.replicas]
    network.set(Link.CUT)
    writer.more(FEW)
    name = f"later-{len(writer.record.writes)}"
    new_class(lonely, name)
    controlplane_faults.compact(lonely)
    with controlplane_faults.without_api_server(lonely):
        pass
    network.set(Link.PASS)
    for replica, before in expired:
        until_message(replica, "watch expired", before + 1)
    # Each replica soon knows the changes made meanwhile.
    for number, replica in enumerate(pair.replicas * 5):
        later = group(f"{name}-{number}", name)
        replica.until(partial(is_made, lonely, later), f"it knows the class {name}")
    nothing_lost(writer, pair, api_server_away=True)
    assert not webhook_failures(lonely)


@in_secret
def test_one_that_is_killed_costs_what_was_under_way(lonely: Server, pair: Fleet, writer: Writer) -> None:
    """After SIGKILL at most one write of Podium's kinds a client fails, and no write of a pod."""
    pair.end(pair.replicas[0], signal.SIGKILL)
    record = finished(writer).record
    lost = record.failures("PodGroup")
    assert len(lost) <= writer.clients, listed(lost)
    assert not refused(record, "Pod"), listed(refused(record, "Pod"))
    assert not late(record), listed(late(record))


@in_secret
def test_a_hanging_webhook_delays_a_write_by_its_timeout_at_most(lonely: Server, pair: Fleet) -> None:
    """After SIGSTOP a write takes timeoutSeconds at most, pods are still created, and calls to it soon cease.

    On a busy machine a write takes seconds of its own, so the test only asserts that none took the usual 10.
    Nothing is read in v1alpha2: API servers give conversions 30 s, whatever the configuration.
    """
    hung = pair.replicas[0]
    with writing(lonely, lonely.new_namespace(), older=False) as writer:
        writer.more(FEW)
        hung.process.send_signal(signal.SIGSTOP)
        try:
            hung.until(lambda: len(pair.balancer.ready) == 1, "the balancer leaves it out")
            writer.more(3 * FEW)
            record = finished(writer).record
        finally:
            hung.process.send_signal(signal.SIGCONT)
    assert Options().timeout_seconds < record.slowest < UNBOUNDED_SECONDS
    assert not refused(record, "Pod"), listed(refused(record, "Pod"))
    assert not late(record), listed(late(record))
