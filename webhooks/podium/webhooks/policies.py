"""ValidatingAdmissionPolicies of the own rules that CEL can express: the API server evaluates them itself.

Pods and native kinds are admitted when no webhook answers; policies still apply. Two rules are policies in
every installation, see DEFAULT: the classes that a namespace may use, and the fixed group of a pod. The
webhook judges them too, so that one of both is enough. The other policies are the twin, which an
administrator may add.

Each rule has one policy for each family, with the webhook's targets, exemptions and texts. The rule's level
is the action of the binding. CEL cannot look up other objects; WITHOUT_POLICY has the reason for each
rule without a policy. The API server's rules on Podium's kinds need no twin, because their schema contains
them.

The API server checks an expression against the schema of everything that the policy matches. So fields with
another type in another kind or version are read through dyn().
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podium.api import priority
from podium.api.groups import GROUP_LABEL
from podium.groups.trees import MAX_TEMPLATES
from podium.rules import gang, podiumrules
from podium.rules.podiumrule import OwnRule
from podium.rules.policy import Policy, RuleLevel
from podium.rules.target import AdmissionPhase
from podium.webhooks import cel
from podium.webhooks.registration import (
    LABELS,
    Family,
    Options,
    active,
    condition,
    resource_rules,
    targets,
)

API = "admissionregistration.k8s.io/v1"


class Check(NamedTuple):
    """One way to violate a rule: `holds` and `message` are CEL, a boolean and the webhook's text."""

    holds: str
    field: str
    message: str


class Twin(NamedTuple):
    """A rule in CEL: variables that its expressions share, and its checks.

    `invalid` marks a rule that the webhook answers with a field error: 422, and with the field.
    """

    rule: OwnRule
    variables: Mapping[str, str]
    checks: Sequence[Check]
    invalid: bool = False


# The policies of every installation, if their level is `deny`: by violating one of these rules, a tenant
# would use a class or a group that is not its own.
DEFAULT = (podiumrules.CLASS_ALLOWED, podiumrules.LABEL_FIXED)
# The second policy of LABEL_FIXED.
_BINDING_POLICY = f"{podiumrules.LABEL_FIXED.cause.rule.id}-of-bindings.{Family.PODS.domain}"
# The reasons why the other rules have no twin.
WITHOUT_POLICY = {
    podiumrules.MEMBER_PRIORITY: "compares a pod with its PodGroup",
    podiumrules.CHILD_MODE: "compares templates of a tree",
    podiumrules.TEMPLATE_CLASS: "looks for a PriorityClass",
    podiumrules.TEMPLATE_PRIORITY: "looks for a PriorityClass",
    podiumrules.UNLIKE_TEMPLATE: "compares a PodGroup with its Workload",
    gang.WITHOUT_OWNER: "works out what made the pod",
}

_WORKLOAD_ONLY = 'request.kind.kind != "Workload"'
_TEMPLATES = cel.elements("dyn(object.spec)", "podGroupTemplates")
_PATHS = [f"spec.podGroupTemplates[{index}]" for index in range(MAX_TEMPLATES)]
# A group is one part; a Workload has one for each template.
_PARTS = f'(request.kind.kind == "PodGroup" ? [dyn(object.spec)] : {_TEMPLATES})'
# The disruption mode is a string in v1alpha2 and a union in later versions.
_WHOLE = (
    'has(p.disruptionMode) && (type(p.disruptionMode) == string ? p.disruptionMode == "PodGroup" '
    ": has(p.disruptionMode.all))"
)
_BASIC_AS_A_WHOLE = '"a basic group cannot be disrupted as a whole"'
_VALUES = ", ".join(f"{cel.quote(name)}: {value}" for name, value in priority.SYSTEM_CLASSES.items())

