"""The archive of a one-program image: readable, and the same bytes for the same program."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from podium.realnode import archive

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
        archive.write(tmp_path / file, program, "localhost/tool:1", name)
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
    place = archive.ensure(tmp_path / "tool.tar", program, "localhost/tool:1")
    written = place.read_bytes()
    program.write_bytes(_HEADER + b"\x3e\x00other")
    assert archive.ensure(place, program, "localhost/tool:1").read_bytes() == written
    assert sorted(tmp_path.iterdir()) == [program, place]


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()
