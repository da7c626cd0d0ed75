"""Checks that surround the rules of one kind: unknown and missing fields, absent namespaces, taken names.

`podium admit` needs them, because it reads a manifest as its author wrote it. The webhooks do not: the server
drops unknown fields before it asks them, and makes the other two checks itself.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kubecel.goquote import go_quote
from podium.api.findings import Finding, ObjectRef
from podium.api.podkinds.table import LISTED_KINDS
from podium.rules import required
from podium.rules.admission import NOT_SERVED, UNKNOWN_FIELD, Verdict
from podium.rules.context import Operation, Profile
from podium.rules.fields import refusal
from podium.rules.specs import fields_of, specs
from podium.rules.storage import EXISTS

NO_NAMESPACE = refusal(
    "namespace-not-found",
    title="Namespace not found",
    why="An object can be created in an existing namespace only.",
    source="Kubernetes API server: NamespaceLifecycle",
    fix="Create the namespace first, or correct metadata.namespace.",
)
RULES = (*required.RULES, NO_NAMESPACE.rule)

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
    errors = required.missing(document, profile.minor, gates)
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
