"""The changes of Kubernetes 1.38 that need gates or a stored object of 1.37, each as a case with a name.

`tests.support.rules.cases` has those that a server without further gates shows. The texts are from the
sources of v1.38.0-beta.0 (pkg/apis/scheduling/validation, pkg/registry/scheduling, plugin/pkg/admission).
"""

from typing import Any, NamedTuple

import pytest
from tests.support.rules.cases import FIXED, ONE_PRIORITY, WHOLE_BASIC
from tests.support.rules.scene import (
    BASIC,
    GANG,
    NEVER,
    REMOVED,
    Document,
    changed,
    create,
    group,
    rules_of,
    stored,
    template,
    update,
    workload,
)
from tests.unit.rules.test_upstream import field

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.minors.minor import COMPOSITE, GROUP_POLICY, TOPOLOGY
from podium.rules.admission import Profile
from podium.rules.policy import Policy, RuleLevel

TREES = frozenset((TOPOLOGY, COMPOSITE))
SERVER = Profile(kubernetes="1.38", rules="upstream", gates=TREES)
BEFORE = Profile(kubernetes="1.37", rules="upstream", gates=TREES)
WITH_POLICY = Profile(kubernetes="1.37", rules="upstream", gates=TREES | {GROUP_POLICY})
ALL: Document = {"all": {}}
SINGLE: Document = {"single": {}}
WHOLE_GANG = {**GANG, "disruptionMode": ALL}
CHILDREN = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
REFERENCE = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
LIKE_PARENT = 'must have "{0}" {1} when parent compositePodGroupTemplate has "{0}" {1}'
UNLIKE_GANG = f"Invalid value: {LIKE_PARENT.format('gang', 'scheduling policy')}"
UNLIKE_MODE = f"Invalid value: {LIKE_PARENT.format('all', 'disruption mode')}"


def composite(spec: Document, version: str = "v1beta1") -> Document:
    document = group({**REFERENCE, **spec}, version)
    return {**document, "kind": "CompositePodGroup"}


def leaf(name: str = "leaf", **fields: Any) -> Document:
    return template(name, **fields)


def parent(*leaves: Document, name: str = "root", **fields: Any) -> Document:
    return {"name": name, **CHILDREN, "podGroupTemplates": list(leaves), **fields}


def tree(*roots: Document) -> Document:
    return workload({"compositePodGroupTemplates": list(roots)})


