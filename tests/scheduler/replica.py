"""One replica of the scheduler: `python -m tests.scheduler.replica WANTED`, where WANTED is JSON of `Wanted`.

The process that `podium scheduler` runs, with a lease of seconds where an installation's is longer.
"""

import sys

import msgspec
import uvloop

from podium.cli.schedulerfile import source
from podium.errors import PodiumError
from podium.schedulerplugin.live import process
from podium.service import logs
from podium.service.leaserecord import Terms
from podium.service.replica import Options


class Wanted(msgspec.Struct, kw_only=True):
    """What a replica is to be; its lease is namespace and name (None: it is alone), its terms are seconds."""

    kubeconfig: str
    config: str
    lease: tuple[str, str] | None
    terms: Terms


def main(wanted: Wanted) -> int:
    """Be a replica until asked to stop; give the exit code."""
    options = Options(
        kubeconfig=wanted.kubeconfig,
        elects=wanted.lease is not None,
        lease=wanted.lease,
        terms=wanted.terms,
        metrics_port=0,
    )
    try:
        uvloop.run(process.run(options, source(wanted.config), logs.configure("json", "info")))
    except PodiumError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Wanted)))
