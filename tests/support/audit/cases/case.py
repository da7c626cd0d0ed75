"""The form of a case: one cluster for one rule, and the findings that the rule must have there.

A case without expectations is a negative one. Expectations are (object, field, part of the message) in the
order of the report.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.support.audit.builders import priority_class

from podium.cluster.reader import WorkloadName
from podium.cluster.state import Readable

GROUP = "PodGroup team-a/train"
GOLD = priority_class("gold", 1000)
SILVER = priority_class("silver", 500)
SYSTEM = priority_class("system-cluster-critical", 2000000000)


class Case(NamedTuple):
    """A cluster for one rule."""

    name: str
    rule: str
    objects: list[Readable]
    expected: Sequence[tuple[str, str, str]] = ()
    kubernetes: str = "1.37"
    unread: Mapping[str, str] = {}
    untrusted: frozenset[WorkloadName] = frozenset()
