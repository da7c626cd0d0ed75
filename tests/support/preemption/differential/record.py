"""Record answers of real kube-schedulers: `python -m tests.support.preemption.differential.record [SEED]`.

It writes preemption-, volumes- and devices-MINOR.jsonl.gz to tests/conformance/recorded for each minor,
and topology- and trees-MINOR.jsonl.gz for those with trees. Without a SEED it uses that of the last
recording of this minor or an older one, so a diff of answers is a diff of schedulers or of the generator.
Further arguments are the minors and the kinds to record.
"""

import random
import sys
from collections import Counter

from tests.support.preemption.differential import devices, driver, recording, topology, trees, volumes
from tests.support.servers import exclusive
from tools.devcluster.controlplane.releases import BUILDABLE, Release

_KINDS = {
    "preemption": tuple(BUILDABLE.values()),
    "volumes": tuple(BUILDABLE.values()),
    "devices": tuple(BUILDABLE.values()),
    "topology": trees.RELEASES,
    "trees": trees.RELEASES,
}


def main(argv: list[str]) -> None:
    """Record every minor; print how many cases had each result."""
    minors, kinds = BUILDABLE.keys() & argv or BUILDABLE.keys(), _KINDS.keys() & argv or _KINDS.keys()
    seeds = [int(each) for each in argv if each.isdigit()]
    for what, release in ((what, release) for what, some in _KINDS.items() for release in some):
        if what not in kinds or release.minor not in minors:
            continue
        recorded = _record(release, what, seeds[0] if seeds else _last_seed(release, what))
        path = recording.write(recorded, what)
        ends = Counter((one.preemptor[0], one.end) for one in recorded.cases)
        size = f"seed {recorded.header.seed}, {path.stat().st_size} bytes"
        print(f"{path}: {size}", *sorted(ends.items()), sep="\n  ")  # noqa: T201 - the command's output


def _record(release: Release, what: str, seed: int) -> recording.Recording:
    if what == "topology":
        return topology.record(release, seed, range(topology.CASES))
    if what == "trees":
        return trees.record(release, seed, range(trees.CASES))
    lone = driver.Options(gates=False)
    with exclusive(release) as server:
        if what == "volumes":
            return driver.record(server, seed, range(volumes.CASES), lone, volumes.volume_case)
        if what == "devices":
            return driver.record(server, seed, range(devices.CASES), lone, devices.device_case)
        return driver.record(server, seed, range(recording.CASES))


def _last_seed(release: Release, what: str) -> int:
    for minor in (each for each in reversed(BUILDABLE) if each <= release.minor):
        path = recording.path_of(minor, what)
        if path.exists():
            return recording.read(path).header.seed
    return random.SystemRandom().randrange(2**32)


if __name__ == "__main__":
    main(sys.argv[1:])
