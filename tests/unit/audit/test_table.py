"""The rule table."""

import re

from podium.api.findings import Severity
from podium.audit.table import CHECKS, RULES


def test_ids_are_kebab_case_and_each_rule_has_a_reason_and_a_source() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
        assert rule.title
        assert rule.why
        assert rule.source
        assert rule.needs or rule.id == "group-unread"  # It reports that a kind was not read.


def test_rules_are_in_order_of_severity() -> None:
    ranks = [rule.severity.rank for rule in RULES]
    assert ranks == sorted(ranks)
    assert {rule.severity for rule in RULES} == set(Severity)


def test_every_severity_is_what_was_promised() -> None:
    """The severities are listed, because a change of one makes pipelines fail."""
    by_severity = {
        severity: {rule.id for rule in RULES if rule.severity is severity} for severity in Severity
    }
    assert by_severity == {
        Severity.ERROR: {
            "claim-unsatisfiable",
            "class-missing",
            "class-value-changed",
            "default-class-system",
            "gang-larger-than-domain",
            "composite-child-policy",
            "composite-cycle",
            "composite-groups-unlike",
            "composite-parent-missing",
            "composite-priorities-differ",
            "composite-too-deep",
            "device-class-missing",
            "gang-exceeds-claim",
            "gang-pinned",
            "gang-shares-exclusive-claim",
            "gang-too-large",
            "group-missing",
            "group-terminating",
            "job-delegation-incomplete",
            "pod-priority-differs",
            "save-declaration",
            "scheduler-ignores-group",
            "scheduler-name-mixed",
            "template-group-missing",
            "template-priorities-differ",
            "template-priority-differs",
            "template-scheduler-mixed",
            "template-too-few-pods",
            "topology-key-missing",
            "v1alpha1-removed",
            "v1alpha2-removed",
        },
        Severity.WARNING: {
            "basic-with-group-disruption",
            "composite-child-mode",
            "composite-group-gated",
            "composite-kind-gated",
            "composite-template-gated",
            "composite-too-few-children",
            "device-selector-unmatched",
            "default-class-duplicate",
            "default-class-missing",
            "default-class-newer",
            "gang-last-wave",
            "gang-too-few-pods",
            "group-straddles-domains",
            "group-unlike-template",
            "group-unread",
            "inferred-priority-differs",
            "job-gang-by-shape",
            "job-scheduling-gated",
            "kueue-priority-differs",
            "membership-conflict",
            "owner-priorities-differ",
            "pod-older-than-group",
            "policy-unlike-class",
            "preemption-policy-differs",
            "saving-not-trusted",
            "spread-selects-all",
            "system-class-on-group",
            "template-class-missing",
            "template-policies-differ",
            "template-priority-unresolved",
            "template-priority-written",
            "template-scheduler-unknown",
            "toleration-prefix",
            "toleration-unreadable",
            "toleration-without-effect",
            "topology-value-empty",
            "workload-ref-dropped",
        },
        Severity.INFO: {"bare-pod-victims", "budget-selects-all", "class-unused", "top-class-share"},
    }


def test_needed_kinds_of_a_rule_are_not_also_optional() -> None:
    assert all(check.also.isdisjoint(check.rule.needs) for check in CHECKS)
