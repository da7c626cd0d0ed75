"""Record the answers of real servers: `python -m tests.support.admission.record [SEED]` (`make record`).

Writes tests/conformance/recorded/MINOR.jsonl.gz for each minor and prints the differences from the rules. A
difference does not prevent the recording. Without a SEED, the seed of the last recording is used, so a diff
of answers is a diff of servers or of the generator.
"""

import random
import sys
from collections import Counter
from collections.abc import Sequence

from tests.support.admission import compare, driver, recording
from tests.support.admission.gated import gate_sets, gated_server
from tools.devcluster.controlplane.releases import BUILDABLE, Release


def report(recorded: recording.Recording) -> str:
    """Return how often each rule fired, the explained differences, and the others in full."""
    rules: Counter[str] = Counter()
    explained: Counter[str] = Counter()
    unexplained: list[str] = []
    for scenario in recorded.scenarios:
        for compared in compare.compared(recorded.header, scenario):
            rules.update(finding.rule for finding in compared.verdict.findings)
            explained.update(item.explained for item in compared.differences if item.explained)
            if compared.unexplained:
                unexplained.append(str(compared))
    lines = [f"{count:6} {rule}" for rule, count in sorted(rules.items())]
    lines += [f"{count:6} explained: {name}" for name, count in sorted(explained.items())]
    return "\n".join([*lines, *unexplained, f"{len(unexplained)} unexplained differences"])


def main(argv: list[str]) -> None:
    """Record each minor, and those with composite groups with their further gates."""
    for release, gates in ((each, gates) for each in BUILDABLE.values() for gates in gate_sets(each)):
        seed = int(argv[0]) if argv else _last_seed(release, gates)
        with gated_server(release, gates) as server:
            recorded = driver.record(server, release.minor, seed, recording.OPERATIONS, gates=gates)
        path = recording.write(recorded)
        print(f"{path}: seed {seed}, {path.stat().st_size} bytes")  # noqa: T201 - the command's output
        print(report(recorded))  # noqa: T201


def _last_seed(release: Release, gates: Sequence[str]) -> int:
    path = recording.path_of(release.minor, gates)
    return recording.read(path).header.seed if path.exists() else random.SystemRandom().randrange(2**32)


if __name__ == "__main__":
    main(sys.argv[1:])
