"""`python -m tools.devcluster` from the outside, on real control planes of both minors."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.servers import Server
from tests.support.waiting import comes
from tools.devcluster.controlplane import cluster, process
from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.releases import NEWEST, RELEASES
from tools.devcluster.controlplane.state import ControlPlaneState, access, load

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[3]
COMPONENTS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the clusters folder of a user without any; clusters that the test leaves are stopped."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "podium" / "clusters"
    yield folder
    for left in folder.glob("[!.]*"):
        cluster.down(left, sys.stderr)


def devcluster(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as the make targets do."""
    return subprocess.run(
        [sys.executable, "-m", "tools.devcluster", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def state_of(folder: Path) -> ControlPlaneState:
    state = load(folder)
    assert state is not None
    return state


def connect(folder: Path) -> Client:
    return access(folder, state_of(folder).settings).client()


def status_rows() -> list[list[str]]:
    return [line.split() for line in devcluster("status").stdout.splitlines()[1:]]


@pytest.mark.parametrize("minor", RELEASES)
def test_up_status_down(minor: str, clusters: Path) -> None:
    """A cluster starts as requested and reports it; a second `up` does nothing; `down` removes everything."""
    release = RELEASES[minor]
    made = devcluster("up", "--kubernetes", minor, "--nodes", "2")
    assert made.returncode == 0, made.stderr
    folder = clusters / "podium"
    assert made.stdout == f"{folder / 'kubeconfig'}\n"
    assert f"Kubernetes {release.version} is ready" in made.stderr

    assert [row[1] for row in status_rows()] == COMPONENTS
    assert {row[3] for row in status_rows()} == {"running"}
    assert [row[4] for row in status_rows()][1:4] == [release.version] * 3
    assert devcluster("status").returncode == 0

    before = state_of(folder)
    again = devcluster("up", "--nodes", "3")
    assert again.returncode == 0, again.stderr
    assert "is already running" in again.stderr
    assert again.stdout == made.stdout
    assert state_of(folder).components == before.components
    client = connect(folder)
    _, nodes = client.request("GET", "/api/v1/nodes")
    client.close()
    assert [node["metadata"]["name"] for node in nodes["items"]] == ["node-0", "node-1", "node-2"]

    gone = devcluster("down")
    assert gone.returncode == 0
    assert not folder.exists()
    assert not any(process.alive(running.process) for running in before.components.values())
    assert devcluster("status").returncode == 3


def test_a_cluster_is_not_turned_into_another(clusters: Path) -> None:
    """A request for another minor or without the Workload API changes nothing and names the remedy."""
    assert devcluster("up", "--nodes", "0", "--no-workload-api", "--name", "plain").returncode == 0
    with_client = connect(clusters / "plain")
    assert served(with_client) == ["v1"]
    with_client.close()
    for arguments, what in (
        (("--kubernetes", "1.36"), "with Kubernetes 1.37, not 1.36"),
        (("--workload-api",), "with the Workload API off, not on"),
    ):
        refused = devcluster("up", "--name", "plain", *arguments)
        assert refused.returncode == 1
        assert refused.stderr == (
            f"devcluster: cluster plain was started {what}: `make cluster-down NAME=plain` first,"
            " or choose another name\n"
        )
    assert {row[3] for row in status_rows()} == {"running"}


def test_a_dead_component_is_started_again_with_its_data(clusters: Path) -> None:
    """`status` shows a failed component with exit 3; `up` restarts the same cluster, whatever failed."""
    folder = clusters / "podium"
    assert devcluster("up", "--nodes", "1").returncode == 0
    kill(folder, "kube-scheduler")
    shown = devcluster("status")
    assert shown.returncode == 3
    assert [line.split()[3] for line in shown.stdout.splitlines()[1:]] == [
        "stopped" if name == "kube-scheduler" else "running" for name in COMPONENTS
    ]
    assert devcluster("up").returncode == 0

    client = connect(folder)
    code, _ = client.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    assert code == 201
    client.close()
    kubeconfig = (folder / "kubeconfig").read_text()
    kill(folder, *COMPONENTS)
    assert devcluster("up").returncode == 0
    assert (folder / "kubeconfig").read_text() == kubeconfig
    client = connect(folder)
    assert client.request("GET", "/api/v1/namespaces/kept")[0] == 200
    client.close()


def kill(folder: Path, *names: str) -> None:
    components = state_of(folder).components
    for name in names:
        os.kill(components[name].process.pid, signal.SIGKILL)
    assert comes(lambda: not any(process.alive(components[name].process) for name in names))


def test_a_component_that_cannot_start_is_one_line(
    clusters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the component's last line and its log, and no started process stays."""
    broken = tmp_path / "kube-apiserver"
    broken.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo Kubernetes v{NEWEST.version} && exit\n'
        "echo 'Error: no luck today' >&2; exit 1\n",
        encoding="ascii",
    )
    broken.chmod(0o755)
    monkeypatch.setenv("TEST_ASSET_KUBE_APISERVER", str(broken))
    failed = devcluster("up")
    log = clusters / "podium" / "logs" / "kube-apiserver.log"
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == (
        f"devcluster: kube-apiserver ended while starting: Error: no luck today; log: {log}"
    )
    assert [row[3] for row in status_rows()] == ["stopped", "stopped"]
    assert devcluster("down").returncode == 0


def test_down_leaves_a_stranger_alone(clusters: Path) -> None:
    """After a reboot a stored pid may be another process: it is neither shown as running nor stopped."""
    assert devcluster("up", "--nodes", "0").returncode == 0
    folder = clusters / "podium"
    process.stop([state_of(folder).components["kwok"].process], grace=10)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        document = json.loads((folder / "cluster.json").read_bytes())
        document["components"]["kwok"]["process"]["pid"] = stranger.pid
        (folder / "cluster.json").write_text(json.dumps(document), encoding="utf-8")
        assert status_rows()[-1][3] == "stopped"
        assert devcluster("down").returncode == 0
        assert stranger.poll() is None
        stranger.communicate(b"\n")


def test_down_without_a_cluster_and_bad_names(clusters: Path) -> None:
    """A missing cluster is no failure; an impossible folder name is a usage error."""
    assert devcluster("down").stderr == "cluster podium does not exist\n"
    assert devcluster("down").returncode == 0
    for name in ("../x", "", "UPPER", "-x", "x" * 41):
        assert devcluster("up", "--name", name).returncode == 2
    assert not clusters.exists()


def test_a_damaged_state_is_one_line(clusters: Path) -> None:
    folder = clusters / "podium"
    folder.mkdir(parents=True)
    (folder / "cluster.json").write_text('{"settings": 1}', encoding="ascii")
    for command in ("up", "status", "down"):
        failed = devcluster(command)
        assert failed.returncode == 1
        assert failed.stderr.startswith(f"devcluster: {folder / 'cluster.json'} is damaged (")
        assert failed.stderr.count("\n") == 1
    (folder / "cluster.json").unlink()
    assert devcluster("down").returncode == 0


def served(client: Client) -> list[str]:
    """The versions of scheduling.k8s.io that discovery shows."""
    _, group = client.request("GET", "/apis/scheduling.k8s.io")
    return [entry["version"] for entry in group["versions"]]


def test_only_loopback_listens_and_secrets_are_private(cluster_137: Server) -> None:
    """Other machines reach no component, no port reaches etcd, and only the owner can read secrets."""
    listening: dict[str, set[str]] = {}
    for name, running in state_of(cluster_137.folder).components.items():
        listening[name] = listening_addresses(running.process.pid)
    assert listening.pop("etcd") == set()
    assert listening.pop("kwok") == set()
    assert {address for addresses in listening.values() for address in addresses} == {"127.0.0.1"}
    assert all(len(addresses) == 1 for addresses in listening.values())
    assert cluster_137.folder.stat().st_mode & 0o077 == 0
    assert cluster_137.kubeconfig.stat().st_mode & 0o077 == 0


def listening_addresses(pid: int) -> set[str]:
    """The addresses on which a process listens for TCP (proc(5): state 0A; inode in field 10)."""
    targets = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in targets:
                found.add(address_of(fields[1].partition(":")[0]))
    return found


def address_of(text: str) -> str:
    octets = bytes.fromhex(text)
    words = b"".join(octets[at : at + 4][::-1] for at in range(0, len(octets), 4))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)


def test_anonymous_requests_are_refused(server_137: Server) -> None:
    """Anonymous requests get 401, for health endpoints too."""
    stranger = Client(server_137.url, "not-a-token", server_137.access.authority)
    assert stranger.request("GET", "/readyz")[0] == 401
    assert stranger.request("GET", "/api/v1/secrets")[0] == 401
    stranger.close()
    config = yaml.safe_load(server_137.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == server_137.url
