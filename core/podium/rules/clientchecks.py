"""Checks that surround the rules of one kind: unknown and missing fields, absent namespaces, taken names.

`podium admit` needs them, because it reads a manifest as its author wrote it. The webhooks do not: the server
drops unknown fields before it asks them, and makes the other checks itself.

`make podfields` generates the tables of fields (podfields.json) from recorded servers. Each minor also has
the entries of its predecessor.
"""

import difflib
import functools
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kubecel.goquote import go_quote
from podium import jsontext
from podium.api.findings import Finding, ObjectRef
from podium.api.meta import LabelSelector
from podium.api.minors import group_minor
from podium.api.podkinds.custom import CustomPodCreator
from podium.api.podkinds.kind import Spec
from podium.api.podkinds.table import LISTED_KINDS, OWNER_KINDS
from podium.api.selectors import selector_of
from podium.rules import fields, jobscheduling, metadata
from podium.rules.admission import NOT_SERVED, UNKNOWN_FIELD, Verdict, generated_name
from podium.rules.context import Operation, Profile
from podium.rules.decoding import WrongTypeError, decode
from podium.rules.fields import FieldError, RuleRemedy, refusal
from podium.rules.jobscheduling import NewJob
from podium.rules.storage import EXISTS

POD = ("v1", "Pod")


class FieldTables(msgspec.Struct, frozen=True):
    """The tables, each by the first supported minor (the number) that has an entry."""

    fields: dict[int, dict[str, str]]
    """By type: its fields, each as `name`, or `name:Type` if it has fields of its own."""
    required: dict[int, dict[str, str]]
    """By `Type.field`: the server's message on its absence; empty if it counts as an empty object."""


@functools.cache
def _tables() -> FieldTables:
    return jsontext.parse(Path(__file__).with_name("podfields.json").read_bytes(), FieldTables)


def specs(document: Mapping[str, Any]) -> Iterator[Spec]:
    """Yield the spec of a Pod or of an owner of pods that decodes; of a custom resource those of its pods."""
    known = _tables().fields
    kind = (document["apiVersion"], document["kind"])
    of_kind = f"{document['kind']}Spec"
    if kind == POD or (kind in LISTED_KINDS and of_kind in known[min(known)]):
        yield Spec("spec", document.get("spec"), kind=of_kind)
    elif kind in OWNER_KINDS:
        yield from msgspec.convert(document, OWNER_KINDS[kind].type).pod_specs(document)


def validates_pods(document: Mapping[str, Any]) -> bool:
    """Return whether a server validates the pod specs of a kind, and not only the types of their fields.

    The schemas of other projects' custom resources differ in what they require.
    """
    kind = (document["apiVersion"], document["kind"])
    return kind == POD or (kind in OWNER_KINDS and OWNER_KINDS[kind].type is not CustomPodCreator)


@functools.cache
def fields_of(kind: str, minor: int) -> dict[str, str]:
    """Return the fields of a type with their types, empty for a value without fields of its own."""
    known = [types.get(kind, "") for first, types in _tables().fields.items() if first <= minor]
    pairs = (word.partition(":") for words in known for word in words.split())
    return {name: to for name, _, to in pairs}


@functools.cache
def required_of(minor: int) -> dict[str, str]:
    """Return the server's words on the absence of each required field, by `Type.field`."""
    return {
        name: message
        for first, messages in _tables().required.items()
        if first <= minor
        for name, message in messages.items()
    }


MISSING = refusal(
    "required-field",
    title="Required field without a value",
    why="The server refuses the object. An empty text, list or number counts as absent.",
    source="Kubernetes API server: validation",
    fix="Set the field.",
)
# A patch has these fields least often, because it has only the name of an object and what it changes.
_LEFT_OUT = ("selector", "image")
_IN_PATCH = RuleRemedy(
    MISSING.rule,
    "Set the field. The object looks like a kustomize patch. If it is one, build it first: kubectl kustomize "
    "DIR | podium admit -f -",
)
SELECTOR = refusal(
    "selector-mismatch",
    title="Selector that does not match the labels of its template",
    why="The controller would not find the pods that it creates.",
    source="Kubernetes API server: validation of apps/v1",
    fix="Give spec.selector.matchLabels and spec.template.metadata.labels the same labels.",
)
RESTART_POLICY = refusal(
    "restart-policy",
    title="Restart policy that the kind does not allow",
    why="A Job ends, so its pods may not restart always. Pods of the other kinds must.",
    source="Kubernetes API server: validation of apps/v1 and batch/v1",
    fix="Set restartPolicy to a supported value.",
)

