"""Register the webhooks and our CA bundle where API servers read them, and read them back.

By URL (development) the webhook registers itself: both custom resources with their conversion, and both
webhook configurations. They are applied on the server side, so that a deletion or edit is repaired.

By Service (a cluster) the manifests own the objects, and the process owns the `webhooks` of both
configurations and the caBundle of each conversion. The configurations of the manifests have no webhooks, so
nothing is sent to a Service without a process, and no other client writes these fields. The function
`registration.stage` decides what is registered. No object is created: deleting a configuration turns it off.

If another program, such as cert-manager's cainjector, writes a caBundle, it wins, because two writers would
overwrite each other forever. A caBundle written by a person with kubectl is overwritten.
"""

import asyncio
import base64
from typing import Any

from podium import jsontext
from podium.crds import definitions
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, Sleep, get_or_none
from podium.kube.deployment import read_state
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.rules.policy import Policy
from podium.webhooks.registration import (
    CONVERT,
    Endpoint,
    Options,
    Stage,
    configurations,
    is_ours,
    stage,
)

MANAGER = "podium-webhook"
_PEOPLE = "kubectl"
_MUTATING, _VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
_PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    _MUTATING: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    _VALIDATING: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
_ESTABLISHED_SECONDS = 30.0
_GLANCE_SECONDS = 0.1
_REGISTERED_SECONDS = 5.0
# An API server that knows the validating webhooks alone refuses groups that were not mutated. It follows each
# kind of configuration by itself, and a request in between is mutated before and validated after the change.
# So the mutating webhooks are written this long before the validating ones, and removed this long after them.
_APART_SECONDS = 2.0

Document = dict[str, Any]


