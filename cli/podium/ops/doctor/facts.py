"""The data of the doctor as values: every answer by the path of its request, including refusals.

An object that may not be read is not an absent object. An answer is therefore a document, or the reason why
there is none. A check without its document says so and concludes nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import yaml

from podium.api.core import PODIUM_SCHEDULER
from podium.documents.files import folder
from podium.errors import PodiumError
from podium.kube.reading import NamedUndecodable
from podium.ops.doctor.check import DoctorCheck, note
from podium.rules.policy import Policy
from podium.text import count
from podium.webhooks.policies import default_names, defaults
from podium.webhooks.registration import NAMESPACE, SERVICE, Endpoint, Options, configurations

Document = dict[str, Any]

# Maximum number of items to read from a list that grows with the cluster.
SAMPLE = 500
PARTS = "app.kubernetes.io/part-of=podium"
WARNINGS = "type=Warning"
COMPONENTS = ("webhook", "controller", "scheduler")

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
GROUPS = "/apis"
MUTATING = f"{_REGISTRATION}/mutatingwebhookconfigurations"
VALIDATING = f"{_REGISTRATION}/validatingwebhookconfigurations"
POLICIES = f"{_REGISTRATION}/validatingadmissionpolicies"
BINDINGS = f"{_REGISTRATION}/validatingadmissionpolicybindings"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OTHERS = {
    "fieldSelector": "spec.schedulerName!=default-scheduler,status.phase!=Succeeded,status.phase!=Failed",
    "limit": SAMPLE,
}
NODES = f"/api/v1/nodes?limit={SAMPLE}"
# Pods of schedulers other than kube-scheduler that are not finished.
PODS = f"/api/v1/pods?{urlencode(_OTHERS)}"


def policy_path(name: str) -> str:
    """Return the path of a ValidatingAdmissionPolicy."""
    return f"{POLICIES}/{name}"


class UnreadDocument(NamedTuple):
    """The reason for a missing document: the HTTP status (0 without an answer) and the server's message."""

    code: int
    why: str


Answer = Document | UnreadDocument


class Clock(NamedTuple):
    """The same moment by our clock and by the API server's, in whole seconds (None: no Date header)."""

    ours: datetime
    theirs: datetime | None

    @property
    def now(self) -> datetime:
        """Return the time by the API server's clock, or else by ours."""
        return self.theirs or self.ours


class Right(NamedTuple):
    """A verb on a resource (`podgroups/status` of a subresource); empty: any name, all namespaces.

    An empty account is the user who runs the command.
    """

    account: str
    namespace: str
    group: str
    resource: str
    name: str
    verb: str


class Probe(NamedTuple):
    """The answers of a process: whether it is ready, and the age of its caches in seconds by resource.

    `undecodable` are the first hundred objects that it cannot decode.
    """

    ready: Answer
    ages: Mapping[str, float]
    undecodable: Sequence[NamedUndecodable] = ()


class CreateDryRun(NamedTuple):
    """A dry run of creating a group in an API version: the group as it would be stored, or why not."""

    api_version: str
    answer: Answer


