"""Images for nodes, made without Docker and without a registry: Podium's own, and those of one program.

Podium's image is built from the unchanged Dockerfile. buildah runs in the file system of a node, in a mount
namespace of its own and in the machine's network, and isolates by chroot alone. The base image is made from
Debian packages: the same release of Debian and of Python as python:3.13-slim. Layers and images are kept in
the cache.

`python -m tools.devcluster.realnode.image [--tag TAG]` prints the path of the archive.
"""

import argparse
import hashlib
import io
import os
import resource
import sys
import tarfile
from pathlib import Path

import msgspec
from tools.devcluster.controlplane import folders
from tools.devcluster.realnode import debian, namespaces, requirements
from tools.devcluster.realnode.network import line

from podium.errors import PodiumError

ROOT = Path(__file__).parents[3]
TAG = "podium:dev"
_BASE = "docker.io/library/python:3.13-slim"
_BASE_PACKAGES = ("apt", "ca-certificates", "netbase", "python3", "python3-venv", "tzdata")
_BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Settings of the machine for pip, which are no part of the image.
_PIP_CONFIGURATION = Path("/etc/pip.conf")
_WAITING = "waiting for another build of an image to end"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def build(checkout: Path = ROOT, tag: str = TAG, epoch: int | None = None) -> Path:
    """Return the archive of an image of a checkout. Raises PodiumError if it cannot be built.

    With `epoch`, the seconds of all dates in the image, no layer of an earlier build is used, so that two
    builds show whether they are equal.
    """
    requirements.check()
    cache = folders.nodes_cache()
    node = debian.root(cache, "node-root", debian.NODE, sys.stderr)
    base = debian.root(cache, "python-root", _BASE_PACKAGES, sys.stderr)
    archive = cache / "images" / f"{tag.replace(':', '-').replace('/', '-')}.tar"
    for folder in (archive.parent, cache / "buildah", cache / "buildroot"):
        folder.mkdir(parents=True, exist_ok=True)
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    plan = [
        *mounts(cache, {"base": base, "src": checkout}, node),
        *settings(cache / "buildroot" / "root"),
        line("cd", str(cache / "buildroot" / "root")),
        line("exec", "chroot", ".", "/bin/sh", "-ec", "\n".join(commands(tag, archive.name, epoch))),
    ]
    with folders.alone(cache / "buildah.lock", lambda: print(_WAITING, file=sys.stderr)):
        namespaces.run(apart, plan, f"building the image {tag}")
    return archive


def mounts(cache: Path, sources: dict[str, Path], node: Path) -> list[str]:
    """Return the commands that make buildah's file system from a node's, with `sources` in it."""
    place = cache / "buildroot"
    root = place / "root"
    bound = {**sources, "images": cache / "images", "var/lib/containers": cache / "buildah"}
    return [
        line("mount", "-t", "tmpfs", "tmpfs", str(place)),
        line("mkdir", *(str(place / folder) for folder in ("upper", "work", "root"))),
        line(
            *("mount", "-t", "overlay", "overlay", "-o"),
            f"lowerdir={node},upperdir={place}/upper,workdir={place}/work",
            str(root),
        ),
        *(
            command
            for target, source in bound.items()
            for command in (
                line("mkdir", "-p", f"{root}/{target}"),
                line("mount", "--bind", str(source), f"{root}/{target}"),
            )
        ),
        line("mount", "--rbind", "/dev", f"{root}/dev"),
        line("mount", "--rbind", "/sys", f"{root}/sys"),
        line("mount", "-t", "proc", "proc", f"{root}/proc"),
    ]


