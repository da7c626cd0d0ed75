"""What is written to both servers: each row of what upstream does for PodGroups and Workloads, as a value.

A case is a create, or a create and one change of what was stored. `rows` are the numbers that
docs/admission.md has, too. Nothing here says what the answer must be: the server with the Workload API says
that.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tests.differential.edits import Edit, append, drop, edited, put, swap
from tests.differential.grouped import template_ref
from tests.differential.scene import DIALECTS, MAX_PRIORITY, Dialect

Document = dict[str, Any]

# The version that the native kinds of a minor and Podium's have in common.
VERSIONS = {"1.36": "v1alpha2", "1.37": "v1beta1"}

# PriorityClasses on both servers, by name; the last two are the default in some cases.
CLASSES = {"gold": 1000, "silver": 1000, "zero": 0, "top": MAX_PRIORITY, "never": 500}
STANDARD, NEGATIVE = "standard", "negative"
DEFAULTS = {STANDARD: 100, NEGATIVE: -10}

# A Workload on both servers, and its templates.
WORKLOAD, TEMPLATES = "llm", ("worker", "leader")

GANG = {"gang": {"minCount": 2}}
BASIC: Document = {"basic": {}}
TIME = "2026-01-01T00:00:00Z"
RACK = {"topology": [{"key": "example.com/rack"}]}
CLAIM = {"name": "gpu", "resourceClaimName": "gpu-1"}


class Case(NamedTuple):
    """One create, or one change where there are edits."""

    rows: str
    name: str
    kind: str
    document: Document  # metadata and spec; the name is the runner's
    edits: Sequence[Edit] | None = None
    base: Literal["stored", "sent"] = (
        "stored"  # what the edits are made to; server-side apply takes what was sent
    )
    subresource: Literal["", "status"] = ""
    default: str = ""  # the class that is the default meanwhile
    deleted: bool = False  # whether it is deleted, and held by a finalizer, when it is changed

    @property
    def update(self) -> bool:
        return self.edits is not None

    def __str__(self) -> str:
        return f"{self.rows} {self.kind} {self.name}"


def cases(minor: str) -> list[Case]:
    """Give every case in the words of the version that this minor shares with Podium."""
    dialect = DIALECTS[minor]
    return [
        *_group_creates(dialect),
        *_references(dialect),
        *_group_updates(dialect),
        *_group_statuses(),
        *_workload_creates(dialect),
        *_workload_updates(dialect),
    ]


def group(**spec: Any) -> Document:
    """A PodGroup that is a gang of two unless told otherwise; what is None is left out."""
    return {"spec": _given({"schedulingPolicy": GANG} | spec)}


def template(name: str = "a", **spec: Any) -> Document:
    return _given({"name": name, "schedulingPolicy": GANG} | spec)


def workload(*templates: Any, **spec: Any) -> Document:
    """A Workload of these templates, or of one gang."""
    return {"spec": _given({"podGroupTemplates": list(templates or [template()])} | spec)}


def _given(fields: Document) -> Document:
    return {key: value for key, value in fields.items() if value is not None}


_BAD_POLICIES: tuple[tuple[str, Any], ...] = (
    ("none of two policies", {}),
    ("both policies", BASIC | GANG),
    ("no minCount", {"gang": {}}),
    ("minCount 0", {"gang": {"minCount": 0}}),
    ("minCount -1", {"gang": {"minCount": -1}}),
    ("minCount as text", {"gang": {"minCount": "2"}}),
    ("minCount beyond 32 bits", {"gang": {"minCount": 2**31}}),
    ("minCount with a fraction", {"gang": {"minCount": 1.5}}),
    ("policy as text", "gang"),
    ("gang null", {"gang": None}),
    ("one null beside the other", {"basic": None, "gang": {"minCount": 2}}),
)


def _bad_modes(dialect: Dialect) -> list[tuple[str, Any]]:
    return [(f"bad mode {number}: {mode!r}", mode) for number, mode in enumerate(dialect.bad_modes)]


def _group_creates(dialect: Dialect) -> list[Case]:
    one, whole = dialect.good_modes
    created = [
        ("G1", "no mode", group()),
        *[("G1 G18", f"mode {mode!r}", group(disruptionMode=mode)) for mode in dialect.good_modes],
        ("G2", "a policy of preemption written out", group(preemptionPolicy="PreemptLowerPriority")),
        ("G3", "no class", group()),
        ("G3", "an empty class", group(priorityClassName="")),
        ("G4", "a class", group(priorityClassName="gold")),
        ("G4", "a class that never preempts", group(priorityClassName="never")),
        ("G4", "the highest class", group(priorityClassName="top")),
        ("G5", "an unknown class", group(priorityClassName="nothing")),
        (
            "G5 G17",
            "an unknown class, and no policy",
            group(priorityClassName="nothing", schedulingPolicy={}),
        ),
        ("G6", "the class's priority", group(priorityClassName="gold", priority=1000)),
        ("G6", "priority 0 and no class", group(priority=0)),
        ("G6", "priority 0 and class zero", group(priorityClassName="zero", priority=0)),
        ("G7", "another priority", group(priorityClassName="gold", priority=9999)),
        ("G7", "priority 0 under a class", group(priorityClassName="gold", priority=0)),
        ("G7", "a priority and no class", group(priority=5)),
        ("G7", "a priority above the limit", group(priority=MAX_PRIORITY + 1)),
        ("G7", "a priority as text", group(priority="1000")),
        ("G7", "a priority beyond 32 bits", group(priority=2**31)),
        ("G9", "a system class", group(priorityClassName="system-node-critical")),
        ("G9", "the other system class", group(priorityClassName="system-cluster-critical")),
        ("G15", "a status", group() | {"status": {"conditions": [_CONDITION]}}),
        ("G16", "a finalizer", group() | {"metadata": {"finalizers": ["example.com/hold"]}}),
        ("G16", "a finalizer without a domain", group() | {"metadata": {"finalizers": ["nobody"]}}),
        *[("G17", name, group(schedulingPolicy=policy)) for name, policy in _BAD_POLICIES],
        ("G17", "no policy", {"spec": {}}),
        ("G17", "no spec", {}),
        ("G17", "basic", group(schedulingPolicy=BASIC)),
        *[("G18", name, group() | _spec("disruptionMode", mode)) for name, mode in _bad_modes(dialect)],
        ("G19", "a class that is no name", group(priorityClassName="Gold")),
        ("G19", "a class of 254 letters", group(priorityClassName="a" * 254)),
        ("G19", "a class as a number", group(priorityClassName=5)),
        ("G20", "basic, disrupted together", group(schedulingPolicy=BASIC, disruptionMode=whole)),
        ("G20", "basic, disrupted one by one", group(schedulingPolicy=BASIC, disruptionMode=one)),
        ("G21", "a composite parent", group(parentCompositePodGroupName="all")),
        ("G22", "constraints", group(schedulingConstraints=RACK)),
        ("G22", "claims", group(resourceClaims=[CLAIM])),
        ("G22", "constraints and claims that are wrong", group(resourceClaims=[{}], schedulingConstraints=5)),
        (
            "G11",
            "labels and annotations",
            group() | {"metadata": {"labels": {"a": "b"}, "annotations": {"c": ""}}},
        ),
        ("G11", "labels that are none", group() | {"metadata": {"labels": {"a b": "c d"}}}),
        ("G11", "a long name", group() | {"metadata": {"name": "long" * 15}}),
        ("G11", "a name that is none", group() | {"metadata": {"name": "A_b"}}),
        ("G11", "an unknown field", group(unheardOf=1)),
    ]
    defaulted = [
        ("G3", "no class", group()),
        ("G3", "an empty class", group(priorityClassName="")),
        ("G3 G6", "the default's priority", group(priority=DEFAULTS[STANDARD])),
        ("G3 G7", "another priority than the default's", group(priority=5)),
        ("G4", "a class beside a default", group(priorityClassName="gold")),
    ]
    return [
        *[Case(rows, name, "PodGroup", document) for rows, name, document in created],
        *[
            Case(rows, f"{name}, {STANDARD}", "PodGroup", document, default=STANDARD)
            for rows, name, document in defaulted
        ],
        Case("G10", "a negative default", "PodGroup", group(), default=NEGATIVE),
        Case("G10", "its priority", "PodGroup", group(priority=-10), default=NEGATIVE),
    ]


def _spec(field: str, value: Any) -> Document:
    """A PodGroup's spec with a field that may be null."""
    return {"spec": {"schedulingPolicy": GANG, field: value}}


