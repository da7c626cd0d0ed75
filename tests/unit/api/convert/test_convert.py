"""PodGroups and Workloads from any version to any other: the changed fields, the notes, the kept fields."""

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.convert import SERVER_OWNED, objects

from podium.api.convert import KEPT, STORED, VERSIONS, convert
from podium.api.findings import group_of
from podium.api.groups import PodGroup, Workload
from podium.api.reads import READS

NATIVE = {version: f"scheduling.k8s.io/{version}" for version in ("v1alpha2", "v1alpha3", "v1beta1")}
OLDER = "scheduling.podium.dev/v1alpha2"


def group(version: str, spec: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec, **rest}


def workload(version: str, *templates: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = {"podGroupTemplates": list(templates), **spec}
    return {"apiVersion": version, "kind": "Workload", "metadata": {"name": "train"}, "spec": body}


def neutral(document: dict[str, Any]) -> PodGroup | Workload:
    read = READS[document["apiVersion"], document["kind"]]
    value = read.neutral(msgspec.convert(document, read.type))
    assert isinstance(value, PodGroup | Workload)
    return value


V1ALPHA2_SPEC = {
    "podGroupTemplateRef": {"workload": {"workloadName": "llm", "podGroupTemplateName": "worker"}},
    "schedulingPolicy": {"gang": {"minCount": 4}},
    "disruptionMode": "PodGroup",
    "priorityClassName": "gold",
    "priority": 1000,
}
V1BETA1_SPEC = {
    "workloadRef": {"workloadName": "llm", "templateName": "worker"},
    "schedulingPolicy": {"gang": {"minCount": 4}},
    "disruptionMode": {"all": {}},
    "priorityClassName": "gold",
    "priority": 1000,
}


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in VERSIONS for b in VERSIONS if a != b])
def test_each_field_has_its_place_in_each_version(source: str, target: str) -> None:
    """The two shapes of a PodGroup and of a template, between every pair of versions."""
    spec = V1BETA1_SPEC if VERSIONS[source].newer else V1ALPHA2_SPEC
    expected = V1BETA1_SPEC if VERSIONS[target].newer else V1ALPHA2_SPEC
    assert convert(group(source, spec), target) == (group(target, expected), [])
    leave = ("workloadRef", "podGroupTemplateRef")
    template, wanted = (
        {"name": "a"} | {k: v for k, v in s.items() if k not in leave} for s in (spec, expected)
    )
    assert convert(workload(source, template), target) == (workload(target, wanted), [])


def test_keys_keep_their_order() -> None:
    """A renamed field has the position of the old one."""
    converted = convert(group(NATIVE["v1alpha2"], V1ALPHA2_SPEC), STORED).document
    assert list(converted) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(converted["spec"]) == list(V1BETA1_SPEC)


NULLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("null mode", {"disruptionMode": None}, {"disruptionMode": None}),
    ("null reference", {"podGroupTemplateRef": None}, {}),
    ("absent mode", {}, {}),
    ("zero is not absent", {"priority": 0}, {"priority": 0}),
    ("empty is not absent", {"priorityClassName": ""}, {"priorityClassName": ""}),
    ("null list", {"resourceClaims": None}, {"resourceClaims": None}),
]


@pytest.mark.parametrize(("older", "newer"), [row[1:] for row in NULLS], ids=[row[0] for row in NULLS])
def test_absent_null_and_zero_stay_distinct(older: dict[str, Any], newer: dict[str, Any]) -> None:
    assert convert(group(OLDER, older), STORED) == (group(STORED, newer), [])


