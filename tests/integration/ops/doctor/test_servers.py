"""`podium doctor` on real API servers: without Podium, with Podium, and with many faults."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import kubeconfig_of
from tests.support.controllers.running import spawn
from tests.support.doctor.running import Line, about, doctor
from tests.support.doctor.scene import encoded, webhook
from tests.support.install.scene import patch, stored
from tests.support.proxy import Cut, Proxy, Refuse, Where
from tests.support.rights import NAMESPACE, Page
from tests.support.servers import Server, exclusive, in_turn
from tests.support.webhooks import deployed
from tests.support.webhooks.running import Running, ending
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import RELEASES
from tools.manifests import render

from podium.ops.doctor.facts import MUTATING, VALIDATING
from podium.webhooks import certificates

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

MANIFESTS = render.MANIFESTS / "rendered" / "scheduler.yaml"
_PODIUM = Path(sys.executable).with_name("podium")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/podium-webhook"
_RESERVED = "scheduling.podium.dev/reserved"


def problems(lines: list[Line]) -> list[tuple[str, str]]:
    return [(each.name, each.fact) for each in lines if each.level == "problem"]


@pytest.fixture(scope="module", params=in_turn(__name__))
def bare(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server for this module: on a shared one others leave pods that wait for a scheduler."""
    with exclusive(RELEASES[request.param]) as server:
        yield server


def test_a_bare_server(bare: Server) -> None:
    """A missing install is one line and no problem; the line of native groups has their version."""
    code, lines = doctor(bare.kubeconfig)
    assert code == 0
    assert problems(lines) == []
    ((level, fact),) = about(lines, "workload-api")
    assert level == "ok"
    assert {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}[
        bare.release.minor
    ] in fact
    assert about(lines, "server-version")[0][0] == "ok"
    assert about(lines, "clock") == [("ok", "this machine's clock and the API server's agree")]
    assert about(lines, "install-rights") == [("ok", "you may install Podium")]
    assert about(lines, "own-pods") == [("ok", "there is no node yet")]


@pytest.mark.parametrize("minor", in_turn(__name__))
def test_a_server_without_the_gates(minor: str) -> None:
    """Podium's own groups replace the native ones."""
    with exclusive(RELEASES[minor], workload_api=False) as server:
        code, lines = doctor(server.kubeconfig)
    assert code == 0
    ((level, fact),) = about(lines, "workload-api")
    assert (level, "GenericWorkload" in fact) == ("note", True)


def test_missing_rights_give_lines_and_no_problem(server_137: Server, namespace: str, tmp_path: Path) -> None:
    """Each refused read is a line with the API server's message."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    code, lines = doctor(kubeconfig_of(server_137, namespace, rules, tmp_path))
    assert code == 0
    unread = [each for each in lines if "is forbidden" in each.fact]
    assert {"installed", "custom-resources", "registration", "other-webhooks", "priority-classes"} <= {
        each.name for each in unread
    }
    assert {each.level for each in unread} == {"note"}
    assert {each.fix for each in unread} == {"run podium doctor with an account that may read this"}


def test_a_server_in_trouble(bare: Server, tmp_path: Path) -> None:
    """A refused request and a request without an answer are a line each; the other lines are unchanged."""
    with Proxy(bare).running() as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path)
        with (
            proxy.fault(Where("/priorityclasses$"), Cut(answered=False)),
            proxy.fault(Where("/apis$"), Refuse(503)),
        ):
            code, lines = doctor(kubeconfig)
        with proxy.fault(Where("/version"), Refuse(401, "Unauthorized")):
            done = subprocess.run(
                [str(_PODIUM), "doctor", f"--kubeconfig={kubeconfig}"],
                capture_output=True,
                text=True,
                check=False,
            )
    assert code == 0
    found = {each.name: each for each in lines if each.fix == "run podium doctor again"}
    assert found.keys() == {"priority-classes", "workload-api"}
    assert "connection lost during GET" in found["priority-classes"].fact
    assert about(lines, "other-webhooks")[0][0] == "ok"
    assert done.returncode == 1
    assert "GET /version: 401" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_oldest_server_that_can_be_played() -> None:
    """A 1.36 server with the features of 1.33 accepts the whole install, and the report names its version."""
    with exclusive(RELEASES["1.36"], workload_api=False, apiserver=("--emulated-version=1.33",)) as server:
        server.kubectl("apply", "--server-side", "--filename", str(MANIFESTS))
        _, lines = doctor(server.kubeconfig)
    ((level, fact),) = about(lines, "server-version")
    assert (level, fact.partition(";")[0]) == ("ok", "Kubernetes 1.33 (emulated by v1.36.3)")
    assert about(lines, "custom-resources")[0][0] == "ok"


@pytest.fixture(scope="module", params=in_turn(__name__))
def installed(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a cluster with everything applied and reserved nodes; kwok simulates its pods."""
    with exclusive(RELEASES[request.param], controllers=True) as server:
        server.kubectl("apply", "--server-side", "--filename", str(MANIFESTS))
        server.kubectl("label", "nodes", "--all", f"{_RESERVED}=yes")
        for name in ("webhook", "controller", "scheduler"):
            server.kubectl(
                "--namespace", NAMESPACE, "rollout", "status", f"deployment/podium-{name}", "--timeout=60s"
            )
        server.kubectl("taint", "nodes", "--all", f"{_RESERVED}=yes:NoSchedule")
        yield server