def _references(dialect: Dialect) -> list[Case]:
    def ref(name: Any, template_name: Any) -> Document:
        return group(**{dialect.ref: template_ref(dialect, name, template_name)})

    partial = [drop(f"spec/{dialect.ref}/{name}") for name in dialect.ref_names]
    whole = ref(WORKLOAD, TEMPLATES[0])
    listed = [
        ("G12 G14", "a template, unlike which it is", whole),
        ("G13", "a template that the Workload lacks", ref(WORKLOAD, "nothing")),
        ("G13", "a Workload that is not there", ref("nothing", "worker")),
        ("G12", "no Workload that could be", ref("Not_A_Name", "worker")),
        ("G12", "no template that could be", ref(WORKLOAD, "not.a.label")),
        ("G12", "an empty reference", group(**{dialect.ref: {}})),
        ("G12", "a reference as text", group(**{dialect.ref: WORKLOAD})),
    ]
    missing = [edited(whole, [edit]) for edit in partial]
    return [
        *[Case(rows, name, "PodGroup", document) for rows, name, document in listed],
        Case("G12", "no Workload's name", "PodGroup", missing[0]),
        Case("G12", "no template's name", "PodGroup", missing[1]),
        Case(
            "G24",
            "a reference is set",
            "PodGroup",
            group(),
            [put(f"spec/{dialect.ref}", whole["spec"][dialect.ref])],
        ),
        Case("G24", "a reference is taken away", "PodGroup", whole, [drop(f"spec/{dialect.ref}")]),
        Case(
            "G24",
            "a reference is moved",
            "PodGroup",
            whole,
            [put(f"spec/{dialect.ref}/{dialect.ref_names[1]}", TEMPLATES[1])],
        ),
    ]


