"""PodGroups: creates, references, changes and statuses."""

from typing import Any

from tests.support.admission.edits import Edit, append, drop, edited, put
from tests.support.admission.grouped import template_ref
from tests.support.admission.scene import MAX_PRIORITY, Dialect
from tests.support.parity.case import (
    BAD_POLICIES,
    BASIC,
    CLAIM,
    DEFAULTS,
    GANG,
    NEGATIVE,
    RACK,
    STANDARD,
    TEMPLATES,
    TIME,
    WORKLOAD,
    Case,
    Document,
    bad_modes,
    given,
    group,
)


def creates(dialect: Dialect) -> list[Case]:
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
        ("G7", "a priority with a fraction of zero", group(priorityClassName="gold", priority=1000.0)),
        ("G7", "a priority beyond 32 bits", group(priority=2**31)),
        ("G9", "a system class", group(priorityClassName="system-node-critical")),
        ("G9", "the other system class", group(priorityClassName="system-cluster-critical")),
        ("G15", "a status", group() | {"status": {"conditions": [_CONDITION]}}),
        ("G16", "a finalizer", group() | {"metadata": {"finalizers": ["example.com/hold"]}}),
        ("G16", "an empty finalizer", group() | {"metadata": {"finalizers": [""]}}),
        ("G16", "a finalizer without a domain", group() | {"metadata": {"finalizers": ["nobody"]}}),
        *[("G17", name, group(schedulingPolicy=policy)) for name, policy in BAD_POLICIES],
        ("G17", "no policy", {"spec": {}}),
        ("G17", "no spec", {}),
        ("G17", "basic", group(schedulingPolicy=BASIC)),
        *[("G18", name, group() | _spec("disruptionMode", mode)) for name, mode in bad_modes(dialect)],
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


def references(dialect: Dialect) -> list[Case]:
    def ref(name: Any, template_name: Any) -> Document:
        return group(**{dialect.ref: template_ref(dialect, name, template_name)})

    partial = [drop(f"spec/{dialect.ref}/{name}") for name in dialect.ref_names]
    whole = ref(WORKLOAD, TEMPLATES[0])
    listed = [
        ("G12 G14", "a template, unlike which it is", whole),
        ("G13", "a template that the Workload lacks", ref(WORKLOAD, "nothing")),
        ("G13", "a Workload that does not exist", ref("nothing", "worker")),
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


def updates(dialect: Dialect) -> list[Case]:
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
        ("G1 G24", "another mode than the default", group(), [put("spec/disruptionMode", whole)]),
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
        ("its mode is left out", [drop("spec/disruptionMode")]),
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


def statuses() -> list[Case]:
    def condition(**changes: Any) -> Document:
        return {"conditions": [given(_CONDITION | changes)]}

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
        ("G28", "a grace period beside it", [put("metadata/deletionGracePeriodSeconds", 5)]),
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
