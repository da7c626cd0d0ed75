"""Archives whose bytes depend on their content only: sorted members, one owner, one date, plain modes."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def tarball(members: Mapping[str, bytes], epoch: int, executable: frozenset[str] = frozenset()) -> bytes:
    """Return a .tar.gz of files by path, all dated `epoch`."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), epoch
            member.mode = 0o755 if name in executable else 0o644
            archive.addfile(member, io.BytesIO(content))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=epoch) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def members(path: Path) -> dict[str, bytes]:
    """Return the files of a .tar.gz by path."""
    with tarfile.open(path, mode="r:gz") as archive:
        contents = {}
        for member in archive.getmembers():
            content = archive.extractfile(member)
            if content is not None:
                contents[member.name] = content.read()
        return contents
