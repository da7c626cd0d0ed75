"""Rendered YAML and the Helm chart equal kustomize's output, with any components.

kubectl is the control plane's.
"""

import itertools
import os
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from tests.support.manifests.charts import Objects, as_kustomize, needs_helm, normalised, objects, release
from tools.devcluster.controlplane import programs
from tools.devcluster.controlplane.releases import NEWEST
from tools.manifests import render

pytestmark = pytest.mark.server

_COMPONENTS = tuple(render.COMPONENTS)
_CHOICES = [
    (),
    *((each,) for each in _COMPONENTS),
    *itertools.combinations(_COMPONENTS, 2),
    _COMPONENTS,
]


@cache
def _kubectl() -> str:
    return str(programs.find(NEWEST, ["kubectl"], os.environ, sys.stderr)["kubectl"])


def _built(text: str) -> Objects:
    return normalised(objects(text).values())


def test_the_checked_in_manifests_are_fresh() -> None:
    """`python -m tools.manifests.render` changes no file, and there are no other files."""
    made = render.files(_kubectl())
    for path, text in made.items():
        assert (render.MANIFESTS / path).read_text(encoding="utf-8") == text, path
    for file in (render.MANIFESTS / "rendered").iterdir():
        assert f"rendered/{file.name}" in made


@needs_helm
@pytest.mark.parametrize("components", _CHOICES, ids=lambda chosen: "+".join(chosen) or "none")
def test_the_chart_installs_what_kustomize_builds(components: tuple[str, ...]) -> None:
    """With every component alone, every two of them, none and all."""
    values = {"namespace": {"create": True}, **{each: {"enabled": True} for each in components}}
    assert as_kustomize(release(values)) == _built(render.combined(_kubectl(), components))


@needs_helm
def test_the_overlay_of_kind_is_the_chart_with_its_image() -> None:
    values = {"namespace": {"create": True}, "scheduler": {"enabled": True}, "image": {"tag": "dev"}}
    assert as_kustomize(release(values)) == _built(render.overlay(_kubectl(), "kind"))


@needs_helm
def test_values_are_what_an_overlay_says(tmp_path: Path) -> None:
    """Image, replicas and issuer of the chart equal those of an overlay that changes nothing else."""
    changed = as_kustomize(
        release(
            {
                "image": {"repository": "example.com:5000/podium", "tag": "1.10"},
                **{each: {"replicas": 3} for each in ("webhook", "controller")},
                "scheduler": {"enabled": True, "replicas": 3},
                "certManager": {"enabled": True, "issuer": {"kind": "Issuer", "name": "12"}},
            }
        )
    )
    shutil.copytree(render.MANIFESTS, tmp_path / "manifests")
    issuer = [
        {"op": "replace", "path": f"/spec/issuerRef/{name}", "value": value}
        for name, value in (("kind", "Issuer"), ("name", "12"))
    ]
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["manifests/base"],
        "components": ["manifests/components/scheduler", "manifests/components/cert-manager"],
        "images": [{"name": "podium", "newName": "example.com:5000/podium", "newTag": "1.10"}],
        "replicas": [
            {"name": f"podium-{each}", "count": 3} for each in ("webhook", "controller", "scheduler")
        ],
        "patches": [{"target": {"kind": "Certificate"}, "patch": yaml.safe_dump(issuer)}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    built = _built(render.build(_kubectl(), tmp_path))
    del built["Namespace", "podium-system"]
    assert changed == built


def test_the_overlay_in_the_docs_builds(tmp_path: Path) -> None:
    """The overlay of docs/install.md, beside a checkout called `podium`: image and issuer are its own."""
    page = (render.ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (tmp_path / "kustomization.yaml").write_text(page.partition("\n```yaml\n")[2].partition("```")[0])
    shutil.copytree(render.MANIFESTS, tmp_path / "podium" / "manifests")
    built = _built(render.build(_kubectl(), tmp_path))
    assert built["Certificate", "podium-webhook"]["spec"]["issuerRef"]["name"] == "our-issuer"
    (container,) = built["Deployment", "podium-webhook"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/podium:0.1.0"
    for path in re.findall(r"manifests/[a-z./-]*[a-z]", page):
        assert (render.ROOT / path).exists(), path


def test_the_patch_in_the_docs_labels_what_the_operator_looks_for(tmp_path: Path) -> None:
    """The patch of docs/monitoring.md is in an overlay with its component."""
    page = (render.ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    shutil.copytree(render.MANIFESTS, tmp_path / "manifests")
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["manifests/base"],
        "components": ["manifests/components/self-signed", "manifests/components/monitoring"],
    }
    patches = page.partition("\n```yaml\n")[2].partition("```")[0]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay) + patches)
    built = _built(render.build(_kubectl(), tmp_path))
    labelled = {kind for (kind, _), each in built.items() if "release" in each["metadata"].get("labels", {})}
    assert labelled == {"ServiceMonitor", "PrometheusRule"}
