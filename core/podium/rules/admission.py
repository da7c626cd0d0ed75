"""One write, judged as the API server would judge it: decode, mutate, strategy, validate, plugins, storage.

`--rules upstream` is that and no more. With Podium's rules on, Podium's own kinds get the same treatment (in
a cluster the webhooks and the schema give it to them) and Podium's own rules run beside the plugins. The
order is the server's, so the first stage that refuses is the one a client would hear of.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.membership import GroupKey
from podium.findings import Finding, ObjectRef, Severity
from podium.rules import groupspec, metadata, own, pod, podgroup, priorityclass, workload
from podium.rules.case import Case, Profile, Request, Verb
from podium.rules.fields import Cause, FieldError, Refused, go_quote, refusal
from podium.rules.rule import Rule
from podium.rules.shape import Document, Shape, WrongTypeError, decode, drop_gated
from podium.view import View

WRONG_TYPE = refusal(
    "wrong-type",
    title="Value of a wrong type",
    why="The server cannot decode the object.",
    source="Kubernetes API server: decoding",
    fix="Give the value the type that the API has for this field.",
)
UNKNOWN_FIELD = Cause(
    Rule(
        id="unknown-field",
        severity=Severity.WARNING,
        title="Field that the server does not know",
        why="It is dropped when the object is stored; kubectl refuses it first.",
        source="Kubernetes API server: field validation",
    ),
    "Check the spelling and the API version, or leave the field out.",
)
DROPPED = Cause(
    Rule(
        id="gated-field-dropped",
        severity=Severity.WARNING,
        title="Field dropped because its feature gate is off",
        why="The server stores the object without it and says nothing.",
        source="Kubernetes API server: G8, G22, P12",
    ),
    "Do without the field; a managed cluster cannot turn its gate on.",
)
NOT_SERVED = refusal(
    "version-not-served",
    title="API version that this server does not serve",
    why="v1alpha2 is Kubernetes 1.36's only, v1alpha3 and v1beta1 came with 1.37, Podium's are Podium's.",
    source="Kubernetes API server: discovery",
    fix="Convert the object with `podium convert`, or choose another --kubernetes.",
)
NOT_FOUND = refusal(
    "object-not-found",
    title="Update of an object that does not exist",
    why="A PUT does not create these kinds.",
    source="Kubernetes API server: PC14, G31",
    fix="Create the object, or give the stored one.",
)
EXISTS = refusal(
    "object-exists",
    title="Object exists already",
    why="A name is taken until its object is gone.",
    source="Kubernetes API server: storage",
    fix="Update the object instead, or choose another name.",
)
CONFLICT = refusal(
    "object-conflict",
    title="Update of another state of the object",
    why="Somebody changed or recreated the object since it was read.",
    source="Kubernetes API server: storage",
    fix="Read the object again and apply the change to it.",
)
REVISION = refusal(
    "resource-version",
    title="resourceVersion given or missing",
    why="A new object has none; from 1.37 on an update of Workload and PodGroup must have one.",
    source="Kubernetes API server: G31 and storage",
    fix="Leave metadata.resourceVersion out on create, and send the stored one on update.",
)
RULES = tuple(
    cause.rule
    for cause in (
        WRONG_TYPE,
        UNKNOWN_FIELD,
        DROPPED,
        NOT_SERVED,
        NOT_FOUND,
        EXISTS,
        CONFLICT,
        REVISION,
    )
)

# Stands for the five characters that the server makes up behind generateName.
GENERATED_SUFFIX = "xxxxx"
_GENERATED_BASE = 58

_NATIVE_VERSIONS = {36: ("v1alpha2",), 37: ("v1alpha3", "v1beta1")}
_PODIUM_VERSIONS = ("v1alpha2", "v1beta1")
_PLURALS = {
    "Pod": "pods",
    "PriorityClass": "priorityclasses",
    "PodGroup": "podgroups",
    "Workload": "workloads",
}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the server would answer.

    `admitted` is the object as it would be stored, without what only the server makes (uid, times,
    resourceVersion, generation, managedFields). `patch` holds the mutations of admission only: what decoding
    defaults and what the strategy drops is not in it. A `reason` is empty where the server gives none.
    """

    allowed: bool
    code: int
    reason: str
    message: str
    warnings: list[str]
    findings: list[Finding]
    admitted: dict[str, Any] | None
    patch: list[dict[str, Any]]


def judged(document: Mapping[str, Any]) -> bool:
    """Whether `review` has rules for this kind, in whatever version."""
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    kind = document.get("kind")
    if kind == "Pod":
        return (group, version) == ("", "v1")
    if kind == "PriorityClass":
        return (group, version) == (NATIVE_GROUP, "v1")
    return kind in ("PodGroup", "Workload") and group in (NATIVE_GROUP, PODIUM_GROUP)


