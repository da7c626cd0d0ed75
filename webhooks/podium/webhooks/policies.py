"""ValidatingAdmissionPolicies of two rules, in every installation: the API server evaluates them itself.

Pods and native kinds are admitted when no webhook answers; policies still apply. By violating one of these
rules, a tenant would use a class or a group that is not its own. The webhook judges the rules too, so that
one of both is enough. A rule whose level is not `deny` has no policy.

Each rule has one policy for each family, with the webhook's targets, exemptions and texts.

The API server checks an expression against the schema of everything that the policy matches. So fields with
another type in another kind or version are read through dyn().
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from podium.api.groups import GROUP_LABEL, NATIVE_GROUP
from podium.groups.trees import MAX_TEMPLATES
from podium.rules import podiumrules
from podium.rules.podiumrule import AdmissionPhase, OwnRule
from podium.rules.policy import Policy, RuleLevel
from podium.webhooks import cel
from podium.webhooks.registration import (
    LABELS,
    Family,
    Options,
    active,
    condition,
    group,
    resource_rules,
    targets,
    versions,
)

API = "admissionregistration.k8s.io/v1"
DEFAULT = (podiumrules.CLASS_ALLOWED, podiumrules.LABEL_FIXED)
# The second policy of LABEL_FIXED.
_BINDING_POLICY = f"{podiumrules.LABEL_FIXED.cause.rule.id}-of-bindings.{Family.PODS.domain}"


class Check(NamedTuple):
    """One way to violate a rule: `holds` and `message` are CEL, a boolean and the webhook's text."""

    holds: str
    message: str


class CelRule(NamedTuple):
    """A rule in CEL: variables that its expressions share, and its checks."""

    rule: OwnRule
    variables: Mapping[str, str]
    checks: Sequence[Check]


LABEL_FIXED = CelRule(
    podiumrules.LABEL_FIXED,
    {"before": cel.LABEL_BEFORE, "now": cel.LABEL},
    [
        Check(
            "variables.now == variables.before",
            f'"the label {GROUP_LABEL} may not be " + '
            '(variables.now.hasValue() ? (variables.before.hasValue() ? "changed to" : "added as") + '
            '" \\"" + variables.now.value() + "\\"" : "removed") + " once the pod exists, " + '
            '(variables.before.hasValue() ? "it is \\"" + variables.before.value() + "\\"" : "it has none")',
        )
    ],
)


def _class_allowed(policy: Policy, family: Family) -> CelRule:
    """Return a check for each allowance with restrictions; the first one for the namespace applies."""
    plural = "pods" if family is Family.PODS else "PodGroups"
    checks = []
    for index, entry in enumerate(policy.allow):
        patterns = entry.pods if family is Family.PODS else entry.groups
        if patterns is not None:
            listed = cel.quote(f" (allowed: {', '.join(patterns) or 'none'})")
            holds = f"variables.ruling != {index} || {cel.may_use(patterns)}"
            message = (
                f'"{plural} in namespace " + request.namespace + " may not use class " + '
                f"{cel.CLASS} + {listed}"
            )
            checks.append(Check(holds, message))
    return CelRule(podiumrules.CLASS_ALLOWED, {"ruling": cel.allowance(policy.allow)}, checks)


def defaults(policy: Policy, options: Options) -> list[dict[str, Any]]:
    """Return the policies of DEFAULT that deny, each with its binding.

    They fail closed whatever happens to the webhook, because the API server evaluates them itself.
    """
    documents = []
    for family in Family:
        levels = active(policy, family)
        for cel_rule in (_class_allowed(policy, family), LABEL_FIXED):
            level = levels.get(cel_rule.rule.cause.rule.id)
            if level is RuleLevel.DENY and targets(cel_rule.rule, family, AdmissionPhase.VALIDATE):
                documents += _policy(cel_rule, family, options)
    return documents


