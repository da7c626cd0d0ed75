"""The checks of the registry's store: updates of missing or changed objects, and names that are taken.

A stored object without resourceVersion or uid was written by hand, so no conflict can occur.
"""

from kubecel.goquote import go_quote
from podium.api.core import Pod, PriorityClass
from podium.api.groups import CompositeGroup, PodGroup, Workload
from podium.api.membership import GroupKey
from podium.rules.context import RuleContext
from podium.rules.fields import RefusedRequest, refusal
from podium.rules.schema import Document

_Stored = Pod | PriorityClass | PodGroup | CompositeGroup | Workload

NOT_FOUND = refusal(
    "object-not-found",
    title="Update of an object that does not exist",
    why="A PUT does not create these kinds.",
    source="Kubernetes API server: PC14, G31",
    fix="Create the object, or pass the stored object.",
)
EXISTS = refusal(
    "object-exists",
    title="Object already exists",
    why="A name is in use until its object is deleted.",
    source="Kubernetes API server: storage",
    fix="Update the object instead, or choose another name.",
)
CONFLICT = refusal(
    "object-conflict",
    title="Update of an outdated object",
    why="The object was changed or recreated since it was read.",
    source="Kubernetes API server: G31, storage",
    fix="Read the object again and apply the change to it.",
)
REVISION = refusal(
    "resource-version",
    title="resourceVersion set or missing",
    why="A new object must not have it; from 1.37 on an update of Workload and PodGroup must have it.",
    source="Kubernetes API server: G31, storage",
    fix="Remove metadata.resourceVersion on create, and send the stored value on update.",
)
RULES = (NOT_FOUND.rule, EXISTS.rule, CONFLICT.rule, REVISION.rule)


def not_found(context: RuleContext) -> RefusedRequest:
    """Return the 404 of an update without a stored object."""
    text = f"{context.resource} {go_quote(context.ref.name)} not found"
    return context.refuse(404, "NotFound", text, NOT_FOUND)


def check_uid(context: RuleContext, meta: Document, old: Document) -> None:
    """Raise Refused for an update of another uid; this check comes before any admission."""
    sent, stored = meta.get("uid"), old.get("uid")
    if sent and stored and sent != stored:
        key = "/".join(
            part for part in ("/registry", context.plural, context.ref.namespace, context.ref.name) if part
        )
        text = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {sent}, UID in object meta: {stored}"
        )
        raise _conflict(context, "metadata.uid", text)


def check_revision(context: RuleContext, meta: Document, old: Document) -> None:
    """Raise Refused for an update of another revision, or without one if the kind requires it."""
    stored, sent = old.get("resourceVersion"), meta.get("resourceVersion", "0")
    if not stored:
        return
    field = "metadata.resourceVersion"
    if not (sent.isascii() and sent.isdigit()):
        text = f"strconv.ParseUint: parsing {go_quote(sent)}: invalid syntax"
        raise context.refuse(500, "", text, REVISION, field=field)
    if not sent.strip("0"):
        unconditional = context.ref.kind in ("Pod", "PriorityClass") or (
            context.native and context.minor.free_updates
        )
        if not unconditional:
            body = "Invalid value: 0: must be specified for an update"
            text = f"{context.resource} {go_quote(context.ref.name)} is invalid: {field}: {body}"
            raise context.refuse(422, "Invalid", text, REVISION, field=field, message=body)
    elif sent != stored:
        text = "the object has been modified; please apply your changes to the latest version and try again"
        raise _conflict(context, field, text)


def _conflict(context: RuleContext, field: str, text: str) -> RefusedRequest:
    prefix = f"Operation cannot be fulfilled on {context.resource} {go_quote(context.ref.name)}"
    return context.refuse(409, "Conflict", f"{prefix}: {text}", CONFLICT, field=field, message=text)


def check_free(context: RuleContext, meta: Document) -> None:
    """Raise Refused for a new object with a resourceVersion, or with a name that is taken."""
    revision = meta.get("resourceVersion", "")
    if revision.isascii() and revision.isdigit() and revision.strip("0"):
        text = "resourceVersion should not be set on objects to be created"
        raise context.refuse(500, "", text, REVISION, field="metadata.resourceVersion")
    name = meta.get("name")
    holder = None if name is None else _holder(context, name)
    if holder is not None:
        going = "object is being deleted: " if holder.metadata.deletionTimestamp else ""
        text = f"{going}{context.resource} {go_quote(holder.metadata.name or '')} already exists"
        raise context.refuse(409, "AlreadyExists", text, EXISTS, field="metadata.name")


def _holder(context: RuleContext, name: str) -> _Stored | None:
    namespace, view = context.ref.namespace, context.view
    match context.ref.kind:
        case "Pod":
            return view.pods.get((namespace, name))
        case "PriorityClass":
            return view.classes.get(name)
        case "PodGroup":
            return view.groups.get(GroupKey(context.native, namespace, name))
        case "CompositePodGroup":
            return view.composites.get(GroupKey(context.native, namespace, name, composite=True))
        case _:
            return view.workloads.get(GroupKey(context.native, namespace, name))
