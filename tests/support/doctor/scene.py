"""A cluster without problems, as facts of `podium doctor`; each test changes one of them."""

import base64
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.rollout import replica_set

from podium.api.times import written
from podium.ops.doctor import facts as doctor
from podium.ops.doctor import neighbours, registration, rights
from podium.ops.doctor.facts import (
    Answer,
    Clock,
    ClusterFacts,
    CreateDryRun,
    Document,
    Installation,
    Probe,
    Right,
    UnreadDocument,
    expected,
    manifests,
)
from podium.rules.policy import Policy
from podium.webhooks import certificates

DOCS = Path(__file__).parents[3] / "docs"
NOW = datetime(2026, 11, 22, 3, 14, 15, tzinfo=UTC)
INSTALLATION = Installation(expected(manifests(), Policy()))
# No check reads the schemas, and copying them is slow.
for _each in INSTALLATION.documents_of("CustomResourceDefinition"):
    for _version in _each["spec"]["versions"]:
        del _version["schema"]
NAMESPACE = INSTALLATION.namespace
NAMES = ("podium-webhook.podium-system.svc", "127.0.0.1")
SECRET = INSTALLATION.within("v1", "secrets/podium-webhook")
SLICES = registration.slices_path(NAMESPACE, "podium-webhook")
GROUPS_CRD = f"{doctor.DEFINITIONS}/podgroups.scheduling.podium.dev"
NATIVE = "/apis/scheduling.k8s.io/v1beta1"
RESERVED = "scheduling.podium.dev/reserved"
SETTINGS = {"preemption": "observe", "evictionsPerMinute": 5, "reservedNodes": RESERVED}
NODES = f"/api/v1/nodes?labelSelector={RESERVED.replace('/', '%2F')}&limit={doctor.SAMPLE}"


NODE: Document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "free"}, "spec": {}}


def authority(start: datetime, end: datetime) -> certificates.Pair:
    return certificates.authority(certificates.new_key(), start, end)


CA = authority(NOW - timedelta(days=100), NOW + timedelta(days=200))
STRANGER = authority(NOW - timedelta(days=1), NOW + timedelta(days=1))


def leaf(days: float, *, names: tuple[str, ...] = NAMES, ca: certificates.Pair = CA) -> str:
    """Return a certificate that expires in this many days, as a Secret stores it."""
    start = NOW - timedelta(days=20)
    pair = certificates.leaf(ca, certificates.new_key(), names, start, NOW + timedelta(days=days))
    return encoded(pair.certificate)


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


LEAF = leaf(20)


@dataclass
class Scene:
    """The mutable facts of a scene."""

    answers: dict[str, Answer]
    version: str = "v1.37.0"
    clock: Clock = field(default_factory=lambda: Clock(NOW, NOW))
    scheduler: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))
    rights: dict[Right, bool | UnreadDocument] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    trial: CreateDryRun | None = None

    def facts(self) -> ClusterFacts:
        return ClusterFacts(
            installation=INSTALLATION,
            cli="0.1.0",
            version=self.version,
            clock=self.clock,
            answers=self.answers,
            rights=self.rights,
            probes=self.probes,
            scheduler=self.scheduler,
            trial=self.trial,
        )

    def document(self, path: str) -> Document:
        found = self.answers[path]
        assert isinstance(found, dict)
        return found

    def items(self, path: str) -> list[Document]:
        found: list[Document] = self.document(path)["items"]
        return found

    def named(self, path: str, name: str) -> Document:
        (found,) = [each for each in self.items(path) if each["metadata"]["name"] == name]
        return found

    def deployment(self, component: str) -> Document:
        return self.named(INSTALLATION.deployments, f"podium-{component}")

    def container(self, component: str) -> Document:
        found: Document = self.deployment(component)["spec"]["template"]["spec"]["containers"][0]
        return found

    def lease(self, component: str) -> Document:
        return self.named(INSTALLATION.leases, f"podium-{component}")

    def drop(self, path: str, name: str) -> None:
        self.items(path).remove(self.named(path, name))

    def bundles(self, bundle: str | None) -> None:
        """Set this bundle in every clientConfig; None removes it."""
        for client in registration.clients(self.facts()).values():
            client.pop("caBundle", None)
            if bundle is not None:
                client["caBundle"] = bundle


def listed(*items: Document) -> Document:
    return {"items": list(items)}


