"""Good and bad PodGroups and Workloads, and updates of them, with the expected answer of the schema."""

from collections.abc import Sequence
from functools import partial
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
    causes: Causes
    after: dict[str, Any] | None
    upstream: Causes | None
    compared: bool


def of_kind(
    kind: str,
    name: str,
    spec: dict[str, Any],
    *causes: str,
    versions: tuple[str, ...] = BOTH,
    after: dict[str, Any] | None = None,
    upstream: Sequence[str] | None = None,
    compared: bool = True,
) -> Case:
    """Make a case; a cause is written as `field: part of the message`."""
    natively = None if upstream is None else [_split(each) for each in upstream]
    return Case(name, kind, versions, spec, [_split(each) for each in causes], after, natively, compared)


def _split(cause: str) -> tuple[str, str]:
    field, _, part = cause.partition(": ")
    return field, part


def in_version(version: str, kind: str, name: str, *rest: Any, **fields: Any) -> Case:
    """Make a case of one version, which its name begins with."""
    return of_kind(kind, f"{version} {name}", *rest, versions=(version,), **fields)


of_group, of_workload = partial(of_kind, "PodGroup"), partial(of_kind, "Workload")
older_group, older_workload = partial(in_version, OLDER, "PodGroup"), partial(in_version, OLDER, "Workload")
newer_group, newer_workload = partial(in_version, NEWER, "PodGroup"), partial(in_version, NEWER, "Workload")


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
    of_group("a gang", group()),
    of_group("basic", group(schedulingPolicy=BASIC)),
    of_group("an empty class is none", group(priorityClassName="")),
    of_group(
        "no policy",
        {},
        "spec.schedulingPolicy: Required value",
        upstream=[f"spec.schedulingPolicy: must specify one of: {POLICIES}"],
    ),
    of_group(
        "empty policy", group(schedulingPolicy={}), f"spec.schedulingPolicy: must specify one of: {POLICIES}"
    ),
    of_group(
        "two policies",
        group(schedulingPolicy=BASIC | GANG),
        f"spec.schedulingPolicy: must specify exactly one of: {POLICIES}",
    ),
    of_group(
        "minCount absent",
        group(schedulingPolicy={"gang": {}}),
        "spec.schedulingPolicy.gang.minCount: Required value",
    ),
    of_group(
        "minCount 0 is absent",
        group(schedulingPolicy={"gang": {"minCount": 0}}),
        "spec.schedulingPolicy.gang.minCount: Required value",
    ),
    of_group(
        "minCount negative",
        group(schedulingPolicy={"gang": {"minCount": -1}}),
        f"spec.schedulingPolicy.gang.minCount: {POSITIVE}",
    ),
    of_group(
        "priority above the limit",
        group(priority=10**9 + 1),
        f"spec.priority: {LIMIT}",
        versions=(OLDER,),
        compared=False,
    ),
    of_group(
        "priority above the limit of some minors",
        group(priority=10**9 + 1),
        versions=(NEWER,),
        compared=False,
    ),
    of_group(
        "class that is no name",
        group(priorityClassName="Gold"),
        f"spec.priorityClassName: {SUBDOMAIN}",
        compared=False,
    ),
    older_group(
        "unknown mode",
        group(disruptionMode="Sometimes"),
        'spec.disruptionMode: supported values: "Pod", "PodGroup"',
    ),
    newer_group("no mode", group(disruptionMode={}), f"spec.disruptionMode: must specify one of: {MODES}"),
    newer_group(
        "two modes",
        group(disruptionMode={"single": {}, "all": {}}),
        f"spec.disruptionMode: must specify exactly one of: {MODES}",
    ),
    older_group(
        "reference to nothing",
        group(podGroupTemplateRef={}),
        "spec.podGroupTemplateRef: must specify one of: `workload`",
    ),
    older_group(
        "reference without names",
        group(podGroupTemplateRef={"workload": {}}),
        "spec.podGroupTemplateRef.workload.workloadName: Required value",
        "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value",
    ),
    older_group(
        "reference to no names",
        group(**_ref(OLDER, "A", "a.b")),
        f"spec.podGroupTemplateRef.workload.workloadName: {SUBDOMAIN}",
        "spec.podGroupTemplateRef.workload.podGroupTemplateName: must not contain dots",
        compared=False,
    ),
    newer_group("reference", group(**_ref(NEWER))),
    newer_group(
        "reference without names",
        group(workloadRef={}),
        "spec.workloadRef.workloadName: Required value",
        "spec.workloadRef.templateName: Required value",
    ),
    newer_group(
        "reference to no names",
        group(**_ref(NEWER, "A", "a.b")),
        f"spec.workloadRef.workloadName: {SUBDOMAIN}",
        "spec.workloadRef.templateName: must not contain dots",
    ),
    newer_group(
        "unknown preemption policy",
        group(preemptionPolicy="Sometimes"),
        'spec.preemptionPolicy: supported values: "Never", "PreemptLowerPriority"',
        compared=False,
    ),
    of_group("one domain", group(schedulingConstraints=RACK)),
    of_group(
        "two domains",
        group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
        "spec.schedulingConstraints.topology: must have at most 1 item",
        compared=False,
    ),
    of_group(
        "domain that is no label key",
        group(schedulingConstraints={"topology": [{"key": "a b"}]}),
        "spec.schedulingConstraints.topology[0].key: name part must consist of alphanumeric characters",
        compared=False,
    ),
    of_group("two claims", group(resourceClaims=[CLAIM, CLAIM2])),
    of_group(
        "five claims",
        group(resourceClaims=[CLAIM | {"name": f"c{index}"} for index in range(5)]),
        "spec.resourceClaims: must have at most 4 items",
        compared=False,
    ),
    of_group(
        "a claim twice",
        group(resourceClaims=[CLAIM, CLAIM]),
        'spec.resourceClaims[1]: Duplicate value: {"name":"gpu"}',
        compared=False,
    ),
    of_group(
        "a claim of neither kind",
        group(resourceClaims=[{"name": "gpu"}]),
        "spec.resourceClaims[0]: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        compared=False,
    ),
    of_group(
        "a claim of both kinds",
        group(resourceClaims=[CLAIM | {"resourceClaimTemplateName": "x"}]),
        "spec.resourceClaims[0]: must specify exactly one of: `resourceClaimName`, "
        "`resourceClaimTemplateName`",
        compared=False,
    ),
]