OTHER_UID = "converted it has another uid, and an owner of unknown uid means deletion"
COMPOSITE_SPEC = {
    "parentCompositePodGroupName": "all",
    "workloadRef": {"workloadName": "w", "templateName": "t"},
    "schedulingPolicy": {"gang": {"minGroupCount": 2}},
    "disruptionMode": {"all": {}},
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
}


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        (NATIVE["v1alpha3"], STORED, STORED),
        (NATIVE["v1alpha3"], OLDER, STORED),
        (NATIVE["v1alpha3"], NATIVE["v1beta1"], NATIVE["v1alpha3"]),
        (NATIVE["v1beta1"], NATIVE["v1beta1"], NATIVE["v1beta1"]),
        (NATIVE["v1beta1"], STORED, STORED),
        (STORED, NATIVE["v1beta1"], NATIVE["v1alpha3"]),
        (STORED, NATIVE["v1alpha3"], NATIVE["v1alpha3"]),
        (STORED, OLDER, STORED),
        (STORED, NATIVE["v1alpha2"], STORED),
    ],
)
def test_a_composite_group_gets_the_version_of_its_kind(source: str, target: str, wanted: str) -> None:
    """Its spec stays as it is; a target without the kind leaves all unchanged, and says so."""
    document = {"apiVersion": source, "kind": "CompositePodGroup", "spec": COMPOSITE_SPEC}
    result = convert(document, target)
    assert result.document == {**document, "apiVersion": wanted}
    assert [note.lost for note in result.notes] == ([True] if target == NATIVE["v1alpha2"] else [])


@pytest.mark.parametrize(
    ("source", "target", "minor", "wanted"),
    [
        ("v1alpha3", "v1beta1", 37, "v1alpha3"),
        ("v1beta1", "v1beta1", 37, "v1alpha3"),
        ("v1alpha3", "v1beta1", 38, "v1beta1"),
        ("v1beta1", "v1alpha3", 38, "v1alpha3"),
        ("v1beta1", "v1beta1", 36, "v1beta1"),
    ],
)
def test_a_composite_group_gets_a_version_that_the_minor_serves(
    source: str, target: str, minor: int, wanted: str
) -> None:
    """1.36 has no such kind, so the object is unchanged."""
    document = {"apiVersion": NATIVE[source], "kind": "CompositePodGroup", "spec": COMPOSITE_SPEC}
    result = convert(document, NATIVE[target], minor)
    assert result.document == {**document, "apiVersion": NATIVE[wanted]}
    assert bool(result.notes) is (minor == 36)


def test_a_parent_survives_the_version_that_lacks_it() -> None:
    """The annotation keeps it, beside the policy; a name that no composite group can have is not restored."""
    kept = {"parentCompositePodGroupName": "all", "preemptionPolicy": "Never"}
    document = group(STORED, {**kept, "workloadRef": {"workloadName": "w", "templateName": "t"}})
    older = convert(document, OLDER).document
    assert json.loads(older["metadata"]["annotations"][KEPT]) == kept
    assert convert(older, STORED).document["spec"] == document["spec"]
    for name in ("", "Bad_Name", "a" * 254, 7):
        older["metadata"]["annotations"][KEPT] = json.dumps({"parentCompositePodGroupName": name})
        assert "parentCompositePodGroupName" not in convert(older, STORED).document["spec"]


