"""Properties of any review: an answer or one line, idempotent patches, the verdict of the whole server."""

import json
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.rules.scene import (
    BASIC,
    GANG,
    GOLD,
    NEVER,
    Document,
    group,
    mode,
    stored,
    template,
    workload,
)
from tests.support.rules.strategies import (
    HEADERS,
    INHERIT,
    PROFILES,
    WORLDS,
    anything,
    groups,
    half_known,
    modes,
    names,
    pods,
    priorities,
    scheduling_policies,
    sent,
    some,
)
from tests.support.webhooks.reviews import MANAGED, PODIUM, ask, asked

from podium.rules.admission import KINDS, reference, review
from podium.rules.context import Operation, Profile, Request, RuleContext
from podium.rules.decoding import decode as canonical
from podium.rules.webhook import NO_OPINION, AdmissionPhase, review_phase
from podium.webhooks.envelope import ReviewError
from podium.webhooks.review import Review, decode, encode

phases = st.sampled_from(AdmissionPhase)
by_podium = st.sampled_from([PODIUM, INHERIT])


def read(body: bytes, phase: AdmissionPhase) -> Review | None:
    """Return the review, or None if it was refused with one line."""
    try:
        return decode(body, phase)
    except ReviewError as error:
        text = str(error)
    assert text
    assert "\n" not in text
    return None


@given(
    header=st.sampled_from(HEADERS),
    metadata=half_known | anything,
    spec=half_known | anything,
    before=half_known | anything,
    update=st.booleans(),
    subresource=st.sampled_from(["", "status", "scale"]),
    phase=phases,
    by=st.sampled_from(PROFILES),
)
def test_any_object_gets_an_answer(
    *,
    header: tuple[str, str],
    metadata: Any,
    spec: Any,
    before: Any,
    update: bool,
    subresource: str,
    phase: AdmissionPhase,
    by: Profile,
) -> None:
    """No JSON value makes the path from bytes to bytes raise, except for a ReviewError."""
    api_version, kind = header
    document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    old = {**document, "spec": before} if update else None
    fields = {"subResource": subresource, "name": "x"}
    review_of = asked({**document, "metadata": {}}, old and {**old, "metadata": {}}, **fields)
    review_of["request"] |= {"object": document, "oldObject": old}
    review_read = read(json.dumps(review_of).encode(), phase)
    assume(review_read is not None)
    assert review_read is not None
    request = review_read.request
    verdict = NO_OPINION if request is None else review_phase(phase, request, WORLDS[True], by)
    assert verdict.allowed == (not verdict.causes)
    assert phase is AdmissionPhase.MUTATE or not verdict.patch
    assert json.loads(encode(review_read, verdict))["response"]["allowed"] == verdict.allowed


@given(
    apiVersion=st.sampled_from(["v1", "scheduling.podium.dev/v1beta1", "x/y/z", ""]) | anything,
    kind=st.sampled_from(["Pod", "PodGroup", "Workload"]) | anything,
    rest=half_known,
    phase=phases,
)
def test_any_document_is_answered(apiVersion: Any, kind: Any, rest: Document, phase: AdmissionPhase) -> None:  # noqa: N803 - the name of the field
    """That includes documents that decode would refuse."""
    document = {**rest, "apiVersion": apiVersion, "kind": kind}
    for operation, old in ((Operation.CREATE, None), (Operation.UPDATE, None), (Operation.UPDATE, document)):
        request = Request(operation=operation, object=document, old=old)
        assert review_phase(phase, request, WORLDS[False], INHERIT).code >= 200


@given(body=st.binary(max_size=64) | anything.map(msgspec.json.encode), phase=phases)
def test_any_body_is_a_review_or_an_error(body: bytes, phase: AdmissionPhase) -> None:
    read(body, phase)


@given(field=st.sampled_from(sorted(asked(group({}))["request"])), value=anything, phase=phases)
def test_any_request_is_a_review_or_an_error(field: str, value: Any, phase: AdmissionPhase) -> None:
    """A single field of a good request is replaced by any value."""
    read(json.dumps(asked(group({}), **{field: value})).encode(), phase)


@given(document=sent, by=by_podium, default=st.booleans(), annotated=st.booleans())
def test_a_patched_object_needs_no_patch(
    document: Document, by: Profile, default: bool, annotated: bool
) -> None:
    """The API server calls a webhook again after others (reinvocationPolicy IfNeeded)."""
    if annotated:
        document["metadata"] |= {"annotations": {"a": "b"}, "managedFields": MANAGED}
    answer = ask(AdmissionPhase.MUTATE, document, view=WORLDS[default], by=by)
    again = ask(AdmissionPhase.MUTATE, answer.patched, view=WORLDS[default], by=by)
    assert again.verdict.patch == []
    assert again.verdict.allowed == answer.verdict.allowed