class BundlePublisher:
    """Publishes the registration with a bundle (PEM), and reads it back.

    A bundle of None is written by another program. `published` stores what it read, and `publish` replaces
    nothing newer. So a replica that stalled in between cannot overwrite a new bundle with an old one.
    """

    def __init__(
        self,
        connection: Connection,
        endpoint: Endpoint,
        options: Options,
        policy: Policy,
        *,
        log_event: EventLogger,
        deployment: tuple[str, str] | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`deployment` is the namespace and name of the process's own, for a registration by Service."""
        self._connection = connection
        self._endpoint = endpoint
        self._options = options
        self._policy = policy
        self._log_event = log_event
        self._deployment = deployment
        self._sleep = sleep
        self._whole = endpoint.url is not None
        self._stage = Stage.CLOSED if self._whole else Stage.OFF
        # Whether the last read came to another stage, which is not written yet.
        self._moved = False
        # The object last read, by path; None if there was none.
        self._stored: dict[str, Document | None] = {}

    @property
    def settling(self) -> bool:
        """Whether the registration of the last read is not final, so that it should be read again soon."""
        return self._stage is Stage.OPEN or self._moved

    async def published(self, bundle: bytes | None) -> bool:
        """Return whether the API server has the registration that we want, with this bundle everywhere.

        Raises PodiumError when it cannot be read, and when another program writes our caBundle.
        """
        registration = self._wanted(bundle)
        deployment = None
        if self._deployment is not None:
            deployment = await read_state(self._connection, *self._deployment)
        self._stored = {path: await self._read(path) for path in registration}
        if bundle is not None:
            for document in self._stored.values():
                self._stand_down(document)
        if self._whole:
            return all(_holds(self._stored[path], whole) for path, whole in registration.items())
        there = [webhook for document in self._stored.values() for webhook in _webhooks(document)]
        entered = stage(deployment, there, bundle)
        self._moved = entered is not self._stage
        self._enter(entered)
        if self._stage is Stage.OFF:
            registration = {
                path: whole for path, whole in registration.items() if self._stored[path] is not None
            }
        return all(
            (document := self._stored[path]) is not None and not _changes(document, whole, self._stage)
            for path, whole in registration.items()
        )

    def _enter(self, stage: Stage) -> None:
        if stage is not self._stage:
            self._log_event("registration changes", {"stage": stage.value})
        self._stage = stage

    async def publish(self, bundle: bytes | None) -> None:
        """Write the registration over what `published` read; custom resources are served when this returns.

        Raises PodiumError when another client wrote in between, when the write was refused and, by Service,
        when an object of the registration is missing.
        """
        if not self._stored:
            await self.published(bundle)
        for path, whole in self._in_order(bundle):
            registered = self._stored.get(path)
            if self._whole:
                await self._apply(path, whole, registered)
            elif registered is not None:
                await self._change(path, whole, registered)
        missing = [path for path, document in self._stored.items() if document is None]
        if missing and not self._whole and self._stage is not Stage.OFF:
            raise PodiumError(
                f"{self._connection.server}: {', '.join(missing)}: not found, so no webhook is registered: "
                "apply Podium's manifests again"
            )

    async def withdraw(self) -> bool:
        """Remove our webhooks if the Deployment is turned off; return whether it is. Raises PodiumError."""
        if self._deployment is None or self._whole:
            return False
        if not (await read_state(self._connection, *self._deployment)).is_off:
            return False
        self._enter(Stage.OFF)
        for path, whole in self._in_order(None):
            while (registered := await self._read(path)) is not None:
                try:
                    await self._change(path, whole, registered)
                except RefusedError as refused:
                    # Another replica wrote in between.
                    if refused.code != 409:
                        raise
                else:
                    break
        return True

    async def registered(self) -> list[bytes]:
        """Return the bundles that API servers have now.

        Raises PodiumError when they cannot be read, and TimeoutError after _REGISTERED_SECONDS: a webhook
        waits for them before it serves.
        """
        return await within(_REGISTERED_SECONDS, self._registered())

    async def _registered(self) -> list[bytes]:
        documents = [await self._read(path) for path in self._wanted(b"")]
        clients = [
            client for document in documents if document is not None for client in _clients(document).values()
        ]
        return [base64.b64decode(client.get("caBundle", "")) for client in clients]

    def _wanted(self, bundle: bytes | None) -> dict[str, Document]:
        """Return the whole registration by path, conversions before webhook configurations."""
        kinds = definitions.crds(self._endpoint.client(CONVERT, bundle))
        if not self._whole:
            # By Service only the bundle is ours, and a kind without conversion has none.
            kinds = [kind for kind in kinds if _clients(kind) and bundle is not None]
        ours = configurations(self._policy, self._endpoint, self._options, bundle)
        return {f"{_PATHS[item['kind']]}/{item['metadata']['name']}": item for item in (*kinds, *ours)}

    def _in_order(self, bundle: bytes | None) -> list[tuple[str, Document]]:
        """Return the whole registration by path in the order of its writes."""
        registration = list(self._wanted(bundle).items())
        return registration[::-1] if self._stage is Stage.OFF else registration

    async def _change(self, path: str, whole: Document, registered: Document) -> None:
        """Make an object of the manifests what the stage wants. Raises RefusedError."""
        changes = _changes(registered, whole, self._stage)
        last = _MUTATING if self._stage is Stage.OFF else _VALIDATING
        if changes and whole["kind"] == last:
            # Always, because another replica may have written the other configuration a moment ago.
            await self._sleep(_APART_SECONDS)
        await self._patch(path, changes, registered)

    async def _read(self, path: str) -> Document | None:
        body = await get_or_none(self._connection, path)
        return None if body is None else jsontext.parse(body, Document)

    def _stand_down(self, document: Document | None) -> None:
        for entry in document["metadata"].get("managedFields", ()) if document is not None else ():
            manager = entry.get("manager", "")
            ours = manager == MANAGER or manager.startswith(_PEOPLE)
            if not ours and _mentions(entry.get("fieldsV1"), "f:caBundle"):
                assert document is not None
                name = f"{document['kind']} {document['metadata']['name']}"
                raise PodiumError(
                    f"{self._connection.server}: {name}: {manager} writes the caBundle, so Podium does not: "
                    "serve the certificate of that program with --provided-cert-dir, or stop the program"
                )

    async def _apply(self, path: str, whole: Document, registered: Document | None) -> None:
        metadata = {**whole["metadata"], **_revision(registered)}
        document = {**whole, "metadata": metadata}
        await self._connection.apply(path, document, manager=MANAGER, force=True)
        if whole["kind"] == "CustomResourceDefinition":
            await self._established(path)

    async def _established(self, path: str) -> None:
        for _ in range(int(_ESTABLISHED_SECONDS / _GLANCE_SECONDS)):
            document = await self._read(path)
            conditions = ((document or {}).get("status") or {}).get("conditions") or ()
            if any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions):
                return
            await self._sleep(_GLANCE_SECONDS)
        raise PodiumError(
            f"{self._connection.server}: {path}: not served {_ESTABLISHED_SECONDS:.0f} s after apply: "
            "see its conditions"
        )

    async def _patch(self, path: str, changes: list[Document], registered: Document) -> None:
        """Change what was read. Raises RefusedError of code 409 if another client changed it."""
        if not changes:
            return
        # The generation, unlike the resourceVersion, is unchanged when the server writes the status of a CRD.
        generation = registered["metadata"]["generation"]
        patch = [{"op": "test", "path": "/metadata/generation", "value": generation}, *changes]
        content_type = "application/json-patch+json"
        try:
            await self._connection.send("PATCH", path, patch, content_type=content_type, fieldManager=MANAGER)
        except RefusedError as refused:
            now = await self._read(path)
            if refused.code == 422 and (now is None or now["metadata"]["generation"] != generation):
                # The API server's message says only that the request is invalid.
                message = "changed since it was read; it is read again"
                raise RefusedError(
                    self._connection.server, f"PATCH {path}", 409, "Conflict", message
                ) from None
            raise


