"""Cases for every documented behaviour of upstream for PodGroups and Workloads that a server can show."""

from tests.support.admission.scene import DIALECTS
from tests.support.parity import groups, workloads
from tests.support.parity.case import Case


def cases(minor: str) -> list[Case]:
    """Return every case in the version that this minor shares with Podium."""
    dialect = DIALECTS[minor]
    return [
        *groups.creates(dialect),
        *groups.references(dialect),
        *groups.updates(dialect),
        *groups.statuses(),
        *workloads.creates(dialect),
        *workloads.updates(dialect),
    ]
