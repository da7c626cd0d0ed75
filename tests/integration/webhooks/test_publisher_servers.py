"""The publisher on real API servers: registering, reading back, restoring, and leaving other fields alone."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks.recorder import send
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import PODIUM_GROUP
from podium.crds import definitions
from podium.documents.packagedata import folder
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, connect
from podium.rules.policy import Policy, RuleLevel
from podium.webhooks.publisher import BundlePublisher
from podium.webhooks.registration import CONVERT, Endpoint, Options, configurations

pytestmark = pytest.mark.server

HOOKS = "/apis/admissionregistration.k8s.io/v1"
PLACES = [
    *(
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{PODIUM_GROUP}"
        for plural in ("podgroups", "workloads")
    ),
    f"{HOOKS}/mutatingwebhookconfigurations/podium",
    f"{HOOKS}/validatingwebhookconfigurations/podium",
]
BY_URL = Endpoint(url="https://127.0.0.1:9")
BY_SERVICE = Endpoint(service=("podium-system", "podium-webhook"))
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture(scope="module", params=in_turn(__name__))
def used(request: pytest.FixtureRequest) -> Iterator[Server]:
    with exclusive(RELEASES[request.param]) as server:
        yield server


@pytest.fixture
def server(used: Server) -> Iterator[Server]:
    """Yield a server without a registration."""
    yield used
    until(lambda: all(send(used, "DELETE", place).code == 404 for place in PLACES), "everything to be gone")


@pytest_asyncio.fixture
async def connection(server: Server) -> AsyncIterator[Connection]:
    async with connect(str(server.kubeconfig), None) as opened:
        yield opened


@pytest.fixture
def bundle(server: Server) -> bytes:
    return server.access.authority.read_bytes()


def publisher(
    connection: Connection,
    endpoint: Endpoint = BY_URL,
    policy: Policy = Policy(),  # noqa: B008 - immutable
    logged: list[object] | None = None,
) -> BundlePublisher:
    seen = [] if logged is None else logged
    return BundlePublisher(
        connection, endpoint, Options(), policy, log_event=lambda event, fields: seen.append((event, fields))
    )


def read(server: Server, place: str) -> dict[str, Any]:
    answer = send(server, "GET", place)
    assert answer.code == 200, answer
    return answer.body


def edit(server: Server, place: str, manager: str, path: str, value: Any) -> None:
    patch = [{"op": "replace", "path": path, "value": value}]
    answer = send(server, "PATCH", f"{place}?fieldManager={manager}", patch, content_type=JSON_PATCH)
    assert answer.code == 200, answer


def bundles(document: dict[str, Any]) -> list[str | None]:
    if "webhooks" in document:
        return [each["clientConfig"].get("caBundle") for each in document["webhooks"]]
    webhook = document["spec"]["conversion"].get("webhook")
    return [webhook["clientConfig"].get("caBundle")] if webhook else []


async def test_by_url_everything_is_registered(server: Server, connection: Connection, bundle: bytes) -> None:
    """Both kinds are served in both versions when `publish` returns, and the read-back is exact."""
    ours = publisher(connection)
    assert not await ours.published(bundle)
    await ours.publish(bundle)
    for version in ("v1alpha2", "v1beta1"):
        assert send(server, "GET", f"/apis/{PODIUM_GROUP}/{version}").code == 200
    assert await ours.published(bundle)
    assert await publisher(connection).published(bundle)
    assert not await ours.published(bundle * 2)
    versions = [read(server, place)["metadata"]["resourceVersion"] for place in PLACES]
    await ours.publish(bundle)
    assert [read(server, place)["metadata"]["resourceVersion"] for place in PLACES] == versions
    await ours.published(bundle)
    await ours.publish(bundle * 2)
    assert await ours.published(bundle * 2)


async def test_deleted_and_edited_registrations_are_restored(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """An edit of the rules or of the caBundle is reported at the next check."""
    ours = publisher(connection)
    await ours.publish(bundle)
    other = "LS0t"
    edits = {
        "/webhooks/0/failurePolicy": "Ignore",
        "/webhooks/0/rules/0/operations": ["CREATE"],
        "/webhooks/0/clientConfig/caBundle": other,
        "/webhooks/0/timeoutSeconds": 30,
    }
    for path, value in edits.items():
        edit(server, PLACES[2], "kubectl-edit", path, value)
        assert not await ours.published(bundle)
        await ours.publish(bundle)
        assert await ours.published(bundle)
    for place in PLACES[2:]:
        assert send(server, "DELETE", place).code == 200
        assert not await ours.published(bundle)
        await ours.publish(bundle)
        assert await ours.published(bundle)


@pytest.mark.parametrize("endpoint", (BY_URL, BY_SERVICE), ids=("url", "service"))
async def test_an_old_bundle_never_replaces_a_newer_one(
    server: Server, connection: Connection, bundle: bytes, endpoint: Endpoint
) -> None:
    """A replica that read, stalled, and publishes after another one does not overwrite it."""
    if endpoint is BY_SERVICE:
        install(server)
    first, second = publisher(connection, endpoint), publisher(connection, endpoint)
    await first.publish(bundle)
    await first.published(bundle * 2)
    await second.published(bundle * 3)
    await second.publish(bundle * 3)
    with pytest.raises(RefusedError) as refused:
        await first.publish(bundle * 2)
    assert refused.value.code == 409
    assert await second.published(bundle * 3)


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [(BY_URL, PLACES[0]), (BY_SERVICE, PLACES[1]), (BY_SERVICE, PLACES[2]), (BY_URL, PLACES[3])],
    ids=("url-groups", "service-workloads", "service-mutating", "url-validating"),
)
async def test_stands_down_where_a_program_writes_the_bundle(
    server: Server, connection: Connection, bundle: bytes, endpoint: Endpoint, place: str
) -> None:
    """cert-manager's cainjector, on any of the four objects, is detected in each mode."""
    if endpoint is BY_SERVICE:
        install(server)
    ours = publisher(connection, endpoint)
    await ours.publish(bundle)
    client = "/webhooks/0" if "hook" in place else "/spec/conversion/webhook"
    other = base64.b64encode(bundle * 2).decode()
    edit(server, place, "cert-manager-cainjector", f"{client}/clientConfig/caBundle", other)
    with pytest.raises(PodiumError) as error:
        await ours.published(bundle)
    assert "podium" in str(error.value)
    assert "cert-manager-cainjector writes the caBundle, so Podium does not" in str(error.value)


