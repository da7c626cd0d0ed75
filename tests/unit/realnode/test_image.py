"""The plan of the image: the checkout and the base as they are, and settings of pip only as mounts."""

import shlex
from pathlib import Path

from tools.realnode import image


def test_the_dockerfile_is_used_unchanged() -> None:
    """Only the base is given, no label or variable of ours gets into the image, and no registry is asked."""
    build = next(
        line for line in image.commands("podium:dev", "podium-dev.tar") if line.startswith("buildah build")
    )
    words = shlex.split(build)
    assert words[: words.index("--tag")] == [
        *("buildah", "build", "--quiet", "--pull=never", "--network=host", "--layers"),
        "--volume=/machine/pip.conf:/etc/pip.conf:ro",
        "--volume=/machine/authorities.crt:/etc/ssl/certs/ca-certificates.crt:ro",
        *("--build-arg", "BASE=docker.io/library/python:3.13-slim"),
    ]
    assert words[words.index("--tag") + 1 :] == ["podium:dev", "/src", ">/dev/null"]


def test_the_base_is_made_once() -> None:
    lines = image.commands("podium:dev", "podium-dev.tar")
    start = lines.index(
        "if ! buildah inspect --type image docker.io/library/python:3.13-slim >/dev/null 2>&1; then"
    )
    made = next(at for at, line in enumerate(lines) if line.startswith("buildah commit"))
    assert start < made < lines.index("fi")


def test_sources_are_mounted_where_the_build_looks_for_them() -> None:
    lines = image.mounts(Path("/c"), {"src": Path("/checkout"), "base": Path("/base root")}, Path("/node"))
    assert "mount --bind /checkout /c/buildroot/root/src" in lines
    assert "mount --bind '/base root' /c/buildroot/root/base" in lines
    assert (
        "mount -t overlay overlay -o"
        " lowerdir=/node,upperdir=/c/buildroot/upper,workdir=/c/buildroot/work /c/buildroot/root"
    ) in lines


def test_settings_are_files_and_no_command(tmp_path: Path) -> None:
    lines = image.settings(tmp_path)
    (policy,) = [line for line in lines if line.endswith("policy.json")]
    assert "insecureAcceptAnything" in policy
    assert any(line.endswith(f"> {tmp_path}/etc/containers/containers.conf") for line in lines)
