"""The parts of `make release-check` that build nothing: archives, licences, scans, the plugin, the tag."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from tools.release import archives, bom, charts, distributions, krew, locked, scan
from tools.release.artifacts import ADDRESS, ROOT, Image, Release

from podium.version import VERSION


def test_equal_files_give_equal_archives_whatever_their_order(tmp_path: Path) -> None:
    """And each file is unpacked as it was."""
    files = {"b/program": b"#!/bin/sh\n", "a.txt": b"text"}
    once = archives.tarball(files, 1_700_000_000, frozenset({"b/program"}))
    turned = dict(reversed(files.items()))
    assert archives.tarball(turned, 1_700_000_000, frozenset({"b/program"})) == once
    assert archives.tarball(files, 1_700_000_001, frozenset({"b/program"})) != once
    (tmp_path / "it.tar.gz").write_bytes(once)
    assert archives.members(tmp_path / "it.tar.gz") == files


@pytest.mark.parametrize(
    ("expression", "permitted"),
    [
        ("MIT", True),
        ("BSD-3-Clause AND 0BSD AND MIT", True),
        ("Apache-2.0 OR GPL-2.0-only", True),
        ("MIT AND (GPL-3.0-only OR BSD-3-Clause)", True),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0-only", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("none", False),
    ],
)
def test_a_licence_is_permitted_by_all_its_parts(expression: str, permitted: bool) -> None:
    assert bom.permitted(expression) is permitted


@pytest.mark.parametrize(
    ("stated", "expression"),
    [
        ([{"expression": "MIT OR Apache-2.0"}], "MIT OR Apache-2.0"),
        ([{"license": {"id": "MPL-2.0"}}, {"license": {"name": "Mozilla Public License 2.0"}}], "MPL-2.0"),
        ([{"license": {"name": "Apache Software License"}}], "Apache-2.0"),
        ([{"license": {"name": "Proprietary"}}], "none"),
        ([], "none"),
    ],
    ids=["expression", "identifier and name", "known name", "unknown name", "nothing"],
)
def test_a_licence_is_what_a_package_declares(stated: list[Any], expression: str) -> None:
    (found,) = bom.licences({"components": [{"name": "a", "version": "1", "licenses": stated}]})
    assert found.expression == expression


def _package(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": "1", **more}


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ([_package("a", vulns=[])], scan.Scan([], "")),
        (
            [_package("a", vulns=[{"id": "PYSEC-1", "fix_versions": ["2"]}])],
            scan.Scan(["a 1: PYSEC-1, fixed in 2"], ""),
        ),
        (
            [_package("a", vulns=[]), {"name": "b", "skip_reason": "not found on PyPI"}],
            scan.Scan([], "1 of 2 packages: not found on PyPI"),
        ),
    ],
    ids=["clean", "vulnerable", "an index without advisories"],
)
def test_a_package_that_was_skipped_is_not_scanned(packages: list[Any], expected: scan.Scan) -> None:
    """pip-audit itself reports success for it."""
    assert scan.read(json.dumps({"dependencies": packages})) == expected


def test_the_plugins_archive_has_the_digest_of_its_manifest() -> None:
    """The digest that krew compares, and the program that it links."""
    digest = hashlib.sha256(b"archive").hexdigest()
    made: Any = krew.manifest("https://example.com/podium", digest)
    (platform,) = made["spec"]["platforms"]
    assert platform["sha256"] == digest
    assert platform["uri"].endswith(f"/v{VERSION}/kubectl-podium-{VERSION}.tar.gz")
    assert platform["bin"] == "kubectl-podium"
    # The index of krew refuses longer ones.
    assert len(made["spec"]["shortDescription"]) <= 50


def test_the_plugin_and_the_bill_have_no_package_that_only_builds() -> None:
    """Their packages are those of the extras, with hashes."""
    packages = locked.packages()
    names = {each.name for each in locked.runtime(packages)}
    assert {"click", "aiohttp", "cryptography", "uvloop"} <= names
    assert "hatchling" in {each.name for each in packages} - names
    text = locked.requirements(locked.runtime(packages))
    assert text.count("--hash=sha256:") >= len(names)


def test_a_package_in_two_versions_keeps_both() -> None:
    """The oldest Python has another numpy; an archive without it would not install there."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert locked.requirements(locked.packages()) == lock


def test_every_python_of_the_package_is_installed_on() -> None:
    assert distributions.minors() == ["3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize("address", ["https://git.example/podium", ""])
def test_the_metadata_has_the_addresses_of_the_repository(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """A build without an address has none."""
    monkeypatch.setenv("PODIUM_ADDRESS", address)
    urls = ProjectMetadata(str(ROOT), PluginManager()).core.urls
    assert urls.get("Issues", "") == (f"{address}/issues" if address else "")
    assert all(url.startswith(address) for url in urls.values())
    assert bool(urls) is bool(address)


def test_the_chart_has_the_addresses_of_its_release(tmp_path: Path) -> None:
    """Links lead to the files of its tag."""
    release = Release(tmp_path, tmp_path, "https://git.example.org/podium", Image("podium"), 0)
    text = f"home: {ADDRESS}\nicon: {ADDRESS}/raw/main/docs/icon.svg\n[a](../../docs/a.md)\n"
    here = "https://git.example.org/podium"
    assert charts.addressed(text, release) == (
        f"home: {here}\nicon: {here}/raw/v{VERSION}/docs/icon.svg\n[a]({here}/blob/v{VERSION}/docs/a.md)\n"
    )


def test_the_image_is_named_by_digest_once_it_has_one() -> None:
    assert Image("example.com/podium").reference == f"example.com/podium:{VERSION}"
    assert Image("example.com/podium", "sha256:12").reference == f"example.com/podium:{VERSION}@sha256:12"


@pytest.mark.parametrize(
    ("tag", "code"), [(f"v{VERSION}", 0), ("v99.0.0", 1), ("main", 1)], ids=["its tag", "another", "a branch"]
)
def test_a_tag_that_is_not_the_version_stops_the_release(tag: str, code: int) -> None:
    line = [sys.executable, "-m", "tools.release.version"]
    environ = {**os.environ, "GITHUB_REF_NAME": tag}
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "" if code else f"version={VERSION}\n")


def test_the_licence_of_podium_is_in_the_list() -> None:
    assert bom.permitted("Apache-2.0")
