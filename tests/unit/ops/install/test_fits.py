"""A cluster without the requirements of an install gets one line with them, before any write."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner
from tests.support.connection.fake import Fake, page, serving

from podium.api.groups import RESERVED
from podium.api.schedulable import SchedulableNode
from podium.cli.installfit import too_old, unplaceable
from podium.cli.main import command
from podium.errors import PodiumError
from podium.ops.install import MODES, manifests

_RESERVED = {"key": RESERVED, "value": "yes", "effect": "NoSchedule"}
_SOFT = {"key": "spot", "effect": "PreferNoSchedule"}
_DOWN = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


def _node(name: str, *taints: dict[str, str], cordoned: bool = False) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}},
        "spec": {"taints": list(taints), "unschedulable": cordoned},
    }


def _told(*nodes: dict[str, Any], mode: str = "admission") -> str:
    return unplaceable(manifests(mode, None), msgspec.convert(nodes, list[SchedulableNode]))


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [_node("a", _RESERVED), _node("b")],
        [_node("a", _SOFT)],
    ],
    ids=["no node yet", "a free node", "a taint without effect"],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_node_that_takes_all_is_enough(nodes: Sequence[dict[str, Any]], mode: str) -> None:
    """Free resources are not checked, because they change."""
    assert _told(*nodes, mode=mode) == ""


def test_processes_without_a_node_are_named_with_the_taints() -> None:
    notes = _told(_node("a", _RESERVED), _node("b", _SOFT, _RESERVED), _node("c", cordoned=True))
    assert notes == (
        "none of 3 nodes accepts Podium's own pods, those of podium-controller and podium-webhook: "
        f"2 node(s) had untolerated taint(s) {RESERVED}, 1 node(s) were unschedulable. "
        "Remove the taint from a node (kubectl taint node NODE KEY-), uncordon a node, or add a node"
    )
    assert "podium-controller, podium-scheduler and podium-webhook: " in _told(
        _node("a", _DOWN), mode="scheduler"
    )


def test_a_process_is_judged_by_what_it_tolerates_and_selects() -> None:
    """A user's manifest may have more fields than ours."""
    webhook, *_ = (each for each in manifests("admission", None) if each["kind"] == "Deployment")
    spec = webhook["spec"]["template"]["spec"]
    nodes = msgspec.convert([_node("a", _RESERVED)], list[SchedulableNode])
    spec["tolerations"] = [{"key": RESERVED, "operator": "Exists"}]
    assert unplaceable([webhook], nodes) == ""
    spec["nodeSelector"] = {"kubernetes.io/os": "windows"}
    assert "1 node(s) didn't match Pod's node affinity/selector" in unplaceable([webhook], nodes)


@pytest.mark.parametrize(
    ("version", "mode", "reason"),
    [
        ("v1.32.0", "admission", ""),
        ("v1.37.1-eks-1", "scheduler", ""),
        ("built by hand", "scheduler", ""),
        (
            "v1.31.9",
            "admission",
            "v1.31.9: admission and reconciler needs 1.32 (the CEL format library",
        ),
        ("v1.20.0", "scheduler", "in the schemas) and the scheduler needs 1.32 (the same, for Preempt"),
    ],
)
def test_a_server_too_old_for_a_mode_has_a_reason(version: str, mode: str, reason: str) -> None:
    message = too_old(version, mode)
    assert reason in message
    assert bool(message) == bool(reason)
    assert not message or message.endswith(". Upgrade the cluster, or use only the command line")


async def _refused(server: Fake, folder: Path, *options: str) -> str:
    """Run an install that must end with one line after reads of rights and objects only."""
    async with serving(server):
        line = ["install", "--kubeconfig", server.kubeconfig(folder), *options]
        done = await asyncio.to_thread(CliRunner().invoke, command, line)
    assert isinstance(done.exception, PodiumError)
    paths = {path for method, path, _ in server.requests if method != "GET"}
    assert paths == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}
    return str(done.exception)


@pytest.mark.parametrize("arguments", [[], ["--dry-run"], ["--mode=scheduler", "--diff"]])
async def test_an_old_server_is_written_nothing_to(tmp_path: Path, arguments: list[str]) -> None:
    """The cluster gets no write, not even a dry run."""
    server = Fake()

    async def version(_: web.Request) -> web.StreamResponse:
        return web.json_response({"gitVersion": "v1.29.3", "minor": "29"})

    server.answers["/version"] = version
    message = await _refused(server, tmp_path, *arguments)
    assert message.startswith("nothing was written: Kubernetes v1.29.3: admission and reconciler needs 1.32 ")


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]])
async def test_a_cluster_without_a_node_for_it_is_written_nothing_to(
    tmp_path: Path, arguments: list[str]
) -> None:
    """Every node is reserved, so its own pods would wait until the timeout."""
    server = Fake()

    async def nodes(_: web.Request) -> web.StreamResponse:
        return page("Node", [_node("a", _RESERVED)])

    server.answers["/api/v1/nodes"] = nodes
    message = await _refused(server, tmp_path, *arguments)
    assert message.startswith("nothing was written: none of 1 nodes accepts Podium's own pods, ")
