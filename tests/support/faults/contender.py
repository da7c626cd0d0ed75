"""A replica of the reconciler: `python -m tests.support.faults.contender WANTED`, with `Wanted` as JSON.

It is the process of `podium controller` with a shorter lease.
"""

import sys

import msgspec
import uvloop

from podium.controllers import process
from podium.controllers.manager import Rules
from podium.errors import PodiumError
from podium.runtime import logs
from podium.runtime.leaserecord import Terms
from podium.runtime.manager import ManagerOptions


class Wanted(msgspec.Struct, kw_only=True):
    """The settings of a replica: namespace and name of its lease, and the durations in seconds."""

    kubeconfig: str
    lease: tuple[str, str]
    terms: Terms


def main(wanted: Wanted) -> int:
    """Run a replica until it is stopped; return the exit code."""
    options = ManagerOptions(kubeconfig=wanted.kubeconfig, lease=wanted.lease, terms=wanted.terms)
    try:
        uvloop.run(process.run(options, Rules(), logs.configure("json", "info")))
    except PodiumError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Wanted)))
