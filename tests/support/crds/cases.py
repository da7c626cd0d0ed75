"""Good and bad PodGroups and Workloads, and updates of them, with the expected answer of the schema."""

from collections.abc import Sequence
from typing import Any, NamedTuple

Causes = Sequence[tuple[str, str]]

OLDER, NEWER = "v1alpha2", "v1beta1"
BOTH = (OLDER, NEWER)

GANG = {"gang": {"minCount": 2}}
BASIC: dict[str, Any] = {"basic": {}}
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and"
)
LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start"
IMMUTABLE = "field is immutable"
LIMIT = "must be less than or equal to 1000000000"
POSITIVE = "must be greater than or equal to 1"
POLICIES = "`basic`, `gang`"
MODES = "`single`, `all`"


class Case(NamedTuple):
    """A create, or an update if there is an `after`.

    `causes` are (field, part of the message) of every refusal, none for an accepted object. `upstream` are
    those of the native kind where they differ. A case is not `compared` if the test servers close its gate,
    if the Priority plugin answers before validation, or if Go refuses while decoding.
    """

    name: str
    kind: str
    versions: tuple[str, ...]
    spec: dict[str, Any]
    causes: Causes = ()
    after: dict[str, Any] | None = None
    upstream: Causes | None = None
    compared: bool = True


def group(**spec: Any) -> dict[str, Any]:
    return {"schedulingPolicy": GANG} | spec


def template(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"name": name, "schedulingPolicy": GANG} | spec


def workload(*templates: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"podGroupTemplates": list(templates)} | spec


def _ref(version: str, workload_name: str = "llm", template_name: str = "worker") -> dict[str, Any]:
    if version == OLDER:
        names = {"workloadName": workload_name, "podGroupTemplateName": template_name}
        return {"podGroupTemplateRef": {"workload": names}}
    return {"workloadRef": {"workloadName": workload_name, "templateName": template_name}}


T0 = "spec.podGroupTemplates[0]"
CLAIM = {"name": "gpu", "resourceClaimName": "gpu-1"}
CLAIM2 = {"name": "net", "resourceClaimTemplateName": "net"}
RACK = {"topology": [{"key": "example.com/rack"}]}

