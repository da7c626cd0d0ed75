"""The generated policies, without a server: their number and their effects."""

from typing import Any

import pytest

from podium.cli.config.policyfile import PolicyModel
from podium.documents.configfile import config_of
from podium.errors import PodiumError
from podium.ops.doctor.facts import expected, manifests
from podium.rules import podiumrules
from podium.rules.policy import Allowance, Policy, RuleLevel
from podium.webhooks import policies
from podium.webhooks.policies import DEFAULT, default_names, defaults
from podium.webhooks.registration import Family, Options

ALLOW = (Allowance(namespaces=("*",), pods=("a",), groups=("b",)),)


def by_name(policy: Policy, options: Options | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return policy and binding by their name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in defaults(policy, options or Options()):
        found.setdefault(each["metadata"]["name"], []).append(each)
    return found


def test_each_policy_denies() -> None:
    """A refusal names no field, as the webhook's names none."""
    found = by_name(Policy(allow=ALLOW))
    assert set(found) == set(default_names())
    for name, (policy, binding) in found.items():
        assert (policy["kind"], binding["kind"]) == (
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        )
        assert binding["spec"] == {"policyName": name, "validationActions": ["Deny"]}
        for validation in policy["spec"]["validations"]:
            assert validation["reason"] == "Forbidden"
            assert not validation["messageExpression"].startswith(('"metadata.', '"spec.'))
    rules = {name.partition(".")[0].removesuffix("-of-bindings") for name in found}
    assert rules == {rule.cause.rule.id for rule in DEFAULT}


@pytest.mark.parametrize("level", [RuleLevel.OFF, RuleLevel.WARN])
def test_a_rule_that_does_not_deny_has_no_policy(level: RuleLevel) -> None:
    """A restriction without entries has no policy either."""
    levels = {rule.cause.rule.id: level for rule in DEFAULT}
    assert by_name(Policy(levels=levels, allow=ALLOW)) == {}
    assert not any(name.startswith("class-allowed") for name in by_name(Policy()))
    quiet = by_name(Policy(native=levels, allow=ALLOW))
    assert {name.partition(".")[2] for name in quiet} == {Family.PODIUM.domain}


def test_the_exemptions_are_the_webhooks() -> None:
    options = Options(failure={"pods": "Ignore"}, exempt=("kube-system", "mine"))
    for name, (policy, _) in by_name(Policy(allow=ALLOW), options).items():
        constraints = policy["spec"]["matchConstraints"]
        podium = name.endswith(".groups.podium.dev")
        assert ("namespaceSelector" in constraints) == (not podium)
        assert policy["spec"]["failurePolicy"] == "Fail"
        if not podium:
            (selected,) = constraints["namespaceSelector"]["matchExpressions"]
            assert selected["values"] == ["kube-system", "mine"]


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
    policy, binding, role, bound_to = policies.class_use_policy(Options())
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert role["rules"] == [
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["use"]}
    ]
    assert bound_to["roleRef"]["name"] == role["metadata"]["name"]
    assert bound_to["subjects"][0]["name"] == "system:serviceaccounts:kube-system"
