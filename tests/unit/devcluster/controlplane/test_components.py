"""The command lines of a cluster's components, as functions of the release and the options."""

from pathlib import Path

import pytest
from tools.devcluster.controlplane.components import ClusterSettings, commands, listening, names
from tools.devcluster.controlplane.releases import RELEASES

PORTS = {"kube-apiserver": 1001, "kube-controller-manager": 1002, "kube-scheduler": 1003}


def flags(minor: str, *, workload_api: bool = True, controllers: bool = True) -> dict[str, dict[str, str]]:
    """Every component's flags by name."""
    settings = ClusterSettings(
        name="test", kubernetes=minor, workload_api=workload_api, controllers=controllers, ports=PORTS
    )
    return {
        name: dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
        for name, arguments in commands(settings, Path("/data/stages.yaml")).items()
    }


GATES = {
    "1.36": "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true",
    "1.37": "GenericWorkload=true",
}
VERSIONS = {
    "1.36": "scheduling.k8s.io/v1alpha2=true",
    "1.37": "scheduling.k8s.io/v1alpha3=true,scheduling.k8s.io/v1beta1=true",
}


@pytest.mark.parametrize("minor", RELEASES)
def test_workload_api_is_on_in_every_component_that_has_its_gates(minor: str) -> None:
    """The gates are set on all components: on the API server alone, no scheduler would know groups."""
    wanted = flags(minor)
    for component in listening(controllers=True):
        assert wanted[component]["feature-gates"] == GATES[minor]
    assert wanted["kube-apiserver"]["runtime-config"] == VERSIONS[minor]


@pytest.mark.parametrize("minor", RELEASES)
def test_no_workload_api_leaves_the_release_as_it_comes(minor: str) -> None:
    """Without the Workload API the command lines name no gate and no API version."""
    for component in flags(minor, workload_api=False).values():
        assert not component.keys() & {"feature-gates", "runtime-config"}


def test_admission_plugins_that_need_controllers_are_off_only_without_them() -> None:
    """ServiceAccount and TaintNodesByCondition depend on kube-controller-manager."""
    plugins = "disable-admission-plugins"
    assert plugins not in flags("1.37")["kube-apiserver"]
    alone = flags("1.37", controllers=False)
    assert alone["kube-apiserver"][plugins] == "ServiceAccount,TaintNodesByCondition"
    assert tuple(alone) == names(controllers=False) == ("etcd", "kube-apiserver")


def test_ports_are_on_loopback_and_etcd_has_none() -> None:
    """Each listening program uses 127.0.0.1 and its own port; etcd only sockets in the folder."""
    wanted = flags("1.36")
    for component, port in PORTS.items():
        assert wanted[component]["bind-address"] == "127.0.0.1"
        assert wanted[component]["secure-port"] == str(port)
    urls = [value for name, value in wanted["etcd"].items() if name.endswith("-urls")]
    assert len(urls) == 4
    assert all(url.startswith("unix://etcd") for url in urls)


def test_anonymous_requests_are_off() -> None:
    """Anonymous requests are off and RBAC authorizes the others."""
    apiserver = flags("1.37")["kube-apiserver"]
    assert apiserver["anonymous-auth"] == "false"
    assert apiserver["authorization-mode"] == "RBAC"
    assert apiserver["token-auth-file"] == "tokens.csv"


def test_paths_stay_inside_the_clusters_folder() -> None:
    """Components run in the folder; only kwok's configuration is elsewhere."""
    outside = {
        value
        for component in flags("1.37").values()
        for value in component.values()
        if value.startswith("/") or ".." in value
    }
    assert outside == {"/data/stages.yaml"}


def test_the_api_server_takes_further_arguments() -> None:
    """No other component receives them."""
    further = ("--audit-log-path=audit.log",)
    settings = ClusterSettings(
        name="test", kubernetes="1.37", workload_api=True, controllers=True, ports=PORTS, apiserver=further
    )
    receivers = [
        name
        for name, arguments in commands(settings, Path("/data/stages.yaml")).items()
        if set(further) <= set(arguments)
    ]
    assert receivers == ["kube-apiserver"]
