"""What an install or an upgrade does, as values: in which order, what it waits for.

A webhook is ready only when it is registered, and whoever is registered before it answers has writes refused.
So a new registration fails open until the webhook has put its caBundle there and its replicas are available;
then it is applied as it is meant. What was registered before stays as it is until then, for what it was
registered by still answers. For the same reason custom resources serve what they served before until every
process is the new one, and processes that run are replaced one after the other, the webhook first: what it
takes from the old ones it still takes, but an old one need not take what new ones write.
"""

import copy
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from podium.data import folder
from podium.errors import PodiumError
from podium.findings import group_of

MANAGER = "podium-install"
MODES = ("admission", "scheduler")
# By this label it is known again what an install has made; the version is that of a Deployment.
MANAGED_BY = "app.kubernetes.io/managed-by"
VERSION = "app.kubernetes.io/version"

Document = dict[str, Any]

# Each kind that is installed, in the order in which it is applied, and the plural in its path; Leases are
# made by the processes.
_PLURALS = {
    "Namespace": "namespaces",
    "ResourceQuota": "resourcequotas",
    "CustomResourceDefinition": "customresourcedefinitions",
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Lease": "leases",
    "Service": "services",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Deployment": "deployments",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_RANKS = {kind: rank for rank, kind in enumerate(_PLURALS)}
_FIRST = "podium-webhook"
REGISTRATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# What these say is nobody else's to change (of a caBundle they say nothing); `uninstall` leaves them changed.
OURS = ("CustomResourceDefinition",)
# The server's own notes on an object; none of them is something that an install says.
_NOTES = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


class Key(NamedTuple):
    """Which object; a namespace is empty where the kind has none."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def group(self) -> str:
        """Give the API group, empty for the core's."""
        return group_of(self.api_version)

    @property
    def resource(self) -> str:
        """Give the name of its kind in URLs and rights."""
        return _PLURALS[self.kind]

    @property
    def path(self) -> str:
        """Give the path of its URL."""
        return f"{self.collection}/{quote(self.name, safe='')}"

    @property
    def collection(self) -> str:
        """Give the path of the list that it is in."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        where = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{root}{where}/{self.resource}"


class Until(StrEnum):
    """What is waited for; the value is the word for it."""

    ESTABLISHED = "established"
    AVAILABLE = "available"
    TRUSTED = "trusted"


class Apply(NamedTuple):
    """Apply a document on the server's side."""

    document: Document


class Await(NamedTuple):
    """Go on when this is so of an object."""

    key: Key
    until: Until


class Remove(NamedTuple):
    """Take an object away that is no more part of it."""

    document: Document


class Action(StrEnum):
    """What an install does to an object, or would."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    REMOVED = "removed"
    REFUSED = "refused"


class Outcome(NamedTuple):
    """What became of one object, or would: as it was and as it is then, None where there is nothing."""

    key: Key
    action: Action
    before: Document | None
    after: Document | None
    why: str = ""


def key_of(document: Mapping[str, Any]) -> Key:
    """Name a document."""
    metadata = document["metadata"]
    return Key(document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"])


def rank(document: Mapping[str, Any]) -> int:
    """Say how late a document is applied."""
    return _RANKS[document["kind"]]


def objects_path(definition: Document) -> str:
    """Give the path of a custom resource's list in the version that is stored."""
    spec = definition["spec"]
    (version,) = [each["name"] for each in spec["versions"] if each["storage"]]
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"


def rendered(mode: str) -> Path:
    """Give the file with the manifests of a mode. Raises PodiumError."""
    return folder("manifests") / "rendered" / f"{mode}.yaml"


def manifests(mode: str, image: str | None) -> list[Document]:
    """Read the rendered manifests of a mode in the order of their application; `image` replaces the image.

    They are labelled as made by an install of this version. Raises PodiumError where there are none.
    """
    import yaml  # noqa: PLC0415 - the modules of a command are imported for its --help, too

    path = rendered(mode)
    try:
        documents = list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))
    except OSError as error:
        raise PodiumError(f"{path}: cannot be read: {error.strerror}; install podium-k8s again") from None
    for document in documents:
        labels = document["metadata"].setdefault("labels", {})
        labels[MANAGED_BY] = MANAGER
        if document["kind"] == "Deployment":
            labels[VERSION] = version("podium-k8s")
            for container in document["spec"]["template"]["spec"]["containers"]:
                container["image"] = image or container["image"]
    return sorted(documents, key=rank)


def plan(
    documents: Sequence[Document], there: Mapping[Key, Document], surplus: Sequence[Document] = ()
) -> Iterator[Apply | Await | Remove]:
    """Give the steps; `there` is what is there of the documents, `surplus` what an older version has left."""
    registrations = [each for each in documents if each["kind"] in REGISTRATIONS]
    kinds = {kind: [each for each in documents if each["kind"] == kind] for kind in _PLURALS}
    definitions = kinds["CustomResourceDefinition"]
    for kind in _PLURALS:
        if kind == "CustomResourceDefinition":
            yield from (Apply(bridging(each, there.get(key_of(each)))) for each in definitions)
            yield from (Await(key_of(each), Until.ESTABLISHED) for each in definitions)
        elif kind == "Deployment":
            yield from (Apply(failing_open(each)) for each in registrations if key_of(each) not in there)
            yield from _processes(kinds[kind], there)
        elif kind not in REGISTRATIONS:
            yield from map(Apply, kinds[kind])
    asking = [each for each in definitions if _clients(each)] + registrations
    yield from (Await(key_of(each), Until.TRUSTED) for each in asking)
    yield from map(Apply, registrations)
    yield from (Apply(each) for each in definitions if bridging(each, there.get(key_of(each))) != each)
    yield from map(Remove, surplus)


