"""The generator is a function of its seed, and its edits do what their names say."""

import pytest
from tests.support.admission.edits import Edit, append, drop, edited, put, swap
from tests.support.admission.generator import Change, Create, Delete, Replace, scenario
from tests.support.admission.scene import DIALECTS


@pytest.mark.parametrize("minor", DIALECTS)
def test_a_seed_is_a_script(minor: str) -> None:
    """The same seed gives the same script; another seed or another number gives another."""
    assert scenario(7, 3, minor) == scenario(7, 3, minor)
    assert scenario(7, 3, minor) != scenario(8, 3, minor)
    assert scenario(7, 3, minor).steps != scenario(7, 4, minor).steps


@pytest.mark.parametrize("minor", DIALECTS)
def test_scripts_use_every_kind_of_step(minor: str) -> None:
    """Forty scripts create, change and delete every kind, and touch each status there is."""
    steps = [step for index in range(40) for step in scenario(1, index, minor).steps]
    kinds = {"PriorityClass", "Pod", "Workload", "PodGroup"}
    assert {step.document["kind"] for step in steps if isinstance(step, Create)} == kinds
    assert {step.document["kind"] for step in steps if isinstance(step, Replace)} == {"Workload", "PodGroup"}
    assert {step.kind for step in steps if isinstance(step, Delete)} == kinds
    changes = {(step.kind.value, step.subresource) for step in steps if isinstance(step, Change)}
    assert changes == {(kind, "") for kind in kinds} | {("Pod", "status"), ("PodGroup", "status")}


def test_scripts_for_servers_with_all_gates_use_composite_groups() -> None:
    """They create, change and delete them, and write their status and trees of templates."""
    steps = [step for index in range(20) for step in scenario(1, index, "1.37", trees=True).steps]
    created = [step.document for step in steps if isinstance(step, Create)]
    assert {"CompositePodGroup", "PodGroup", "Workload"} <= {each["kind"] for each in created}
    assert any("compositePodGroupTemplates" in (each.get("spec") or {}) for each in created)
    changes = {(step.kind.value, step.subresource) for step in steps if isinstance(step, Change)}
    assert {("CompositePodGroup", ""), ("CompositePodGroup", "status")} <= changes
    assert "CompositePodGroup" in {step.kind.value for step in steps if isinstance(step, Delete)}


_DOCUMENT = {"spec": {"items": [{"name": "a"}, {"name": "b"}], "mode": "x"}}


@pytest.mark.parametrize(
    ("edit", "want"),
    [
        pytest.param(
            put("spec/mode", None), {"items": [{"name": "a"}, {"name": "b"}], "mode": None}, id="set"
        ),
        pytest.param(
            put("spec/new/deep", 1),
            {"items": [{"name": "a"}, {"name": "b"}], "mode": "x", "new": {"deep": 1}},
            id="set makes parents",
        ),
        pytest.param(
            put("spec/items/1/name", "c"),
            {"items": [{"name": "a"}, {"name": "c"}], "mode": "x"},
            id="set in a list",
        ),
        pytest.param(drop("spec/mode"), {"items": [{"name": "a"}, {"name": "b"}]}, id="drop"),
        pytest.param(drop("spec/items/0"), {"items": [{"name": "b"}], "mode": "x"}, id="drop an item"),
        pytest.param(
            append("spec/items", 1), {"items": [{"name": "a"}, {"name": "b"}, 1], "mode": "x"}, id="append"
        ),
        pytest.param(
            append("spec/more", 1),
            {"items": [{"name": "a"}, {"name": "b"}], "mode": "x", "more": [1]},
            id="append makes a list",
        ),
        pytest.param(swap("spec/items"), {"items": [{"name": "b"}, {"name": "a"}], "mode": "x"}, id="swap"),
        pytest.param(drop("spec/none/at/all"), _DOCUMENT["spec"], id="drop what does not exist"),
        pytest.param(put("spec/items/5/name", "c"), _DOCUMENT["spec"], id="no such item"),
    ],
)
def test_an_edit_changes_a_copy(edit: Edit, want: object) -> None:
    """An edit changes one place, in a copy; an edit without a place changes nothing."""
    before = repr(_DOCUMENT)
    assert edited(_DOCUMENT, [edit])["spec"] == want
    assert repr(_DOCUMENT) == before
