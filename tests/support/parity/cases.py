"""Cases for every documented behaviour of upstream for PodGroups and Workloads that a server can show."""

from typing import Any

from tests.support.admission.edits import Edit, append, drop, put, swap
from tests.support.admission.scene import DIALECTS, MAX_PRIORITY, Dialect
from tests.support.parity import groups
from tests.support.parity.case import (
    BAD_POLICIES,
    BASIC,
    CLAIM,
    GANG,
    RACK,
    Case,
    Document,
    bad_modes,
    template,
    workload,
)


def creates(dialect: Dialect) -> list[Case]:
    def templates(**spec: Any) -> Document:
        return workload(template(**spec))

    created: list[tuple[str, str, Document]] = [
        ("W1", "a workload", workload()),
        ("W2", "no templates", {"spec": {}}),
        ("W2", "an empty list", {"spec": {"podGroupTemplates": []}}),
        ("W2", "templates as text", {"spec": {"podGroupTemplates": "a"}}),
        ("W2", "no spec", {}),
        ("W2", "eight templates", workload(*[template(f"t{index}") for index in range(8)])),
        ("W2", "nine templates", workload(*[template(f"t{index}") for index in range(9)])),
        ("W2", "a template twice", workload(template(), template())),
        ("W3", "a template without a name", workload({"schedulingPolicy": GANG})),
        ("W3", "a template with an empty name", workload(template(""))),
        ("W3", "a template with a dot", workload(template("a.b"))),
        ("W3", "a template with capitals", workload(template("A"))),
        ("W3", "a template of 64 letters", workload(template("a" * 64))),
        *[
            ("W4 W5", name, workload({"name": "a", "schedulingPolicy": policy}))
            for name, policy in BAD_POLICIES
        ],
        ("W4", "no policy", workload({"name": "a"})),
        ("W6", "no mode", workload()),
        *[("W6", f"mode {mode!r}", templates(disruptionMode=mode)) for mode in dialect.good_modes],
        *[("W6", name, workload(template() | {"disruptionMode": mode})) for name, mode in bad_modes(dialect)],
        ("W7 W20", "an unknown class", templates(priorityClassName="nothing")),
        ("W7", "a class that is no name", templates(priorityClassName="Gold")),
        ("W7", "an empty class", templates(priorityClassName="")),
        ("W7 W20", "a class", templates(priorityClassName="gold")),
        ("W8", "a priority that is not the class's", templates(priorityClassName="gold", priority=5)),
        ("W8", "a priority and no class", templates(priority=5)),
        ("W8", "the lowest priority", templates(priority=-(2**31))),
        ("W8", "a priority above the limit", templates(priority=MAX_PRIORITY + 1)),
        ("W8", "a priority as text", templates(priority="5")),
        ("W9", "a policy of preemption", templates(preemptionPolicy="Never")),
        ("W10", "unlike priorities", workload(template(priority=1), template("b", priority=2))),
        ("W10", "a priority beside none", workload(template(priority=0), template("b"))),
        ("W10", "unlike classes", workload(template(priorityClassName="gold"), template("b"))),
        ("W10", "an empty class beside none", workload(template(priorityClassName=""), template("b"))),
        ("W11", "composite templates", workload(compositePodGroupTemplates=[{"name": "tree"}])),
        ("W12", "claims", templates(resourceClaims=[CLAIM])),
        ("W13", "constraints", templates(schedulingConstraints=RACK)),
        ("W14", "a controller", workload(controllerRef={"apiGroup": "batch", "kind": "Job", "name": "a"})),
        ("W14", "a controller of no group", workload(controllerRef={"kind": "Pod", "name": "a"})),
        ("W14", "a controller without kind and name", workload(controllerRef={})),
        ("W14", "a controller with empty names", workload(controllerRef={"kind": "", "name": ""})),
        ("W14", "a controller that is no path", workload(controllerRef={"kind": "a/b", "name": ".."})),
        ("W14", "a controller of no such group", workload(controllerRef=JOB | {"apiGroup": "Batch"})),
        ("W18", "a status", workload() | {"status": {"a": "b"}}),
        (
            "W21",
            "basic, disrupted together",
            templates(schedulingPolicy=BASIC, disruptionMode=dialect.good_modes[1]),
        ),
        ("W1", "labels that are none", workload() | {"metadata": {"labels": {"a b": "c d"}}}),
        ("W1", "an unknown field", templates(unheardOf=1)),
    ]
    return [Case(rows, name, "Workload", document) for rows, name, document in created]


JOB = {"apiGroup": "batch", "kind": "Job", "name": "train"}


def updates(dialect: Dialect) -> list[Case]:
    first = "spec/podGroupTemplates/0"
    job = workload(controllerRef=JOB)
    gold = workload(template(priorityClassName="gold", priority=5, disruptionMode=dialect.good_modes[1]))
    two = workload(template(), template("b"))
    edits: list[tuple[str, str, Document, list[Edit]]] = [
        ("W16", "nothing", gold, []),
        ("W15", "a controller is set", workload(), [put("spec/controllerRef", JOB)]),
        ("W15", "a controller goes", job, [drop("spec/controllerRef")]),
        ("W15", "another controller", job, [put("spec/controllerRef/name", "other")]),
        ("W16", "a template more", workload(), [append("spec/podGroupTemplates", template("b"))]),
        ("W16", "a template less", two, [drop("spec/podGroupTemplates/1")]),
        ("W16", "no templates", workload(), [drop("spec/podGroupTemplates")]),
        ("W16", "a template by another name", workload(), [put(f"{first}/name", "other")]),
        ("W16", "another order", two, [swap("spec/podGroupTemplates")]),
        ("W16", "another minCount", workload(), [put(f"{first}/schedulingPolicy/gang/minCount", 3)]),
        ("W16", "minCount 0", workload(), [put(f"{first}/schedulingPolicy/gang/minCount", 0)]),
        ("W16", "gang to basic", workload(), [put(f"{first}/schedulingPolicy", BASIC)]),
        (
            "W16",
            "basic to gang",
            workload(template(schedulingPolicy=BASIC)),
            [put(f"{first}/schedulingPolicy", GANG)],
        ),
        ("W16", "another class", gold, [put(f"{first}/priorityClassName", "silver")]),
        ("W16", "the class goes", gold, [drop(f"{first}/priorityClassName")]),
        ("W16", "another priority", gold, [put(f"{first}/priority", 6)]),
        ("W16", "a priority is set", workload(), [put(f"{first}/priority", 0)]),
        ("W16", "another mode", gold, [put(f"{first}/disruptionMode", dialect.good_modes[0])]),
        ("W16", "the mode goes", gold, [drop(f"{first}/disruptionMode")]),
        ("W16", "an empty class", workload(), [put(f"{first}/priorityClassName", "")]),
        ("W17", "one of two priorities", two, [put(f"{first}/priority", 7)]),
        ("W16 W13", "constraints", workload(), [put(f"{first}/schedulingConstraints", RACK)]),
        ("W16", "a label", workload(), [put("metadata/labels", {"a": "b"})]),
    ]
    return [Case(rows, name, "Workload", document, steps) for rows, name, document, steps in edits]


def cases(minor: str) -> list[Case]:
    """Return every case in the version that this minor shares with Podium."""
    dialect = DIALECTS[minor]
    return [
        *groups.creates(dialect),
        *groups.references(dialect),
        *groups.updates(dialect),
        *groups.statuses(),
        *creates(dialect),
        *updates(dialect),
    ]
