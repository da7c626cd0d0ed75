"""An image with one static program, as an archive that `docker load` and containerd read."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import msgspec


def ensure(place: Path, program: Path, image: str, name: str = "") -> Path:
    """Return `place`, with the archive that `write` makes if it is missing: whole or not at all."""
    if not place.exists():
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        write(draft, program, image, name)
        draft.replace(place)
    return place


def write(place: Path, program: Path, image: str, name: str = "") -> None:
    """Write an image whose entrypoint is `program`, with the user nobody; equal inputs give equal bytes.

    In the image, the program is a file in the root that is called `name`, by default as outside.
    """
    name = name or program.name
    layer = _tar({name: (program.read_bytes(), 0o755)})
    configuration = msgspec.json.encode(
        {
            "architecture": _architecture(program),
            "os": "linux",
            "config": {"Entrypoint": [f"/{name}"], "User": "65532:65532"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    )
    described = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = [{"Config": described, "RepoTags": [image], "Layers": ["layer.tar"]}]
    members = {"manifest.json": msgspec.json.encode(manifest), described: configuration, "layer.tar": layer}
    place.write_bytes(_tar({path: (content, 0o644) for path, content in members.items()}))


def _architecture(program: Path) -> str:
    """Return the name that images use for the machine in an ELF header, which is at byte 18."""
    machine = int.from_bytes(program.read_bytes()[18:20], "little")
    return {0x3E: "amd64", 0xB7: "arm64"}[machine]


def _tar(members: dict[str, tuple[bytes, int]]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, (content, mode) in members.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()