@given(document=groups() | pods(), by=by_podium, default=st.booleans())
def test_a_stored_object_can_be_stored_again(document: Document, by: Profile, default: bool) -> None:
    """An update that changes nothing is neither mutated nor refused."""
    made = ask(AdmissionPhase.MUTATE, document, view=WORLDS[default], by=by)
    assume(made.verdict.allowed)
    assume(ask(AdmissionPhase.VALIDATE, made.patched, view=WORLDS[default], by=by).verdict.allowed)
    for phase in AdmissionPhase:
        again = ask(phase, made.patched, made.patched, view=WORLDS[default], by=by)
        assert (again.verdict.allowed, again.verdict.patch) == (True, [])


templates = some(
    {
        "priorityClassName": names,
        "priority": st.sampled_from([None, 5, 2_000_001_000]),
        "disruptionMode": modes,
    }
).map(lambda fields: template(**fields))


@st.composite
def ours(draw: st.DrawFn) -> Document:
    """Return PodGroups and Workloads of Podium's, of the version that is stored."""
    if draw(st.booleans()):
        spec = {"podGroupTemplates": draw(st.lists(templates, max_size=2))}
        version = draw(st.sampled_from(["v1alpha2", "v1beta1"]))
        return workload(spec, version, native=False, name="new")
    document = draw(groups().filter(lambda made: not made["apiVersion"].endswith("v1alpha3")))
    version = document["apiVersion"].rpartition("/")[2]
    return {**document, "apiVersion": f"scheduling.podium.dev/{version}"}


@given(document=ours(), by=by_podium, default=st.booleans())
def test_both_phases_say_together_what_admit_says(document: Document, by: Profile, default: bool) -> None:
    """`podium admit` answers for the whole server: the same verdict, and the same object is stored."""
    request = Request(operation=Operation.CREATE, object=document)
    whole = review(request, WORLDS[default], by)
    # The schema refuses undecodable objects, between the two phases.
    assume(whole.code != 400)
    first = ask(AdmissionPhase.MUTATE, document, view=WORLDS[default], by=by)
    second = ask(AdmissionPhase.VALIDATE, first.patched, view=WORLDS[default], by=by)
    both = first.verdict.allowed and second.verdict.allowed
    assert both == whole.allowed, (whole.message, second.verdict.message)
    if not both:
        last = second if first.verdict.allowed else first
        assert (last.verdict.code, last.verdict.message) == (whole.code, whole.message)
        return
    assert second.verdict.warnings == [text for text in whole.warnings if "unknown field" not in text]
    assert whole.admitted is not None
    rules = KINDS[document["kind"]]
    context = RuleContext(request, WORLDS[default], by, reference(document, rules), rules.plural)
    spec = canonical(rules.shape(context), first.patched, [])["spec"]
    assert _without_nulls(spec) == whole.admitted["spec"]


STORED = [
    stored(make(spec, version, native=False, name="old"), WORLDS[True], PODIUM)
    for version in ("v1alpha2", "v1beta1")
    for make, spec in (
        (group, GANG),
        (group, {**BASIC, "priorityClassName": NEVER}),
        (group, {**GANG, "priorityClassName": GOLD, "disruptionMode": mode(version, whole=True)}),
        (
            workload,
            {"podGroupTemplates": [template(priorityClassName=GOLD), template("b", priorityClassName=GOLD)]},
        ),
    )
]
EDITS: dict[str, st.SearchStrategy[Any]] = {
    **priorities,
    "schedulingPolicy": scheduling_policies | st.just({"gang": {"minCount": 3}}),
    "disruptionMode": modes,
    "podGroupTemplates": st.lists(templates, max_size=2),
}


@given(
    old=st.sampled_from(STORED), edit=some(EDITS), gone=st.sets(st.sampled_from(sorted(EDITS))), by=by_podium
)
def test_both_phases_say_of_an_update_what_admit_says(
    old: Document, edit: Document, gone: set[str], by: Profile
) -> None:
    """The update changes some stored fields and omits others."""
    spec = {field: value for field, value in {**old["spec"], **edit}.items() if field not in gone}
    sent = {**old, "spec": spec}
    whole = review(Request(operation=Operation.UPDATE, object=sent, old=old), WORLDS[True], by)
    # The schema refuses undecodable objects, between the two phases.
    assume(whole.code != 400)
    first = ask(AdmissionPhase.MUTATE, sent, old, view=WORLDS[True], by=by)
    second = ask(AdmissionPhase.VALIDATE, first.patched, old, view=WORLDS[True], by=by)
    assert first.verdict.allowed
    assert (second.verdict.code, second.verdict.message) == (whole.code, whole.message)


def _without_nulls(document: Document) -> Any:
    """Return a spec as a custom resource has it."""
    return json.loads(
        json.dumps(document),
        object_hook=lambda value: {key: item for key, item in value.items() if item is not None},
    )
