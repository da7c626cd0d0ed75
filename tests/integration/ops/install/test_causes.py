"""An install and an upgrade whose pods do not start, on a real cluster: cause and log, and then the undo.

The statuses are those that a kubelet writes, and the logs come from it through the API server.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.doctor.running import about, doctor
from tests.support.install.scene import MERGE, NAMESPACE, json_of, podium, settled, webhook
from tests.support.proxy import Delay, Proxy, Refuse, Where
from tests.support.rollout.byhand import NODE, ByHand, by_hand, once, shown
from tests.support.rollout.objects import WAITING, Document, container, crashing, exited, running, waiting
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import NEWEST

from podium.errors import PodiumError
from podium.kube.connection import connect
from podium.ops import installing, rollout
from podium.ops.install import manifests
from podium.ops.installing import Installer, preview
from podium.ops.rollout import CauseKind

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

# The process whose Deployment is waited for first.
_FIRST = "controller"
_UNDONE = "; all changes were undone\n"
_QUOTA = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
_READY = running(ready=True)
_PODS = Where(f"/{NAMESPACE}/pods$", "GET")
_UNPLACED = ": Unschedulable: 0/"
# The time limit of `podium install` by default.
_LIMIT_SECONDS = 300.0
# A process that exits at each start, with the restarts of a kubelet: the first is immediate.
_CRASHES = (
    waiting("ContainerCreating"),
    container({"terminated": exited()}),
    running(restarts=1, last=exited()),
    crashing(1),
    running(restarts=2, last=exited()),
    crashing(2),
)
_LOG = '{"event":"started"}\n' * 30 + "Traceback (most recent call last):\nOSError: \x1b[31mno certificate\n"


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByHand]:
    """Yield the kubelet of a cluster's only free node."""
    with (
        exclusive(NEWEST, workload_api=False, controllers=True) as server,
        by_hand(server, tmp_path_factory.mktemp("kubelet")) as made,
    ):
        yield made


@pytest.fixture
def before(kubelet: ByHand) -> dict[str, Any]:
    """Return the objects on the server; a test leaves them so. The end of a namespace would take long."""
    kubelet.logs = {}

    def exists() -> bool:
        kubelet.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        found = json_of(kubelet.server, f"/api/v1/namespaces/{NAMESPACE}")
        return found is not None and "deletionTimestamp" not in found["metadata"]

    until(exists, "the namespace exists")
    return settled(kubelet.server)


def _failed(kubelet: ByHand, kubeconfig: Path) -> list[str]:
    """Run an install that fails, and return its output without the prefix."""
    done = podium(kubelet.server, "install", kubeconfig=kubeconfig, code=1)
    assert done.stderr.endswith(_UNDONE), done.stderr
    return [line.removeprefix("podium: ") for line in done.stderr.splitlines()]


def test_a_crash_is_shown_with_the_last_lines_of_its_log(
    kubelet: ByHand, before: dict[str, Any], tmp_path: Path
) -> None:
    """Early, and before the undo deletes the pod; the waiting line had the cause already."""
    kubelet.logs[(_FIRST, False)] = _LOG
    with Proxy(kubelet.server).running() as proxy, proxy.fault(_PODS, Delay(0.0)) as lists:
        kubelet.script = shown(lambda: lists.hits, *_CRASHES)
        lines = _failed(kubelet, proxy.kubeconfig(tmp_path))
    crashed = f"CrashLoopBackOff: container {_FIRST} exited 3 times, last with code 1"
    assert crashed in lines[-1]
    assert "time limit" not in lines[-1]
    assert any(line.startswith("waiting: ") and "exited 2 times" in line for line in lines)
    title = next(index for index, line in enumerate(lines) if line.startswith(f"log of pod podium-{_FIRST}-"))
    assert lines[title].endswith(f", container {_FIRST}, last lines:")
    assert lines[title + 1 : title + 11] == [
        *['  {"event":"started"}'] * 8,
        "  Traceback (most recent call last):",
        r"  OSError: \x1b[31mno certificate",
    ]
    assert title < lines.index(
        "undoing the changes; after an interruption run this again, or podium uninstall"
    )
    assert settled(kubelet.server) == before


def test_one_crash_is_no_failure(kubelet: ByHand, tmp_path: Path) -> None:
    """A process may exit once while the cluster around it starts; pulls may fail for a while too."""
    kubelet.script = once(
        waiting("ErrImagePull", WAITING["ErrImagePull"]),
        waiting("ImagePullBackOff", WAITING["ImagePullBackOff"]),
        waiting("ContainerCreating"),
        container({"terminated": exited()}),
        running(restarts=1, last=exited()),
        running(restarts=1, last=exited(), ready=True),
    )
    with webhook(kubelet.server, tmp_path):
        done = podium(kubelet.server, "install")
    assert f"podium: Deployment {NAMESPACE}/podium-webhook is available\n" in done.stderr
    podium(kubelet.server, "uninstall", "--delete-groups", "--yes")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("InvalidImageName", CauseKind.NO_IMAGE),
        ("ImagePullBackOff", CauseKind.PULL),
        ("CreateContainerConfigError", CauseKind.CONTAINER),
    ],
)
def test_a_container_that_cannot_start(
    kubelet: ByHand, before: dict[str, Any], monkeypatch: pytest.MonkeyPatch, reason: str, kind: CauseKind
) -> None:
    """The kubelet's own words, as soon as the limit of the kind has passed."""
    monkeypatch.setattr(rollout, "LIMITS", {kind: rollout.LIMITS[kind] / 10})
    kubelet.script = once(waiting(reason, WAITING[reason]))
    error = _installed(kubelet.server, manifests("admission", None))
    assert f"podium-{_FIRST} has 0 of 2 " in error
    assert f": Pod podium-{_FIRST}-" in error
    assert f": {reason}: {WAITING[reason]}" in error
    assert "time limit" not in error
    assert settled(kubelet.server) == before


