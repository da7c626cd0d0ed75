"""Servers whose feature gates for groups are all on: composite groups, topology, claims and policies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.releases import Release

from podium.api.minors import MINORS, minor_of
from podium.minors.minor import COMPOSITE
from podium.rules.context import GATES


def gate_sets(release: Release) -> list[tuple[str, ...]]:
    """Return the gates of each server of a release to record: none, and all if it has composite groups."""
    known = MINORS[minor_of(release.minor) or 0].gates
    return [(), tuple(gate for gate in GATES if gate in known)] if COMPOSITE in known else [()]


@contextmanager
def gated_server(release: Release, gates: Sequence[str], *, workload_api: bool = True) -> Iterator[Server]:
    """Yield a server with these gates on, for one test."""
    on = ",".join(f"{gate}=true" for gate in ("GenericWorkload", *gates))
    arguments = (f"--feature-gates={on}",) if gates else ()
    with exclusive(release, workload_api=workload_api, apiserver=arguments) as server:
        yield server
