"""Admission webhooks: which ones a write is sent to, the reviews, and what their answers do to it."""

import base64
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from podium import jsontext
from podium.api.meta import LabelSelector
from podium.api.selectors import selector_of
from podium.simulation.apiserver.messages import (
    ApiError,
    Document,
    WebhookCall,
    WebhookFailure,
    bad_request,
)
from podium.simulation.apiserver.patching import json_patch
from podium.simulation.apiserver.resources import ResourceRow

# Whether the matchConditions of a webhook hold for the request of a review.
Conditions = Callable[[Mapping[str, Any], Document], bool]
Answers = Generator[WebhookCall, bytes | WebhookFailure, "AdmittedWrite"]
_TIMEOUT_SECONDS = 10


class AdmittedWrite(NamedTuple):
    """An object after its webhooks, and their warnings."""

    document: Document | None
    warnings: tuple[str, ...] = ()


class ReviewedWrite(NamedTuple):
    """A write as webhooks see it. `document` is None for a deletion, `old` for a creation.

    `kind` is group, version and kind of a document that is not of the resource's kind, such as a Binding.
    """

    row: ResourceRow
    version: str
    subresource: str
    operation: str
    namespace: str
    name: str
    document: Document | None
    old: Document | None
    dry_run: bool
    user: str
    namespace_labels: Mapping[str, str]
    kind: tuple[str, str, str] | None = None

    def shown(self, document: Document | None, version: str) -> Document | None:
        """Return a document in the version that a webhook wants."""
        if document is None or self.kind is not None:
            return document
        return {**document, "apiVersion": self.row.api_version(version)}


def no_conditions(_webhook: Mapping[str, Any], _request: Document) -> bool:
    """Raise ApiError: conditions are CEL, which this model does not evaluate."""
    raise ApiError(500, "InternalError", "the simulation has no evaluator of matchConditions")


def review_all(
    webhooks: Iterable[Document],
    write: ReviewedWrite,
    uid: str,
    conditions: Conditions,
    *,
    mutating: bool,
) -> Answers:
    """Call the webhooks that match, one after the other; raises ApiError if one denies the write.

    An API server calls validating webhooks at the same time, and the first denial is its answer too.
    """
    warnings: list[str] = []
    for webhook in webhooks:
        version = _matched_version(webhook, write)
        if version is None:
            continue
        request = _request(write, version, uid)
        if webhook.get("matchConditions") and not conditions(webhook, request):
            continue
        if write.dry_run and webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{webhook["name"]}" does not support dry run')
        answer = yield _call(webhook, request)
        response = _response(webhook, answer, uid)
        if response is None:
            continue
        warnings += response.get("warnings") or ()
        if not response.get("allowed"):
            raise _denial(webhook["name"], response.get("status") or {})
        if mutating and response.get("patch") and write.document is not None:
            operations = jsontext.parse(base64.b64decode(response["patch"]), list[dict[str, Any]])
            patched = json_patch(request["object"], operations)
            write = write._replace(document=write.shown(patched, write.row.stored))
    return AdmittedWrite(write.document, tuple(warnings))


def _matched_version(webhook: Mapping[str, Any], write: ReviewedWrite) -> str | None:
    """Return the version in which a webhook wants the object, or None if it does not match."""
    labels = {} if write.document is None and write.old is None else _labels(write)
    if not (
        _selects(webhook.get("namespaceSelector"), write.namespace_labels, not write.row.namespaced)
        and any(_selects(webhook.get("objectSelector"), held, exempt=False) for held in labels)
    ):
        return None
    exact = webhook.get("matchPolicy", "Equivalent") == "Exact"
    others = () if exact else tuple(version for version in write.row.versions if version != write.version)
    for version in (write.version, *others):
        if any(_rule_matches(rule, write, version) for rule in webhook.get("rules") or ()):
            return version
    return None


