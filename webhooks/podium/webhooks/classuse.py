"""The policy `class-use`: whoever names a PriorityClass needs the verb `use` on it. Off by default.

RBAC has no opinion on who may take which class, and a quota by class counts pods only. The API server's CEL
can ask its authorizer, which no webhook can without a request of its own, so this is a policy and no rule.

It looks at what makes pods and groups as well, not at those alone: controllers make pods under accounts of
their own, and these must be trusted with every class. So the person who writes the Deployment, the Job or the
Workload is asked. CEL cannot know which class is the default: the server stamps that on pods and groups that
name none, so everybody needs `use` on it. A node's mirrors of its static pods are not looked at.
"""

from typing import Any

from podium.api.groups import NATIVE_GROUP
from podium.rules.workload import MAX_TEMPLATES
from podium.webhooks import cel
from podium.webhooks.policies import COMPOSITES, bound
from podium.webhooks.registration import LABELS, Family, Options, condition, group, versions

NAME = "class-use.podium.dev"
_ROLE = "podium-class-use-all"


# Templates of composite groups lie within each other to this depth (Kubernetes 1.37, gate CompositePodGroup).
_NESTED = 4


def _named(name: str) -> str:
    """Give the classes that an object names: itself, in a Workload's templates, in a pod template."""
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
    """Give the classes of templates, those within composite ones included.

    CEL of Kubernetes 1.32 cannot flatten a list of lists, so a composite's are joined and split again.
    """
    here = f"{cel.elements(spec, 'podGroupTemplates')}.map(t, {_class('t')})"
    if not depth:
        return here
    each = f"t{depth}"
    within = f"([{_class(each)}] + {_templates(each, depth - 1)})"
    composites = cel.elements(spec, "compositePodGroupTemplates")
    return f'{here} + {composites}.map({each}, {within}.join(",")).join(",").split(",")'


def policy(options: Options) -> list[dict[str, Any]]:
    """Give the policy, its binding, and the role that controllers of the cluster itself need."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            # The system's namespaces are whose may write there.
            **options.selector(Family.PODS),
            "resourceRules": _rules(),
        },
        "matchConditions": [
            condition("not-being-deleted", cel.NOT_BEING_DELETED),
            condition("not-a-node", '!("system:nodes" in request.userInfo.groups)'),
        ],
        "variables": [
            {"name": "before", "expression": f"oldObject == null ? [] : {_named('oldObject')}"},
            {"name": "asked", "expression": f"{_named('object')}.filter(c, !(c in variables.before))"},
        ],
        # One each, for the server counts a question to the authorizer as a third of what one may cost.
        "validations": [
            {
                "expression": f"size(variables.asked) <= {index} || "
                f'authorizer.group("{NATIVE_GROUP}").resource("priorityclasses")'
                f'.name(variables.asked[{index}]).check("use").allowed()',
                "messageExpression": 'request.userInfo.username + " may not name PriorityClass " + '
                f'variables.asked[{index}] + ": it takes the verb use on priorityclasses.{NATIVE_GROUP}"',
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
    return [*bound(NAME, spec, "Deny"), *_controllers()]


def _rules() -> list[dict[str, Any]]:
    created, written = ["CREATE"], ["CREATE", "UPDATE"]
    groups = [
        (group(Family.PODIUM), versions(Family.PODIUM), created, ["podgroups", "workloads"]),
        (group(Family.NATIVE), versions(Family.NATIVE), created, [COMPOSITES, "podgroups", "workloads"]),
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
            "apiVersions": each,
            "operations": how,
            "resources": plurals,
            "scope": "Namespaced",
        }
        for name, each, how, plurals in matched
    ]


def _controllers() -> list[dict[str, Any]]:
    """Trust the controllers of kube-controller-manager with every class: they copy what others wrote."""
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
