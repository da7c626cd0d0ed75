"""Whether a node takes the pods of Podium's processes."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.unit.manifests.test_modes import rendered

from podium.api.groups import RESERVED
from podium.api.schedulable import SchedulableNode
from podium.ops.doctor.diagnosis import unplaceable

_RESERVED = {"key": RESERVED, "value": "yes", "effect": "NoSchedule"}
_SOFT = {"key": "spot", "effect": "PreferNoSchedule"}
_DOWN = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


def _node(name: str, *taints: dict[str, str], cordoned: bool = False) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}},
        "spec": {"taints": list(taints), "unschedulable": cordoned},
    }


def _told(*nodes: dict[str, Any], mode: str = "admission") -> str:
    return unplaceable(rendered(mode), msgspec.convert(nodes, list[SchedulableNode]))


@pytest.mark.parametrize(
    "nodes",
    [[], [_node("a", _RESERVED), _node("b")], [_node("a", _SOFT)]],
    ids=["no node yet", "a free node", "a taint without effect"],
)
@pytest.mark.parametrize("mode", ["admission", "scheduler"])
def test_a_node_that_takes_all_is_enough(nodes: Sequence[dict[str, Any]], mode: str) -> None:
    """Free resources are not checked, because they change."""
    assert _told(*nodes, mode=mode) == ""


def test_processes_without_a_node_are_named_with_the_taints() -> None:
    notes = _told(_node("a", _RESERVED), _node("b", _SOFT, _RESERVED), _node("c", cordoned=True))
    assert notes == (
        "none of 3 nodes accepts Podium's own pods, those of podium-controller and podium-webhook: "
        f"2 node(s) had untolerated taint(s) {RESERVED}, 1 node(s) were unschedulable"
    )
    assert "podium-controller, podium-scheduler and podium-webhook: " in _told(
        _node("a", _DOWN), mode="scheduler"
    )


def test_a_process_is_judged_by_what_it_tolerates_and_selects() -> None:
    """A user's manifest may have more fields than ours."""
    webhook, *_ = (each for each in rendered("admission") if each["kind"] == "Deployment")
    spec = webhook["spec"]["template"]["spec"]
    nodes = msgspec.convert([_node("a", _RESERVED)], list[SchedulableNode])
    spec["tolerations"] = [{"key": RESERVED, "operator": "Exists"}]
    assert unplaceable([webhook], nodes) == ""
    spec["nodeSelector"] = {"kubernetes.io/os": "windows"}
    assert "1 node(s) didn't match Pod's node affinity/selector" in unplaceable([webhook], nodes)
