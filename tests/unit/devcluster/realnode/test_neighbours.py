"""The manifests of other projects, as they are applied to nodes without a registry."""

from typing import Any

from tools.neighbours.images import adapted


def _deployment(**container: Any) -> dict[str, Any]:
    spec = {"serviceAccountName": "manager", "containers": [{"name": "manager", **container}]}
    return {"kind": "Deployment", "spec": {"replicas": 2, "template": {"spec": spec}}}


def test_a_deployment_runs_one_replica_of_the_image_in_the_nodes() -> None:
    asked = _deployment(
        image="registry.example/manager:main",
        imagePullPolicy="Always",
        args=["--leader-elect"],
        resources={"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}},
    )
    service = {"kind": "Service", "spec": {"ports": [{"port": 443}]}}
    changed, kept = adapted([asked, service], "localhost/manager:1")
    assert kept == service
    assert changed["spec"]["replicas"] == 1
    spec = changed["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "manager"
    assert spec["containers"] == [
        {
            "name": "manager",
            "image": "localhost/manager:1",
            "imagePullPolicy": "Never",
            "args": ["--leader-elect"],
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        }
    ]


def test_the_pods_of_a_daemon_set_run_the_image_in_the_nodes() -> None:
    plugin = {**_deployment(image="registry.example/plugin:main"), "kind": "DaemonSet"}
    del plugin["spec"]["replicas"]
    (changed,) = adapted([plugin], "localhost/plugin:1")
    assert "replicas" not in changed["spec"]
    (container,) = changed["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("localhost/plugin:1", "Never")
