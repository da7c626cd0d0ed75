"""Check that the API server itself enforces the rules that an install writes as policies.

If a policy is missing, its rule is enforced only while a webhook answers.
"""

from collections.abc import Iterator
from typing import Any

from podium.ops.doctor.check import DoctorCheck, ok, warning
from podium.ops.doctor.facts import BINDINGS, POLICIES, ClusterFacts, Document, unseen
from podium.text import some

_FIX = "podium manifests policies --config FILE with the webhook's file, for kubectl apply --server-side"


def policies(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the existing policies against those of the cluster's AdmissionPolicy."""
    name = "admission-policies"
    if not facts.processes:
        return  # `installed` reports it.
    if (unread := facts.unread(POLICIES, BINDINGS)) is not None:
        yield unseen(name, "the ValidatingAdmissionPolicies were", unread)
        return
    there = {each["metadata"]["name"]: each for each in facts.items(POLICIES)}
    bound = {
        each["spec"].get("policyName")
        for each in facts.items(BINDINGS)
        if "Deny" in (each["spec"].get("validationActions") or ())
    }
    # The policies of the processes' accounts are checked in `processes.policies`.
    wanted = {
        each["metadata"]["name"]: each
        for each in facts.installation.documents_of("ValidatingAdmissionPolicy")
        if each["metadata"]["name"] not in facts.installation.policies
    }
    missing = sorted(each for each in wanted if each not in there or each not in bound)
    if missing:
        fact = f"no ValidatingAdmissionPolicy {some(missing)} is bound"
        yield warning(name, f"{fact}: the rule is enforced only while a webhook answers", _FIX)
    others = sorted(
        each for each in wanted.keys() - set(missing) if _checked(wanted[each]) != _checked(there[each])
    )
    if others:
        fact = f"ValidatingAdmissionPolicy {some(others)} does not match the webhook's AdmissionPolicy"
        yield warning(name, fact, _FIX)
    if not missing and not others:
        yield ok(name, f"{some(sorted(wanted))} is enforced even if no webhook answers")


def _checked(policy: Document) -> list[Any]:
    """Return the checked part of a policy; the administrator may change its namespaces."""
    spec = policy["spec"]
    variables = [each["expression"] for each in spec.get("variables") or ()]
    validations = [each["expression"] for each in spec["validations"]]
    conditions = spec.get("matchConditions") or []
    rules = spec["matchConstraints"].get("resourceRules")
    return [variables, validations, conditions, rules, spec.get("failurePolicy", "Fail")]