LOST: list[tuple[str, dict[str, Any], str, list[tuple[str, str]]]] = [
    (
        "v1alpha2 has no preemptionPolicy",
        group(NATIVE["v1beta1"], {"preemptionPolicy": "Never"}),
        NATIVE["v1alpha2"],
        [("spec.preemptionPolicy", "scheduling.k8s.io/v1alpha2 has no such field; left out")],
    ),
    (
        "nor have its templates",
        workload(NATIVE["v1beta1"], {"name": "a"}, {"name": "b", "preemptionPolicy": "Never"}),
        NATIVE["v1alpha2"],
        [
            (
                "spec.podGroupTemplates[1].preemptionPolicy",
                "scheduling.k8s.io/v1alpha2 has no such field; left out",
            )
        ],
    ),
    (
        "v1alpha2 has no groups of groups",
        group(NATIVE["v1beta1"], {"parentCompositePodGroupName": "all"}),
        NATIVE["v1alpha2"],
        [("spec.parentCompositePodGroupName", "scheduling.k8s.io/v1alpha2 has no such field; left out")],
    ),
    (
        "nor templates of them, not even in an annotation",
        workload(STORED, compositePodGroupTemplates=[{"name": "all"}]),
        OLDER,
        [("spec.compositePodGroupTemplates", "scheduling.podium.dev/v1alpha2 has no such field; left out")],
    ),
    (
        "what Podium's v1alpha2 keeps aside a native one cannot",
        group(OLDER, {}) | {"metadata": {"annotations": {KEPT: '{"preemptionPolicy": "Never"}'}}},
        NATIVE["v1alpha2"],
        [("spec.preemptionPolicy", "scheduling.k8s.io/v1alpha2 has no such field; left out")],
    ),
    (
        "a field of no version is not made one",
        group(NATIVE["v1alpha2"], {"priorty": 5, "workloadRef": {"workloadName": "x"}}),
        NATIVE["v1beta1"],
        [
            ("spec.priorty", "is not a field of scheduling.k8s.io/v1alpha2; left out"),
            ("spec.workloadRef", "is not a field of scheduling.k8s.io/v1alpha2; left out"),
        ],
    ),
    (
        "an unknown mode",
        group(OLDER, {"disruptionMode": "Sometimes"}),
        STORED,
        [("spec.disruptionMode", '"Sometimes" is not a mode of scheduling.podium.dev/v1alpha2; left out')],
    ),
    (
        "two modes at once",
        group(STORED, {"disruptionMode": {"single": {}, "all": {}}}),
        OLDER,
        [
            (
                "spec.disruptionMode",
                '{"single": {}, "all": {}} is not a mode of scheduling.podium.dev/v1beta1; left out',
            )
        ],
    ),
    (
        "a reference to nothing",
        group(OLDER, {"podGroupTemplateRef": {}}),
        STORED,
        [("spec.podGroupTemplateRef", "{} names no template; left out")],
    ),
    (
        "templates of unlike priority",
        workload(NATIVE["v1alpha2"], {"name": "a", "priority": 1}, {"name": "b"}),
        NATIVE["v1beta1"],
        [
            (
                "spec.podGroupTemplates",
                "differ in priorityClassName or priority; scheduling.k8s.io/v1beta1 refuses such a Workload",
            )
        ],
    ),
    (
        "a name that is too long for a label",
        group(NATIVE["v1beta1"], {}) | {"metadata": {"name": "x" * 64}},
        STORED,
        [("metadata.name", "a Podium group's name is a label, so 64 characters are more than 63")],
    ),
    (
        "an owner that is converted too",
        group(NATIVE["v1alpha2"], {})
        | {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "llm", "uid": "1"},
                    {"apiVersion": NATIVE["v1alpha2"], "kind": "Workload", "name": "llm", "uid": "2"},
                ]
            }
        },
        NATIVE["v1beta1"],
        [
            (
                "metadata.ownerReferences",
                f"Workload llm left out: {OTHER_UID}",
            )
        ],
    ),
]


@pytest.mark.parametrize(
    ("document", "target", "notes"), [row[1:] for row in LOST], ids=[row[0] for row in LOST]
)
def test_fields_that_a_target_lacks_are_reported(
    document: dict[str, Any], target: str, notes: list[tuple[str, str]]
) -> None:
    """Every note of the table is a loss, and the field that it names is not in the result."""
    converted = convert(document, target)
    assert [(note.field, note.text) for note in converted.notes] == notes
    assert all(note.lost for note in converted.notes)
    for note in converted.notes:
        if note.text.endswith("; left out"):
            *_, name = note.field.split(".")
            assert f'"{name}"' not in json.dumps(converted.document)


def test_a_new_object_has_nothing_of_the_old_ones_life() -> None:
    """Into another group, fields of a server or the old controllers are left out and named, not lost."""
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {
        "name": "train",
        **SERVER_OWNED,
        "finalizers": ["scheduling.k8s.io/podgroup-protection", "example.com/hold"],
        "annotations": {applied: "{}"},
    }
    converted = convert(group(NATIVE["v1beta1"], {}) | {"metadata": metadata}, STORED)
    assert converted.document["metadata"] == {"name": "train", "finalizers": ["example.com/hold"]}
    assert [(note.field, note.lost) for note in converted.notes] == [
        ("metadata", False),
        ("metadata.finalizers", False),
        (f"metadata.annotations[{applied}]", False),
    ]


RECREATED = [
    (NATIVE["v1alpha2"], NATIVE["v1beta1"], True),
    (NATIVE["v1beta1"], NATIVE["v1alpha2"], True),
    (NATIVE["v1alpha3"], NATIVE["v1beta1"], False),
    (NATIVE["v1beta1"], NATIVE["v1alpha3"], False),
    (OLDER, STORED, False),
    (STORED, OLDER, False),
    (STORED, NATIVE["v1beta1"], True),
]


