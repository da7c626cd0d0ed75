"""The plans of a node: addresses and routes, mounts, configuration and command lines."""

from pathlib import Path

import msgspec
import pytest
from tools.devcluster.controlplane.cluster import WantedCluster
from tools.devcluster.controlplane.components import ClusterSettings, commands
from tools.devcluster.realnode import cluster, identities, namespaces, network, nodefiles
from tools.devcluster.realnode.cgroups import Hierarchy
from tools.devcluster.realnode.nodefiles import Programs

_PROGRAMS = Programs(
    *map(Path, ("/c/root", "/c/kubernetes", "/c/containerd", "/c/toolbox", "/c/toolbox.tar"))
)


def test_every_node_reaches_the_pods_of_every_other() -> None:
    """Node 0 is in the namespace with the bridge, so the routes of the others to its pods are the default."""
    assert [line for line in network.world("w", 3) if "10.244" in line] == [
        "ip route add 10.244.1.0/24 via 172.31.255.11",
        "ip route add 10.244.2.0/24 via 172.31.255.12",
    ]
    assert [line for line in network.node(2, 3) if "route" in line] == [
        "ip route add default via 172.31.255.1",
        "ip route add 10.244.1.0/24 via 172.31.255.11",
    ]


@pytest.mark.parametrize("nodes", [1, cluster.MOST_NODES])
def test_addresses_and_ranges_differ(nodes: int) -> None:
    assert len({network.address(each) for each in range(nodes)}) == nodes
    assert len({network.pods(each) for each in range(nodes)}) == nodes


def test_a_line_is_one_command_for_a_shell() -> None:
    assert network.line("hostname", "a b; c") == "hostname 'a b; c'"


def test_the_root_is_changed_after_every_mount_and_shared_after_that() -> None:
    plan = nodefiles.mounts(Path("/s/node-0"), _PROGRAMS, [Hierarchy(Path("/sys/fs/cgroup"), "")])
    assert plan[1] == (
        "mount -t overlay overlay -o"
        " lowerdir=/c/root,upperdir=/s/node-0/upper,workdir=/s/node-0/work /s/node-0/root"
    )
    at = plan.index("pivot_root . old")
    assert plan[at + 1 :] == ["cd /", "umount -l /old", "mount --make-rshared /"]
    assert not any("/s/node-0" in line for line in plan[at:])


def test_a_sysctl_of_the_machine_is_hidden_by_a_file_of_the_node() -> None:
    files = nodefiles.sysctl_files()
    plan = nodefiles.mounts(Path("/n"), _PROGRAMS, [])
    for name in nodefiles.SYSCTLS:
        bound = f"mount --bind /n/sysctl/{name.replace('/', '.')} /n/root/proc/sys/{name}"
        assert bound in plan
    assert files["sysctl/vm.overcommit_memory"] == "1\n"


def test_the_configuration_of_a_node_names_its_own_address_and_credentials() -> None:
    files = nodefiles.files(1)
    kubelet = msgspec.json.decode(files["etc/podium/kubelet.yaml"])
    assert (kubelet["address"], kubelet["tlsCertFile"]) == ("172.31.255.11", "/etc/podium/kubelet.crt")
    (bridge, _) = msgspec.json.decode(files["etc/cni/net.d/10-pods.conflist"])["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    assert "--hostname-override=node-1" in nodefiles.commands(1)["kubelet"]
    assert nodefiles.SANDBOX_IMAGE in files["etc/containerd/config.toml"]


def test_containerd_starts_first() -> None:
    assert list(nodefiles.commands(0)) == ["containerd", "kubelet", "kube-proxy"]


@pytest.mark.parametrize("is_separate, expected", [(True, True), (False, False)])
def test_node_0_is_in_the_network_of_the_control_plane(is_separate: bool, expected: bool) -> None:
    argv = namespaces.node(7, Path("/toolbox"), network=is_separate)
    assert ("--net" in argv[argv.index("unshare") :]) is expected


def test_the_api_server_is_that_of_fake_nodes_with_other_addresses() -> None:
    """The last of two equal flags counts."""
    wanted = WantedCluster(kubernetes="1.36", real_nodes=3, apiserver=("--audit-log-path=-",))
    settings = cluster.new_settings("a", wanted)
    assert (settings.real_nodes, settings.controllers) == (3, True)
    arguments = commands(settings, Path())["kube-apiserver"]
    assert arguments[-len(identities.APISERVER) - 1 :] == (*identities.APISERVER, "--audit-log-path=-")
    assert "--bind-address=127.0.0.1" in arguments[: -len(identities.APISERVER)]


def test_equal_names_in_other_folders_have_other_cgroups() -> None:
    assert cluster.cgroup(Path("/a/podium")) != cluster.cgroup(Path("/b/podium"))
    assert cluster.cgroup(Path("/a/podium")).startswith("podium-podium-")


def test_a_cluster_of_fake_nodes_is_not_real(tmp_path: Path) -> None:
    assert not cluster.is_real(tmp_path)
    settings = ClusterSettings(name="a", kubernetes="1.37", workload_api=True, controllers=True, ports={})
    assert settings.real_nodes == 0
