"""AdmissionReviews as an API server sends them, and its use of the answers."""

import base64
import copy
import json
from typing import Any, NamedTuple

from tests.support.rules.scene import Document, cluster, profile

from podium.cluster.reader import ClusterReader
from podium.rules.admission import Verdict
from podium.rules.context import Profile
from podium.rules.webhook import NO_OPINION, AdmissionPhase, review_phase
from podium.webhooks.metrics import answers, deciding_rule, outcome
from podium.webhooks.review import decode, encode

PODIUM = profile(rules="podium")
# The counters that an answer may increment.
COUNTED = frozenset(answers())
MANAGED = [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:priority": {}}}}]


class Answer(NamedTuple):
    """The answer on the wire, the verdict behind it, and the object with the patch applied."""

    response: Document
    verdict: Verdict
    patched: Document


def asked(
    document: Document | None, old: Document | None = None, operation: str = "", **fields: Any
) -> Document:
    """Return an AdmissionReview of an object, as the API server writes it; `fields` are of its request."""
    given = document or old or {}
    api_group, _, version = given["apiVersion"].rpartition("/")
    plural = given["kind"].lower() + "s"
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": api_group, "version": version, "kind": given["kind"]},
        "resource": {"group": api_group, "version": version, "resource": plural},
        "requestKind": {"group": api_group, "version": version, "kind": given["kind"]},
        "requestResource": {"group": api_group, "version": version, "resource": plural},
        "name": (given.get("metadata") or {}).get("name", ""),
        "namespace": "default",
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": document,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        **fields,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def ask(
    phase: AdmissionPhase,
    document: Document | None,
    old: Document | None = None,
    *,
    view: ClusterReader | None = None,
    by: Profile = PODIUM,
    **fields: Any,
) -> Answer:
    """Pass a review through the functions under test, from bytes to bytes."""
    review = decode(json.dumps(asked(document, old, **fields)).encode(), phase)
    seen = cluster() if view is None else view
    verdict = NO_OPINION if review.request is None else review_phase(phase, review.request, seen, by)
    if verdict is not NO_OPINION:
        counted = (phase, review.kind, review.operation, outcome(verdict), deciding_rule(verdict))
        # A request outside the registration is allowed without a message.
        assert counted in COUNTED or counted[-2:] == ("allowed", "")
    answer = json.loads(encode(review, verdict))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert response["uid"] == review.uid
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    assert patch == verdict.patch
    assert ("patchType" in response) == bool(patch)
    return Answer(response, verdict, applied(document or {}, patch))


def mutate(document: Document, old: Document | None = None, **rest: Any) -> Answer:
    return ask(AdmissionPhase.MUTATE, document, old, **rest)


def validate(document: Document, old: Document | None = None, **rest: Any) -> Answer:
    return ask(AdmissionPhase.VALIDATE, document, old, **rest)


def applied(document: Document, patch: list[Document]) -> Document:
    """Apply a patch of add and replace as in RFC 6902."""
    result = copy.deepcopy(document)
    for operation in patch:
        *parents, last = (
            step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
        )
        place: Any = result
        for step in parents:
            place = place[step]
        if last == "-":
            place.append(operation["value"])
            continue
        assert operation["op"] == "add" or last in place, operation
        place[last] = operation["value"]
    return result
