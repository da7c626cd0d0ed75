"""Good and bad CompositePodGroups, parents of PodGroups and trees of templates, for the schema alone.

The test servers do not serve the native kind, so tests/conformance/admission compares the rules with it. The
webhook has the rules over a whole tree: the schema has types and limits there.
"""

from functools import partial
from typing import Any

from tests.support.crds.cases import (
    BASIC,
    IMMUTABLE,
    MODES,
    NEWER,
    POLICIES,
    POSITIVE,
    RACK,
    SUBDOMAIN,
    SWITCHED,
    P,
    group,
    of_kind,
    template,
    workload,
)

REF = {"workloadName": "llm", "templateName": "root"}
GROUPS_GANG = {"gang": {"minGroupCount": 2}}
FULL = {
    "parentCompositePodGroupName": "all",
    "schedulingConstraints": RACK,
    "disruptionMode": {"all": {}},
    "priorityClassName": "gold",
    "priority": 1000,
    "preemptionPolicy": "Never",
}
CHANGES: dict[str, Any] = {
    "parentCompositePodGroupName": None,
    "workloadRef": REF | {"templateName": "other"},
    "schedulingConstraints": None,
    "disruptionMode": {"single": {}},
    "priorityClassName": "silver",
    "preemptionPolicy": None,
}
C0 = "spec.compositePodGroupTemplates[0]"


def composite(**spec: Any) -> dict[str, Any]:
    return {"workloadRef": REF, "schedulingPolicy": GROUPS_GANG} | spec


def branch(name: str = "root", *below: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Make a composite template above others."""
    lists = {"compositePodGroupTemplates": list(below)} if below else {"podGroupTemplates": [template()]}
    return {"name": name, "schedulingPolicy": GROUPS_GANG, **lists, **fields}


def tree(*roots: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"compositePodGroupTemplates": list(roots)} | spec


_composite, _group, _workload = (
    partial(of_kind, kind, versions=(NEWER,), compared=False)
    for kind in ("CompositePodGroup", "PodGroup", "Workload")
)

DEEP = branch("a", branch("b", branch("c", branch("d"))))

COMPOSITES = [
    _composite("a gang of groups", composite()),
    _composite("a composite group with all fields", composite(**FULL)),
    _composite(
        "a basic composite group", composite(schedulingPolicy={"basic": {}}, disruptionMode={"single": {}})
    ),
    _composite(
        "no reference to a template", {"schedulingPolicy": GROUPS_GANG}, "spec.workloadRef: Required value"
    ),
    _composite(
        "half a reference",
        composite(workloadRef={"workloadName": "llm"}),
        "spec.workloadRef.templateName: Required value",
    ),
    _composite(
        "no policy of groups",
        composite(schedulingPolicy={}),
        f"spec.schedulingPolicy: must specify one of: {POLICIES}",
    ),
    _composite(
        "two policies of groups",
        composite(schedulingPolicy={"basic": {}} | GROUPS_GANG),
        f"spec.schedulingPolicy: must specify exactly one of: {POLICIES}",
    ),
    _composite(
        "minGroupCount 0 is absent",
        composite(schedulingPolicy={"gang": {"minGroupCount": 0}}),
        "spec.schedulingPolicy.gang.minGroupCount: Required value",
    ),
    _composite(
        "minGroupCount negative",
        composite(schedulingPolicy={"gang": {"minGroupCount": -1}}),
        f"spec.schedulingPolicy.gang.minGroupCount: {POSITIVE}",
    ),
    _composite(
        "fields out of range",
        composite(parentCompositePodGroupName="Bad_Name", disruptionMode={}, priority=2_000_000_000),
        f"spec.parentCompositePodGroupName: {SUBDOMAIN}",
        f"spec.disruptionMode: must specify one of: {MODES}",
    ),
    _composite(
        "two topology keys of a composite group",
        composite(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
        "spec.schedulingConstraints.topology: must have at most 1 item",
    ),
    *(
        _composite(
            f"{field} of a composite group is fixed",
            composite(**FULL),
            f"spec.{field}: {IMMUTABLE}",
            after=composite(**FULL | {field: value}),
        )
        for field, value in CHANGES.items()
    ),
    _composite(
        "another minGroupCount", composite(), after=composite(schedulingPolicy={"gang": {"minGroupCount": 3}})
    ),
    _composite(
        "a gang of groups becomes basic",
        composite(),
        *SWITCHED,
        f"{P}.gang: field cannot be cleared once set",
        after=composite(schedulingPolicy=BASIC),
    ),
    _group("a group with a parent", group(parentCompositePodGroupName="all", workloadRef=REF)),
    _group(
        "a parent without a template",
        group(parentCompositePodGroupName="all"),
        "spec.workloadRef: must be set when parentCompositePodGroupName is set",
    ),
    _group(
        "a parent is fixed",
        group(parentCompositePodGroupName="all", workloadRef=REF),
        f"spec.parentCompositePodGroupName: {IMMUTABLE}",
        after=group(workloadRef=REF),
    ),
    _workload("a tree", tree(branch(schedulingConstraints=RACK, disruptionMode={"all": {}}))),
    _workload("a tree of four levels", tree(branch("a", branch("b", branch("c"))))),
    _workload(
        "a tree of five levels",
        tree(DEEP),
        f"{C0}.compositePodGroupTemplates[0].compositePodGroupTemplates[0]"
        ".compositePodGroupTemplates: maximum template hierarchy depth is 4",
    ),
    _workload(
        "both lists of templates",
        tree(branch(), podGroupTemplates=[template()]),
        "spec: must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`",
    ),
    _workload(
        "nine trees",
        tree(*(branch(f"t{index}") for index in range(9))),
        "spec.compositePodGroupTemplates: must have at most 8 items",
    ),
    _workload(
        "a name twice in a list",
        tree(branch(), branch()),
        'spec.compositePodGroupTemplates[1]: Duplicate value: {"name":"root"',
    ),
    _workload(
        "an update of a count in a tree",
        tree(branch()),
        *(),
        after=tree(branch(schedulingPolicy={"gang": {"minGroupCount": 3}})),
    ),
    _workload(
        "templates that replace a tree",
        tree(branch()),
        "spec.podGroupTemplates: item may not be added",
        after=workload(template()) | {"compositePodGroupTemplates": None},
    ),
]