_EMPTY: tuple[Any, ...] = (None, "", 0, [])
_SELECTING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
# The path of the Job in each kind whose restart policy is limited, and the values for it.
_ENDING = ("OnFailure", "Never")
_JOBS: Mapping[str, tuple[str, ...]] = {"Job": (), "CronJob": ("spec", "jobTemplate")}
_GROUPS = ("apps/v1", "batch/v1")


def required_errors(
    document: Mapping[str, Any], minor: int, gates: Collection[str] | None = None
) -> list[FieldError]:
    """Return the errors of a Pod or of an owner of pods that decodes; none for other kinds.

    `gates` are those of the server for a new object. An update is judged without them, because the server
    compares it with the stored object.
    """
    if not validates_pods(document):
        return []
    kind, spec = document["kind"], _map(document.get("spec"))
    declared = "spec.selector" if kind == "StatefulSet" and group_minor(minor).declared_fields else ""
    absent = [
        error._replace(declared=error.field == declared)
        for checked in specs(document)
        for error in _missing(checked.value, checked.kind, checked.path, minor)
    ]
    for at, error in enumerate(absent):
        if error.field.rpartition(".")[2] in _LEFT_OUT:
            absent[at] = error._replace(cause=_IN_PATCH)
            break
    if document["apiVersion"] not in _GROUPS or kind not in (*_SELECTING, *_JOBS):
        return absent
    known = group_minor(minor)
    job = _job(document) if kind in _JOBS else None
    # The server looks at the template last, and then at the declarative rules.
    place = f"{job.path if job else ''}spec.template."
    in_template = [error for error in absent if error.field.startswith(place)]
    errors = [
        *_metadata(document, minor),
        *(error for error in absent if error not in in_template),
        *(_selector(kind, spec) if kind in _SELECTING else ()),
        *(jobscheduling.spec_errors(job, known, gates) if job and gates is not None else ()),
        *in_template,
        *_restart_policy(job, spec),
        *(jobscheduling.annotation_errors(job, known, gates) if job and gates is not None else ()),
    ]
    return sorted(errors, key=lambda error: error.declared)


def _metadata(document: Mapping[str, Any], minor: int) -> list[FieldError]:
    try:
        given = decode(metadata.OBJECT_META, document.get("metadata") or {}, [])
    except WrongTypeError:
        return []
    given.setdefault("namespace", "default")
    name = given.get("name") or generated_name(given)
    known = group_minor(minor)
    errors = metadata.check_create(given, name, namespaced=True, minor=known)
    return metadata.declare(errors) if known.declared_fields else errors


