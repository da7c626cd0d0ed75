"""Every rule of the audit against its table of cases, and against kinds that could not be read."""

import pytest
from tests.support.audit.builders import (
    cluster,
    findings,
    group_template,
    pod,
    pod_group,
    priority_class,
    workload,
)
from tests.support.audit.cases import (
    claims,
    classes,
    devices,
    empty,
    gangs,
    gated,
    groups,
    members,
    neighbours,
    planned,
    templates,
    tolerations,
    topology,
    trees,
)
from tests.support.audit.cases.case import Case

from podium.answers.audits.run import audit_view
from podium.api.priority import TOLERATION_PREFIX
from podium.audit.table import CHECKS, RULES, AuditCheck
from podium.cluster.state import ClusterState
from podium.rules.rule import Rule

MODULES = (
    members,
    gangs,
    claims,
    devices,
    topology,
    empty,
    gated,
    trees,
    groups,
    classes,
    tolerations,
    templates,
    planned,
    neighbours,
)
CASES = [case for module in MODULES for case in module.CASES]


def cluster_of(case: Case) -> ClusterState:
    """Return the cluster of a case."""
    return cluster(*case.objects, unread=case.unread, untrusted=case.untrusted)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.rule}: {case.name}" for case in CASES])
def test_rule_finds_what_it_must_and_nothing_else(case: Case) -> None:
    found = findings(case.rule, cluster_of(case), case.kubernetes)
    assert [(str(each.object), each.field) for each in found] == [
        (ref, field) for ref, field, _ in case.expected
    ]
    for each, (_, _, part) in zip(found, case.expected, strict=True):
        assert part in each.message


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_case_that_finds_and_one_that_does_not(rule: Rule) -> None:
    told = {bool(case.expected) for case in CASES if case.rule == rule.id}
    assert told == {True, False}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.rule.id)
def test_a_rule_does_not_run_without_a_kind_it_needs(check: AuditCheck) -> None:
    """A kind that could not be read disables the rule, even if objects of that kind came from elsewhere."""
    case = next(case for case in CASES if case.rule == check.rule.id and case.expected)
    for kind in check.rule.needs:
        state = cluster_of(case._replace(unread={kind: "forbidden"}))
        report = audit_view(state, kubernetes=case.kubernetes, chosen_by="test", select=[case.rule])
        assert report.findings == []
        assert [(each.kind, each.why, each.rules) for each in report.summary.notChecked] == [
            (kind, "forbidden", [case.rule])
        ]


@pytest.mark.parametrize("check", [check for check in CHECKS if check.also], ids=lambda check: check.rule.id)
def test_a_kind_that_is_looked_at_too_is_named_and_does_not_stop_the_rule(check: AuditCheck) -> None:
    case = next(case for case in CASES if case.rule == check.rule.id and case.expected)
    for kind in check.also:
        state = cluster_of(case._replace(unread={kind: "not served"}))
        report = audit_view(state, kubernetes=case.kubernetes, chosen_by="test", select=[case.rule])
        assert report.findings
        assert [(each.kind, each.rules) for each in report.summary.notChecked] == [(kind, [case.rule])]


def test_every_finding_says_what_to_do_and_is_the_rules_own() -> None:
    rules = {rule.id: rule for rule in RULES}
    for case in CASES:
        for each in findings(case.rule, cluster_of(case), case.kubernetes):
            assert each.rule == case.rule
            assert each.severity is rules[case.rule].severity
            assert each.fix
            assert "\n" not in each.message + each.fix


def test_a_name_from_a_file_is_quoted_in_a_command() -> None:
    """A dump may hold anything; a pasted fix must not run it."""
    odd = priority_class("low; reboot", 8, annotations={f"{TOLERATION_PREFIX}toleration-seconds": "x"})
    (found,) = findings("toleration-unreadable", cluster(odd))
    assert "priorityclass 'low; reboot' --overwrite" in found.fix


@pytest.mark.parametrize(
    ("uid", "fix"),
    [("u1", "kubectl delete priorityclass gold"), (None, "remove it, unless other manifests use it")],
    ids=["of a cluster", "of a manifest"],
)
def test_an_unused_class_is_deleted_only_where_it_exists(uid: str | None, fix: str) -> None:
    gold = priority_class("gold", 1000)
    gold.metadata.uid = uid
    (found,) = findings("class-unused", cluster(gold, pod("a")))
    assert found.fix == fix


@pytest.mark.parametrize(
    ("class_name", "fix"),
    [
        ("gold", "kubectl delete podgroup.scheduling.k8s.io train -n team-a --wait=false; its controller"),
        ("", "name a class of value 1000 in template workers (recreate Workload team-a/w), because"),
    ],
)
def test_a_group_is_recreated_from_its_template_if_that_can_work(class_name: str, fix: str) -> None:
    made = workload(group_template(class_name=class_name, priority=1000), name="w")
    gold = priority_class("gold", 1000)
    (found,) = findings("group-unlike-template", cluster(gold, made, pod_group(template=("w", "workers"))))
    assert found.fix.startswith(fix)


@pytest.mark.parametrize(
    ("priority", "fix"),
    [
        (1000, "set spec.podGroupTemplates[0].priorityClassName: gold"),
        (
            5,
            "create a PriorityClass with value: 5 and name it in spec.podGroupTemplates[0].priorityClassName",
        ),
    ],
)
def test_a_class_of_the_value_is_named_if_there_is_one(priority: int, fix: str) -> None:
    state = cluster(priority_class("gold", 1000), workload(group_template(priority=priority)))
    assert [each.fix for each in findings("template-priority-unresolved", state)] == [fix]