WORKLOADS = [
    of_workload("a workload", workload(template())),
    of_workload(
        "a controller", workload(template(), controllerRef={"kind": "Pod", "name": "x", "apiGroup": ""})
    ),
    of_workload("no template", workload(), "spec.podGroupTemplates: Required value", versions=(OLDER,)),
    of_workload(
        "no template",
        workload(),
        "spec: must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`",
        versions=(NEWER,),
    ),
    of_workload(
        "nine templates",
        workload(*(template(f"t{index}") for index in range(9))),
        "spec.podGroupTemplates: must have at most 8 items",
    ),
    of_workload(
        "a template twice",
        workload(template(), template()),
        'spec.podGroupTemplates[1]: Duplicate value: {"name":"a"',
    ),
    of_workload(
        "a template without a name", workload({"schedulingPolicy": GANG}), f"{T0}.name: Required value"
    ),
    of_workload("a template with an empty name", workload(template("")), f"{T0}.name: Required value"),
    of_workload("a template with a dot", workload(template("a.b")), f"{T0}.name: must not contain dots"),
    of_workload("a template that is no name", workload(template("A")), f"{T0}.name: {LABEL}"),
    of_workload(
        "a template without a policy",
        workload(template(schedulingPolicy={})),
        f"{T0}.schedulingPolicy: must specify one of: {POLICIES}",
    ),
    of_workload(
        "a template above the limit",
        workload(template(priority=10**9 + 1)),
        f"{T0}.priority: {LIMIT}",
        versions=(OLDER,),
    ),
    of_workload(
        "a template of no class",
        workload(template(priorityClassName="Gold")),
        f"{T0}.priorityClassName: {SUBDOMAIN}",
    ),
    older_workload(
        "template of unknown mode",
        workload(template(disruptionMode="Sometimes")),
        f'{T0}.disruptionMode: supported values: "Pod", "PodGroup"',
    ),
    newer_workload(
        "template of no mode",
        workload(template(disruptionMode={})),
        f"{T0}.disruptionMode: must specify one of: {MODES}",
    ),
    of_workload(
        "unlike priorities in v1alpha2", workload(template(priority=1), template("b")), versions=(OLDER,)
    ),
    of_workload("no class is like an empty one", workload(template(priorityClassName=""), template("b"))),
    of_workload(
        "a controller that is no path",
        workload(template(), controllerRef={"kind": "a/b", "name": "..", "apiGroup": "X"}),
        f"spec.controllerRef.apiGroup: {SUBDOMAIN}",
        "spec.controllerRef.kind: may not contain '/'",
        "spec.controllerRef.name: may not be '..'",
    ),
    of_workload(
        "a controller without a name",
        workload(template(), controllerRef={"kind": "", "name": ""}),
        "spec.controllerRef.kind: Required value",
        "spec.controllerRef.name: Required value",
    ),
]


def _group_update(
    name: str, spec: dict[str, Any], after: dict[str, Any], field: str, **rest: Any
) -> list[Case]:
    return [of_group(name, group(**spec), f"spec.{field}: {IMMUTABLE}", after=group(**after), **rest)]


