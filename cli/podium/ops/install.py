"""The steps of an install or an upgrade as values: their order, and the condition that each waits for.

A webhook becomes ready only after it is registered, but a registration whose webhook does not answer causes
refused writes. A new registration therefore fails open until the webhook has set its caBundle and its
replicas are available. Then the final registration is applied. An older registration stays unchanged until
then, because its webhook still answers. For the same reason custom resources serve their old versions until
every process is new. Running processes are replaced one after the other, the webhook first. The new webhook
accepts what old processes write, but an old webhook need not accept what new processes write.
"""

import copy
import difflib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from podium import version
from podium.api.findings import group_of
from podium.documents.packagedata import folder
from podium.documents.yamlwriter import dump_all
from podium.errors import PodiumError
from podium.ops.rollout import conditions
from podium.ops.rollout import lacking as lacking_pods

MANAGER = "podium-install"
MODES = ("admission", "scheduler")
# This label marks the objects that an install created; the version is that of a Deployment.
MANAGED_BY = "app.kubernetes.io/managed-by"
VERSION = "app.kubernetes.io/version"

Document = dict[str, Any]

# Each kind that is installed, in the order of application, and its plural for the path. The processes create
# Leases themselves.
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
# Podium owns all fields of these kinds (except caBundles, which it does not set). `uninstall` leaves them
# changed.
OURS = ("CustomResourceDefinition",)
# Fields that the server sets on an object; an install sets none of them.
_NOTES = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


class Key(NamedTuple):
    """The identity of an object; the namespace is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def group(self) -> str:
        """Return the API group, empty for the core group."""
        return group_of(self.api_version)

    @property
    def resource(self) -> str:
        """Return the resource name of its kind, as in URLs and rights."""
        return _PLURALS[self.kind]

    @property
    def path(self) -> str:
        """Return the path of its URL."""
        return f"{self.collection}/{quote(self.name, safe='')}"

    @property
    def collection(self) -> str:
        """Return the path of the list that contains it."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        where = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{root}{where}/{self.resource}"


class Until(StrEnum):
    """The condition to wait for; the value is its name in messages."""

    ESTABLISHED = "established"
    AVAILABLE = "available"
    TRUSTED = "trusted"


class Apply(NamedTuple):
    """A step that applies a document with server-side apply."""

    document: Document


class Await(NamedTuple):
    """A step that waits for a condition of an object."""

    key: Key
    until: Until


class RemoveObject(NamedTuple):
    """A step that deletes an object that this version does not have."""

    document: Document


class Action(StrEnum):
    """The effect of an install on an object, real or previewed."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    REMOVED = "removed"
    REFUSED = "refused"


class InstallOutcome(NamedTuple):
    """The result for one object, real or previewed: before and after, None if it does not exist."""

    key: Key
    action: Action
    before: Document | None
    after: Document | None
    why: str = ""


def key_of(document: Mapping[str, Any]) -> Key:
    """Return the key of a document."""
    metadata = document["metadata"]
    return Key(document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"])


def rank(document: Mapping[str, Any]) -> int:
    """Return the position of a document in the order of application."""
    return _RANKS[document["kind"]]


def objects_path(definition: Document) -> str:
    """Return the path of a custom resource's list in the stored version."""
    spec = definition["spec"]
    (version,) = [each["name"] for each in spec["versions"] if each["storage"]]
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"


def rendered(mode: str) -> Path:
    """Return the file with the manifests of a mode. Raises PodiumError."""
    return folder("manifests") / "rendered" / f"{mode}.yaml"


def manifests(mode: str, image: str | None) -> list[Document]:
    """Return the rendered manifests of a mode in order of application; `image` replaces the image.

    They have the labels of an install of this version. Raises PodiumError if there are none.
    """
    import yaml  # noqa: PLC0415 - Also imported for --help of the commands.

    path = rendered(mode)
    try:
        documents = list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))
    except OSError as error:
        raise PodiumError(f"{path}: read failed: {error.strerror}. Reinstall podium-k8s") from None
    for document in documents:
        labels = document["metadata"].setdefault("labels", {})
        labels[MANAGED_BY] = MANAGER
        if document["kind"] == "Deployment":
            labels[VERSION] = version.VERSION
            for container in document["spec"]["template"]["spec"]["containers"]:
                container["image"] = image or container["image"]
    return sorted(documents, key=rank)


def plan_install(
    documents: Sequence[Document], there: Mapping[Key, Document], surplus: Sequence[Document] = ()
) -> Iterator[Apply | Await | RemoveObject]:
    """Yield the steps.

    `there` are the existing objects among the documents, `surplus` the objects that only an older version
    has.
    """
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
    yield from map(RemoveObject, surplus)


