"""The templates of a Workload: of groups, and from 1.37 on of composite groups, which form a tree.

The tables hold the checks of single templates. The rules over the whole tree are code, as in the API server,
which runs them before the tables and on every update.
"""

from collections.abc import Iterator
from typing import Any

from podium.groups.trees import MAX_DEPTH, MAX_TEMPLATES
from podium.rules import fields, names
from podium.rules.checks import max_items, no_add_no_remove, unique
from podium.rules.context import COMPOSITE, RuleContext
from podium.rules.decoding import objects
from podium.rules.fields import FieldError, RuleRemedy, refusal
from podium.rules.groupspec import NEWER, OLDER, VERSIONS, drop_fields, group_fields, required_text
from podium.rules.schema import Document, Field, StructSchema, by_key, optional

LEAVES, COMPOSITES = "podGroupTemplates", "compositePodGroupTemplates"

FIXED = refusal(
    "workload-immutable",
    title="Immutable field of a Workload changed",
    why="Groups may already exist for the templates.",
    source="Kubernetes API server: W15, W16",
    fix="Send the stored value back (kubectl apply does), or create another Workload.",
)
TEMPLATES = refusal(
    "workload-templates",
    title="Not 1 to 8 templates with distinct names",
    why="A Workload consists of its templates, and groups name them.",
    source="Kubernetes API server: W2",
    fix="Set 1 to 8 spec.podGroupTemplates with distinct names.",
)
TEMPLATE_NAME = refusal(
    "template-name",
    title="Invalid template name",
    why="The template's name is part of the names of its groups.",
    source="Kubernetes API server: W3",
    fix="Use lower case letters, digits and dashes, at most 63 characters.",
)
UNLIKE = refusal(
    "templates-unlike-priority",
    title="Templates with different priorities",
    why="From 1.37 on all groups of a Workload have one priority.",
    source="Kubernetes API server: W10",
    fix="Use the same priorityClassName and priority in all templates, or split the Workload.",
)
TREE = refusal(
    "template-tree",
    title="Invalid tree of composite templates",
    why="Each composite template has children, and a tree has at most 4 levels with its PodGroup templates.",
    source="Kubernetes API server: C4",
    fix="Give every composite template a child, and nest at most 3 of them.",
)
_REPEATED = RuleRemedy(TEMPLATES.rule, "Use each name for one template of the Workload only.")
RULES = (FIXED.rule, TEMPLATES.rule, TEMPLATE_NAME.rule, UNLIKE.rule, TREE.rule)


def _name() -> Field:
    return required_text("name", TEMPLATE_NAME, names.dns_label, "Name of the template in the Workload.")


def _template(version: str) -> StructSchema:
    but = "" if version == OLDER else ", fixed but for a gang's minCount"
    return StructSchema(
        "PodGroupTemplate",
        (_name(), *group_fields(version, FIXED, template=True)),
        description=f"A template of pod groups{but}.",
    )


def _composite(version: str) -> StructSchema:
    def children(name: str, shape: StructSchema, about: str) -> Field:
        return objects(
            name,
            shape,
            f"{version}.{shape.go}",
            key="name",
            stops=(max_items(TEMPLATES, MAX_TEMPLATES), optional, no_add_no_remove(FIXED, "name")),
            checks=(unique(TEMPLATES, "name"),),
            description=about,
        )

    return StructSchema(
        "CompositePodGroupTemplate",
        (
            _name(),
            *group_fields(version, FIXED, template=True, composite=True),
            children(LEAVES, TEMPLATE[version], "Templates of child groups."),
        ),
        within=lambda itself: children(COMPOSITES, itself, "Templates of composite groups."),
        description="A template of composite groups.",
    )


TEMPLATE = {version: _template(version) for version in VERSIONS}
COMPOSITE_TEMPLATE = {version: _composite(version) for version in NEWER}


def drop_in_templates(case: RuleContext, spec: Document, stored: Document | None) -> None:
    """Drop gated fields of templates; the server pairs leaves by position, and composites by name."""
    _drop(case, "spec", spec, stored or {})


