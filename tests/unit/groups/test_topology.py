"""The sentence about a group whose members run in several domains."""

import pytest
from tests.support.preemption.clusters import state_of
from tests.support.preemption.scene import gang, group, node

from podium.groups.topology import straddling

RACK = "rack"
WHERE: dict[str, tuple[list[str | None], str]] = {
    "one rack": (["a", "a"], ""),
    "two racks": (["a", "b", "b"], "2 pods in rack=b and 1 pod in rack=a."),
    "a node without the label": (["a", None], "1 pod in rack=a and 1 pod on nodes without rack."),
    "only nodes without the label": ([None], "1 pod on nodes without rack."),
    "a label without a value": (["", "a"], "1 pod in rack=a and 1 pod on nodes without rack."),
    "only labels without a value": (["", ""], "2 pods on nodes without rack."),
}
OLDER: dict[str, tuple[list[str | None], str]] = {
    "a rack with an empty name": (["", ""], ""),
    "a rack with an empty name, and another": (["", "a"], "1 pod in rack= and 1 pod in rack=a."),
}
CASES = [(*case, False) for case in WHERE.values()] + [(*case, True) for case in OLDER.values()]


@pytest.mark.parametrize(("racks", "words", "empty_domain"), CASES, ids=[*WHERE, *OLDER])
def test_members_run_in(racks: list[str | None], words: str, *, empty_domain: bool) -> None:
    """Only under the rules of 1.36 and 1.37 an empty label is a domain."""
    nodes = [node(f"n{at}", labels={} if rack is None else {RACK: rack}) for at, rack in enumerate(racks)]
    wanted = group("g", topology=RACK)
    state = state_of([*nodes, wanted, *gang("g", [each.metadata.name for each in nodes])])
    said = straddling(state, wanted, empty_domain=empty_domain)
    assert said.endswith(words)
    assert bool(said) is bool(words)
