"""Commands on pages that cannot run in a test: the reason, and another check of each."""

import re
from collections.abc import Callable
from typing import NamedTuple

import yaml
from tests.support.docs.pages import ROOT
from tools.release import charts, distributions, krew, signing

from podium.version import VERSION


class Elsewhere(NamedTuple):
    """Commands with this prefix; `check` raises AssertionError for a command that cannot be right."""

    begins: str
    why: str
    check: Callable[[str], None]


def elsewhere(line: str) -> Elsewhere | None:
    """Return the reason why a command does not run in tests, None if it does."""
    return next((each for each in ELSEWHERE if re.match(each.begins, line)), None)


def _is_a_target(line: str) -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    found = re.match(r"make ([a-z0-9-]+)", line)
    assert found is not None
    assert found[1] in targets


def _names_an_artifact(line: str) -> None:
    """A release's file, which tools.release builds, the chart of the checkout, or a release of Helm."""
    built = {
        *(distributions.WHEEL, charts.PACKAGE, krew.MANIFEST, krew.ARCHIVE, signing.SUMS),
        *(f"podium-{VERSION}-{mode}.yaml" for mode in charts.MODES),
        f"{signing.SUMS}.sigstore.json",
    }
    named = re.findall(r"(?:[\s=']|^)((?:podium|kubectl-podium|SHA256)[\w.-]*(?:[.]\w+|SUMS))", line)
    assert named or "manifests/chart" in line or line.startswith("helm test podium ")
    assert set(named) <= built, line


def _names_an_image(line: str) -> None:
    assert re.fullmatch(r"kind build node-image v1\.3\d\.\d+ --image nodes:1\.3\d", line)


def _selects_pods(line: str) -> None:
    found = re.search(r"(?: -l |--selector=)(\S+)", line)
    assert found is not None
    wanted = dict(each.split("=") for each in found[1].split(","))
    text = (ROOT / "manifests" / "rendered" / "scheduler.yaml").read_text("utf-8")
    templates = [
        each["spec"]["template"]
        for each in yaml.load_all(text, yaml.CSafeLoader)
        if each["kind"] == "Deployment"
    ]
    assert any(wanted.items() <= each["metadata"]["labels"].items() for each in templates)


def _is_run_by_its_own_test(line: str) -> None:
    pages = (ROOT / "docs" / "ui.md", ROOT / "README.md")
    assert any(f"\n$ {line}" in page.read_text("utf-8") for page in pages)


def _is_on_the_page_of_real_nodes(line: str) -> None:
    assert f"\n$ {line}" in (ROOT / "docs" / "real-nodes.md").read_text("utf-8")


ELSEWHERE = (
    Elsewhere(
        r"podium ui\b",
        "serves until it is interrupted; tests/integration/cli/ui/test_docs.py opens the link of each",
        _is_run_by_its_own_test,
    ),
    Elsewhere(
        r"make (?!cluster)",
        "sets up or tests this checkout, as integration/repository/test_make.py and .ci/run do; or needs "
        "Docker and kind, whose steps tests/unit/manifests/test_kind.py writes down",
        _is_a_target,
    ),
    Elsewhere(
        r"make cluster-real|\.venv/bin/python -m tools\.devcluster ",
        "needs root and a kubelet's kernel; tests/e2e/test_page.py runs each",
        _is_on_the_page_of_real_nodes,
    ),
    Elsewhere(
        r"helm ",
        "needs Helm, whose build takes minutes; `make release-check` renders chart and package with it",
        _names_an_artifact,
    ),
    Elsewhere(
        r"pip install 'podium_k8s|kubectl krew|kubectl apply .*podium-\d|cosign|sha256sum",
        "needs the files of a release; `make release-check` builds, installs and signs them",
        _names_an_artifact,
    ),
    Elsewhere(r"kind ", "needs kind and Docker", _names_an_image),
    Elsewhere(r"kubectl .*\blogs ", "needs kubelets that run something", _selects_pods),
)
