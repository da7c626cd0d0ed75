"""The kinds that create pods: one row each, from which all readers find them.

Rows of one module keep together what belongs to a project. A kind with places of pod templates and numbers
only is a row of `custom`; a kind that needs code has a module of its own.
"""

from podium.api.podkinds import custom, jobset, leaderworkerset, workloads
from podium.api.podkinds.kind import GroupLabel, OwnerKind

KINDS = (*workloads.KINDS, *jobset.KINDS, *leaderworkerset.KINDS, *custom.KINDS)
# By (apiVersion, kind), as in objects and owner references.
OWNER_KINDS: dict[tuple[str, str], OwnerKind] = {row.api_kind: row for row in KINDS}
# The kinds that are read from clusters.
LISTED_KINDS = {key: row for key, row in OWNER_KINDS.items() if row.listed}
# The kinds without a namespace.
CLUSTER_SCOPED_OWNERS = frozenset(row.kind for row in KINDS if not row.namespaced)
# The kinds whose gangs Podium creates groups for.
GANG_FORMS = {row.api_kind: row.gang for row in KINDS if row.gang is not None}
# The labels that name the groups of pods, each once.
GROUP_LABELS: tuple[GroupLabel, ...] = tuple(dict.fromkeys(label for row in KINDS for label in row.groups))
# The labels that name the owners of pods, with the owners' kinds, each before its own owner.
OWNER_LABELS = [(row.api_kind, row.owner) for row in KINDS if row.owner is not None]
# The labels whose values are names of objects and roles, or a number among them.
NAMING_LABELS = frozenset(
    (
        *(key for label in GROUP_LABELS for key in (label.key, label.role, label.needed, label.number)),
        *(label.key for _, label in OWNER_LABELS),
    )
) - {""}
