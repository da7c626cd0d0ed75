"""Record answers of real kube-schedulers: `python -m tests.support.preemption.differential.record [SEED]`.

It writes preemption-VERSION.jsonl.gz and volumes-VERSION.jsonl.gz to tests/conformance/recorded for each
minor. Without a SEED it uses that of the last recording, so a diff of answers is a diff of schedulers or of
the generator.
"""

import itertools
import random
import sys
from collections import Counter

from tests.support.preemption.differential import driver, recording
from tests.support.preemption.differential.volumes import CASES, volume_case
from tests.support.servers import exclusive

from podium.controlplane.releases import RELEASES, Release


def main(argv: list[str]) -> None:
    """Record every minor; print how many cases had each result."""
    for release, what in itertools.product(RELEASES.values(), ("preemption", "volumes")):
        seed = int(argv[0]) if argv else _last_seed(release, what)
        with exclusive(release) as server:
            if what == "volumes":
                recorded = driver.record(server, seed, range(CASES), gates=False, make=volume_case)
            else:
                recorded = driver.record(server, seed, range(recording.CASES))
        path = recording.write(recorded, what)
        ends = Counter((one.preemptor[0], one.end) for one in recorded.cases)
        print(f"{path}: seed {seed}, {path.stat().st_size} bytes", *sorted(ends.items()), sep="\n  ")  # noqa: T201 - the command's output


def _last_seed(release: Release, what: str) -> int:
    path = recording.path_of(release.version, what)
    return recording.read(path).header.seed if path.exists() else random.SystemRandom().randrange(2**32)


if __name__ == "__main__":
    main(sys.argv[1:])