def default_names() -> list[str]:
    """Return the name of every policy that `defaults` may return."""
    return [
        _name(rule, family)
        for rule in DEFAULT
        for family in Family
        if targets(rule, family, AdmissionPhase.VALIDATE)
    ] + [_BINDING_POLICY]


def _name(rule: OwnRule, family: Family) -> str:
    return f"{rule.cause.rule.id}.{family.domain}"


def _policy(cel_rule: CelRule, family: Family, options: Options) -> list[dict[str, Any]]:
    # The fixed label is compared with the one before, so removing a finalizer is no violation of it.
    exempt: dict[str, Any] = {}
    if cel_rule is not LABEL_FIXED:
        exempt["matchConditions"] = [condition("not-being-deleted", cel.NOT_BEING_DELETED)]
    rules = resource_rules(family, targets(cel_rule.rule, family, AdmissionPhase.VALIDATE))
    spec = {
        **_scope(family, rules, options),
        **exempt,
        "variables": [{"name": name, "expression": value} for name, value in cel_rule.variables.items()],
        "validations": [_validation(check.holds, check.message) for check in cel_rule.checks],
    }
    documents = bound(_name(cel_rule.rule, family), spec)
    if cel_rule is LABEL_FIXED:
        documents += bound(_BINDING_POLICY, _binding_spec(options))
    return documents


def _binding_spec(options: Options) -> dict[str, Any]:
    """Return the rule of the fixed label for Bindings, whose labels the API server copies to the pod."""
    rules = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["bindings", "pods/binding"],
        "scope": "Namespaced",
    }
    message = cel.quote(f"the label {GROUP_LABEL} may not be set by a Binding of the pod")
    return {
        **_scope(Family.PODS, [rules], options),
        "validations": [_validation(f"!{cel.LABEL}.hasValue()", message)],
    }


def _scope(family: Family, rules: list[dict[str, Any]], options: Options) -> dict[str, Any]:
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            **({"namespaceSelector": selector} if (selector := options.selector(family)) else {}),
            "resourceRules": rules,
        },
    }


def _validation(holds: str, message: str) -> dict[str, str]:
    return {"expression": holds, "messageExpression": message, "reason": "Forbidden"}