@pytest.mark.parametrize(("source", "target", "recreated"), RECREATED)
def test_an_object_keeps_its_identity_where_one_server_has_both_versions(
    source: str, target: str, recreated: bool
) -> None:
    """No server serves v1alpha2 with a later native version: such an object is recreated."""
    converted = convert(group(source, {}) | {"metadata": {"name": "train", **SERVER_OWNED}}, target)
    assert ("uid" not in converted.document["metadata"]) is recreated


def test_the_condition_of_being_scheduled_has_its_versions_name() -> None:
    """The two names are swapped, so a round trip is exact for any object."""
    names = ["PodGroupScheduled", "DisruptionTarget"]
    status = {"conditions": [{"type": name, "status": "True"} for name in names]}
    newer = convert(group(OLDER, {}, status=status), STORED).document
    assert [one["type"] for one in newer["status"]["conditions"]] == [
        "PodGroupInitiallyScheduled",
        "DisruptionTarget",
    ]
    assert convert(newer, OLDER).document["status"] == status


def test_podiums_v1alpha2_keeps_what_it_cannot_say_in_one_annotation() -> None:
    document = workload(STORED, {"name": "a", "preemptionPolicy": "Never"}, {"name": "b"})
    converted = convert(document, OLDER)
    assert converted.notes == []
    kept = converted.document["metadata"]["annotations"]
    assert kept == {KEPT: '{"podGroupTemplates":{"a":{"preemptionPolicy":"Never"}}}'}
    assert converted.document["spec"]["podGroupTemplates"] == [{"name": "a"}, {"name": "b"}]
    # By name, since a user who edits the v1alpha2 file may reorder templates.
    converted.document["spec"]["podGroupTemplates"].reverse()
    restored = convert(converted.document, STORED).document
    assert restored["spec"]["podGroupTemplates"] == document["spec"]["podGroupTemplates"][::-1]
    assert restored["metadata"] == document["metadata"]


FORGED = [
    ("not JSON", "{"),
    ("not an object", "[1]"),
    ("too deep", "[" * 100_000),
    ("a value the schema refuses", '{"preemptionPolicy": "Sometimes"}'),
    ("a value of another type", '{"preemptionPolicy": ["Never"]}'),
    ("a field v1alpha2 has itself", '{"priority": 2000000000}'),
    ("templates of another type", '{"podGroupTemplates": ["a"]}'),
    ("fields of another type", '{"podGroupTemplates": {"a": "Never"}}'),
]


@pytest.mark.parametrize("text", [row[1] for row in FORGED], ids=[row[0] for row in FORGED])
@pytest.mark.parametrize(
    "document", [group(OLDER, {}), workload(OLDER, {"name": "a"})], ids=["PodGroup", "Workload"]
)
def test_a_forged_annotation_changes_nothing(document: dict[str, Any], text: str) -> None:
    """Users may write annotations. Only values that v1beta1 accepts are restored, and nothing raises."""
    converted = convert(document | {"metadata": {"name": "train", "annotations": {KEPT: text}}}, STORED)
    assert converted.document == document | {"apiVersion": STORED}


@given(objects())
def test_to_its_own_version_an_object_is_itself(document: dict[str, Any]) -> None:
    assert convert(document, document["apiVersion"]) == (document, [])


@given(st.sampled_from((OLDER, STORED)).flatmap(objects))
def test_podiums_versions_lose_nothing(document: dict[str, Any]) -> None:
    """A round trip gives the same document, including the server's fields, for any stored object."""
    before = copy.deepcopy(document)
    other = STORED if document["apiVersion"] == OLDER else OLDER
    there = convert(document, other)
    back = convert(there.document, document["apiVersion"])
    assert [note for note in there.notes + back.notes if note.field != "spec.podGroupTemplates"] == []
    assert back.document == document == before


