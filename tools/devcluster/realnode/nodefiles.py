"""The files of a node, as values: its file system, and the configuration of its programs.

The file system is the shared Debian root below an overlay of the node's own, with the node's mounts. kubelet
requires some sysctls of the whole machine. The node sees files with the required values in their place, so
kubelet writes none.
"""

from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from tools.devcluster.controlplane.nodes import node_name
from tools.devcluster.realnode import cgroups, network
from tools.devcluster.realnode.cgroups import Hierarchy
from tools.devcluster.realnode.network import address, line, pods

# Where a node has its credentials.
CREDENTIALS = PurePosixPath("/etc/podium")
SANDBOX_IMAGE = "localhost/toolbox:1"
PROXY_HEALTH_PORT = 10256
_KUBELET_HEALTH_PORT = 10248
_KUBELET_PORT = 10250

# containerd looks for these in /etc/containerd and /etc/cni/net.d.
_CONTAINERD = f"""\
version = 3
oom_score = 0
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{SANDBOX_IMAGE}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/usr/lib/cni']
"""

# By kubelet's --protect-kernel-defaults=false, it sets those that differ.
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# Paths below a node's folder.
UPPER = "upper"
_SYSCTL = "sysctl"
# On the machine's disk: an overlay cannot hold the overlays of containers.
_STORED = {
    "containerd": "var/lib/containerd",
    "kubelet": "var/lib/kubelet",
    "pods": "var/log/pods",
}


class Programs(NamedTuple):
    """The folders in the cache of what nodes run."""

    root: Path  # Debian, shared by all nodes
    kubernetes: Path
    containerd: Path
    toolbox: Path  # the program
    sandbox: Path  # the archive of its image

    def path(self, name: str) -> Path:
        """Return one of a node's programs."""
        return (self.containerd if name == "containerd" else self.kubernetes) / name


def sysctl_files() -> dict[str, str]:
    """Return the files that take the place of sysctls: path below a node's folder, and text."""
    return {_sysctl(name): f"{value}\n" for name, value in SYSCTLS.items()}


def _sysctl(name: str) -> str:
    return f"{_SYSCTL}/{name.replace('/', '.')}"


def mounts(folder: Path, programs: Programs, mounted: list[Hierarchy]) -> list[str]:
    """Return the commands, in a new node's namespaces, that make its file system and change to it."""
    root = folder / "root"

    def bind(source: Path, target: str) -> list[str]:
        return [
            line("mkdir", "-p", f"{root}/{target}"),
            line("mount", "--bind", str(source), f"{root}/{target}"),
        ]

    made = [folder / name for name in ("root", UPPER, "work", *_STORED)]
    layers = f"lowerdir={programs.root},upperdir={folder / UPPER},workdir={folder / 'work'}"
    return [
        line("mkdir", "-p", *map(str, made)),
        line("mount", "-t", "overlay", "overlay", "-o", layers, str(root)),
        *bind(programs.kubernetes, "podium/kubernetes"),
        *bind(programs.containerd, "podium/containerd"),
        *(command for name, target in _STORED.items() for command in bind(folder / name, target)),
        line("mount", "-t", "proc", "proc", f"{root}/proc"),
        *(
            line("mount", "--bind", str(folder / _sysctl(name)), f"{root}/proc/sys/{name}")
            for name in SYSCTLS
        ),
        line("mount", "--rbind", "/dev", f"{root}/dev"),
        line("mount", "--make-rslave", f"{root}/dev"),
        line("mount", "-t", "sysfs", "sysfs", f"{root}/sys"),
        *cgroups.mounts(mounted, f"{root}/sys/fs/cgroup"),
        line("mount", "-t", "tmpfs", "tmpfs", f"{root}/run"),
        line("mount", "-t", "tmpfs", "tmpfs", f"{root}/tmp"),  # noqa: S108 - a node's own
        line("mkdir", f"{root}/old"),
        line("cd", str(root)),
        line("pivot_root", ".", "old"),
        line("cd", "/"),
        line("umount", "-l", "/old"),
        # kubelet's volumes have to reach the mount namespaces of containers.
        line("mount", "--make-rshared", "/"),
    ]


def files(node: int) -> dict[str, str]:
    """Return a node's files of configuration: path below the root of its file system, and text."""
    return {
        "etc/hostname": f"{node_name(node)}\n",
        "etc/hosts": "127.0.0.1 localhost\n",
        "etc/resolv.conf": "",
        "etc/containerd/config.toml": _CONTAINERD,
        "etc/cni/net.d/10-pods.conflist": _text(_cni(node)),
        "etc/podium/kubelet.yaml": _text(_kubelet(node)),
        "etc/podium/kube-proxy.yaml": _text(_proxy(node)),
    }


def commands(node: int) -> dict[str, tuple[str, ...]]:
    """Return the exact command of each of a node's programs, in starting order."""
    return {
        "containerd": ("containerd",),
        "kubelet": (
            "kubelet",
            f"--config={CREDENTIALS}/kubelet.yaml",
            f"--kubeconfig={CREDENTIALS}/kubelet.kubeconfig",
            f"--hostname-override={node_name(node)}",
            f"--node-ip={address(node)}",
        ),
        "kube-proxy": ("kube-proxy", f"--config={CREDENTIALS}/kube-proxy.yaml"),
    }


def _text(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()  # YAML reads JSON.


def _cni(node: int) -> object:
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": pods(node)}]],
    }
    return {
        "cniVersion": "0.3.1",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet(node: int) -> object:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address(node),
        "port": _KUBELET_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{CREDENTIALS}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{CREDENTIALS}/kubelet.crt",
        "tlsPrivateKeyFile": f"{CREDENTIALS}/kubelet.key",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Without CAP_SYS_RESOURCE, as in many containers, no process may lower its score.
        "oomScoreAdj": 0,
        "clusterDomain": "cluster.local",
        "clusterDNS": [network.DNS],  # No server answers there. Without it, each pod gets a warning.
        "resolvConf": "",
        "healthzPort": _KUBELET_HEALTH_PORT,
        # The disk is the machine's, and its other users may have filled it.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
    }


def _proxy(node: int) -> object:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node_name(node),
        "clientConnection": {"kubeconfig": f"{CREDENTIALS}/kube-proxy.kubeconfig"},
        "clusterCIDR": network.PODS,
        "detectLocalMode": "ClusterCIDR",
        "oomScoreAdj": 0,
        # These would be settings of the whole machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": f"{address(node)}:{PROXY_HEALTH_PORT}",
        "metricsBindAddress": "127.0.0.1:10249",
    }