def _labels(write: ReviewedWrite) -> list[Mapping[str, str]]:
    return [
        document["metadata"].get("labels") or {}
        for document in (write.document, write.old)
        if document is not None
    ]


def _selects(selector: Any, labels: Mapping[str, str], exempt: bool) -> bool:
    if exempt or not selector:
        return True
    chosen = selector_of(msgspec.convert(selector, LabelSelector), {})
    return chosen is None or chosen.matches(labels)


def _rule_matches(rule: Mapping[str, Any], write: ReviewedWrite, version: str) -> bool:
    row, part = write.row, write.subresource
    resource = f"{row.plural}/{part}" if part else row.plural
    patterns = {resource, "*/*", f"{row.plural}/*", *([f"*/{part}"] if part else ["*"])}
    scope = rule.get("scope", "*")
    return (
        scope in ("*", "Namespaced" if row.namespaced else "Cluster")
        and not {write.operation, "*"}.isdisjoint(rule["operations"])
        and not {row.group, "*"}.isdisjoint(rule["apiGroups"])
        and not {version, "*"}.isdisjoint(rule["apiVersions"])
        and not patterns.isdisjoint(rule["resources"])
    )


def _request(write: ReviewedWrite, version: str, uid: str) -> Document:
    """Return the request of an AdmissionReview."""
    row = write.row
    kind = dict(zip(("group", "version", "kind"), write.kind or (row.group, version, row.kind), strict=True))
    resource = {"group": row.group, "version": version, "resource": row.plural}
    subresource = {"subResource": write.subresource, "requestSubResource": write.subresource}
    return {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind if write.kind else {**kind, "version": write.version},
        "requestResource": {**resource, "version": write.version},
        **(subresource if write.subresource else {}),
        "name": write.name,
        "namespace": write.namespace,
        "operation": write.operation,
        "userInfo": {"username": write.user, "groups": ["system:authenticated"]},
        "object": write.shown(write.document, version),
        "oldObject": write.shown(write.old, version),
        "dryRun": write.dry_run,
        "options": None,
    }


def _call(webhook: Mapping[str, Any], request: Document) -> WebhookCall:
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    client = webhook["clientConfig"]
    service = client.get("service") or {}
    return WebhookCall(
        webhook["name"],
        client.get("url", ""),
        f"{service['namespace']}/{service['name']}:{service.get('port', 443)}" if service else "",
        service.get("path", ""),
        msgspec.json.encode(review),
        webhook.get("timeoutSeconds", _TIMEOUT_SECONDS),
    )


def _response(webhook: Mapping[str, Any], answer: bytes | WebhookFailure, uid: str) -> Document | None:
    """Return the response of a webhook; None if it failed and may. Raises ApiError if it may not."""
    if isinstance(answer, WebhookFailure):
        problem = answer.message
    else:
        try:
            response: Document = jsontext.parse(answer, dict[str, Any])["response"]
        except (ValueError, KeyError, TypeError):
            problem = "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"
        else:
            if response.get("uid") == uid:
                return response
            problem = f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
    if webhook.get("failurePolicy", "Fail") == "Ignore":
        return None
    client = webhook["clientConfig"]
    service = client.get("service") or {}
    place = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port', 443)}"
    url = client.get("url") or f"https://{place}{service.get('path', '')}"
    seconds = webhook.get("timeoutSeconds", _TIMEOUT_SECONDS)
    text = (
        f'failed calling webhook "{webhook["name"]}": failed to call webhook: '
        f'Post "{url}?timeout={seconds}s": {problem}'
    )
    raise ApiError(500, "InternalError", f"Internal error occurred: {text}")


def _denial(name: str, status: Mapping[str, Any]) -> ApiError:
    said = status.get("message") or status.get("reason")
    end = f"denied the request: {said}" if said else "denied the request without explanation"
    code = status.get("code", 0)
    return ApiError(max(code, 400), status.get("reason", ""), f'admission webhook "{name}" {end}')
