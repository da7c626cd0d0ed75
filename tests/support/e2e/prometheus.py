"""Prometheus as a pod beside Podium: the scrapes and rules that its operator makes of Podium's manifests.

The rules are Podium's alerts. Only `for` is shorter, because a test cannot wait five minutes for each.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml
from tests.support.docs.pages import ROOT
from tests.support.e2e import neighbours
from tests.support.e2e.cluster import Nodes
from tests.support.install.scene import NAMESPACE, stored
from tests.support.servers import Server
from tools.neighbours.images import PROMETHEUS

_MONITOR = ROOT / "manifests" / "components" / "monitoring" / "monitor.yaml"
ALERTS = yaml.safe_load(
    (ROOT / "manifests" / "chart" / "files" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8")
)
RULES: list[dict[str, Any]] = [rule for group in ALERTS["spec"]["groups"] for rule in group["rules"]]
_SPACE = _NAME = "prometheus"
_PORT = 9090
_FOR = "10s"
_INTERVAL = "2s"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Alert(NamedTuple):
    """A firing alert: its labels, and its texts."""

    labels: dict[str, str]
    annotations: dict[str, str]


class Prometheus(NamedTuple):
    """The running Prometheus, asked through the API server's proxy."""

    server: Server

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of Prometheus' API, which must be a success."""
        service = f"/api/v1/namespaces/{_SPACE}/services/{_NAME}:{_PORT}/proxy/api/v1/{path}"
        answer = stored(self.server, f"{service}?{urlencode(parameters)}")
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, query: str) -> dict[str, list[float]]:
        """Return the values of a query, by the job of their series."""
        found: dict[str, list[float]] = {}
        for each in self.ask("query", query=query)["result"]:
            found.setdefault(each["metric"].get("job", ""), []).append(float(each["value"][1]))
        return found

    def exposed(self) -> set[str]:
        """Return the names of all families of metrics that the scraped processes expose."""
        return {each["metric"] for each in self.ask("targets/metadata")}

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules, each with the health of its last evaluation."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def firing(self, name: str = "") -> list[Alert]:
        """Return the alerts of this name that fire, by default all."""
        return [
            Alert(each["labels"], each["annotations"])
            for each in self.ask("alerts")["alerts"]
            if each["state"] == "firing" and name in ("", each["labels"]["alertname"])
        ]


def run(nodes: Nodes) -> Prometheus:
    """Start Prometheus in a namespace of its own, and return it when it is available."""
    service, monitor = yaml.safe_load_all(_MONITOR.read_text(encoding="utf-8"))
    files = {
        "prometheus.yaml": json.dumps(_configuration(service, monitor)),
        "alerts.yaml": json.dumps({"groups": list(_groups())}),
    }
    neighbours.install(nodes, PROMETHEUS, [service, *_rights(), *_workload(files)])
    return Prometheus(nodes.server)


def _groups() -> Iterator[dict[str, Any]]:
    for group in ALERTS["spec"]["groups"]:
        yield {**group, "rules": [{**rule, "for": _FOR} for rule in group["rules"]]}


def _configuration(service: dict[str, Any], monitor: dict[str, Any]) -> dict[str, Any]:
    """Return what the operator would make of a ServiceMonitor, and a scrape of API servers."""
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    relabelings = [
        {
            "source_labels": each["sourceLabels"],
            "target_label": each["targetLabel"],
            "replacement": each["replacement"],
        }
        for each in endpoint["relabelings"]
    ]
    podium = {
        "job_name": "podium",
        "honor_labels": endpoint["honorLabels"],
        **_found(NAMESPACE),
        "relabel_configs": [
            *_keep("__meta_kubernetes_service_name", service["metadata"]["name"]),
            *_keep("__meta_kubernetes_endpointslice_port_name", endpoint["port"]),
            *relabelings,
        ],
    }
    api_servers = {
        "job_name": "apiserver",
        "scheme": "https",
        "authorization": {"credentials_file": f"{_ACCOUNT}/token"},
        "tls_config": {"ca_file": f"{_ACCOUNT}/ca.crt", "server_name": "kubernetes"},
        **_found("default"),
        "relabel_configs": _keep("__meta_kubernetes_service_name", "kubernetes"),
    }
    return {
        "global": {
            "scrape_interval": _INTERVAL,
            "scrape_timeout": _INTERVAL,
            "evaluation_interval": _INTERVAL,
        },
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [podium, api_servers],
    }


def _found(namespace: str) -> dict[str, Any]:
    return {"kubernetes_sd_configs": [{"role": "endpointslice", "namespaces": {"names": [namespace]}}]}


def _keep(label: str, value: str) -> list[dict[str, Any]]:
    return [{"action": "keep", "source_labels": [label], "regex": value}]


def _rights() -> Iterator[dict[str, Any]]:
    """Yield the account that reads the targets of both namespaces, and the metrics of API servers."""
    group = "rbac.authorization.k8s.io"
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SPACE}}
    yield _object("v1", "ServiceAccount")
    reads = [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"]},
        {"apiGroups": [""], "resources": ["services", "pods"]},
    ]
    rules = [
        *({**each, "verbs": ["get", "list", "watch"]} for each in reads),
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    yield _object(f"{group}/v1", "ClusterRole", rules=rules)
    yield _object(
        f"{group}/v1",
        "ClusterRoleBinding",
        roleRef={"apiGroup": group, "kind": "ClusterRole", "name": _NAME},
        subjects=[{"kind": "ServiceAccount", "name": _NAME, "namespace": _SPACE}],
    )


def _workload(files: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the configuration, the pod and the Service of Prometheus."""
    yield _object("v1", "ConfigMap", data=files)
    labels = {"app": _NAME}
    container = {
        "name": _NAME,
        "image": PROMETHEUS.image,
        "imagePullPolicy": "Never",
        "args": ["--config.file=/configuration/prometheus.yaml", "--storage.tsdb.path=/data"],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": _PORT}, "periodSeconds": 2},
        "volumeMounts": [
            {"name": "configuration", "mountPath": "/configuration"},
            {"name": "data", "mountPath": "/data"},
        ],
    }
    pod = {
        "serviceAccountName": _NAME,
        "securityContext": {"fsGroup": 65532},
        "containers": [container],
        "volumes": [
            {"name": "configuration", "configMap": {"name": _NAME}},
            {"name": "data", "emptyDir": {}},
        ],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    yield _object("apps/v1", "Deployment", spec=spec)
    yield _object("v1", "Service", spec={"selector": labels, "ports": [{"port": _PORT}]})


def _object(version: str, kind: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": _NAME} if kind.startswith("Cluster") else {"name": _NAME, "namespace": _SPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
