"""The answers of a server, in a form that two runs of the same script share.

Values that only a server can choose (uid, times, versions) are left out or replaced. A recording can
therefore be read as a diff, and an answer replayed. The file is gzipped JSON lines: a header, then one
scenario a line.
"""

import gzip
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parents[2] / "conformance" / "recorded"
# The minimum number of compared operations in a recording.
OPERATIONS = 2000
# Stands for the current resourceVersion of an object; recorded requests carry no other version.
CURRENT = "1"
# Stands for the uid of every object.
UID = "00000000-0000-0000-0000-000000000000"
DELETED_AT = "2026-01-01T00:00:00Z"

_SERVER_MADE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")


class Op(StrEnum):
    """The operation of a request."""

    CREATE = "create"
    UPDATE = "update"
    STATUS = "status"
    DELETE = "delete"


class Exchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request and its answer; for a delete, the object's identity and the object that remains."""

    op: Op
    object: dict[str, Any]  # as sent
    code: int
    reason: str = ""
    message: str = ""
    stored: dict[str, Any] | None = None  # absent: refused, or a deleted object that is gone
    gone: bool = False  # an update that took the last finalizer of an object being deleted


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario as a server answered it."""

    namespace: str
    exchanges: list[Exchange]

    @property
    def compared(self) -> int:
        """Return the number of exchanges that the rules evaluate: all but deletes."""
        return sum(exchange.op is not Op.DELETE for exchange in self.exchanges)


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The source of a recording; `classes` are those that the server creates at its start.

    `gates` are the feature gates beyond that of the Workload API.
    """

    minor: str
    version: str
    seed: int
    workload_api: bool = True
    gates: list[str] = []
    classes: list[dict[str, Any]]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """All scenarios of one server, with its answers."""

    header: Header
    scenarios: list[Recorded]


def canonical(document: dict[str, Any]) -> dict[str, Any]:
    """Return a stored object without the values that only its server can choose."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVER_MADE}
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = DELETED_AT
    return {**document, "metadata": metadata}


def path_of(minor: str, gates: Sequence[str] = ()) -> Path:
    """Return the path of the recording of a minor, without further gates or with them."""
    return FOLDER / f"{minor}{'-gates' if gates else ''}.jsonl.gz"


def write(recording: Recording) -> Path:
    """Write a recording; the same answers give the same bytes."""
    lines = [msgspec.json.encode(line) for line in (recording.header, *recording.scenarios)]
    path = path_of(recording.header.minor, recording.header.gates)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", mtime=0))
    return path


def read(path: Path) -> Recording:
    """Read a recording."""
    header, *scenarios = gzip.decompress(path.read_bytes()).splitlines()
    return Recording(
        header=msgspec.json.decode(header, type=Header),
        scenarios=[msgspec.json.decode(line, type=Recorded) for line in scenarios],
    )
