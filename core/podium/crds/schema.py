"""The schemas of structs, made from their tables: fields, limits, unions and immutable fields.

CEL expresses the rules that the OpenAPI subset of a CRD cannot express with upstream's message. Three
properties of CEL decide the form. A rule with oldSelf does not run when its field is added or removed, so an
immutable field is compared at its parent. Lists with map keys are equal in any order, so their order is
compared too. The API server estimates the cost of a rule from limits, so every list and text has a limit.
Optionals (`?.`) are not used, because their size is unknown to it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podium.groups.trees import MAX_DEPTH
from podium.rules import names
from podium.rules.conditions import MAX_MESSAGE, MAX_REASON
from podium.rules.names import LABEL_LIMIT, SUBDOMAIN_LIMIT
from podium.rules.schema import Fact, Field, StructSchema

Schema = dict[str, Any]
Rule = dict[str, str]

_NOT_EMPTY = {"rule": "size(self) > 0", "message": "must not be empty", "reason": "FieldValueRequired"}
# A prefix, a slash and a name.
_MAX_KEY = SUBDOMAIN_LIMIT + 1 + LABEL_LIMIT
_INT32 = {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1}


def rule(cel: str, message: str, path: str = "", reason: str = "") -> Rule:
    """Return a validation rule: true if valid; `path` (`.priority`) is where the error is shown."""
    made = {"rule": cel, "message": message}
    if path:
        made["fieldPath"] = path
    if reason:
        made["reason"] = f"FieldValue{reason}"
    return made


def struct(
    description: str,
    properties: dict[str, Schema],
    *,
    required: Sequence[str] = (),
    rules: Sequence[Rule] = (),
) -> Schema:
    """Return the schema of an object; unknown fields are pruned."""
    return {
        "description": description,
        "type": "object",
        **({"required": list(required)} if required else {}),
        **({"properties": properties} if properties else {}),
        **_validations(rules),
    }


def _validations(rules: Sequence[Rule]) -> Schema:
    return {"x-kubernetes-validations": list(rules)} if rules else {}


def items(description: str, item: Schema, limit: int, key: str = "name") -> Schema:
    """Return the schema of a list whose items have a name of their own."""
    return {
        "description": description,
        "type": "array",
        "maxItems": limit,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }


def equal(field: str, left: str = "self", right: str = "oldSelf") -> str:
    """Return CEL that is true if an optional field is equal in two objects or absent in both."""
    here, there = f"{left}.{field}", f"{right}.{field}"
    return f"has({here}) == has({there}) && (!has({here}) || {here} == {there})"


def equal_plain(field: str, left: str = "self", right: str = "oldSelf", *, key: str = "") -> str:
    """Return the same for a text or list whose empty value counts as absent.

    The order of a list counts only if its items have a `key`.
    """
    here, there = f"{left}.{field}", f"{right}.{field}"
    order = f" && {here}.map(i, i.{key}) == {there}.map(i, i.{key})" if key else ""
    filled = f"(has({here}) && size({here}) > 0) == (has({there}) && size({there}) > 0)"
    return f"{filled} && (!has({here}) || !has({there}) || {here} == {there}{order})"


def _valid(form: str) -> list[Rule]:
    """Return the rule that checks a format of the CEL library, whose messages are those of upstream."""
    check = f"format.{form}().validate(self)"
    return [{"rule": f"!{check}.hasValue()", "messageExpression": f"{check}.value()[0]"}]


# The limit and the rules of a text by the function that checks its syntax. Upstream limits no segment.
_SYNTAX: Mapping[Callable[[str], list[str]], tuple[int, list[Rule]]] = {
    names.dns_subdomain: (SUBDOMAIN_LIMIT, _valid("dns1123Subdomain")),
    names.dns_label: (LABEL_LIMIT, _valid("dns1123Label")),
    names.qualified_name: (_MAX_KEY, _valid("qualifiedName")),
    names.path_segment: (
        SUBDOMAIN_LIMIT,
        [rule(f"self != '{dots}'", f"may not be '{dots}'") for dots in (".", "..")]
        + [rule(f"!self.contains('{char}')", f"may not contain '{char}'") for char in "/%"],
    ),
}


def properties(shape: StructSchema, *, fixed: bool = False, rules: Sequence[Rule] = ()) -> Schema:
    """Return the schema of a struct from its table, with further rules; no update may change a fixed one."""
    return struct(
        shape.description,
        {field.name: _property(field, fixed=fixed) for field in shape.fields},
        required=_required(shape),
        rules=[*_rules(shape, fixed=fixed), *rules],
    )


def _required(shape: StructSchema) -> list[str]:
    """Return the required fields; a struct by value has no zero value that is valid.

    A field with a default is not among them, and the schema does not set the default: the webhook could no
    longer detect an omitted disruption mode, which a group takes from its template.
    """
    return [
        field.name
        for field in shape.fields
        if (Fact.REQUIRED in field.facts and field.default is None) or _by_value(field)
    ]


def _by_value(field: Field) -> bool:
    return field.shape is not None and field.zero is not None


def _property(field: Field, *, fixed: bool) -> Schema:
    fixed = fixed or Fact.IMMUTABLE in field.facts
    if field.shape is None:
        return {"description": field.description, **_plain(field)}
    if not field.many:
        return {**properties(field.shape, fixed=fixed), "description": field.description}
    return _tree(field) if _is_tree(field) else _list(field, properties(field.shape, fixed=fixed))


def _plain(field: Field) -> Schema:
    """Return the schema of a number or a text, without its description."""
    facts = field.facts
    if field.go == "int32":
        rules = []
        if Fact.AT_LEAST_ONE in facts:
            least = "must be greater than or equal to 1"
            rules = [rule("self != 0", least, reason="Required"), rule("self >= 0", least)]
        if Fact.MAXIMUM in facts:
            most = facts[Fact.MAXIMUM]
            rules.append(rule(f"self <= {most}", f"must be less than or equal to {most}"))
        return {**_INT32, **_validations(rules)}
    if Fact.VALUES in facts:
        return {"type": "string", "enum": facts[Fact.VALUES]}
    limit, rules = _SYNTAX[facts[Fact.SYNTAX]]
    if not field.pointer:
        # An empty text counts as absent, and a required one has that one message.
        rules = [{**check, "rule": f"self == '' || {check['rule']}"} for check in rules]
    if Fact.REQUIRED in facts:
        rules = [_NOT_EMPTY, *rules]
    return {"type": "string", "maxLength": limit, "x-kubernetes-validations": rules}


def _list(field: Field, item: Schema) -> Schema:
    limit = field.facts[Fact.MAX_ITEMS]
    if not field.key:
        schema = {"description": field.description, "type": "array", "maxItems": limit, "items": item}
        return {**schema, "x-kubernetes-list-type": "atomic"}
    schema = items(field.description, item, limit, field.key)
    return {**schema, "x-kubernetes-validations": [_NOT_EMPTY]} if Fact.REQUIRED in field.facts else schema


def _rules(shape: StructSchema, *, fixed: bool) -> list[Rule]:
    """Return the rules of a struct: its union, then its immutable fields in the order of the table."""
    union = _union([shape.by_name[member] for member in shape.facts.get(Fact.MEMBERS, ())])
    return union if fixed else [*union, *(check for field in shape.fields for check in _update_rules(field))]


def _update_rules(field: Field) -> list[Rule]:
    """Return the rules that compare a field with its stored value, at its parent."""
    name, facts = field.name, field.facts
    here, there = f"has(self.{name})", f"has(oldSelf.{name})"
    if Fact.IMMUTABLE in facts:
        return [rule(_equal(field), "field is immutable", f".{name}")]
    if Fact.SET_ONCE in facts:
        return [
            rule(f"!{here} || {there}", "field cannot be set once created", f".{name}"),
            rule(f"{here} || !{there}", "field cannot be cleared once set", f".{name}"),
        ]
    if Fact.SAME_ITEMS in facts and not _is_tree(field):
        key = facts[Fact.SAME_ITEMS]
        new, old = f"self.{name}", f"oldSelf.{name}"
        added = f"!{here} || {new}.all(t, {there} && {old}.exists(o, o.{key} == t.{key}))"
        removed = f"!{there} || {old}.all(o, {here} && {new}.exists(t, t.{key} == o.{key}))"
        return [
            rule(added, "item may not be added", f".{name}", "Forbidden"),
            rule(removed, "item may not be removed", f".{name}", "Forbidden"),
        ]
    return []


def _equal(field: Field) -> str:
    here, there = f"self.{field.name}", f"oldSelf.{field.name}"
    if _by_value(field):
        return f"{here} == {there}"
    if field.shape is not None and not field.shape.fields:
        return f"has({here}) == has({there})"
    if field.many or (field.zero == "" and not field.pointer):
        return equal_plain(field.name, key=field.key)
    return equal(field.name)


def _union(members: Sequence[Field]) -> list[Rule]:
    """Return rules that allow exactly one member; an empty list counts as absent."""
    if not members:
        return []
    given = [
        f"(has(self.{member.name}) && size(self.{member.name}) > 0)"
        if member.many
        else f"has(self.{member.name})"
        for member in members
    ]
    listed = ", ".join(f"`{member.name}`" for member in members)
    rules = [rule(" || ".join(given), f"must specify one of: {listed}")]
    if len(members) > 1:
        rules.append(rule(f"!({' && '.join(given)})", f"must specify exactly one of: {listed}"))
    return rules


def _is_tree(field: Field) -> bool:
    """Return whether a field holds structs that hold such structs again: composite templates."""
    return field.shape is not None and any(inner.shape is field.shape for inner in field.shape.fields)


def _tree(field: Field) -> Schema:
    """Return the schema of a Workload's composite templates, which may nest below each other.

    A schema cannot refer to itself, so the levels are written out. It has types and limits only: the cost of
    rules would count once for each of the 4,096 leaves. The webhook has the rules.
    """
    shape = field.shape
    assert shape is not None
    within: Schema = {
        "description": "None: a tree has no more levels.",
        "type": "array",
        "maxItems": field.facts[Fact.MAX_ITEMS],
        "items": {
            "description": "None.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "x-kubernetes-validations": [
            rule("size(self) == 0", f"maximum template hierarchy depth is {MAX_DEPTH}")
        ],
    }
    flat = [inner for inner in shape.fields if inner.shape is not shape]
    common = {inner.name: _without_rules(_property(inner, fixed=True)) for inner in flat}
    for _ in range(MAX_DEPTH - 1):
        template = struct(shape.description, {**common, field.name: within}, required=_required(shape))
        within = _list(field, template)
    return within


def _without_rules(schema: Any) -> Any:
    if isinstance(schema, dict):
        kept = schema.items()
        return {key: _without_rules(value) for key, value in kept if key != "x-kubernetes-validations"}
    return [_without_rules(item) for item in schema] if isinstance(schema, list) else schema


def condition() -> Schema:
    """Return the schema of a condition, as upstream validates it: the message may be absent."""
    return struct(
        "The observed state of the group.",
        {
            "type": {
                "description": "Type of the condition; unique in the list.",
                "type": "string",
                "maxLength": _MAX_KEY,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                rf"(([A-Za-z0-9][-A-Za-z0-9_.]{{0,{LABEL_LIMIT - 2}}})?[A-Za-z0-9])$",
            },
            "status": {
                "description": "Whether it holds.",
                "type": "string",
                "enum": ["True", "False", "Unknown"],
            },
            "observedGeneration": {
                "description": "Generation of the spec this was observed of.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "lastTransitionTime": {
                "description": "When the status last changed.",
                "type": "string",
                "format": "date-time",
                # The zero time of Go.
                "x-kubernetes-validations": [
                    rule("self != timestamp('0001-01-01T00:00:00Z')", "must not be empty", reason="Required")
                ],
            },
            "reason": {
                "description": "Reason in one CamelCase word.",
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_REASON,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "message": {
                "description": "Human-readable reason.",
                "type": "string",
                "maxLength": MAX_MESSAGE,
            },
        },
        required=["type", "status", "lastTransitionTime", "reason"],
    )
