"""The configuration of a node's programs, as values: containerd, CNI, kubelet and kube-proxy."""

from pathlib import PurePosixPath

import msgspec

from podium.controlplane.nodes import node_name
from podium.realnode import network
from podium.realnode.network import address, pods

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
