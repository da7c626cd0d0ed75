"""Workload: its tables for each version, and the rules over all of its templates.

The Priority plugin does not read Workloads: a template's class need not exist, and its integer need not be
the class's.
"""

from podium.groups.trees import MAX_TEMPLATES
from podium.rules import names, templates
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
from podium.rules.decoding import objects, pointer, text
from podium.rules.fields import FieldError, refusal
from podium.rules.groupspec import GATE_OFF, OLDER, VERSIONS, drop_fields, kind_shape, required_text
from podium.rules.schema import Document, Field, StructSchema, optional, validate
from podium.rules.templates import (
    COMPOSITE_TEMPLATE,
    COMPOSITES,
    FIXED,
    LEAVES,
    TEMPLATE,
    TEMPLATES,
    check_tree,
    drop_in_templates,
    unlike_priority,
)

PLURAL = "workloads"
NAMESPACED = True
HAS_STATUS = False

CONTROLLER = refusal(
    "controller-reference",
    title="Incomplete controller reference",
    why="It names the object that the Workload represents.",
    source="Kubernetes API server: W14",
    fix="Set kind and name, and the apiGroup unless it is the core group.",
)
RULES = (*templates.RULES, CONTROLLER.rule)


def _controller(version: str) -> Field:
    shape = StructSchema(
        "TypedLocalObjectReference",
        (
            text(
                "apiGroup",
                stops=(optional,),
                checks=(spelled(CONTROLLER, names.dns_subdomain),),
                description="Its API group; empty for the core group.",
            ),
            required_text("kind", CONTROLLER, names.path_segment, "Its kind."),
            required_text("name", CONTROLLER, names.path_segment, "Its name, in the same namespace."),
        ),
    )
    go = f"{version}.TypedLocalObjectReference"
    about = "Object that the Workload represents."
    return pointer("controllerRef", shape, go, stops=(immutable(FIXED), optional), description=about)


def _spec(version: str) -> StructSchema:
    limit = max_items(TEMPLATES, MAX_TEMPLATES)
    same = no_add_no_remove(FIXED, "name")
    older = version == OLDER
    leaves = objects(
        LEAVES,
        TEMPLATE[version],
        f"{version}.PodGroupTemplate",
        key="name",
        always=True,
        stops=(immutable(FIXED), limit, required(TEMPLATES)) if older else (limit, optional, same),
        checks=(unique(TEMPLATES, "name"),),
        description="Templates that groups may be created from.",
    )
    about = "Templates of the pod groups of one workload."
    if older:
        return StructSchema("WorkloadSpec", (_controller(version), leaves), description=about)
    composites = objects(
        COMPOSITES,
        COMPOSITE_TEMPLATE[version],
        f"{version}.CompositePodGroupTemplate",
        key="name",
        gate=COMPOSITE,
        stops=(gated(COMPOSITE, GATE_OFF), optional, limit, same),
        checks=(unique(TEMPLATES, "name"),),
        description="Templates of composite groups.",
    )
    return StructSchema(
        "WorkloadSpec",
        (_controller(version), leaves, composites),
        checks=(union(TEMPLATES, LEAVES, COMPOSITES),),
        description=about,
    )


SPECS = {version: _spec(version) for version in VERSIONS}
SHAPES = {version: kind_shape("Workload", version, SPECS[version]) for version in VERSIONS}


def shape(version: str) -> StructSchema:
    """Return the table of one version."""
    return SHAPES[version]


def default(_document: Document, _version: str, _gates: frozenset[str]) -> None:
    """Do nothing: decoding sets no defaults, so a template's mode stays absent."""


def mutate(_case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no plugin changes a Workload."""


def prepare(case: RuleContext, new: Document, old: Document | None) -> None:
    """Drop gated fields, of the templates too."""
    stored = None if old is None else old["spec"]
    drop_fields(case, SPECS[case.version], "spec", new["spec"], stored)
    drop_in_templates(case, new["spec"], stored)


def check(case: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in a Workload's spec: the rules over all templates, on update too, then the table."""
    spec = new["spec"]
    stored = None if old is None else old["spec"]
    errors: list[FieldError] = []
    if case.version != OLDER:
        # Podium serves both versions of its kinds, so a v1alpha2 object may break this rule and still be
        # updated.
        was_unlike = not case.native and stored is not None and bool(unlike_priority(stored))
        errors = check_tree(spec, compare=not was_unlike)
    return errors + validate(SPECS[case.version], "spec", spec, stored, case.write)


def judge(_case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no plugin refuses a Workload."""
