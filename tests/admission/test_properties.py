"""What holds for any object: no exception, idempotent mutations, a patch that does what admission did."""

import copy
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.admission.scene import (
    GOLD,
    NEVER,
    Document,
    cluster,
    group,
    priority_class,
    profile,
    stored,
    template,
    workload,
)

from podium.api.groups import GROUP_LABEL
from podium.rules.admission import Operation, Profile, Request, Verdict, review
from podium.rules.policy import Level, Policy
from podium.state import State

INHERIT = profile(rules="podium", policy=Policy(levels={"member-priority": Level.INHERIT}))
PROFILES = [profile("1.36"), profile("1.37"), profile("1.37", "podium"), INHERIT]


def world(*, default: bool) -> State:
    """Give a cluster with classes, a group of each family, and perhaps a default class."""
    default_class = [priority_class("std", value=5, globalDefault=True)] if default else []
    made = workload({"podGroupTemplates": [template(priorityClassName=NEVER)]}, native=False)
    return cluster(
        *default_class,
        stored(group({"schedulingPolicy": {"basic": {}}, "priorityClassName": NEVER}, name="there")),
        stored(group({"schedulingPolicy": {"basic": {}}}, native=False, name="there"), by=INHERIT),
        stored(made, by=INHERIT),
    )


WORLDS = {default: world(default=default) for default in (False, True)}

names = st.sampled_from([GOLD, NEVER, "std", "nope", "system-node-critical", "", None])
integers = st.sampled_from([None, 0, 5, 1000, 2000, -1, 2_000_001_000])
policies = st.sampled_from([None, "Never", "PreemptLowerPriority", "Sometimes"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Document]:
    """Give documents with any of some fields."""
    return st.fixed_dictionaries({}, optional=fields)


priorities: dict[str, st.SearchStrategy[Any]] = {
    "priorityClassName": names,
    "priority": integers,
    "preemptionPolicy": policies,
}
scheduling_policies: st.SearchStrategy[Document | None] = st.sampled_from(
    [{"basic": {}}, {"gang": {"minCount": 2}}, {}, None]
)
modes: st.SearchStrategy[Any] = st.sampled_from(["Pod", "PodGroup", {"all": {}}, {"single": {}}, {}, None])
refs = st.sampled_from([{"workloadName": "w", "templateName": "workers"}, {"workloadName": "no"}, None])


@st.composite
def pods(draw: st.DrawFn) -> Document:
    spec = draw(
        some({**priorities, "schedulingGroup": st.sampled_from([{"podGroupName": "there"}, {}, None])})
    )
    labels = draw(st.sampled_from([None, {GROUP_LABEL: "there"}, {GROUP_LABEL: "no"}]))
    metadata = {"name": "p", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": draw(st.just(spec) | st.none())}


@st.composite
def groups(draw: st.DrawFn) -> Document:
    version = draw(st.sampled_from(["v1alpha2", "v1alpha3", "v1beta1"]))
    fields = {
        **priorities,
        "schedulingPolicy": scheduling_policies,
        "disruptionMode": modes,
        "workloadRef": refs,
    }
    return group(draw(some(fields)), version, native=draw(st.booleans()))


sent = pods() | groups()


def applied(document: Document, patch: list[dict[str, Any]]) -> Document:
    """Apply a patch of add and replace as RFC 6902 has it."""
    result = copy.deepcopy(document)
    for operation in patch:
        *parents, last = operation["path"].removeprefix("/").split("/")
        place = result
        for step in parents:
            place = place[step]
        assert operation["op"] == "add" or last in place
        place[last] = operation["value"]
    return result


def judge(document: Document, by: Profile, *, default: bool) -> Verdict:
    return review(Request(operation=Operation.CREATE, object=document), WORLDS[default], by)


@given(document=sent, by=st.sampled_from(PROFILES), default=st.booleans())
def test_admitting_what_was_admitted_changes_nothing(document: Document, by: Profile, default: bool) -> None:
    """Mutations are idempotent: the API server may call a webhook twice."""
    first = judge(document, by, default=default)
    assume(first.admitted is not None)
    assert first.admitted is not None
    second = judge(first.admitted, by, default=default)
    assert second.admitted == first.admitted
    assert second.patch == []


@given(document=sent, by=st.sampled_from(PROFILES), default=st.booleans())
def test_the_patch_is_the_mutation(document: Document, by: Profile, default: bool) -> None:
    """A patched object is admitted as the original is, and needs no other patch.

    So what admitted has beyond the patch (defaults, dropped and unknown fields, status, finalizer) is what
    decoding and the strategy do to any object.
    """
    first = judge(document, by, default=default)
    assume(first.allowed)
    patched = applied(document, first.patch)
    second = judge(patched, by, default=default)
    assert second.admitted == first.admitted
    assert second.patch == []
    assert first.admitted is not None
    for operation in first.patch[1:]:
        name = operation["path"].removeprefix("/spec/")
        assert first.admitted["spec"][name] == operation["value"]


@given(document=sent, by=st.sampled_from(PROFILES), default=st.booleans())
def test_reviewing_changes_nothing(document: Document, by: Profile, default: bool) -> None:
    """Review is a function of values: the document and the state are as before."""
    before = msgspec.json.encode(document), WORLDS[default].revision
    judge(document, by, default=default)
    assert (msgspec.json.encode(document), WORLDS[default].revision) == before


@given(document=sent, by=st.sampled_from(PROFILES), default=st.booleans())
def test_an_update_to_the_stored_object_is_allowed(document: Document, by: Profile, default: bool) -> None:
    """Whatever was admitted can be written back as it is."""
    first = judge(document, by, default=default)
    assume(first.admitted is not None)
    assert first.admitted is not None
    request = Request(operation=Operation.UPDATE, object=first.admitted, old=first.admitted)
    again = review(request, WORLDS[default], by)
    assert again.allowed, again.message
    assert again.admitted == first.admitted


HEADERS = [
    ("v1", "Pod"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    *(
        (f"{api_group}/{version}", kind)
        for kind in ("PodGroup", "Workload")
        for api_group in ("scheduling.k8s.io", "scheduling.podium.dev")
        for version in ("v1alpha2", "v1beta1")
    ),
]
FIELDS = [
    "name",
    "labels",
    "ownerReferences",
    "finalizers",
    "deletionTimestamp",
    "schedulingPolicy",
    "podGroupTemplates",
    "disruptionMode",
    "priority",
    "priorityClassName",
    "workloadRef",
    "resourceClaims",
    "schedulingConstraints",
    "schedulingGroup",
    "conditions",
]
half_known = st.dictionaries(st.sampled_from(FIELDS), anything | some(priorities), max_size=5)


@given(
    header=st.sampled_from(HEADERS),
    metadata=half_known | anything,
    spec=half_known | anything,
    status=half_known | anything,
    old=st.booleans(),
    subresource=st.sampled_from(["", "status", "scale"]),
    by=st.sampled_from(PROFILES),
)
def test_a_bad_object_is_a_verdict(
    *,
    header: tuple[str, str],
    metadata: Any,
    spec: Any,
    status: Any,
    old: bool,
    subresource: str,
    by: Profile,
) -> None:
    """Nothing that JSON can say makes review raise."""
    api_version, kind = header
    document = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": status,
        "value": spec,
    }
    verdict = judge(document, by, default=False)
    assert verdict.allowed == (verdict.admitted is not None)
    operation = Operation.UPDATE
    request = Request(
        operation=operation, object=document, old=document if old else None, subresource=subresource
    )
    assert review(request, WORLDS[False], by).code >= 200
