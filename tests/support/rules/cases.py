"""Upstream's rules as a table: the row of the parity list, a request, and the server's answer word for word.

`test_upstream` sends every case to `review`, `test_upstream_server` to a real server of the minor, so a wrong
expectation fails there. `{v}` in a message is the API version.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.rules.scene import (
    BASIC,
    GANG,
    GOLD,
    NEVER,
    REMOVED,
    WORKLOAD,
    Document,
    group,
    mode,
    pod,
    priority_class,
    template,
    workload,
)

ALL = ("1.36", "1.37", "1.38")
OLDER = ("1.36",)
NEWER = ("1.37", "1.38")
BEFORE_1_38 = ("1.36", "1.37")
ONLY_1_37 = ("1.37",)
FROM_1_38 = ("1.38",)


class Case(NamedTuple):
    """A create, or with `edits` an update of the created object, and its result.

    `rule` is the id of the first finding, or empty; `expect` are fields of the stored object by path.
    """

    row: str
    name: str
    build: Callable[[str], Document]
    code: int
    message: str = ""
    rule: str = ""
    minors: tuple[str, ...] = ALL
    edits: tuple[tuple[str, Any], ...] = ()
    subresource: str = ""
    expect: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        """Return the name of the case in test output."""
        return f"{self.row}-{self.name}"


SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
UNION = "must specify one of: `basic`, `gang`"
ONLY_ONE = "must specify exactly one of: `basic`, `gang`"
TOO_HIGH = "must be less than or equal to 1000000000"
FIXED = "Invalid value: null: field is immutable"
WHOLE_BASIC = 'Invalid value: cannot have "all" disruption mode when scheduling policy is other than "gang"'
ONE_PRIORITY = (
    "spec: Invalid value: null: all priority, priorityClassName, and preemptionPolicy values must be "
    "identical, detected multiple values"
)
POD_FIXED = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
    "negative)"
)
_POD_FIXED_1_38 = (
    f"{POD_FIXED},`spec.schedulingGates` (only deletions of existing scheduling gates),`spec.nodeSelector` "
    "(only additions, and only while the pod has scheduling gates),`spec.affinity.nodeAffinity` (only while "
    "the pod has scheduling gates)"
)


def _class(name: str = "podium-test-c", **fields: Any) -> Callable[[str], Document]:
    return lambda _version: priority_class(name, **fields)


def _group(spec: Document, **fields: Any) -> Callable[[str], Document]:
    return lambda version: group({**spec, **fields}, version)


def _moded(spec: Document, *, whole: bool) -> Callable[[str], Document]:
    return lambda version: group({**spec, "disruptionMode": mode(version, whole=whole)}, version)


def _workload(*templates: Document, **fields: Any) -> Callable[[str], Document]:
    return lambda version: workload({"podGroupTemplates": list(templates), **fields}, version)


def _pod(**spec: Any) -> Callable[[str], Document]:
    return lambda _version: pod(**spec)


def _pc(text: str, name: str = "podium-test-c") -> str:
    return f'PriorityClass.scheduling.k8s.io "{name}" is invalid: {text}'


def _pg(text: str) -> str:
    return f'PodGroup.scheduling.k8s.io "g" is invalid: {text}'


def _pg_no(text: str) -> str:
    return f'podgroups.scheduling.k8s.io "g" is forbidden: {text}'


def _wl(text: str) -> str:
    return f'Workload.scheduling.k8s.io "w" is invalid: {text}'


def _pod_no(text: str) -> str:
    return f'pods "p" is forbidden: {text}'


_RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only."
    " error: "
)

PRIORITY_CLASSES = (
    Case(
        "PC1",
        "policy-defaulted",
        _class(value=5),
        201,
        expect=(("preemptionPolicy", "PreemptLowerPriority"),),
    ),
    Case(
        "PC2",
        "name",
        _class("C_"),
        422,
        _pc(f'metadata.name: Invalid value: "C_": {SUBDOMAIN}', "C_"),
        "metadata-name",
    ),
    Case(
        "PC3",
        "unknown-system-class",
        _class("system-x", value=1),
        422,
        _pc(f"{_RESERVED}system-x is not a known system priority class", "system-x"),
        "priority-class-reserved-name",
    ),
    Case(
        "PC3",
        "system-class-of-another-value",
        _class("system-node-critical", value=1),
        422,
        _pc(
            f"{_RESERVED}value of system-node-critical PriorityClass must be 2000001000",
            "system-node-critical",
        ),
        "priority-class-system",
    ),
    Case(
        "PC3",
        "system-class-as-default",
        _class("system-cluster-critical", value=2000000000, globalDefault=True),
        422,
        _pc(
            f"{_RESERVED}globalDefault of system-cluster-critical PriorityClass must be false",
            "system-cluster-critical",
        ),
        "priority-class-system",
    ),
    Case(
        "PC4",
        "value-too-high",
        _class(value=1000000001),
        422,
        _pc("value: Forbidden: maximum allowed value of a user defined priority is 1000000000"),
        "priority-class-value",
    ),
    Case("PC4", "lowest-value", _class(value=-(2**31)), 201, expect=(("value", -(2**31)),)),
    Case("PC4", "value-absent", _class(), 201, expect=(("value", 0),)),
    Case(
        "PC5",
        "unknown-policy",
        _class(value=1, preemptionPolicy="Sometimes"),
        422,
        _pc(
            'preemptionPolicy: Unsupported value: "Sometimes": supported values: '
            '"PreemptLowerPriority", "Never"'
        ),
        "priority-class-preemption-policy",
    ),
    Case(
        "PC5",
        "empty-policy",
        _class(value=1, preemptionPolicy=""),
        422,
        _pc("preemptionPolicy: Required value"),
        "priority-class-preemption-policy",
    ),
    Case(
        "PC7",
        "value-changed",
        _class(value=1),
        422,
        _pc("value: Forbidden: may not be changed in an update."),
        "priority-class-immutable",
        BEFORE_1_38,
        edits=(("value", 2),),
    ),
    Case(
        "PC7",
        "value-changed",
        _class(value=1),
        422,
        _pc("value: Invalid value: 2: field is immutable"),
        "priority-class-immutable",
        FROM_1_38,
        edits=(("value", 2),),
    ),
    Case(
        "PC7",
        "value-and-policy-changed",
        _class(value=1),
        422,
        _pc(
            "[value: Invalid value: 2: field is immutable, "
            'preemptionPolicy: Invalid value: "Never": field is immutable]'
        ),
        "priority-class-immutable",
        FROM_1_38,
        edits=(("value", 2), ("preemptionPolicy", "Never")),
    ),
    Case(
        "PC8",
        "policy-changed",
        _class(value=1),
        422,
        _pc('preemptionPolicy: Invalid value: "Never": field is immutable'),
        "priority-class-immutable",
        edits=(("preemptionPolicy", "Never"),),
    ),
    Case("PC8", "policy-omitted", _class(value=1), 200, edits=(("preemptionPolicy", REMOVED),)),
    Case(
        "PC9",
        "description",
        _class(value=1),
        200,
        edits=(("description", "x"), ("metadata.labels", {"a": "b"})),
    ),
    Case(
        "PC10",
        "policy-not-looked-at-again",
        _class(value=1),
        422,
        _pc('preemptionPolicy: Invalid value: "x": field is immutable'),
        "priority-class-immutable",
        edits=(("preemptionPolicy", "x"),),
    ),
    Case("PC14", "no-resource-version", _class(value=1), 200, edits=(("metadata.resourceVersion", REMOVED),)),
)

PODS = (
    Case(
        "P1",
        "no-class-no-default",
        _pod(),
        201,
        expect=(("spec.priority", 0), ("spec.preemptionPolicy", "PreemptLowerPriority")),
    ),
    Case(
        "P1",
        "class",
        _pod(priorityClassName=NEVER),
        201,
        expect=(("spec.priority", 2000), ("spec.preemptionPolicy", "Never")),
    ),
    Case(
        "P2",
        "unknown-class",
        _pod(priorityClassName="nope"),
        403,
        _pod_no("no PriorityClass with name nope was found"),
        "pod-class-not-found",
    ),
    Case(
        "P3",
        "other-integer",
        _pod(priorityClassName=GOLD, priority=7),
        403,
        _pod_no(
            "the integer value of priority (7) must not be provided in pod spec; priority admission "
            "controller "
            "computed 1000 from the given PriorityClass name"
        ),
        "pod-priority-mismatch",
    ),
    Case(
        "P4",
        "same-integer",
        _pod(priorityClassName=GOLD, priority=1000),
        201,
        expect=(("spec.priority", 1000),),
    ),
    Case("P4", "zero-without-class", _pod(priority=0), 201, expect=(("spec.priority", 0),)),
    Case(
        "P5",
        "other-policy",
        _pod(priorityClassName=GOLD, preemptionPolicy="Never"),
        403,
        _pod_no(
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority "
            "admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name"
        ),
        "pod-preemption-policy-mismatch",
    ),
    Case(
        "P6",
        "integer-first",
        _pod(priority=7, preemptionPolicy="Never"),
        403,
        _pod_no(
            "the integer value of priority (7) must not be provided in pod spec; priority admission "
            "controller "
            "computed 0 from the given PriorityClass name"
        ),
        "pod-priority-mismatch",
    ),
    Case(
        "P8",
        "system-class-anywhere",
        _pod(priorityClassName="system-node-critical"),
        201,
        expect=(("spec.priority", 2000001000),),
    ),
    Case(
        "P9",
        "numbers-omitted",
        _pod(priorityClassName=NEVER),
        200,
        edits=(("spec.priority", REMOVED), ("spec.preemptionPolicy", REMOVED)),
        expect=(("spec.priority", 2000), ("spec.preemptionPolicy", "Never")),
    ),
    Case(
        "P9b",
        "class-omitted",
        _pod(priorityClassName=GOLD),
        422,
        f'Pod "p" is invalid: {POD_FIXED}',
        "pod-immutable",
        BEFORE_1_38,
        edits=(("spec.priorityClassName", REMOVED),),
    ),
    Case(
        "P9b",
        "class-omitted-under-1.38",
        _pod(priorityClassName=GOLD),
        422,
        f'Pod "p" is invalid: {_POD_FIXED_1_38}',
        "pod-immutable",
        FROM_1_38,
        edits=(("spec.priorityClassName", REMOVED),),
    ),
    Case(
        "P10",
        "group-changed",
        _pod(schedulingGroup={"podGroupName": "a"}),
        422,
        f'Pod "p" is invalid: {POD_FIXED}',
        "pod-immutable",
        BEFORE_1_38,
        edits=(("spec.schedulingGroup.podGroupName", "b"),),
    ),
    Case(
        "P13",
        "empty-group",
        _pod(schedulingGroup={}),
        422,
        'Pod "p" is invalid: spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: '
        "`podGroupName`",
        "pod-scheduling-group",
    ),
    Case(
        "P13",
        "group-name",
        _pod(schedulingGroup={"podGroupName": "A"}),
        422,
        f'Pod "p" is invalid: spec.schedulingGroup.podGroupName: Invalid value: "A": {SUBDOMAIN}',
        "pod-scheduling-group",
    ),
    Case("P14", "absent-group", _pod(schedulingGroup={"podGroupName": "nowhere"}), 201),
)

_NEWER_UNION = (
    'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'
)

WORKLOADS = (
    Case(
        "W2",
        "no-templates",
        _workload(),
        422,
        _wl("spec.podGroupTemplates: Required value"),
        "workload-templates",
        OLDER,
    ),
    Case("W2", "no-templates", _workload(), 422, _wl(_NEWER_UNION), "workload-templates", NEWER),
    Case(
        "W2",
        "nine-templates",
        _workload(*(template(f"t{index}") for index in range(9))),
        422,
        _wl("spec.podGroupTemplates: Too many: 9: must have at most 8 items"),
        "workload-templates",
    ),
    Case(
        "W2",
        "name-twice",
        _workload(template(), template(priority=5), template()),
        422,
        _wl(
            '[spec.podGroupTemplates[1]: Duplicate value: {"name":"workers","schedulingPolicy":{"basic":{}},'
            '"schedulingConstraints":null,"priority":5}, spec.podGroupTemplates[2]: Duplicate value: '
            '{"name":"workers","schedulingPolicy":{"basic":{}},"schedulingConstraints":null}]'
        ),
        "workload-templates",
        OLDER,
    ),
    Case(
        "W3",
        "no-name",
        _workload(template("")),
        422,
        _wl("spec.podGroupTemplates[0].name: Required value"),
        "template-name",
    ),
    Case(
        "W3",
        "bad-name",
        _workload(template("A")),
        422,
        _wl(f'spec.podGroupTemplates[0].name: Invalid value: "A": {LABEL}'),
        "template-name",
    ),
    Case(
        "W3",
        "dots",
        _workload(template("a.b")),
        422,
        _wl('spec.podGroupTemplates[0].name: Invalid value: "a.b": must not contain dots'),
        "template-name",
    ),
    Case(
        "W4",
        "no-policy",
        _workload({"name": "t"}),
        422,
        _wl(f'spec.podGroupTemplates[0].schedulingPolicy: Invalid value: "": {UNION}'),
        "scheduling-policy",
    ),
    Case(
        "W5",
        "min-count-zero",
        _workload(template(schedulingPolicy={"gang": {"minCount": 0}})),
        422,
        _wl("spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value"),
        "min-count",
    ),
    Case(
        "W6",
        "unknown-mode",
        _workload(template(disruptionMode="Some")),
        422,
        _wl(
            'spec.podGroupTemplates[0].disruptionMode: Unsupported value: "Some": supported values: "Pod", '
            '"PodGroup"'
        ),
        "disruption-mode",
        OLDER,
    ),
    Case(
        "W6",
        "both-modes",
        _workload(template(disruptionMode={"single": {}, "all": {}})),
        422,
        _wl(
            'spec.podGroupTemplates[0].disruptionMode: Invalid value: "{single, all}": must specify '
            "exactly one "
            "of: `single`, `all`"
        ),
        "disruption-mode",
        ONLY_1_37,
    ),
    Case(
        "W6",
        "both-modes",
        _workload(template(disruptionMode={"single": {}, "all": {}})),
        422,
        _wl(
            f"[spec.podGroupTemplates[0].disruptionMode: {WHOLE_BASIC}, "
            'spec.podGroupTemplates[0].disruptionMode: Invalid value: "{single, all}": must specify '
            "exactly one of: `single`, `all`]"
        ),
        "whole-mode-without-gang",
        FROM_1_38,
    ),
    Case(
        "W6",
        "mode-not-defaulted",
        _workload(template()),
        201,
        expect=(("spec.podGroupTemplates.0.disruptionMode", REMOVED),),
    ),
    Case("W7", "absent-class", _workload(template(priorityClassName="nowhere")), 201),
    Case(
        "W7",
        "class-name",
        _workload(template(priorityClassName="A")),
        422,
        _wl(f'spec.podGroupTemplates[0].priorityClassName: Invalid value: "A": {SUBDOMAIN}'),
        "class-name-format",
    ),
    Case(
        "W8",
        "too-high",
        _workload(template(priority=1000000001)),
        422,
        _wl(f"spec.podGroupTemplates[0].priority: Invalid value: 1000000001: {TOO_HIGH}"),
        "priority-too-high",
        BEFORE_1_38,
    ),
    Case("W8", "no-upper-bound", _workload(template(priority=2000000000)), 201, minors=FROM_1_38),
    Case("W8", "any-integer", _workload(template(priority=7, priorityClassName=GOLD)), 201),
    Case("W10", "unlike-priority", _workload(template("a", priority=1), template("b")), 201, minors=OLDER),
    Case(
        "W10",
        "unlike-priority",
        _workload(template("a", priority=0), template("b")),
        422,
        _wl("spec: Invalid value: null: detected multiple priority configurations"),
        "templates-unlike-priority",
        ONLY_1_37,
    ),
    Case(
        "W10",
        "unlike-priority",
        _workload(template("a", priority=0), template("b")),
        422,
        _wl(ONE_PRIORITY),
        "templates-unlike-priority",
        FROM_1_38,
    ),
    Case(
        "W10",
        "one-policy",
        _workload(template("a", preemptionPolicy="Never"), template("b", preemptionPolicy="Never")),
        201,
        minors=FROM_1_38,
        expect=(("spec.podGroupTemplates.0.preemptionPolicy", "Never"),),
    ),
    Case(
        "W10",
        "unlike-policy",
        _workload(template("a", preemptionPolicy="Never"), template("b")),
        422,
        _wl(ONE_PRIORITY),
        "templates-unlike-priority",
        FROM_1_38,
    ),
    Case(
        "W14",
        "controller",
        _workload(template(), controllerRef={"kind": "a/b", "name": ""}),
        422,
        _wl(
            "[spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/', spec.controllerRef.name: "
            "Required value]"
        ),
        "controller-reference",
    ),
    Case(
        "W15",
        "controller-set-later",
        _workload(template()),
        422,
        _wl(f"spec.controllerRef: {FIXED}"),
        "workload-immutable",
        edits=(("spec.controllerRef", {"kind": "Job", "name": "j"}),),
    ),
    Case(
        "W16",
        "min-count",
        _workload(template(schedulingPolicy={"gang": {"minCount": 2}})),
        422,
        _wl(f"spec.podGroupTemplates: {FIXED}"),
        "workload-immutable",
        OLDER,
        edits=(("spec.podGroupTemplates.0.schedulingPolicy.gang.minCount", 3),),
    ),
    Case(
        "W16",
        "min-count",
        _workload(template(schedulingPolicy={"gang": {"minCount": 2}})),
        200,
        minors=NEWER,
        edits=(("spec.podGroupTemplates.0.schedulingPolicy.gang.minCount", 3),),
    ),
    Case(
        "W16",
        "template-renamed",
        _workload(template()),
        422,
        _wl(
            "[spec.podGroupTemplates[0]: Forbidden: item may not be added, spec.podGroupTemplates: "
            "Forbidden: "
            "item may not be removed]"
        ),
        "workload-immutable",
        NEWER,
        edits=(("spec.podGroupTemplates.0.name", "other"),),
    ),
    Case(
        "W16",
        "class-set-later",
        _workload(template()),
        422,
        _wl(f"spec.podGroupTemplates[0].priorityClassName: {FIXED}"),
        "workload-immutable",
        NEWER,
        edits=(("spec.podGroupTemplates.0.priorityClassName", GOLD),),
    ),
    Case(
        "W18",
        "status-unknown",
        lambda v: {**workload({"podGroupTemplates": [template()]}, v), "status": {}},
        201,
    ),
    Case(
        "W21",
        "basic-as-a-whole",
        lambda v: workload({"podGroupTemplates": [template(disruptionMode=mode(v, whole=True))]}, v),
        201,
        minors=BEFORE_1_38,
    ),
    Case(
        "W21",
        "basic-as-a-whole",
        lambda v: workload({"podGroupTemplates": [template(disruptionMode=mode(v, whole=True))]}, v),
        422,
        _wl(f"spec.podGroupTemplates[0].disruptionMode: {WHOLE_BASIC}"),
        "whole-mode-without-gang",
        FROM_1_38,
    ),
)

_REFERENCE = {
    "podGroupTemplateRef": {"workload": {"workloadName": WORKLOAD, "podGroupTemplateName": "workers"}}
}

GROUPS = (
    Case("G1", "mode-defaulted", _group(GANG), 201, minors=OLDER, expect=(("spec.disruptionMode", "Pod"),)),
    Case(
        "G1",
        "mode-defaulted",
        _group(GANG),
        201,
        minors=NEWER,
        expect=(("spec.disruptionMode", {"single": {}}),),
    ),
    Case(
        "G2",
        "policy-dropped",
        _group(GANG, preemptionPolicy="Never"),
        201,
        rule="gated-field-dropped",
        minors=ONLY_1_37,
        expect=(("spec.preemptionPolicy", REMOVED),),
    ),
    Case(
        "G2",
        "policy-of-the-class",
        _group(GANG, priorityClassName=NEVER),
        201,
        minors=FROM_1_38,
        expect=(("spec.preemptionPolicy", "Never"),),
    ),
    Case(
        "G2",
        "policy-without-a-class",
        _group(GANG),
        201,
        minors=FROM_1_38,
        expect=(("spec.preemptionPolicy", "PreemptLowerPriority"),),
    ),
    Case(
        "G2",
        "other-policy",
        _group(GANG, preemptionPolicy="Never"),
        403,
        _pg_no(
            "the string value of PreemptionPolicy (Never) must not be provided in pod group spec; priority "
            "admission controller computed PreemptLowerPriority from the given PriorityClass name"
        ),
        "group-preemption-policy-mismatch",
        FROM_1_38,
    ),
    Case(
        "G23",
        "policy-omitted",
        _group(GANG),
        422,
        _pg(f"spec.preemptionPolicy: {FIXED}"),
        "group-immutable",
        FROM_1_38,
        edits=(("spec.preemptionPolicy", REMOVED),),
    ),
    Case(
        "G3",
        "no-class-no-default",
        _group(GANG),
        201,
        expect=(("spec.priority", 0), ("spec.priorityClassName", REMOVED)),
    ),
    Case("G4", "class", _group(GANG, priorityClassName=GOLD), 201, expect=(("spec.priority", 1000),)),
    Case(
        "G5",
        "unknown-class",
        _group(GANG, priorityClassName="nope"),
        403,
        _pg_no("no PriorityClass with name nope was found"),
        "group-class-not-found",
    ),
    Case("G6", "same-integer", _group(GANG, priorityClassName=GOLD, priority=1000), 201),
    Case(
        "G7",
        "other-integer",
        _group(GANG, priorityClassName=GOLD, priority=9999),
        403,
        _pg_no(
            "priority set in the pod group (9999) must match the priority computed (1000) based on the "
            "priority "
            "class set in the spec"
        ),
        "group-priority-mismatch",
    ),
    Case(
        "G9",
        "system-class",
        _group(GANG, priorityClassName="system-cluster-critical"),
        422,
        _pg(f"spec.priority: Invalid value: 2000000000: {TOO_HIGH}"),
        "priority-too-high",
        BEFORE_1_38,
    ),
    Case(
        "G9",
        "system-class",
        _group(GANG, priorityClassName="system-cluster-critical"),
        201,
        minors=FROM_1_38,
        expect=(("spec.priority", 2000000000),),
    ),
    Case(
        "G11",
        "name",
        lambda v: group(GANG, v, name="G_"),
        422,
        f'PodGroup.scheduling.k8s.io "G_" is invalid: metadata.name: Invalid value: "G_": {SUBDOMAIN}',
        "metadata-name",
    ),
    Case(
        "G12",
        "empty-reference",
        _group(GANG, podGroupTemplateRef={}),
        422,
        _pg('spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`'),
        "template-reference",
        OLDER,
    ),
    Case(
        "G12",
        "empty-reference",
        _group(GANG, workloadRef={}),
        422,
        _pg("[spec.workloadRef.workloadName: Required value, spec.workloadRef.templateName: Required value]"),
        "template-reference",
        NEWER,
    ),
    Case("G13", "template", _group(GANG, **_REFERENCE), 201, minors=OLDER),
    Case(
        "G13",
        "no-workload",
        _group(GANG, podGroupTemplateRef={"workload": {"workloadName": "no", "podGroupTemplateName": "t"}}),
        403,
        _pg_no('PodGroup rejected: Workload "no" not found'),
        "workload-not-found",
        OLDER,
    ),
    Case(
        "G13",
        "no-template",
        _group(
            GANG, podGroupTemplateRef={"workload": {"workloadName": WORKLOAD, "podGroupTemplateName": "t"}}
        ),
        403,
        _pg_no(f'PodGroup rejected: PodGroupTemplate "t" not found in Workload "{WORKLOAD}"'),
        "workload-not-found",
        OLDER,
    ),
    Case(
        "G13",
        "no-workload",
        _group(GANG, workloadRef={"workloadName": "no", "templateName": "t"}),
        201,
        minors=NEWER,
    ),
    Case(
        "G15",
        "status-cleared",
        lambda v: {**group(GANG, v), "status": {"conditions": [{}]}},
        201,
        expect=(("status", {}),),
    ),
    Case(
        "G16",
        "finalizer",
        _group(GANG),
        201,
        expect=(("metadata.finalizers", ["scheduling.k8s.io/podgroup-protection"]),),
    ),
    Case(
        "G17",
        "no-policy",
        _group({}),
        422,
        _pg(f'spec.schedulingPolicy: Invalid value: "": {UNION}'),
        "scheduling-policy",
    ),
    Case(
        "G17",
        "both-policies",
        _group({"schedulingPolicy": {"basic": {}, "gang": {"minCount": -1}}}),
        422,
        _pg(
            f'[spec.schedulingPolicy: Invalid value: "{{basic, gang}}": {ONLY_ONE}, '
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1]"
        ),
        "scheduling-policy",
    ),
    Case(
        "G18",
        "unknown-mode",
        _group(GANG, disruptionMode="Invalid"),
        422,
        _pg('spec.disruptionMode: Unsupported value: "Invalid": supported values: "Pod", "PodGroup"'),
        "disruption-mode",
        OLDER,
    ),
    Case(
        "G18",
        "no-mode",
        _group(GANG, disruptionMode={}),
        422,
        _pg('spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`'),
        "disruption-mode",
        NEWER,
    ),
    Case(
        "G18",
        "mode-of-1.36",
        _group(GANG, disruptionMode="PodGroup"),
        400,
        'PodGroup in version "{v}" cannot be handled as a PodGroup: json: cannot unmarshal string into '
        "Go struct "
        "field PodGroupSpec.spec.disruptionMode of type {v}.DisruptionMode",
        "wrong-type",
        NEWER,
    ),
    Case("G20", "basic-as-a-whole", _moded(BASIC, whole=True), 201, minors=BEFORE_1_38),
    Case(
        "G20",
        "basic-as-a-whole",
        _moded(BASIC, whole=True),
        422,
        _pg(f"spec.disruptionMode: {WHOLE_BASIC}"),
        "whole-mode-without-gang",
        FROM_1_38,
    ),
    Case(
        "G22",
        "claims-dropped",
        _group(GANG, resourceClaims=[{"name": "a"}], schedulingConstraints={}),
        201,
        rule="gated-field-dropped",
        expect=(("spec.resourceClaims", REMOVED), ("spec.schedulingConstraints", REMOVED)),
    ),
    Case(
        "G23",
        "numbers-omitted",
        _group(GANG, priorityClassName=GOLD),
        422,
        _pg(f"[spec.priorityClassName: {FIXED}, spec.priority: {FIXED}]"),
        "group-immutable",
        edits=(("spec.priorityClassName", REMOVED), ("spec.priority", REMOVED)),
    ),
    Case(
        "G24",
        "mode-omitted",
        _moded(GANG, whole=True),
        422,
        _pg(f"spec.disruptionMode: {FIXED}"),
        "group-immutable",
        edits=(("spec.disruptionMode", REMOVED),),
    ),
    Case(
        "G25",
        "min-count",
        _group(GANG),
        422,
        _pg(f"spec.schedulingPolicy: {FIXED}"),
        "group-immutable",
        OLDER,
        edits=(("spec.schedulingPolicy.gang.minCount", 3),),
    ),
    Case(
        "G25",
        "min-count",
        _group(GANG),
        200,
        minors=NEWER,
        edits=(("spec.schedulingPolicy.gang.minCount", 3),),
    ),
    Case(
        "G25",
        "policy-switched",
        _group(GANG),
        422,
        _pg(
            f"[spec.schedulingPolicy.basic: {FIXED}, spec.schedulingPolicy.gang: Invalid value: null: "
            f"field cannot "
            "be cleared once set]"
        ),
        "scheduling-policy-switch",
        NEWER,
        edits=(("spec.schedulingPolicy", {"basic": {}}),),
    ),
    Case(
        "G25",
        "policy-switched-back",
        _group(BASIC),
        422,
        _pg(
            f"[spec.schedulingPolicy.basic: {FIXED}, spec.schedulingPolicy.gang: Invalid value: null: "
            f"field cannot "
            "be set once created]"
        ),
        "scheduling-policy-switch",
        NEWER,
        edits=(("spec.schedulingPolicy", {"gang": {"minCount": 1}}),),
    ),
    Case(
        "G27",
        "status-ignored",
        _group(GANG),
        200,
        edits=(("status", {"conditions": [{}]}),),
        expect=(("status", {}),),
    ),
    Case(
        "G31",
        "no-resource-version",
        _group(GANG),
        422,
        'podgroups.scheduling.k8s.io "g" is invalid: metadata.resourceVersion: Invalid value: 0: must '
        "be specified "
        "for an update",
        "resource-version",
        NEWER,
        edits=(("metadata.resourceVersion", REMOVED),),
    ),
    Case(
        "G31",
        "no-resource-version",
        _group(GANG),
        200,
        minors=OLDER,
        edits=(("metadata.resourceVersion", REMOVED),),
    ),
    Case(
        "G31",
        "other-resource-version",
        _group(GANG),
        409,
        'Operation cannot be fulfilled on podgroups.scheduling.k8s.io "g": the object has been '
        "modified; please "
        "apply your changes to the latest version and try again",
        "object-conflict",
        edits=(("metadata.resourceVersion", "1"),),
    ),
)

_CONDITION = {
    "type": "PodsNotMatchingPriority",
    "status": "True",
    "reason": "Mixed",
    "message": "",
    "lastTransitionTime": "2026-01-01T01:00:00+01:00",
}


def _status(
    row: str, name: str, code: int, message: str = "", minors: tuple[str, ...] = ALL, **fields: Any
) -> Case:
    conditions = [{**_CONDITION, **fields}]
    return Case(
        row,
        name,
        _group(GANG),
        code,
        _pg(message) if message else "",
        "condition-invalid" if message else "",
        minors,
        edits=(("status", {"conditions": conditions}), ("spec.priority", 7), ("metadata.labels", {"a": "b"})),
        subresource="status",
    )


STATUS = (
    Case(
        "G29",
        "own-condition",
        _group(GANG),
        200,
        edits=(
            ("status", {"conditions": [_CONDITION]}),
            ("spec.priority", 7),
            ("metadata.labels", {"a": "b"}),
        ),
        subresource="status",
        expect=(
            ("status.conditions.0.lastTransitionTime", "2026-01-01T00:00:00Z"),
            ("spec.priority", 0),
            ("metadata.labels", REMOVED),
        ),
    ),
    _status("G28", "no-reason", 422, "status.conditions[0].reason: Required value", reason=""),
    _status(
        "G28",
        "reason-too-long",
        422,
        "status.conditions[0].reason: Too long: may not be more than 1024 bytes",
        reason="a" * 1025,
    ),
    _status(
        "G28",
        "status",
        422,
        'status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", '
        '"Unknown"',
        status="Maybe",
    ),
    _status("G28", "no-status", 422, "status.conditions[0].status: Required value", NEWER, status=""),
    _status(
        "G28", "no-type", 422, "status.conditions[0].type: Required value: is required", ONLY_1_37, type=""
    ),
    _status("G28", "no-type", 422, "status.conditions[0].type: Required value", FROM_1_38, type=""),
    _status(
        "G28",
        "no-status",
        422,
        'status.conditions[0].status: Unsupported value: "": supported values: "False", "True", "Unknown"',
        OLDER,
        status="",
    ),
    _status(
        "G28",
        "no-time",
        422,
        "status.conditions[0].lastTransitionTime: Required value",
        lastTransitionTime=None,
    ),
    _status(
        "G28",
        "generation",
        422,
        "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        BEFORE_1_38,
        observedGeneration=-1,
    ),
    _status(
        "G28",
        "generation",
        422,
        "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to 0",
        FROM_1_38,
        observedGeneration=-1,
    ),
    _status(
        "G28",
        "declared-after-code",
        422,
        '[status.conditions[0].type: Invalid value: "-": name part must consist of alphanumeric characters, '
        "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
        "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), "
        "status.conditions[0].status: Required value, status.conditions[0].reason: Required value]",
        FROM_1_38,
        type="-",
        status="",
        reason="",
    ),
    Case(
        "G28",
        "repeated-type",
        _group(GANG),
        422,
        _pg(
            'status.conditions[1]: Duplicate value: {"type":"PodsNotMatchingPriority","status":"True",'
            '"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Mixed","message":""}'
        ),
        "condition-invalid",
        FROM_1_38,
        edits=(("status", {"conditions": [_CONDITION, _CONDITION]}),),
        subresource="status",
    ),
    Case(
        "G28",
        "claim-of-no-spec",
        _group(GANG),
        200,
        edits=(("status", {"resourceClaimStatuses": [{"name": "a"}]}),),
        subresource="status",
        expect=(("status", {}),),
    ),
)

CASES = (*PRIORITY_CLASSES, *PODS, *WORKLOADS, *GROUPS, *STATUS)
