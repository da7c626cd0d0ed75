"""The packages for a cluster: the chart, and one YAML file for each mode, both with the published image.

Helm dates the members of a package by the clock, so the package is written again with one date.
"""

import re
import shutil
from pathlib import Path

import yaml
from tools.helm.program import CHART, run, template
from tools.release.archives import members, tarball
from tools.release.artifacts import ADDRESS, ROOT, Release, same

from podium.errors import PodiumError
from podium.version import VERSION

PACKAGE = f"podium-{VERSION}.tgz"
MODES = ("admission", "scheduler")
# https://artifacthub.io/docs/topics/annotations/helm/
_CATEGORIES = (
    "ai-machine-learning",
    "database",
    "integration-delivery",
    "monitoring-logging",
    "networking",
    "security",
    "storage",
    "streaming-messaging",
)


def build(release: Release) -> str:
    """Package the chart twice, and return a line about it. Raises PodiumError."""
    for name in ("first", "second"):
        _package(release, release.work / name / "manifests" / "chart", release.work / name / "dist")
    first, second = (release.work / copy / "dist" / PACKAGE for copy in ("first", "second"))
    same(first, second)
    shutil.copy2(first, release.folder / PACKAGE)
    return f"{PACKAGE} {first.stat().st_size // 1000} kB; two builds are equal"


def _package(release: Release, chart: Path, folder: Path) -> None:
    values = chart / "values.yaml"
    text = values.read_text(encoding="utf-8")
    text, repositories = re.subn(
        r"(?m)^  repository: podium$", f"  repository: {release.image.repository}", text
    )
    text, digests = re.subn(r'(?m)^  digest: ""$', f'  digest: "{release.image.digest}"', text)
    if (repositories, digests) != (1, 1):
        raise PodiumError(f"{values} has the image {repositories} times and its digest {digests} times")
    values.write_text(text, encoding="utf-8")
    with (chart / "Chart.yaml").open("a", encoding="utf-8") as about:
        about.write(_images(release))
    for file in (values, chart / "Chart.yaml", chart / "README.md"):
        file.write_text(addressed(file.read_text(encoding="utf-8"), release), encoding="utf-8")
    done = run("package", str(chart), "--destination", str(folder))
    if done.returncode:
        raise PodiumError(f"helm package: {done.stderr}")
    package = folder / PACKAGE
    package.write_bytes(tarball(members(package), release.epoch))


def addressed(text: str, release: Release) -> str:
    """Return a text with the addresses of the files of a release, also in place of links in the checkout."""
    text = text.replace("](../../docs/", f"]({ADDRESS}/blob/main/docs/")
    return re.sub(
        rf"{re.escape(ADDRESS)}(?:/(blob|raw)/main)?",
        lambda found: release.address + (f"/{found[1]}/v{VERSION}" if found[1] else ""),
        text,
    )


def _images(release: Release) -> str:
    """Return the images as an annotation; the annotations are the last key of Chart.yaml."""
    image = yaml.safe_dump([{"name": "podium", "image": release.image.reference}])
    return "  artifacthub.io/images: |\n" + "".join(f"    {line}\n" for line in image.splitlines())


def check(release: Release) -> str:
    """Check the package as users get it. Raises PodiumError."""
    package = release.folder / PACKAGE
    lint = run("lint", "--strict", str(package))
    if lint.returncode or "[WARNING]" in lint.stdout:
        raise PodiumError(f"helm lint: {lint.stdout}{lint.stderr}")
    values = "scheduler: {enabled: true}"
    packed, here = template(values, chart=package), template(values, chart=CHART)
    if packed.returncode or _unpublished(packed.stdout, release) != here.stdout:
        raise PodiumError(f"{package.name} is not {CHART}: {packed.stderr}")
    about = yaml.safe_load(members(package)["podium/Chart.yaml"])
    category = about["annotations"]["artifacthub.io/category"]
    if category not in _CATEGORIES:
        raise PodiumError(f"Artifact Hub has no category {category}: {', '.join(_CATEGORIES)}")
    for name in ("crds", "images"):
        if not yaml.safe_load(about["annotations"][f"artifacthub.io/{name}"]):
            raise PodiumError(f"artifacthub.io/{name} of {PACKAGE} is empty")
    return (
        "lint without a warning; the package renders as the chart in the checkout; metadata of Artifact Hub"
    )


def _unpublished(text: str, release: Release) -> str:
    return text.replace(f'"{release.image.reference}"', f'"podium:{VERSION}"')


def rendered(release: Release) -> str:
    """Write a YAML file for each mode. Raises PodiumError if one has no image of Podium."""
    for mode in MODES:
        text = (ROOT / "manifests" / "rendered" / f"{mode}.yaml").read_text(encoding="utf-8")
        text, count = re.subn(
            rf"(?m)image: podium:{re.escape(VERSION)}$", f"image: {release.image.reference}", text
        )
        if not count:
            raise PodiumError(f"manifests/rendered/{mode}.yaml has no image podium:{VERSION}")
        (release.folder / f"podium-{VERSION}-{mode}.yaml").write_text(text, encoding="utf-8")
    return f"{', '.join(MODES)}, with {release.image.reference}"