@given(objects(live=False), st.sampled_from(sorted(VERSIONS)))
def test_a_round_trip_without_a_loss_is_exact(document: dict[str, Any], target: str) -> None:
    """A round trip between any two versions gives the same document, or a note names a loss."""
    there = convert(document, target)
    back = convert(there.document, document["apiVersion"])
    carried = [note for note in there.notes if note.text.endswith("left out")]
    assert (back.document == document) is (carried == [])


@given(objects(), st.sampled_from(sorted(VERSIONS)))
def test_the_meaning_is_the_same_in_every_version(document: dict[str, Any], target: str) -> None:
    """The target's own read accepts the result, which means the same as the source, except for losses."""
    converted = convert(document, target)
    assert converted.document["apiVersion"] == target
    meant, means = neutral(document), neutral(converted.document)
    assert msgspec.structs.replace(means.ref, apiVersion="") == msgspec.structs.replace(
        meant.ref, apiVersion=""
    )
    lost = {note.field for note in converted.notes if note.lost}
    if isinstance(meant, PodGroup) and isinstance(means, PodGroup):
        fields = ["min_count", "disruption_mode", "priority_class_name", "priority", "template_ref"]
        if "spec.preemptionPolicy" not in lost and KEPT not in str(converted.document):
            fields.append("preemption_policy")
        assert [getattr(meant, field) for field in fields] == [getattr(means, field) for field in fields]
        assert len(meant.conditions) == len(means.conditions)
    elif isinstance(meant, Workload) and isinstance(means, Workload):
        assert list(meant.templates) == list(means.templates)
        for path, template in meant.templates.items():
            policy = template.preemption_policy
            if f"{path}.preemptionPolicy" in lost or KEPT in str(converted.document):
                policy = means.templates[path].preemption_policy
            assert msgspec.structs.replace(template, preemption_policy=policy) == means.templates[path]
    else:
        pytest.fail("the kind changed")


@given(objects(), st.sampled_from(sorted(VERSIONS)))
def test_a_new_object_carries_no_identity(document: dict[str, Any], target: str) -> None:
    """Across groups the server's metadata is removed, and all other metadata stays."""
    converted = convert(document, target).document
    if group_of(document["apiVersion"]) != group_of(target):
        left = {key: value for key, value in document["metadata"].items() if key not in SERVER_OWNED}
        annotations = {k: v for k, v in converted["metadata"].get("annotations", {}).items() if k != KEPT}
        assert converted["metadata"] | ({"annotations": annotations} if annotations else {}) in (
            left,
            converted["metadata"],
        )
        assert set(converted["metadata"]).isdisjoint(SERVER_OWNED)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(objects(), st.sampled_from(sorted(VERSIONS)), st.text(max_size=4), JSON_VALUES)
def test_whatever_decodes_converts(document: dict[str, Any], target: str, key: str, value: Any) -> None:
    """A field of any name and value never stops a conversion if the version's own read accepts it."""
    for field in (key, "disruptionMode", "preemptionPolicy", "podGroupTemplateRef", "workloadRef"):
        changed = document | {"spec": document["spec"] | {field: value}}
        read = READS[document["apiVersion"], document["kind"]]
        try:
            msgspec.convert(changed, read.type)
        except msgspec.ValidationError:
            continue
        assert convert(changed, target).document["apiVersion"] == target


V1ALPHA1 = {
    "apiVersion": "scheduling.k8s.io/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "train", "uid": "1"},
    "spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
        "podGroups": [
            {"name": "driver", "policy": {"basic": {}}},
            {"name": "workers", "policy": {"gang": {"minCount": 4}}},
        ],
    },
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_workload_of_1_35_converts_to_every_version(version: str) -> None:
    before = copy.deepcopy(V1ALPHA1)
    converted = convert(V1ALPHA1, version)
    assert before == V1ALPHA1
    assert converted.document == {
        "apiVersion": version,
        "kind": "Workload",
        "metadata": {"name": "train"},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [
                {"name": "driver", "schedulingPolicy": {"basic": {}}},
                {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 4}}},
            ],
        },
    }
    assert [note.lost for note in converted.notes] == [False]
    templates = neutral(V1ALPHA1).templates  # type: ignore[union-attr] # it is a Workload
    assert {path: each.min_count for path, each in templates.items()} == {
        "spec.podGroups[0]": None,
        "spec.podGroups[1]": 4,
    }
