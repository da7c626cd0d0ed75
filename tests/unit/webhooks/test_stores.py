"""The folder store: modes, compare-and-swap across processes, and damaged files."""

import asyncio
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from podium.errors import PodiumError
from podium.webhooks import certificates, rotation
from podium.webhooks.certificates import Pair
from podium.webhooks.rotation import USUAL, Replica, RotationStep, Stored
from podium.webhooks.stores import FolderStore

_NOW = datetime(2026, 11, 21, tzinfo=UTC)


def _stored(replica: str = "a") -> Stored:
    me = Replica(replica, ("127.0.0.1", 9443), ("127.0.0.1",))
    return rotation.advance(None, RotationStep.CREATE, me, _NOW, periods=USUAL, new_key=certificates.new_key)


async def test_written_state_is_read_back(tmp_path: Path) -> None:
    """A next CA, a retired one and all."""
    store, stored = (
        FolderStore(tmp_path / "certs"),
        rotation.introduce(_stored(), _NOW, USUAL, certificates.new_key),
    )
    assert (await store.read()) == (None, "", "")
    assert await store.write(stored, "")
    found = await store.read()
    assert found.stored == stored
    assert (tmp_path / "certs" / "ca.crt").read_bytes() == stored.bundle
    assert (tmp_path / "certs" / "tls.crt").read_bytes() == stored.serving.certificate
    assert (tmp_path / "certs" / "tls.key").read_bytes() == stored.serving.key


async def test_only_the_owner_may_enter_and_read(tmp_path: Path) -> None:
    """The modes are the same with every umask."""
    before = os.umask(0)
    try:
        assert await FolderStore(tmp_path / "certs").write(_stored(), "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "certs").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()}
    assert modes == dict.fromkeys([".lock", "ca.crt", "state.json", "tls.crt", "tls.key"], 0o600)


async def test_an_edition_is_replaced_once(tmp_path: Path) -> None:
    one, two = FolderStore(tmp_path), FolderStore(tmp_path)
    first, second, third = _stored("1"), _stored("2"), _stored("3")
    assert await one.write(first, "")
    assert not await two.write(second, "")
    version = (await two.read()).version
    assert await two.write(second, version)
    assert not await one.write(third, version)
    assert (await one.read()).stored == second


def test_a_stopped_lock_holder_delays_no_writer(tmp_path: Path) -> None:
    """If a stopped replica holds the lock, a write gives up at once, and works when the lock is free."""
    store = FolderStore(tmp_path)
    script = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert not asyncio.run(store.write(_stored(), ""))
        holder.communicate(b"\n")
    assert asyncio.run(store.write(_stored(), ""))


async def test_a_file_deleted_or_cut_to_nothing_is_nothing_stored(tmp_path: Path) -> None:
    """A power cut can leave an empty file behind a rename."""
    store = FolderStore(tmp_path)
    assert await store.write(_stored(), "")
    (tmp_path / "state.json").write_bytes(b"")
    assert (await store.read()) == (None, "", "")
    assert await store.write(_stored(), "")


_GOOD = msgspec.json.encode(_stored())
_SWAPPED = msgspec.json.encode(
    msgspec.structs.replace(_stored(), signer=Pair(_stored().signer.certificate, _stored().signer.key))
)
_RETIRED = msgspec.json.encode(msgspec.structs.replace(_stored(), retired=b"garbage"))


@pytest.mark.parametrize(
    "content, want",
    [
        (b"garbage", "malformed"),
        (b"{}", "missing required field"),
        (_GOOD[:-20], "truncated"),
        (b"\xff\xfe", "malformed"),
        (_GOOD.replace(b'"signer":["LS0t', b'"signer":["AAAA'), "no PEM certificate can be read"),
        (_SWAPPED, "the key does not belong to the certificate"),
        (b"[" * 100_000, ""),
        (_RETIRED, "no PEM certificate can be read"),
        (_GOOD.replace(b'"names":["127.0.0.1"]', b'"names":[]'), "a report has no name"),
        (_GOOD.replace(b'Z"}]', b'"}]'), "a time without a zone"),
    ],
)
async def test_a_damaged_state_is_told_in_one_line_without_its_content(
    tmp_path: Path, content: bytes, want: str
) -> None:
    (tmp_path / "state.json").write_bytes(content)
    store = FolderStore(tmp_path)
    stored, version, damage = await store.read()
    assert stored is None
    assert damage.startswith(f"{tmp_path / 'state.json'}: ")
    assert want in damage
    assert "elete" not in damage
    assert len(damage) < 300 + len(str(tmp_path))
    assert await store.write(_stored(), version)
    assert (await store.read()).stored is not None


async def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = FolderStore(tmp_path / "file" / "certs")
    with pytest.raises(PodiumError, match="Not a directory"):
        await store.read()
    with pytest.raises(PodiumError, match="Not a directory"):
        await store.write(_stored(), "")


async def test_of_many_writers_at_once_one_wins_each_edition(tmp_path: Path) -> None:
    """Processes that read and swap in a loop: no write is lost."""
    script = """
import asyncio, sys
from pathlib import Path
import msgspec
from podium.webhooks.rotation import ReplicaReport
from podium.webhooks.stores import FolderStore

async def main():
    store, won = FolderStore(Path(sys.argv[1])), 0
    while won < 10:
        found = await store.read()
        report = msgspec.structs.replace(found.stored.reports[0], replica=f"{sys.argv[2]}-{won}")
        after = msgspec.structs.replace(found.stored, reports=(*found.stored.reports, report))
        won += await store.write(after, found.version)

asyncio.run(main())
"""
    assert await FolderStore(tmp_path).write(_stored(), "")
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(tmp_path), str(number))
        for number in range(3)
    ]
    assert [await writer.wait() for writer in writers] == [0, 0, 0]
    stored = (await FolderStore(tmp_path).read()).stored
    assert stored is not None
    assert len({report.replica for report in stored.reports}) == 31