class Installation:
    """The objects of an install, from the manifests: the one source of names and rights."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        (self.namespace,) = [document["metadata"]["name"] for document in self.documents_of("Namespace")]
        # Paths: the namespace, the Deployments, their ReplicaSets and pods, the Events of type Warning, the
        # Leases, the scheduler's ConfigMap.
        self.itself = f"/api/v1/namespaces/{self.namespace}"
        self.deployments = self.within("apps/v1", "deployments")
        ours = urlencode({"labelSelector": PARTS, "limit": 50})
        self.replica_sets = self.within("apps/v1", f"replicasets?{ours}")
        self.pods_path = self.within("v1", f"pods?{ours}")
        self.warnings = self.within("v1", f"events?{urlencode({'fieldSelector': WARNINGS, 'limit': SAMPLE})}")
        self.leases = self.within("coordination.k8s.io/v1", "leases")
        self.settings = self.within("v1", "configmaps/podium-scheduler")

    def documents_of(self, *kinds: str) -> list[Document]:
        """Return the documents of some kinds."""
        return [document for document in self.documents if document["kind"] in kinds]

    def within(self, group_version: str, resource: str) -> str:
        """Return the path of a list in the namespace of the installation."""
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        return f"{root}/namespaces/{self.namespace}/{resource}"

    @property
    def policies(self) -> list[str]:
        """Return the names of the policies that limit the processes' accounts: podium-PROCESS-..."""
        names = [policy["metadata"]["name"] for policy in self.documents_of("ValidatingAdmissionPolicy")]
        return [name for name in names if name.startswith("podium-")]

    def paths(self) -> list[str]:
        """Return the paths to read in every cluster, whatever the answers are."""
        return [
            GROUPS,
            MUTATING,
            VALIDATING,
            *map(policy_path, self.policies),
            POLICIES,
            BINDINGS,
            CLASSES,
            PODS,
            NODES,
            *(
                f"{DEFINITIONS}/{definition['metadata']['name']}"
                for definition in self.documents_of("CustomResourceDefinition")
            ),
            self.itself,
            self.deployments,
            self.replica_sets,
            self.pods_path,
            self.warnings,
            self.leases,
            self.settings,
        ]


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The data read from one cluster.

    `version` is the server's, `cli` ours, `scheduler` the scheduler's configuration file. The answers contain
    no private key of a Secret.
    """

    installation: Installation
    cli: str
    version: str
    clock: Clock
    answers: Mapping[str, Answer]
    rights: Mapping[Right, bool | UnreadDocument] = {}
    probes: Mapping[str, Probe] = {}
    scheduler: Mapping[str, Any] = {}
    trial: CreateDryRun | None = None

    def document(self, path: str) -> Document | None:
        """Return an object, or None if it does not exist or was not read."""
        answer = self.answers.get(path)
        return answer if isinstance(answer, dict) else None

    def items(self, path: str) -> list[Document]:
        """Return the objects of a list; none if it was not read."""
        return (self.document(path) or {}).get("items") or []

    def unread(self, *paths: str) -> UnreadDocument | None:
        """Return why one of these paths may have an object that was not read.

        None if all were read or do not exist.
        """
        refused = (self.answers.get(path) for path in paths)
        return next(
            (answer for answer in refused if isinstance(answer, UnreadDocument) and answer.code != 404), None
        )

    @property
    def processes(self) -> dict[str, Document]:
        """Return the existing Deployments of Podium, by component."""
        deployments = {
            deployment["metadata"]["name"]: deployment
            for deployment in self.items(self.installation.deployments)
        }
        return {
            component: deployments[f"podium-{component}"]
            for component in COMPONENTS
            if f"podium-{component}" in deployments
        }

    @property
    def running_pods(self) -> list[Document]:
        """Return the running pods of the processes, except those that are being deleted, which drain."""
        return [
            pod
            for pod in self.items(self.installation.pods_path)
            if (pod.get("status") or {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    @property
    def registered(self) -> bool:
        """Return whether webhooks of Podium are registered."""
        ours = {
            registration["metadata"]["name"]
            for registration in self.installation.documents_of(*REGISTRATIONS)
        }
        return any(
            registration["metadata"]["name"] in ours and registration.get("webhooks")
            for path in (MUTATING, VALIDATING)
            for registration in self.items(path)
        )

    @property
    def scheduler_name(self) -> str:
        """Return the schedulerName that podium-scheduler handles."""
        return str(self.scheduler.get("schedulerName") or PODIUM_SCHEDULER)

    @property
    def groups(self) -> dict[str, Document]:
        """Return the API groups that the server serves, by name."""
        return {group["name"]: group for group in (self.document(GROUPS) or {}).get("groups") or ()}


REGISTRATIONS = {"MutatingWebhookConfiguration": MUTATING, "ValidatingWebhookConfiguration": VALIDATING}


def unseen(name: str, subject: str, unread: UnreadDocument) -> DoctorCheck:
    """Return a check that says that something was not read, and how it could be."""
    fix = (
        "run podium doctor with an account that may read this"
        if unread.code in (401, 403)
        else "run podium doctor again"
    )
    return note(name, f"{subject} not read: {unread.why}", fix, made=False)


def given(deployment: Document, option: str) -> str:
    """Return the value of an option `--option=VALUE` of a Deployment's process; empty if it is not set."""
    arguments = deployment["spec"]["template"]["spec"]["containers"][0].get("args") or []
    values = (argument.partition("=") for argument in arguments)
    return next((value for name, _, value in values if name == option), "")


def lasting(span: timedelta) -> str:
    """Return a time span in its largest unit: `12 days`, `3 hours`, `40 seconds`."""
    seconds = max(0, round(span.total_seconds()))
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return count(seconds // size, unit)
    return count(seconds, "second")


# The objects of an installation of this version. The manifests have the policies of an AdmissionPolicy that
# allows every class, and no webhooks: both follow from the policy of the cluster.
_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def manifests() -> list[Document]:
    """Return the manifests of all processes. Raises PodiumError if there are none."""
    path = folder("manifests") / "rendered" / "scheduler.yaml"
    try:
        return list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))
    except OSError as error:
        raise PodiumError(f"{path}: read failed: {error.strerror}. Reinstall podium-k8s") from None


def expected(documents: list[Document], policy: Policy) -> list[Document]:
    """Return the objects of an installation with this AdmissionPolicy, from its manifests."""
    own = defaults(policy, Options())
    registered = configurations(policy, Endpoint(service=(NAMESPACE, SERVICE)), Options(), None)
    return [*(document for document in documents if not _follows(document)), *own, *registered]


def _follows(document: Document) -> bool:
    """Return whether an object follows from the AdmissionPolicy."""
    name = document["metadata"]["name"]
    return document["kind"] in REGISTRATIONS or (document["kind"] in _POLICIES and name in default_names())
