"""The time until a new user's first result: from `kubectl apply` to a refusal and a running gang."""

import tempfile
from pathlib import Path

from bench.commands import PODIUM
from bench.results import Row, Section, spread
from tests.support.install.firsts import first_steps
from tests.support.servers import exclusive
from tools.devcluster.controlplane.releases import NEWEST

ROUNDS = 3
_NOTE = f"""
Kubernetes {NEWEST.version} without the Workload API, three nodes on this machine; kwok plays the kubelets, so
no image is pulled. The start is that of `kubectl apply --server-side` of the manifests. The webhook and the
scheduler are processes of this machine; their starts count. {ROUNDS} rounds, each on a cluster of its own.
"""


def measure() -> Section:
    """Measure it; takes about two minutes."""
    rounds = []
    for _ in range(ROUNDS):
        with (
            tempfile.TemporaryDirectory() as folder,
            exclusive(NEWEST, workload_api=False, controllers=True) as server,
        ):
            rounds.append(first_steps(server, Path(folder), PODIUM))
    rows = [
        Row("from its start to the first group refused", spread([turn.enforced for turn in rounds], "s", 1)),
        Row(
            "from its start to the first gang on its nodes", spread([turn.running for turn in rounds], "s", 1)
        ),
    ]
    return Section("From nothing to the first gang", rows, _NOTE)
