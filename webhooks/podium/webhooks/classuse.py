"""The policy `class-use`: a user who names a PriorityClass needs the verb `use` on it. Off by default.

RBAC does not restrict PriorityClasses, and a quota by class counts pods only. CEL in the API server can query
its authorizer without another request, which a webhook cannot. So this is a policy and not a rule.

It also covers the objects that create pods and groups, because controllers create pods with accounts of their
own, which must be allowed every class. So the author of the Deployment, Job or Workload is checked. CEL
cannot know the default class: the server sets it on pods and groups that name none, so all users need `use`
on it. Mirror pods of a node are not checked.
"""

from typing import Any

from podium.api.groups import NATIVE_GROUP
from podium.groups.trees import MAX_TEMPLATES
from podium.webhooks import cel
from podium.webhooks.policies import bound
from podium.webhooks.registration import LABELS, Family, Options, condition, group, versions

NAME = "class-use.podium.dev"
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


def policy(options: Options) -> list[dict[str, Any]]:
    """Return the policy, its binding, and the role that the cluster's own controllers need."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            # Only administrators may write in the system's namespaces.
            "namespaceSelector": options.selector(Family.PODS),
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
    return [*bound(NAME, spec), *_controllers()]


def _rules() -> list[dict[str, Any]]:
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


def _controllers() -> list[dict[str, Any]]:
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
