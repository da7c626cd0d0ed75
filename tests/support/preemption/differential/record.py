"""Record answers of real kube-schedulers: `python -m tests.support.preemption.differential.record [SEED]`.

It writes preemption-, volumes- and devices-VERSION.jsonl.gz to tests/conformance/recorded for each minor, and
topology- and trees-VERSION.jsonl.gz for 1.37. Without a SEED it uses that of the last recording, so a diff of
answers is a diff of schedulers or of the generator. Further arguments are the kinds to record.
"""

import random
import sys
from collections import Counter

from tests.support.preemption.differential import devices, driver, recording, topology, trees, volumes
from tests.support.servers import exclusive
from tools.devcluster.controlplane.releases import NEWEST, RELEASES, Release

_OF_EACH = ("preemption", "volumes", "devices")
_KINDS = [(release, what) for release in RELEASES.values() for what in _OF_EACH]


def main(argv: list[str]) -> None:
    """Record every minor; print how many cases had each result."""
    for release, what in [*_KINDS, (NEWEST, "topology"), (NEWEST, "trees")]:
        if argv[1:] and what not in argv[1:]:
            continue
        recorded = _record(release, what, int(argv[0]) if argv else _last_seed(release, what))
        path = recording.write(recorded, what)
        ends = Counter((one.preemptor[0], one.end) for one in recorded.cases)
        size = f"seed {recorded.header.seed}, {path.stat().st_size} bytes"
        print(f"{path}: {size}", *sorted(ends.items()), sep="\n  ")  # noqa: T201 - the command's output


def _record(release: Release, what: str, seed: int) -> recording.Recording:
    if what == "topology":
        return topology.record(release, seed, range(topology.CASES))
    if what == "trees":
        return trees.record(release, seed, range(trees.CASES))
    with exclusive(release) as server:
        if what == "volumes":
            cases = range(volumes.CASES)
            return driver.record(server, seed, cases, gates=False, make=volumes.volume_case)
        if what == "devices":
            cases = range(devices.CASES)
            return driver.record(server, seed, cases, gates=False, make=devices.device_case)
        return driver.record(server, seed, range(recording.CASES))


def _last_seed(release: Release, what: str) -> int:
    path = recording.path_of(release.version, what)
    return recording.read(path).header.seed if path.exists() else random.SystemRandom().randrange(2**32)


if __name__ == "__main__":
    main(sys.argv[1:])
