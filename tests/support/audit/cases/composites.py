"""Cases for the rule about groups of composite groups."""

import msgspec
from tests.support.audit.builders import pod_group
from tests.support.audit.cases.case import Case

from podium.api.groups import PodGroup


def _child(name: str, composite: str = "all", namespace: str = "team-a") -> PodGroup:
    return msgspec.structs.replace(pod_group(name, namespace=namespace), composite=composite)


RULE = "composite-not-planned"
ALL = "CompositePodGroup team-a/all"

CASES = [
    Case(
        "a group with a parent", RULE, [_child("a")], [(ALL, "", "PodGroup a belongs to it. Podium neither")]
    ),
    Case(
        "several groups",
        RULE,
        [_child(name) for name in "dbca"],
        [(ALL, "", "PodGroups a, b, c and 1 more belong to it.")],
    ),
    Case(
        "several parents",
        RULE,
        [_child("b", "other"), _child("a"), _child("a", namespace="team-b")],
        [
            (ALL, "", "PodGroup a belongs"),
            ("CompositePodGroup team-a/other", "", "PodGroup b belongs"),
            ("CompositePodGroup team-b/all", "", "PodGroup a belongs"),
        ],
    ),
    Case("a group without a parent", RULE, [pod_group()]),
    Case("1.36 drops the field", RULE, [_child("a")], [], "1.36"),
]
