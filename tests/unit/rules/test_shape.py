"""The tables have the fields that the reads have, and decode as Go does."""

from typing import Any

import msgspec
import pytest
from tests.support.rules.scene import GANG, create, group, priority_class, template
from tests.support.rules.scene import workload as workload_of

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.minors import GROUP_MINORS, group_api
from podium.api.reads import MANIFEST_READS
from podium.minors.minor import GroupApi
from podium.rules import compositegroup, pod, podgroup, priorityclass, workload
from podium.rules.decoding import WrongTypeError, decode, zero
from podium.rules.schema import Document, StructSchema

_V1BETA1 = group_api("v1beta1", 37)
GROUP = podgroup.SHAPES[_V1BETA1]
WORKLOAD = workload.SHAPES[_V1BETA1]


def _nested(struct: Any, name: str) -> type[msgspec.Struct] | None:
    """Return the Struct that a field of a read holds, in a list or not."""
    hint = msgspec.inspect.type_info(struct)
    assert isinstance(hint, msgspec.inspect.StructType)
    field = next(field for field in hint.fields if field.name == name)
    types = list(field.type.types) if isinstance(field.type, msgspec.inspect.UnionType) else [field.type]
    for found in types:
        item = found.item_type if isinstance(found, msgspec.inspect.ListType) else found
        if isinstance(item, msgspec.inspect.StructType):
            return item.cls
    return None


def _compare(shape: StructSchema, struct: type[msgspec.Struct], path: str) -> list[str]:
    """Return the fields that only the table or only the read of a struct has; metadata may have more."""
    ours = {field.name for field in shape.fields}
    theirs = {field.name for field in msgspec.structs.fields(struct)}
    differing = [f"{path}.{name}" for name in (theirs - ours if path.endswith("metadata") else ours ^ theirs)]
    for field in shape.fields:
        inner = _nested(struct, field.name) if field.name in theirs else None
        recursive = field.shape is shape
        if field.shape is not None and inner is not None and not field.shape.opened and not recursive:
            differing += _compare(field.shape, inner, f"{path}.{field.name}")
    return differing


_TABLES = {
    "PodGroup": podgroup.SHAPES,
    "Workload": workload.SHAPES,
    "CompositePodGroup": compositegroup.SHAPES,
}
_SERVED: dict[str, tuple[str, str, GroupApi]] = {
    f"{minor.name} {version} {kind}": (f"{NATIVE_GROUP}/{version}", kind, minor.apis[version])
    for minor in GROUP_MINORS.values()
    for kind, served in minor.kinds.items()
    for version in served.versions
}
_OF_PODIUM = {
    f"Podium {minor.name} {version} {kind}": (
        f"{PODIUM_GROUP}/{version}",
        kind,
        group_api(version, minor.number),
    )
    for minor in GROUP_MINORS.values()
    for version in ("v1alpha2", "v1beta1")
    for kind in _TABLES
    if (version, kind) != ("v1alpha2", "CompositePodGroup")
}
_READ = _SERVED | _OF_PODIUM


@pytest.mark.parametrize(("api_version", "kind", "api"), _READ.values(), ids=list(_READ))
def test_tables_and_reads_know_the_same_fields(api_version: str, kind: str, api: GroupApi) -> None:
    """A field that is missing on one side would be pruned by mistake, or never validated."""
    assert _unread(_TABLES[kind][api], MANIFEST_READS[api_version, kind].type, kind) == []


def test_the_table_of_classes_has_the_fields_of_their_read() -> None:
    read = MANIFEST_READS["scheduling.k8s.io/v1", "PriorityClass"]
    assert _unread(priorityclass.SHAPE, read.type, "PriorityClass") == []


def _unread(shape: StructSchema, struct: type[msgspec.Struct], kind: str) -> list[str]:
    """Return the differing fields, but for the one of an owner reference that no reader needs."""
    return [name for name in _compare(shape, struct, kind) if not name.endswith("blockOwnerDeletion")]


def test_canonical_form_has_what_go_writes() -> None:
    """Zero values are removed if Go omits them and added if it does not; keys have Go's order."""
    document = group(
        {
            "priorityClassName": "",
            "priority": None,
            "resourceClaims": [],
            "workloadRef": {"templateName": "t"},
            "schedulingPolicy": None,
            "parentCompositePodGroupName": "",
        }
    )
    document["metadata"]["labels"] = {"a": None}
    decoded = decode(GROUP, document, [])
    assert decoded["spec"] == {
        "parentCompositePodGroupName": "",
        "workloadRef": {"workloadName": "", "templateName": "t"},
        "schedulingPolicy": {},
    }
    assert decoded["metadata"]["labels"] == {"a": ""}
    assert decoded["status"] == {}
    assert list(decoded["spec"]["workloadRef"]) == ["workloadName", "templateName"]


def test_template_writes_null_constraints() -> None:
    """Upstream's template has a pointer without omitempty."""
    decoded = decode(WORKLOAD, workload_of({"podGroupTemplates": [None]}), [])
    assert decoded["spec"]["podGroupTemplates"] == [
        {"name": "", "schedulingPolicy": {}, "schedulingConstraints": None}
    ]


def into(found: str, field: str, go: str) -> str:
    """Return encoding/json's error."""
    return f"json: cannot unmarshal {found} into Go struct field {field} of type {go}"


