"""The conditions in the status of groups: their table, and the server's checks.

Before 1.38 code checks them. From 1.38 on the declarative rules, which come after all code, have most checks.
"""

from podium.minors.minor import GroupApi, Minor
from podium.rules import fields, names
from podium.rules.checks import enumeration, minimum, required, unique
from podium.rules.context import RuleContext
from podium.rules.decoding import integer, objects, text, time
from podium.rules.fields import FieldError, refusal
from podium.rules.schema import Document, Field, FieldCheck, StructSchema, optional

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


def _table(*, declared: bool) -> StructSchema:
    def checked(*checks: FieldCheck) -> tuple[FieldCheck, ...]:
        return checks if declared else ()

    present = checked(required(CONDITION))
    return StructSchema(
        "Condition",
        (
            text("type", always=True, stops=present),
            text(
                "status",
                "v1.ConditionStatus",
                always=True,
                stops=present,
                checks=checked(enumeration(CONDITION, *_CONDITION_STATUSES)),
            ),
            integer("observedGeneration", "int64", stops=(optional,), checks=checked(minimum(CONDITION, 0))),
            time("lastTransitionTime", always=True, stops=present),
            text("reason", always=True, stops=present),
            text("message", always=True),
        ),
    )


_TABLES = {declared: _table(declared=declared) for declared in (False, True)}


def condition_list(api: GroupApi) -> Field:
    """Return the conditions of a status; unless they are declared, `check_conditions` has all checks."""
    return objects(
        "conditions",
        _TABLES[api.beta_rules],
        "v1.Condition",
        key="type",
        stops=(optional,),
        checks=(unique(CONDITION, "type"),) if api.beta_rules else (),
    )


def check_conditions(context: RuleContext, status: Document) -> list[FieldError]:
    """Return the errors of conditions that the server finds before its declarative rules."""
    conditions, minor = status.get("conditions", ()), context.minor
    if context.api.beta_rules:
        return [
            error
            for index, condition in enumerate(conditions)
            for error in _undeclared(condition, f"status.conditions[{index}]")
        ]
    errors: list[FieldError] = []
    seen = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        kind = condition["type"]
        if kind in seen:
            errors.append(fields.duplicate(CONDITION, path if minor.precise_errors else f"{path}.type", kind))
        seen.add(kind)
        errors += _condition(condition, path, minor)
    return errors


def _condition(condition: Document, path: str, minor: Minor) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, status = condition["type"], condition["status"]
    if minor.precise_errors and not kind:
        errors.append(fields.required(CONDITION, f"{path}.type", "is required"))
    else:
        errors += _type_errors(kind, path)
    if minor.precise_errors and not status:
        errors.append(fields.required(CONDITION, f"{path}.status"))
    elif status not in _CONDITION_STATUSES:
        errors.append(fields.unsupported(CONDITION, f"{path}.status", status, _CONDITION_STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(fields.invalid(CONDITION, f"{path}.observedGeneration", generation, detail))
    if condition["lastTransitionTime"] is None:
        errors.append(fields.required(CONDITION, f"{path}.lastTransitionTime"))
    if not condition["reason"]:
        errors.append(fields.required(CONDITION, f"{path}.reason"))
    return errors + _text_errors(condition, path)


def _undeclared(condition: Document, path: str) -> list[FieldError]:
    """Return the errors of a condition for which no declarative rule is in force yet."""
    kind = condition["type"]
    return (_type_errors(kind, path) if kind else []) + _text_errors(condition, path)


def _type_errors(kind: str, path: str) -> list[FieldError]:
    return [
        fields.invalid(CONDITION, f"{path}.type", kind, complaint) for complaint in names.qualified_name(kind)
    ]


def _text_errors(condition: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    reason = condition["reason"]
    if reason:
        errors += [
            fields.invalid(CONDITION, f"{path}.reason", reason, complaint)
            for complaint in names.condition_reason(reason)
        ]
    if len(reason.encode(errors="surrogatepass")) > MAX_REASON:
        errors.append(fields.too_long(CONDITION, f"{path}.reason", MAX_REASON))
    if len(condition["message"].encode(errors="surrogatepass")) > MAX_MESSAGE:
        errors.append(fields.too_long(CONDITION, f"{path}.message", MAX_MESSAGE))
    return errors
