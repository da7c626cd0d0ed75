"""Publish our CA bundle where API servers read it, and read it back.

By URL (development) the webhook registers itself: both custom resources with their conversion, and both
webhook configurations. They are applied on the server side, so that a deletion or edit is repaired. By
Service (a cluster) the manifests contain the registration, and an administrator may change it. Only the
caBundle is ours then; no other field is changed, and no object is created.

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
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.rules.policy import Policy
from podium.webhooks.registration import CONVERT, Endpoint, Options, configurations

MANAGER = "podium-webhook"
_PEOPLE = "kubectl"
_PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
_ESTABLISHED_SECONDS = 30.0
_GLANCE_SECONDS = 0.1
_REGISTERED_SECONDS = 5.0

Document = dict[str, Any]


class BundlePublisher:
    """Publishes a bundle (PEM) wherever API servers read it, and reads it back.

    `published` stores what it read, and `publish` replaces nothing newer. So a replica that stalled in
    between cannot overwrite a new bundle with an old one.
    """

    def __init__(
        self,
        connection: Connection,
        endpoint: Endpoint,
        options: Options,
        policy: Policy,
        *,
        log_event: EventLogger,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`log_event` logs, by Service, the webhooks whose rules differ from those the policy needs."""
        self._connection = connection
        self._endpoint = endpoint
        self._options = options
        self._policy = policy
        self._log_event = log_event
        self._sleep = sleep
        self._unlike: list[str] = []
        self._whole = endpoint.url is not None
        # The object last read, by path; None if there was none.
        self._found: dict[str, Document | None] = {}

    async def published(self, bundle: bytes) -> bool:
        """Return whether the API server has this bundle everywhere and, by URL, the whole registration.

        Raises PodiumError when it cannot be read, and when another program writes the caBundle.
        """
        wanted = self._wanted(bundle)
        self._found = {path: await self._read(path) for path in wanted}
        found = [(document, wanted[path]) for path, document in self._found.items()]
        for document, _ in found:
            self._stand_down(document)
        if self._whole:
            return all(_holds(document, whole) for document, whole in found)
        self._tell_unlike(
            [name for document, whole in found if document for name in _unlike(document, whole)]
        )
        return all(
            document is not None and all(_holds(client, ours) for client in _clients(document).values())
            for document, whole in found
            for ours in [_bundle(whole)]
        )

    async def publish(self, bundle: bytes) -> None:
        """Write the bundle over what `published` read; custom resources are served when this returns.

        Raises PodiumError when another client wrote in between, when the write was refused and, by Service,
        when the registration is missing.
        """
        if not self._found:
            await self.published(bundle)
        for path, whole in self._wanted(bundle).items():
            found = self._found.get(path)
            if self._whole:
                await self._apply(path, whole, found)
            elif found is not None:
                await self._patch(path, _bundle(whole), found)
        missing = [path for path, found in self._found.items() if found is None]
        if missing and not self._whole:
            raise PodiumError(
                f"{self._connection.server}: {', '.join(missing)}: not found, so no webhook is registered: "
                "apply manifests/webhooks, or use --register-url"
            )

    async def registered(self) -> list[bytes]:
        """Return the bundles that API servers have now.

        Raises PodiumError when they cannot be read, and TimeoutError after _REGISTERED_SECONDS: a webhook
        waits for them before it serves.
        """
        return await within(_REGISTERED_SECONDS, self._registered())

    async def _registered(self) -> list[bytes]:
        documents = [await self._read(path) for path in self._wanted(b"")]
        clients = [client for each in documents if each is not None for client in _clients(each).values()]
        return [base64.b64decode(client.get("caBundle", "")) for client in clients]

    def _wanted(self, bundle: bytes) -> dict[str, Document]:
        """Return the whole registration by path, conversions before webhook configurations."""
        kinds = definitions.crds(self._endpoint.client(CONVERT, bundle))
        if not self._whole:
            # By Service only the bundle is ours, and a kind without conversion has none.
            kinds = [each for each in kinds if _clients(each)]
        ours = configurations(self._policy, self._endpoint, self._options, bundle)
        return {f"{_PATHS[each['kind']]}/{each['metadata']['name']}": each for each in (*kinds, *ours)}

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

    def _tell_unlike(self, names: list[str]) -> None:
        """Log the webhooks that differ, once, because an administrator may want the difference."""
        if names and names != self._unlike:
            error = (
                "these webhooks do not match what the policy needs, so some rules have no effect: apply what "
                "`podium manifests webhooks` prints for the same --config"
            )
            self._log_event("registration differs", {"webhooks": names, "error": error})
        self._unlike = names

    async def _apply(self, path: str, whole: Document, found: Document | None) -> None:
        metadata = {**whole["metadata"], **_revision(found)}
        document = {**whole, "metadata": metadata}
        await self._connection.apply(path, document, manager=MANAGER, force=True)
        if whole["kind"] == "CustomResourceDefinition":
            await self._established(path)

    async def _established(self, path: str) -> None:
        for _ in range(int(_ESTABLISHED_SECONDS / _GLANCE_SECONDS)):
            document = await self._read(path)
            conditions = ((document or {}).get("status") or {}).get("conditions") or ()
            if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                return
            await self._sleep(_GLANCE_SECONDS)
        raise PodiumError(
            f"{self._connection.server}: {path}: not served {_ESTABLISHED_SECONDS:.0f} s after apply: "
            "see its conditions"
        )

    async def _patch(self, path: str, ours: Document, found: Document) -> None:
        # The generation, unlike the resourceVersion, is unchanged when the server writes the status of a CRD.
        generation = found["metadata"]["generation"]
        patch = [
            {"op": "test", "path": "/metadata/generation", "value": generation},
            *(
                {"op": "add", "path": f"{pointer}/caBundle", "value": ours["caBundle"]}
                for pointer, client in _clients(found).items()
                if not _holds(client, ours)
            ),
        ]
        if len(patch) == 1:
            return
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
            f"/webhooks/{index}/clientConfig": each["clientConfig"] for index, each in enumerate(webhooks)
        }
    webhook = document["spec"].get("conversion", {}).get("webhook")
    return {"/spec/conversion/webhook/clientConfig": webhook["clientConfig"]} if webhook else {}


def _unlike(found: Document, whole: Document) -> list[str]:
    """Return the webhooks of a configuration that are missing or have other rules or match conditions."""
    there = {each["name"]: each for each in found.get("webhooks") or ()}
    return [
        f"{whole['kind']} {each['name']}"
        for each in whole.get("webhooks", ())
        if not _holds(there.get(each["name"]), {key: each[key] for key in ("rules", "matchConditions")})
    ]


def _bundle(whole: Document) -> Document:
    """Return the part of a clientConfig that we own by Service."""
    return {"caBundle": next(iter(_clients(whole).values()))["caBundle"]}


def _revision(found: Document | None) -> Document:
    return {} if found is None else {"resourceVersion": found["metadata"]["resourceVersion"]}


def _holds(found: Any, wanted: Any) -> bool:
    """Return whether a document contains the wanted values.

    The API server adds defaults to mappings, and none to lists.
    """
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_holds(found.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_holds(one, each) for one, each in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


def _mentions(fields: Any, key: str) -> bool:
    """Return whether managed fields contain a key, at any depth."""
    return isinstance(fields, dict) and (
        key in fields or any(_mentions(each, key) for each in fields.values())
    )
