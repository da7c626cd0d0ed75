"""Known vulnerabilities of the locked packages, by pip-audit from the Python Packaging Advisory Database.

An index that mirrors PyPI may not have its advisories. pip-audit then skips each package and succeeds, so a
skipped package counts as not scanned here. `python -m tools.release.scan` scans alone.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tools.release.artifacts import ROOT, Image, Release, new
from tools.release.programs import program

from podium.errors import PodiumError

LOCKS = (
    ROOT / "requirements.lock",
    ROOT / "requirements-dev.lock",
    Path(__file__).with_name("requirements.lock"),
)


class Scan(NamedTuple):
    """The result of a scan: vulnerabilities, one line each, and why packages were not scanned."""

    found: list[str]
    unread: str


def read(answer: str) -> Scan:
    """Return the result in pip-audit's JSON."""
    packages = json.loads(answer)["dependencies"]
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    vulnerabilities = [
        f"{package['name']} {package['version']}: {entry['id']}, "
        f"fixed in {', '.join(entry['fix_versions']) or 'none'}"
        for package in packages
        for entry in package.get("vulns", ())
    ]
    unscanned = f"{len(skipped)} of {len(packages)} packages: {skipped[0]}" if skipped else ""
    return Scan(vulnerabilities, unscanned)


def check(release: Release) -> str:
    """Scan the lock files, and return a line that begins with "not scanned" if the service has no answer.

    Raises PodiumError for a vulnerability.
    """
    tool = [program(release, "pip-audit"), "--disable-pip", "--require-hashes", "--format", "json"]
    for lock in LOCKS:
        line = [*tool, "--progress-spinner", "off", "--requirement", str(lock)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if not done.stdout.startswith("{"):
            return f"not scanned: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}"
        scan = read(done.stdout)
        if scan.found:
            raise PodiumError(f"{lock.name}: " + "; ".join(scan.found))
        if scan.unread:
            return f"not scanned: {scan.unread}"
    return f"no known vulnerability in {len(LOCKS)} lock files"


def main() -> int:
    """Scan, and return the exit code: 1 also if the service has no answer."""
    try:
        told = check(new(ROOT / "out" / "scan", "", Image("")))
    except PodiumError as error:
        told = f"found: {error}"
    print(told)
    return 0 if told.startswith("no known") else 1


if __name__ == "__main__":
    sys.exit(main())
