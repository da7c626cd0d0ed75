"""The rights of each process' account, from the API server, against those in the manifests.

Roles and bindings that look right may be overruled (another authorizer, an edited role). No roles are
therefore read here: the API server is asked about each right.
"""

from collections import defaultdict
from collections.abc import Iterator

from podium.api.findings import group_of
from podium.ops.doctor.check import APPLY, DoctorCheck, note, ok, problem
from podium.ops.doctor.facts import ClusterFacts, Document, Installation, Right, UnreadDocument, given, unseen
from podium.text import count, some

# The rights that the webhook needs only if it issues its certificates itself.
_OWN_CERTIFICATES = ("secrets", "customresourcedefinitions")
# All rights: a user who has them needs no further review.
ALL = Right("", "", "*", "*", "", "*")


def wanted(installation: Installation, processes: dict[str, Document]) -> list[Right]:
    """Return each right that the accounts of these Deployments need."""
    accounts = {
        deployment["spec"]["template"]["spec"].get("serviceAccountName", "")
        for deployment in processes.values()
    }
    roles = {
        (role["kind"], role["metadata"]["name"]): role["rules"]
        for role in installation.documents_of("ClusterRole", "Role")
    }
    webhook = processes.get("webhook")
    own = webhook is not None and bool(given(webhook, "--cert-secret"))
    needed = [
        Right(subject["name"], binding["metadata"].get("namespace", ""), group, resource, name, verb)
        for binding in installation.documents_of("ClusterRoleBinding", "RoleBinding")
        for subject in binding["subjects"]
        if subject["name"] in accounts
        for rule in roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    ]
    return [right for right in needed if own or right.resource not in _OWN_CERTIFICATES]


def installing(installation: Installation) -> list[Right]:
    """Return each right that the user needs to install, by kind."""
    needed = [
        Right(
            "",
            manifest["metadata"].get("namespace", ""),
            group_of(manifest["apiVersion"]),
            resource,
            "",
            verb,
        )
        for manifest in installation.documents
        for resource in [_plural(manifest["kind"])]
        for verb in ("get", "create", "patch")
    ]
    return list(dict.fromkeys(needed))


def _plural(kind: str) -> str:
    """Return the resource of a kind of the manifests."""
    lower = kind.lower()
    return f"{lower.removesuffix('y')}ies" if lower.endswith("y") else f"{lower}s"


def own_review(right: Right) -> Document:
    """Return the SelfSubjectAccessReview of a right of the user."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes(right)},
    }


def own_rights(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of whether the user may install, before an installation."""
    answers = {right: answer for right, answer in facts.rights.items() if not right.account}
    if not answers or facts.processes:
        return
    name = "install-rights"
    unread = next((answer for answer in answers.values() if isinstance(answer, UnreadDocument)), None)
    lacking = [words(right) for right, allowed in answers.items() if allowed is False and right != ALL]
    if lacking:
        fact = f"you may not install Podium: {count(len(lacking), 'right')} missing: {some(lacking)}"
        yield note(name, fact, "ask a cluster-admin to install it")
    elif unread is not None:
        yield unseen(name, "your own rights were", unread)
    else:
        yield ok(name, "you may install Podium")


def review(right: Right, namespace: str) -> Document:
    """Return the SubjectAccessReview of a right; `namespace` is the namespace of the accounts."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{right.account}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{namespace}",
                "system:authenticated",
            ],
            "resourceAttributes": attributes(right),
        },
    }


def attributes(right: Right) -> dict[str, str]:
    """Return a right in the form of an access review."""
    resource, _, subresource = right.resource.partition("/")
    fields = {
        "namespace": right.namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
    }
    return {name: value for name, value in fields.items() if value}


def rights(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the missing rights of each account."""
    by_account: dict[str, dict[Right, bool | UnreadDocument]] = defaultdict(dict)
    for right, answer in facts.rights.items():
        if not right.account:
            continue  # `own_rights` reports it.
        by_account[right.account][right] = answer
    for account, answers in sorted(by_account.items()):
        unread = next((refused for refused in answers.values() if isinstance(refused, UnreadDocument)), None)
        lacking = [right for right, allowed in answers.items() if allowed is False]
        if lacking:
            fact = f"account {account} lacks {count(len(lacking), 'right')}: {some(map(words, lacking))}"
            yield problem("rights", fact, f"{APPLY}, which restores the roles")
        elif unread is not None:
            yield unseen("rights", f"the rights of account {account} were", unread)
        else:
            yield ok("rights", f"account {account} has the {count(len(answers), 'right')} it needs")


def words(right: Right) -> str:
    """Return a right in words: `patch pods/status in team-a`."""
    resource = f"{right.resource}.{right.group}" if right.group else right.resource
    name = f" {right.name}" if right.name else ""
    where = f" in {right.namespace}" if right.namespace else ""
    return f"{right.verb} {resource}{name}{where}"
