"""The neutral form of composite groups: all that a scheduler reads, kept apart by API in the state."""

from typing import Any

import msgspec
import pytest

from podium.api.groups import CompositeGroup, DisruptionMode, TemplateRef
from podium.api.membership import GroupKey
from podium.api.reads import COMPOSITE_VERSION, GROUP_READS, PODIUM_COMPOSITE
from podium.cluster.state import ClusterState

CONDITION = {
    "type": "CompositePodGroupInitiallyScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "",
    "lastTransitionTime": "2026-11-26T00:00:00Z",
}
FULL = {
    "parentCompositePodGroupName": "root",
    "workloadRef": {"workloadName": "w", "templateName": "t"},
    "schedulingPolicy": {"gang": {"minGroupCount": 2}},
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "disruptionMode": {"all": {}},
    "priorityClassName": "gold",
    "priority": 1000,
    "preemptionPolicy": "Never",
}


def read(version: str, spec: dict[str, Any], **parts: Any) -> CompositeGroup:
    """Read a composite group as from a file."""
    document = {
        "apiVersion": version,
        "kind": "CompositePodGroup",
        "metadata": {"name": "a", "namespace": "ml"},
        "spec": spec,
        **parts,
    }
    found = GROUP_READS[version, "CompositePodGroup"]
    neutral: CompositeGroup = found.neutral(msgspec.convert(document, found.type))
    return neutral


@pytest.mark.parametrize("version", [COMPOSITE_VERSION, "scheduling.k8s.io/v1beta1", PODIUM_COMPOSITE])
def test_all_fields_are_read(version: str) -> None:
    group = read(version, FULL, status={"conditions": [CONDITION]})
    assert group.native is (version != PODIUM_COMPOSITE)
    assert (group.composite, group.topology, group.min_group_count) == ("root", "rack", 2)
    assert (group.disruption_mode, group.template_ref) == (DisruptionMode.POD_GROUP, TemplateRef("w", "t"))
    assert (group.priority_class_name, group.priority, group.preemption_policy) == ("gold", 1000, "Never")
    assert [each.type for each in group.conditions] == ["CompositePodGroupInitiallyScheduled"]


def test_absent_fields_have_the_defaults_of_the_server() -> None:
    group = read(COMPOSITE_VERSION, {"schedulingPolicy": {"basic": {}}})
    assert (group.min_group_count, group.disruption_mode) == (None, DisruptionMode.POD)
    assert (group.composite, group.topology, group.template_ref, group.conditions) == ("", "", None, ())


def test_the_state_keeps_both_apis_apart() -> None:
    state = ClusterState(native_served=True)
    for version in (COMPOSITE_VERSION, PODIUM_COMPOSITE):
        state.apply(read(version, FULL))
    assert set(state.composites) == {GroupKey(native, "ml", "a", composite=True) for native in (True, False)}
    assert state.copy().composites == state.composites
    state.remove(read(COMPOSITE_VERSION, {}))
    assert set(state.composites) == {GroupKey(False, "ml", "a", composite=True)}
