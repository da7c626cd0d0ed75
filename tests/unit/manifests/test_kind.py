"""`make kind` without Docker: the requested cluster, and the programs that run.

docker, kind and kubectl are programs of the test that record their calls.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.unit.manifests.test_modes import configured
from tools.devcluster.controlplane.components import ClusterSettings, commands
from tools.devcluster.controlplane.releases import NEWEST, RELEASES
from tools.kind import config

from podium.api.groups import RESERVED

_ROOT = Path(__file__).parents[3]
_ALL = ("docker", "kind", "kubectl")
_OVERLAY = _ROOT / "manifests" / "overlays" / "kind"
_KUBECTL = "kubectl --context kind-podium"
_ROLLOUT = f"{_KUBECTL} --namespace podium-system rollout"
_STATUS = [
    f"{_ROLLOUT} status --timeout 5m deployment/podium-{name}"
    for name in ("webhook", "controller", "scheduler")
]
_CREATE = "kind create cluster --name podium --image {} --wait 5m --config -"


class Machine:
    """A PATH with some programs only, which record their calls."""

    def __init__(
        self, folder: Path, programs: tuple[str, ...], clusters: str = "", failing: str = "never"
    ) -> None:
        self._log = folder / "calls"
        self._given = folder / "given"
        self._path = folder / "bin"
        self._path.mkdir()
        self._log.touch()
        for each in programs:
            made = self._path / each
            made.write_text(
                f'#!/bin/sh\necho {each} "$@" >>{shlex.quote(str(self._log))}\n'
                f'case "{each} $*" in\n'
                f"*{shlex.quote(failing)}*) exit 3 ;;\n"
                f"'kind get clusters') echo {shlex.quote(clusters)} ;;\n"
                f"*--config*) /bin/cat >{shlex.quote(str(self._given))} ;;\n"
                "esac\n",
                encoding="utf-8",
            )
            made.chmod(0o755)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environ = {**os.environ, "PATH": str(self._path)}
        line = [sys.executable, "-m", "tools.kind", *arguments]
        return subprocess.run(line, cwd=_ROOT, env=environ, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[str]:
        return self._log.read_text(encoding="utf-8").splitlines()

    @property
    def given(self) -> str:
        """The file that `kind create cluster` read."""
        return self._given.read_text(encoding="utf-8")


@pytest.mark.parametrize("minor", RELEASES)
def test_the_cluster_has_the_gates_of_the_local_control_plane(minor: str) -> None:
    """The gates and the API's versions are those of our own API server of that minor."""
    document = yaml.safe_load(config.configuration(RELEASES[minor]))
    settings = ClusterSettings(name="test", kubernetes=minor, workload_api=True, controllers=False, ports={})
    arguments = commands(settings, Path())["kube-apiserver"]
    gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in document["featureGates"].items())
    versions = ",".join(f"{version}={on}" for version, on in document["runtimeConfig"].items())
    assert f"--feature-gates={gates}" in arguments
    assert f"--runtime-config={versions}" in arguments
    assert (document["kind"], document["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")


def test_a_node_is_reserved_for_the_scheduler_and_one_is_not() -> None:
    """The installed scheduler selects by that label; Podium's own pods need another node."""
    made = configured("scheduler", "podium-scheduler")
    label = yaml.safe_load(made["scheduler.yaml"])["reservedNodes"]
    nodes = yaml.safe_load(config.configuration(NEWEST))["nodes"]
    workers = [label in each.get("labels", {}) for each in nodes if each["role"] == "worker"]
    assert sorted(workers) == [False, True]
    assert f"{label}=yes:NoSchedule" == config.TAINT


def test_kubelets_start_on_cgroup_v1() -> None:
    (patch,) = yaml.safe_load(config.configuration(NEWEST))["kubeadmConfigPatches"]
    assert yaml.safe_load(patch)["failCgroupV1"] is False


def test_a_new_cluster_is_made_and_awaited(tmp_path: Path) -> None:
    """The steps: image, cluster, loading the image, manifests, and waiting until each process is ready."""
    machine = Machine(tmp_path, _ALL)
    done = machine.run("--kubernetes", "1.36")
    assert done.returncode == 0, done.stderr
    assert machine.calls == [
        f"docker build --tag podium:dev {_ROOT}",
        "kind get clusters",
        _CREATE.format("kindest/node:v1.36.3"),
        "kind load docker-image podium:dev --name podium",
        f"{_KUBECTL} taint nodes --overwrite --selector {RESERVED} {config.TAINT}",
        f"{_KUBECTL} apply --server-side -k {_OVERLAY}",
        *_STATUS,
    ]
    assert machine.given == config.configuration(RELEASES["1.36"])
    overlay = yaml.safe_load((_OVERLAY / "kustomization.yaml").read_text(encoding="utf-8"))
    assert overlay["images"] == [{"name": "podium", "newTag": "dev"}]


def test_a_cluster_that_is_there_gets_the_new_image(tmp_path: Path) -> None:
    """No second cluster is created; the pods, whose tag has not changed, are recreated."""
    machine = Machine(tmp_path, _ALL, clusters="podium")
    assert machine.run().returncode == 0
    assert [call for call in machine.calls if "create" in call] == []
    restart = " ".join(each.rpartition(" ")[2] for each in _STATUS)
    assert machine.calls[-4:] == [f"{_ROLLOUT} restart {restart}", *_STATUS]


def test_the_image_of_the_nodes_can_be_another(tmp_path: Path) -> None:
    """A local image is used if kind publishes none of that release."""
    machine = Machine(tmp_path, _ALL)
    assert machine.run("--image", "node:ours").returncode == 0
    assert _CREATE.format("node:ours") in machine.calls


def test_the_image_alone_needs_docker_alone(tmp_path: Path) -> None:
    """`make image` builds only."""
    machine = Machine(tmp_path, ("docker",))
    assert machine.run("--build-only").returncode == 0
    assert machine.calls == [f"docker build --tag podium:dev {_ROOT}"]


def test_missing_programs_are_reported_first(tmp_path: Path) -> None:
    """A single line names all missing programs."""
    machine = Machine(tmp_path, ("kubectl",))
    done = machine.run()
    assert done.returncode == 1
    assert done.stderr == (
        "make kind: missing on the PATH: docker, which builds the image and runs the nodes; "
        "kind, which makes the cluster (kind.sigs.k8s.io)\n"
    )
    assert machine.calls == []


def test_a_step_that_fails_ends_it_and_is_named(tmp_path: Path) -> None:
    """The later steps do not run."""
    machine = Machine(tmp_path, _ALL, failing="kind load")
    done = machine.run()
    assert done.returncode == 1
    assert done.stderr == (
        "make kind: `kind load docker-image podium:dev --name podium` ended with 3; "
        "run it again when that is mended\n"
    )
    assert machine.calls[-1].startswith("kind load")