GROUPS = [
    Case("a gang", "PodGroup", BOTH, group()),
    Case("basic", "PodGroup", BOTH, group(schedulingPolicy=BASIC)),
    Case("an empty class is none", "PodGroup", BOTH, group(priorityClassName="")),
    Case(
        "no policy",
        "PodGroup",
        BOTH,
        {},
        [("spec.schedulingPolicy", "Required value")],
        upstream=[("spec.schedulingPolicy", f"must specify one of: {POLICIES}")],
    ),
    Case(
        "empty policy",
        "PodGroup",
        BOTH,
        group(schedulingPolicy={}),
        [("spec.schedulingPolicy", f"must specify one of: {POLICIES}")],
    ),
    Case(
        "two policies",
        "PodGroup",
        BOTH,
        group(schedulingPolicy=BASIC | GANG),
        [("spec.schedulingPolicy", f"must specify exactly one of: {POLICIES}")],
    ),
    Case(
        "minCount absent",
        "PodGroup",
        BOTH,
        group(schedulingPolicy={"gang": {}}),
        [("spec.schedulingPolicy.gang.minCount", "Required value")],
    ),
    Case(
        "minCount 0 is absent",
        "PodGroup",
        BOTH,
        group(schedulingPolicy={"gang": {"minCount": 0}}),
        [("spec.schedulingPolicy.gang.minCount", "Required value")],
    ),
    Case(
        "minCount negative",
        "PodGroup",
        BOTH,
        group(schedulingPolicy={"gang": {"minCount": -1}}),
        [("spec.schedulingPolicy.gang.minCount", POSITIVE)],
    ),
    Case(
        "priority above the limit",
        "PodGroup",
        (OLDER,),
        group(priority=10**9 + 1),
        [("spec.priority", LIMIT)],
        compared=False,
    ),
    Case(
        "priority above the limit of some minors",
        "PodGroup",
        (NEWER,),
        group(priority=10**9 + 1),
        compared=False,
    ),
    Case(
        "class that is no name",
        "PodGroup",
        BOTH,
        group(priorityClassName="Gold"),
        [("spec.priorityClassName", SUBDOMAIN)],
        compared=False,
    ),
    Case(
        "v1alpha2 unknown mode",
        "PodGroup",
        (OLDER,),
        group(disruptionMode="Sometimes"),
        [("spec.disruptionMode", 'supported values: "Pod", "PodGroup"')],
    ),
    Case(
        "v1beta1 no mode",
        "PodGroup",
        (NEWER,),
        group(disruptionMode={}),
        [("spec.disruptionMode", f"must specify one of: {MODES}")],
    ),
    Case(
        "v1beta1 two modes",
        "PodGroup",
        (NEWER,),
        group(disruptionMode={"single": {}, "all": {}}),
        [("spec.disruptionMode", f"must specify exactly one of: {MODES}")],
    ),
    Case(
        "v1alpha2 reference to nothing",
        "PodGroup",
        (OLDER,),
        group(podGroupTemplateRef={}),
        [("spec.podGroupTemplateRef", "must specify one of: `workload`")],
    ),
    Case(
        "v1alpha2 reference without names",
        "PodGroup",
        (OLDER,),
        group(podGroupTemplateRef={"workload": {}}),
        [
            ("spec.podGroupTemplateRef.workload.workloadName", "Required value"),
            ("spec.podGroupTemplateRef.workload.podGroupTemplateName", "Required value"),
        ],
    ),
    Case(
        "v1alpha2 reference to no names",
        "PodGroup",
        (OLDER,),
        group(**_ref(OLDER, "A", "a.b")),
        [
            ("spec.podGroupTemplateRef.workload.workloadName", SUBDOMAIN),
            ("spec.podGroupTemplateRef.workload.podGroupTemplateName", "must not contain dots"),
        ],
        compared=False,
    ),
    Case("v1beta1 reference", "PodGroup", (NEWER,), group(**_ref(NEWER))),
    Case(
        "v1beta1 reference without names",
        "PodGroup",
        (NEWER,),
        group(workloadRef={}),
        [
            ("spec.workloadRef.workloadName", "Required value"),
            ("spec.workloadRef.templateName", "Required value"),
        ],
    ),
    Case(
        "v1beta1 reference to no names",
        "PodGroup",
        (NEWER,),
        group(**_ref(NEWER, "A", "a.b")),
        [
            ("spec.workloadRef.workloadName", SUBDOMAIN),
            ("spec.workloadRef.templateName", "must not contain dots"),
        ],
    ),
    Case(
        "v1beta1 unknown preemption policy",
        "PodGroup",
        (NEWER,),
        group(preemptionPolicy="Sometimes"),
        [("spec.preemptionPolicy", 'supported values: "Never", "PreemptLowerPriority"')],
        compared=False,
    ),
    Case("one domain", "PodGroup", BOTH, group(schedulingConstraints=RACK)),
    Case(
        "two domains",
        "PodGroup",
        BOTH,
        group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
        [("spec.schedulingConstraints.topology", "must have at most 1 item")],
        compared=False,
    ),
    Case(
        "domain that is no label key",
        "PodGroup",
        BOTH,
        group(schedulingConstraints={"topology": [{"key": "a b"}]}),
        [("spec.schedulingConstraints.topology[0].key", "name part must consist of alphanumeric characters")],
        compared=False,
    ),
    Case("two claims", "PodGroup", BOTH, group(resourceClaims=[CLAIM, CLAIM2])),
    Case(
        "five claims",
        "PodGroup",
        BOTH,
        group(resourceClaims=[CLAIM | {"name": f"c{index}"} for index in range(5)]),
        [("spec.resourceClaims", "must have at most 4 items")],
        compared=False,
    ),
    Case(
        "a claim twice",
        "PodGroup",
        BOTH,
        group(resourceClaims=[CLAIM, CLAIM]),
        [("spec.resourceClaims[1]", 'Duplicate value: {"name":"gpu"}')],
        compared=False,
    ),
    Case(
        "a claim of neither kind",
        "PodGroup",
        BOTH,
        group(resourceClaims=[{"name": "gpu"}]),
        [
            (
                "spec.resourceClaims[0]",
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )
        ],
        compared=False,
    ),
    Case(
        "a claim of both kinds",
        "PodGroup",
        BOTH,
        group(resourceClaims=[CLAIM | {"resourceClaimTemplateName": "x"}]),
        [
            (
                "spec.resourceClaims[0]",
                "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )
        ],
        compared=False,
    ),
]

WORKLOADS = [
    Case("a workload", "Workload", BOTH, workload(template())),
    Case(
        "a controller",
        "Workload",
        BOTH,
        workload(template(), controllerRef={"kind": "Pod", "name": "x", "apiGroup": ""}),
    ),
    Case("no template", "Workload", (OLDER,), workload(), [("spec.podGroupTemplates", "Required value")]),
    Case(
        "no template",
        "Workload",
        (NEWER,),
        workload(),
        [("spec", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`")],
    ),
    Case(
        "nine templates",
        "Workload",
        BOTH,
        workload(*(template(f"t{index}") for index in range(9))),
        [("spec.podGroupTemplates", "must have at most 8 items")],
    ),
    Case(
        "a template twice",
        "Workload",
        BOTH,
        workload(template(), template()),
        [("spec.podGroupTemplates[1]", 'Duplicate value: {"name":"a"')],
    ),
    Case(
        "a template without a name",
        "Workload",
        BOTH,
        workload({"schedulingPolicy": GANG}),
        [(f"{T0}.name", "Required value")],
    ),
    Case(
        "a template with an empty name",
        "Workload",
        BOTH,
        workload(template("")),
        [(f"{T0}.name", "Required value")],
    ),
    Case(
        "a template with a dot",
        "Workload",
        BOTH,
        workload(template("a.b")),
        [(f"{T0}.name", "must not contain dots")],
    ),
    Case("a template that is no name", "Workload", BOTH, workload(template("A")), [(f"{T0}.name", LABEL)]),
    Case(
        "a template without a policy",
        "Workload",
        BOTH,
        workload(template(schedulingPolicy={})),
        [(f"{T0}.schedulingPolicy", f"must specify one of: {POLICIES}")],
    ),
    Case(
        "a template above the limit",
        "Workload",
        (OLDER,),
        workload(template(priority=10**9 + 1)),
        [(f"{T0}.priority", LIMIT)],
    ),
    Case(
        "a template of no class",
        "Workload",
        BOTH,
        workload(template(priorityClassName="Gold")),
        [(f"{T0}.priorityClassName", SUBDOMAIN)],
    ),
    Case(
        "v1alpha2 template of unknown mode",
        "Workload",
        (OLDER,),
        workload(template(disruptionMode="Sometimes")),
        [(f"{T0}.disruptionMode", 'supported values: "Pod", "PodGroup"')],
    ),
    Case(
        "v1beta1 template of no mode",
        "Workload",
        (NEWER,),
        workload(template(disruptionMode={})),
        [(f"{T0}.disruptionMode", f"must specify one of: {MODES}")],
    ),
    Case(
        "unlike priorities in v1alpha2", "Workload", (OLDER,), workload(template(priority=1), template("b"))
    ),
    Case(
        "no class is like an empty one",
        "Workload",
        BOTH,
        workload(template(priorityClassName=""), template("b")),
    ),
    Case(
        "a controller that is no path",
        "Workload",
        BOTH,
        workload(template(), controllerRef={"kind": "a/b", "name": "..", "apiGroup": "X"}),
        [
            ("spec.controllerRef.apiGroup", SUBDOMAIN),
            ("spec.controllerRef.kind", "may not contain '/'"),
            ("spec.controllerRef.name", "may not be '..'"),
        ],
    ),
    Case(
        "a controller without a name",
        "Workload",
        BOTH,
        workload(template(), controllerRef={"kind": "", "name": ""}),
        [("spec.controllerRef.kind", "Required value"), ("spec.controllerRef.name", "Required value")],
    ),
]


def _group_update(
    name: str, spec: dict[str, Any], after: dict[str, Any], field: str, **rest: Any
) -> list[Case]:
    causes = [(f"spec.{field}", IMMUTABLE)]
    return [Case(name, "PodGroup", BOTH, group(**spec), causes, after=group(**after), **rest)]


P = "spec.schedulingPolicy"
TEMPLATE_FIELDS: list[tuple[str, Any, bool]] = [
    ("priorityClassName", "gold", True),
    ("priority", 1, True),
    ("disruptionMode", {"single": {}}, True),
    ("schedulingConstraints", RACK, False),
    ("resourceClaims", [CLAIM], False),
    ("preemptionPolicy", "Never", False),
]
SWITCHED = [(f"{P}.basic", IMMUTABLE)]
UPDATES = [
    Case("nothing changes", "PodGroup", BOTH, group(priority=0), after=group(priority=0)),
    Case("an empty class is set", "PodGroup", BOTH, group(), after=group(priorityClassName="")),
    *_group_update("a class is set", {}, {"priorityClassName": "gold"}, "priorityClassName"),
    *_group_update("a priority is unset", {"priority": 0}, {"priority": None}, "priority"),
    *_group_update("a priority is changed", {"priority": 0}, {"priority": 1}, "priority"),
    *(
        Case(
            f"{version} reference is set",
            "PodGroup",
            (version,),
            group(),
            [(f"spec.{next(iter(_ref(version)))}", IMMUTABLE)],
            after=group(**_ref(version)),
        )
        for version in BOTH
    ),
    Case(
        "v1alpha2 mode changes",
        "PodGroup",
        (OLDER,),
        group(disruptionMode="Pod"),
        [("spec.disruptionMode", IMMUTABLE)],
        after=group(disruptionMode="PodGroup"),
    ),
    Case(
        "v1alpha2 mode is left out",
        "PodGroup",
        (OLDER,),
        group(disruptionMode="PodGroup"),
        [("spec.disruptionMode", IMMUTABLE)],
        after=group(),
    ),
    Case(
        "v1beta1 mode changes",
        "PodGroup",
        (NEWER,),
        group(disruptionMode={"single": {}}),
        [("spec.disruptionMode", IMMUTABLE)],
        after=group(disruptionMode={"all": {}}),
    ),
    Case(
        "v1beta1 mode is left out",
        "PodGroup",
        (NEWER,),
        group(disruptionMode={"all": {}}),
        [("spec.disruptionMode", IMMUTABLE)],
        after=group(),
    ),
    Case(
        "v1alpha2 minCount",
        "PodGroup",
        (OLDER,),
        group(),
        [(P, IMMUTABLE)],
        after=group(schedulingPolicy={"gang": {"minCount": 3}}),
    ),
    Case(
        "v1beta1 minCount",
        "PodGroup",
        (NEWER,),
        group(),
        after=group(schedulingPolicy={"gang": {"minCount": 3}}),
    ),
    Case(
        "v1alpha2 other policy",
        "PodGroup",
        (OLDER,),
        group(),
        [(P, IMMUTABLE)],
        after=group(schedulingPolicy=BASIC),
    ),
    Case(
        "v1beta1 gang to basic",
        "PodGroup",
        (NEWER,),
        group(),
        [*SWITCHED, (f"{P}.gang", "field cannot be cleared once set")],
        after=group(schedulingPolicy=BASIC),
    ),
    Case(
        "v1beta1 basic to gang",
        "PodGroup",
        (NEWER,),
        group(schedulingPolicy=BASIC),
        [*SWITCHED, (f"{P}.gang", "field cannot be set once created")],
        after=group(),
    ),
    *_group_update(
        "constraints are set", {}, {"schedulingConstraints": RACK}, "schedulingConstraints", compared=False
    ),
    *_group_update(
        "constraints come empty", {}, {"schedulingConstraints": {}}, "schedulingConstraints", compared=False
    ),
    *_group_update("claims are set", {}, {"resourceClaims": [CLAIM]}, "resourceClaims", compared=False),
    *_group_update(
        "claims change order",
        {"resourceClaims": [CLAIM, CLAIM2]},
        {"resourceClaims": [CLAIM2, CLAIM]},
        "resourceClaims",
        compared=False,
    ),
    Case("claims come empty", "PodGroup", BOTH, group(), after=group(resourceClaims=[]), compared=False),
    Case(
        "v1beta1 preemption policy is set",
        "PodGroup",
        (NEWER,),
        group(),
        [("spec.preemptionPolicy", IMMUTABLE)],
        after=group(preemptionPolicy="Never"),
        compared=False,
    ),
    Case(
        "a controller is set",
        "Workload",
        BOTH,
        workload(template()),
        [("spec.controllerRef", IMMUTABLE)],
        after=workload(template(), controllerRef={"kind": "Job", "name": "x"}),
    ),
    *(
        Case(
            f"v1alpha2 {name}",
            "Workload",
            (OLDER,),
            workload(*before),
            [("spec.podGroupTemplates", IMMUTABLE)],
            after=workload(*after),
        )
        for name, before, after in [
            ("template added", [template()], [template(), template("b")]),
            ("template removed", [template(), template("b")], [template()]),
            ("templates change order", [template(), template("b")], [template("b"), template()]),
            ("template's minCount", [template()], [template(schedulingPolicy={"gang": {"minCount": 3}})]),
            ("template's class", [template()], [template(priorityClassName="gold")]),
        ]
    ),
    Case(
        "v1alpha2 template's class comes empty",
        "Workload",
        (OLDER,),
        workload(template()),
        [("spec.podGroupTemplates", IMMUTABLE)],
        after=workload(template(priorityClassName="")),
        upstream=(),
    ),
    Case(
        "v1beta1 template added",
        "Workload",
        (NEWER,),
        workload(template()),
        [("spec.podGroupTemplates", "item may not be added")],
        after=workload(template(), template("b")),
        upstream=[("spec.podGroupTemplates[1]", "item may not be added")],
    ),
    Case(
        "v1beta1 template removed",
        "Workload",
        (NEWER,),
        workload(template(), template("b")),
        [("spec.podGroupTemplates", "item may not be removed")],
        after=workload(template()),
    ),
    Case(
        "v1beta1 templates change order",
        "Workload",
        (NEWER,),
        workload(template(), template("b")),
        after=workload(template("b"), template()),
    ),
    Case(
        "v1beta1 template's minCount",
        "Workload",
        (NEWER,),
        workload(template()),
        after=workload(template(schedulingPolicy={"gang": {"minCount": 3}})),
    ),
    Case(
        "v1beta1 template's policy",
        "Workload",
        (NEWER,),
        workload(template()),
        [
            (f"{T0}.schedulingPolicy.basic", IMMUTABLE),
            (f"{T0}.schedulingPolicy.gang", "field cannot be cleared once set"),
        ],
        after=workload(template(schedulingPolicy=BASIC)),
    ),
    *(
        Case(
            f"v1beta1 template's {field}",
            "Workload",
            (NEWER,),
            workload(template()),
            [(f"{T0}.{field}", IMMUTABLE)],
            after=workload({**template(), field: value}),
            compared=compared,
        )
        for field, value, compared in TEMPLATE_FIELDS
    ),
]

# Go refuses a value of another type while decoding (400), a schema while validating (422).
MIN_COUNT_TEXT = {"gang": {"minCount": "1"}}
TYPES = [
    Case(
        "minCount as text",
        "PodGroup",
        BOTH,
        group(schedulingPolicy=MIN_COUNT_TEXT),
        [("spec.schedulingPolicy.gang.minCount", "must be of type integer")],
        compared=False,
    ),
    Case(
        "v1beta1 mode as text",
        "PodGroup",
        (NEWER,),
        group(disruptionMode="Pod"),
        [("spec.disruptionMode", "must be of type object")],
        compared=False,
    ),
    Case(
        "v1alpha2 mode as a union",
        "PodGroup",
        (OLDER,),
        group(disruptionMode={"all": {}}),
        [
            ("spec.disruptionMode", "must be of type string"),
            ("spec.disruptionMode", 'supported values: "Pod", "PodGroup"'),
        ],
        compared=False,
    ),
]

CASES = [*GROUPS, *WORKLOADS, *UPDATES, *TYPES]
