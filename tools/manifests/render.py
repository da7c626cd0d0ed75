"""Write manifests/rendered and the dashboard: `python -m tools.manifests.render`.

It needs kubectl on the PATH, or in KUBECTL. The rendered files are for clients without kustomize, and are in
the wheel, where `podium doctor` reads them; a test builds them again and compares.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.manifests import dashboard

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
MODES = ("admission", "scheduler")
# Each component of the chart's values, and its folder.
COMPONENTS = {
    "scheduler": "scheduler",
    "certManager": "cert-manager",
    "monitoring": "monitoring",
    "dashboard": "dashboard",
    "networkPolicy": "network-policy",
    "confinedBinds": "confined-binds",
}
_OVERLAY = (
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]\ncomponents:\n"
)


def overlay(kubectl: str, mode: str) -> str:
    """Build the overlay of a mode."""
    return build(kubectl, MANIFESTS / "overlays" / mode)


def combined(kubectl: str, components: Iterable[str]) -> str:
    """Build the base with some components, by their names in the chart's values."""
    chosen = [COMPONENTS[name] for name in components]
    if "cert-manager" not in chosen:
        chosen.insert(0, "self-signed")
    with tempfile.TemporaryDirectory() as parent:
        copy = Path(parent) / "manifests"
        shutil.copytree(MANIFESTS, copy, ignore=shutil.ignore_patterns("rendered"))
        made = copy / "overlays" / "combined"
        made.mkdir()
        listed = "".join(f"- ../../components/{component}\n" for component in chosen)
        (made / "kustomization.yaml").write_text(_OVERLAY + listed, encoding="utf-8")
        return build(kubectl, made)


def files(kubectl: str) -> dict[str, str]:
    """Return the generated files that are checked in, by path below manifests/."""
    return {
        dashboard.PATH: dashboard.text(),
        **{f"rendered/{mode}.yaml": overlay(kubectl, mode) for mode in MODES},
    }


def build(kubectl: str, folder: Path) -> str:
    """Run `kubectl kustomize` on a folder; its complaints go to stderr."""
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
