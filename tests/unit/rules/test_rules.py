"""The rule table: ids, and that tests and the table have the same rules."""

import re
from collections import Counter

from tests.support.rules.cases import CASES

from podium.api.findings import Severity
from podium.audit.table import RULES as AUDIT_RULES
from podium.rules.table import ADMISSION_RULES

RULES = (*ADMISSION_RULES, *AUDIT_RULES)


def test_ids_are_kebab_case_and_unique() -> None:
    """Each id is unique, because an id never changes its meaning."""
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id) for rule in RULES)
    assert [rule for rule, uses in Counter(rule.id for rule in RULES).items() if uses > 1] == []


def test_every_rule_says_why_and_where_from() -> None:
    """The documentation is generated from it."""
    assert all(rule.title and rule.why and rule.source for rule in ADMISSION_RULES)


def test_rows_of_cases_are_named_by_their_rules() -> None:
    """The row that a case tests is in the source of the rule that refuses it."""
    sources = {rule.id: rule.source for rule in ADMISSION_RULES}
    unnamed = {
        (case.row, case.rule)
        for case in CASES
        if case.rule and not re.search(rf"\b{case.row}\b", sources[case.rule])
    }
    assert unnamed == set()


def test_refusals_of_the_server_are_errors() -> None:
    """Rules that only warn have another severity."""
    warns = {rule.id for rule in ADMISSION_RULES if rule.severity is not Severity.ERROR}
    assert warns == {
        "unknown-field",
        "gated-field-dropped",
        "member-priority",
        "gang-without-owner",
        "class-without-value",
    }
