"""Workload: its tables for each version, and the rules over all of its templates.

The Priority plugin does not read Workloads: a template's class need not exist, and its integer need not be
the class's.
"""

from podium.api.minors import GROUP_APIS
from podium.groups.trees import MAX_TEMPLATES
from podium.minors.minor import COMPOSITE, GroupApi
from podium.rules import checks, names, templates
from podium.rules.context import KindRules, RuleContext
from podium.rules.decoding import objects, pointer, text
from podium.rules.fields import FieldError, refusal
from podium.rules.groupspec import GATE_OFF, drop_fields, kind_shape, required_text
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

CONTROLLER = refusal(
    "controller-reference",
    title="Incomplete controller reference",
    why="It names the object that the Workload represents.",
    source="Kubernetes API server: W14",
    fix="Set kind and name, and the apiGroup unless it is the core group.",
)
RULES = (*templates.RULES, CONTROLLER.rule)


def _controller(api: GroupApi) -> Field:
    shape = StructSchema(
        "TypedLocalObjectReference",
        (
            text(
                "apiGroup",
                stops=(optional,),
                checks=(checks.spelled(CONTROLLER, names.dns_subdomain),),
                description="Its API group; empty for the core group.",
            ),
            required_text("kind", CONTROLLER, names.path_segment, "Its kind."),
            required_text("name", CONTROLLER, names.path_segment, "Its name, in the same namespace."),
        ),
    )
    go = f"{api.version}.TypedLocalObjectReference"
    about = "Object that the Workload represents."
    return pointer("controllerRef", shape, go, stops=(checks.immutable(FIXED), optional), description=about)


def _spec(api: GroupApi) -> StructSchema:
    limit = checks.max_items(TEMPLATES, MAX_TEMPLATES)
    same = checks.no_add_no_remove(FIXED, "name")
    older, version = api.older, api.version
    leaves = objects(
        LEAVES,
        TEMPLATE[api],
        f"{version}.PodGroupTemplate",
        key="name",
        always=True,
        stops=(checks.immutable(FIXED), limit, checks.required(TEMPLATES))
        if older
        else (limit, optional, same),
        checks=(checks.unique(TEMPLATES, "name"),),
        description="Templates that groups may be created from.",
    )
    about = "Templates of the pod groups of one workload."
    if older:
        return StructSchema("WorkloadSpec", (_controller(api), leaves), description=about)
    composites = objects(
        COMPOSITES,
        COMPOSITE_TEMPLATE[api],
        f"{version}.CompositePodGroupTemplate",
        key="name",
        gate=COMPOSITE,
        stops=(checks.gated(COMPOSITE, GATE_OFF), optional, limit, same),
        checks=(checks.unique(TEMPLATES, "name"),),
        description="Templates of composite groups.",
    )
    return StructSchema(
        "WorkloadSpec",
        (_controller(api), leaves, composites),
        checks=(checks.union(TEMPLATES, LEAVES, COMPOSITES),),
        description=about,
    )


SPECS = {api: _spec(api) for api in GROUP_APIS}
SHAPES = {api: kind_shape("Workload", api.version, SPECS[api]) for api in GROUP_APIS}


def prepare(context: RuleContext, new: Document, old: Document | None) -> None:
    """Drop gated fields, of the templates too."""
    stored = None if old is None else old["spec"]
    drop_fields(context, SPECS[context.api], "spec", new["spec"], stored)
    drop_in_templates(context, new["spec"], stored)


def check(context: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in a Workload's spec: the rules over all templates, on update too, then the table."""
    spec = new["spec"]
    stored = None if old is None else old["spec"]
    errors: list[FieldError] = []
    if not context.api.older:
        # Podium serves both versions of its kinds, so a v1alpha2 object may break this rule and still be
        # updated.
        may_differ = stored is not None and not context.native and unlike_priority(context.api, stored)
        errors = check_tree(context.api, spec, create=stored is None, compare=not may_differ)
    return errors + validate(SPECS[context.api], "spec", spec, stored, context.write)


KIND = KindRules("workloads", SHAPES, check, prepare, has_status=False)