def settings(root: Path) -> list[str]:
    """Return the commands that configure buildah, and bring the machine's settings of pip."""
    # Without CAP_SYS_RESOURCE, buildah cannot raise a limit to its defaults.
    limits = [
        f"{name}={soft}:{hard}"
        for name, (soft, hard) in {
            "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
            "nproc": resource.getrlimit(resource.RLIMIT_NPROC),
        }.items()
    ]
    files = {
        "containers.conf": f"[containers]\ndefault_ulimits = {msgspec.json.encode(limits).decode()}\n",
        "policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}\n',
        "registries.conf": 'unqualified-search-registries = ["docker.io"]\n',
        "storage.conf": '[storage]\ndriver = "overlay"\nrunroot = "/run/containers"\n'
        'graphroot = "/var/lib/containers/storage"\n',
    }
    pip = line("cp", "-L", str(_PIP_CONFIGURATION), f"{root}/machine/pip.conf")
    return [
        line("mkdir", "-p", f"{root}/machine", f"{root}/etc/containers"),
        line("cp", "-L", "/etc/resolv.conf", "/etc/hosts", f"{root}/etc/"),
        line("cp", "-L", str(_AUTHORITIES), f"{root}/machine/authorities.crt"),
        pip if _PIP_CONFIGURATION.exists() else line("touch", f"{root}/machine/pip.conf"),
        *(f"{line('printf', '%s', text)} > {root}/etc/containers/{name}" for name, text in files.items()),
    ]


def commands(tag: str, archive: str, epoch: int | None = None) -> list[str]:
    """Return the commands that make the base image if it is missing, then the image and its archive."""
    mounted = {
        "/machine/pip.conf": _PIP_CONFIGURATION,
        "/machine/authorities.crt": _AUTHORITIES,
    }
    dates: tuple[str, ...] = ("--layers",)
    if epoch is not None:
        dates = ("--no-cache", f"--timestamp={epoch}", "--build-arg", f"SOURCE_DATE_EPOCH={epoch}")
    return [
        "export BUILDAH_ISOLATION=chroot",
        f"if ! buildah inspect --type image {_BASE} >/dev/null 2>&1; then",
        "container=$(buildah from scratch)",
        "place=$(buildah mount $container)",
        "cp -a /base/. $place/",
        # The Dockerfile uses the names `python` and `pip`.
        "ln -sf python3 $place/usr/bin/python",
        f"buildah config --env PATH={_BASE_PATH} --env LANG=C.UTF-8 --cmd python3 $container",
        "buildah umount $container >/dev/null",
        f"buildah commit -q --rm $container {_BASE} >/dev/null",
        "fi",
        line(
            *("buildah", "build", "--quiet", "--pull=never", "--network=host", *dates),
            *(f"--volume={source}:{target}:ro" for source, target in mounted.items()),
            # The Dockerfile names its base by the digest of a registry.
            *("--build-arg", f"BASE={_BASE}"),
            *("--tag", tag, "/src"),
        )
        + " >/dev/null",
        # Writing hundreds of megabytes takes longer than the rest if nothing has changed.
        f"built=$(buildah images --quiet --no-trunc {tag})",
        f'if [ "$built" != "$(cat /images/{archive}.id 2>/dev/null)" ]; then',
        f"rm -f /images/{archive} /images/{archive}.id",
        line("buildah", "push", "--quiet", tag, f"docker-archive:/images/{archive}:docker.io/library/{tag}"),
        f"echo $built > /images/{archive}.id",
        "fi",
    ]


def ensure_archive(place: Path, program: Path, image: str, name: str = "") -> Path:
    """Return `place`, with the archive that `write_archive` makes if it is missing: whole or not at all."""
    if not place.exists():
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        write_archive(draft, program, image, name)
        draft.replace(place)
    return place


def write_archive(place: Path, program: Path, image: str, name: str = "") -> None:
    """Write an image whose entrypoint is `program`, with the user nobody; equal inputs give equal bytes.

    `docker load` and containerd read the archive. In the image, the program is a file in the root that is
    called `name`, by default as outside.
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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.devcluster.realnode.image", description="Build the image."
    )
    parser.add_argument("--tag", default=TAG, help="name of the image")
    try:
        print(build(tag=parser.parse_args().tag))
    except PodiumError as error:
        sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
