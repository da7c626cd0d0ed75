"""The rights in docs/webhooks.md are enough for a process under an account without other rights."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import Server, exclusive
from tests.support.webhooks.deployed import new_deployment
from tests.support.webhooks.running import running
from tools.devcluster.controlplane.releases import RELEASES

pytestmark = pytest.mark.server

_ROOT = Path(__file__).parents[3]
_NAMESPACE = "podium-system"
_NAME = "podium-webhook"
_HEADER = "| API group | Resource | Names | Where | Verbs |"
_REGISTRATION = (
    "customresourcedefinition/podgroups.scheduling.podium.dev",
    "customresourcedefinition/workloads.scheduling.podium.dev",
    "mutatingwebhookconfiguration/podium",
    "validatingwebhookconfiguration/podium",
)


def _listed() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of the page's table: its scope (cluster or a namespace), and its RBAC rule."""
    text = (_ROOT / "docs" / "webhooks.md").read_text(encoding="utf-8")
    table = text.partition(_HEADER)[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        group, resources, names, where, verbs = (cell.strip() for cell in line.strip("|").split("|"))
        rule = {
            "apiGroups": ["" if group == "core" else group],
            "resources": resources.split(", "),
            "verbs": verbs.split(", "),
        }
        yield where, rule if names == "all" else {**rule, "resourceNames": names.split(", ")}


def _account() -> list[dict[str, Any]]:
    """Return a service account, its roles and its empty Secret as manifests."""
    rules = list(_listed())
    there = {"name": _NAME, "namespace": _NAMESPACE}
    manifests: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": there},
        {"apiVersion": "v1", "kind": "Secret", "metadata": there},
    ]
    for kind, where, metadata in (
        ("ClusterRole", "cluster", {"name": _NAME}),
        ("Role", _NAMESPACE, there),
    ):
        api = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": _NAME}
        manifests += [
            {**api, "kind": kind, "rules": [rule for place, rule in rules if place == where]},
            {
                **api,
                "kind": f"{kind}Binding",
                "roleRef": reference,
                "subjects": [{"kind": "ServiceAccount", **there}],
            },
        ]
    return manifests


def _kubeconfig(server: Server, folder: Path) -> Path:
    """Write a kubeconfig of the account."""
    token = server.kubectl("create", "token", _NAME, f"--namespace={_NAMESPACE}").strip()
    document = json.loads(server.kubectl("config", "view", "--raw", "--output=json"))
    for user in document["users"]:
        user["user"] = {"token": token}
    path = folder / "account.kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_the_rights_listed_are_enough(tmp_path: Path) -> None:
    """The webhook registers, becomes ready and ends without a refused request; native kinds are watched."""
    assert len(list(_listed())) == 6
    with exclusive(RELEASES["1.37"]) as server:
        for manifest in _account():
            server.kubectl("apply", "--filename=-", stdin=manifest)
        shipped = _ROOT / "manifests" / "chart" / "files" / "webhooks"
        server.kubectl("apply", "--server-side", f"--filename={shipped}")
        arguments = (
            f"--kubeconfig={_kubeconfig(server, tmp_path)}",
            f"--cert-secret={_NAMESPACE}/{_NAME}",
            f"--register-service={_NAMESPACE}/{_NAME}",
            f"--deployment={_NAMESPACE}/{_NAME}",
        )
        new_deployment(server, replicas=1, available=1)
        with running(server, tmp_path, *arguments) as webhook:
            secret = json.loads(
                server.kubectl("get", "secret", _NAME, f"--namespace={_NAMESPACE}", "--output=json")
            )
            bundle = base64.b64decode(secret["data"]["ca.crt"])
            for each in _REGISTRATION:
                assert f'"{base64.b64encode(bundle).decode()}"' in server.kubectl(
                    "get", each, "--output=json"
                )
            found = {event["resource"] for event in webhook.events if event["event"] == "api found"}
            assert "podgroups.scheduling.k8s.io" in found
        assert "Forbidden" not in webhook.log
        assert "replica not withdrawn" not in webhook.log