LABEL_FIXED = Twin(
    podiumrules.LABEL_FIXED,
    {"before": cel.LABEL_BEFORE, "now": cel.LABEL},
    [
        Check(
            "variables.now == variables.before",
            f"metadata.labels[{GROUP_LABEL}]",
            f'"the label {GROUP_LABEL} may not be " + '
            '(variables.now.hasValue() ? (variables.before.hasValue() ? "changed to" : "added as") + '
            '" \\"" + variables.now.value() + "\\"" : "removed") + " once the pod exists, " + '
            '(variables.before.hasValue() ? "it is \\"" + variables.before.value() + "\\"" : "it has none")',
        )
    ],
)
TWO_GROUPS = Twin(
    podiumrules.TWO_GROUPS,
    {"label": f'{cel.LABEL}.orValue("")', "field": f'{cel.FIELD}.orValue("")'},
    [
        Check(
            'variables.label == "" || variables.field == "" || variables.label == variables.field',
            "spec.schedulingGroup",
            '"names PodGroup \\"" + variables.field + '
            f'"\\" but the label {GROUP_LABEL} names \\"" + variables.label + "\\""',
        )
    ],
)
NAME_LENGTH = Twin(
    podiumrules.NAME_LENGTH,
    {},
    [
        Check(
            f"size(object.metadata.name) <= {podiumrules.NAME_LIMIT}",
            "metadata.name",
            f'"Too long: may not be more than {podiumrules.NAME_LIMIT} bytes"',
        )
    ],
    invalid=True,
)
BASIC_MODE = Twin(
    podiumrules.BASIC_MODE,
    {"asWhole": f"{_PARTS}.map(p, !has(p.schedulingPolicy.gang) && {_WHOLE})"},
    [
        Check(
            'request.kind.kind != "PodGroup" || !variables.asWhole[0]',
            "spec.disruptionMode",
            _BASIC_AS_A_WHOLE,
        ),
        *(
            Check(
                f"{_WORKLOAD_ONLY} || size(variables.asWhole) <= {index} || !variables.asWhole[{index}]",
                f"{path}.disruptionMode",
                _BASIC_AS_A_WHOLE,
            )
            for index, path in enumerate(_PATHS)
        ),
    ],
)
TEMPLATE_SYSTEM_CLASS = Twin(
    podiumrules.TEMPLATE_SYSTEM_CLASS,
    {"classes": f'{_TEMPLATES}.map(t, t.?priorityClassName.orValue(""))', "values": f"{{{_VALUES}}}"},
    [
        Check(
            f"size(variables.classes) <= {index} || !(variables.classes[{index}] in variables.values)",
            f"{path}.priorityClassName",
            f'"class " + variables.classes[{index}] + " has " + '
            f'string(variables.values[variables.classes[{index}]]) + ", more than a PodGroup may have"',
        )
        for index, path in enumerate(_PATHS)
    ],
)


def twins(policy: Policy, family: Family) -> list[Twin]:
    """Return the twins of a family, enabled or not; the allowed classes come from the policy."""
    every = (
        _class_allowed(policy, family),
        LABEL_FIXED,
        TWO_GROUPS,
        NAME_LENGTH,
        BASIC_MODE,
        TEMPLATE_SYSTEM_CLASS,
    )
    return [twin for twin in every if targets(twin.rule, family, AdmissionPhase.VALIDATE)]


def _class_allowed(policy: Policy, family: Family) -> Twin:
    """Return a check for each allowance with restrictions; the first one for the namespace applies."""
    what = "pods" if family is Family.PODS else "PodGroups"
    checks = []
    for index, each in enumerate(policy.allow):
        patterns = each.pods if family is Family.PODS else each.groups
        if patterns is not None:
            listed = cel.quote(f" (allowed: {', '.join(patterns) or 'none'})")
            holds = f"variables.ruling != {index} || {cel.may_use(patterns)}"
            message = (
                f'"{what} in namespace " + request.namespace + " may not use class " + {cel.CLASS} + {listed}'
            )
            checks.append(Check(holds, "spec.priorityClassName", message))
    return Twin(podiumrules.CLASS_ALLOWED, {"ruling": cel.allowance(policy.allow)}, checks)