def _processes(deployments: Sequence[Document], there: Mapping[Key, Document]) -> Iterator[Apply | Await]:
    """Replace those that run one after the other, the webhook first; start the others together."""
    running = [each for each in deployments if key_of(each) in there]
    for each in sorted(running, key=lambda each: each["metadata"]["name"] != _FIRST):
        yield Apply(each)
        yield Await(key_of(each), Until.AVAILABLE)
    new = [each for each in deployments if key_of(each) not in there]
    yield from map(Apply, new)
    yield from (Await(key_of(each), Until.AVAILABLE) for each in new)


def bridging(definition: Document, there: Document | None) -> Document:
    """Give a definition that serves what is served now and no more, though as it is stored from now on.

    Processes of the older version go on with their versions; a version that is new to them would be converted
    by a webhook that does not know it.
    """
    if there is None:
        return definition
    served = {each["name"]: each["served"] for each in there["spec"]["versions"]}
    versions = [
        {**each, "served": served.get(each["name"], False)} for each in definition["spec"]["versions"]
    ]
    names = {each["name"] for each in versions}
    versions += [
        {**each, "storage": False} for each in there["spec"]["versions"] if each["name"] not in names
    ]
    return {**definition, "spec": {**definition["spec"], "versions": versions}}


def failing_open(configuration: Document) -> Document:
    """Give a webhook configuration that refuses nothing while nothing answers."""
    opened = copy.deepcopy(configuration)
    for webhook in opened["webhooks"]:
        webhook["failurePolicy"] = "Ignore"
    return opened


def lacking(document: Document | None, until: Until) -> str:
    """Say what an object still lacks; empty when it is as it is waited for."""
    if document is None:
        return "is gone"
    match until:
        case Until.ESTABLISHED:
            return "" if _is_true(document, "Established") else "is not served yet"
        case Until.AVAILABLE:
            return _rolling(document)
        case Until.TRUSTED:
            trusted = all(client.get("caBundle") for client in _clients(document))
            return "" if trusted else "has no caBundle yet: the webhook writes it when it runs"


def _rolling(deployment: Document) -> str:
    """Say how far a Deployment is from running what it says, as `kubectl rollout status` does."""
    status = deployment.get("status") or {}
    wanted = deployment["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return "was not looked at by its controller yet"
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < wanted:
        return f"has {updated} of {wanted} new pods{_reason(status)}"
    if status.get("replicas", 0) > updated:
        return f"has {status['replicas'] - updated} old pods left"
    return "" if available >= wanted else f"has {available} of {wanted} pods available{_reason(status)}"


def _reason(status: Document) -> str:
    """Say why pods are not made (a quota, a policy), if that is why."""
    failures = [
        each.get("message", "")
        for each in status.get("conditions") or ()
        if each["type"] == "ReplicaFailure" and each["status"] == "True"
    ]
    return f": {failures[0]}" if failures else ""


def _is_true(document: Document, condition: str) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def _clients(document: Document) -> list[Document]:
    """Give every clientConfig of a registration, none where nothing is converted."""
    if document["kind"] in REGISTRATIONS:
        return [each["clientConfig"] for each in document["webhooks"]]
    webhook = document["spec"].get("conversion", {}).get("webhook")
    return [webhook["clientConfig"]] if webhook else []


def action(before: Document | None, after: Document) -> Action:
    """Say what happened between an object as it was and as it is, but for the server's own notes."""
    if before is None:
        return Action.CREATED
    return Action.UNCHANGED if said(before) == said(after) else Action.CHANGED


def said(document: Document) -> Document:
    """Give an object without what the server notes in it."""
    metadata = {name: value for name, value in document["metadata"].items() if name not in _NOTES}
    return {
        **{name: value for name, value in document.items() if name not in ("metadata", "status")},
        "metadata": metadata,
    }


def difference(outcome: Outcome) -> str:
    """Write what changes in an object as a unified diff of YAML; empty when nothing does.

    What others say in it stands there only as context: an apply leaves it alone. What is secret is masked.
    """
    before, after = _yaml(outcome.before), _yaml(outcome.after)
    names = f"{outcome.key} (there)", f"{outcome.key} (new)"
    return "".join(difflib.unified_diff(before, after, *names))


def _yaml(document: Document | None) -> list[str]:
    import yaml  # noqa: PLC0415 - as above

    if document is None:
        return []
    shown = said(document)
    if document["kind"] == "Secret":
        shown["data"] = dict.fromkeys(shown.get("data") or (), "***")
    return yaml.dump(shown, Dumper=yaml.CSafeDumper, width=110).splitlines(keepends=True)


def counts(outcomes: Iterable[Outcome]) -> str:
    """Sum up in a few words."""
    actions = [each.action for each in outcomes]
    found = [f"{actions.count(each)} {each}" for each in Action if each in actions]
    return ", ".join(found) or "nothing"
