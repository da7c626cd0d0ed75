"""Recordings of upstream's allocator: gzipped JSON lines, one case a line, sorted by name.

A case has the fields of a question in mode "allocate" (tools/devices/v1.37/main.go) and these:

- `name`: the test of upstream's table, or `random-SEED-NUMBER`.
- `scheduler`: the answer of the incubating allocator with the features that kube-scheduler has by default.
- Only in the table: `features`, those of the test; `answer`, that of the incubating allocator with these
  features; and `ended`, true if the context had ended before the call.

An answer has `allocations` (an AllocationResult for each claim, or null if the claims cannot be allocated),
or `error` and `node`, which is true if the error concerns only this node. A share ID is random, so an answer
has `share-0` and so on in its place.
"""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

_FOLDER = Path(__file__).parents[2] / "conformance" / "devices" / "recorded"

# Random cases in a recording.
CASES = 300

What = Literal["table", "random"]
Case = dict[str, Any]
Answer = dict[str, Any]


def path_of(what: What, minor: str) -> Path:
    """Return the file of a recording of a minor of Kubernetes."""
    return _FOLDER / f"{what}-{minor}.jsonl.gz"


def read(what: What, minor: str) -> list[Case]:
    """Return the cases of a recording."""
    lines = gzip.decompress(path_of(what, minor).read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def write(what: What, minor: str, cases: Iterable[Case]) -> Path:
    """Write a recording."""
    found = sorted(cases, key=lambda case: case["name"])
    lines = [json.dumps(case, sort_keys=True, separators=(",", ":")).encode() + b"\n" for case in found]
    path = path_of(what, minor)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(b"".join(lines), mtime=0))
    return path


def settled(answer: Answer) -> Answer:
    """Return an answer with a name for each share ID, in order of appearance, and without `channel`."""
    names: dict[str, str] = {}
    allocations = [
        {**each, "devices": {**each["devices"], "results": [_named(one, names) for one in _results(each)]}}
        if _results(each)
        else each
        for each in answer.get("allocations") or ()
    ]
    kept = {key: value for key, value in answer.items() if key != "channel"}
    return {**kept, "allocations": allocations} if allocations else kept


def _results(allocation: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = allocation["devices"].get("results") or []
    return found


def _named(result: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    share = result.get("shareID")
    return {**result, "shareID": names.setdefault(share, f"share-{len(names)}")} if share else result