P = "spec.schedulingPolicy"
TEMPLATE_FIELDS: list[tuple[str, Any, bool]] = [
    ("priorityClassName", "gold", True),
    ("priority", 1, True),
    ("disruptionMode", {"single": {}}, True),
    ("schedulingConstraints", RACK, False),
    ("resourceClaims", [CLAIM], False),
    ("preemptionPolicy", "Never", False),
]
SWITCHED = [f"{P}.basic: {IMMUTABLE}"]
UPDATES = [
    of_group("nothing changes", group(priority=0), after=group(priority=0)),
    of_group("an empty class is set", group(), after=group(priorityClassName="")),
    *_group_update("a class is set", {}, {"priorityClassName": "gold"}, "priorityClassName"),
    *_group_update("a priority is unset", {"priority": 0}, {"priority": None}, "priority"),
    *_group_update("a priority is changed", {"priority": 0}, {"priority": 1}, "priority"),
    *(
        of_group(
            f"{version} reference is set",
            group(),
            f"spec.{next(iter(_ref(version)))}: {IMMUTABLE}",
            versions=(version,),
            after=group(**_ref(version)),
        )
        for version in BOTH
    ),
    older_group(
        "mode changes",
        group(disruptionMode="Pod"),
        f"spec.disruptionMode: {IMMUTABLE}",
        after=group(disruptionMode="PodGroup"),
    ),
    older_group(
        "mode is left out",
        group(disruptionMode="PodGroup"),
        f"spec.disruptionMode: {IMMUTABLE}",
        after=group(),
    ),
    newer_group(
        "mode changes",
        group(disruptionMode={"single": {}}),
        f"spec.disruptionMode: {IMMUTABLE}",
        after=group(disruptionMode={"all": {}}),
    ),
    newer_group(
        "mode is left out",
        group(disruptionMode={"all": {}}),
        f"spec.disruptionMode: {IMMUTABLE}",
        after=group(),
    ),
    older_group(
        "minCount", group(), f"{P}: {IMMUTABLE}", after=group(schedulingPolicy={"gang": {"minCount": 3}})
    ),
    newer_group("minCount", group(), after=group(schedulingPolicy={"gang": {"minCount": 3}})),
    older_group("other policy", group(), f"{P}: {IMMUTABLE}", after=group(schedulingPolicy=BASIC)),
    newer_group(
        "gang to basic",
        group(),
        *SWITCHED,
        f"{P}.gang: field cannot be cleared once set",
        after=group(schedulingPolicy=BASIC),
    ),
    newer_group(
        "basic to gang",
        group(schedulingPolicy=BASIC),
        *SWITCHED,
        f"{P}.gang: field cannot be set once created",
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
    of_group("claims come empty", group(), after=group(resourceClaims=[]), compared=False),
    newer_group(
        "preemption policy is set",
        group(),
        f"spec.preemptionPolicy: {IMMUTABLE}",
        after=group(preemptionPolicy="Never"),
        compared=False,
    ),
    of_workload(
        "a controller is set",
        workload(template()),
        f"spec.controllerRef: {IMMUTABLE}",
        after=workload(template(), controllerRef={"kind": "Job", "name": "x"}),
    ),
    *(
        of_workload(
            f"v1alpha2 {name}",
            workload(*before),
            f"spec.podGroupTemplates: {IMMUTABLE}",
            versions=(OLDER,),
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
    older_workload(
        "template's class comes empty",
        workload(template()),
        f"spec.podGroupTemplates: {IMMUTABLE}",
        after=workload(template(priorityClassName="")),
        upstream=[],
    ),
    newer_workload(
        "template added",
        workload(template()),
        "spec.podGroupTemplates: item may not be added",
        after=workload(template(), template("b")),
        upstream=["spec.podGroupTemplates[1]: item may not be added"],
    ),
    newer_workload(
        "template removed",
        workload(template(), template("b")),
        "spec.podGroupTemplates: item may not be removed",
        after=workload(template()),
    ),
    newer_workload(
        "templates change order",
        workload(template(), template("b")),
        after=workload(template("b"), template()),
    ),
    newer_workload(
        "template's minCount",
        workload(template()),
        after=workload(template(schedulingPolicy={"gang": {"minCount": 3}})),
    ),
    newer_workload(
        "template's policy",
        workload(template()),
        f"{T0}.schedulingPolicy.basic: {IMMUTABLE}",
        f"{T0}.schedulingPolicy.gang: field cannot be cleared once set",
        after=workload(template(schedulingPolicy=BASIC)),
    ),
    *(
        of_workload(
            f"v1beta1 template's {field}",
            workload(template()),
            f"{T0}.{field}: {IMMUTABLE}",
            versions=(NEWER,),
            after=workload({**template(), field: value}),
            compared=compared,
        )
        for field, value, compared in TEMPLATE_FIELDS
    ),
]

# Go refuses a value of another type while decoding (400), a schema while validating (422).
MIN_COUNT_TEXT = {"gang": {"minCount": "1"}}
TYPES = [
    of_group(
        "minCount as text",
        group(schedulingPolicy=MIN_COUNT_TEXT),
        "spec.schedulingPolicy.gang.minCount: must be of type integer",
        compared=False,
    ),
    newer_group(
        "mode as text",
        group(disruptionMode="Pod"),
        "spec.disruptionMode: must be of type object",
        compared=False,
    ),
    older_group(
        "mode as a union",
        group(disruptionMode={"all": {}}),
        "spec.disruptionMode: must be of type string",
        'spec.disruptionMode: supported values: "Pod", "PodGroup"',
        compared=False,
    ),
]

CASES = [*GROUPS, *WORKLOADS, *UPDATES, *TYPES]