def _group_updates(dialect: Dialect) -> list[Case]:
    one, whole = dialect.good_modes
    gold = group(priorityClassName="gold", disruptionMode=whole)
    never = group(priorityClassName="never")
    held = group() | {"metadata": {"finalizers": ["example.com/hold"]}}
    edits: list[tuple[str, str, Document, list[Edit]]] = [
        ("G23", "nothing", gold, []),
        ("G23 G24", "the class is left out", gold, [drop("spec/priorityClassName")]),
        ("G23 G24", "the priority is left out", gold, [drop("spec/priority")]),
        ("G24", "another class", gold, [put("spec/priorityClassName", "silver")]),
        ("G24", "an unknown class", gold, [put("spec/priorityClassName", "nothing")]),
        ("G24", "a class is set", group(), [put("spec/priorityClassName", "zero")]),
        ("G24", "an empty class is set", group(), [put("spec/priorityClassName", "")]),
        ("G24", "another priority", gold, [put("spec/priority", 7)]),
        ("G24", "a priority above the limit", gold, [put("spec/priority", MAX_PRIORITY + 1)]),
        ("G24", "a priority as text", gold, [put("spec/priority", "1000")]),
        ("G24", "class and priority", gold, [put("spec/priorityClassName", "zero"), put("spec/priority", 0)]),
        ("G24", "another mode", gold, [put("spec/disruptionMode", one)]),
        ("G1 G24", "a mode is left out", gold, [drop("spec/disruptionMode")]),
        ("G1 G24", "a default mode is left out", group(), [drop("spec/disruptionMode")]),
        ("G24", "a mode that is none", gold, [put("spec/disruptionMode", dialect.bad_modes[0])]),
        ("G24 G2", "a policy of preemption", never, [put("spec/preemptionPolicy", "PreemptLowerPriority")]),
        ("G24 G22", "constraints", gold, [put("spec/schedulingConstraints", RACK)]),
        ("G24 G22", "claims", gold, [put("spec/resourceClaims", [CLAIM])]),
        ("G25", "another minCount", gold, [put("spec/schedulingPolicy/gang/minCount", 3)]),
        ("G25", "minCount 0", gold, [put("spec/schedulingPolicy/gang/minCount", 0)]),
        ("G25", "minCount as text", gold, [put("spec/schedulingPolicy/gang/minCount", "3")]),
        ("G25", "gang to basic", group(), [put("spec/schedulingPolicy", BASIC)]),
        ("G25", "basic to gang", group(schedulingPolicy=BASIC), [put("spec/schedulingPolicy", GANG)]),
        ("G25", "both policies", group(), [put("spec/schedulingPolicy", BASIC | GANG)]),
        ("G25", "no policy", group(), [drop("spec/schedulingPolicy")]),
        ("G27", "a status beside it", group(), [put("status", {"conditions": [_CONDITION]})]),
        ("G27", "a label", group(), [put("metadata/labels", {"a": "b"})]),
        ("G27", "a label that is none", group(), [put("metadata/labels", {"a b": "c"})]),
        ("G27", "an annotation", group(), [put("metadata/annotations/note", "x")]),
        ("G27", "a finalizer", group(), [append("metadata/finalizers", "example.com/hold")]),
        ("G27", "a finalizer goes", held, [drop("metadata/finalizers")]),
        ("G24 G25", "two things", gold, [put("spec/priority", 7), put("spec/schedulingPolicy", BASIC)]),
        ("G24", "an unknown field", group(), [put("spec/unheardOf", 1)]),
    ]
    from_sent = [
        ("G23 G24", "what was sent", gold),
        ("G23 G24", "what was sent, without a class", group()),
        ("G1", "what was sent, with class and priority", group(priorityClassName="gold", priority=1000)),
    ]
    deleted: list[tuple[str, list[Edit]]] = [
        ("its label", [put("metadata/labels", {"a": "b"})]),
        ("its class", [put("spec/priorityClassName", "gold")]),
        ("its finalizer goes", [drop("metadata/finalizers")]),
        ("another finalizer", [append("metadata/finalizers", "example.com/late")]),
    ]
    return [
        *[Case(rows, name, "PodGroup", document, steps) for rows, name, document, steps in edits],
        *[Case(rows, name, "PodGroup", document, [], "sent") for rows, name, document in from_sent],
        *[Case("G30", f"deleted, {name}", "PodGroup", held, steps, deleted=True) for name, steps in deleted],
        Case(
            "G23",
            "a default came",
            "PodGroup",
            group(),
            [put("metadata/labels", {"a": "b"})],
            default=STANDARD,
        ),
    ]