def _owned(document: Document) -> Document:
    """Return a Workload with an owner without UID, and an invalid controllerRef."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": ""}
    metadata = {**document["metadata"], "ownerReferences": [owner]}
    spec = {**document["spec"], "controllerRef": {"kind": "a/b", "name": "j"}}
    return {**document, "metadata": metadata, "spec": spec}


class Change(NamedTuple):
    """A create, or with `edits` an update of an object that 1.37 stored, and 1.38's answer.

    `before` is the code of 1.37 for the same request, and `own` that for Podium's kind if it differs.
    """

    document: Document
    code: int
    before: int
    message: str = ""
    rule: str = ""
    edits: tuple[tuple[str, Any], ...] = ()
    expect: tuple[tuple[str, Any], ...] = ()
    own: int = 0


def _invalid(kind: str, name: str, text: str) -> str:
    return f'{kind}.scheduling.k8s.io "{name}" is invalid: {text}'


def _tree(text: str) -> str:
    return _invalid("Workload", "w", text)


_ROOT = "spec.compositePodGroupTemplates[0]"
CHANGES: dict[str, Change] = {
    "CompositePodGroup is served in v1beta1": Change(composite(CHILDREN), 201, 404, own=201),
    "CompositePodGroup is served in v1alpha3 still": Change(composite(CHILDREN, "v1alpha3"), 201, 201),
    "a composite group gets the policy of its class": Change(
        composite({**CHILDREN, "priorityClassName": NEVER}, "v1alpha3"),
        201,
        201,
        expect=(("spec.preemptionPolicy", "Never"),),
    ),
    "a composite group of another policy is refused": Change(
        composite({**CHILDREN, "preemptionPolicy": "Never"}, "v1alpha3"),
        403,
        201,
        'compositepodgroups.scheduling.k8s.io "g" is forbidden: the string value of PreemptionPolicy (Never) '
        "must not be provided in composite pod group spec; priority admission controller computed "
        "PreemptLowerPriority from the given PriorityClass name",
        "group-preemption-policy-mismatch",
        own=403,
    ),
    "a composite group may be of a system class": Change(
        composite({**CHILDREN, "priorityClassName": "system-cluster-critical"}, "v1alpha3"), 201, 422
    ),
    "a composite group is protected": Change(
        composite(CHILDREN, "v1alpha3"),
        201,
        201,
        expect=(("metadata.finalizers", ["scheduling.k8s.io/compositepodgroup-protection"]),),
    ),
    "a basic composite group of mode all is refused": Change(
        composite({**BASIC, "disruptionMode": ALL}, "v1alpha3"),
        422,
        201,
        _invalid("CompositePodGroup", "g", f"spec.disruptionMode: {WHOLE_BASIC}"),
        "whole-mode-without-gang",
    ),
    "a basic composite group of mode all stays updatable": Change(
        composite({**BASIC, "disruptionMode": ALL}, "v1alpha3"),
        200,
        200,
        edits=(("metadata.labels", {"a": "b"}),),
    ),
    "a basic group of mode all stays updatable": Change(
        group({**BASIC, "disruptionMode": ALL}), 200, 200, edits=(("metadata.labels", {"a": "b"}),)
    ),
    "a group with a parent needs its template, after its mode": Change(
        group({**BASIC, "disruptionMode": ALL, "parentCompositePodGroupName": "all"}),
        422,
        422,
        _invalid(
            "PodGroup",
            "g",
            f"[spec.disruptionMode: {WHOLE_BASIC}, spec.workloadRef: Required value: must be set when "
            "parentCompositePodGroupName is set]",
        ),
        "whole-mode-without-gang",
    ),
    "a group that gets a parent needs its template": Change(
        group(GANG),
        422,
        422,
        _invalid(
            "PodGroup",
            "g",
            "[spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set, "
            f"spec.parentCompositePodGroupName: {FIXED}]",
        ),
        "template-reference",
        edits=(("spec.parentCompositePodGroupName", "all"),),
    ),
    "minGroupCount may change": Change(
        composite(CHILDREN, "v1alpha3"),
        200,
        422,
        edits=(("spec.schedulingPolicy.gang.minGroupCount", 2),),
        expect=(("spec.schedulingPolicy.gang.minGroupCount", 2),),
    ),
    "minGroupCount may not be zero": Change(
        composite(CHILDREN, "v1alpha3"),
        422,
        422,
        _invalid("CompositePodGroup", "g", "spec.schedulingPolicy.gang.minGroupCount: Required value"),
        "min-group-count",
        edits=(("spec.schedulingPolicy.gang.minGroupCount", 0),),
    ),
    "gang may not become basic": Change(
        composite(CHILDREN, "v1alpha3"),
        422,
        422,
        _invalid(
            "CompositePodGroup",
            "g",
            f"[spec.schedulingPolicy.basic: {FIXED}, spec.schedulingPolicy.gang: Invalid value: null: field "
            "cannot be cleared once set]",
        ),
        "scheduling-policy-switch",
        edits=(("spec.schedulingPolicy", {"basic": {}}),),
    ),
    "a stored group without a policy stays updatable": Change(
        group(GANG),
        200,
        200,
        edits=(("metadata.labels", {"a": "b"}),),
        expect=(("spec.preemptionPolicy", REMOVED),),
    ),
    "a gang composite template has gang children": Change(
        tree(parent(leaf())), 422, 201, _tree(f"{_ROOT}.podGroupTemplates[0].schedulingPolicy: {UNLIKE_GANG}")
    ),
    "a template of mode all has children of mode all": Change(
        tree(parent(leaf(**GANG, disruptionMode=SINGLE), disruptionMode=ALL)),
        422,
        201,
        _tree(f"{_ROOT}.podGroupTemplates[0].disruptionMode: {UNLIKE_MODE}"),
        "template-unlike-parent",
    ),
    "composite children come first, and each child before its children": Change(
        tree(
            parent(
                leaf(disruptionMode=ALL),
                compositePodGroupTemplates=[
                    {"name": "inner", **BASIC, "podGroupTemplates": [leaf("deep", disruptionMode=ALL)]}
                ],
            )
        ),
        422,
        201,
        _tree(
            f"[{_ROOT}.compositePodGroupTemplates[0].schedulingPolicy: {UNLIKE_GANG}, "
            f"{_ROOT}.compositePodGroupTemplates[0].podGroupTemplates[0].disruptionMode: {WHOLE_BASIC}, "
            f"{_ROOT}.podGroupTemplates[0].schedulingPolicy: {UNLIKE_GANG}, "
            f"{_ROOT}.podGroupTemplates[0].disruptionMode: {WHOLE_BASIC}]"
        ),
        "template-unlike-parent",
    ),
    "a basic composite template of mode all is refused": Change(
        tree({"name": "root", **BASIC, "disruptionMode": ALL, "podGroupTemplates": [leaf(**WHOLE_GANG)]}),
        422,
        201,
        _tree(f"{_ROOT}.disruptionMode: {WHOLE_BASIC}"),
        "whole-mode-without-gang",
    ),
    "a tree of gangs of mode all is allowed": Change(
        tree(parent(leaf(**WHOLE_GANG), disruptionMode=ALL)), 201, 201
    ),
    "a stored gang over a basic child takes no update": Change(
        tree(parent(leaf())),
        422,
        200,
        _tree(f"{_ROOT}.podGroupTemplates[0].schedulingPolicy: {UNLIKE_GANG}"),
        "template-unlike-parent",
        edits=(("metadata.labels", {"a": "b"}),),
    ),
    "a stored template of mode all over single takes no update": Change(
        tree(parent(leaf(**GANG), disruptionMode=ALL)),
        422,
        200,
        _tree(f"{_ROOT}.podGroupTemplates[0].disruptionMode: {UNLIKE_MODE}"),
        "template-unlike-parent",
        edits=(("metadata.labels", {"a": "b"}),),
    ),
    "a stored basic template of mode all stays updatable": Change(
        workload({"podGroupTemplates": [template(disruptionMode=ALL)]}),
        200,
        200,
        edits=(("metadata.labels", {"a": "b"}),),
    ),
    "templates of a tree share their policy": Change(
        tree(parent(leaf(**GANG), preemptionPolicy="Never")),
        422,
        201,
        _tree(ONE_PRIORITY),
        "templates-unlike-priority",
    ),
    "declarative rules of metadata come after all code": Change(
        _owned(tree(parent(leaf()))),
        422,
        422,
        _tree(
            f"[{_ROOT}.podGroupTemplates[0].schedulingPolicy: {UNLIKE_GANG}, "
            "metadata.ownerReferences[0].uid: Required value, "
            f"spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/']"
        ),
        "template-unlike-parent",
    ),
    "templates of a tree share their priority": Change(
        tree(parent(leaf(**GANG, priority=5))), 422, 422, _tree(ONE_PRIORITY), "templates-unlike-priority"
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change(name: str) -> None:
    case = CHANGES[name]
    earlier = create(case.document, by=BEFORE)
    if case.edits:
        old = stored(case.document, by=BEFORE)
        new = old
        for path, value in case.edits:
            new = changed(new, path, value)
        earlier = update(new, old, by=BEFORE)
        verdict = update(new, old, by=SERVER)
    else:
        verdict = create(case.document, by=SERVER)
    assert (verdict.code, verdict.message) == (case.code, case.message)
    assert earlier.code == case.before
    if case.rule:
        assert rules_of(verdict)[0] == case.rule
    for path, value in case.expect:
        assert verdict.admitted is not None
        assert field(verdict.admitted, path) == value, path


def test_stored_policies_that_differ_stay_updatable() -> None:
    """1.37 accepts templates of different policies, and 1.38 compares them on create only."""
    templates = [template("a", preemptionPolicy="Never"), template("b")]
    old = stored(workload({"podGroupTemplates": templates}), by=WITH_POLICY)
    assert update(changed(old, "metadata.labels", {"a": "b"}), old, by=SERVER).allowed


def test_a_class_with_never_needs_no_policy_in_the_group() -> None:
    """1.37 with the gate sets the default first, and refuses it as another policy than the class's."""
    document = group({**GANG, "priorityClassName": NEVER})
    assert create(document, by=WITH_POLICY).code == 403
    admitted = create(document, by=SERVER).admitted
    assert admitted is not None
    assert admitted["spec"]["preemptionPolicy"] == "Never"


# The API server checks the metadata of Podium's kinds by code.
@pytest.mark.parametrize("name", [name for name in CHANGES if "metadata" not in name])
def test_podiums_kinds_change_alike(name: str) -> None:
    """Podium's kinds have the rules of the cluster's minor, and another finalizer."""
    case = CHANGES[name]
    document = {**case.document, "apiVersion": f"{PODIUM_GROUP}/v1beta1"}
    if case.edits:
        old = new = stored(document, by=_own("1.37"))
        for path, value in case.edits:
            new = changed(new, path, value)
        earlier, verdict = (update(new, old, by=_own(minor)) for minor in ("1.37", "1.38"))
    else:
        earlier, verdict = (create(document, by=_own(minor)) for minor in ("1.37", "1.38"))
    assert (verdict.code, verdict.message) == (case.code, case.message.replace(NATIVE_GROUP, PODIUM_GROUP))
    assert earlier.code == (case.own or case.before)


def _own(minor: str) -> Profile:
    """Return a server of a minor with Podium, whose own rules about modes are off."""
    levels = dict.fromkeys(("basic-with-group-disruption", "composite-child-mode"), RuleLevel.OFF)
    return Profile(kubernetes=minor, rules="podium", policy=Policy(podium=levels))