def group(name: str, *versions: str) -> Document:
    """Return an API group as discovery lists it."""
    served = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": served}


def lease(component: str, now: datetime = NOW) -> Document:
    stamp = written(now - timedelta(seconds=2))
    return {
        "metadata": {
            "name": f"podium-{component}",
            "managedFields": [{"time": stamp, "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "holderIdentity": f"podium-{component}-0",
            "leaseDurationSeconds": 15,
            "renewTime": stamp.replace("Z", ".250000Z"),
        },
    }


def webhook(configuration: str, **changes: Any) -> Document:
    """Return another vendor's configuration, whose one webhook is called for all new pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    each = {
        "name": f"{configuration}.example.com",
        "clientConfig": {"service": {"namespace": "theirs", "name": configuration}},
        "rules": [rule],
        "failurePolicy": "Fail",
    }
    return {"metadata": {"name": configuration}, "webhooks": [{**each, **changes}]}


_POLICIES = {
    "ValidatingAdmissionPolicy": doctor.POLICIES,
    "ValidatingAdmissionPolicyBinding": doctor.BINDINGS,
}


def well() -> Scene:
    """Return a complete installation without problems."""
    by_kind = {
        kind: copy.deepcopy(INSTALLATION.documents_of(kind))
        for kind in ("Deployment", *doctor.REGISTRATIONS, "CustomResourceDefinition", *_POLICIES)
    }
    for each in by_kind["Deployment"]:
        each["metadata"]["uid"] = each["metadata"]["name"]
        each["status"] = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    definitions: Mapping[str, Answer] = {
        f"{doctor.DEFINITIONS}/{each['metadata']['name']}": {
            **each,
            "status": {
                "storedVersions": ["v1beta1"],
                "conditions": [
                    {"type": "NamesAccepted", "status": "True"},
                    {"type": "Established", "status": "True"},
                ],
            },
        }
        for each in by_kind["CustomResourceDefinition"]
    }
    taint = {"key": RESERVED, "value": "yes", "effect": "NoSchedule"}
    node = {"metadata": {"name": "node-0"}, "spec": {"taints": [taint]}}
    scene = Scene(
        {
            doctor.GROUPS: {"groups": [group("scheduling.k8s.io", "v1", "v1beta1")]},
            "/apis/scheduling.k8s.io/v1": {"resources": [{"kind": "PriorityClass"}]},
            NATIVE: {"resources": [{"kind": "PodGroup"}, {"kind": "Workload"}]},
            **{path: listed(*by_kind[kind]) for kind, path in doctor.REGISTRATIONS.items()},
            **{
                doctor.policy_path(each): {"kind": "ValidatingAdmissionPolicy"}
                for each in INSTALLATION.policies
            },
            **{path: listed(*by_kind[kind]) for kind, path in _POLICIES.items()},
            doctor.CLASSES: listed({"metadata": {"name": "research"}, "value": 1000}),
            doctor.PODS: listed({"spec": {"schedulerName": "podium-scheduler", "nodeName": "node-0"}}),
            **definitions,
            INSTALLATION.itself: INSTALLATION.documents_of("Namespace")[0],
            INSTALLATION.deployments: listed(*by_kind["Deployment"]),
            INSTALLATION.replica_sets: listed(replica_set()),
            INSTALLATION.pods_path: listed(),
            INSTALLATION.warnings: listed(),
            INSTALLATION.leases: listed(lease("controller"), lease("scheduler")),
            INSTALLATION.settings: {"kind": "ConfigMap"},
            SECRET: {"data": {"tls.crt": LEAF}},
            SLICES: listed({"endpoints": [{"conditions": {"ready": True}}, {"conditions": {}}]}),
            NODES: listed(node),
            doctor.NODES: listed(node, NODE),
        }
    )
    scene.answers = copy.deepcopy(scene.answers)
    scene.bundles(encoded(CA.certificate))
    scene.probes = {"podium-webhook-0": Probe({}, {"priorityclasses.scheduling.k8s.io": 3.0})}
    scene.rights = dict.fromkeys(rights.wanted(INSTALLATION, scene.facts().processes), True)
    scene.trial = CreateDryRun("scheduling.podium.dev/v1alpha2", {"spec": {"disruptionMode": "Pod"}})
    assert neighbours.nodes_path(scene.facts()) == NODES
    assert registration.secret_path(scene.facts()) == SECRET
    return scene