def _missing(value: Any, kind: str, path: str, minor: int) -> Iterator[FieldError]:
    """Yield errors for the absent fields of a value of a type; a wrong shape is left to decoding."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _missing(item, kind, f"{path}[{index}]", minor)
        return
    value = {} if value is None else value
    if not isinstance(value, dict):
        return
    required = required_of(minor)
    # The server looks at a name first.
    for name, to in sorted(fields_of(kind, minor).items(), key=lambda field: field[0] != "name"):
        if (kind, name) == ("JobSpec", "scheduling"):
            # The server drops it, or `jobscheduling` has all of its checks.
            continue
        inner, message = value.get(name), required.get(f"{kind}.{name}")
        if message and inner in _EMPTY and inner is not False:
            yield FieldError(MISSING, f"{path}.{name}", message)
        elif to and (inner is not None or message is not None):
            yield from _missing(inner, to, f"{path}.{name}", minor)


def _selector(kind: str, spec: Mapping[str, Any]) -> Iterator[FieldError]:
    template = _map(spec.get("template"))
    labels = _map(template.get("metadata")).get("labels")
    given = spec.get("selector")
    try:
        selector = msgspec.convert(given, LabelSelector | None)
    except msgspec.ValidationError:
        return
    unreadable: dict[str, None] = {}
    canonical = selector_of(selector, unreadable)
    if unreadable:
        return
    if canonical is not None and not canonical.requirements:
        # kube-apiserver calls a ReplicaSet a deployment, too.
        name = "deployment" if kind == "ReplicaSet" else kind.lower()
        yield fields.invalid(SELECTOR, "spec.selector", {}, f"empty selector is invalid for {name}")
    elif canonical is None or not canonical.matches(labels or {}):
        text = "`selector` does not match template `labels`"
        yield fields.invalid(SELECTOR, "spec.template.metadata.labels", labels, text)


def _job(document: Mapping[str, Any]) -> NewJob:
    """Return the Job of a document, or the Job in it."""
    steps = _JOBS[document["kind"]]
    for step in steps:
        document = _map(document.get(step))
    path = "".join(f"{step}." for step in steps)
    return NewJob(_map(document.get("metadata")), _map(document.get("spec")), path)


def _restart_policy(job: NewJob | None, spec: Mapping[str, Any]) -> Iterator[FieldError]:
    template = _map((spec if job is None else job.spec).get("template"))
    given = _map(template.get("spec")).get("restartPolicy") or "Always"
    path = f"{'' if job is None else job.path}spec.template.spec.restartPolicy"
    if job is None:
        if given != "Always":
            yield fields.unsupported(RESTART_POLICY, path, given, ["Always"])
    elif given == "Always":
        yield fields.required(RESTART_POLICY, path, 'valid values: "OnFailure", "Never"')
    elif given not in _ENDING:
        yield fields.unsupported(RESTART_POLICY, path, given, _ENDING)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


NO_NAMESPACE = refusal(
    "namespace-not-found",
    title="Namespace not found",
    why="An object can be created in an existing namespace only.",
    source="Kubernetes API server: NamespaceLifecycle",
    fix="Create the namespace first, or correct metadata.namespace.",
)
RULES = (
    *(MISSING.rule, SELECTOR.rule, RESTART_POLICY.rule),
    *(*jobscheduling.RULES, NO_NAMESPACE.rule),
)

_DROPPED = "The server does not know this field and drops it"
_INVALID = 422
# Decoding, and kinds that the server does not serve.
_BEFORE_FIELDS = (400, 404)
# Fields of earlier releases, with what to write instead.
_FORMER = {"workloadRef": "Kubernetes 1.35 had it. Since 1.36 it is schedulingGroup.podGroupName"}


# The version of each kind that creates pods, and the versions that no supported minor serves any more.
_SERVED = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), "apps/v1"),
    **dict.fromkeys(("Job", "CronJob"), "batch/v1"),
}
_REMOVED = ("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2", "batch/v1beta1", "batch/v2alpha1")


class UnknownField(NamedTuple):
    """A field that no server of the minor knows: its path, and what was probably meant, or empty."""

    path: str
    hint: str


def is_removed(document: Mapping[str, Any]) -> bool:
    """Return whether a kind that creates pods has an apiVersion of a release before 1.25."""
    return document["kind"] in _SERVED and document["apiVersion"] in _REMOVED


def removed(ref: ObjectRef) -> Verdict:
    """Return the refusal of such an object, as kubectl words it."""
    message = f'no matches for kind "{ref.kind}" in version "{ref.apiVersion}"'
    fix = f"Write apiVersion: {_SERVED[ref.kind]}, and check the fields: some have other defaults."
    finding = NOT_SERVED.rule.finding(ref, "apiVersion", message, fix)
    return Verdict(
        allowed=False,
        code=404,
        reason="NotFound",
        message=message,
        warnings=[],
        findings=[finding],
        admitted=None,
        patch=[],
    )


def with_unknown_fields(verdict: Verdict, document: Mapping[str, Any], ref: ObjectRef, minor: int) -> Verdict:
    """Return a verdict with findings on the unknown fields of a pod's spec, or of an owner's."""
    unknown = list(unknown_fields(document, minor))
    warnings = [f"unknown field {go_quote(field.path)}{field.hint}" for field in unknown]
    findings = [
        UNKNOWN_FIELD.rule.finding(ref, field.path, f"{_DROPPED}{field.hint}", UNKNOWN_FIELD.fix)
        for field in unknown
    ]
    return msgspec.structs.replace(
        verdict, warnings=verdict.warnings + warnings, findings=verdict.findings + findings
    )


def with_required_fields(
    verdict: Verdict,
    document: Mapping[str, Any],
    ref: ObjectRef,
    profile: Profile,
    operation: Operation,
) -> Verdict:
    """Return the verdict of the server's validation, which requires fields that no rule of Podium reads.

    A refusal that comes before validation keeps its code and message.
    """
    gates = profile.gates if operation is Operation.CREATE else None
    errors = required_errors(document, profile.minor, gates)
    if not errors or verdict.code in _BEFORE_FIELDS:
        return verdict
    findings = [error.finding(ref) for error in errors]
    if not (verdict.allowed or verdict.code == _INVALID or LISTED_KINDS.get((ref.apiVersion, ref.kind))):
        return msgspec.structs.replace(verdict, findings=verdict.findings + findings)
    texts = [f"{cause.field}: {cause.message}" for cause in verdict.causes] + [str(error) for error in errors]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
    message = f"{kind} {go_quote(ref.name)} is invalid: {listed}"
    return _refused(verdict, _INVALID, "Invalid", message, *findings)


def unknown_fields(document: Mapping[str, Any], minor: int) -> Iterator[UnknownField]:
    """Yield the unknown fields of a pod's spec, or of an owner that decodes."""
    for spec in specs(document):
        for field in _unknown(spec.value, spec.kind, spec.path, minor):
            if field.path.removeprefix(f"{spec.path}.") not in spec.own:
                yield field