def test_a_pod_that_the_api_server_refuses(
    kubelet: ByHand, before: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota of an administrator: the API server's words, from the ReplicaSet."""
    monkeypatch.setattr(rollout, "LIMITS", {CauseKind.REFUSED: 3.0})
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    assert kubelet.server.request("POST", _QUOTA, quota)[0] == 201
    error = _installed(kubelet.server, manifests("admission", None))
    assert kubelet.server.request("DELETE", f"{_QUOTA}/none")[0] == 200
    assert f"has 0 of 2 new pods: ReplicaSet podium-{_FIRST}-" in error
    assert ": FailedCreate: " in error
    assert "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0" in error
    assert "time limit" not in error
    assert settled(kubelet.server) == before


def test_a_pod_that_no_node_takes(
    kubelet: ByHand, before: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An autoscaler may add a node, so this lasts until the time limit; the scheduler's words are shown."""
    lines: list[str] = []
    _time_passes(monkeypatch, lambda: any(_UNPLACED in line for line in lines))
    path = f"/api/v1/nodes/{NODE}"
    taint = {"spec": {"taints": [{"key": "example.com/full", "effect": "NoSchedule"}]}}
    kubelet.server.request("PATCH", path, taint, MERGE)
    error = _installed(kubelet.server, manifests("admission", None), lines.append)
    kubelet.server.request("PATCH", path, {"spec": {"taints": None}}, MERGE)
    assert _UNPLACED in error
    assert "nodes are available" in error
    assert ": time limit reached (--timeout); all changes were undone" in error
    assert any(line.startswith("waiting: ") and _UNPLACED in line for line in lines)
    assert settled(kubelet.server) == before


def test_without_the_right_to_read_pods_it_says_so(
    kubelet: ByHand, before: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubelet.script = once(running())
    refused = Refuse(403, "Forbidden")
    with Proxy(kubelet.server).running() as proxy, proxy.fault(_PODS, refused) as reads:
        _time_passes(monkeypatch, lambda: reads.hits > 0)
        lines = _failed(kubelet, proxy.kubeconfig(tmp_path))
    assert any(line.startswith("pods not read: ") and "the proxy says 403" in line for line in lines), lines
    assert settled(kubelet.server) == before


def test_an_upgrade_that_cannot_pull_is_explained_and_rolled_back(
    kubelet: ByHand, before: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old pods run on. Then another client begins the same rollout, and the doctor explains it."""
    monkeypatch.setattr(rollout, "LIMITS", {CauseKind.PULL: 4.5})
    bad = "registry.example.com/podium:9.9.9"

    def script(pod: Document, look: int) -> Document | None:
        image = pod["spec"]["containers"][0]["image"]
        reason = "ImagePullBackOff" if look % 4 else "ErrImagePull"
        return waiting(reason, WAITING[reason]) if image == bad else _READY if look == 0 else None

    kubelet.script = script
    with webhook(kubelet.server, tmp_path):
        assert _installed(kubelet.server, manifests("admission", None)) == ""
        lines: list[str] = []
        error = _installed(kubelet.server, manifests("admission", bad), lines.append)
        assert "Deployment podium-system/podium-webhook has 1 of 2 new pods: Pod podium-webhook-" in error
        assert "ErrImagePull: rpc error: code = NotFound desc = failed to pull" in error
        assert error.endswith("; all changes were undone")
        assert lines[-1] == f"restored Deployment {NAMESPACE}/podium-webhook"
        assert {level for level, _ in about(doctor(kubelet.server.kubeconfig)[1], "deployment")} == {"ok"}
        kubelet.server.kubectl(
            "set", "image", "deployment/podium-webhook", f"webhook={bad}", f"--namespace={NAMESPACE}"
        )
        until(lambda: _stuck(kubelet.server), "the doctor names the pod that cannot pull")
    podium(kubelet.server, "uninstall", "--delete-groups", "--yes")
    # The namespace is a part of the installation, and goes with it.
    assert settled(kubelet.server) == {key: each for key, each in before.items() if NAMESPACE not in key}


def _stuck(server: Server) -> bool:
    """Return whether the doctor explains the rollout of the webhook, whose old pods still run."""
    stuck = "has 1 of 2 new pods, and its old pods still run: Pod podium-webhook-"
    return any(
        level == "warning" and stuck in fact and "ImagePull" in fact and "not found" in fact
        for level, fact in about(doctor(server.kubeconfig)[1], "deployment")
    )


def _time_passes(monkeypatch: pytest.MonkeyPatch, reached: Callable[[], bool]) -> None:
    """Let the time limit of an install be over as soon as a condition holds."""

    def monotonic() -> float:
        return time.monotonic() + (_LIMIT_SECONDS if reached() else 0.0)

    monkeypatch.setattr(installing, "time", SimpleNamespace(monotonic=monotonic))


def _installed(
    server: Server, documents: list[Document], echo: Callable[[str], None] = lambda _line: None
) -> str:
    """Install documents as `podium install` does; return its error, or an empty text."""

    async def run() -> str:
        async with connect(str(server.kubeconfig), None) as connection:
            found = await preview(connection, documents, force=False)
            installer = Installer(connection, timeout=_LIMIT_SECONDS, force=False, echo=echo)
            try:
                await installer.install(found, documents)
            except PodiumError as error:
                return str(error)
        return ""

    return asyncio.run(run())
