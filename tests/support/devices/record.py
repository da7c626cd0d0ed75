"""Record upstream's allocator: `python -m tests.support.devices.record [SEED]` (`make record`).

Writes table-MINOR.jsonl.gz and random-MINOR.jsonl.gz into tests/conformance/devices/recorded/ for each
minor. It needs Go, and takes two minutes the first time. Without a SEED, the random cases are those of the
last recording.
"""

import sys

from tests.support.devices import recording, table
from tests.support.devices.cases import random_case
from tests.support.devices.recording import Answer, Case
from tests.support.devices.witness import Witness
from tools.devcluster.controlplane.releases import RELEASES


def answered(witness: Witness, case: Case) -> Answer:
    """Return the incubating allocator's answer with kube-scheduler's features, without an ended context."""
    question = {key: value for key, value in case.items() if key not in ("features", "answer", "ended")}
    return recording.settled(witness.allocate({**question, "allocator": "incubating"}))


def main(argv: list[str]) -> None:
    """Record the table and the random cases of each minor."""
    for release in RELEASES.values():
        seed = int(argv[0]) if argv else _last_seed(release.minor)
        with Witness(release.minor) as witness:
            rows = [
                {**case, "answer": recording.settled(case["answer"]), "scheduler": answered(witness, case)}
                for case in table.cases(release.minor)
            ]
            made = [random_case(seed, number) for number in range(recording.CASES)]
            drawn = [{**case, "scheduler": answered(witness, case)} for case in made]
        kinds: tuple[tuple[recording.What, list[Case]], ...] = (("table", rows), ("random", drawn))
        for what, cases in kinds:
            path = recording.write(what, release.minor, cases)
            print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")  # noqa: T201 - the output


def _last_seed(minor: str) -> int:
    """Return the seed in the name of a recorded case."""
    if not recording.path_of("random", minor).exists():
        return 1
    name: str = recording.read("random", minor)[0]["name"]
    return int(name.split("-")[1])


if __name__ == "__main__":
    main(sys.argv[1:])
