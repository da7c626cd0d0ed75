"""Evaluate one write as the API server would: decode, mutate, strategy, validate, plugins, storage.

With rules `upstream` there is nothing else. With Podium's rules, Podium's own kinds get the same treatment,
which the webhooks and the schema provide in a cluster. Podium's own rules run beside the plugins. The order
is the server's, so the first stage that refuses is the one that a client would see.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kubecel.goquote import go_quote
from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.minors import named
from podium.api.reads import GROUP_READS
from podium.cluster.reader import ClusterReader
from podium.minors.minor import COMPOSITE
from podium.rules import (
    compositegroup,
    metadata,
    pod,
    podgroup,
    podiumchecks,
    priorityclass,
    storage,
    workload,
)
from podium.rules.context import KindRules, Operation, Profile, Request, RuleContext
from podium.rules.decoding import WrongTypeError, decode, time_error
from podium.rules.fields import RefusedRequest, RuleRemedy, refusal
from podium.rules.rule import Rule
from podium.rules.schema import Document

__all__ = ["Operation", "Profile", "Request", "Verdict", "has_rules", "review"]

WRONG_TYPE = refusal(
    "wrong-type",
    title="Value of a wrong type",
    why="The server cannot decode the object.",
    source="Kubernetes API server: decoding, G18",
    fix="Use a value of the field's type.",
)
UNKNOWN_FIELD = RuleRemedy(
    Rule(
        id="unknown-field",
        severity=Severity.WARNING,
        title="Field that the server does not know",
        why="The server drops it when it stores the object; kubectl refuses it earlier.",
        source="Kubernetes API server: field validation",
    ),
    "Check the spelling and the API version, or remove the field.",
)
NOT_SERVED = refusal(
    "version-not-served",
    title="API that this server does not serve",
    why="v1alpha2 is in Kubernetes 1.36 only, v1alpha3 and v1beta1 are in 1.37 and 1.38; "
    "scheduling.podium.dev needs Podium.",
    source="Kubernetes API server: discovery",
    fix="Convert the object with `podium convert`, or choose another --kubernetes or --rules.",
)
_CLASS_NOT_SERVED = RuleRemedy(NOT_SERVED.rule, f"Write apiVersion: {NATIVE_GROUP}/v1.")
_COMPOSITE_NOT_SERVED = RuleRemedy(
    NOT_SERVED.rule, "Enable the gate, or convert the object to scheduling.podium.dev with `podium convert`."
)
RULES = (WRONG_TYPE.rule, UNKNOWN_FIELD.rule, NOT_SERVED.rule)

# Replaces the five characters that the server generates for generateName.
GENERATED_SUFFIX = "xxxxx"
_GENERATED_BASE = 58


KINDS: dict[str, KindRules] = {
    "Pod": pod.KIND,
    "PriorityClass": priorityclass.KIND,
    "PodGroup": podgroup.KIND,
    "CompositePodGroup": compositegroup.KIND,
    "Workload": workload.KIND,
}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the server.

    `admitted` is the object as it would be stored, without the fields that only the server sets (uid, times,
    resourceVersion, generation, managedFields). `patch` holds only the mutations of admission, see
    podium.rules.patch. `reason` is empty if the server gives none. `causes` are those of the findings that
    refused the object. `awaits` names missing objects that a rule looked for, such as `PriorityClass gold`:
    once they exist, the verdict may differ.
    """

    allowed: bool
    code: int
    reason: str
    message: str
    warnings: list[str]
    findings: list[Finding]
    admitted: dict[str, Any] | None
    patch: list[dict[str, Any]]
    causes: list[Finding] = []
    awaits: tuple[str, ...] = ()


def has_rules(document: Mapping[str, Any]) -> bool:
    """Return whether `review` has rules for this kind, in any version."""
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    match document.get("kind"):
        case "Pod":
            return (group, version) == ("", "v1")
        case "PriorityClass":
            return group == NATIVE_GROUP
        case "PodGroup" | "CompositePodGroup" | "Workload":
            return group in (NATIVE_GROUP, PODIUM_GROUP)
        case _:
            return False


def review(request: Request, view: ClusterReader, profile: Profile) -> Verdict:
    """Return the verdict on one write for a view of the cluster.

    Pure: an invalid object is a verdict, not an exception. The object must be of a kind that is `has_rules`.
    """
    assert has_rules(request.object), "not a kind that admission has rules for"
    rules = KINDS[request.object["kind"]]
    context = RuleContext(request, view, profile, reference(request.object, rules), rules.plural)
    try:
        admitted = _admit(context, rules)
    except RefusedRequest as error:
        return refused(context, error)
    return allowed(
        context, _shown(context, admitted), spec_patch(request.object, context.changes, context.appended)
    )


