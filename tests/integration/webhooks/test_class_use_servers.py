"""The policy class-use on real API servers, with users and service accounts that may use some classes."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.webhooks.test_policies_servers import install
from tests.support.rules.scene import Document, priority_class
from tests.support.servers import TREES, Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks.recorder import Answer, recording, send
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.crds import definitions
from podium.documents.files import folder
from podium.rules.policy import Allowance, Policy
from podium.webhooks import policies
from podium.webhooks.policies import defaults
from podium.webhooks.registration import Endpoint, Options

pytestmark = pytest.mark.server

MERGE = "application/merge-patch+json"
CLASSES = f"/apis/{NATIVE_GROUP}/v1/priorityclasses"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ANYBODY = ("system:authenticated",)
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
CONTROLLERS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", *ANYBODY)
POD = {"containers": [{"name": "c", "image": "i"}]}
ALPHA = f"{NATIVE_GROUP}/v1alpha3"
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
METADATA = {"labels": {"a": "b"}}


def refusal(user: str, name: str) -> str:
    return (
        "ValidatingAdmissionPolicy 'class-use.podium.dev' with binding 'class-use.podium.dev' denied "
        f"request: {user} may not name PriorityClass {name}: requires the verb use on "
        f"priorityclasses.{NATIVE_GROUP}"
    )


@pytest.fixture(scope="module", params=in_turn(__name__))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server with the shipped policies; all users may write anything, jane may use the class low."""
    with exclusive(RELEASES[request.param]) as made, recording(made) as recorder:
        client = Endpoint(url=recorder.url).client("/convert", made.access.authority.read_bytes())
        install(made, definitions.crds(client))
        made.kubectl("apply", "-f", str(folder("manifests") / "policies"))
        for name, value in (("low", 1), ("high", 9)):
            assert send(made, "POST", CLASSES, priority_class(name, value=value)).code == 201
        verbs = ("create", "update", "patch", "delete", "get")
        rule = {
            "apiGroups": ["", "apps", "batch", NATIVE_GROUP, PODIUM_GROUP],
            "resources": ["*"],
            "verbs": verbs,
        }
        role = {"metadata": {"name": "write"}, "rules": [rule]}
        assert send(made, "POST", f"{RBAC}/clusterroles", role).code == 201
        made.kubectl("create", "clusterrolebinding", "write", "--clusterrole=write", f"--group={ANYBODY[0]}")
        grant(made, "low", "User", "jane")

        def in_force() -> bool:
            answers = [create(made, "a pod", name, "jane") for name in ("low", "high")]
            return [answer.code for answer in answers] == [201, 403]

        until(in_force, "the policy, roles and custom resources to be in force")
        served = [f"/apis/{PODIUM_GROUP}/{version}/podgroups" for version in ("v1alpha2", "v1beta1")]
        until(lambda: all(send(made, "GET", each).code == 200 for each in served), "the kinds")
        yield made


def grant(server: Server, name: str, kind: str, whom: str) -> None:
    """Allow a user to use a class, as in docs/webhooks.md for a default class."""
    page = (folder("manifests").parent / "docs" / "webhooks.md").read_text(encoding="utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    edits = {"standard": name, "kind: Group": f"kind: {kind}", "system:authenticated": whom}
    for there, here in edits.items():
        assert there in example
        example = example.replace(there, here)
    server.kubectl("apply", "-f", "-", stdin=example)


def _template(spec: Document) -> Document:
    return {"metadata": METADATA, "spec": spec}


def _apps(kind: str) -> tuple[str, Any]:
    more: Document = {"serviceName": "s"} if kind == "StatefulSet" else {}
    return f"apps/v1 {kind}", lambda spec: {
        "selector": {"matchLabels": {"a": "b"}},
        "template": _template(spec),
        **more,
    }


def _job(spec: Document) -> Document:
    return {"template": _template({**spec, "restartPolicy": "Never"})}


def _groups(api_version: str) -> dict[str, tuple[str, Any]]:
    def templates(spec: Document) -> Document:
        return {"podGroupTemplates": [{"name": f"t{index}", **GANG, **spec} for index in range(8)]}

    return {
        f"a group of {api_version}": (f"{api_version} PodGroup", lambda spec: {**GANG, **spec}),
        f"a workload of {api_version}": (f"{api_version} Workload", templates),
    }


# The kinds that users write, and the spec of each for a class in its field.
WRITTEN: dict[str, tuple[str, Any]] = {
    "a pod": ("v1 Pod", lambda spec: spec),
    "a deployment": _apps("Deployment"),
    "a stateful set": _apps("StatefulSet"),
    "a daemon set": _apps("DaemonSet"),
    "a replica set": _apps("ReplicaSet"),
    "a replication controller": (
        "v1 ReplicationController",
        lambda spec: {"selector": {"a": "b"}, "template": _template(spec)},
    ),
    "a job": ("batch/v1 Job", _job),
    "a cron job": (
        "batch/v1 CronJob",
        lambda spec: {"schedule": "* * * * *", "jobTemplate": {"spec": _job(spec)}},
    ),
    **_groups(f"{PODIUM_GROUP}/v1alpha2"),
    **_groups(f"{PODIUM_GROUP}/v1beta1"),
}


def written(server: Server) -> dict[str, tuple[str, Any]]:
    """Return the objects that this server accepts."""
    native = [_groups(each) for each in server.release.workload_versions]
    return WRITTEN | {name: each for groups in native for name, each in groups.items()}


def create(
    server: Server,
    what: str,
    name: str,
    user: str,
    groups: tuple[str, ...] = ANYBODY,
    *,
    namespace: str = "default",
) -> Answer:
    """Write an object that names a class, or none if it is empty, as a user; nothing is stored."""
    where, document = made(server, what, name, namespace)
    return send(server, "POST", f"{where}?dryRun=All", document, user=user, groups=groups)


def made(server: Server, what: str, name: str, namespace: str = "default") -> tuple[str, Document]:
    header, spec = written(server)[what]
    api_version, kind = header.split()
    of_pods: Document = {} if kind in ("PodGroup", "Workload") else POD
    fields = {**of_pods, **({"priorityClassName": name} if name else {})}
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec(fields)}
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{kind.lower()}s", document


