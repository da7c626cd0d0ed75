"""The parts of the custom resources' schemas: fields, limits, unions, and which fields an update may change.

CEL expresses the rules that the OpenAPI subset of a CRD cannot express with upstream's message. Three
properties of CEL decide the form. A rule with oldSelf does not run when its field is added or removed, so an
immutable field is compared at its parent. Lists with map keys are equal in any order, so their order is
compared too. The API server estimates the cost of a rule from limits, so every list and text has a limit.
Optionals (`?.`) are not used, because their size is unknown to it.
"""

from collections.abc import Sequence
from typing import Any

from podium.api.convert import PREEMPTION_POLICIES
from podium.api.groups import DisruptionMode
from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.groups.trees import MAX_DEPTH, MAX_TEMPLATES
from podium.rules.conditions import MAX_MESSAGE, MAX_REASON
from podium.rules.groupspec import MAX_CLAIMS
from podium.rules.names import LABEL_LIMIT, SUBDOMAIN_LIMIT
from podium.rules.templates import COMPOSITES, LEAVES

Schema = dict[str, Any]
Rule = dict[str, str]

IMMUTABLE = "field is immutable"
NOT_EMPTY = {"rule": "size(self) > 0", "message": "must not be empty", "reason": "FieldValueRequired"}
_MAX_TOPOLOGY = 1
# A prefix, a slash and a name.
_MAX_KEY = SUBDOMAIN_LIMIT + 1 + LABEL_LIMIT
_INT32 = {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1}
# Immutable fields of pod groups and templates whose empty value differs from an absent field.
_STRUCTS = ("schedulingConstraints", "disruptionMode", "priority")


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
        **({"x-kubernetes-validations": list(rules)} if rules else {}),
    }


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


def equal(field: str, one: str = "self", other: str = "oldSelf") -> str:
    """Return CEL that is true if an optional field is equal in two objects or absent in both."""
    here, there = f"{one}.{field}", f"{other}.{field}"
    return f"has({here}) == has({there}) && (!has({here}) || {here} == {there})"


def equal_plain(field: str, one: str = "self", other: str = "oldSelf", *, named: bool = False) -> str:
    """Return the same for a text or list whose empty value counts as absent.

    The order of a list counts only if its items are `named`.
    """
    here, there = f"{one}.{field}", f"{other}.{field}"
    order = f" && {here}.map(i, i.name) == {there}.map(i, i.name)" if named else ""
    filled = f"(has({here}) && size({here}) > 0) == (has({there}) && size({there}) > 0)"
    return f"{filled} && (!has({here}) || !has({there}) || {here} == {there}{order})"


def fixed(field: str, same: str) -> Rule:
    """Return a rule that refuses every update for which `same` is not true."""
    return rule(same, IMMUTABLE, f".{field}")


def only_one(*members: str) -> list[Rule]:
    """Return rules that allow exactly one set member of a union."""
    names = ", ".join(f"`{member}`" for member in members)
    rules = [rule(" || ".join(f"has(self.{member})" for member in members), f"must specify one of: {names}")]
    if len(members) > 1:
        both = " && ".join(f"has(self.{member})" for member in members)
        rules.append(rule(f"!({both})", f"must specify exactly one of: {names}"))
    return rules


def only_one_list(*members: str) -> list[Rule]:
    """Return rules that allow exactly one of some lists; an empty list counts as absent."""
    names = ", ".join(f"`{member}`" for member in members)
    filled = [f"(has(self.{member}) && size(self.{member}) > 0)" for member in members]
    return [
        rule(" || ".join(filled), f"must specify one of: {names}"),
        rule(f"!({' && '.join(filled)})", f"must specify exactly one of: {names}"),
    ]


def optional_text(schema: Schema) -> Schema:
    """Return a schema in which an empty text counts as absent, as in upstream's fields without pointers."""
    rules: list[Rule] = schema["x-kubernetes-validations"]
    filled = [{**one, "rule": f"self == '' || {one['rule']}"} for one in rules]
    return {**schema, "x-kubernetes-validations": filled}


