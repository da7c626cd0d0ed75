"""The rules that a webhook adds: the API server's on Podium's kinds, and Podium's own on all kinds.

`podium.rules.admission.review` covers the whole server. Here the server has done its part already, or will do
it later. Storage and metadata are therefore not checked again, except the names of finalizers, which the
server checks on its own kinds only. Native kinds and pods get own rules only. The mutating phase leaves
errors of field validation to the schema (422), which comes after it. The validating phase still checks
fields, so that the schema is not the only protection.

v1alpha2 objects arrive as they were written, so the fields that this version lacks are handled here too.
"""

from collections.abc import Mapping
from typing import Any

from podium.api import priority
from podium.api.convert import KEPT, PARENT, kept_text, restorable
from podium.api.reads import MANIFEST_READS
from podium.cluster.reader import ClusterReader
from podium.rules import (
    admission,
    compositegroup,
    conditions,
    fields,
    gang,
    grouppriority,
    groupspec,
    metadata,
    podgroup,
    podiumchecks,
    templates,
    workload,
)
from podium.rules.context import DROPPED, KindRules, Operation, Profile, Request, RuleContext
from podium.rules.fields import FieldError, RefusedRequest
from podium.rules.groupspec import TEMPLATE_REF
from podium.rules.podiumrule import AdmissionPhase, WriteTarget
from podium.rules.rule import Rule
from podium.rules.schema import Document

__all__ = ["NO_OPINION", "PARITY", "AdmissionPhase", "WriteTarget", "review_phase"]

# The writes at which the API server's rules are applied to Podium's kinds.
PARITY = (
    WriteTarget("PodGroup", Operation.CREATE, AdmissionPhase.MUTATE),
    WriteTarget("PodGroup", Operation.UPDATE, AdmissionPhase.MUTATE),
    WriteTarget("CompositePodGroup", Operation.CREATE, AdmissionPhase.MUTATE),
    WriteTarget("CompositePodGroup", Operation.UPDATE, AdmissionPhase.MUTATE),
    WriteTarget("Workload", Operation.UPDATE, AdmissionPhase.MUTATE),
    WriteTarget("PodGroup", Operation.CREATE, AdmissionPhase.VALIDATE),
    WriteTarget("PodGroup", Operation.UPDATE, AdmissionPhase.VALIDATE),
    WriteTarget("CompositePodGroup", Operation.CREATE, AdmissionPhase.VALIDATE),
    WriteTarget("CompositePodGroup", Operation.UPDATE, AdmissionPhase.VALIDATE),
    WriteTarget("Workload", Operation.CREATE, AdmissionPhase.VALIDATE),
    WriteTarget("Workload", Operation.UPDATE, AdmissionPhase.VALIDATE),
)
# The API server's rules that apply there, by kind.
PARITY_RULES: Mapping[str, tuple[Rule, ...]] = {
    kind: (*admission.RULES, DROPPED.rule, *metadata.RULES, *groupspec.RULES, *rules)
    for kind, rules in (
        ("PodGroup", (*grouppriority.RULES, *podgroup.RULES, *conditions.RULES)),
        ("CompositePodGroup", (*grouppriority.RULES, *compositegroup.RULES, *conditions.RULES)),
        ("Workload", workload.RULES),
    )
}
# The kinds with a status, a default mode and the values of a class.
_GROUPS: tuple[KindRules, ...] = (podgroup.KIND, compositegroup.KIND)
# The verdict on an object without rules.
NO_OPINION = admission.Verdict(
    allowed=True, code=200, reason="", message="", warnings=[], findings=[], admitted=None, patch=[]
)
# By (apiVersion, kind) as in the object.
_RULES: Mapping[tuple[Any, Any], KindRules] = {
    (api_version, kind): admission.KINDS[kind]
    for api_version, kind in MANIFEST_READS
    if kind in ("Pod", "PodGroup", "CompositePodGroup", "Workload")
    and admission.has_rules({"apiVersion": api_version, "kind": kind})
}


def review_phase(
    phase: AdmissionPhase, request: Request, view: ClusterReader, profile: Profile
) -> admission.Verdict:
    """Return the verdict on one write in one phase.

    Pure: an invalid object is a verdict, not an exception. `admitted` is always None. Any update of an object
    that is being deleted is allowed, because finalizers must be removable.
    """
    api_version, kind = request.object.get("apiVersion"), request.object.get("kind")
    named = isinstance(api_version, str) and isinstance(kind, str)
    rules = _RULES.get((api_version, kind)) if named else None
    if rules is None:
        return NO_OPINION
    context = RuleContext(request, view, profile, admission.reference(request.object, rules), rules.plural)
    patch: list[dict[str, Any]] = []
    try:
        match phase:
            case AdmissionPhase.MUTATE:
                patch = _mutate(context, rules)
            case AdmissionPhase.VALIDATE:
                _validate(context, rules)
            case AdmissionPhase.GANG | AdmissionPhase.SCHEDULED_GANG:
                patch = _join(context, rules, scheduled=phase is AdmissionPhase.SCHEDULED_GANG)
    except RefusedRequest as error:
        return admission.refused(context, error)
    return admission.allowed(context, None, patch)


def _mutate(context: RuleContext, rules: KindRules) -> list[dict[str, Any]]:
    try:
        new = admission.canonical(context, rules, context.request.object, [])
        old = admission.stored(context, rules) if context.update else None
    except RefusedRequest:
        # The schema refuses it later, with 422.
        return []
    if context.status or (old is not None and "deletionTimestamp" in old["metadata"]):
        return []
    podiumchecks.mutate(context, new, old)
    if context.native:
        return admission.spec_patch(context.request.object, context.changes, context.appended)
    rules.mutate(context, new, old)
    if rules in _GROUPS:
        _default_mode(context, new)
    return admission.spec_patch(context.request.object, context.changes, context.appended) + kept_patch(
        context, new
    )