def test_naming_a_class_takes_the_verb(server: Server) -> None:
    """Every object with a class needs the verb; without a class none is needed."""
    for what in written(server):
        for user, name in (("jane", "low"), ("jane", ""), ("bob", ""), ("podium:admin", "")):
            assert create(server, what, name, user).code == 201, (what, user, name)
        for user, name in (("jane", "high"), ("bob", "low")):
            answer = create(server, what, name, user)
            assert answer.code == 403, (what, user, name, answer)
            assert answer.body["message"].endswith(refusal(user, name)), answer
        assert create(server, what, "high", "root", ("system:masters",)).code == 201, what


def test_every_template_counts(server: Server) -> None:
    """Only v1alpha2 has templates of several classes in one Workload; the first refused class is named."""
    where, document = made(server, f"a workload of {PODIUM_GROUP}/v1alpha2", "low")

    def of_last(name: str, user: str) -> Answer:
        document["spec"]["podGroupTemplates"][-1]["priorityClassName"] = name
        return send(server, "POST", f"{where}?dryRun=All", document, user=user, groups=ANYBODY)

    assert of_last("low", "jane").code == 201
    for user, name in (("jane", "high"), ("bob", "low")):
        answer = of_last("high", user)
        assert (answer.code, refusal(user, name) in answer.body["message"]) == (403, True)


def test_an_update_is_asked_for_what_it_adds(server: Server) -> None:
    """A user may scale another's object with a class, and remove the class, but not set another."""
    where, document = made(server, "a deployment", "high")
    assert send(server, "POST", where, document).code == 201
    path = f"{where}/x"

    def patched(body: Document, user: str) -> Answer:
        return send(
            server, "PATCH", f"{path}?dryRun=All", body, content_type=MERGE, user=user, groups=ANYBODY
        )

    def of_class(name: str | None) -> Document:
        return {"spec": {"template": {"spec": {"priorityClassName": name}}}}

    assert patched({"spec": {"replicas": 3}}, "bob").code == 200
    assert patched(of_class(None), "bob").code == 200
    assert patched(of_class("low"), "jane").code == 200
    assert patched(of_class("low"), "bob").code == 403
    assert send(server, "PATCH", path, of_class("low"), content_type=MERGE).code == 200
    until(lambda: patched(of_class("high"), "jane").code == 403, "the server's cache")
    assert send(server, "DELETE", path).code == 200


def test_controllers_of_the_cluster_are_trusted(server: Server) -> None:
    """Controllers write for checked users; a tenant's service account is checked like any user."""
    assert create(server, "a pod", "high", CONTROLLER, CONTROLLERS).code == 201
    tenant = "system:serviceaccount:team:builder"
    answer = create(server, "a pod", "high", tenant, ("system:serviceaccounts:team", *ANYBODY))
    assert (answer.code, refusal(tenant, "high") in answer.body["message"]) == (403, True)