def test_decoding_leaves_the_document_alone() -> None:
    """The input stays unchanged, because it is compared with the result."""
    document = group({**GANG, "x": 1, "priority": None})
    before = msgspec.json.encode(document)
    decode(GROUP, document, [])
    assert msgspec.json.encode(document) == before


def test_unknown_fields_are_named_in_the_documents_order() -> None:
    """Paths have indices, like the server's warnings."""
    unknown: list[str] = []
    document = {
        "b": 1,
        "spec": {"podGroupTemplates": [template(), {"name": "t", "y": {}}], "a": 1},
        "metadata": {"ownerReferences": [{"z": 1}]},
    }
    decode(WORKLOAD, document, unknown)
    assert unknown == ["b", "spec.podGroupTemplates[1].y", "spec.a", "metadata.ownerReferences[0].z"]


@pytest.mark.parametrize(
    "shape, document, field, text",
    [
        (
            GROUP,
            {"spec": {"priority": "1"}},
            "spec.priority",
            into("string", "PodGroupSpec.spec.priority", "int32"),
        ),
        (
            GROUP,
            {"spec": {"priority": 2**31}},
            "spec.priority",
            into("number 2147483648", "PodGroupSpec.spec.priority", "int32"),
        ),
        (
            GROUP,
            {"metadata": {"labels": {"a": 5}}},
            "metadata.labels",
            into("number", "ObjectMeta.metadata.labels", "string"),
        ),
        (
            GROUP,
            {"metadata": {"finalizers": "x"}},
            "metadata.finalizers",
            into("string", "ObjectMeta.metadata.finalizers", "[]string"),
        ),
        (
            WORKLOAD,
            {"spec": {"podGroupTemplates": [{}, {"name": True}]}},
            "spec.podGroupTemplates[1].name",
            into("bool", "PodGroupTemplate.spec.podGroupTemplates.name", "string"),
        ),
        (
            WORKLOAD,
            {"spec": {"podGroupTemplates": ["x"]}},
            "spec.podGroupTemplates",
            into("string", "WorkloadSpec.spec.podGroupTemplates", "v1beta1.PodGroupTemplate"),
        ),
        (
            GROUP,
            {"metadata": {"creationTimestamp": "yesterday"}},
            "metadata.creationTimestamp",
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00"',
        ),
        (
            priorityclass.SHAPE,
            {"globalDefault": "true"},
            "globalDefault",
            into("string", "PriorityClass.globalDefault", "bool"),
        ),
        (pod.SHAPE, {"spec": []}, "spec", into("array", "Pod.spec", "v1.PodSpec")),
    ],
)
def test_wrong_types_speak_gos_words(shape: StructSchema, document: Document, field: str, text: str) -> None:
    """The answer names the first wrong value."""
    with pytest.raises(WrongTypeError) as caught:
        decode(shape, document, [])
    assert (caught.value.path, str(caught.value)) == (field, text)


@pytest.mark.parametrize(
    "given, want",
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.123456789+01:30", "2025-12-31T22:30:00Z"),
        ("0001-01-01T00:00:00Z", None),
        (None, None),
    ],
)
def test_times_are_kept_in_utc_and_seconds(given: str | None, want: str | None) -> None:
    """The format is that of metav1.Time."""
    document = {"status": {"conditions": [{"type": "A", "lastTransitionTime": given}]}}
    decoded = decode(GROUP, document, [])
    assert decoded["status"]["conditions"][0]["lastTransitionTime"] == want


@pytest.mark.parametrize(
    "given", ["2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "0001-01-01T00:00:00+01:00", ""]
)
def test_times_that_are_none_are_refused(given: str) -> None:
    """Times are RFC 3339 with a zone, in the range of a clock."""
    with pytest.raises(WrongTypeError):
        decode(GROUP, {"metadata": {"creationTimestamp": given}}, [])


def test_zero_of_a_struct_is_its_own_zero_form() -> None:
    """An absent spec is an empty one."""
    assert zero(GROUP.by_name["spec"]) == {"schedulingPolicy": {}}
    assert decode(priorityclass.SHAPE, priority_class(), [])["value"] == 0


@pytest.mark.parametrize(
    "status, field",
    [
        (
            {"conditions": [{"observedGeneration": "1"}, {"lastTransitionTime": "x"}]},
            "status.conditions[1].lastTransitionTime",
        ),
        ({"conditions": [{"observedGeneration": "1"}]}, "metadata.labels"),
        ({"conditions": 5}, "metadata.labels"),
    ],
)
def test_a_time_that_does_not_parse_is_heard_of_first(status: Document, field: str) -> None:
    """Go's decoder stops at it, and reports other mismatches only at the end."""
    verdict = create({**group(GANG), "metadata": {"labels": {"a": 7}, "name": "g"}, "status": status})
    assert verdict.code == 400
    assert verdict.findings[0].field == field


def test_a_list_of_controllers_is_not_shown_for_each_of_them() -> None:
    """The server shows the list once for each controller after the first, which is quadratic."""
    document = priority_class()
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": f"n-{number}", "uid": "u", "controller": True}
        for number in range(100)
    ]
    found = [finding.message for finding in create(document).findings]
    expected = "Only one reference can have Controller set to true"
    assert sum(expected in message for message in found) == 20
    assert "Node/n-0 and Node/n-1" in found[0]
