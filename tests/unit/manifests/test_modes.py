"""The rendered manifests of each mode, as far as they can be checked without a server."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context

from podium.cli.config.processoptions import policy_of
from podium.cli.main import command as podium
from podium.controllers.manager import Rules
from podium.controllers.process import read_rules
from podium.documents.files import folder
from podium.runtime import health
from podium.runtime.leaserecord import Terms
from podium.version import VERSION

_ROOT = folder("manifests").parent
_PROCESSES = {
    "admission": {"webhook", "controller"},
    "scheduler": {"webhook", "controller", "scheduler"},
}


def rendered(mode: str, *kinds: str) -> list[dict[str, Any]]:
    """Return the documents of a mode, of some kinds if given."""
    text = (_ROOT / "manifests" / "rendered" / f"{mode}.yaml").read_text(encoding="utf-8")
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if not kinds or each["kind"] in kinds]


def configured(mode: str, name: str) -> dict[str, str]:
    """Return the files of a ConfigMap."""
    (made,) = [each for each in rendered(mode, "ConfigMap") if each["metadata"]["name"] == name]
    data: dict[str, str] = made["data"]
    return data


@pytest.mark.parametrize("mode", _PROCESSES)
def test_each_process_has_two_replicas_that_a_drain_and_a_node_do_not_take_together(mode: str) -> None:
    """Replicas, spread and budget select the same pods."""
    budgets = {each["metadata"]["name"]: each["spec"] for each in rendered(mode, "PodDisruptionBudget")}
    deployments = rendered(mode, "Deployment")
    assert {each["spec"]["template"]["spec"]["containers"][0]["name"] for each in deployments} == _PROCESSES[
        mode
    ]
    for each in deployments:
        pod = each["spec"]["template"]
        selector = each["spec"]["selector"]
        assert each["spec"]["replicas"] == 2
        assert selector["matchLabels"] == pod["metadata"]["labels"]
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"] == selector
        # tests/integration/manifests/test_spread_servers.py has kube-scheduler place them.
        assert (spread["whenUnsatisfiable"], spread["nodeTaintsPolicy"]) == ("DoNotSchedule", "Honor")
        assert spread["matchLabelKeys"] == ["pod-template-hash"]
        budget = budgets.pop(each["metadata"]["name"])
        assert (budget["selector"], budget["minAvailable"]) == (selector, 1)
        assert pod["spec"]["serviceAccountName"] == each["metadata"]["name"]
    assert not budgets


@pytest.mark.parametrize("mode", _PROCESSES)
def test_each_probe_has_a_timeout_and_a_process_the_time_to_start(mode: str) -> None:
    """Probes do not coincide, and a leader without answers loses its Lease before it is killed.

    The startup probe waits for readiness, so it is the exception: a kubelet sends the next one after its end.
    """
    for each in rendered(mode, "Deployment"):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        startup, liveness, readiness = (
            container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")
        )
        for probe in (liveness, readiness):
            assert 1 < probe["timeoutSeconds"] <= probe["periodSeconds"]
        assert startup["timeoutSeconds"] > health.START_SECONDS
        assert [each["httpGet"]["path"] for each in (startup, liveness, readiness)] == [
            "/startupz",
            "/livez",
            "/readyz",
        ]
        assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 2 * Terms().lease_seconds
        assert startup["periodSeconds"] * startup["failureThreshold"] == 120


@pytest.mark.parametrize("mode", _PROCESSES)
def test_the_command_line_takes_the_arguments(mode: str) -> None:
    """The options are the container's arguments; each named file is in a volume."""
    for each in rendered(mode, "Deployment"):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        name, *arguments = container["args"]
        command = podium.get_command(Context(podium), name)
        assert command is not None
        mounted = tuple(f"{mount['mountPath']}/" for mount in container.get("volumeMounts", ()))
        kept = [each for each in arguments if not each.startswith("--config=")]
        for file in set(arguments) - set(kept):
            assert file.partition("=")[2].startswith(mounted)
        parameters = command.make_context(name, kept).params
        assert parameters["bind"] == "0.0.0.0"
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports["metrics"] == parameters["metrics_port"]
        assert ports.get("https") == parameters.get("port")


def test_the_images_are_of_this_version() -> None:
    """Overlays and a release replace the name."""
    for mode in _PROCESSES:
        for each in rendered(mode, "Deployment"):
            (container,) = each["spec"]["template"]["spec"]["containers"]
            assert container["image"] == f"podium:{VERSION}"


def test_the_scheduler_begins_carefully() -> None:
    """Its file is the first one of docs/scheduler.md."""
    made = configured("scheduler", "podium-scheduler")
    careful = (_ROOT / "examples" / "scheduler" / "careful.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(made["scheduler.yaml"]) == yaml.safe_load(careful)


def test_the_others_are_told_nothing_that_they_do_not_do_anyway(tmp_path: Path) -> None:
    """The files exist for further settings, and have the defaults."""
    policy, controller = tmp_path / "policy.yaml", tmp_path / "controller.yaml"
    policy.write_text(configured("admission", "podium-webhook")[policy.name], encoding="utf-8")
    controller.write_text(configured("admission", "podium-controller")[controller.name], encoding="utf-8")
    assert policy_of(str(policy)) == policy_of(None)
    assert read_rules(str(controller)) == Rules()


@pytest.mark.parametrize("mode", _PROCESSES)
def test_there_is_no_bundle_to_drift_and_data_is_kept(mode: str) -> None:
    """For GitOps, caBundle is the webhook's field; the custom resources survive a prune."""
    text = (_ROOT / "manifests" / "rendered" / f"{mode}.yaml").read_text(encoding="utf-8")
    assert "caBundle" not in text
    for each in rendered(mode, "CustomResourceDefinition"):
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
