"""Templates inside composites: rules read all of them, and groups are made from leaves only."""

import msgspec

from podium.api.v1beta1 import WorkloadV1Beta1, neutral_workload

WORKLOAD = {
    "apiVersion": "scheduling.k8s.io/v1alpha3",
    "kind": "Workload",
    "metadata": {"name": "w"},
    "spec": {
        "compositePodGroupTemplates": [
            {
                "name": "slice",
                "disruptionMode": {"all": {}},
                "podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 4}}}],
                "compositePodGroupTemplates": [{"name": "inner", "podGroupTemplates": [{"name": "slice"}]}],
            }
        ]
    },
}


def test_templates_are_found_by_path_and_leaves_by_name() -> None:
    workload = neutral_workload(msgspec.convert(WORKLOAD, WorkloadV1Beta1))
    root = "spec.compositePodGroupTemplates[0]"
    assert {path: (each.name, each.composite) for path, each in workload.templates.items()} == {
        root: ("slice", True),
        f"{root}.podGroupTemplates[0]": ("workers", False),
        f"{root}.compositePodGroupTemplates[0]": ("inner", True),
        f"{root}.compositePodGroupTemplates[0].podGroupTemplates[0]": ("slice", False),
    }
    named = {name: workload.template(name) for name in ("slice", "workers", "inner", "none")}
    assert {name: found and found.min_count for name, found in named.items()} == {
        "slice": None,
        "workers": 4,
        "inner": None,
        "none": None,
    }
    assert named["slice"] is workload.templates[f"{root}.compositePodGroupTemplates[0].podGroupTemplates[0]"]
    assert named["inner"] is None