def _processes(deployments: Sequence[Document], there: Mapping[Key, Document]) -> Iterator[Apply | Await]:
    """Yield the steps that replace running processes one by one, then start new ones together.

    The webhook is replaced first.
    """
    running = [each for each in deployments if key_of(each) in there]
    for each in sorted(running, key=lambda each: each["metadata"]["name"] != _FIRST):
        yield Apply(each)
        yield Await(key_of(each), Until.AVAILABLE)
    new = [each for each in deployments if key_of(each) not in there]
    yield from map(Apply, new)
    yield from (Await(key_of(each), Until.AVAILABLE) for each in new)


def bridging(definition: Document, there: Document | None) -> Document:
    """Return a definition that serves exactly the versions served now, but stores the new version.

    Processes of the older version continue to use their versions. A version that is new to them would be
    converted by a webhook that does not know it.
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
    """Return a webhook configuration that refuses nothing if the webhook does not answer."""
    opened = copy.deepcopy(configuration)
    for webhook in opened["webhooks"]:
        webhook["failurePolicy"] = "Ignore"
    return opened


def lacking(document: Document | None, until: Until) -> str:
    """Return what an object lacks for a condition; empty if the condition holds."""
    if document is None:
        return "does not exist"
    match until:
        case Until.ESTABLISHED:
            established = any(conditions(document, "Established", "True"))
            return "" if established else f"is not served yet{_refusal(document)}"
        case Until.AVAILABLE:
            return lacking_pods(document)
        case Until.TRUSTED:
            trusted = all(client.get("caBundle") for client in _clients(document))
            return "" if trusted else "has no caBundle yet; the webhook writes it at its start"


def _refusal(definition: Document) -> str:
    """Return why a definition's names are not accepted; empty if they are."""
    refused = [each.get("message", "") for each in conditions(definition, "NamesAccepted", "False")]
    return f": {refused[0]}" if refused else ""


def _clients(document: Document) -> list[Document]:
    """Return every clientConfig of a registration or definition, none without conversion."""
    if document["kind"] in REGISTRATIONS:
        return [each["clientConfig"] for each in document.get("webhooks") or ()]
    webhook = document.get("spec", {}).get("conversion", {}).get("webhook")
    return [webhook["clientConfig"]] if webhook else []


def advice(outcomes: Iterable[InstallOutcome]) -> list[str]:
    """Return lines with what helps if the server refuses some of the objects."""
    refused = [each.before for each in outcomes if each.action is Action.REFUSED and each.before is not None]
    if not any(client.get("url") for each in refused for client in _clients(each)):
        return ["for conflicts use --force-conflicts; for forbidden objects ask a cluster-admin"]
    crds = shlex.quote(str(folder("manifests") / "crds"))
    kinds = ",".join(kind.lower() for kind in REGISTRATIONS)
    reason = (
        "a process with --register-url has registered the webhooks, and no object has a URL and a Service."
    )
    return [
        f"{reason} Stop the process, run these two commands, and install again (docs/webhooks.md)",
        f"kubectl delete --ignore-not-found {kinds} podium",
        f"kubectl replace -f {crds}",
    ]


def action(before: Document | None, after: Document) -> Action:
    """Return the difference between two states of an object, without the fields that the server sets."""
    if before is None:
        return Action.CREATED
    return (
        Action.UNCHANGED if without_server_fields(before) == without_server_fields(after) else Action.CHANGED
    )


def without_server_fields(document: Document) -> Document:
    """Return an object without the fields that the server sets."""
    metadata = {name: value for name, value in document["metadata"].items() if name not in _NOTES}
    return {
        **{name: value for name, value in document.items() if name not in ("metadata", "status")},
        "metadata": metadata,
    }


def difference(outcome: InstallOutcome) -> str:
    """Return the changes of an object as a unified diff of YAML; empty if there are none.

    Fields of other managers are context only, because an apply does not change them. Secret data is masked.
    """
    before, after = _yaml(outcome.before), _yaml(outcome.after)
    names = f"{outcome.key} (there)", f"{outcome.key} (new)"
    return "".join(difflib.unified_diff(before, after, *names))


def _yaml(document: Document | None) -> list[str]:
    if document is None:
        return []
    shown = without_server_fields(document)
    if document["kind"] == "Secret":
        shown["data"] = dict.fromkeys(shown.get("data") or (), "***")
    return dump_all([msgspec.to_builtins(shown, order="sorted")]).splitlines(keepends=True)


def counts(outcomes: Iterable[InstallOutcome]) -> str:
    """Return a summary of the outcomes in a few words."""
    actions = [each.action for each in outcomes]
    found = [f"{actions.count(each)} {each}" for each in Action if each in actions]
    return ", ".join(found) or "nothing"
