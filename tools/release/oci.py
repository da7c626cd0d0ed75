"""The image, built twice from equal sources where that is possible: equal, not of root, of a stated size."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import IO, Any

from tools.devcluster.realnode import image, requirements
from tools.release.artifacts import Release

from podium.errors import PodiumError

_USER = "65532:65532"
_TAGS = ("podium:release-1", "podium:release-2")


def build(release: Release) -> str:
    """Build the image, and return its size in words, or why it is not built here.

    Raises PodiumError if two builds differ, or if the image is root's.
    """
    try:
        requirements.check()
    except PodiumError as error:
        return f"not built here ({error}); the workflow builds it with BuildKit"
    archives = [
        image.build(release.source(f"image-{number}"), tag, release.epoch) for number, tag in enumerate(_TAGS)
    ]
    first, second = map(_configuration, archives)
    if first["rootfs"] != second["rootfs"]:
        pairs = zip(first["rootfs"]["diff_ids"], second["rootfs"]["diff_ids"], strict=True)
        differing = [at for at, (left, right) in enumerate(pairs) if left != right]
        raise PodiumError(
            f"two builds of the image differ in the layers {differing}: {archives[0]}, {archives[1]}"
        )
    if first["config"].get("User") != _USER:
        raise PodiumError(f"the image runs as {first['config'].get('User') or 'root'}, not as {_USER}")
    unpacked, packed = _sizes(archives[0])
    return f"{packed / 1e6:.0f} MB compressed, {unpacked / 1e6:.0f} MB unpacked, equal when built again"


def _configuration(archive: Path) -> dict[str, Any]:
    """Return the configuration of the image in an archive of `docker save`."""
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(_file(tar, "manifest.json"))
        configuration: dict[str, Any] = json.load(_file(tar, manifest["Config"]))
    return configuration


def _sizes(archive: Path) -> tuple[int, int]:
    """Return the bytes of all layers, as they are and as registries store them."""
    unpacked = packed = 0
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(_file(tar, "manifest.json"))
        for layer in manifest["Layers"]:
            content = _file(tar, layer).read()
            unpacked += len(content)
            packed += len(gzip.compress(content, 6))
    return unpacked, packed


def _file(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    file = tar.extractfile(name)
    if file is None:
        raise PodiumError(f"{tar.name!r} has no file {name}")
    return file
