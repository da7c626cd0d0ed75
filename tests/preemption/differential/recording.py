"""What a kube-scheduler made of a case: the objects as the API server had them, and what became of them.

Kept as gzipped JSON lines, a header first and then a case a line, so that a replay needs no server. Only the
fields that scheduling reads are kept. A uid is replaced by the name, which is as unique within a case.
"""

import gzip
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parents[2] / "recorded"
# Cases in a recording.
CASES = 300

# What a group says that waits for its victims, though there may be none that were not leaving anyway: in 1.36
# it gives no further reason.
_WAITS_FOR_VICTIMS = re.compile(
    "^pod group is unschedulable$|found a placement for podgroup|ongoing preemption on nominated nodes"
)
_METADATA = ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp")
_POD_SPEC = (
    "affinity",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "schedulerName",
    "schedulingGroup",
    "topologySpreadConstraints",
)
_POD_STATUS = ("phase", "startTime", "nominatedNodeName", "conditions")


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a kube-scheduler did; pods by name, for a case has one namespace.

    `message` is the one of PodScheduled=False, or of the group's own condition.
    """

    bound: dict[str, str] = {}
    nominated: dict[str, str] = {}
    victims: list[str] = []
    message: str = ""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One case and its answer; `now` is when the scheduler was asked."""

    namespace: str
    preemptor: tuple[str, str]  # kind and name
    now: str
    objects: list[dict[str, Any]]
    answer: Answer

    @property
    def end(self) -> str:
        """Say in a word what became of the preemptor."""
        answer = self.answer
        if answer.bound:
            return "bound"
        if answer.victims:
            return "preempts"
        # One that is told to wait keeps the nomination it had, and so does a group of 1.36 in vain.
        if self.preemptor[0] == "Pod":
            preempts = bool(answer.nominated) and "not eligible" not in answer.message
        else:
            preempts = _WAITS_FOR_VICTIMS.search(answer.message) is not None
        return "preempts" if preempts else "waits"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Where a recording comes from; every case has these classes. `gates`: the scheduler knew groups."""

    minor: str
    version: str
    seed: int
    gates: bool = True
    classes: list[dict[str, Any]]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """All that was asked of one release."""

    header: Header
    cases: list[Recorded]


def compact(stored: Mapping[str, Any], api_version: str, kind: str) -> dict[str, Any]:
    """Give of a stored object what scheduling reads."""
    metadata = {key: stored["metadata"][key] for key in _METADATA if key in stored["metadata"]}
    metadata["uid"] = metadata["name"]
    spec, status = stored.get("spec", {}), stored.get("status", {})
    if kind == "Pod":
        kept = {key: spec[key] for key in _POD_SPEC if key in spec}
        kept["containers"] = [
            {key: each[key] for key in ("name", "resources", "ports") if key in each}
            for each in spec["containers"]
        ]
        # The two that the API server adds are of no taint that scheduling looks at here.
        theirs = [each for each in spec.get("tolerations", ()) if "tolerationSeconds" not in each]
        spec = kept | ({"tolerations": theirs} if theirs else {})
        status = {key: status[key] for key in _POD_STATUS if key in status}
    if kind == "Node":
        status = {"allocatable": status["allocatable"]}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}


def path_of(version: str) -> Path:
    """Where the recording of a release is kept."""
    return FOLDER / f"preemption-{version}.jsonl.gz"


def write(recording: Recording) -> Path:
    """Keep a recording."""
    lines = [msgspec.json.encode(line) for line in (recording.header, *recording.cases)]
    path = path_of(recording.header.version)
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", mtime=0))
    return path


def read(path: Path) -> Recording:
    """Read a recording back."""
    header, *cases = gzip.decompress(path.read_bytes()).splitlines()
    return Recording(
        header=msgspec.json.decode(header, type=Header),
        cases=[msgspec.json.decode(line, type=Recorded) for line in cases],
    )