def required_text(schema: Schema) -> Schema:
    """Return a schema that refuses an empty text as missing, with that one message, as upstream does."""
    filled = optional_text(schema)
    return {**filled, "x-kubernetes-validations": [NOT_EMPTY, *filled["x-kubernetes-validations"]]}


def subdomain(description: str) -> Schema:
    """Return the schema of an object's name."""
    return _text_schema(description, SUBDOMAIN_LIMIT, [_valid("dns1123Subdomain")])


def label(description: str) -> Schema:
    """Return the schema of a short name."""
    return _text_schema(description, LABEL_LIMIT, [_valid("dns1123Label")])


def segment(description: str) -> Schema:
    """Return the schema of a name that is part of a URL; upstream has no length limit."""
    rules = [rule(f"self != '{dots}'", f"may not be '{dots}'") for dots in (".", "..")]
    rules += [rule(f"!self.contains('{char}')", f"may not contain '{char}'") for char in "/%"]
    return _text_schema(description, SUBDOMAIN_LIMIT, rules)


def _text_schema(description: str, limit: int, rules: list[Rule]) -> Schema:
    schema: Schema = {"description": description, "type": "string", "maxLength": limit}
    return {**schema, "x-kubernetes-validations": rules}


def _valid(form: str) -> Rule:
    """Return a rule that checks a format of the CEL library, whose messages are those of upstream."""
    check = f"format.{form}().validate(self)"
    return {"rule": f"!{check}.hasValue()", "messageExpression": f"{check}.value()[0]"}


def group_fields(*, newer: bool) -> dict[str, Schema]:
    """Return the fields that a pod group and a template have in common.

    The disruption mode has no default in the schema. Otherwise the webhook could not detect an omitted mode,
    which a group takes from its template. The webhook sets the default itself.
    """
    priority_limit = f"must be less than or equal to {HIGHEST_USER_PRIORITY}"
    fields: dict[str, Schema] = {
        "schedulingPolicy": _policy_schema(newer=newer),
        "schedulingConstraints": _constraints(),
        "resourceClaims": items("Claims that the pods of the group share.", _claim(), MAX_CLAIMS),
        "disruptionMode": _disruption_mode(newer=newer),
        "priorityClassName": optional_text(subdomain("PriorityClass that gives the priority.")),
        "priority": {
            "description": "Priority of the whole group, the value of its class.",
            **_INT32,
            "x-kubernetes-validations": [rule(f"self <= {HIGHEST_USER_PRIORITY}", priority_limit)],
        },
    }
    if newer:
        fields["preemptionPolicy"] = {
            "description": "Whether the group may preempt.",
            "type": "string",
            "enum": list(PREEMPTION_POLICIES),
        }
    return fields


def composite_fields() -> dict[str, Schema]:
    """Return the fields that a composite group and its template have in common."""
    fields = {name: schema for name, schema in group_fields(newer=True).items() if name != "resourceClaims"}
    return {**fields, "schedulingPolicy": _policy_schema(newer=False, composite=True)}


def composite_rules() -> list[Rule]:
    """Return rules that make a composite group's fields immutable, its whole policy too."""
    policy = fixed("schedulingPolicy", "self.schedulingPolicy == oldSelf.schedulingPolicy")
    structs = [fixed(field, equal(field)) for field in (*_STRUCTS, "preemptionPolicy")]
    return [policy, *structs, fixed("priorityClassName", equal_plain("priorityClassName"))]


def composite_templates(leaf: Schema) -> Schema:
    """Return the schema of a Workload's composite templates, which may nest below each other.

    A schema cannot refer to itself, so the levels are written out. It has types and limits only: the cost of
    rules would count once for each of the 4,096 leaves. The webhook has the rules.
    """
    within: Schema = {
        "description": "None: a tree has no more levels.",
        "type": "array",
        "maxItems": MAX_TEMPLATES,
        "items": {
            "description": "None.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "x-kubernetes-validations": [
            rule("size(self) == 0", f"maximum template hierarchy depth is {MAX_DEPTH}")
        ],
    }
    leaves = _without_rules(items("Templates of child groups.", leaf, MAX_TEMPLATES))
    common = _without_rules({"name": label("Name of the template in the Workload."), **composite_fields()})
    for _ in range(MAX_DEPTH - 1):
        template = struct(
            "A template of composite groups.",
            {**common, LEAVES: leaves, COMPOSITES: within},
            required=["name", "schedulingPolicy"],
        )
        within = items("Templates of composite groups.", template, MAX_TEMPLATES)
    return within


