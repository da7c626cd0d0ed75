"""Podium's image: the checkout and the base as they are, and settings of pip only as mounts.

The archive of a one-program image is readable, and the same bytes for the same program.
"""

import hashlib
import json
import shlex
import tarfile
from pathlib import Path

import pytest
from tools.devcluster.realnode import image


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


# An ELF header is 0x7F "ELF"; the machine is at byte 18.
_HEADER = b"\x7fELF" + bytes(14)


@pytest.mark.parametrize(
    "machine, architecture, name, path",
    [(b"\x3e\x00", "amd64", "", "tool"), (b"\xb7\x00", "arm64", "manager", "manager")],
)
def test_an_archive_names_its_layer_by_digest(
    tmp_path: Path, machine: bytes, architecture: str, name: str, path: str
) -> None:
    program = tmp_path / "tool"
    program.write_bytes(_HEADER + machine + b"code")
    for file in ("one.tar", "two.tar"):
        image.write_archive(tmp_path / file, program, "localhost/tool:1", name)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as tar:
        contents = {member.name: _bytes(tar, member) for member in tar}
        layer = tmp_path / "layer.tar"
        layer.write_bytes(contents["layer.tar"])
    (manifest,) = json.loads(contents["manifest.json"])
    configuration = json.loads(contents[manifest["Config"]])
    assert manifest["RepoTags"] == ["localhost/tool:1"]
    assert configuration["architecture"] == architecture
    assert configuration["config"]["Entrypoint"] == [f"/{path}"]
    digest = hashlib.sha256(contents["layer.tar"]).hexdigest()
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    with tarfile.open(layer) as tar:
        (member,) = tar.getmembers()
        assert (member.name, member.mode) == (path, 0o755)


def test_an_archive_is_written_once(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_bytes(_HEADER + b"\x3e\x00code")
    place = image.ensure_archive(tmp_path / "tool.tar", program, "localhost/tool:1")
    written = place.read_bytes()
    program.write_bytes(_HEADER + b"\x3e\x00other")
    assert image.ensure_archive(place, program, "localhost/tool:1").read_bytes() == written
    assert sorted(tmp_path.iterdir()) == [program, place]


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()