def _clients(document: Document) -> dict[str, Document]:
    """Return every clientConfig of a registration by JSON pointer; empty for a CRD without conversion."""
    if document["kind"] != "CustomResourceDefinition":
        webhooks = document.get("webhooks") or ()
        return {
            f"/webhooks/{index}/clientConfig": entry["clientConfig"] for index, entry in enumerate(webhooks)
        }
    webhook = document["spec"].get("conversion", {}).get("webhook")
    return {"/spec/conversion/webhook/clientConfig": webhook["clientConfig"]} if webhook else {}


def _changes(registered: Document, whole: Document, stage: Stage) -> list[Document]:
    """Return the JSON patch that makes an object of the manifests what we want; empty if it is that."""
    if whole["kind"] == "CustomResourceDefinition":
        [client] = _clients(whole).values()
        return [
            {"op": "add", "path": f"{pointer}/caBundle", "value": client["caBundle"]}
            for pointer, there in _clients(registered).items()
            if there.get("caBundle") != client["caBundle"]
        ]
    there = _webhooks(registered)
    ours = [webhook for webhook in there if is_ours(webhook)]
    webhooks = [_trusting(webhook, ours) for webhook in stage.webhooks(whole["webhooks"])]
    if _holds(ours, webhooks):
        return []
    others = [webhook for webhook in there if not is_ours(webhook)]
    return [{"op": "add", "path": "/webhooks", "value": [*others, *webhooks]}]


def _trusting(webhook: Document, registered: list[Document]) -> Document:
    """Return a webhook with the caBundle that another program wrote, if it has none of ours."""
    client = webhook["clientConfig"]
    bundles = {
        entry["name"]: entry["clientConfig"]["caBundle"]
        for entry in registered
        if entry["clientConfig"].get("caBundle")
    }
    if "caBundle" in client or not bundles:
        return webhook
    # That program writes the same one everywhere, so a new webhook need not wait for it.
    bundle = bundles.get(webhook["name"]) or next(iter(bundles.values()))
    return {**webhook, "clientConfig": {**client, "caBundle": bundle}}


def _webhooks(document: Document | None) -> list[Document]:
    """Return the webhooks of a configuration; none of another object."""
    return (document or {}).get("webhooks") or []


def _revision(registered: Document | None) -> Document:
    return {} if registered is None else {"resourceVersion": registered["metadata"]["resourceVersion"]}


def _holds(actual: Any, expected: Any) -> bool:
    """Return whether a document contains the wanted values.

    The API server adds defaults to mappings, but none to lists and to empty mappings.
    """
    if expected and isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            _holds(actual.get(key), value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(_holds(item, expected_item) for item, expected_item in zip(actual, expected, strict=True))
        )
    return bool(actual == expected)


def _mentions(fields: Any, key: str) -> bool:
    """Return whether managed fields contain a key, at any depth."""
    return isinstance(fields, dict) and (
        key in fields or any(_mentions(value, key) for value in fields.values())
    )
