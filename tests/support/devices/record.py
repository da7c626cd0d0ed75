"""Record upstream's allocator: `python -m tests.support.devices.record` (`make record`).

Writes tests/conformance/devices/recorded/table-VERSION.jsonl.gz for each minor. It needs Go, and takes two
minutes the first time.
"""

from tests.support.devices import recording, table
from tests.support.devices.recording import Answer, Case
from tests.support.devices.witness import Witness

from podium.controlplane.releases import RELEASES


def answered(witness: Witness, case: Case) -> Answer:
    """Return the incubating allocator's answer with kube-scheduler's features, without an ended context."""
    question = {key: value for key, value in case.items() if key not in ("features", "answer", "ended")}
    return recording.settled(witness.allocate({**question, "allocator": "incubating"}))


def main() -> None:
    """Record the table of each minor."""
    for release in RELEASES.values():
        with Witness(release.minor) as witness:
            cases = [
                {**case, "answer": recording.settled(case["answer"]), "scheduler": answered(witness, case)}
                for case in table.cases(release.minor)
            ]
        path = recording.write("table", release.version, cases)
        print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")  # noqa: T201 - the command's output


if __name__ == "__main__":
    main()