def review(request: Request, view: View, profile: Profile) -> Verdict:
    """Judge one write against a view of the cluster; pure, and never raises for a bad object.

    The object's apiVersion and kind must be ones that `judged` knows; anything else is an AssertionError.
    """
    assert judged(request.object), "not a kind that admission has rules for"
    case = _case(request, view, profile)
    try:
        admitted = _admit(case)
    except Refused as refused:
        return Verdict(
            allowed=False,
            code=refused.code,
            reason=refused.reason,
            message=refused.message,
            warnings=case.warnings,
            findings=case.findings + refused.findings,
            admitted=None,
            patch=[],
        )
    return Verdict(
        allowed=True,
        code=200 if case.update else 201,
        reason="",
        message="",
        warnings=case.warnings,
        findings=case.findings,
        admitted=_shown(case, admitted),
        patch=_patch(request.object, case.changes),
    )


def _case(request: Request, view: View, profile: Profile) -> Case:
    document = request.object
    kind = document["kind"]
    given = document.get("metadata")
    meta: Mapping[str, Any] = given if isinstance(given, dict) else {}
    name = meta.get("name") or meta.get("generateName") or ""
    namespace = "" if kind == "PriorityClass" else meta.get("namespace") or "default"
    ref = ObjectRef(document["apiVersion"], kind, str(namespace), str(name))
    return Case(request, view, profile, ref, _PLURALS[kind])


def _admit(case: Case) -> Document:
    _check_served(case)
    new = _decode(case, case.request.object)
    _record_unknown(case)
    old = _stored(case) if case.update else None
    meta = new["metadata"]
    if case.ref.kind == "PriorityClass":
        meta.pop("namespace", None)
    else:
        meta.setdefault("namespace", "default")
    if old is None:
        metadata.reset_on_create(meta)
    else:
        _check_uid(case, meta, old["metadata"])
    if not case.status:
        _mutate(case, new, old)
    if old is not None:
        _check_revision(case, meta, old["metadata"])
        metadata.reset_on_update(meta, old["metadata"])
    _prepare(case, new, old)
    _validate(case, new, old)
    _plugins(case, new, old)
    if old is None:
        _check_free(case, meta)
    return new


# Decoding.


def _check_served(case: Case) -> None:
    ref = case.ref
    if ref.group == PODIUM_GROUP:
        served = case.own_rules and case.version in _PODIUM_VERSIONS
    elif ref.kind in ("PodGroup", "Workload"):
        served = case.profile.workload_api and case.version in _NATIVE_VERSIONS[case.minor]
    else:
        served = True
    if not served:
        text = "the server could not find the requested resource"
        message = f"{ref.apiVersion} {ref.kind} is not served by Kubernetes {case.profile.kubernetes}"
        if ref.group == PODIUM_GROUP and not case.own_rules:
            message += " itself"
        raise case.refuse(404, "NotFound", text, NOT_SERVED, "apiVersion", message)


def _shape(case: Case) -> Shape:
    match case.ref.kind:
        case "Pod":
            return pod.SHAPE
        case "PriorityClass":
            return priorityclass.SHAPE
        case "PodGroup":
            return podgroup.SHAPES[case.version]
        case _:
            return workload.SHAPES[case.version]


def _decode(case: Case, raw: dict[str, Any]) -> Document:
    """Bring the object to its canonical form, defaults filled in."""
    unknown: list[str] = []
    try:
        document = decode(_shape(case), raw, unknown)
    except WrongTypeError as error:
        kind = case.ref.kind
        text = f'{kind} in version "{case.version}" cannot be handled as a {kind}: {error}'
        raise case.refuse(400, "BadRequest", text, WRONG_TYPE, error.path, str(error)) from None
    case.unknown = unknown
    if case.ref.kind == "PodGroup":
        podgroup.default(document, case.version)
    elif case.ref.kind == "PriorityClass":
        priorityclass.default(document)
    return document


def _record_unknown(case: Case) -> None:
    for path in case.unknown:
        case.warnings.append(f"unknown field {go_quote(path)}")
        case.note(UNKNOWN_FIELD, path, "The server does not know this field and drops it.")


# Storage.


def _stored(case: Case) -> Document:
    old = case.request.old
    if old is None:
        raise case.refuse(404, "NotFound", f"{case.resource} {go_quote(case.ref.name)} not found", NOT_FOUND)
    sent, document = case.unknown, _decode(case, old)
    case.unknown = sent
    if case.ref.namespace:
        document["metadata"].setdefault("namespace", "default")
    return document


def _check_uid(case: Case, meta: Document, old: Document) -> None:
    sent, stored = meta.get("uid"), old.get("uid")
    if sent and stored and sent != stored:
        key = "/".join(part for part in ("/registry", case.plural, case.ref.namespace, case.ref.name) if part)
        text = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {sent}, UID in object meta: {stored}"
        )
        raise _conflict(case, "metadata.uid", text)


