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
    "a rack with an empty name": (["", ""], ""),
    "a rack with an empty name, and another": (["", "a"], "1 pod in rack= and 1 pod in rack=a."),
}


@pytest.mark.parametrize(("racks", "words"), WHERE.values(), ids=WHERE)
def test_members_run_in(racks: list[str | None], words: str) -> None:
    nodes = [node(f"n{at}", labels={} if rack is None else {RACK: rack}) for at, rack in enumerate(racks)]
    wanted = group("g", topology=RACK)
    state = state_of([*nodes, wanted, *gang("g", [each.metadata.name for each in nodes])])
    said = straddling(state, wanted)
    assert said.endswith(words)
    assert bool(said) is bool(words)
