"""Real API servers accept every mode, and the namespace its pods; the scheduler deletes only its own pods."""

import base64
import contextlib
import copy
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import CONTAINER
from tests.support.rights import Account
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks.running import Running, running
from tests.unit.manifests.test_modes import configured, rendered
from tools.manifests import render

from podium.controlplane.releases import RELEASES

pytestmark = pytest.mark.server

_PODS = "/api/v1/namespaces/podium-system/pods"
_SCHEDULER = "system:serviceaccount:podium-system:podium-scheduler"


@pytest.fixture(scope="module", params=in_turn(__name__))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server to which the modes were applied in turn, the scheduler's last."""
    with exclusive(RELEASES[request.param]) as made:
        for mode in ("admission", "scheduler"):
            made.kubectl("apply", "--server-side", "--filename", str(_file(mode)))
        yield made


def _file(mode: str) -> Path:
    return render.MANIFESTS / "rendered" / f"{mode}.yaml"


def test_applied_is_what_is_there(server: Server) -> None:
    """GitOps sees no drift: the server defaults no field that the manifests set."""
    assert server.kubectl("diff", "--server-side", "--filename", str(_file("scheduler"))) == ""


@contextlib.contextmanager
def _webhook(server: Server, folder: Path) -> Iterator[Running]:
    """Run the installed webhook with its pod's arguments and account until it is ready."""
    (deployment,) = [
        each for each in rendered("scheduler", "Deployment") if each["metadata"]["name"] == "podium-webhook"
    ]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    _, *arguments = container["args"]
    arguments.remove("--bind=0.0.0.0")
    arguments.remove("--config=/configuration/policy.yaml")
    policy = folder / "policy.yaml"
    policy.write_text(configured("scheduler", "podium-webhook")[policy.name], encoding="utf-8")
    arguments.append(f"--config={policy}")
    kubeconfig = Account(server, "podium-system", "podium-webhook").kubeconfig(folder)
    with running(server, folder, f"--kubeconfig={kubeconfig}", *arguments) as webhook:
        yield webhook


def _bundles(server: Server) -> set[bytes]:
    """Return the CAs that API servers trust, by webhook."""
    registered = json.loads(
        server.kubectl("get", "validatingwebhookconfiguration", "podium", "--output=json")
    )
    return {base64.b64decode(each["clientConfig"]["caBundle"]) for each in registered["webhooks"]}


def test_the_webhook_runs_as_it_is_installed(server: Server, tmp_path: Path) -> None:
    """The webhook is registered and ready, no request is refused, and there is no drift."""
    with _webhook(server, tmp_path) as webhook:
        assert all(_bundles(server))
    assert "Forbidden" not in webhook.log
    assert server.kubectl("diff", "--server-side", "--filename", str(_file("scheduler"))) == ""


def test_a_leaked_ca_is_replaced_by_the_line_in_the_docs(server: Server, tmp_path: Path) -> None:
    """Emptying the Secret, with the account's rights, removes the old CA from the trusted ones."""
    page = (render.ROOT / "docs" / "webhooks.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ kubectl (-n podium-system patch secret .*)$", page, re.MULTILINE)
    with _webhook(server, tmp_path) as webhook:
        (leaked,) = _bundles(server)
        server.kubectl(*shlex.split(line))
        webhook.until(lambda: "authority dropped" in webhook.log, "the old CA is dropped")
        webhook.until(lambda: not any(leaked in each for each in _bundles(server)), "it is out of trust")
        assert len(_bundles(server)) == 1
    assert "Forbidden" not in webhook.log


def test_components_are_taken(server: Server) -> None:
    """Components without kinds of other projects apply: NetworkPolicies."""
    build = render.combined(str(server.program("kubectl")), ["networkPolicy"])
    done = server.kubectl("apply", "--server-side", "--dry-run=server", "--filename=-", stdin=build)
    assert "networkpolicy.networking.k8s.io/podium-webhook serverside-applied" in done


def _pod(deployment: dict[str, Any]) -> dict[str, Any]:
    template = copy.deepcopy(deployment["spec"]["template"])
    template["metadata"]["generateName"] = deployment["metadata"]["name"] + "-"
    return {"apiVersion": "v1", "kind": "Pod", **template}


@pytest.mark.parametrize("name", ["podium-webhook", "podium-controller", "podium-scheduler"])
def test_the_pods_are_restricted(server: Server, name: str) -> None:
    """PodSecurity accepts each Deployment's pod, and refuses it without any one of its settings."""
    (deployment,) = [each for each in rendered("scheduler", "Deployment") if each["metadata"]["name"] == name]
    pod = _pod(deployment)
    code, answer = server.request("POST", _PODS, pod)
    assert code == 201, answer
    del pod["spec"]["containers"][0]["securityContext"]
    code, answer = server.request("POST", _PODS, pod)
    assert code == 403, answer
    assert 'violates PodSecurity "restricted:latest"' in answer["message"]


def test_the_scheduler_deletes_only_pods_of_its_own(server: Server) -> None:
    """The API server refuses to delete other pods; administrators may delete any pod."""
    ours, namespace = _new_pod(server, "podium-scheduler"), "kube-system"
    until(
        lambda: "deletes only pods" in _delete(server, _new_pod(server, "default-scheduler")),
        "the policy acts",
    )
    assert "deletes only pods" in _delete(server, _new_pod(server, "podium-scheduler", namespace), namespace)
    assert _delete(server, ours) == ""
    code, _ = server.request(
        "DELETE", f"/api/v1/namespaces/default/pods/{_new_pod(server, 'default-scheduler')}"
    )
    assert code == 200


def _new_pod(server: Server, scheduler: str, namespace: str = "default") -> str:
    body = {
        "metadata": {"generateName": "victim-"},
        "spec": {"schedulerName": scheduler, "containers": [CONTAINER], "terminationGracePeriodSeconds": 0},
    }
    code, made = server.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    assert code == 201, made
    name: str = made["metadata"]["name"]
    return name


def _delete(server: Server, name: str, namespace: str = "default") -> str:
    """Delete a pod as the scheduler's account; return the server's refusal, empty if there is none."""
    arguments = ("delete", "pod", name, f"--namespace={namespace}", f"--as={_SCHEDULER}", "--wait=false")
    try:
        server.kubectl(*arguments)
    except AssertionError as error:
        return str(error)
    return ""