def _without_rules(schema: Any) -> Any:
    if isinstance(schema, dict):
        kept = schema.items()
        return {key: _without_rules(value) for key, value in kept if key != "x-kubernetes-validations"}
    return [_without_rules(each) for each in schema] if isinstance(schema, list) else schema


def group_rules(*, newer: bool) -> list[Rule]:
    """Return rules that make the common fields immutable.

    v1beta1 allows changes inside the policy.
    """
    policy = fixed("schedulingPolicy", "self.schedulingPolicy == oldSelf.schedulingPolicy")
    structs = (*_STRUCTS, "preemptionPolicy") if newer else _STRUCTS
    return [
        *([] if newer else [policy]),
        *(fixed(field, equal(field)) for field in structs),
        fixed("resourceClaims", equal_plain("resourceClaims", named=True)),
        fixed("priorityClassName", equal_plain("priorityClassName")),
    ]


def _policy_schema(*, newer: bool, composite: bool = False) -> Schema:
    least, what = ("minGroupCount", "child groups") if composite else ("minCount", "pods")
    count = {
        "description": f"Number of {what} that must run at once.",
        **_INT32,
        "x-kubernetes-validations": [
            rule("self != 0", "must be greater than or equal to 1", reason="Required"),
            rule("self >= 0", "must be greater than or equal to 1"),
        ],
    }
    change = [
        rule("has(self.basic) == has(oldSelf.basic)", IMMUTABLE, ".basic"),
        rule("!has(self.gang) || has(oldSelf.gang)", "field cannot be set once created", ".gang"),
        rule("has(self.gang) || !has(oldSelf.gang)", "field cannot be cleared once set", ".gang"),
    ]
    return struct(
        f"How the {what} are scheduled.",
        {
            "basic": struct("One by one.", {}),
            "gang": struct(f"All or nothing, up to {least}.", {least: count}, required=[least]),
        },
        rules=[*only_one("basic", "gang"), *(change if newer else [])],
    )


def _constraints() -> Schema:
    key = _text_schema("Node label whose values are the domains.", _MAX_KEY, [_valid("qualifiedName")])
    topology = {
        "description": "Topology domains of the group.",
        "type": "array",
        "maxItems": _MAX_TOPOLOGY,
        "items": struct(
            "All pods go into one domain of this label.", {"key": required_text(key)}, required=["key"]
        ),
        "x-kubernetes-list-type": "atomic",
    }
    return struct("Topology constraints of the pods.", {"topology": topology})


def _claim() -> Schema:
    return struct(
        "A claim by name, or made from a template.",
        {
            "name": required_text(label("Name of the claim in the group.")),
            "resourceClaimName": subdomain("ResourceClaim in the same namespace."),
            "resourceClaimTemplateName": subdomain("ResourceClaimTemplate in the same namespace."),
        },
        required=["name"],
        rules=only_one("resourceClaimName", "resourceClaimTemplateName"),
    )


def _disruption_mode(*, newer: bool) -> Schema:
    text = "Whether preemption evicts single pods or the whole group."
    if not newer:
        modes = [mode.value for mode in DisruptionMode]
        return {"description": text, "type": "string", "enum": modes}
    single, whole = struct("Single pods are preempted.", {}), struct("The whole group is preempted.", {})
    return struct(text, {"single": single, "all": whole}, rules=only_one("single", "all"))


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


def claim_status() -> Schema:
    """Return the schema of the status of a claim."""
    return struct(
        "Status of a claim.",
        {
            "name": required_text(label("Name of the claim in the group.")),
            "resourceClaimName": subdomain("ResourceClaim that was made."),
        },
        required=["name"],
    )