def _pod_of(server: Server, process: Running) -> str:
    """Create a pod that represents a process of this machine."""
    (deployment,) = [
        each for each in rendered("scheduler", "Deployment") if each["metadata"]["name"] == "podium-webhook"
    ]
    pod = deployment["spec"]["template"]
    pod["metadata"]["name"] = "podium-webhook-here"
    pod["spec"]["schedulerName"] = "nobody"
    for port in pod["spec"]["containers"][0]["ports"]:
        if port["name"] == "metrics":
            port["containerPort"] = process.metrics_port
    code, answer = server.request("POST", _PODS, pod)
    assert code == 201, answer
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    patch(server, f"{_PODS}/podium-webhook-here/status", {"status": status})
    return "podium-webhook-here"


def test_all_of_podium_is_well(installed: Server, tmp_path: Path) -> None:
    """With all three processes running there is no problem, and each check has a line."""
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(deployed.installed(installed, tmp_path / "webhook"))
        for name in ("controller", "scheduler"):
            led = _led(installed, tmp_path / name, name)
            stack.enter_context(ending(led))
            led.until(partial(_held, installed, name), f"{name} leads")
        pod = _pod_of(installed, process)
        proxy = stack.enter_context(Proxy(installed).running())
        # API servers send no request to a loopback address.
        port = process.metrics_port
        proxy.lead(f"{_PODS}/{pod}:{port}/proxy", f"http://127.0.0.1:{port}")
        code, lines = doctor(proxy.kubeconfig(tmp_path))
    assert (code, problems(lines)) == (0, [])
    written = [call for call in proxy.calls if call.writes and not call.path.endswith("accessreviews")]
    assert [call.query for call in written] == [{"dryRun": "All"}]
    assert about(lines, "trial") == [
        ("ok", "a dry run of a group of v1alpha2 was mutated, validated and converted")
    ]
    assert about(lines, "certificate")[0][1].startswith(
        f"Secret {NAMESPACE}/podium-webhook is valid for another"
    )
    assert about(lines, "ca-bundle")[0][1].startswith("9 of 9 trust the served certificate")
    assert ("ok", f"{pod} is ready, 5 caches fresh") in about(lines, "process")
    assert {level for level, _ in about(lines, "rights")} == {"ok"}
    leaders = about(lines, "leader")
    assert [level for level, _ in leaders] == ["ok", "ok"]
    assert all("holds Lease podium-" in fact for _, fact in leaders)
    assert about(lines, "reserved-nodes") == [("ok", "3 nodes reserved, by label and taint")]


def _led(server: Server, folder: Path, name: str) -> Running:
    """Start a process that leads by the installed Lease."""
    line = [str(_PODIUM), name, f"--kubeconfig={server.kubeconfig}", f"--lease={NAMESPACE}/podium-{name}"]
    return spawn([*line, "--metrics-port=0", "--log-format=json"], folder)


def _held(server: Server, name: str) -> bool:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/podium-{name}"
    code, lease = server.request("GET", path)
    return code == 200 and bool(lease["spec"].get("holderIdentity"))