def install(server: Server, *, conversion: bool = True) -> None:
    """Apply the manifests of a cluster: our Service, and no caBundle."""
    every = definitions.crds(BY_SERVICE.client(CONVERT, None) if conversion else None)
    # A kind with one version has no bundle.
    kinds = [each for each in every if len(each["spec"]["versions"]) > 1]
    for place, document in zip(
        PLACES, [*kinds, *configurations(Policy(), BY_SERVICE, Options(), None)], strict=True
    ):
        where = f"{place}?fieldManager=kubectl&force=true"
        answer = send(server, "PATCH", where, document, content_type=APPLY)
        assert answer.code in (200, 201), answer


async def test_by_service_nothing_is_made(server: Server, connection: Connection, bundle: bytes) -> None:
    """If some webhooks are missing, the existing ones get the bundle, and the error names the others."""
    ours = publisher(connection, BY_SERVICE)
    assert not await ours.published(bundle)
    with pytest.raises(PodiumError, match="not found, so no webhook is registered: apply manifests/webhooks"):
        await ours.publish(bundle)
    assert [send(server, "GET", place).code for place in PLACES] == [404] * 4
    install(server)
    send(server, "DELETE", PLACES[2])
    assert not await ours.published(bundle)
    with pytest.raises(PodiumError) as error:
        await ours.publish(bundle)
    assert [place in str(error.value) for place in PLACES] == [False, False, True, False]
    assert None not in bundles(read(server, PLACES[3]))
    assert send(server, "GET", PLACES[2]).code == 404


async def test_by_service_a_registration_for_another_policy_is_told_once(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """With `inherit` configured and the default manifests, the process reports the mismatch at once."""
    install(server)
    logged: list[Any] = []
    await publisher(connection, BY_SERVICE, logged=logged).publish(bundle)
    assert logged == []
    ours = publisher(connection, BY_SERVICE, Policy(levels={"member-priority": RuleLevel.INHERIT}), logged)
    assert await ours.published(bundle)
    assert await ours.published(bundle)
    assert [(event, fields["webhooks"]) for event, fields in logged] == [
        ("registration differs", ["MutatingWebhookConfiguration pods.podium.dev"])
    ]


async def test_by_service_only_the_bundle_is_written(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """The administrator's changes stay, and applying the shipped manifests again keeps the bundle."""
    shipped = ("apply", "--server-side", "--force-conflicts", "-f", str(folder("manifests") / "webhooks"))
    server.kubectl(*shipped)
    edit(server, PLACES[3], "kubectl-edit", "/webhooks/0/failurePolicy", "Ignore")
    before = [without_bundle(read(server, place)) for place in PLACES]
    ours = publisher(connection, BY_SERVICE)
    assert not await ours.published(bundle)
    await ours.publish(bundle)
    assert await ours.published(bundle)
    assert [without_bundle(read(server, place)) for place in PLACES] == before
    server.kubectl(*shipped)
    assert await ours.published(bundle)
    for place in PLACES:
        managers = {each["manager"] for each in read(server, place)["metadata"]["managedFields"]}
        assert "podium-webhook" in managers


async def test_by_service_what_is_not_converted_stays_so(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """Install the custom resources for a cluster without the webhook."""
    install(server, conversion=False)
    ours = publisher(connection, BY_SERVICE)
    await ours.publish(bundle)
    assert await ours.published(bundle)
    assert read(server, PLACES[0])["spec"]["conversion"] == {"strategy": "None"}


def without_bundle(document: dict[str, Any]) -> dict[str, Any]:
    """Return a registration without the fields that writing the bundle changes."""
    for name in ("managedFields", "resourceVersion", "generation"):
        del document["metadata"][name]
    document.pop("status", None)
    spec = document.get("spec", {})
    for client in (*document.get("webhooks", ()), spec.get("conversion", {}).get("webhook", {})):
        client.get("clientConfig", {}).pop("caBundle", None)
    return document
