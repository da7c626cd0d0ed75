"""The answer of `defragment` as values, free of the snapshot's rows; the field names are those of the JSON.

A domain is all nodes with one value of a label. It is free once no pod is left there but those that belong to
its nodes: pods of DaemonSets and mirrors of static pods.
"""

from enum import StrEnum

import msgspec

from podium.planner.preemption.outcome import PlanHarm


class Freeing(StrEnum):
    """Whether moves free a domain."""

    MOVABLE = "Movable"
    # A unit finds no room elsewhere.
    DOES_NOT_FIT = "DoesNotFit"
    # A pod may not be evicted.
    BLOCKED = "Blocked"
    # So many domains were tried before it that the search ended.
    NOT_TRIED = "NotTried"


class MovedPod(msgspec.Struct, frozen=True):
    """A pod of a moved unit: the node it runs on, and the node with room for it."""

    name: str
    node: str
    to: str


class UnitMove(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that is evicted and placed elsewhere, and the harm of its eviction.

    `violations` are pods beyond what budgets allow if all units of the domain are evicted, the most important
    first.
    """

    kind: str
    namespace: str
    name: str
    priority: int
    pods: tuple[MovedPod, ...]
    acceleratorSeconds: int
    violations: int


class StayingUnit(msgspec.Struct, frozen=True):
    """A unit, or a pod, that keeps a domain from being free."""

    kind: str
    namespace: str
    name: str
    reason: str


class DomainMoves(msgspec.Struct, frozen=True, kw_only=True):
    """The moves that free a domain, or why none do.

    `frees` is the free room of its nodes afterwards, in milli cpu and units. `fills` are domains that were
    free and take a moved pod. `harm` is that of all evictions, None for a blocked domain. `message` is for a
    person.
    """

    name: str
    outcome: Freeing
    nodes: int
    frees: dict[str, int]
    harm: PlanHarm | None = None
    moves: tuple[UnitMove, ...] = ()
    fills: tuple[str, ...] = ()
    stays: tuple[StayingUnit, ...] = ()
    message: str = ""


class Defragmentation(msgspec.Struct, frozen=True, kw_only=True):
    """The domains of a label: their `count`, the names of those that are `free`, and the best of the others.

    Of the `candidates`, whose units may all be evicted, so many were `tried`, and `movable` can be freed. The
    search ends when enough of them are found.
    """

    key: str
    count: int
    candidates: int
    tried: int
    movable: int
    free: tuple[str, ...]
    domains: tuple[DomainMoves, ...]
