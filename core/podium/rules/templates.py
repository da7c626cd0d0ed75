"""The templates of a Workload: of groups, and from 1.37 on of composite groups, which form a tree.

The tables hold the checks of single templates. The rules over the whole tree are code, as in the API server,
which runs them before the tables and on every update.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from podium.api.minors import GROUP_APIS
from podium.groups.trees import MAX_DEPTH, MAX_TEMPLATES
from podium.minors.minor import COMPOSITE, GroupApi
from podium.rules import fields, names
from podium.rules.checks import max_items, no_add_no_remove, unique
from podium.rules.context import RuleContext
from podium.rules.decoding import objects
from podium.rules.fields import FieldError, RuleRemedy, refusal
from podium.rules.groupspec import (
    NEWER_APIS,
    drop_fields,
    group_fields,
    is_gang,
    is_whole,
    required_text,
    whole_without_gang,
)
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
    why="From 1.37 on all groups of a Workload have one priority, from 1.38 on one preemption policy too.",
    source="Kubernetes API server: W10",
    fix="Use the same priorityClassName, priority and preemptionPolicy in all templates, or split the "
    "Workload.",
)
TREE = refusal(
    "template-tree",
    title="Invalid tree of composite templates",
    why="Each composite template has children, and a tree has at most 4 levels with its PodGroup templates.",
    source="Kubernetes API server: C4",
    fix="Give every composite template a child, and nest at most 3 of them.",
)
CHILD = refusal(
    "template-unlike-parent",
    title="Child template without its parent's gang or mode all",
    why="From 1.38 on a gang has only gangs as children, and a template of mode all only children of mode "
    "all. A stored Workload that breaks this accepts no update.",
    source="Kubernetes API server: validateCompositePodGroupTemplate, from 1.38 on",
    fix="Recreate the Workload with the parent's policy and mode in the child.",
)
_REPEATED = RuleRemedy(TEMPLATES.rule, "Use each name for one template of the Workload only.")
RULES = (FIXED.rule, TEMPLATES.rule, TEMPLATE_NAME.rule, UNLIKE.rule, TREE.rule, CHILD.rule)


def _name() -> Field:
    return required_text("name", TEMPLATE_NAME, names.dns_label, "Name of the template in the Workload.")


def _template(api: GroupApi) -> StructSchema:
    but = "" if api.older else ", fixed but for a gang's minCount"
    return StructSchema(
        "PodGroupTemplate",
        (_name(), *group_fields(api, FIXED, template=True)),
        description=f"A template of pod groups{but}.",
    )


def _composite(api: GroupApi) -> StructSchema:
    def children(name: str, shape: StructSchema, about: str) -> Field:
        return objects(
            name,
            shape,
            f"{api.version}.{shape.go}",
            key="name",
            stops=(max_items(TEMPLATES, MAX_TEMPLATES), optional, no_add_no_remove(FIXED, "name")),
            checks=(unique(TEMPLATES, "name"),),
            description=about,
        )

    return StructSchema(
        "CompositePodGroupTemplate",
        (
            _name(),
            *group_fields(api, FIXED, template=True, composite=True),
            children(LEAVES, TEMPLATE[api], "Templates of child groups."),
        ),
        within=lambda itself: children(COMPOSITES, itself, "Templates of composite groups."),
        description="A template of composite groups.",
    )


TEMPLATE = {api: _template(api) for api in GROUP_APIS}
COMPOSITE_TEMPLATE = {api: _composite(api) for api in NEWER_APIS}


def drop_in_templates(context: RuleContext, spec: Document, stored: Document | None) -> None:
    """Drop gated fields of templates; the server pairs leaves by position, and composites by name."""
    _drop(context, "spec", spec, stored or {})


def _drop(context: RuleContext, path: str, new: Document, old: Document) -> None:
    stored = old.get(LEAVES) or []
    for index, template in enumerate(new.get(LEAVES) or ()):
        counterpart = stored[index] if index < len(stored) else None
        drop_fields(context, TEMPLATE[context.api], f"{path}.{LEAVES}[{index}]", template, counterpart)
    named = by_key(old.get(COMPOSITES), "name")
    for index, template in enumerate(new.get(COMPOSITES) or ()):
        here = f"{path}.{COMPOSITES}[{index}]"
        counterpart = named.get(template["name"])
        drop_fields(context, COMPOSITE_TEMPLATE[context.api], here, template, counterpart)
        before = counterpart or {}
        if (
            COMPOSITE not in context.write.gates
            and not before.get(COMPOSITES)
            and template.pop(COMPOSITES, None)
        ):
            context.dropped(f"{here}.{COMPOSITES}")
        _drop(context, here, template, before)


def check_tree(api: GroupApi, spec: Document, *, create: bool, compare: bool) -> list[FieldError]:
    """Return errors over all templates; the priorities count only if they are to be compared.

    An update may keep policies that differ, and the mode all without a gang.
    """
    errors = list(_repeated(spec, "spec", {leaf["name"] for leaf in spec.get(LEAVES) or ()}))
    for index, root in enumerate(spec.get(COMPOSITES) or ()):
        if _levels(root) >= MAX_DEPTH:
            shown = [_internal(COMPOSITE_TEMPLATE[api], child) for child in root[COMPOSITES]]
            detail = f"maximum template hierarchy depth is {MAX_DEPTH}"
            errors.append(fields.invalid(TREE, f"spec.{COMPOSITES}[{index}]", shown, detail))
    detail = unlike_priority(api, spec, create=create) if compare else ""
    if detail:
        errors.append(fields.invalid(UNLIKE, "spec", None, detail))
    if create:
        for index, leaf in enumerate(spec.get(LEAVES) or ()):
            errors += whole_without_gang(api, leaf, f"spec.{LEAVES}[{index}]")
    for index, root in enumerate(spec.get(COMPOSITES) or ()):
        errors += _check_composite(api, root, f"spec.{COMPOSITES}[{index}]", create=create)
    return errors


def unlike_priority(api: GroupApi, spec: Document, *, create: bool = False) -> str:
    """Return the server's words if class names or integers, present or absent, differ; else nothing.

    New templates share their preemptionPolicy too, if the row says so.
    """
    policy = ("preemptionPolicy",) if api.one_policy and create else ()
    compared = ("priorityClassName", "priority", *policy)
    leaves = {_values(leaf, compared) for leaf in spec.get(LEAVES) or ()}
    if len(leaves) > 1 and not api.one_policy:
        return "detected multiple priority configurations"
    if len(leaves | {_values(template, compared) for template in _below(spec)}) < 2:
        return ""
    listed = "priority, priorityClassName, and preemptionPolicy"
    if not api.one_policy:
        listed = "priority and priorityClassName"
    return f"all {listed} values must be identical, detected multiple values"


def _values(template: Document, compared: Sequence[str]) -> tuple[Any, ...]:
    return tuple(template.get(name) for name in compared)


def _below(parent: Document) -> Iterator[Document]:
    """Yield the composite templates below a parent, and the templates in these."""
    for child in parent.get(COMPOSITES) or ():
        yield child
        yield from child.get(LEAVES) or ()
        yield from _below(child)


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


def _check_composite(api: GroupApi, parent: Document, path: str, *, create: bool) -> Iterator[FieldError]:
    """Yield the errors of a composite template and of those below it, in the server's order."""
    leaves, composites = parent.get(LEAVES) or (), parent.get(COMPOSITES) or ()
    if not leaves and not composites:
        detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        yield fields.invalid(TREE, path, parent["name"], detail)
    if create:
        yield from whole_without_gang(api, parent, path)
    for index, child in enumerate(composites):
        here = f"{path}.{COMPOSITES}[{index}]"
        yield from _unlike_parent(api, parent, child, here)
        yield from _check_composite(api, child, here, create=create)
    for index, leaf in enumerate(leaves):
        here = f"{path}.{LEAVES}[{index}]"
        yield from _unlike_parent(api, parent, leaf, here)
        if create:
            yield from whole_without_gang(api, leaf, here)


def _unlike_parent(api: GroupApi, parent: Document, child: Document, path: str) -> Iterator[FieldError]:
    if not api.strict_modes:
        return
    text = 'must have "{0}" {1} when parent compositePodGroupTemplate has "{0}" {1}'
    if is_gang(parent) and not is_gang(child):
        detail = text.format("gang", "scheduling policy")
        yield fields.invalid_field(CHILD, f"{path}.schedulingPolicy", detail)
    if is_whole(api, parent) and not is_whole(api, child):
        detail = text.format("all", "disruption mode")
        yield fields.invalid_field(CHILD, f"{path}.disruptionMode", detail)


def _internal(shape: StructSchema, value: Document) -> Document:
    """Return an object as Go marshals the server's internal type: all fields, with their Go names."""
    return {f"{field.name[0].upper()}{field.name[1:]}": _inside(field, value) for field in shape.fields}


def _inside(field: Field, parent: Document) -> Any:
    value = parent.get(field.name)
    if field.many:
        assert field.shape is not None
        return [_internal(field.shape, item) for item in value] if value else None
    if field.shape is None:
        return (None if field.pointer else field.zero) if value is None else value
    if value is None:
        return None if field.pointer else _internal(field.shape, {})
    return _internal(field.shape, value)
