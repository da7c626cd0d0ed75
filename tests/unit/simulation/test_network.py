"""The simulated network: requests, watches and reviews arrive late, twice or never."""

import asyncio
import io
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
import structlog

from podium.api.minors import MINORS
from podium.crds.definitions import crds, records
from podium.errors import PodiumError
from podium.runtime.host import Host
from podium.simulation.apiserver.messages import ApiRequest, ApiResponse
from podium.simulation.apiserver.server import ApiServer
from podium.simulation.network import CALM, Faults, Network
from podium.simulation.world import EPOCH, Machine, World
from podium.webhooks import certificates, process
from podium.webhooks.process import Provided, WebhookSettings
from podium.webhooks.registration import Endpoint, empty_configurations

_SERVICE = ("podium-system", "podium-webhook")
_NAME = "podium-webhook.podium-system.svc"
_GROUPS = "/apis/scheduling.podium.dev/v1beta1/namespaces/team/podgroups"


@pytest.fixture(name="network")
def _network() -> Iterator[Network]:
    with World(1) as world:
        server = ApiServer(
            MINORS[38],
            lambda: world.now,
            lambda: str(UUID(int=world.random.getrandbits(128))),
            lambda: "suffix",
            conditions=lambda _webhook, _request: True,
        )
        network = Network(world, server)
        for name in ("team", "podium-system"):
            _ask(network, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        yield network


def _ask(network: Network, method: str, path: str, body: Any = None) -> ApiResponse | None:
    """Send a request of a user, and return its answer."""
    answers: list[ApiResponse | None] = []
    network.carry(ApiRequest(method, path, {}, msgspec.json.encode(body)), answers.append)
    network.world.run(network.world.seconds + 60.0)
    return answers[0]


def _run(network: Network, work: Callable[[Host], Coroutine[Any, Any, None]]) -> list[BaseException | None]:
    """Run a process for a minute, and return its end."""
    machine, ends = Machine(network.world, "m", network.connect), list[BaseException | None]()
    machine.ended = ends.append
    machine.start(work)
    network.world.run(network.world.seconds + 60.0)
    return ends


@pytest.mark.parametrize(
    ("faults", "happens"),
    [
        (CALM, True),
        (Faults(lost_request=1.0), False),
        (Faults(lost_answer=1.0), True),
        (Faults(refused=1.0), False),
    ],
    ids=["calm", "lost request", "lost answer", "refused"],
)
def test_a_write_has_the_effect_that_its_fault_leaves(
    network: Network, faults: Faults, *, happens: bool
) -> None:
    network.faults = faults
    errors = list[PodiumError]()

    async def work(host: Host) -> None:
        async with host.connect(None, None) as connection:
            try:
                body = {"metadata": {"name": "written"}}
                await connection.send("POST", "/api/v1/namespaces/team/configmaps", body, patient=False)
            except PodiumError as error:
                errors.append(error)

    assert _run(network, work) == [None]
    assert bool(errors) is (faults is not CALM)
    assert bool(network.server.store.resources["configmaps"].now) is happens


def test_a_watch_tells_each_change_and_breaks_at_a_restart(network: Network) -> None:
    kinds = list[str]()

    async def work(host: Host) -> None:
        async with host.connect(None, None) as connection:
            lines = connection.lines("/api/v1/configmaps", silence=50.0, watch="1", timeoutSeconds="40")
            try:
                async for line in lines:
                    if line:
                        kinds.append(msgspec.json.decode(line)["type"])
            except PodiumError:
                kinds.append("broken")
            await asyncio.sleep(0)

    world = network.world
    for at, name in enumerate("ab"):
        body = msgspec.json.encode({"metadata": {"name": name}})
        request = ApiRequest("POST", "/api/v1/namespaces/team/configmaps", {}, body)
        world.after(1.0 + at, partial(network.carry, request, lambda _answer: None))
    world.after(5.0, lambda: network.restart(1.0))
    assert _run(network, work) == [None]
    assert [kind for kind in kinds if kind != "BOOKMARK"] == ["ADDED", "ADDED", "broken"]


def test_the_webhook_process_registers_and_judges_in_the_simulation(network: Network, tmp_path: Path) -> None:
    """The API server calls the process by HTTP; a registration without an available Deployment fails open."""
    for definition in (*crds(), records()):
        _ask(network, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for configuration in empty_configurations():
        kind = f"{configuration['kind'].lower()}s"
        _ask(network, "POST", f"/apis/admissionregistration.k8s.io/v1/{kind}", configuration)
    start, end = EPOCH - timedelta(days=1), EPOCH + timedelta(days=1)
    authority = certificates.authority(certificates.new_key(), start, end)
    leaf = certificates.leaf(authority, certificates.new_key(), [_NAME], start, end)
    (tmp_path / "tls.crt").write_bytes(leaf.certificate)
    (tmp_path / "tls.key").write_bytes(leaf.key)
    settings = WebhookSettings(Provided(tmp_path), host_names=(_NAME,), register=Endpoint(service=_SERVICE))
    log = structlog.wrap_logger(structlog.PrintLogger(io.StringIO()))
    machine = Machine(network.world, "webhook-0", network.connect)
    machine.start(lambda host: process.run(settings, log, host))
    network.services["podium-system/podium-webhook:443"] = [machine]
    network.world.run(network.world.seconds + 60.0)

    def create(name: str, mode: str) -> ApiResponse:
        spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": {mode: {}}}
        group = {"apiVersion": "scheduling.podium.dev/v1beta1", "kind": "PodGroup"}
        answer = _ask(network, "POST", _GROUPS, {**group, "metadata": {"name": name}, "spec": spec})
        assert answer is not None
        return answer

    judged, refused = create("judged", "all"), create("refused", "none")
    machine.kill()
    unjudged = create("unjudged", "all")
    assert [answer.code for answer in (judged, refused, unjudged)] == [201, 422, 201]
    assert b'"priority":0' in judged.body
    assert b"must specify one of" in refused.body
    assert b'"priority":0' not in unjudged.body
