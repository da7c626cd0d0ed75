"""Protection for the fields that v1alpha2 lacks, in the annotation `convert.KEPT` that replaces them there.

A client of v1alpha2 sees preemptionPolicy and a group's parent in an annotation, which no schema can protect.
The rules of the fields in v1beta1 are therefore applied to the annotation here. A new group gets the policy
of its class, another policy is refused, and both fields are immutable. An update without the annotation keeps
the stored value, because a client that knows only v1alpha2 did not mean to unset it.
"""

from typing import Any

from podium.api import priority
from podium.api.convert import KEPT, PARENT, kept_text, restorable
from podium.rules import fields, grouppriority, podgroup, templates
from podium.rules.context import RuleContext
from podium.rules.fields import FieldError
from podium.rules.groupspec import TEMPLATE_REF
from podium.rules.schema import Document

_POLICY = "preemptionPolicy"


def patch(context: RuleContext, new: Document) -> list[dict[str, Any]]:
    """Return the operations that write the annotation, none if it is right.

    Raises Refused for another policy than the class's.
    """
    text = _annotation(context, new) if context.api.older else None
    if text is None:
        return []
    if (context.request.object.get("metadata") or {}).get("annotations") is None:
        return [{"op": "add", "path": "/metadata/annotations", "value": {KEPT: text}}]
    return [{"op": "add", "path": f"/metadata/annotations/{KEPT.replace('/', '~1')}", "value": text}]


def _annotation(context: RuleContext, new: Document) -> str | None:
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


def check(context: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
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