def bound(name: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a policy that denies, and its binding of the same name."""
    metadata = {"name": name, "labels": LABELS}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": binding,
        },
    ]


# The policy `class-use`: a user who names a PriorityClass needs the verb `use` on it. Off by default.
#
# RBAC does not restrict PriorityClasses, and a quota by class counts pods only. CEL in the API server can
# query its authorizer without another request, which a webhook cannot. So this is a policy and not a rule.
#
# It also covers the objects that create pods and groups, because controllers create pods with accounts of
# their own, which must be allowed every class. So the author of the Deployment, Job or Workload is checked.
# CEL cannot know the default class: the server sets it on pods and groups that name none, so all users need
# `use` on it. Mirror pods of a node are not checked.

CLASS_USE = "class-use.podium.dev"
_ROLE = "podium-class-use-all"


# The maximum nesting of templates of composite groups (Kubernetes 1.37, gate CompositePodGroup).
_NESTED = 4


def _named(name: str) -> str:
    """Return CEL for the classes that an object names in its spec, Workload templates and pod template."""
    spec = f"dyn({name}).spec"
    places = (
        f"[{_class(spec)}]",
        _templates(spec, _NESTED),
        f"[{_class(f'{spec}.?template.?spec')}]",
        f"[{_class(f'{spec}.?jobTemplate.?spec.?template.?spec')}]",
    )
    return f'({" + ".join(places)}).filter(c, c != "")'


def _class(spec: str) -> str:
    return f'{spec}.?priorityClassName.orValue("")'


def _templates(spec: str, depth: int) -> str:
    """Return CEL for the classes of templates, including those in composite ones.

    CEL in Kubernetes 1.32 cannot flatten a list of lists, so the lists of composites are joined and split
    again.
    """
    here = f"{cel.elements(spec, 'podGroupTemplates')}.map(t, {_class('t')})"
    if not depth:
        return here
    variable = f"t{depth}"
    within = f"([{_class(variable)}] + {_templates(variable, depth - 1)})"
    composites = cel.elements(spec, "compositePodGroupTemplates")
    return f'{here} + {composites}.map({variable}, {within}.join(",")).join(",").split(",")'


def class_use_policy(options: Options) -> list[dict[str, Any]]:
    """Return the policy, its binding, and the role that the cluster's own controllers need."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            # Only administrators may write in the system's namespaces.
            "namespaceSelector": options.selector(Family.PODS),
            "resourceRules": _class_use_rules(),
        },
        "matchConditions": [
            condition("not-being-deleted", cel.NOT_BEING_DELETED),
            condition("not-a-node", '!("system:nodes" in request.userInfo.groups)'),
        ],
        "variables": [
            {"name": "before", "expression": f"oldObject == null ? [] : {_named('oldObject')}"},
            {"name": "asked", "expression": f"{_named('object')}.filter(c, !(c in variables.before))"},
        ],
        # One validation for each class, because one authorizer check is a third of the cost limit of a
        # validation.
        "validations": [
            {
                "expression": f"size(variables.asked) <= {index} || "
                f'authorizer.group("{NATIVE_GROUP}").resource("priorityclasses")'
                f'.name(variables.asked[{index}]).check("use").allowed()',
                "messageExpression": 'request.userInfo.username + " may not name PriorityClass " + '
                f'variables.asked[{index}] + ": requires the verb use on priorityclasses.{NATIVE_GROUP}"',
                "reason": "Forbidden",
            }
            for index in range(MAX_TEMPLATES)
        ]
        + [
            {
                "expression": f"size(variables.asked) <= {MAX_TEMPLATES} || variables.asked.all(c, "
                f"{list(range(MAX_TEMPLATES))}.exists(i, variables.asked[i] == c))",
                "message": f"may not name more than {MAX_TEMPLATES} PriorityClasses at once",
                "reason": "Forbidden",
            }
        ],
    }
    return [*bound(CLASS_USE, spec), *_controllers_role()]


def _class_use_rules() -> list[dict[str, Any]]:
    created, written = ["CREATE"], ["CREATE", "UPDATE"]
    groups = [
        (group(family), versions(family), created, ["compositepodgroups", "podgroups", "workloads"])
        for family in (Family.PODIUM, Family.NATIVE)
    ]
    matched = [
        ("", ["v1"], created, ["pods"]),
        *groups,
        ("", ["v1"], written, ["replicationcontrollers"]),
        ("apps", ["v1"], written, ["daemonsets", "deployments", "replicasets", "statefulsets"]),
        ("batch", ["v1"], written, ["cronjobs", "jobs"]),
    ]
    return [
        {
            "apiGroups": [name],
            "apiVersions": api_versions,
            "operations": how,
            "resources": plurals,
            "scope": "Namespaced",
        }
        for name, api_versions, how, plurals in matched
    ]


def _controllers_role() -> list[dict[str, Any]]:
    """Return a role that allows kube-controller-manager's controllers every class.

    They copy specs whose authors were checked.
    """
    rule = {"apiGroups": [NATIVE_GROUP], "resources": ["priorityclasses"], "verbs": ["use"]}
    rbac = "rbac.authorization.k8s.io"
    subjects = [
        {"apiGroup": rbac, "kind": "Group", "name": "system:serviceaccounts:kube-system"},
        {"apiGroup": rbac, "kind": "User", "name": "system:kube-controller-manager"},
    ]
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": _ROLE}
    metadata = {"name": _ROLE, "labels": LABELS}
    bound_to = {"roleRef": role, "subjects": subjects}
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [rule]},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": metadata, **bound_to},
    ]