_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "",
    "lastTransitionTime": TIME,
}
_OWN = _CONDITION | {"type": "PodsNotMatchingPriority"}


def _group_statuses() -> list[Case]:
    def condition(**changes: Any) -> Document:
        return {"conditions": [_given(_CONDITION | changes)]}

    statuses: list[tuple[str, str, Document]] = [
        ("G28", "a condition", condition()),
        ("G28", "no status", {}),
        ("G29", "a type of one's own", {"conditions": [_CONDITION, _OWN]}),
        ("G28", "a type twice", {"conditions": [_CONDITION, _CONDITION]}),
        ("G28", "no type", condition(type=None)),
        ("G28", "a type that is none", condition(type="a b")),
        ("G28", "an empty type", condition(type="")),
        ("G28", "no such status", condition(status="Maybe")),
        ("G28", "no reason", condition(reason=None)),
        ("G28", "a reason with a space", condition(reason="a b")),
        ("G28", "a reason too long", condition(reason="a" * 1025)),
        ("G28", "no time", condition(lastTransitionTime=None)),
        ("G28", "a time that is none", condition(lastTransitionTime="yesterday")),
        ("G28", "the time of Go's zero", condition(lastTransitionTime="0001-01-01T00:00:00Z")),
        ("G28", "a time elsewhere", condition(lastTransitionTime="2026-01-01T01:00:00+01:00")),
        ("G28", "a type too long", condition(type="x" * 64)),
        ("G28", "an empty reason", condition(reason="")),
        ("G28", "generation 0", condition(observedGeneration=0)),
        ("G28", "a null condition", {"conditions": [None]}),
        ("G28", "no message", condition(message=None)),
        ("G28", "a message too long", condition(message="x" * 32769)),
        ("G28", "a generation below 0", condition(observedGeneration=-1)),
        ("G28", "a generation", condition(observedGeneration=3)),
        ("G28", "a claim that the group lacks", {"resourceClaimStatuses": [{"name": "net"}]}),
    ]
    beside: list[tuple[str, str, list[Edit]]] = [
        ("G28", "a spec beside it", [put("spec/priority", 7)]),
        ("G28", "a label beside it", [put("metadata/labels", {"a": "b"})]),
        ("G28", "a spec that is none", [put("spec/schedulingPolicy", {})]),
    ]
    return [
        *[
            Case(rows, f"status: {name}", "PodGroup", group(), [put("status", status)], subresource="status")
            for rows, name, status in statuses
        ],
        *[
            Case(
                rows,
                f"status: {name}",
                "PodGroup",
                group(),
                [put("status", condition()), *edits],
                subresource="status",
            )
            for rows, name, edits in beside
        ],
    ]


def _workload_creates(dialect: Dialect) -> list[Case]:
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
            for name, policy in _BAD_POLICIES
        ],
        ("W4", "no policy", workload({"name": "a"})),
        ("W6", "no mode", workload()),
        *[("W6", f"mode {mode!r}", templates(disruptionMode=mode)) for mode in dialect.good_modes],
        *[
            ("W6", name, workload(template() | {"disruptionMode": mode}))
            for name, mode in _bad_modes(dialect)
        ],
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
        ("W14", "a controller of no such group", workload(controllerRef=_JOB | {"apiGroup": "Batch"})),
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


_JOB = {"apiGroup": "batch", "kind": "Job", "name": "train"}


def _workload_updates(dialect: Dialect) -> list[Case]:
    first = "spec/podGroupTemplates/0"
    job = workload(controllerRef=_JOB)
    gold = workload(template(priorityClassName="gold", priority=5, disruptionMode=dialect.good_modes[1]))
    two = workload(template(), template("b"))
    edits: list[tuple[str, str, Document, list[Edit]]] = [
        ("W16", "nothing", gold, []),
        ("W15", "a controller is set", workload(), [put("spec/controllerRef", _JOB)]),
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
