"""Upstream's rules as a table: the row of the parity list, a request, and the server's answer word for word.

`test_upstream` sends every case to `review`, `test_upstream_server` to a real server of the minor, so a wrong
expectation fails there. `{v}` in a message is the API version. The table has what servers accept, a refusal
of each rule, and the refusals that the recordings of tests/conformance/admission do not show. They replay the
answers of real servers to thousands of requests, so a further refusal of a rule needs no row.
"""

from collections.abc import Callable, Mapping
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

    `rule` is the id of the first finding, or empty. `edits` and `expect` are fields by path,
    `expect` of the stored object.
    """

    id: str
    build: Callable[[str], Document]
    code: int
    message: str
    rule: str
    minors: tuple[str, ...]
    edits: Mapping[str, Any]
    subresource: str
    expect: Mapping[str, Any]

    @property
    def row(self) -> str:
        """Return the row of the parity list."""
        return self.id.partition("-")[0]


def accepted(
    name: str,
    build: Callable[[str], Document],
    *,
    rule: str = "",
    minors: tuple[str, ...] = ALL,
    edits: Mapping[str, Any] = {},
    subresource: str = "",
    expect: Mapping[str, Any] = {},
) -> Case:
    """Make a case that the server accepts, perhaps with a warning."""
    return Case(name, build, 200 if edits else 201, "", rule, minors, edits, subresource, expect)


def refused(
    name: str,
    build: Callable[[str], Document],
    rule: str,
    text: str,
    minors: tuple[str, ...] = ALL,
    *,
    code: int = 422,
    edits: Mapping[str, Any] = {},
    subresource: str = "",
) -> Case:
    """Make a case that the server refuses; `text` comes after the name of the object for a 403 and a 422."""
    document = build("v1beta1")
    kind, object_name = document["kind"], document["metadata"]["name"]
    in_group = "" if kind == "Pod" else ".scheduling.k8s.io"
    starts = {
        403: f'{kind.lower()}s{in_group} "{object_name}" is forbidden: ',
        422: f'{kind}{in_group} "{object_name}" is invalid: ',
    }
    return Case(name, build, code, starts.get(code, "") + text, rule, minors, edits, subresource, {})


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


_RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only."
    " error: "
)

PRIORITY_CLASSES = (
    accepted("PC1-policy-defaulted", _class(value=5), expect={"preemptionPolicy": "PreemptLowerPriority"}),
    refused(
        "PC3-unknown-system-class",
        _class("system-x", value=1),
        "priority-class-reserved-name",
        f"{_RESERVED}system-x is not a known system priority class",
    ),
    refused(
        "PC3-system-class-of-another-value",
        _class("system-node-critical", value=1),
        "priority-class-system",
        f"{_RESERVED}value of system-node-critical PriorityClass must be 2000001000",
    ),
    refused(
        "PC4-value-too-high",
        _class(value=1000000001),
        "priority-class-value",
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
    ),
    accepted("PC4-lowest-value", _class(value=-(2**31)), expect={"value": -(2**31)}),
    accepted("PC4-value-absent", _class(), expect={"value": 0}),
    refused(
        "PC5-unknown-policy",
        _class(value=1, preemptionPolicy="Sometimes"),
        "priority-class-preemption-policy",
        'preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"',
    ),
    refused(
        "PC7-value-changed",
        _class(value=1),
        "priority-class-immutable",
        "value: Forbidden: may not be changed in an update.",
        BEFORE_1_38,
        edits={"value": 2},
    ),
    refused(
        "PC7-value-changed",
        _class(value=1),
        "priority-class-immutable",
        "value: Invalid value: 2: field is immutable",
        FROM_1_38,
        edits={"value": 2},
    ),
    accepted("PC8-policy-omitted", _class(value=1), edits={"preemptionPolicy": REMOVED}),
    accepted("PC9-description", _class(value=1), edits={"description": "x", "metadata.labels": {"a": "b"}}),
    accepted("PC14-no-resource-version", _class(value=1), edits={"metadata.resourceVersion": REMOVED}),
)

PODS = (
    accepted(
        "P1-no-class-no-default",
        _pod(),
        expect={"spec.priority": 0, "spec.preemptionPolicy": "PreemptLowerPriority"},
    ),
    accepted(
        "P1-class",
        _pod(priorityClassName=NEVER),
        expect={"spec.priority": 2000, "spec.preemptionPolicy": "Never"},
    ),
    refused(
        "P2-unknown-class",
        _pod(priorityClassName="nope"),
        "pod-class-not-found",
        "no PriorityClass with name nope was found",
        code=403,
    ),
    refused(
        "P3-other-integer",
        _pod(priorityClassName=GOLD, priority=7),
        "pod-priority-mismatch",
        "the integer value of priority (7) must not be provided in pod spec; priority admission "
        "controller computed 1000 from the given PriorityClass name",
        code=403,
    ),
    accepted("P4-same-integer", _pod(priorityClassName=GOLD, priority=1000), expect={"spec.priority": 1000}),
    accepted("P4-zero-without-class", _pod(priority=0), expect={"spec.priority": 0}),
    refused(
        "P5-other-policy",
        _pod(priorityClassName=GOLD, preemptionPolicy="Never"),
        "pod-preemption-policy-mismatch",
        "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority "
        "admission controller computed PreemptLowerPriority from the given PriorityClass name",
        code=403,
    ),
    accepted(
        "P8-system-class-anywhere",
        _pod(priorityClassName="system-node-critical"),
        expect={"spec.priority": 2000001000},
    ),
    accepted(
        "P9-numbers-omitted",
        _pod(priorityClassName=NEVER),
        edits={"spec.priority": REMOVED, "spec.preemptionPolicy": REMOVED},
        expect={"spec.priority": 2000, "spec.preemptionPolicy": "Never"},
    ),
    refused(
        "P10-group-changed",
        _pod(schedulingGroup={"podGroupName": "a"}),
        "pod-immutable",
        f"{POD_FIXED}",
        BEFORE_1_38,
        edits={"spec.schedulingGroup.podGroupName": "b"},
    ),
    refused(
        "P13-empty-group",
        _pod(schedulingGroup={}),
        "pod-scheduling-group",
        "spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`",
    ),
    accepted("P14-absent-group", _pod(schedulingGroup={"podGroupName": "nowhere"})),
)


WORKLOADS = (
    refused(
        "W2-name-twice",
        _workload(template(), template(priority=5), template()),
        "workload-templates",
        "[spec.podGroupTemplates[1]: Duplicate value: "
        '{"name":"workers","schedulingPolicy":{"basic":{}},"schedulingConstraints":null,"priority":5}, '
        "spec.podGroupTemplates[2]: Duplicate value: "
        '{"name":"workers","schedulingPolicy":{"basic":{}},"schedulingConstraints":null}]',
        OLDER,
    ),
    refused(
        "W3-bad-name",
        _workload(template("A")),
        "template-name",
        f'spec.podGroupTemplates[0].name: Invalid value: "A": {LABEL}',
    ),
    refused(
        "W5-min-count-zero",
        _workload(template(schedulingPolicy={"gang": {"minCount": 0}})),
        "min-count",
        "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value",
    ),
    accepted(
        "W6-mode-not-defaulted",
        _workload(template()),
        expect={"spec.podGroupTemplates.0.disruptionMode": REMOVED},
    ),
    accepted("W7-absent-class", _workload(template(priorityClassName="nowhere"))),
    refused(
        "W7-class-name",
        _workload(template(priorityClassName="A")),
        "class-name-format",
        f'spec.podGroupTemplates[0].priorityClassName: Invalid value: "A": {SUBDOMAIN}',
    ),
    accepted("W8-no-upper-bound", _workload(template(priority=2000000000)), minors=FROM_1_38),
    accepted("W8-any-integer", _workload(template(priority=7, priorityClassName=GOLD))),
    accepted("W10-unlike-priority", _workload(template("a", priority=1), template("b")), minors=OLDER),
    refused(
        "W10-unlike-priority",
        _workload(template("a", priority=0), template("b")),
        "templates-unlike-priority",
        "spec: Invalid value: null: detected multiple priority configurations",
        ONLY_1_37,
    ),
    refused(
        "W10-unlike-priority",
        _workload(template("a", priority=0), template("b")),
        "templates-unlike-priority",
        ONE_PRIORITY,
        FROM_1_38,
    ),
    accepted(
        "W10-one-policy",
        _workload(template("a", preemptionPolicy="Never"), template("b", preemptionPolicy="Never")),
        minors=FROM_1_38,
        expect={"spec.podGroupTemplates.0.preemptionPolicy": "Never"},
    ),
    refused(
        "W14-controller",
        _workload(template(), controllerRef={"kind": "a/b", "name": ""}),
        "controller-reference",
        "[spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/', spec.controllerRef.name: "
        "Required value]",
    ),
    refused(
        "W15-controller-set-later",
        _workload(template()),
        "workload-immutable",
        f"spec.controllerRef: {FIXED}",
        edits={"spec.controllerRef": {"kind": "Job", "name": "j"}},
    ),
    accepted(
        "W16-min-count",
        _workload(template(schedulingPolicy={"gang": {"minCount": 2}})),
        minors=NEWER,
        edits={"spec.podGroupTemplates.0.schedulingPolicy.gang.minCount": 3},
    ),
    accepted(
        "W18-status-unknown", lambda v: {**workload({"podGroupTemplates": [template()]}, v), "status": {}}
    ),
    accepted(
        "W21-basic-as-a-whole",
        lambda v: workload({"podGroupTemplates": [template(disruptionMode=mode(v, whole=True))]}, v),
        minors=BEFORE_1_38,
    ),
)

_REFERENCE = {
    "podGroupTemplateRef": {"workload": {"workloadName": WORKLOAD, "podGroupTemplateName": "workers"}}
}

GROUPS = (
    accepted("G1-mode-defaulted", _group(GANG), minors=OLDER, expect={"spec.disruptionMode": "Pod"}),
    accepted("G1-mode-defaulted", _group(GANG), minors=NEWER, expect={"spec.disruptionMode": {"single": {}}}),
    accepted(
        "G2-policy-dropped",
        _group(GANG, preemptionPolicy="Never"),
        rule="gated-field-dropped",
        minors=ONLY_1_37,
        expect={"spec.preemptionPolicy": REMOVED},
    ),
    accepted(
        "G2-policy-of-the-class",
        _group(GANG, priorityClassName=NEVER),
        minors=FROM_1_38,
        expect={"spec.preemptionPolicy": "Never"},
    ),
    accepted(
        "G2-policy-without-a-class",
        _group(GANG),
        minors=FROM_1_38,
        expect={"spec.preemptionPolicy": "PreemptLowerPriority"},
    ),
    refused(
        "G2-other-policy",
        _group(GANG, preemptionPolicy="Never"),
        "group-preemption-policy-mismatch",
        "the string value of PreemptionPolicy (Never) must not be provided in pod group spec; priority "
        "admission controller computed PreemptLowerPriority from the given PriorityClass name",
        FROM_1_38,
        code=403,
    ),
    accepted(
        "G3-no-class-no-default", _group(GANG), expect={"spec.priority": 0, "spec.priorityClassName": REMOVED}
    ),
    accepted("G4-class", _group(GANG, priorityClassName=GOLD), expect={"spec.priority": 1000}),
    refused(
        "G5-unknown-class",
        _group(GANG, priorityClassName="nope"),
        "group-class-not-found",
        "no PriorityClass with name nope was found",
        code=403,
    ),
    accepted("G6-same-integer", _group(GANG, priorityClassName=GOLD, priority=1000)),
    refused(
        "G7-other-integer",
        _group(GANG, priorityClassName=GOLD, priority=9999),
        "group-priority-mismatch",
        "priority set in the pod group (9999) must match the priority computed (1000) based on the "
        "priority class set in the spec",
        code=403,
    ),
    refused(
        "G9-system-class",
        _group(GANG, priorityClassName="system-cluster-critical"),
        "priority-too-high",
        f"spec.priority: Invalid value: 2000000000: {TOO_HIGH}",
        BEFORE_1_38,
    ),
    accepted(
        "G9-system-class",
        _group(GANG, priorityClassName="system-cluster-critical"),
        minors=FROM_1_38,
        expect={"spec.priority": 2000000000},
    ),
    refused(
        "G11-name",
        lambda v: group(GANG, v, name="G_"),
        "metadata-name",
        f'metadata.name: Invalid value: "G_": {SUBDOMAIN}',
    ),
    refused(
        "G12-empty-reference",
        _group(GANG, podGroupTemplateRef={}),
        "template-reference",
        'spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`',
        OLDER,
    ),
    refused(
        "G12-empty-reference",
        _group(GANG, workloadRef={}),
        "template-reference",
        "[spec.workloadRef.workloadName: Required value, spec.workloadRef.templateName: Required value]",
        NEWER,
    ),
    accepted("G13-template", _group(GANG, **_REFERENCE), minors=OLDER),
    refused(
        "G13-no-workload",
        _group(GANG, podGroupTemplateRef={"workload": {"workloadName": "no", "podGroupTemplateName": "t"}}),
        "workload-not-found",
        'PodGroup rejected: Workload "no" not found',
        OLDER,
        code=403,
    ),
    accepted(
        "G13-no-workload", _group(GANG, workloadRef={"workloadName": "no", "templateName": "t"}), minors=NEWER
    ),
    accepted(
        "G15-status-cleared",
        lambda v: {**group(GANG, v), "status": {"conditions": [{}]}},
        expect={"status": {}},
    ),
    accepted(
        "G16-finalizer",
        _group(GANG),
        expect={"metadata.finalizers": ["scheduling.k8s.io/podgroup-protection"]},
    ),
    refused(
        "G17-both-policies",
        _group({"schedulingPolicy": {"basic": {}, "gang": {"minCount": -1}}}),
        "scheduling-policy",
        f'[spec.schedulingPolicy: Invalid value: "{{basic, gang}}": {ONLY_ONE}, '
        "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1]",
    ),
    refused(
        "G18-no-mode",
        _group(GANG, disruptionMode={}),
        "disruption-mode",
        'spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`',
        NEWER,
    ),
    refused(
        "G18-mode-of-1.36",
        _group(GANG, disruptionMode="PodGroup"),
        "wrong-type",
        'PodGroup in version "{v}" cannot be handled as a PodGroup: json: cannot unmarshal string into Go '
        "struct field PodGroupSpec.spec.disruptionMode of type {v}.DisruptionMode",
        NEWER,
        code=400,
    ),
    accepted("G20-basic-as-a-whole", _moded(BASIC, whole=True), minors=BEFORE_1_38),
    refused(
        "G20-basic-as-a-whole",
        _moded(BASIC, whole=True),
        "whole-mode-without-gang",
        f"spec.disruptionMode: {WHOLE_BASIC}",
        FROM_1_38,
    ),
    accepted(
        "G22-claims-dropped",
        _group(GANG, resourceClaims=[{"name": "a"}], schedulingConstraints={}),
        rule="gated-field-dropped",
        expect={"spec.resourceClaims": REMOVED, "spec.schedulingConstraints": REMOVED},
    ),
    refused(
        "G24-mode-omitted",
        _moded(GANG, whole=True),
        "group-immutable",
        f"spec.disruptionMode: {FIXED}",
        edits={"spec.disruptionMode": REMOVED},
    ),
    accepted("G25-min-count", _group(GANG), minors=NEWER, edits={"spec.schedulingPolicy.gang.minCount": 3}),
    refused(
        "G25-policy-switched",
        _group(GANG),
        "scheduling-policy-switch",
        f"[spec.schedulingPolicy.basic: {FIXED}, spec.schedulingPolicy.gang: Invalid value: null: "
        f"field cannot "
        "be cleared once set]",
        NEWER,
        edits={"spec.schedulingPolicy": {"basic": {}}},
    ),
    accepted(
        "G27-status-ignored", _group(GANG), edits={"status": {"conditions": [{}]}}, expect={"status": {}}
    ),
    refused(
        "G31-no-resource-version",
        _group(GANG),
        "resource-version",
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        NEWER,
        edits={"metadata.resourceVersion": REMOVED},
    )._replace(
        message='podgroups.scheduling.k8s.io "g" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    ),
    accepted(
        "G31-no-resource-version", _group(GANG), minors=OLDER, edits={"metadata.resourceVersion": REMOVED}
    ),
    refused(
        "G31-other-resource-version",
        _group(GANG),
        "object-conflict",
        'Operation cannot be fulfilled on podgroups.scheduling.k8s.io "g": the object has been modified; '
        "please apply your changes to the latest version and try again",
        code=409,
        edits={"metadata.resourceVersion": "1"},
    ),
)

_CONDITION = {
    "type": "PodsNotMatchingPriority",
    "status": "True",
    "reason": "Mixed",
    "message": "",
    "lastTransitionTime": "2026-01-01T01:00:00+01:00",
}


def _status(name: str, text: str, minors: tuple[str, ...] = ALL, **fields: Any) -> Case:
    """Make a case of a refused condition; nothing else of an update of the status counts."""
    status = {"conditions": [{**_CONDITION, **fields}]}
    edits = {"status": status, "spec.priority": 7, "metadata.labels": {"a": "b"}}
    return refused(name, _group(GANG), "condition-invalid", text, minors, edits=edits, subresource="status")


STATUS = (
    accepted(
        "G29-own-condition",
        _group(GANG),
        edits={"status": {"conditions": [_CONDITION]}, "spec.priority": 7, "metadata.labels": {"a": "b"}},
        subresource="status",
        expect={
            "status.conditions.0.lastTransitionTime": "2026-01-01T00:00:00Z",
            "spec.priority": 0,
            "metadata.labels": REMOVED,
        },
    ),
    _status(
        "G28-status",
        'status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", '
        '"Unknown"',
        status="Maybe",
    ),
    accepted(
        "G28-claim-of-no-spec",
        _group(GANG),
        edits={"status": {"resourceClaimStatuses": [{"name": "a"}]}},
        subresource="status",
        expect={"status": {}},
    ),
)

CASES = (*PRIORITY_CLASSES, *PODS, *WORKLOADS, *GROUPS, *STATUS)