@pytest.fixture(scope="module")
def left(installed: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Return the same server without its processes; a test leaves their objects unchanged."""
    folder = tmp_path_factory.mktemp("left")
    with deployed.installed(installed, folder):
        pass
    return installed


def test_a_webhook_without_a_server_is_found_by_the_dry_run(left: Server) -> None:
    """A dry run finds the fault that the objects do not show: the webhook has no server."""
    code, lines = doctor(left.kubeconfig)
    assert code == 3
    ((level, fact),) = about(lines, "trial")
    assert level == "problem"
    assert "failed calling webhook" in fact
    assert "groups.podium.dev" in fact


@contextlib.contextmanager
def changed(server: Server, path: str, body: Any, back: Any) -> Iterator[None]:
    """Change an object while the block runs."""
    patch(server, path, body)
    try:
        yield
    finally:
        patch(server, path, back)


def test_an_expired_certificate(left: Server) -> None:
    """The Secret has an expired certificate, of a CA that no client trusts."""
    now = datetime.now(UTC)
    ca = certificates.authority(certificates.new_key(), now - timedelta(days=9), now + timedelta(days=9))
    pair = certificates.leaf(
        ca,
        certificates.new_key(),
        [f"podium-webhook.{NAMESPACE}.svc"],
        now - timedelta(days=5),
        now - timedelta(days=2),
    )
    before = stored(left, _SECRET)["data"]
    certificate = {"data": {"tls.crt": encoded(pair.certificate)}}
    with changed(left, _SECRET, certificate, {"data": before}):
        code, lines = doctor(left.kubeconfig)
    assert code == 3
    ((level, fact),) = about(lines, "certificate")
    assert (level, "expired 2 days ago" in fact) == ("problem", True)
    assert about(lines, "ca-bundle")[0][0] == "problem"


def test_a_wrong_bundle(left: Server) -> None:
    """The report names the one webhook of eight with another CA."""
    now = datetime.now(UTC)
    ca = certificates.authority(certificates.new_key(), now, now + timedelta(days=9))
    path = f"{VALIDATING}/podium"
    before = stored(left, path)["webhooks"]
    wrong = json.loads(json.dumps(before))
    wrong[1]["clientConfig"]["caBundle"] = encoded(ca.certificate)
    with changed(left, path, {"webhooks": wrong}, {"webhooks": before}):
        _, lines = doctor(left.kubeconfig)
    (fact,) = [fact for level, fact in about(lines, "ca-bundle") if level == "problem"]
    assert "the caBundle of pods.podium.dev (Validating) is not the CA" in fact


def test_a_foreign_webhook_without_a_server_is_a_problem(left: Server) -> None:
    """Another vendor's webhook fails closed, is called for our pods, and has no server."""
    theirs = {
        **webhook("gate", sideEffects="None", admissionReviewVersions=["v1"]),
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
    }
    code, answer = left.request("POST", MUTATING, theirs)
    assert code == 201, answer
    try:
        _, lines = doctor(left.kubeconfig)
    finally:
        left.request("DELETE", f"{MUTATING}/gate")
    ((level, fact),) = about(lines, "other-webhooks")
    assert level == "problem"
    assert "gate.example.com (gate) intercepts the pods of podium-system and fails closed" in fact
    assert "theirs/gate has no ready endpoint" in fact
    assert ("note", "gate may change pods; a webhook does not declare which fields") in about(
        lines, "priority-mutators"
    )


def test_a_missing_right(left: Server) -> None:
    """The line has the API server's message about the missing right."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/podium-controller"
    before = stored(left, path)["rules"]
    fewer = [each for each in before if "events" not in each["resources"]]
    with changed(left, path, {"rules": fewer}, {"rules": before}):
        _, lines = doctor(left.kubeconfig)
    assert (
        "problem",
        "account podium-controller lacks 1 right: create events.events.k8s.io",
    ) in about(lines, "rights")


def _serves(server: Server, api: str, kind: str) -> bool:
    return any(each["kind"] == kind for each in stored(server, f"/apis/{api}")["resources"])


def test_a_policy_that_sets_classes(left: Server) -> None:
    """The report describes the effect of a MutatingAdmissionPolicy."""
    group = "admissionregistration.k8s.io"
    (versions,) = [each["versions"] for each in stored(left, "/apis")["groups"] if each["name"] == group]
    served = (each["groupVersion"] for each in versions)
    api = next(each for each in served if _serves(left, each, "MutatingAdmissionPolicy"))
    expression = 'Object{spec: Object.spec{priorityClassName: "low"}}'
    policy = {
        "apiVersion": api,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "set-class"},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
            ],
        },
    }
    path = f"/apis/{api}/mutatingadmissionpolicies"
    code, answer = left.request("POST", path, policy)
    assert code == 201, answer
    try:
        _, lines = doctor(left.kubeconfig)
    finally:
        left.request("DELETE", f"{path}/set-class")
    assert tuple(
        level
        for level, fact in about(lines, "priority-mutators")
        if "MutatingAdmissionPolicy set-class" in fact
    ) == ("warning",)


def test_the_rights_of_the_page_are_enough(left: Server, tmp_path: Path) -> None:
    """An account with the rights in docs/doctor.md is refused nothing."""
    rules = [rule for each in Page("doctor.md", "podium-doctor").documents() for rule in each["rules"]]
    _, lines = doctor(kubeconfig_of(left, "default", rules, tmp_path))
    assert [each for each in lines if "forbidden" in each.fact] == []
    assert {"rights", "trial", "certificate", "process"} <= {each.name for each in lines}
