"""Properties of any object: no exception, idempotent mutations, and a patch equal to admission."""

import copy
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.rules.scene import Document
from tests.support.rules.strategies import HEADERS, PROFILES, WORLDS, anything, half_known, sent

from podium.rules.admission import Operation, Profile, Request, Verdict, review


def applied(document: Document, patch: list[dict[str, Any]]) -> Document:
    """Apply a patch of add and replace as in RFC 6902."""
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
    """A patched object is admitted like the original, and needs no other patch.

    So the difference between the admitted and the patched object (defaults, dropped and unknown fields,
    status, finalizer) comes from decoding and the strategy.
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
    """Review is a function of values: it changes neither the document nor the state."""
    before = msgspec.json.encode(document), WORLDS[default].revision
    judge(document, by, default=default)
    assert (msgspec.json.encode(document), WORLDS[default].revision) == before


@given(document=sent, by=st.sampled_from(PROFILES), default=st.booleans())
def test_an_update_to_the_stored_object_is_allowed(document: Document, by: Profile, default: bool) -> None:
    """Every admitted object can be written again unchanged."""
    first = judge(document, by, default=default)
    assume(first.admitted is not None)
    assert first.admitted is not None
    request = Request(operation=Operation.UPDATE, object=first.admitted, old=first.admitted)
    again = review(request, WORLDS[default], by)
    assert again.allowed, again.message
    assert again.admitted == first.admitted


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
    """No JSON value makes review raise."""
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
