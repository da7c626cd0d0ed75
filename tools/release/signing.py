"""SHA256SUMS of all files of a release, and its signature.

The workflow signs SHA256SUMS without a key (cosign, with GitHub's OIDC token), which works there only. The
check signs with a key that it makes and throws away. It shows that the file covers every artifact, that a
verifier accepts it, and that a changed artifact is refused.
"""

import hashlib
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.release.artifacts import Release, run

from podium.errors import PodiumError

SUMS = "SHA256SUMS"


def sums(release: Release) -> str:
    """Write SHA256SUMS, in the form that sha256sum and GitHub's attestations read, and return a line."""
    files = sorted(path for path in release.folder.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (release.folder / SUMS).write_text("".join(lines), encoding="utf-8")
    run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=release.folder)
    return f"{len(files)} files"


def check(release: Release) -> str:
    """Sign with a key of this run, verify, and have a changed file refused. Raises PodiumError."""
    folder = release.work / "signing"
    folder.mkdir()
    key, public, signature = (folder / name for name in ("key.pem", "public.pem", f"{SUMS}.sig"))
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)])
    run(["openssl", "ec", "-in", str(key), "-pubout", "-out", str(public)])
    signed = release.folder / SUMS
    run(["openssl", "dgst", "-sha256", "-sign", str(key), "-out", str(signature), str(signed)])
    key.unlink()
    _verify(public, signature, signed)
    changed = folder / SUMS
    changed.write_bytes(signed.read_bytes() + b"\n")
    _refused(partial(_verify, public, signature, changed))
    _refused(partial(_compare_changed, release, folder / "changed"))
    return "signed and verified with a key of this run (ECDSA P-256); a changed file is refused"


def _refused(verify: Callable[[], None]) -> None:
    try:
        verify()
    except PodiumError:
        return
    raise PodiumError("a changed file passes the check")


def _verify(public: Path, signature: Path, file: Path) -> None:
    run(["openssl", "dgst", "-sha256", "-verify", str(public), "-signature", str(signature), str(file)])


def _compare_changed(release: Release, folder: Path) -> None:
    """Compare artifacts, of which one has a byte more, with SHA256SUMS."""
    shutil.copytree(release.folder, folder)
    with min(folder.glob("*.whl")).open("ab") as wheel:
        wheel.write(b"\n")
    run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=folder)