def allowed(context: RuleContext, admitted: dict[str, Any] | None, patch: list[dict[str, Any]]) -> Verdict:
    """Return the verdict on a write that no rule refused."""
    return Verdict(
        allowed=True,
        code=200 if context.update else 201,
        reason="",
        message="",
        warnings=context.warnings,
        findings=context.findings,
        admitted=admitted,
        patch=patch,
        awaits=tuple(context.awaits),
    )


def refused(context: RuleContext, error: RefusedRequest) -> Verdict:
    """Return the verdict on a refused write."""
    return Verdict(
        allowed=False,
        code=error.code,
        reason=error.reason,
        message=error.message,
        warnings=context.warnings,
        findings=context.findings + error.findings,
        admitted=None,
        patch=[],
        causes=error.findings,
        awaits=tuple(context.awaits),
    )


def reference(document: Mapping[str, Any], rules: KindRules) -> ObjectRef:
    """Return the identity for messages, also of a document that cannot be decoded."""
    given = document.get("metadata")
    meta: Mapping[str, Any] = given if isinstance(given, dict) else {}
    name = meta.get("name") or meta.get("generateName") or ""
    namespace = (meta.get("namespace") or "default") if rules.namespaced else ""
    return ObjectRef(document["apiVersion"], document["kind"], str(namespace), str(name))


def _admit(context: RuleContext, rules: KindRules) -> Document:
    _check_served(context, rules)
    unknown: list[str] = []
    new = canonical(context, rules, context.request.object, unknown)
    for path in unknown:
        context.warnings.append(f"unknown field {go_quote(path)}")
        context.add_finding(UNKNOWN_FIELD, path, _unknown(path))
    old = stored(context, rules) if context.update else None
    meta = new["metadata"]
    if old is None:
        metadata.reset_on_create(meta)
    else:
        storage.check_uid(context, meta, old["metadata"])
    if not context.status:
        if context.own_rules:
            podiumchecks.mutate(context, new, old)
        rules.mutate(context, new, old)
    if old is not None:
        storage.check_revision(context, meta, old["metadata"])
        metadata.reset_on_update(meta, old["metadata"])
    context.name = meta.get("name") or generated_name(meta)
    rules.prepare(context, new, old)
    _validate(context, rules, new, old)
    rules.judge(context, new, old)
    if context.own_rules:
        podiumchecks.judge(context, new, old)
    if old is None:
        storage.check_free(context, meta)
    return new


def _unknown(path: str) -> str:
    """Return a sentence on an unknown field, and where it belongs if that is known."""
    dropped = "The server does not know this field and drops it."
    if path.endswith("schedulingPolicy.disruptionMode"):
        return f"{dropped} KEP-5710 has it here; the API has it beside schedulingPolicy."
    return dropped


def _check_served(context: RuleContext, rules: KindRules) -> None:
    ref, kubernetes = context.ref, context.profile.kubernetes
    if ref.group == PODIUM_GROUP:
        served = context.own_rules and (ref.apiVersion, ref.kind) in GROUP_READS
    elif ref.kind in ("PodGroup", "Workload"):
        served = context.profile.workload_api and context.version in context.minor.versions(ref.kind)
    elif ref.kind == "CompositePodGroup":
        _check_composite(context)
        served = True
    elif ref.kind == "PriorityClass" and context.version != "v1":
        message = f'no matches for kind "PriorityClass" in version "{ref.apiVersion}"'
        raise context.refuse(404, "NotFound", message, _CLASS_NOT_SERVED, field="apiVersion", message=message)
    else:
        served = True
    if not served or (context.request.subresource and not (context.status and rules.has_status)):
        resource = f"{ref.apiVersion} {context.plural}"
        path = f"{resource}/{context.request.subresource}" if context.request.subresource else resource
        message = f"{path} is not served by Kubernetes {kubernetes} in this configuration"
        text = "the server could not find the requested resource"
        raise context.refuse(404, "NotFound", text, NOT_SERVED, field="apiVersion", message=message)


