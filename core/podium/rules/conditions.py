"""The conditions in the status of groups: their table, and the server's checks."""

from podium.rules import fields, names
from podium.rules.decoding import integer, text, time
from podium.rules.fields import FieldError, refusal
from podium.rules.schema import Document, StructSchema

CONDITION = refusal(
    "condition-invalid",
    title="Invalid condition",
    why="Clients read conditions by type, status and reason.",
    source="Kubernetes API server: G28",
    fix="Set a unique type, status True, False or Unknown, a reason in CamelCase and lastTransitionTime.",
)
RULES = (CONDITION.rule,)
MAX_REASON = 1024
MAX_MESSAGE = 32 * 1024
_CONDITION_STATUSES = ("False", "True", "Unknown")

CONDITION_TABLE = StructSchema(
    "Condition",
    (
        text("type", always=True),
        text("status", "v1.ConditionStatus", always=True),
        integer("observedGeneration", "int64"),
        time("lastTransitionTime", always=True),
        text("reason", always=True),
        text("message", always=True),
    ),
)


def check_conditions(conditions: list[Document], minor: int) -> list[FieldError]:
    """Return errors of the conditions of a status."""
    errors: list[FieldError] = []
    seen = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        kind = condition["type"]
        if kind in seen:
            errors.append(fields.duplicate(CONDITION, path if minor >= 37 else f"{path}.type", kind))
        seen.add(kind)
        errors += _condition(condition, path, minor)
    return errors


def _condition(condition: Document, path: str, minor: int) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, status, reason = condition["type"], condition["status"], condition["reason"]
    if minor >= 37 and not kind:
        errors.append(fields.required(CONDITION, f"{path}.type", "is required"))
    else:
        errors += [
            fields.invalid(CONDITION, f"{path}.type", kind, complaint)
            for complaint in names.qualified_name(kind)
        ]
    if minor >= 37 and not status:
        errors.append(fields.required(CONDITION, f"{path}.status"))
    elif status not in _CONDITION_STATUSES:
        errors.append(fields.unsupported(CONDITION, f"{path}.status", status, _CONDITION_STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(fields.invalid(CONDITION, f"{path}.observedGeneration", generation, detail))
    if condition["lastTransitionTime"] is None:
        errors.append(fields.required(CONDITION, f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(fields.required(CONDITION, f"{path}.reason"))
    else:
        errors += [
            fields.invalid(CONDITION, f"{path}.reason", reason, complaint)
            for complaint in names.condition_reason(reason)
        ]
        if len(reason.encode(errors="surrogatepass")) > MAX_REASON:
            errors.append(fields.too_long(CONDITION, f"{path}.reason", MAX_REASON))
    if len(condition["message"].encode(errors="surrogatepass")) > MAX_MESSAGE:
        errors.append(fields.too_long(CONDITION, f"{path}.message", MAX_MESSAGE))
    return errors
