"""Workload: its tables for each version, and the rule over all templates that 1.37 added.

The Priority plugin does not read Workloads: a template's class need not exist, and its integer need not be
the class's.
"""

from podium.rules import fields, metadata, names
from podium.rules.checks import (
    gated,
    immutable,
    max_items,
    no_add_no_remove,
    required,
    spelled,
    union,
    unique,
)
from podium.rules.context import COMPOSITE, RuleContext
from podium.rules.decoding import objects, pointer, struct, text
from podium.rules.fields import FieldError, refusal
from podium.rules.groupspec import (
    GATE_OFF,
    claims,
    constraints,
    disruption_mode,
    policy,
    preemption_policy,
    priority_fields,
)
from podium.rules.schema import Check, Document, Field, StructSchema, drop_gated, optional, validate

PLURAL = "workloads"
NAMESPACED = True
HAS_STATUS = False
MAX_TEMPLATES = 8

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
CONTROLLER = refusal(
    "controller-reference",
    title="Incomplete controller reference",
    why="It names the object that the Workload represents.",
    source="Kubernetes API server: W14",
    fix="Set kind and name, and the apiGroup unless it is the core group.",
)
RULES = (FIXED.rule, TEMPLATES.rule, TEMPLATE_NAME.rule, UNLIKE.rule, CONTROLLER.rule)


def _template(version: str) -> StructSchema:
    older = version == "v1alpha2"
    fixed: tuple[Check, ...] = () if older else (immutable(FIXED),)
    name = text(
        "name",
        always=True,
        stops=(required(TEMPLATE_NAME),),
        checks=(spelled(TEMPLATE_NAME, names.dns_label),),
    )
    listed = (
        name,
        policy(version, (), fixed_inside=not older),
        constraints(version, fixed, always=True),
        claims(version, FIXED),
        disruption_mode(version, fixed, defaulted=False),
        *priority_fields(fixed),
    )
    return StructSchema("PodGroupTemplate", listed if older else (*listed, preemption_policy(version, FIXED)))


def _controller(version: str) -> Field:
    segment = (spelled(CONTROLLER, names.path_segment),)
    shape = StructSchema(
        "TypedLocalObjectReference",
        (
            text("apiGroup", stops=(optional,), checks=(spelled(CONTROLLER, names.dns_subdomain),)),
            text("kind", always=True, stops=(required(CONTROLLER),), checks=segment),
            text("name", always=True, stops=(required(CONTROLLER),), checks=segment),
        ),
    )
    go = f"{version}.TypedLocalObjectReference"
    return pointer("controllerRef", shape, go, stops=(immutable(FIXED), optional))


def _spec(version: str) -> StructSchema:
    go = f"{version}.PodGroupTemplate"
    limit = max_items(TEMPLATES, MAX_TEMPLATES)
    distinct = (unique(TEMPLATES, "name"),)
    if version == "v1alpha2":
        stops = (immutable(FIXED), limit, required(TEMPLATES))
        templates = objects(
            "podGroupTemplates", TEMPLATE[version], go, key="name", always=True, stops=stops, checks=distinct
        )
        return StructSchema("WorkloadSpec", (_controller(version), templates))
    templates = objects(
        "podGroupTemplates",
        TEMPLATE[version],
        go,
        key="name",
        always=True,
        stops=(limit, optional, no_add_no_remove(FIXED, "name")),
        checks=distinct,
    )
    # Behind a gate that is off: decoded as objects and dropped, but never read.
    composites = objects(
        "compositePodGroupTemplates",
        StructSchema("CompositePodGroupTemplate", (), opened=True),
        f"{version}.CompositePodGroupTemplate",
        gate=COMPOSITE,
        stops=(gated(COMPOSITE, GATE_OFF),),
    )
    return StructSchema(
        "WorkloadSpec",
        (_controller(version), templates, composites),
        checks=(union(TEMPLATES, "podGroupTemplates", "compositePodGroupTemplates"),),
    )


VERSIONS = ("v1alpha2", "v1alpha3", "v1beta1")
TEMPLATE = {version: _template(version) for version in VERSIONS}
SPECS = {version: _spec(version) for version in VERSIONS}
SHAPES = {
    version: StructSchema(
        "Workload",
        (
            text("apiVersion"),
            text("kind"),
            struct("metadata", metadata.OBJECT_META, "v1.ObjectMeta"),
            struct("spec", SPECS[version], f"{version}.WorkloadSpec"),
        ),
    )
    for version in VERSIONS
}


def shape(version: str) -> StructSchema:
    """Return the table of one version."""
    return SHAPES[version]


def default(_document: Document, _version: str) -> None:
    """Do nothing: decoding sets no defaults, so a template's mode stays absent."""


def mutate(_case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no plugin changes a Workload."""


def prepare(case: RuleContext, new: Document, old: Document | None) -> None:
    """Drop gated fields template by template; the server pairs templates by position, not by name."""
    gates = case.write.gates
    stored = (None if old is None else old["spec"]["podGroupTemplates"]) or []
    for index, template in enumerate(new["spec"]["podGroupTemplates"] or ()):
        counterpart = stored[index] if index < len(stored) else None
        for name in drop_gated(TEMPLATE[case.version], template, counterpart, gates):
            case.dropped(f"spec.podGroupTemplates[{index}].{name}")
    for name in drop_gated(SPECS[case.version], new["spec"], None if old is None else old["spec"], gates):
        case.dropped(f"spec.{name}")


def check(case: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in a Workload's spec: the rule over all templates, on update too, then the table."""
    spec = new["spec"]
    stored = None if old is None else old["spec"]
    errors: list[FieldError] = []
    # Podium serves both versions of its kinds, so a v1alpha2 object may break this rule and still be updated.
    was_unlike = not case.native and stored is not None and _unlike_priority(stored["podGroupTemplates"])
    if case.version != "v1alpha2" and not was_unlike and _unlike_priority(spec["podGroupTemplates"]):
        errors.append(fields.invalid(UNLIKE, "spec", None, "detected multiple priority configurations"))
    return errors + validate(SPECS[case.version], "spec", spec, stored, case.write)


def judge(_case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no plugin refuses a Workload."""


def _unlike_priority(templates: list[Document] | None) -> bool:
    """Return whether class names and integers, present or absent, differ among the templates."""
    priorities = {
        (template.get("priorityClassName"), template.get("priority")) for template in templates or ()
    }
    return len(priorities) > 1