def strict(verdict: Verdict, ref: ObjectRef) -> Verdict:
    """Return the verdict of field validation `Strict`, which kubectl uses: unknown fields are refused."""
    unknown = [finding.field for finding in verdict.findings if finding.rule == UNKNOWN_FIELD.rule.id]
    if not unknown or verdict.code in _BEFORE_FIELDS:
        return verdict
    version = ref.apiVersion.rpartition("/")[2]
    errors = ", ".join(f"unknown field {go_quote(field)}" for field in unknown)
    message = f'{ref.kind} in version "{version}" cannot be handled as a {ref.kind}'
    return _refused(verdict, 400, "BadRequest", f"{message}: strict decoding error: {errors}")


def absent_namespace(verdict: Verdict, ref: ObjectRef) -> Verdict:
    """Return the refusal of an object in a namespace that does not exist."""
    message = f"namespaces {go_quote(ref.namespace)} not found"
    finding = NO_NAMESPACE.rule.finding(ref, "metadata.namespace", message, NO_NAMESPACE.fix)
    return _refused(verdict, 404, "NotFound", message, finding)


def taken(verdict: Verdict, ref: ObjectRef) -> Verdict:
    """Return the refusal of an owner of pods whose name is taken."""
    resource = f"{LISTED_KINDS[ref.apiVersion, ref.kind].plural}.{ref.group}"
    message = f"{resource} {go_quote(ref.name)} already exists"
    finding = EXISTS.rule.finding(ref, "metadata.name", message, EXISTS.fix)
    return _refused(verdict, 409, "AlreadyExists", message, finding)


def _refused(verdict: Verdict, code: int, reason: str, message: str, *findings: Finding) -> Verdict:
    return msgspec.structs.replace(
        verdict,
        allowed=False,
        code=code,
        reason=reason,
        message=message,
        findings=[*verdict.findings, *findings],
        admitted=None,
        patch=[],
    )


def _unknown(value: Any, kind: str, path: str, minor: int) -> Iterator[UnknownField]:
    """Yield the unknown fields of a value of a type; values of a wrong shape are left to decoding."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, kind, f"{path}[{index}]", minor)
    if not isinstance(value, dict):
        return
    known = fields_of(kind, minor)
    for name, inner in value.items():
        if name not in known:
            yield UnknownField(f"{path}.{name}", _hint(name, known))
        elif known[name]:
            yield from _unknown(inner, known[name], f"{path}.{name}", minor)


def _hint(name: str, known: Mapping[str, str]) -> str:
    if name in _FORMER:
        return f". {_FORMER[name]}"
    lower = {field.lower(): field for field in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.8)
    return f". Did you mean {lower[near[0]]}?" if near else ""
