"""Helm of tools/helm/go.mod, and its commands on the chart."""

import subprocess
from pathlib import Path

from tools.gotools import GoTools

ROOT = Path(__file__).parents[2]
CHART = ROOT / "manifests" / "chart"
HELM = GoTools(Path(__file__).parent, ("helm",), minutes=4)


def run(*arguments: str, stdin: str = "", home: str = "/nonexistent") -> "subprocess.CompletedProcess[str]":
    """Run Helm, with the settings and caches of a home that is not the user's."""
    return subprocess.run(
        [HELM.programs() / "helm", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": home, "PATH": ""},
    )


def template(
    values: str = "", chart: Path = CHART, namespace: str = "podium-system"
) -> "subprocess.CompletedProcess[str]":
    """Run `helm template` on the chart with a YAML document of values, without the objects of `helm test`."""
    arguments = ("template", "podium", str(chart), "--skip-tests", "--namespace", namespace)
    return run(*arguments, "--values", "-", stdin=values)