def _check_revision(case: Case, meta: Document, old: Document) -> None:
    """Compare resourceVersions, where the stored object has one (one written by hand has not)."""
    stored, sent = old.get("resourceVersion"), meta.get("resourceVersion", "0")
    if not stored:
        return
    field = "metadata.resourceVersion"
    if not (sent.isascii() and sent.isdigit()):
        text = f"strconv.ParseUint: parsing {go_quote(sent)}: invalid syntax"
        raise case.refuse(500, "", text, REVISION, field)
    if int(sent) == 0:
        unconditional = case.ref.kind in ("Pod", "PriorityClass") or (case.native and case.minor < 37)
        if not unconditional:
            body = "Invalid value: 0: must be specified for an update"
            text = f"{case.resource} {go_quote(case.ref.name)} is invalid: {field}: {body}"
            raise case.refuse(422, "Invalid", text, REVISION, field, body)
    elif sent != stored:
        text = "the object has been modified; please apply your changes to the latest version and try again"
        raise _conflict(case, field, text)


def _conflict(case: Case, field: str, text: str) -> Refused:
    prefix = f"Operation cannot be fulfilled on {case.resource} {go_quote(case.ref.name)}"
    return case.refuse(409, "Conflict", f"{prefix}: {text}", CONFLICT, field, text)


def _check_free(case: Case, meta: Document) -> None:
    """Refuse a new object that brings a resourceVersion, or whose name is taken."""
    revision = meta.get("resourceVersion", "")
    if revision.isascii() and revision.isdigit() and int(revision):
        text = "resourceVersion should not be set on objects to be created"
        raise case.refuse(500, "", text, REVISION, "metadata.resourceVersion")
    name, namespace, view = meta.get("name"), case.ref.namespace, case.view
    if name is None:
        return
    match case.ref.kind:
        case "Pod":
            taken = (namespace, name) in view.pods
        case "PriorityClass":
            taken = name in view.classes
        case "PodGroup":
            taken = GroupKey(case.native, namespace, name) in view.groups
        case _:
            taken = GroupKey(case.native, namespace, name) in view.workloads
    if taken:
        text = f"{case.resource} {go_quote(name)} already exists"
        raise case.refuse(409, "AlreadyExists", text, EXISTS, "metadata.name")


# The stages in between.


def _mutate(case: Case, new: Document, old: Document | None) -> None:
    if case.own_rules:
        own.mutate(case, new, old)
    if case.ref.kind == "Pod":
        pod.mutate(case, new, old)
    elif case.ref.kind == "PodGroup" and old is None:
        podgroup.mutate(case, new)


def _prepare(case: Case, new: Document, old: Document | None) -> None:
    kind = case.ref.kind
    if case.status and old is not None:
        metadata.reset_for_status(new["metadata"], old["metadata"])
        if kind == "PodGroup":
            podgroup.prepare_status(new, old)
        return
    before = _gated_fields(case, new)
    if kind == "Pod":
        pod.prepare(case, new, old)
    elif kind == "PodGroup":
        spec = podgroup.SPECS[case.version]
        drop_gated(spec, new["spec"], None if old is None else old["spec"], case.operation.gates)
        new["status"] = {} if old is None else old["status"]
    elif kind == "Workload":
        workload.prepare(case, new, old)
    for path in before - _gated_fields(case, new):
        case.note(DROPPED, path, "The server drops this field without a word: its feature gate is off.")


def _validate(case: Case, new: Document, old: Document | None) -> None:
    kind, meta = case.ref.kind, new["metadata"]
    name = meta.get("name") or _generated(meta)
    namespaced = kind != "PriorityClass"
    errors: list[FieldError]
    if old is None:
        errors = metadata.check_create(meta, name, namespaced=namespaced, minor=case.minor)
    else:
        errors = metadata.check_update(meta, old["metadata"], namespaced=namespaced, minor=case.minor)
    if case.status:
        if kind == "PodGroup" and old is not None:
            errors += podgroup.check_status(case, new, old)
    elif kind == "Pod":
        errors += pod.check_spec(case, new, old)
    elif kind == "PodGroup":
        errors += podgroup.check_spec(case, new, old)
    elif kind == "Workload":
        errors += workload.check_spec(case, new, old)
    else:
        errors += priorityclass.check_create(new) if old is None else priorityclass.check_update(new, old)
    if errors:
        raise case.invalid(name, errors)


def _generated(meta: Document) -> str:
    base = meta.get("generateName", "")[:_GENERATED_BASE]
    return f"{base}{GENERATED_SUFFIX}" if base else ""


def _plugins(case: Case, new: Document, old: Document | None) -> None:
    kind = case.ref.kind
    if not case.status:
        if kind == "PriorityClass":
            priorityclass.check_single_default(case, new)
        elif kind == "PodGroup" and old is None and case.native and case.minor < 37:
            podgroup.check_template_exists(case, new)
    if case.own_rules:
        own.judge(case, new, old)