def _drop(case: RuleContext, path: str, new: Document, old: Document) -> None:
    stored = old.get(LEAVES) or []
    for index, template in enumerate(new.get(LEAVES) or ()):
        counterpart = stored[index] if index < len(stored) else None
        drop_fields(case, TEMPLATE[case.version], f"{path}.{LEAVES}[{index}]", template, counterpart)
    named = by_key(old.get(COMPOSITES), "name")
    for index, template in enumerate(new.get(COMPOSITES) or ()):
        here = f"{path}.{COMPOSITES}[{index}]"
        counterpart = named.get(template["name"])
        drop_fields(case, COMPOSITE_TEMPLATE[case.version], here, template, counterpart)
        before = counterpart or {}
        if (
            COMPOSITE not in case.write.gates
            and not before.get(COMPOSITES)
            and template.pop(COMPOSITES, None)
        ):
            case.dropped(f"{here}.{COMPOSITES}")
        _drop(case, here, template, before)


def check_tree(spec: Document, *, compare: bool) -> list[FieldError]:
    """Return errors over all templates; the priorities count only if they are to be compared."""
    errors = list(_repeated(spec, "spec", {leaf["name"] for leaf in spec.get(LEAVES) or ()}))
    for index, root in enumerate(spec.get(COMPOSITES) or ()):
        if _levels(root) >= MAX_DEPTH:
            shown = [_internal(COMPOSITE_TEMPLATE["v1beta1"], each) for each in root[COMPOSITES]]
            detail = f"maximum template hierarchy depth is {MAX_DEPTH}"
            errors.append(fields.invalid(TREE, f"spec.{COMPOSITES}[{index}]", shown, detail))
    detail = unlike_priority(spec) if compare else ""
    if detail:
        errors.append(fields.invalid(UNLIKE, "spec", None, detail))
    return [*errors, *_childless(spec, "spec")]


def unlike_priority(spec: Document) -> str:
    """Return the server's words if class names or integers, present or absent, differ; else nothing."""
    leaves = [_priority(leaf) for leaf in spec.get(LEAVES) or ()]
    if len(set(leaves)) > 1:
        return "detected multiple priority configurations"
    if len({*leaves, *_priorities(spec)}) > 1:
        return "all priority and priorityClassName values must be identical, detected multiple values"
    return ""


def _priority(template: Document) -> tuple[Any, Any]:
    return template.get("priorityClassName"), template.get("priority")


def _priorities(parent: Document) -> Iterator[tuple[Any, Any]]:
    for child in parent.get(COMPOSITES) or ():
        yield _priority(child)
        yield from map(_priority, child.get(LEAVES) or ())
        yield from _priorities(child)


def _repeated(parent: Document, path: str, seen: set[str]) -> Iterator[FieldError]:
    """Yield errors for names of another list; the table has those of one list. `seen` grows."""
    children = parent.get(COMPOSITES) or ()
    yield from _known(children, f"{path}.{COMPOSITES}", seen)
    for index, child in enumerate(children):
        here = f"{path}.{COMPOSITES}[{index}]"
        yield from _known(child.get(LEAVES) or (), f"{here}.{LEAVES}", seen)
        yield from _repeated(child, here, seen)


def _known(items: Any, path: str, seen: set[str]) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        if item["name"] in seen:
            yield fields.duplicate(_REPEATED, f"{path}[{index}].name", item["name"])
    seen.update(item["name"] for item in items)


def _levels(composite: Document) -> int:
    """Return the number of composite templates on the longest way down."""
    return 1 + max(map(_levels, composite.get(COMPOSITES) or ()), default=0)


def _childless(parent: Document, path: str) -> Iterator[FieldError]:
    for index, child in enumerate(parent.get(COMPOSITES) or ()):
        here = f"{path}.{COMPOSITES}[{index}]"
        if not child.get(LEAVES) and not child.get(COMPOSITES):
            detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            yield fields.invalid(TREE, here, child["name"], detail)
        yield from _childless(child, here)


def _internal(shape: StructSchema, value: Document) -> Document:
    """Return an object as Go marshals the server's internal type: all fields, with their Go names."""
    return {f"{field.name[0].upper()}{field.name[1:]}": _inside(field, value) for field in shape.fields}


def _inside(field: Field, parent: Document) -> Any:
    value = parent.get(field.name)
    if field.many:
        assert field.shape is not None
        return [_internal(field.shape, each) for each in value] if value else None
    if field.shape is None:
        return (None if field.pointer else field.zero) if value is None else value
    if value is None:
        return None if field.pointer else _internal(field.shape, {})
    return _internal(field.shape, value)
