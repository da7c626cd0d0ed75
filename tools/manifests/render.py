"""Write manifests/rendered and the chart: `python -m tools.manifests.render`.

It needs kubectl on the PATH, or in KUBECTL. The checked-in files can be applied without kustomize, by kubectl
and by Helm; a test builds them again and compares.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.manifests import chart, dashboard

from podium.version import VERSION

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
MODES = ("admission", "scheduler", "kind")
_OVERLAY = (
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]\ncomponents:\n"
)


def overlay(kubectl: str, mode: str) -> str:
    """Build the overlay of a mode."""
    return build(kubectl, MANIFESTS / "overlays" / mode)


def combined(kubectl: str, toggles: Iterable[str]) -> str:
    """Build the base with the components of some toggles of the chart."""
    chosen = [chart.TOGGLES[toggle] for toggle in toggles]
    if "cert-manager" not in chosen:
        chosen.insert(0, "self-signed")
    with tempfile.TemporaryDirectory() as parent:
        copy = Path(parent) / "manifests"
        shutil.copytree(MANIFESTS, copy, ignore=shutil.ignore_patterns("rendered", "chart"))
        made = copy / "overlays" / "combined"
        made.mkdir()
        listed = "".join(f"- ../../components/{each}\n" for each in chosen)
        (made / "kustomization.yaml").write_text(_OVERLAY + listed, encoding="utf-8")
        return build(kubectl, made)


def files(kubectl: str) -> dict[str, str]:
    """Return the generated files that are checked in, by path below manifests/."""
    schema = chart.read_schema((MANIFESTS / "chart" / "values.schema.json").read_text(encoding="utf-8"))
    variants = {toggle: combined(kubectl, [toggle]) for toggle in chart.TOGGLES}
    written = chart.templates(overlay(kubectl, "admission"), variants)
    return {
        dashboard.PATH: dashboard.text(),
        **{f"rendered/{mode}.yaml": overlay(kubectl, mode) for mode in MODES},
        "chart/Chart.yaml": chart.chart(VERSION),
        "chart/values.yaml": chart.values(schema),
        **{f"chart/templates/{name}": text for name, text in written.items()},
    }


def build(kubectl: str, folder: Path) -> str:
    """Run `kubectl kustomize` on a folder; its warnings go to stderr."""
    done = subprocess.run([kubectl, "kustomize", str(folder)], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main() -> None:
    # Builds read it.
    (MANIFESTS / dashboard.PATH).write_text(dashboard.text(), encoding="utf-8")
    for path, text in files(os.environ.get("KUBECTL", "kubectl")).items():
        target = MANIFESTS / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