def defaults(policy: Policy, options: Options) -> list[dict[str, Any]]:
    """Return the policies of DEFAULT that deny, each with its binding.

    They fail closed whatever happens to the webhook, because the API server evaluates them itself.
    """
    return [
        document
        for family, twin, level in _on(policy)
        if twin.rule in DEFAULT and level is RuleLevel.DENY
        for document in _policy(twin, family, level, options, "Fail")
    ]


def default_names() -> list[str]:
    """Return the name of every policy that `defaults` may return."""
    return [
        _name(rule, family)
        for rule in DEFAULT
        for family in Family
        if targets(rule, family, AdmissionPhase.VALIDATE)
    ] + [_BINDING_POLICY]


def policies(policy: Policy, options: Options) -> list[dict[str, Any]]:
    """Return the twin: the policies of the enabled rules outside of `defaults`, each with its binding."""
    given = {document["metadata"]["name"] for document in defaults(policy, options)}
    return [
        document
        for family, twin, level in _on(policy)
        if _name(twin.rule, family) not in given
        for document in _policy(twin, family, level, options, options.failure_policy(family))
    ]


def _on(policy: Policy) -> Iterator[tuple[Family, Twin, RuleLevel]]:
    for family in Family:
        levels = active(policy, family)
        for twin in twins(policy, family):
            if (level := levels.get(twin.rule.cause.rule.id)) is not None:
                yield family, twin, level


def _name(rule: OwnRule, family: Family) -> str:
    return f"{rule.cause.rule.id}.{family.domain}"


def _policy(
    twin: Twin, family: Family, level: RuleLevel, options: Options, failure: str
) -> list[dict[str, Any]]:
    # The fixed label is compared with the one before, so removing a finalizer is no violation of it.
    exempt: dict[str, Any] = {}
    if twin is not LABEL_FIXED:
        exempt["matchConditions"] = [condition("not-being-deleted", cel.NOT_BEING_DELETED)]
    forbids = level is RuleLevel.DENY and not twin.invalid
    spec = {
        "failurePolicy": failure,
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            **({"namespaceSelector": selector} if (selector := options.selector(family)) else {}),
            "resourceRules": _resource_rules(twin.rule, family),
        },
        **exempt,
        "variables": [{"name": name, "expression": value} for name, value in twin.variables.items()],
        "validations": [
            {
                "expression": check.holds,
                # The same texts as the webhook's: a Forbidden has the message only, other texts begin with
                # the field.
                "messageExpression": check.message
                if forbids
                else f"{cel.quote(f'{check.field}: ')} + {check.message}",
                "reason": "Invalid" if twin.invalid else "Forbidden",
            }
            for check in twin.checks
        ],
    }
    action = "Deny" if level is RuleLevel.DENY else "Warn"
    documents = bound(_name(twin.rule, family), spec, action)
    if twin is LABEL_FIXED:
        documents += bound(_BINDING_POLICY, _binding_spec(options, failure, forbids=forbids), action)
    return documents


def _binding_spec(options: Options, failure: str, *, forbids: bool) -> dict[str, Any]:
    """Return the rule of the fixed label for Bindings, whose labels the API server copies to the pod."""
    field = "" if forbids else f"metadata.labels[{GROUP_LABEL}]: "
    rules = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["bindings", "pods/binding"],
        "scope": "Namespaced",
    }
    return {
        "failurePolicy": failure,
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": options.selector(Family.PODS),
            "resourceRules": [rules],
        },
        "validations": [
            {
                "expression": f"!{cel.LABEL}.hasValue()",
                "messageExpression": cel.quote(
                    f"{field}the label {GROUP_LABEL} may not be set by a Binding of the pod"
                ),
                "reason": "Forbidden",
            }
        ],
    }


def _resource_rules(rule: OwnRule, family: Family) -> list[dict[str, Any]]:
    return resource_rules(family, targets(rule, family, AdmissionPhase.VALIDATE))


def bound(name: str, spec: dict[str, Any], action: str) -> list[dict[str, Any]]:
    """Return a policy and its binding of the same name."""
    metadata = {"name": name, "labels": LABELS}
    binding = {"policyName": name, "validationActions": [action]}
    return [
        {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": binding,
        },
    ]
