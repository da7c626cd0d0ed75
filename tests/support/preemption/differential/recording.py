"""Recordings of kube-scheduler: the objects of each case as the API server had them, and the answer.

They are gzipped JSON lines: a header, and then one case a line. So a replay needs no server. Only the fields
that scheduling reads are kept. A UID is replaced by the name, which is unique within a case.
"""

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from tools.devcluster.controlplane.releases import BUILDABLE, RELEASES, Release

FOLDER = Path(__file__).parents[3] / "conformance" / "recorded"
# Cases in a recording.
CASES = 300

# The message of a group that waits for its victims, even if all of them were leaving before; 1.36 gives no
# further reason.
_WAITS_FOR_VICTIMS = re.compile(
    "^pod group is unschedulable$|found a placement for podgroup|ongoing preemption on nominated nodes"
)
_METADATA = ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp")
_OF_CLAIMS = ("annotations", "ownerReferences")
# The fields of classes and capacities, which have no spec.
_OF_STORAGE = (
    *("provisioner", "volumeBindingMode", "allowedTopologies"),
    *("storageClassName", "nodeTopology", "capacity", "maximumVolumeSize"),
)
_POD_SPEC = (
    "affinity",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "schedulerName",
    "schedulingGroup",
    "topologySpreadConstraints",
    "volumes",
)
_POD_STATUS = ("phase", "startTime", "nominatedNodeName", "conditions", "resourceClaimStatuses")


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a kube-scheduler; pods by name, because a case has one namespace.

    `message` is that of PodScheduled=False, or of the group's own condition. `volumes` are those that
    the unbound claims of a bound pod got, by claim; empty for a provisioned one. `devices` are those that its
    claims for devices got, by claim: request, driver, pool and device.
    """

    bound: dict[str, str] = {}
    nominated: dict[str, str] = {}
    victims: list[str] = []
    volumes: dict[str, str] = {}
    devices: dict[str, list[str]] = {}
    message: str = ""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One case and its answer; `now` is the time at which the scheduler ran."""

    namespace: str
    preemptor: tuple[str, str]  # kind and name
    now: str
    objects: list[dict[str, Any]]
    answer: Answer

    @property
    def end(self) -> str:
        """Return the result for the preemptor in one word."""
        answer = self.answer
        if answer.bound:
            return "bound"
        if answer.victims:
            return "preempts"
        # A waiting preemptor keeps its nomination. So does a group of 1.36 that no preemption helps.
        if self.preemptor[0] == "Pod":
            preempts = bool(answer.nominated) and not self.is_barred
        else:
            preempts = _WAITS_FOR_VICTIMS.search(answer.message) is not None
        return "preempts" if preempts else "waits"

    @property
    def is_barred(self) -> bool:
        """Return whether the preemptor may evict nothing, and waits with an old nomination if it has one."""
        return "not eligible" in self.answer.message


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a recording and the classes of all cases. `gates`: the scheduler knew groups."""

    minor: str
    version: str
    seed: int
    gates: bool = True
    classes: list[dict[str, Any]]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """All cases of one release."""

    header: Header
    cases: list[Recorded]


def compact(stored: Mapping[str, Any], api_version: str, kind: str) -> dict[str, Any]:
    """Return the fields of a stored object that scheduling reads."""
    metadata = {key: stored["metadata"][key] for key in _METADATA if key in stored["metadata"]}
    metadata["uid"] = metadata["name"]
    if kind in ("PersistentVolumeClaim", "ResourceClaim"):
        metadata |= {key: stored["metadata"][key] for key in _OF_CLAIMS if key in stored["metadata"]}
        owners = metadata.get("ownerReferences", ())
        metadata["ownerReferences"] = [{**each, "uid": each["name"]} for each in owners]
    spec, status = stored.get("spec", {}), stored.get("status", {})
    if kind == "Pod":
        kept_spec = {key: spec[key] for key in _POD_SPEC if key in spec}
        kept_spec["volumes"] = [
            each for each in spec.get("volumes", ()) if not each["name"].startswith("kube-api-access-")
        ]
        kept_spec["containers"] = [
            {key: each[key] for key in ("name", "resources", "ports") if key in each}
            for each in spec["containers"]
        ]
        # The two that the API server adds are of no taint that scheduling looks at here.
        theirs = [each for each in spec.get("tolerations", ()) if "tolerationSeconds" not in each]
        spec = kept_spec | ({"tolerations": theirs} if theirs else {})
        status = {key: status[key] for key in _POD_STATUS if key in status}
    if kind == "Node":
        status = {"allocatable": status["allocatable"]}
    if kind == "ResourceClaim" and "reservedFor" in status:
        consumers = [{**each, "uid": each["name"]} for each in status["reservedFor"]]
        status = {**status, "reservedFor": consumers}
    kept = {key: stored[key] for key in _OF_STORAGE if key in stored}
    made = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    return made | kept


def path_of(minor: str, what: str = "preemption") -> Path:
    """Return the file of the recording of a minor; `what` is `volumes` for those of pods with volumes."""
    return FOLDER / f"{what}-{minor}.jsonl.gz"


def releases(what: str, among: Iterable[Release] = BUILDABLE.values()) -> list[Release]:
    """Return the releases with a recording; every one that is no prerelease has to have one."""
    return [item for item in among if item.minor in RELEASES or path_of(item.minor, what).exists()]


def write(recording: Recording, what: str = "preemption") -> Path:
    """Write a recording."""
    lines = [msgspec.json.encode(line) for line in (recording.header, *recording.cases)]
    path = path_of(recording.header.minor, what)
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", mtime=0))
    return path


def read(path: Path) -> Recording:
    """Read a recording."""
    header, *cases = gzip.decompress(path.read_bytes()).splitlines()
    return Recording(
        header=msgspec.json.decode(header, type=Header),
        cases=[msgspec.json.decode(line, type=Recorded) for line in cases],
    )


def assert_varied(recorded: Recording, texts: Iterable[str]) -> str:
    """Require every end in a twentieth of the cases, and all texts in their messages; return these."""
    ends = Counter(one.end for one in recorded.cases)
    assert all(ends[end] >= len(recorded.cases) // 20 for end in ("bound", "preempts", "waits")), ends
    messages = "\n".join(one.answer.message for one in recorded.cases)
    assert [text for text in texts if text not in messages] == []
    return messages
