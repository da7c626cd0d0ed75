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
from podium.documents.files import folder
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, connect
from podium.rules.podiumrules import OWN_RULES
from podium.rules.policy import Policy, RuleLevel
from podium.webhooks.publisher import BundlePublisher
from podium.webhooks.registration import CONVERT, Endpoint, Options, empty_configurations

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
OFF = {rule.cause.rule.id: RuleLevel.OFF for rule in OWN_RULES}


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
) -> BundlePublisher:
    return BundlePublisher(connection, endpoint, Options(), policy, log_event=lambda _event, _fields: None)


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
    await restore(first, bundle)
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
    """Apply the manifests of a cluster: our Service, no caBundle and no webhooks."""
    every = definitions.crds(BY_SERVICE.client(CONVERT, None) if conversion else None)
    # A kind with one version has no bundle.
    kinds = [each for each in every if len(each["spec"]["versions"]) > 1]
    for place, document in zip(PLACES, [*kinds, *empty_configurations()], strict=True):
        where = f"{place}?fieldManager=kubectl&force=false"
        answer = send(server, "PATCH", where, document, content_type=APPLY)
        assert answer.code in (200, 201), answer


def registered(server: Server) -> dict[str, list[str]]:
    """Return the failure policies by the names of the registered webhooks, in order."""
    found: dict[str, list[str]] = {}
    for place in PLACES[2:]:
        for each in read(server, place).get("webhooks", ()):
            found.setdefault(each["name"], []).append(each["failurePolicy"])
    return found


async def test_by_service_nothing_is_made(server: Server, connection: Connection, bundle: bytes) -> None:
    """If some objects are missing, the existing ones are written, and the error names the others."""
    ours = publisher(connection, BY_SERVICE)
    assert not await ours.published(bundle)
    with pytest.raises(PodiumError, match="not found, so no webhook is registered: apply Podium's manifests"):
        await ours.publish(bundle)
    assert [send(server, "GET", place).code for place in PLACES] == [404] * 4
    install(server)
    send(server, "DELETE", PLACES[2])
    assert not await ours.published(bundle)
    with pytest.raises(PodiumError) as error:
        await ours.publish(bundle)
    assert [place in str(error.value) for place in PLACES] == [False, False, True, False]
    assert bundles(read(server, PLACES[3])) == [base64.b64encode(bundle).decode()] * 3
    assert send(server, "GET", PLACES[2]).code == 404