def _check_composite(context: RuleContext) -> None:
    served = context.minor.versions(context.ref.kind)
    on = COMPOSITE in context.profile.gates and context.profile.workload_api
    if on and context.version in served:
        return
    kubernetes = named(context.minor.number)
    text = "the server could not find the requested resource"
    message = f"{context.ref.apiVersion} {context.plural} is not served by Kubernetes {kubernetes}"
    if served:
        versions = " or ".join(f"{NATIVE_GROUP}/{version}" for version in served)
        message += f" unless it is {versions} and the gate {COMPOSITE} is on"
    raise context.refuse(404, "NotFound", text, _COMPOSITE_NOT_SERVED, field="apiVersion", message=message)


def canonical(context: RuleContext, rules: KindRules, raw: dict[str, Any], unknown: list[str]) -> Document:
    """Return the canonical form of a document, with the defaults of decoding and the namespace set.

    Raises Refused (400) for a value of a wrong type.
    """
    try:
        document = decode(rules.shape(context), raw, unknown)
    except WrongTypeError as first:
        # Go keeps the first type mismatch and continues, but a time that does not parse ends decoding at
        # once.
        error = time_error(rules.shape(context), raw) or first
        kind = context.ref.kind
        text = f'{kind} in version "{context.version}" cannot be handled as a {kind}: {error}'
        raise context.refuse(
            400, "BadRequest", text, WRONG_TYPE, field=error.path, message=str(error)
        ) from None
    rules.default(context, document)
    if rules.namespaced:
        document["metadata"].setdefault("namespace", "default")
    else:
        document["metadata"].pop("namespace", None)
    return document


def stored(context: RuleContext, rules: KindRules) -> Document:
    """Return the canonical form of the stored object of an update. Raises Refused if there is none."""
    if context.request.old is None:
        raise storage.not_found(context)
    return canonical(context, rules, context.request.old, [])


def _validate(context: RuleContext, rules: KindRules, new: Document, old: Document | None) -> None:
    meta = new["metadata"]
    if old is None:
        errors = metadata.check_create(meta, context.name, namespaced=rules.namespaced, minor=context.minor)
    else:
        errors = metadata.check_update(
            meta, old["metadata"], namespaced=rules.namespaced, minor=context.minor
        )
    if context.native and context.minor.declared_fields:
        errors = metadata.declare(errors)
    if context.own_rules:
        errors += podiumchecks.check(context, new)
    errors += rules.check(context, new, old)
    if errors:
        raise context.invalid(sorted(errors, key=lambda error: error.declared))


def generated_name(meta: Document) -> str:
    """Return the name that the server would make of a generateName, empty without one."""
    base = meta.get("generateName", "")[:_GENERATED_BASE]
    return f"{base}{GENERATED_SUFFIX}" if base else ""


def _shown(context: RuleContext, admitted: Document) -> dict[str, Any]:
    """Return the stored form for readers: identity first, without fields that only the server sets.

    A custom resource has no nulls and no empty status; a built-in one shows what Go's JSON always writes.
    """
    meta = admitted["metadata"]
    admitted["metadata"] = {
        field.name: meta[field.name]
        for field in metadata.OBJECT_META.fields
        if field.name in meta and field.name not in metadata.SERVER_MADE
    }
    head = {"apiVersion": context.ref.apiVersion, "kind": context.ref.kind}
    shown = {**head, **{name: value for name, value in admitted.items() if name not in head}}
    if not context.native:
        shown = _without_nulls(shown)
        if not shown.get("status", True):
            del shown["status"]
    return shown


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# The mutations of admission as one minimal JSON patch (RFC 6902) against the object as it was sent.
#
# Class, integer and preemption policy are always in the same patch. The API server runs its own Priority
# plugin again after a webhook, and would then refuse a class without its integer. Defaults of decoding,
# fields that the strategy drops and the finalizer are not mutations, so they are in no patch. Applying a
# patch and reviewing again gives an empty patch.


def spec_patch(
    sent: Mapping[str, Any], changes: Mapping[str, Any], appended: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the operations that set `changes` in `spec` of the sent object; none if it has them already.

    `appended` are elements for the end of lists in `spec`, by the list's name.
    """
    spec = sent.get("spec")
    present: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
    operations = [
        {"op": "replace" if name in present else "add", "path": f"/spec/{name}", "value": value}
        for name, value in changes.items()
        if name not in present or present[name] != value
    ]
    operations += [
        {"op": "add", "path": f"/spec/{name}/-", "value": value}
        if present.get(name)
        else {"op": "add", "path": f"/spec/{name}", "value": [value]}
        for name, value in appended.items()
    ]
    if operations and spec is None:
        operations.insert(0, {"op": "add", "path": "/spec", "value": {}})
    return operations
