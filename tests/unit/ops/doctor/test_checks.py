"""The problems of a cluster, one at a time, and the line that the doctor prints for each."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from tests.support.doctor import scene
from tests.support.doctor.scene import INSTALLATION, NOW, Scene, group, leaf, listed, webhook, well
from tests.support.plugins import install_example
from tests.support.rollout import (
    POD,
    REFUSED,
    SET,
    crashing,
    event,
    pod,
    refused,
    replica_set,
    running,
    waiting,
)

from podium.api.priority import TOLERATION_PREFIX
from podium.kube.connection import RawResponse
from podium.kube.reading import NamedUndecodable
from podium.ops.doctor import facts as doctor
from podium.ops.doctor import gather, neighbours, registration, rights
from podium.ops.doctor.check import CheckLevel, DoctorCheck
from podium.ops.doctor.diagnosis import diagnose
from podium.ops.doctor.facts import Clock, CreateDryRun, Probe, Right, UnreadDocument
from podium.runtime.metrics import Statistics, read_cluster

OK, NOTE, WARNING, PROBLEM = CheckLevel.OK, CheckLevel.NOTE, CheckLevel.WARNING, CheckLevel.PROBLEM
FORBIDDEN = UnreadDocument(403, 'User "reader" cannot list this')
_OLDER = "scheduling.podium.dev/v1alpha2"
_LABEL_POLICY = "group-label-immutable.pods.podium.dev"
_THEIRS = registration.slices_path("theirs", "gate")


class Case(NamedTuple):
    """A change to a healthy cluster, and a changed line of the report: its level, and parts of its texts."""

    level: CheckLevel
    title: str
    change: Callable[[Scene], object]
    fact: str
    fix: str = ""
    name: str = ""


ok, note, warning, problem = (partial(Case, level) for level in (OK, NOTE, WARNING, PROBLEM))


def _about(name: str, *cases: Case) -> None:
    """Add cases of one check."""
    CASES.extend(each._replace(name=name) for each in cases)


def _replaced(**changes: object) -> Callable[[Scene], object]:
    return lambda scene: vars(scene).update(changes)


def _answered(path: str, answer: doctor.Answer) -> Callable[[Scene], object]:
    return lambda scene: scene.answers.update({path: answer})


def _shared_devices(slices: doctor.Answer) -> Callable[[Scene], object]:
    """A scheduler without reservedNodes, on a server that gives this answer about ResourceSlices."""

    def change(scene: Scene) -> None:
        scene.scheduler = {"preemption": "observe"}
        scene.document(doctor.GROUPS)["groups"].append(group("resource.k8s.io", "v1"))
        scene.answers[neighbours.devices_path(scene.facts())] = slices

    return change


def _registered(path: str, document: doctor.Document) -> Callable[[Scene], object]:
    return lambda scene: scene.items(path).append(document)


def _certified(certificate: str) -> Callable[[Scene], object]:
    return _answered(scene.SECRET, {"data": {"tls.crt": certificate}})


def _bare(scene: Scene) -> None:
    """Nothing is installed."""
    for path, answer in scene.answers.items():
        kept = (doctor.GROUPS, doctor.NODES)
        if path not in kept and isinstance(answer, dict) and "items" in answer:
            scene.answers[path] = listed()
    for each in INSTALLATION.documents_of("CustomResourceDefinition"):
        scene.answers[f"{doctor.DEFINITIONS}/{each['metadata']['name']}"] = UnreadDocument(404, "not found")
    scene.scheduler, scene.rights, scene.probes, scene.trial = {}, {}, {}, None


def _old(scene: Scene) -> None:
    _bare(scene)
    scene.version = "v1.31.4"


def _not_established(scene: Scene) -> None:
    conditions = scene.document(scene_crd())["status"]["conditions"]
    conditions[1].update(status="False", message="names are taken")


def scene_crd() -> str:
    return scene.GROUPS_CRD


def _older_not_served(scene: Scene) -> None:
    scene.document(scene_crd())["spec"]["versions"][0]["served"] = False


def _all_off(scene: Scene) -> None:
    for path in doctor.REGISTRATIONS.values():
        scene.answers[path] = listed()


def _emptied(scene: Scene) -> None:
    for path in doctor.REGISTRATIONS.values():
        del scene.named(path, "podium")["webhooks"]


def _registered_elsewhere(client: doctor.Document) -> Callable[[Scene], object]:
    """Another address in the first webhook."""

    def change(scene: Scene) -> None:
        first = scene.named(doctor.MUTATING, "podium")["webhooks"][0]
        first["clientConfig"] = {**client, "caBundle": first["clientConfig"]["caBundle"]}

    return change


def _by_helm(*components: str) -> Callable[[Scene], object]:
    """Some Deployments of a release."""

    def change(scene: Scene) -> None:
        for each in components:
            metadata = scene.deployment(each)["metadata"]
            metadata["labels"]["app.kubernetes.io/managed-by"] = "Helm"
            metadata["annotations"] = {"meta.helm.sh/release-name": "mine"}

    return change


def _bare_with(*nodes: doctor.Document) -> Callable[[Scene], object]:
    """Nothing is installed in a cluster of these nodes."""

    def change(scene: Scene) -> None:
        _bare(scene)
        scene.answers[doctor.NODES] = listed(*nodes)

    return change


def _bare_unread(scene: Scene) -> None:
    _bare(scene)
    scene.answers[doctor.NODES] = FORBIDDEN


def _bare_rights(answer: bool | UnreadDocument | None) -> Callable[[Scene], object]:
    """Nothing is installed; the answer about the right to create Deployments, None for all rights."""

    def change(scene: Scene) -> None:
        _bare(scene)
        scene.rights = dict.fromkeys(rights.installing(INSTALLATION), True)
        one = Right("", _NAMESPACE, "apps", "deployments", "", "create")
        assert one in scene.rights
        if answer is None:
            scene.rights = {rights.ALL: True}
        else:
            scene.rights[one] = answer

    return change


_NAMESPACE = INSTALLATION.namespace


def _closed(scene: Scene) -> None:
    pods = scene.named(doctor.VALIDATING, "podium")["webhooks"][1]
    assert pods["name"] == "pods.podium.dev"
    pods["failurePolicy"] = "Fail"


def _open(scene: Scene) -> None:
    scene.named(doctor.VALIDATING, "podium")["webhooks"][0]["failurePolicy"] = "Ignore"


def _levels(scene: Scene) -> None:
    scene.named(doctor.VALIDATING, "podium")["webhooks"][1]["matchConditions"] = []


def _family_off(scene: Scene) -> None:
    scene.named(doctor.VALIDATING, "podium")["webhooks"].pop()


def _expired_authority(each: Scene) -> None:
    ca = scene.authority(NOW - timedelta(days=90), NOW - timedelta(days=1))
    each.answers[scene.SECRET] = {"data": {"tls.crt": leaf(20, ca=ca)}}
    each.bundles(scene.encoded(ca.certificate))


def _only_expired_authority(each: Scene) -> None:
    _expired_authority(each)
    each.answers[scene.SECRET] = FORBIDDEN


def _cert_manager(each: Scene) -> None:
    """Certificates come from a volume."""
    container = each.container("webhook")
    container["args"] = ["webhook", "--provided-cert-dir=/certificate"]
    spec = each.deployment("webhook")["spec"]["template"]["spec"]
    spec["volumes"].append({"name": "certificate", "secret": {"secretName": "issued"}})
    each.answers[INSTALLATION.within("v1", "secrets/issued")] = {"data": {"tls.crt": leaf(3)}}


def _dead_gate(scene: Scene) -> None:
    scene.items(doctor.MUTATING).append(webhook("gate"))
    scene.answers[_THEIRS] = listed({"endpoints": [{"conditions": {"ready": False}}]})


def _waiting(scene: Scene) -> None:
    scene.drop(INSTALLATION.deployments, "podium-scheduler")
    scene.answers[doctor.PODS] = listed(*({"spec": {"schedulerName": "podium-scheduler"}},) * 2)


def _unavailable(scene: Scene) -> None:
    scene.deployment("webhook")["status"] = {"replicas": 2, "updatedReplicas": 2}
    scene.items(INSTALLATION.pods_path).append(pod(waiting("ImagePullBackOff", "no such")))


def _stuck(scene: Scene) -> None:
    """Two old pods run, and the first new one crashes."""
    scene.deployment("webhook")["status"] = {"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}
    scene.items(INSTALLATION.pods_path).append(pod(crashing(4)))


def _rolling(scene: Scene) -> None:
    scene.deployment("webhook")["status"] = {"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}
    scene.items(INSTALLATION.pods_path).append(pod(waiting("ContainerCreating")))


def _rolling_unread(scene: Scene) -> None:
    _rolling(scene)
    scene.answers[INSTALLATION.pods_path] = FORBIDDEN


def _unhealthy(scene: Scene) -> None:
    scene.deployment("webhook")["status"]["availableReplicas"] = 1
    scene.items(INSTALLATION.pods_path).append(pod(running()))
    scene.items(INSTALLATION.warnings).append(event(POD, "Unhealthy", "Readiness probe failed"))


def _no_quota(scene: Scene) -> None:
    scene.deployment("webhook")["status"] = {}
    scene.answers[INSTALLATION.replica_sets] = listed(replica_set(refused(REFUSED["a quota"])))


def _one_replica(scene: Scene) -> None:
    scene.deployment("scheduler")["spec"]["replicas"] = 1
    scene.deployment("scheduler")["status"] = dict.fromkeys(
        ("replicas", "updatedReplicas", "availableReplicas"), 1
    )


def _led_once(each: Scene) -> None:
    each.drop(INSTALLATION.leases, "podium-controller")
    each.items(INSTALLATION.leases).append(scene.lease("controller", NOW - timedelta(minutes=5)))


def _other_clock(each: Scene) -> None:
    each.lease("scheduler")["spec"]["renewTime"] = "2026-11-22T03:16:13.000000Z"


def _lacking(scene: Scene) -> None:
    for right in [each for each in scene.rights if each[0] == "podium-controller"][:1]:
        scene.rights[right] = False


def _rights_unread(scene: Scene) -> None:
    scene.rights = dict.fromkeys(scene.rights, FORBIDDEN)


def _two_defaults(scene: Scene) -> None:
    scene.items(doctor.CLASSES).extend(
        {"metadata": {"name": name}, "value": value, "globalDefault": True}
        for name, value in (("usual", 10), ("older", 5))
    )


def _tolerations(scene: Scene) -> None:
    scene.items(doctor.CLASSES).extend(
        {
            "metadata": {
                "name": name,
                "annotations": {
                    f"{TOLERATION_PREFIX}minimum-preemptable-priority": "1000",
                    f"{TOLERATION_PREFIX}toleration-seconds": seconds,
                },
            },
            "value": value,
        }
        for name, seconds, value in (
            ("an-hour", "7200", 10),
            ("for-ever", "-1", 10),
            ("longer", str(2**62), 10),
            ("none", "0", 10),
            ("above", "60", 2000),
        )
    )


def _served(*names: str) -> Callable[[Scene], object]:
    return lambda scene: scene.document(doctor.GROUPS)["groups"].extend(group(each, "v1") for each in names)


def _policy(path: str, api: str, spec: doctor.Document) -> Callable[[Scene], object]:
    def change(scene: Scene) -> None:
        _served(api)(scene)
        scene.answers[path] = listed({"metadata": {"name": "set-class"}, "spec": spec})

    return change


UNDECODABLE = [NamedUndecodable("pods", "team", f"p{each}", "expected `int`") for each in range(12)]
CASES: list[Case] = []
_about(
    "server-version",
    warning(
        "an old server", _old, "admission and reconciler needs 1.32 (the CEL format library", "command line"
    ),
    problem(
        "an old server with Podium on it",
        _replaced(version="v1.31.4-gke.1"),
        "Kubernetes v1.31.4-gke.1: admission and reconciler needs 1.32 (the CEL format library",
        "upgrade first",
    ),
    note("a newer server", _replaced(version="v1.41.0"), "newer than the newest", "upgrade podium"),
    note(
        "a server of a minor that is known from a beta",
        _replaced(version="v1.38.0"),
        "knows Kubernetes 1.38 (beta) from 1.38.0-beta.0",
        "upgrade podium",
    ),
    note("no version", _replaced(version="edge"), "version edge is not", "1.32 for"),
)
_about(
    "clock",
    warning(
        "our clock is fast",
        _replaced(clock=Clock(NOW + timedelta(minutes=3), NOW)),
        "this machine's clock is 3 minutes ahead of the API server's",
        "NTP",
    ),
    warning("our clock is slow", _replaced(clock=Clock(NOW - timedelta(hours=3), NOW)), "3 hours behind"),
    note("no Date", _replaced(clock=Clock(NOW, None)), "has no time"),
    warning("a leader's clock", _other_clock, "the clock of podium-scheduler-0 is 2 minutes ahead"),
)
_about(
    "workload-api",
    note(
        "gates are off",
        _answered(scene.NATIVE, {"resources": []}),
        "not served natively",
        "--runtime-config=scheduling.k8s.io/v1beta1=true",
    ),
    warning(
        "another version of the API",
        lambda each: (
            _answered(doctor.GROUPS, {"groups": [group("scheduling.k8s.io", "v1", "v2")]})(each),
            _answered("/apis/scheduling.k8s.io/v2", {"resources": [{"kind": "PodGroup"}]})(each),
        ),
        "only as scheduling.k8s.io/v2",
        "upgrade podium",
    ),
    note("no groups to read", _answered(doctor.GROUPS, FORBIDDEN), "cannot list", "with an account that may"),
)
_about(
    "installed",
    note("nothing installed", _bare, "only the command line is used", "docs/install.md"),
    note(
        "only registered",
        _answered(INSTALLATION.deployments, listed()),
        "webhooks are registered, but no process",
    ),
    problem(
        "no controller",
        lambda each: each.drop(INSTALLATION.deployments, "podium-controller"),
        "no Deployment podium-controller in podium-system",
        "pply Podium's manifests",
    ),
)
_about(
    "versions",
    warning(
        "images differ",
        lambda each: each.container("webhook").update(image="podium:0.0.9"),
        "webhook runs podium:0.0.9, controller runs podium:0.1.0",
    ),
    note(
        "another version than this command's",
        lambda each: [
            each.container(name).update(image="registry:5000/podium:0.3.0@sha256:0")
            for name in doctor.COMPONENTS
        ],
        "the processes run registry:5000/podium:0.3.0@sha256:0, this command is podium 0.1.0",
    ),
)
_about(
    "namespace",
    note(
        "a namespace without PodSecurity",
        _answered(INSTALLATION.itself, {"metadata": {"name": "podium-system"}}),
        "does not enforce PodSecurity",
        "kubectl label",
    ),
)
_about(
    "deployment",
    problem(
        "no pod runs",
        _unavailable,
        f"podium-webhook has 0 of 2 pods available: Pod {POD}: ImagePullBackOff: no such",
        "kubectl -n podium-system describe pods",
    ),
    warning(
        "a rollout that is stuck while the old pods run",
        _stuck,
        f"podium-webhook has 1 of 2 new pods, and its old pods still run: Pod {POD}: CrashLoopBackOff: ",
        f"kubectl -n podium-system logs {POD} -c webhook",
    ),
    note(
        "a rollout",
        _rolling,
        "podium-webhook is being rolled out: it has 1 of 2 new pods",
        "podium doctor again",
    ),
    note(
        "a rollout whose pods cannot be read",
        _rolling_unread,
        "the ReplicaSets, pods or Events of a rollout were not read",
        "run podium doctor with an account",
    ),
    warning(
        "a pod that is not ready",
        _unhealthy,
        f"podium-webhook has 1 of 2 pods available: Pod {POD}: Unhealthy: Readiness probe failed",
        f"kubectl -n podium-system logs {POD} -c webhook",
    ),
    warning(
        "one pod runs",
        lambda each: each.deployment("controller")["status"].update(availableReplicas=1),
        "podium-controller has 1 of 2 pods available",
        "kubectl -n podium-system describe pods",
    ),
    problem(
        "a quota keeps pods away",
        _no_quota,
        f"podium-webhook has 0 of 2 pods available: ReplicaSet {SET}: FailedCreate: {REFUSED['a quota']}",
    ),
    problem(
        "no replica is wanted",
        lambda each: each.deployment("webhook").update(
            spec={**each.deployment("webhook")["spec"], "replicas": 0}
        ),
        "no other replica can take over",
        "--replicas=2",
    ),
    warning("a single replica", _one_replica, "no other replica can take over", "--replicas=2"),
)
_about(
    "leader",
    problem("a leader that hangs", _led_once, "has not renewed it for 5 minutes: no leader", "logs"),
    problem(
        "no leader",
        lambda each: each.lease("scheduler")["spec"].pop("holderIdentity"),
        "Lease podium-scheduler has no holder",
        "logs deployment/podium-scheduler",
    ),
    problem("no Lease", _answered(INSTALLATION.leases, listed()), "no leader"),
    ok(
        "a Lease that tells no times",
        lambda each: each.lease("controller").update(
            metadata={"name": "podium-controller"}, spec={"holderIdentity": "me"}
        ),
        "me holds Lease podium-controller",
    ),
)
_about(
    "process",
    problem(
        "a process is not ready",
        _replaced(
            probes={"podium-webhook-0": Probe(UnreadDocument(503, "not ready: pods: not watched"), {})}
        ),
        "podium-webhook-0 reports: not ready: pods: not watched",
        "logs podium-webhook-0",
    ),
    note(
        "processes cannot be reached",
        _replaced(probes={each: Probe(UnreadDocument(403, "no proxy for you"), {}) for each in ("a", "b")}),
        "a, b were not reached: no proxy for you",
        "port-forward pod/a 9000:metrics",
    ),
)
_about(
    "cache",
    problem(
        "a cache is old",
        _replaced(probes={"podium-webhook-0": Probe({}, {"pods": 3.0, "nodes": 400.0})}),
        "has no update of nodes for up to 6 minutes",
        "watch failed",
    ),
)
_about(
    "undecodable",
    warning(
        "objects that cannot be decoded",
        _replaced(probes={f"podium-webhook-{each}": Probe({}, {}, UNDECODABLE) for each in range(2)}),
        "podium-webhook-0, podium-webhook-1 cannot decode pods team/p0: expected `int`",
        "kubectl -n team get pods p0 -o json shows it",
    ),
    warning(
        "more objects that cannot be decoded than are named",
        _replaced(probes={"podium-webhook-0": Probe({}, {}, UNDECODABLE)}),
        "2 more objects cannot be decoded",
        "object not decodable",
    ),
)
_about(
    "preemption",
    warning(
        "evictions without a limit",
        _replaced(scheduler={"preemption": "enforce", "reservedNodes": scene.RESERVED}),
        "preemption: enforce; podium-scheduler evicts, without a limit",
        "evictionsPerMinute",
    ),
    ok(
        "preemption off",
        _replaced(scheduler={"preemption": False, "reservedNodes": scene.RESERVED}),
        "preemption: off; podium-scheduler evicts no pod",
    ),
)
_about(
    "plugins",
    note(
        "a plugin of the scheduler that is not installed here",
        _replaced(scheduler={"preemption": "observe", "plugins": ["power-feed"]}),
        "podium-scheduler uses power-feed, not installed here: whatif and why plan without",
        "install the same version here",
    ),
)
_about(
    "policies",
    warning(
        "no policy on deletions",
        _answered(doctor.policy_path("podium-scheduler-deletes"), UnreadDocument(404, "not found")),
        "not restricted by ValidatingAdmissionPolicy podium-scheduler-deletes",
        "pply Podium's manifests",
    ),
    warning(
        "no policy on what the reconciler writes",
        _answered(doctor.policy_path("podium-controller-updates"), UnreadDocument(404, "not found")),
        "podium-controller is not restricted by ValidatingAdmissionPolicy podium-controller-updates",
        "pply Podium's manifests",
    ),
    note(
        "policies may not be read",
        _answered(doctor.policy_path("podium-scheduler-binds"), UnreadDocument(403, "no")),
        "the policies of podium-scheduler were",
    ),
)
_about(
    "admission-policies",
    warning(
        "no policy on the label",
        lambda scene: scene.drop(doctor.POLICIES, _LABEL_POLICY),
        f"no ValidatingAdmissionPolicy {_LABEL_POLICY} is bound",
        "manifests policies",
    ),
    warning(
        "a policy that only warns",
        lambda scene: scene.named(doctor.BINDINGS, _LABEL_POLICY)["spec"].update(validationActions=["Warn"]),
        f"no ValidatingAdmissionPolicy {_LABEL_POLICY} is bound",
        "manifests policies",
    ),
    warning(
        "a policy of another AdmissionPolicy",
        lambda scene: scene.named(doctor.POLICIES, _LABEL_POLICY)["spec"]["validations"][0].update(
            expression="true"
        ),
        f"ValidatingAdmissionPolicy {_LABEL_POLICY} does not match the webhook's AdmissionPolicy",
        "--config FILE",
    ),
    note(
        "policies that may not be listed",
        _answered(doctor.BINDINGS, FORBIDDEN),
        "the ValidatingAdmissionPolicies were not read",
        "may read this",
    ),
)
_about(
    "custom-resources",
    problem(
        "a kind is missing",
        _answered(scene.GROUPS_CRD, UnreadDocument(404, "not found")),
        "podgroups.scheduling.podium.dev does not exist",
        "pply Podium's manifests",
    ),
    problem(
        "a kind is not established", _not_established, "Established: names are taken", "kubectl describe"
    ),
    warning(
        "objects in an older version",
        lambda each: each.document(scene.GROUPS_CRD)["status"].update(storedVersions=["v1alpha1", "v1beta1"]),
        "stored as v1alpha1 and v1beta1",
        "status.storedVersions",
    ),
    note("one version only", _older_not_served, "does not serve v1alpha2"),
)
_about(
    "registration",
    problem(
        "nothing registered",
        _all_off,
        "ValidatingWebhookConfiguration podium does not exist: its webhooks are off",
        "apply Podium's manifests",
    ),
    problem(
        "the processes have not registered",
        _emptied,
        "MutatingWebhookConfiguration podium has no webhooks",
        "logs deployment/podium-webhook",
    ),
    warning(
        "registered by URL",
        _registered_elsewhere({"url": "https://10.0.0.1:9443/mutate"}),
        "is registered at https://10.0.0.1:9443/mutate, by a process with --register-url",
        "stop that process",
    ),
    problem(
        "registered by another installation",
        _registered_elsewhere({"service": {"namespace": "other", "name": "podium-webhook"}}),
        "is registered for a Service in other, by another installation",
        "remove that installation",
    ),
    problem(
        "half registered",
        _answered(doctor.MUTATING, listed()),
        "MutatingWebhookConfiguration podium does not exist",
    ),
    warning("fails closed for pods", _closed, "pods.podium.dev has failurePolicy Fail"),
    warning("fails open for groups", _open, "groups.podium.dev has failurePolicy Ignore"),
    note("other levels", _levels, "pods.podium.dev has other rules", "rollout restart"),
    note("rules off", _family_off, "lacks native-groups.podium.dev"),
)
_about(
    "installed-by",
    ok("by Helm", _by_helm("webhook", "controller", "scheduler"), "Helm release mine"),
    warning(
        "by Helm and by kubectl",
        _by_helm("webhook"),
        "podium-webhook: Helm release mine; podium-controller and podium-scheduler: no Helm release",
        "delete the Deployments",
    ),
)
_about(
    "own-pods",
    ok("a node for it", _bare, "a node accepts the pods"),
    ok("no node yet", _bare_with(), "there is no node yet"),
    problem(
        "reserved nodes only",
        _bare_with({**scene.NODE, "spec": {"taints": [{"key": scene.RESERVED, "effect": "NoSchedule"}]}}),
        "none of 1 nodes accepts Podium's own pods",
        "remove the taint",
    ),
    warning(
        "fake nodes only",
        _bare_with({**scene.NODE, "metadata": {"name": "f", "annotations": {"kwok.x-k8s.io/node": "fake"}}}),
        "all of 1 node are fake (kwok)",
    ),
    note("nodes are closed", _bare_unread, "the nodes were not read"),
)
_about(
    "install-rights",
    ok("may install", _bare_rights(None), "you may install Podium"),
    note(
        "may not install",
        _bare_rights(False),
        "you may not install Podium: 1 right missing: create deployments.apps in podium-system",
        "ask a cluster-admin",
    ),
    note("own rights are not told", _bare_rights(FORBIDDEN), "your own rights were not read"),
)
_about(
    "ca-bundle",
    problem("no caBundle", lambda each: each.bundles(None), "no caBundle in ", "logs"),
    problem(
        "another CA",
        lambda each: each.bundles(scene.encoded(scene.STRANGER.certificate)),
        "is not the CA of the served certificate",
        "the webhook writes the caBundle",
    ),
    problem("no CA", lambda each: each.bundles("bm9uc2Vuc2U="), "is not the CA"),
    problem("an expired CA", _expired_authority, "the CA in the caBundle expired 24 hours ago"),
    ok("only CAs can be read", _answered(scene.SECRET, FORBIDDEN), "9 of 9 have a CA that is valid"),
    problem("only an expired CA can be read", _only_expired_authority, " has no valid CA", "logs"),
)
_about(
    "certificate",
    problem("an expired certificate", _certified(leaf(-1)), "expired 24 hours ago", "logs"),
    warning("soon", _certified(leaf(4)), "is valid for another 4 days, and was not renewed"),
    problem(
        "a certificate for another name",
        _certified(leaf(20, names=("example.com",))),
        "is for example.com, but API servers expect podium-webhook.podium-system.svc",
    ),
    problem("no certificate", _answered(scene.SECRET, {"data": None}), "is empty"),
    problem("nonsense", _certified("????"), "tls.crt: is not base64"),
    problem("no PEM", _certified("AAAA"), "no PEM certificate"),
    note("Secrets are closed", _answered(scene.SECRET, FORBIDDEN), "not read", "with an account that may"),
    warning("issued by cert-manager", _cert_manager, "Secret podium-system/issued is valid"),
)
_about(
    "endpoints",
    problem(
        "a Service without endpoints",
        _answered(scene.SLICES, listed({"endpoints": [{"conditions": {"ready": False}}]})),
        "Service podium-system/podium-webhook has no ready endpoint",
        "get pods",
    ),
)
_about(
    "trial",
    problem(
        "no answer",
        _replaced(
            trial=CreateDryRun(_OLDER, UnreadDocument(500, 'failed calling webhook "groups.podium.dev"'))
        ),
        "a dry run of a group of v1alpha2 failed: failed calling webhook",
        "logs deployment/podium-webhook",
    ),
    ok(
        "a policy refuses",
        _replaced(
            trial=CreateDryRun(
                _OLDER, UnreadDocument(403, 'admission webhook "g" denied the request: no class')
            )
        ),
        "refused by your policy",
    ),
    note(
        "no right to try",
        _replaced(trial=CreateDryRun(_OLDER, FORBIDDEN)),
        "was not possible",
        "an account that may create podgroups",
    ),
    problem(
        "an empty caBundle",
        _replaced(trial=CreateDryRun(_OLDER, {"spec": {}})),
        "no webhook set its disruptionMode",
    ),
)
_about(
    "rights",
    problem("a right is missing", _lacking, "account podium-controller lacks 1 right: ", "install"),
    note("rights are not told", _rights_unread, "account podium-webhook were not read"),
)
_about(
    "other-webhooks",
    warning(
        "a webhook in the way",
        _registered(doctor.MUTATING, webhook("gate")),
        "gate.example.com (gate) intercepts the pods of podium-system and fails closed: if it is down",
        "exempt the namespace podium-system",
    ),
    problem("a dead webhook in the way", _dead_gate, "theirs/gate has no ready endpoint"),
    note(
        "a webhook on everything",
        _registered(
            doctor.VALIDATING,
            webhook(
                "all",
                failurePolicy="Ignore",
                rules=[{"apiGroups": ["*"], "operations": ["*"], "resources": ["*/*"]}],
            ),
        ),
        "all also intercepts Podium's groups",
    ),
)
_about(
    "priority-mutators",
    note(
        "a webhook that writes on pods",
        _registered(doctor.MUTATING, webhook("sidecars", failurePolicy="Ignore")),
        "sidecars may change pods",
        "podium audit",
    ),
    warning(
        "Kyverno sets classes",
        _policy(
            "/apis/kyverno.io/v1/clusterpolicies",
            "kyverno.io",
            {"rules": [{"mutate": {"patchStrategicMerge": {"spec": {"priorityClassName": "low"}}}}]},
        ),
        "Kyverno ClusterPolicy set-class may change the class",
        "exclude members",
    ),
    warning(
        "Gatekeeper sets classes",
        _policy(
            "/apis/mutations.gatekeeper.sh/v1/assign",
            "mutations.gatekeeper.sh",
            {"location": "spec.priorityClassName"},
        ),
        "Gatekeeper Assign set-class",
    ),
    note(
        "the webhooks for pods may not be read",
        lambda each: (
            _served("kyverno.io")(each),
            _answered("/apis/kyverno.io/v1/clusterpolicies", FORBIDDEN)(each),
        ),
        "other components that change pods were not read",
        "with an account that may",
    ),
)
_about(
    "other-schedulers",
    note(
        "two kinds of podgroups beside ours",
        _served("scheduling.volcano.sh"),
        "may return those of scheduling.volcano.sh and scheduling.k8s.io",
        "podgroups.scheduling.podium.dev",
    ),
    problem("no scheduler runs under our name", _waiting, "2 pods wait for podium-scheduler"),
    ok(
        "pods of others",
        _answered(doctor.PODS, listed({"spec": {"schedulerName": "volcano"}})),
        "beside kube-scheduler: 1 pod for volcano",
    ),
    ok(
        "many pods of others",
        _answered(doctor.PODS, listed(*({"spec": {"schedulerName": "volcano"}},) * doctor.SAMPLE)),
        "500 pods at least for volcano",
    ),
    note("no pods to read", _answered(doctor.PODS, FORBIDDEN), "pods were not read"),
    *(
        note(f"{name} is there", _served(name), f"{name}: ")
        for name in ("kueue.x-k8s.io", "scheduling.volcano.sh", "scheduling.run.ai", "scheduling.x-k8s.io")
    ),
)
_about(
    "priority-classes",
    warning(
        "two defaults",
        _two_defaults,
        "older and usual are all globalDefault; the smallest value wins (older)",
        "keep globalDefault on only one",
    ),
)
_about(
    "preemption-toleration",
    note(
        "a toleration that ends",
        _tolerations,
        "pods of an-hour (2 hours) are not preempted for that time after their start",
        "docs/saving.md",
    ),
)
_about(
    "reserved-nodes",
    problem("no node", _answered(scene.NODES, listed()), "no node has the label", "taint"),
    warning(
        "a node without the taint",
        _answered(scene.NODES, listed({"metadata": {"name": "node-7"}, "spec": {}})),
        "node-7 of 1 reserved node lack the taint",
        "kubectl taint node NODE",
    ),
    warning("all nodes", _replaced(scheduler={"preemption": "observe"}), "shares all nodes", "reserve nodes"),
    warning(
        "devices of all nodes",
        _shared_devices(listed({"metadata": {"name": "node-0-gpu"}})),
        "both may allocate one device at once",
        "docs/scheduler.md, Beside kube-scheduler",
    ),
    note(
        "slices may not be read",
        _shared_devices(FORBIDDEN),
        "the ResourceSlices were not read",
        "an account that may read this",
    ),
)


WELL = diagnose(well().facts())


def test_all_is_well() -> None:
    """Each check has a line for a cluster without problems, and at most a hint on kubectl."""
    assert [each for each in WELL if each.level is not OK] == [
        DoctorCheck(
            NOTE,
            "other-schedulers",
            "kubectl get podgroups may return those of scheduling.k8s.io",
            "use kubectl get podgroups.scheduling.podium.dev",
        )
    ]
    assert {each.name for each in WELL} == {each.name for each in CASES} - {
        *("cache", "namespace", "own-pods", "install-rights", "plugins")
    }


@pytest.mark.parametrize(
    ("label", "slices"),
    [
        pytest.param(scene.RESERVED, listed({"metadata": {"name": "node-0-gpu"}}), id="reserved nodes"),
        pytest.param(None, listed(), id="no slice"),
    ],
)
def test_devices_that_no_other_scheduler_allocates_have_no_line(
    label: str | None, slices: doctor.Document
) -> None:
    made = well()
    _shared_devices(slices)(made)
    made.scheduler["reservedNodes"] = label
    assert not [each for each in diagnose(made.facts()) if "device" in each.fact]


def test_a_pod_that_is_being_deleted_is_not_asked() -> None:
    """After a rollout, an old pod that drains is no problem."""
    cluster = well()
    leaving = pod(running(), name="old", deletionTimestamp="2026-11-22T03:14:00Z")
    cluster.items(INSTALLATION.pods_path).extend([leaving, pod(running(), name="new")])
    assert [each["metadata"]["name"] for each in cluster.facts().running_pods] == ["new"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_each_problem_has_a_line(case: Case) -> None:
    """Each line has fact and fix, the worst come first, and every problem has a fix."""
    made = well()
    case.change(made)
    found = diagnose(made.facts())
    about = [each for each in found if each.name == case.name]
    matching = [each for each in about if each.level is case.level and case.fact in each.fact]
    assert matching, about
    assert case.fix in matching[0].fix
    levels = [list(CheckLevel).index(each.level) for each in found]
    assert levels == sorted(levels)
    for each in found:
        assert each.fix or each.level in (OK, NOTE), each
        assert each.fact
        assert "\n" not in each.fact + each.fix
    assert not [each for each in WELL if each.name == case.name and case.fact in each.fact]


@given(st.data())
def test_a_denied_read_is_no_problem(data: st.DataObject) -> None:
    """A refused read of a healthy cluster is never a problem."""
    made = well()
    refused = data.draw(st.sets(st.sampled_from(sorted(made.answers))))
    made.answers.update(dict.fromkeys(refused, FORBIDDEN))
    assert [each for each in diagnose(made.facts()) if each.level is PROBLEM] == []


def test_podgroups_are_podiums_without_another_api() -> None:
    """Without the gates kubectl's short name means Podium's groups, which needs no note."""
    made = well()
    made.answers[scene.NATIVE] = {"resources": []}
    assert "kubectl" not in "".join(each.fact for each in diagnose(made.facts()))


@given(st.data())
def test_missing_objects_do_not_change_other_lines(data: st.DataObject) -> None:
    """The other lines exist, whatever is missing."""
    made = well()
    missing = data.draw(st.sets(st.sampled_from(sorted(made.answers))))
    made.answers.update(dict.fromkeys(missing, UnreadDocument(404, "not found")))
    assert diagnose(made.facts())


@pytest.mark.parametrize(
    ("changes", "reviewed"),
    [
        ({}, True),
        ({"failurePolicy": "Ignore"}, False),
        ({"rules": []}, False),
        ({"rules": [{"apiGroups": ["apps"], "operations": ["*"], "resources": ["*"]}]}, False),
        ({"rules": [{"apiGroups": ["*"], "operations": ["UPDATE"], "resources": ["*"]}]}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "podium-system"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"inject": "yes"}}}, False),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": ["podium-system"],
                        }
                    ]
                }
            },
            False,
        ),
        ({"objectSelector": {"matchLabels": {"app.kubernetes.io/part-of": "podium"}}}, True),
        ({"objectSelector": {"matchLabels": {"inject": "yes"}}}, False),
    ],
)
def test_a_webhook_that_fails_closed_on_podiums_pods_is_a_problem(
    changes: doctor.Document, reviewed: bool
) -> None:
    """The webhook fails closed and is called for our new pods, by its rules and both selectors."""
    made = well()
    made.items(doctor.VALIDATING).append(webhook("gate", **changes))
    assert [each.configuration for each in neighbours.in_our_way(made.facts())] == ["gate"] * reviewed


def test_the_ages_of_caches_are_read_from_what_a_process_serves() -> None:
    """The metrics are those of a process, written by prometheus-client, which the doctor does without."""
    statistics = mock.Mock(spec=Statistics, observer_errors=0, longest_callback=0.0)
    statistics.ages.return_value = {"pods": 1.5, "podgroups.scheduling.k8s.io": 0.25}
    for numbers in (statistics.undecodable, statistics.undecodable_reads):
        numbers.return_value = {}
    registry = CollectorRegistry()
    read_cluster(registry, statistics)
    metrics = generate_latest(registry)
    assert gather._ages(RawResponse(200, {}, metrics)) == statistics.ages()
    assert gather._ages(RawResponse(503, {}, metrics)) == {}


def test_plugins_that_are_installed_and_used_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example(monkeypatch, tmp_path)
    made = well()
    made.scheduler = {"preemption": "observe", "plugins": ["power-feed"]}
    (check,) = [check for check in diagnose(made.facts()) if check.name == "plugins"]
    fact = "installed here: power-feed 0.1.0; podium-scheduler uses power-feed"
    assert (check.level, check.fact) == (OK, fact)