async def test_by_service_the_registration_is_open_first(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """It fails closed once API servers have the bundle, stays so, and follows the options and the policy."""
    install(server)
    ours = publisher(connection, BY_SERVICE)
    assert not await ours.published(bundle)
    await ours.publish(bundle)
    assert {policy for each in registered(server).values() for policy in each} == {"Ignore"}
    assert not await ours.published(bundle)
    await ours.publish(bundle)
    assert await ours.published(bundle)
    assert registered(server)["groups.podium.dev"] == ["Fail", "Fail"]
    assert set(registered(server)["pods.podium.dev"]) == {"Ignore"}
    # A certificate is renewed, and the next version has another policy.
    next_policy = Policy(levels=OFF, native=OFF, reserved_nodes=False)
    after = publisher(connection, BY_SERVICE, next_policy)
    assert not await after.published(bundle * 2)
    await after.publish(bundle * 2)
    assert await after.published(bundle * 2)
    assert "pods.podium.dev" not in registered(server)
    assert registered(server)["groups.podium.dev"] == ["Fail", "Fail"]


async def test_by_service_edits_are_repaired_and_other_webhooks_stay(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """An edited, a widened, a removed and a foreign webhook; `kubectl replace` of the manifests."""
    install(server)
    ours = publisher(connection, BY_SERVICE)
    await ours.publish(bundle)
    await restore(ours, bundle)
    before = read(server, PLACES[3])["webhooks"]
    foreign = {**before[0], "name": "audit.example.com", "failurePolicy": "Ignore"}
    changes = {
        "a rule": [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["CREATE"]}],
        "a selector": [
            {"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}}
        ],
        "namespaces": [
            {"op": "add", "path": "/webhooks/0/namespaceSelector", "value": {"matchLabels": {"a": "b"}}}
        ],
        "one": [{"op": "remove", "path": "/webhooks/1"}],
        "all": [{"op": "remove", "path": "/webhooks"}],
    }
    for what, patch in changes.items():
        where = f"{PLACES[3]}?fieldManager=kubectl-edit"
        assert send(server, "PATCH", where, patch, content_type=JSON_PATCH).code == 200, what
        assert not await ours.published(bundle), what
        await restore(ours, bundle)
        assert read(server, PLACES[3])["webhooks"] == before, what
    added = [{"op": "add", "path": "/webhooks/0", "value": foreign}]
    by_hand = f"{PLACES[3]}?fieldManager=kubectl-edit"
    assert send(server, "PATCH", by_hand, added, content_type=JSON_PATCH).code == 200
    assert await ours.published(bundle)
    removed = [{"op": "remove", "path": "/webhooks/1"}]
    assert send(server, "PATCH", by_hand, removed, content_type=JSON_PATCH).code == 200
    await restore(ours, bundle)
    assert [each["name"] for each in read(server, PLACES[3])["webhooks"]] == [
        "audit.example.com",
        *(each["name"] for each in before),
    ]
    kubectl_replace = (
        "replace",
        "-f",
        str(folder("manifests") / "chart" / "files" / "webhooks" / "configurations.yaml"),
    )
    server.kubectl(*kubectl_replace)
    assert registered(server) == {}
    await restore(ours, bundle)
    assert read(server, PLACES[3])["webhooks"] == before


async def restore(ours: BundlePublisher, bundle: bytes | None) -> None:
    """Publish until the registration is final, as the rotator does."""
    for _ in range(3):
        if await ours.published(bundle):
            return
        await ours.publish(bundle)
    raise AssertionError("the registration is not final")


async def test_by_service_applying_the_manifests_again_changes_nothing(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """There is no conflict without force, and every manager owns its own fields."""
    shipped = ("apply", "--server-side", "-f", str(folder("manifests") / "chart" / "files" / "webhooks"))
    server.kubectl(*shipped)
    ours = publisher(connection, BY_SERVICE)
    await restore(ours, bundle)
    versions = [read(server, place)["metadata"]["generation"] for place in PLACES]
    server.kubectl(*shipped)
    assert [read(server, place)["metadata"]["generation"] for place in PLACES] == versions
    assert await ours.published(bundle)
    for place in PLACES:
        fields = {
            each["manager"]: str(each["fieldsV1"])
            for each in read(server, place)["metadata"]["managedFields"]
            if "subresource" not in each
        }
        assert ("f:webhooks" in fields["podium-webhook"]) == ("webhookconfigurations" in place)
        assert "f:labels" not in fields["podium-webhook"]
        assert "f:caBundle" in fields["podium-webhook"]
        assert "f:webhooks" not in fields["kubectl"]


async def test_by_service_without_a_bundle_another_program_writes_it(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """With cert-manager the webhooks are open until cainjector has written every caBundle, which is kept."""
    install(server)
    ours = publisher(connection, BY_SERVICE)
    await ours.publish(None)
    assert await ours.published(None)
    written = base64.b64encode(bundle).decode()
    for place in PLACES[2:]:
        assert bundles(read(server, place)) == [None] * len(read(server, place)["webhooks"])
        for index in range(len(read(server, place)["webhooks"])):
            edit_bundle(server, place, index, written)
    assert not await ours.published(None)
    await restore(ours, None)
    assert registered(server)["groups.podium.dev"] == ["Fail", "Fail"]
    for place in PLACES[2:]:
        assert set(bundles(read(server, place))) == {written}
    assert bundles(read(server, PLACES[0])) == [None]


def edit_bundle(server: Server, place: str, index: int, bundle: str) -> None:
    patch = [{"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}]
    where = f"{place}?fieldManager=cert-manager-cainjector"
    assert send(server, "PATCH", where, patch, content_type=JSON_PATCH).code == 200


async def test_by_service_what_is_not_converted_stays_so(
    server: Server, connection: Connection, bundle: bytes
) -> None:
    """Install the custom resources for a cluster without the webhook."""
    install(server, conversion=False)
    ours = publisher(connection, BY_SERVICE)
    await restore(ours, bundle)
    assert read(server, PLACES[0])["spec"]["conversion"] == {"strategy": "None"}