def _join(context: RuleContext, rules: KindRules, *, scheduled: bool) -> list[dict[str, Any]]:
    try:
        new = admission.canonical(context, rules, context.request.object, [])
    except RefusedRequest:
        # The API server refuses it later.
        return []
    labels = gang.join(context, new, scheduled=scheduled)
    return labels + admission.spec_patch(context.request.object, context.changes, context.appended)


def _default_mode(context: RuleContext, new: Document) -> None:
    """Set the default disruption mode as native decoding does, unless the stored group has none either.

    The schema has no default: a default would hide that the mode was omitted, and the template may set it.
    """
    old = context.request.old if context.update else None
    sent, before = (_raw_mode(document) for document in (context.request.object, old))
    if sent is None and (old is None or before is not None):
        context.changes.setdefault("disruptionMode", new["spec"]["disruptionMode"])


def _raw_mode(document: Document | None) -> Any:
    return ((document or {}).get("spec") or {}).get("disruptionMode")


def _validate(context: RuleContext, rules: KindRules) -> None:
    try:
        new = admission.canonical(context, rules, context.request.object, [])
        old = admission.stored(context, rules) if context.update else None
    except RefusedRequest:
        if context.native:
            return
        raise
    if old is not None and "deletionTimestamp" in old["metadata"]:
        return
    if not context.native:
        if context.status:
            return
        context.name = context.ref.name
        errors = metadata.check_finalizers(new["metadata"]) + podiumchecks.check(context, new)
        errors += rules.check(context, new, old) + check_kept(context, new, old)
        if errors:
            raise context.invalid(errors)
        if old is None and rules in _GROUPS:
            _check_stamped(context, rules, new)
    podiumchecks.judge(context, new, old)


def _check_stamped(context: RuleContext, rules: KindRules, new: Document) -> None:
    """Raise Refused for a new group whose class values were removed by a webhook after ours.

    A value that does not match is awaited too: the replica that set it may know a newer class or another
    default.
    """
    try:
        _compare_stamp(context, rules, new)
    except RefusedRequest:
        name = new["spec"].get("priorityClassName", "")
        if not context.awaits:
            context.awaits.append(
                f"another PriorityClass {name}" if name else "another default PriorityClass"
            )
        raise


def _compare_stamp(context: RuleContext, rules: KindRules, new: Document) -> None:
    given = dict(new["spec"])
    rules.mutate(context, new, None)
    for field, value in context.changes.items():
        if field not in given:
            message = f"{field} is not set, but the priority admission controller computed {value}"
            raise context.forbid(grouppriority.MISMATCH, f"spec.{field}", message)
    if kept_patch(context, new):
        message = f"the annotation {KEPT} does not hold the computed preemptionPolicy"
        raise context.forbid(grouppriority.POLICY_MISMATCH, "metadata.annotations", message)


# The fields that v1alpha2 lacks are in the annotation `KEPT`, which no schema can protect. The rules of the
# fields in v1beta1 are therefore applied to the annotation. A new group gets the policy of its class, another
# policy is refused, and both fields are immutable. An update without the annotation keeps the stored value,
# because a client that knows only v1alpha2 did not mean to unset it.


_POLICY = "preemptionPolicy"


def kept_patch(context: RuleContext, new: Document) -> list[dict[str, Any]]:
    """Return the operations that write the annotation, none if it is right.

    Raises Refused for another policy than the class's.
    """
    text = _kept_annotation(context, new) if context.api.older else None
    if text is None:
        return []
    if (context.request.object.get("metadata") or {}).get("annotations") is None:
        return [{"op": "add", "path": "/metadata/annotations", "value": {KEPT: text}}]
    return [{"op": "add", "path": f"/metadata/annotations/{KEPT.replace('/', '~1')}", "value": text}]


def _kept_annotation(context: RuleContext, new: Document) -> str | None:
    """Return the value that the annotation should have, or None to leave it unchanged."""
    if context.request.old is not None:
        return None if KEPT in _annotations(new) else _annotations(context.request.old).get(KEPT)
    if context.ref.kind != "PodGroup":
        return None
    resolved = priority.resolve(context.view.classes, new["spec"].get("priorityClassName", ""))
    assert resolved is not None
    given = restorable(context.request.object).get(_POLICY)
    grouppriority.check_policy(context, given, resolved.preemption_policy)
    kept = {**restorable(context.request.object), _POLICY: resolved.preemption_policy}
    return None if given is not None else kept_text(kept)


def _annotations(document: Document) -> Document:
    return (document.get("metadata") or {}).get("annotations") or {}


def check_kept(context: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors for an update that changes the stored policy; paths are v1beta1's."""
    if not context.api.older:
        return []
    after = restorable(new)
    if old is None:
        if PARENT not in after or new["spec"].get("podGroupTemplateRef"):
            return []
        detail = f"must be set when {PARENT} is set"
        return [fields.required(TEMPLATE_REF, "spec.workloadRef", detail)]
    before = restorable(old)
    if context.ref.kind == "PodGroup":
        changed = [f"spec.{name}" for name in (PARENT, _POLICY) if after.get(name) != before.get(name)]
        cause = podgroup.FIXED
    else:
        cause = templates.FIXED
        now, then = after.get("podGroupTemplates", {}), before.get("podGroupTemplates", {})
        changed = [
            f"spec.podGroupTemplates[{index}].{_POLICY}"
            for index, template in enumerate(new["spec"]["podGroupTemplates"] or ())
            if now.get(template["name"], {}) != then.get(template["name"], {})
        ]
    return [fields.invalid(cause, path, None, "field is immutable") for path in changed]
