"""The form of a case: one cluster for one rule, and the findings that the rule must have there.

A case without findings is a negative one. The findings of a case are in the order of the report.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tests.support.audit.builders import priority_class

from podium.cluster.reader import WorkloadName
from podium.cluster.state import Readable

GROUP = "PodGroup team-a/train"
GOLD = priority_class("gold", 1000)
SILVER = priority_class("silver", 500)
SYSTEM = priority_class("system-cluster-critical", 2000000000)


class Case(NamedTuple):
    """A cluster for one rule. A finding is (object, field, part of the message)."""

    name: str
    objects: list[Readable]
    expected: list[tuple[str, str, str]]
    kubernetes: str
    unread: Mapping[str, str]
    untrusted: frozenset[WorkloadName]
    rule: str = ""


def case(
    name: str,
    objects: list[Readable],
    *found: str | tuple[str, str, str],
    kubernetes: str = "1.37",
    unread: Mapping[str, str] = {},
    untrusted: frozenset[WorkloadName] = frozenset(),
) -> Case:
    """Make a case for `Table.add`. A finding that is only a part of a message is at the place of its rule."""
    at_place = [("", "", each) if isinstance(each, str) else each for each in found]
    return Case(name, objects, at_place, kubernetes, unread, untrusted)


class Table(list[Case]):
    """The cases of a module."""

    def add(self, rule: str, place: tuple[str, str], *cases: Case) -> None:
        """Add cases of one rule; `place` is the object and the field of most of its findings."""
        for each in cases:
            expected = [found if found[0] else (*place, found[2]) for found in each.expected]
            self.append(each._replace(rule=rule, expected=expected))
