"""The plan of an upgrade is applied, from a real 1.36 to a real 1.37."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.connection.cluster import create_class, create_group, create_pod
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import RELEASES

from podium.cli.commands.preflight import command
from podium.errors import PodiumError

pytestmark = pytest.mark.server

PAGE = Path(__file__).parents[4] / "docs" / "upgrade.md"


def preflight(server: Server, namespace: str, folder: Path) -> Any:
    """Run the command on a live server, and return its report."""
    arguments = ["--kubeconfig", str(server.kubeconfig), "-n", namespace, "--to", "1.37"]
    done = CliRunner().invoke(command, [*arguments, "-o", "json", "--output-dir", str(folder)])
    assert done.exit_code == 3, done.output
    return json.loads(done.stdout)


def carry_out(server: Server, report: Any, when: str) -> None:
    """Run the commands of some steps unchanged, with that server's kubectl."""
    for step in report["steps"]:
        for line in step["commands"] if step["when"] == when else ():
            program, *arguments = shlex.split(line)
            assert program == "kubectl"
            server.kubectl(*arguments)


def test_the_steps_bring_a_group_over(server_136: Server, server_137: Server, tmp_path: Path) -> None:
    """The commands delete on 1.36 and create on 1.37, with the integer of the class there."""
    namespace = server_136.new_namespace()
    server_137.kubectl("create", "namespace", namespace)
    old_class, folder = create_class(server_136, 1000), tmp_path / "out"
    new_class = {"metadata": {"name": old_class}, "value": 2000}
    code, _ = server_137.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", new_class)
    assert code == 201
    create_group(server_136, namespace, "train", old_class)
    report = preflight(server_136, namespace, folder)
    assert [each["rule"] for each in report["findings"]] == ["v1alpha2-removed"]
    assert report["currentBy"] == f"the API server is v{server_136.release.version}"

    carry_out(server_136, report, "before")
    # No controller runs here to remove the finalizer; the group is being deleted.
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups/train"
    code, left = server_136.request("GET", path)
    assert code == 404 or "deletionTimestamp" in left["metadata"]

    def made() -> bool:
        try:
            carry_out(server_137, report, "after")
        except AssertionError as error:
            # The server's cache has no such class yet. noqa: PT017 - the message is asserted, and the loop
            # repeats
            assert "no PriorityClass" in str(error)  # noqa: PT017 - what is expected is that it goes on
            return False
        return True

    until(made, "the class is known")
    new = json.loads(server_137.kubectl("get", "podgroup", "train", "-n", namespace, "-o", "json"))
    assert new["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert new["spec"]["disruptionMode"] == {"all": {}}
    assert (new["spec"]["priorityClassName"], new["spec"]["priority"]) == (old_class, 2000)


def test_a_group_is_kept_until_its_pods_are_gone(cluster_136: Server, namespace: str, tmp_path: Path) -> None:
    """The controllers of 1.36 handle live pods as the plan predicts."""
    class_name = create_class(cluster_136, 1000)
    create_group(cluster_136, namespace, "train", class_name)
    create_pod(cluster_136, namespace, "train-0", class_name)
    report = preflight(cluster_136, namespace, tmp_path / "out")
    (remade,) = report["remade"]
    assert (remade["pods"], remade["owners"]) == (1, ["Pod train-0"])
    assert "Pod train-0, or wait for the end: the API server keeps their groups" in report["steps"][0]["what"]
    carry_out(cluster_136, report, "before")
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups/train"
    code, left = cluster_136.request("GET", path)
    assert code == 200
    assert "deletionTimestamp" in left["metadata"]
    cluster_136.kubectl("delete", "pod", "train-0", "-n", namespace, "--grace-period=0", "--force")
    until(lambda: cluster_136.request("GET", path)[0] == 404, "the group goes with its last pod")


@pytest.mark.parametrize("gate", RELEASES["1.36"].feature_gates)
def test_1_37_does_not_start_with_a_gate_that_is_gone(server_137: Server, gate: str, tmp_path: Path) -> None:
    """docs/upgrade.md lists the gates of 1.36 that must be removed."""
    done = subprocess.run(
        [str(server_137.program("kube-apiserver")), f"--feature-gates={gate}=true", "--version"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    gone = gate not in RELEASES["1.37"].feature_gates
    assert (f"unrecognized feature gate: {gate}" in done.stderr) is gone
    assert (done.returncode != 0) is gone
    text = PAGE.read_text(encoding="utf-8")
    assert (f"`{gate}` is gone" in text) is gone


def test_1_37_does_not_start_with_the_version_that_is_gone() -> None:
    """The server does not start with v1alpha2 in --runtime-config either."""
    gone = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
    with (
        pytest.raises(PodiumError, match="v1alpha2 that has not been registered"),
        exclusive(RELEASES["1.37"], apiserver=(gone,)),
    ):
        pass
