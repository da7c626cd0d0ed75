"""ConversionReview on the wire: objects in, objects or a reason out."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.convert import objects
from tests.support.rules.strategies import anything

from podium.api.convert import KEPT, convert
from podium.webhooks import conversion
from podium.webhooks.conversion import convert_review
from podium.webhooks.envelope import ReviewError

Document = dict[str, Any]
OLDER, NEWER = "scheduling.podium.dev/v1alpha2", "scheduling.podium.dev/v1beta1"


def group(api_version: str = NEWER, name: str = "g", **spec: Any) -> Document:
    given = {"schedulingPolicy": {"basic": {}}, **spec}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": name}, "spec": given}


def review_of(target: Any, *documents: Any, **fields: Any) -> bytes:
    """Return a ConversionReview as the API server sends it."""
    request = {"uid": "42", "desiredAPIVersion": target, "objects": list(documents), **fields}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps(review).encode()


def answer(body: bytes | bytearray) -> Document:
    """Return the response to a review, which always has the uid of the request."""
    review = json.loads(convert_review(body))
    assert (review["apiVersion"], review["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    response: Document = review["response"]
    assert response["uid"] == "42"
    return response


def test_objects_come_back_in_order_in_the_version_asked_for() -> None:
    """Objects of clients of either version are converted; an annotation keeps fields that v1alpha2 lacks."""
    response = answer(review_of(OLDER, group(name="a", preemptionPolicy="Never"), group(OLDER, name="b")))
    assert response["result"] == {"status": "Success"}
    assert response["convertedObjects"] == [
        group(OLDER, name="a")
        | {"metadata": {"name": "a", "annotations": {KEPT: '{"preemptionPolicy":"Never"}'}}},
        group(OLDER, name="b"),
    ]


def test_an_empty_list_is_answered() -> None:
    response = answer(review_of(NEWER))
    assert (response["result"], response["convertedObjects"]) == ({"status": "Success"}, [])


@given(
    st.sampled_from((OLDER, NEWER)), st.lists(st.sampled_from((OLDER, NEWER)).flatmap(objects), max_size=3)
)
def test_every_stored_object_is_converted_as_convert_does(target: str, documents: list[Document]) -> None:
    """Its metadata stays, except for labels and annotations, as the API server requires."""
    response = answer(review_of(target, *documents))
    assert response["result"] == {"status": "Success"}
    assert response["convertedObjects"] == [convert(document, target).document for document in documents]
    for old, new in zip(documents, response["convertedObjects"], strict=True):
        assert new["apiVersion"] == target
        assert {**old["metadata"], "annotations": 0} == {**new["metadata"], "annotations": 0}


CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}}
NATIVE = group("scheduling.k8s.io/v1beta1")
DEEP = json.loads("[" * 400 + "]" * 400)
FAILURES: list[tuple[str, bytes, str]] = [
    (
        "no such version",
        review_of("scheduling.podium.dev/v3", group()),
        "to scheduling.podium.dev/v3: not a version",
    ),
    (
        "a native version",
        review_of("scheduling.k8s.io/v1beta1", group()),
        "to scheduling.k8s.io/v1beta1: not a version",
    ),
    ("no version at all", review_of("", group()), "cannot convert to : not a version"),
    ("another kind", review_of(OLDER, CLASS), "scheduling.k8s.io/v1 PriorityClass c: not a kind of"),
    ("a native object", review_of(OLDER, NATIVE), "scheduling.k8s.io/v1beta1 PodGroup g: not a kind of"),
    (
        "an unknown version",
        review_of(OLDER, group("scheduling.podium.dev/v3")),
        "v3 PodGroup g: not a kind of",
    ),
    ("no header", review_of(OLDER, {}), "None None None: not a kind of"),
    ("a header of lists", review_of(OLDER, {"apiVersion": [], "kind": {}, "metadata": 1}), "not a kind of"),
    ("a wrong type", review_of(OLDER, group(priority="high")), "PodGroup g: Expected `int | null`"),
    ("a wrong spec", review_of(OLDER, group() | {"spec": []}), "PodGroup g: Expected `object`"),
    ("one of many", review_of(OLDER, group(), group(name="bad", priority=0.5)), "PodGroup bad: "),
]


@pytest.mark.parametrize(("body", "text"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_an_object_that_cannot_be_converted_is_named(body: bytes, text: str) -> None:
    response = answer(body)
    assert response["result"]["status"] == "Failure"
    assert text in response["result"]["message"]
    assert response["convertedObjects"] == []


BAD: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("no JSON", b"\x16\x03"),
    (
        "no request",
        json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}).encode(),
    ),
    ("no uid", review_of(NEWER, uid="")),
    ("another version", review_of(NEWER).replace(b"k8s.io/v1", b"k8s.io/v1beta1")),
    ("another kind", review_of(NEWER).replace(b"ConversionReview", b"AdmissionReview")),
    ("objects that are none", review_of(NEWER, 1)),
    ("deep", review_of(NEWER, "HERE").replace(b'"HERE"', b'{"a":' * 5000 + b"1" + b"}" * 5000)),
]


@pytest.mark.parametrize("body", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_an_invalid_review_is_an_error_of_one_line(body: bytes) -> None:
    with pytest.raises(ReviewError) as caught:
        convert_review(body)
    assert "\n" not in str(caught.value)


@given(
    target=st.sampled_from((OLDER, NEWER)),
    document=st.sampled_from((OLDER, NEWER)).flatmap(objects),
    field=st.sampled_from(
        ["metadata", "spec", "status", "disruptionMode", "podGroupTemplates", "workloadRef", "annotations"]
    ),
    value=anything | st.just(DEEP),
)
def test_any_object_is_converted_or_named(target: str, document: Document, field: str, value: Any) -> None:
    """No object makes the whole answer fail."""
    if field in ("metadata", "spec", "status"):
        place = document
    else:
        place = document["metadata" if field == "annotations" else "spec"]
    place[field] = value
    response = answer(review_of(target, document))
    assert response["result"]["status"] in ("Success", "Failure")
    assert (len(response["convertedObjects"]) == 1) == (response["result"]["status"] == "Success")


def listed(count: int, text: str) -> bytes:
    """Return a ConversionReview of many groups with an annotation."""
    one = json.dumps(group(OLDER) | {"metadata": {"name": "g", "annotations": {"a": text}}})
    return review_of(NEWER, "HERE").replace(b'"HERE"', ",".join([one] * count).encode())


@pytest.mark.parametrize(
    ("count", "text"), [(130, "x" * 250_000), (2_000, 'a "quoted\\" [text}, ]{'), (1, "[" * 300_000)]
)
def test_a_large_list_is_converted_object_by_object(count: int, text: str) -> None:
    """32 MiB of groups cost the memory of the answer and little more; brackets within texts are text."""
    body = bytearray(listed(count, text))
    tracemalloc.start()
    converted = convert_review(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * len(converted) + (2 << 20)
    answered = json.loads(converted)["response"]
    assert answered["result"] == {"status": "Success"}
    assert (
        answered["convertedObjects"]
        == [group() | {"metadata": {"name": "g", "annotations": {"a": text}}}] * count
    )


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(b"{}" + b",{}" * (10 << 20), "not a kind of", id="empty objects"),
        pytest.param(
            b'{"spec":{"x":[[]' + b",[]" * 120_000 + b"]}}", "more than 300000 bytes", id="a huge object"
        ),
        pytest.param(
            json.dumps(group(OLDER, x="HERE")).encode().replace(b'"HERE"', b"[[]" + b",[]" * 90_000 + b"]"),
            "PodGroup g: more than 100000 values",
            id="a spec of lists",
        ),
        pytest.param(
            json.dumps(group(OLDER) | {"metadata": {"x": "HERE"}})
            .encode()
            .replace(b'"HERE"', b"1" * 270_000),
            "more metadata than an object may have",
            id="unknown metadata",
        ),
    ],
)
def test_hostile_objects_cost_no_memory(
    monkeypatch: pytest.MonkeyPatch, objects: bytes, expected: str
) -> None:
    """Each is refused by name before it is decoded, which would take twenty times its bytes."""
    monkeypatch.setattr(conversion, "OBJECT_BYTES", 300_000)
    body = bytearray(review_of(NEWER, "HERE").replace(b'"HERE"', objects))
    tracemalloc.start()
    response = answer(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert expected in response["result"]["message"]
    # A part is copied once to count its contents.
    assert peak < 8 << 20
