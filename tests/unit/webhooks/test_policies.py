"""The generated policies, without a server: their number and their effects."""

from typing import Any

import pytest

from podium.cli.config.configfile import config_of
from podium.cli.config.policyfile import PolicyModel
from podium.documents.packagedata import folder
from podium.errors import PodiumError
from podium.ops.doctor.expected import expected, manifests
from podium.rules import podiumrules
from podium.rules.podiumrules import OWN_RULES
from podium.rules.policy import Allowance, Policy, RuleLevel
from podium.webhooks import classuse
from podium.webhooks.policies import DEFAULT, WITHOUT_POLICY, default_names, defaults, policies, twins
from podium.webhooks.registration import Family, Options

ALLOW = (Allowance(namespaces=("*",), pods=("a",), groups=("b",)),)


def by_name(policy: Policy, options: Options | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return policy and binding by their name."""
    found: dict[str, list[dict[str, Any]]] = {}
    options = options or Options()
    for each in (*defaults(policy, options), *policies(policy, options)):
        found.setdefault(each["metadata"]["name"], []).append(each)
    return found


def test_every_own_rule_has_a_twin_or_a_reason() -> None:
    twinned = {twin.rule for family in Family for twin in twins(Policy(), family)}
    assert twinned | set(WITHOUT_POLICY) == set(OWN_RULES)
    assert not twinned & set(WITHOUT_POLICY)


def test_the_page_says_which() -> None:
    page = (folder("manifests").parent / "docs" / "webhooks.md").read_text(encoding="utf-8")
    rows = dict(
        line[2:-2].split(" | ", 1) for line in page.splitlines() if line.startswith("| ") and " | " in line
    )
    for rule in OWN_RULES:
        described = rows[rule.cause.rule.id]
        assert (
            described == f"no: {WITHOUT_POLICY[rule]}"
            if rule in WITHOUT_POLICY
            else described.startswith("yes")
        )


@pytest.mark.parametrize(("level", "action"), [(RuleLevel.DENY, "Deny"), (RuleLevel.WARN, "Warn")])
def test_the_level_is_the_action(level: RuleLevel, action: str) -> None:
    """A refusal names no field, as the webhook's names none; a field error always does."""
    levels = {rule.cause.rule.id: level for rule in OWN_RULES}
    found = by_name(Policy(levels=levels, allow=ALLOW))
    assert len(found) == 11
    for name, (policy, binding) in found.items():
        assert (policy["kind"], binding["kind"]) == (
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        )
        assert binding["spec"] == {"policyName": name, "validationActions": [action]}
        invalid = name.startswith(podiumrules.NAME_LENGTH.cause.rule.id)
        for validation in policy["spec"]["validations"]:
            assert validation["reason"] == ("Invalid" if invalid else "Forbidden")
            has_field = validation["messageExpression"].startswith(('"metadata.', '"spec.'))
            assert has_field == (invalid or level is RuleLevel.WARN)


def test_a_rule_that_is_off_has_no_policy() -> None:
    """A restriction without entries has no policy either."""
    levels = {rule.cause.rule.id: RuleLevel.OFF for rule in OWN_RULES}
    assert by_name(Policy(levels=levels, allow=ALLOW)) == {}
    assert not any(name.startswith("class-allowed") for name in by_name(Policy()))
    quiet = by_name(Policy(native=levels))
    assert {name.partition(".")[2] for name in quiet} == {Family.PODIUM.domain}


def test_the_exemptions_are_the_webhooks() -> None:
    options = Options(failure={"native": "Fail"}, exempt=("kube-system", "mine"))
    for name, (policy, _) in by_name(Policy(allow=ALLOW), options).items():
        family = next(each for each in Family if name.endswith(f".{each.domain}") and name.count(each.domain))
        constraints = policy["spec"]["matchConstraints"]
        podium = name.endswith(".groups.podium.dev")
        assert ("namespaceSelector" in constraints) == (not podium)
        closed = name in default_names()
        assert policy["spec"]["failurePolicy"] == ("Fail" if closed else options.failure_policy(family))
        if not podium:
            (selected,) = constraints["namespaceSelector"]["matchExpressions"]
            assert selected["values"] == ["kube-system", "mine"]


def test_the_defaults_and_the_twin_are_all_policies_once() -> None:
    """The defaults protect, so each denies: at another level its policy belongs to the twin."""
    for levels in ({}, {"group-label-immutable": RuleLevel.WARN}, {"class-allowed": RuleLevel.OFF}):
        policy = Policy(levels=levels, allow=ALLOW)
        ours = [each["metadata"]["name"] for each in defaults(policy, Options())]
        theirs = [each["metadata"]["name"] for each in policies(policy, Options())]
        assert not set(ours) & set(theirs)
        assert set(ours) == {
            name for name in default_names() if not any(name.startswith(rule) for rule in levels)
        }
        assert set(theirs) & set(default_names()) == {
            name
            for name in default_names()
            if any(name.startswith(rule) for rule in levels if levels[rule] is RuleLevel.WARN)
        }
    rules = {name.partition(".")[0].removesuffix("-of-bindings") for name in default_names()}
    assert rules == {rule.cause.rule.id for rule in DEFAULT}


def test_a_leaving_pod_keeps_its_label_and_may_lose_its_finalizers() -> None:
    """The rule compares two labels, so it needs no exemption."""
    found = by_name(Policy(allow=ALLOW))
    for name, (policy, _) in found.items():
        exempt = "matchConditions" not in policy["spec"]
        assert exempt == name.startswith(podiumrules.LABEL_FIXED.cause.rule.id)
    resources = found["group-label-immutable-of-bindings.pods.podium.dev"][0]["spec"]["matchConstraints"]
    assert resources["resourceRules"][0]["resources"] == ["bindings", "pods/binding"]


def test_an_installation_has_the_policies_of_its_admission_policy() -> None:
    """A restriction of classes becomes a policy."""
    usual = expected(manifests(), Policy())
    restricted = expected(manifests(), Policy(allow=ALLOW))
    added = [each for each in restricted if each not in usual and "webhooks" not in each]
    assert {each["metadata"]["name"] for each in added} == {
        name for name in default_names() if name.startswith("class-allowed")
    }


HEAD = "apiVersion: config.podium.dev/v1\nkind: AdmissionPolicy\n"


def test_an_admission_policy_that_cannot_be_read_is_named() -> None:
    for text, message in (("allow: {", "not YAML"), (HEAD + "allow: 1\n", "allow"), ("", "")):
        with pytest.raises(PodiumError, match=rf"ConfigMap a/b: policy.yaml: .*{message}"):
            config_of("ConfigMap a/b: policy.yaml", text, PolicyModel)


def test_class_use_refuses_and_lets_the_clusters_controllers() -> None:
    policy, binding, role, bound_to = classuse.policy(Options())
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert role["rules"] == [
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["use"]}
    ]
    assert bound_to["roleRef"]["name"] == role["metadata"]["name"]
    assert bound_to["subjects"][0]["name"] == "system:serviceaccounts:kube-system"
