"""Bills of materials (CycloneDX) of wheel and image, and the licences of all packages in them.

cyclonedx-py reads an environment that has the wheel and its locked packages, so licences and dependencies are
those of the packages themselves. BuildKit adds the packages of the base image, in the workflow.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from tools.release import locked
from tools.release.artifacts import ROOT, UV, Release, run
from tools.release.distributions import WHEEL, environment
from tools.release.programs import program

from podium.errors import PodiumError
from podium.version import VERSION

# Permissive, or (MPL-2.0) without effect on other files. A package with another licence needs a decision.
ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    }
)
# Names that packages use instead of the identifiers of SPDX.
_NAMES = {
    "Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: MIT License": "MIT",
    "Apache 2": "Apache-2.0",
}


_VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1], encoding="utf-8").read()))
"""


class Licence(NamedTuple):
    """A package and the SPDX expression of its licence."""

    name: str
    version: str
    expression: str


def build(release: Release, python: Path) -> str:
    """Write the bills and the table of licences, and return a line. Raises PodiumError for a licence."""
    made = environment(release, python, "bom")
    lock = release.work / "runtime.lock"
    lock.write_text(locked.requirements(locked.runtime(locked.packages())), encoding="utf-8")
    pip = [str(UV), "pip", "install", "--quiet", "--python", str(made), "--no-deps"]
    run([*pip, "--require-hashes", "--requirement", str(lock)])
    run([*pip, str(release.folder / WHEEL)])
    tool = [program(release, "cyclonedx-py"), "environment", "--pyproject", str(ROOT / "pyproject.toml")]
    reproducible = ["--output-reproducible", "--spec-version", "1.6", "--output-file", "-", str(made)]
    wheel = json.loads(run([*tool, *reproducible], environ=release.environ))
    wheel["metadata"]["component"]["version"] = VERSION
    _write(release, "wheel", wheel)
    _write(release, "image", of_image(wheel, release))
    licence_list = licences(wheel)
    (release.folder / f"podium-{VERSION}-licences.md").write_text(table(licence_list), encoding="utf-8")
    refused = [licence for licence in licence_list if not permitted(licence.expression)]
    if refused:
        listed = "; ".join(f"{licence.name} {licence.version} ({licence.expression})" for licence in refused)
        raise PodiumError(f"licences that are not on the list of tools/release/bom.py: {listed}")
    return f"{len(licence_list)} packages, all with licences of the list"


def of_image(wheel: dict[str, Any], release: Release) -> dict[str, Any]:
    """Return the bill of the image: the wheel's, with the wheel and the base image as components."""
    reference = f"pkg:oci/podium?repository_url={release.image.repository}&tag={VERSION}"
    base = re.search(
        r"^ARG BASE=(\S+):(\S+)@(sha256:\S+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE
    )
    if base is None:
        raise PodiumError("the base image in the Dockerfile has no digest")
    name, tag, digest = base.groups()
    under = f"pkg:oci/{name}@{digest.replace(':', '%3A')}?repository_url=docker.io/library/{name}&tag={tag}"
    project = wheel["metadata"]["component"]
    image = {
        "type": "container",
        "bom-ref": reference,
        "name": "podium",
        "version": VERSION,
        "purl": reference,
    }
    below = {"type": "container", "bom-ref": under, "name": name, "version": tag, "purl": under}
    return {
        **wheel,
        "metadata": {**wheel["metadata"], "component": image},
        "components": [below, project, *wheel["components"]],
        "dependencies": [
            {"ref": reference, "dependsOn": sorted([under, project["bom-ref"]])},
            {"ref": under},
            *wheel["dependencies"],
        ],
    }


def licences(bill: dict[str, Any]) -> list[Licence]:
    """Return the licence of each component."""
    return [
        Licence(component["name"], component["version"], _expression(component))
        for component in bill["components"]
    ]


def _expression(component: dict[str, Any]) -> str:
    """Return what a package declares, in SPDX: an expression, else identifiers, else names."""
    stated = component.get("licenses", ())
    expressions = [licence["expression"] for licence in stated if "expression" in licence]
    if expressions:
        return " AND ".join(expressions)
    identifiers = [licence["license"]["id"] for licence in stated if "id" in licence["license"]]
    names = [_NAMES.get(licence["license"]["name"], "") for licence in stated if "name" in licence["license"]]
    return " AND ".join(dict.fromkeys(identifiers or names)) or "none"


def permitted(expression: str) -> bool:
    """Return whether all parts of an expression are on the list; of an OR, one suffices."""
    parts = re.split(r"\s+AND\s+", expression.replace("(", "").replace(")", ""))
    return all(any(choice.strip() in ALLOWED for choice in re.split(r"\s+OR\s+", term)) for term in parts)


def table(licence_list: list[Licence]) -> str:
    """Return the licences as a table in Markdown."""
    rows = [f"| {licence.name} | {licence.version} | {licence.expression} |\n" for licence in licence_list]
    return "".join(
        ["# Licences of the packages\n\n| Package | Version | Licence |\n| --- | --- | --- |\n", *rows]
    )


def _write(release: Release, of: str, bill: dict[str, Any]) -> None:
    """Write a bill that the schema of CycloneDX accepts and whose references exist. Raises PodiumError."""
    path = release.folder / f"podium-{VERSION}-{of}.cdx.json"
    path.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    known = {component["bom-ref"] for component in (bill["metadata"]["component"], *bill["components"])}
    named = {
        reference
        for dependency in bill["dependencies"]
        for reference in (dependency["ref"], *dependency.get("dependsOn", ()))
    }
    if unknown := named - known:
        raise PodiumError(f"{path.name} has dependencies on unknown components: {sorted(unknown)}")
    run([program(release, "python"), "-c", _VALIDATE, str(path)])
