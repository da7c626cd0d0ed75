"""PriorityClass: its table, its checks on create and update, and the check for a single default.

Only creation checks names, values and policies. On update value and policy are immutable and the rest is
free, so objects that an older server stored stay updatable.
"""

from podium.api import priority
from podium.rules import fields, metadata
from podium.rules.context import KindRules, RuleContext
from podium.rules.decoding import boolean, integer, text
from podium.rules.fields import FieldError, refusal
from podium.rules.schema import Document, StructSchema

RESERVED = refusal(
    "priority-class-reserved-name",
    title="Reserved class name",
    why="Names that begin with system- are reserved for the two built-in classes.",
    source="Kubernetes API server: PC3",
    fix="Choose a name that does not begin with system-.",
)
SYSTEM = refusal(
    "priority-class-system",
    title="Changed system class",
    why="The two built-in classes have fixed values, and neither is the global default.",
    source="Kubernetes API server: PC3",
    fix="Remove the changed field, or use a class of your own.",
)
VALUE = refusal(
    "priority-class-value",
    title="Class value above the user limit",
    why="Values above 1000000000 are reserved for the system classes.",
    source="Kubernetes API server: PC4",
    fix="Use a value of at most 1000000000.",
)
POLICY = refusal(
    "priority-class-preemption-policy",
    title="Unknown preemption policy",
    why="A class either preempts lower priorities or never preempts.",
    source="Kubernetes API server: PC5",
    fix="Use PreemptLowerPriority or Never, or remove it.",
)
SECOND_DEFAULT = refusal(
    "second-global-default",
    title="Second default class",
    why="The priority of pods without a class would depend on the choice between the defaults.",
    source="Kubernetes API server: PC6",
    fix="Remove globalDefault from the other class first, in a separate update.",
)
FIXED = refusal(
    "priority-class-immutable",
    title="Value or policy of a class changed",
    why="Pods keep their stored priority, so a changed class would differ from them.",
    source="Kubernetes API server: PC7, PC8, PC10",
    fix="Create a class with another name and the new value.",
)
RULES = (RESERVED.rule, SYSTEM.rule, VALUE.rule, POLICY.rule, SECOND_DEFAULT.rule, FIXED.rule)

SHAPE = StructSchema(
    "PriorityClass",
    (
        *metadata.HEAD,
        integer("value", always=True),
        boolean("globalDefault"),
        text("description"),
        text("preemptionPolicy", "v1.PreemptionPolicy", pointer=True),
    ),
)


def default(_context: RuleContext, document: Document) -> None:
    """Set the defaults of decoding."""
    document.setdefault("preemptionPolicy", priority.PREEMPT_LOWER_PRIORITY)


def prepare(_case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the strategy: a new class has generation 1, whatever was sent."""
    if old is None:
        new["metadata"]["generation"] = 1


def check(context: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return the errors in a class, except in its metadata."""
    return _check_create(new) if old is None else _check_update(context, new, old)


def judge(context: RuleContext, new: Document, _old: Document | None) -> None:
    """Apply the Priority plugin: refuse a second default, but let the same class stay the default."""
    if not new.get("globalDefault"):
        return
    current = priority.default_class(context.view.classes)
    if current is None or (context.update and current.metadata.name == context.ref.name):
        return
    message = (
        f"PriorityClass {current.metadata.name} is already marked as default. Only one default can exist"
    )
    raise context.forbid(SECOND_DEFAULT, "globalDefault", message)


def _check_create(document: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    name, value = document["metadata"].get("name", ""), document["value"]
    if name.startswith(priority.SYSTEM_PREFIX):
        complaint = _unlike_system_class(name, value, default=document.get("globalDefault", False))
        if complaint:
            detail = (
                f"priority class names with '{priority.SYSTEM_PREFIX}' prefix are reserved for system use "
                f"only. error: {complaint}"
            )
            known = name in priority.SYSTEM_CLASSES
            errors.append(fields.forbidden(SYSTEM if known else RESERVED, "metadata.name", detail))
    elif value > priority.HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {priority.HIGHEST_USER_PRIORITY}"
        errors.append(fields.forbidden(VALUE, "value", detail))
    policy = document["preemptionPolicy"]
    if not policy:
        errors.append(fields.required(POLICY, "preemptionPolicy"))
    elif policy not in priority.PREEMPTION_POLICIES:
        choices = priority.PREEMPTION_POLICIES
        errors.append(fields.unsupported(POLICY, "preemptionPolicy", policy, choices))
    return errors


def _unlike_system_class(name: str, value: int, *, default: bool) -> str:
    known = priority.SYSTEM_CLASSES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def _check_update(context: RuleContext, new: Document, old: Document) -> list[FieldError]:
    errors = [
        fields.invalid(FIXED, name, new[name], "field is immutable")
        for name in ("value", "preemptionPolicy")
        if new[name] != old[name]
    ]
    if new["value"] != old["value"] and not context.minor.plain_class_errors:
        errors[0] = fields.forbidden(FIXED, "value", "may not be changed in an update.")
    return errors


KIND = KindRules(
    "priorityclasses", SHAPE, check, prepare, default=default, judge=judge, namespaced=False, has_status=False
)
