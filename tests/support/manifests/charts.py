"""Helm's output as objects by name, and the differences of a release from what kustomize builds.

Tests that need Helm are marked as server tests, because they also need a program that Go builds.
"""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.install.scene import NAMESPACE
from tests.support.servers import Server
from tools.helm.program import CHART, run, template

Objects = dict[tuple[str, str], dict[str, Any]]

needs_helm = pytest.mark.server

# Labels that only a release of Helm has, and the annotation that restarts pods for a changed configuration.
HELM_LABELS = {
    "app.kubernetes.io/instance": "podium",
    "app.kubernetes.io/managed-by": "Helm",
}
_OF_A_VERSION = ("app.kubernetes.io/version", "helm.sh/chart")
_CHECKSUM = "checksum/configuration"


def helm(server: Server, home: Path, *arguments: str) -> str:
    """Run Helm for Podium's namespace of a server, and return its output; `home` has its settings."""
    done = run(*arguments, "--namespace", NAMESPACE, "--kubeconfig", str(server.kubeconfig), home=str(home))
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> Objects:
    """Return the documents of a YAML stream by kind and name."""
    documents = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert len(found) == len(documents)
    return found


def release(values: Mapping[str, Any]) -> Objects:
    """Return the objects of a release with these values."""
    done = template(yaml.safe_dump(dict(values)))
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def show(template_name: str, values: Mapping[str, Any]) -> str:
    """Return the output of one template with these values."""
    arguments = ("template", "podium", str(CHART), "--namespace", NAMESPACE)
    show_only = f"--show-only=templates/{template_name}.yaml"
    done = run(*arguments, show_only, "--values", "-", stdin=yaml.safe_dump(dict(values)))
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(values: Mapping[str, Any]) -> str:
    """Return Helm's message about values that the chart refuses."""
    done = template(yaml.safe_dump(dict(values)))
    assert done.returncode != 0, done.stdout
    return done.stderr


def as_kustomize(released: Objects) -> Objects:
    """Return the objects of a release without what only Helm adds. Each object must have those labels."""
    stripped = {}
    for key, document in released.items():
        metadata = document["metadata"] = dict(document["metadata"])
        labels = dict(metadata["labels"])
        assert {name: labels.pop(name) for name in HELM_LABELS} == HELM_LABELS, key
        assert all(labels.pop(name) for name in _OF_A_VERSION), key
        metadata["labels"] = labels
        stripped[key] = normal(document)
    return stripped


def normal(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what has no meaning: empty labels, order of named lists, layout of a file."""
    found = copy.deepcopy(document)
    for field in ("labels", "annotations"):
        if not found["metadata"].get(field):
            found["metadata"].pop(field, None)
    if found["kind"] == "ConfigMap" and found["metadata"]["name"] != "podium-dashboard":
        found["data"] = {name: yaml.load(text, yaml.CSafeLoader) for name, text in found["data"].items()}
    if found["kind"] == "Deployment":
        pod = found["spec"]["template"]
        annotations = pod["metadata"].get("annotations", {})
        annotations.pop(_CHECKSUM, None)
        if not annotations:
            pod["metadata"].pop("annotations", None)
        (container,) = pod["spec"]["containers"]
        for named in (
            container["env"],
            container["ports"],
            container["volumeMounts"],
            pod["spec"]["volumes"],
        ):
            named.sort(key=lambda each: each["name"])
    return found


def normalised(built: Iterable[dict[str, Any]]) -> Objects:
    """Return kustomize's objects in the same form."""
    return {(each["kind"], each["metadata"]["name"]): normal(each) for each in built}