def test_static_pods_and_the_systems_namespaces_are_left_alone(server: Server) -> None:
    """A node writes mirrors of its static pods; other users cannot use that annotation."""
    where, document = made(server, "a pod", "high")
    document["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "h"}
    document["spec"]["nodeName"] = "n"
    node = ("system:nodes", *ANYBODY)
    assert (
        send(server, "POST", f"{where}?dryRun=All", document, user="system:node:n", groups=node).code == 201
    )
    assert send(server, "POST", f"{where}?dryRun=All", document, user="bob", groups=ANYBODY).code == 403
    assert create(server, "a pod", "high", "bob", namespace="kube-system").code == 201


def test_every_namespace_must_be_allowed_the_default_class(server: Server) -> None:
    """The server sets the default class on a pod without a class before any policy runs."""
    body = priority_class("standard", value=5, globalDefault=True)
    assert send(server, "POST", CLASSES, body).code == 201
    until(lambda: create(server, "a pod", "", "bob").code == 403, "the default class to be stamped")
    assert refusal("bob", "standard") in create(server, "a pod", "", "bob").body["message"]
    assert create(server, "a deployment", "", "bob").code == 201
    grant(server, "standard", "Group", "system:authenticated")
    until(lambda: create(server, "a pod", "", "bob").code == 201, "the role to be in force")
    assert send(server, "DELETE", f"{CLASSES}/standard").code == 200


COMPOSITE = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}


@pytest.fixture
def composites() -> Iterator[Server]:
    """Yield a 1.37 server with composite groups, where groups of the namespace team may use the class low."""
    with exclusive(RELEASES["1.37"], apiserver=(f"--feature-gates={TREES}",)) as made:
        for name, value in (("low", 1), ("high", 9)):
            assert send(made, "POST", CLASSES, priority_class(name, value=value)).code == 201
        team = {"metadata": {"name": "team"}}
        assert made.request("POST", "/api/v1/namespaces", team)[0] == 201
        allow = (Allowance(namespaces=("team",), groups=("low",)),)
        shipped = [*policies.class_use_policy(Options()), *defaults(Policy(allow=allow), Options())]
        install(made, [each for each in shipped if each["kind"].startswith("Validating")])
        rule = {"apiGroups": [NATIVE_GROUP], "resources": ["*"], "verbs": ["create"]}
        role = {"metadata": {"name": "write"}, "rules": [rule]}
        assert send(made, "POST", f"{RBAC}/clusterroles", role).code == 201
        made.kubectl("create", "clusterrolebinding", "write", "--clusterrole=write", f"--group={ANYBODY[0]}")
        yield made


def nested(depth: int) -> Document:
    """Return a template of nested composite groups; all must have one class."""
    inner: Document = (
        {"compositePodGroupTemplates": [nested(depth - 1)]}
        if depth
        else {"podGroupTemplates": [{"name": "t", **GANG, "priorityClassName": "high"}]}
    )
    return {"name": f"c{depth}", **COMPOSITE, "priorityClassName": "high", **inner}


def test_groups_of_groups_name_classes(composites: Server) -> None:
    """The class is in a template at any depth, or in the object itself."""
    of_group = {"workloadRef": {"workloadName": "w", "templateName": "c"}, "priorityClassName": "high"}
    written: list[tuple[str, Document]] = [
        *(("Workload", {"compositePodGroupTemplates": [nested(depth)]}) for depth in range(3)),
        ("CompositePodGroup", {**COMPOSITE, **of_group}),
    ]

    def code(kind: str, spec: Document, user: str, namespace: str = "default") -> tuple[int, str]:
        document = {"apiVersion": ALPHA, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
        where = f"/apis/{ALPHA}/namespaces/{namespace}/{kind.lower()}s?dryRun=All"
        answer = send(composites, "POST", where, document, user=user, groups=ANYBODY if user else ())
        return answer.code, str(answer.body.get("message", ""))

    # Each kind has a policy of its own, which takes effect separately.
    for each in written:
        until(lambda: code(*each, "bob")[1].endswith(refusal("bob", "high")), "the policy is in force")  # noqa: B023 - called at once
    until(lambda: code(*written[-1], "", "team")[0] == 403, "the rule on allowed classes is in force")
    for kind, spec in written:
        refused, text = code(kind, spec, "bob")
        assert (refused, text.endswith(refusal("bob", "high"))) == (403, True), (kind, spec, text)
        assert code(kind, spec, "")[0] == 201, (kind, spec)
    refused, text = code(*written[-1], "", "team")
    assert (refused, "may not use class high (allowed: low)" in text) == (403, True), text
