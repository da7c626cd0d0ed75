"""The policies of every installation on real API servers without a webhook answer as the webhook does.

The webhook's functions review each object, then the server gets it. Verdict, code and text must be equal,
except for the words that name the policy.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.rules.scene import Document, priority_class, profile
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks import reviews
from tests.support.webhooks.recorder import recording, send
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP
from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.crds import definitions
from podium.rules.podiumrules import OWN_RULES
from podium.rules.policy import Allowance, Policy, RuleLevel
from podium.webhooks import policies
from podium.webhooks.policies import DEFAULT, bound, defaults
from podium.webhooks.registration import Endpoint, Options

pytestmark = pytest.mark.server

ALLOW = (
    Allowance(namespaces=("team-b",)),
    Allowance(namespaces=("team-?",), pods=("lo[v-x]", "s*-critical"), groups=("low", "a.b")),
    Allowance(namespaces=("none", "kube-system"), pods=(), groups=()),
)
# The webhook applies the rules that have policies, and no others.
POLICY = Policy(
    levels={rule.cause.rule.id: RuleLevel.OFF for rule in OWN_RULES if rule not in DEFAULT}, allow=ALLOW
)
CLASSES = (priority_class("low", value=1), priority_class("high", value=9), priority_class("a.b", value=2))
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
_REFUSED = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '\1' denied request: ")
_FORBIDDEN = re.compile(r"^[a-z.0-9]+ \"[^\"]+\" is forbidden: ")


class Outcome(NamedTuple):
    """The answer to a client, from a policy or a webhook; `code` is 0 if it is allowed."""

    code: int
    text: str


class Scene(NamedTuple):
    server: Server

    def put(self, document: Document, namespace: str = "default") -> Outcome:
        """Send a new object as a dry run; return the answer."""
        answer = send(self.server, "POST", f"{place(document, namespace)}?dryRun=All", document)
        return told(answer)

    def webhook(
        self, new: Document, old: Document | None = None, namespace: str = "default", subresource: str = ""
    ) -> tuple[Document, Outcome]:
        """Return the object after the mutating webhook, and the verdict on it."""
        by = profile(self.server.release.minor, "podium", policy=POLICY)
        state = ClusterState(native_served=True)
        for each in CLASSES:
            read = READS[each["apiVersion"], each["kind"]]
            state.apply(read.neutral(msgspec.convert(each, read.type)))
        more = {"namespace": namespace} | ({"subResource": subresource} if subresource else {})
        patched = reviews.mutate(new, old, view=state, by=by, **more).patched
        verdict = reviews.validate(patched, old, view=state, by=by, **more).verdict
        text = verdict.message.partition(" is invalid: ")[2] or _FORBIDDEN.sub("", verdict.message)
        return patched, Outcome(0 if verdict.allowed else verdict.code, text)


def told(answer: Any) -> Outcome:
    """Remove the policy's words from an answer."""
    if answer.code in (200, 201):
        return Outcome(0, "")
    before, found, text = answer.body["message"].partition(" denied request: ")
    assert found, answer
    assert _FORBIDDEN.match(before), answer
    return Outcome(answer.code, text)


def place(document: Document, namespace: str) -> str:
    group, _, version = document["apiVersion"].rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{document['kind'].lower()}s"


def apply(server: Server, path: str, document: Document) -> None:
    where = f"{path}/{document['metadata']['name']}?fieldManager=test&force=true"
    answer = send(server, "PATCH", where, document, content_type=APPLY)
    assert answer.code in (200, 201), answer


def install(server: Server, documents: list[Document]) -> None:
    for each in documents:
        group = each["apiVersion"]
        plural = each["kind"].lower().removesuffix("y") + ("ies" if each["kind"].endswith("y") else "s")
        apply(server, f"/apis/{group}/{plural}", each)


@pytest.fixture(scope="module", params=in_turn(__name__))
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Yield a server with the policies in force, and of Podium's webhooks only a conversion."""
    with exclusive(RELEASES[request.param]) as server, recording(server) as recorder:
        client = Endpoint(url=recorder.url).client("/convert", server.access.authority.read_bytes())
        install(server, definitions.crds(client))
        for namespace in ("team-a", "team-b", "none"):
            assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
        for each in CLASSES:
            assert server.request("POST", f"/apis/{NATIVE_GROUP}/v1/priorityclasses", each)[0] == 201
        policies = defaults(POLICY, Options())
        install(server, policies)
        made = Scene(server)
        in_force(made, {each["metadata"]["name"] for each in policies})
        yield made


def in_force(scene: Scene, names: set[str]) -> None:
    """Wait until every policy has refused a write."""
    keep_label(scene, "probe")
    silent = set(names)

    def answered() -> bool:
        answers = [
            send(scene.server, "POST", f"{place(document, namespace)}?dryRun=All", document)
            for document, namespace in (*(CREATED[key] for key in CREATED), *groups(scene.server))
        ]
        relabel = {"metadata": {"labels": None}}
        where = "/api/v1/namespaces/default/pods/probe?dryRun=All"
        answers.append(send(scene.server, "PATCH", where, relabel, content_type=MERGE))
        answers += [bind(scene.server, "probe", {GROUP_LABEL: "g"}, path) for path in BINDS]
        for answer in answers:
            silent.difference_update(_REFUSED.findall(str(answer.body.get("message", ""))))
        return not silent

    until(answered, f"policies to be in force: {silent}")


BINDS = ("pods/probe/binding", "bindings")


def bind(server: Server, name: str, labels: Document, path: str) -> Any:
    """Bind a pod to a node, as a dry run, with a Binding that has labels."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "labels": labels},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    return send(server, "POST", f"/api/v1/namespaces/default/{path}?dryRun=All", binding)


def pod(metadata: Document, **spec: Any) -> Document:
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": {"containers": containers, **spec},
    }


def member(label: str) -> Document:
    return {"labels": {GROUP_LABEL: label}}


FIELD = {"schedulingGroup": {"podGroupName": "g"}}
CREATED: dict[str, tuple[Document, str]] = {
    "a pod": (pod({}), "default"),
    "a member by label": (pod(member("g")), "default"),
    "a member by field": (pod({}, **FIELD), "default"),
    "null labels": (pod({"labels": None}, **FIELD), "default"),
    "a class, unrestricted": (pod({}, priorityClassName="high"), "default"),
    "a class, restricted": (pod({}, priorityClassName="high"), "team-a"),
    "an allowed class": (pod({}, priorityClassName="low"), "team-a"),
    "an allowed class of the system": (pod({}, priorityClassName="system-cluster-critical"), "team-a"),
    "a class where the first allowance allows any": (pod({}, priorityClassName="high"), "team-b"),
    "a class where none is allowed": (pod({}, priorityClassName="low"), "none"),
    "no class where none is allowed": (pod({}), "none"),
    "a class name that reads as a pattern": (pod({}, priorityClassName="a.b"), "team-a"),
}


@pytest.mark.parametrize("case", CREATED)
def test_a_new_pod(scene: Scene, case: str) -> None:
    document, namespace = CREATED[case]
    patched, wanted = scene.webhook(document, namespace=namespace)
    assert patched == document
    assert scene.put(document, namespace) == wanted


def test_the_systems_namespaces_are_left_alone(scene: Scene) -> None:
    """The policies exempt what the webhooks' selector exempts: pods and native kinds, not Podium's."""
    for document, _ in (CREATED["an allowed class"], *groups(scene.server)):
        if PODIUM_GROUP not in document["apiVersion"]:
            assert scene.put(document, "kube-system") == Outcome(0, "")
        else:
            patched, wanted = scene.webhook(document, namespace="kube-system")
            assert wanted.code == 403
            assert scene.put(patched, "kube-system") == wanted


def keep_label(scene: Scene, name: str, labels: Document | None = None) -> Document:
    """Create a pod of a group with a finalizer."""
    given = {GROUP_LABEL: "g"} if labels is None else labels
    document = pod({"name": name, "labels": given, "finalizers": ["a.b/c"]})
    answer = send(scene.server, "POST", "/api/v1/namespaces/default/pods", document)
    assert answer.code == 201, answer
    return answer.body


LABELS: dict[str, tuple[Document, Document | None]] = {
    "changed": ({GROUP_LABEL: "g"}, {GROUP_LABEL: "h"}),
    "emptied": ({GROUP_LABEL: "g"}, {GROUP_LABEL: ""}),
    "removed": ({GROUP_LABEL: "g", "a": "b"}, {"a": "b"}),
    "all removed": ({GROUP_LABEL: "g"}, None),
    "kept": ({GROUP_LABEL: "g"}, {GROUP_LABEL: "g", "a": "b"}),
    "added": ({}, {GROUP_LABEL: "g"}),
    "added to others": ({"a": "b"}, {"a": "b", GROUP_LABEL: "g"}),
    "added empty": ({}, {GROUP_LABEL: ""}),
    "an empty one filled": ({GROUP_LABEL: ""}, {GROUP_LABEL: "g"}),
    "an empty one removed": ({GROUP_LABEL: ""}, {"a": "b"}),
    "others": ({"a": "b"}, None),
}


@pytest.mark.parametrize("case", LABELS)
def test_a_label_that_changes(scene: Scene, case: str) -> None:
    """The label changes on the pod or through its status, and also while the pod is being deleted."""
    before, after = LABELS[case]
    name = f"label-{case.replace(' ', '-')}"
    old = keep_label(scene, name, before)
    where = f"/api/v1/namespaces/default/pods/{name}"
    old = send(scene.server, "GET", where).body
    new = {**old, "metadata": {**old["metadata"], "labels": after}}
    _, wanted = scene.webhook(new, old)
    assert scene.webhook(new, old, subresource="status")[1] == wanted
    for path in (where, f"{where}/status"):
        assert told(send(scene.server, "PUT", f"{path}?dryRun=All", new)) == wanted
    assert send(scene.server, "DELETE", where).code == 200

    def deleted() -> bool:
        return "deletionTimestamp" in send(scene.server, "GET", f"{where}?resourceVersion=0").body["metadata"]

    until(deleted, "the server's cache")
    labels = after and {**dict.fromkeys(before), **after}
    for path, more in ((f"{where}/status", {}), (where, {"finalizers": None})):
        patch = {"metadata": {"labels": labels, **more}}
        assert told(send(scene.server, "PATCH", f"{path}?dryRun=All", patch, content_type=MERGE)) == wanted


@pytest.mark.parametrize("path", BINDS)
def test_a_binding_sets_no_group(scene: Scene, path: str) -> None:
    """The API server copies the labels of a Binding to its pod."""
    text = f"the label {GROUP_LABEL} may not be set by a Binding of the pod"
    assert told(bind(scene.server, "probe", {GROUP_LABEL: "h"}, path)) == Outcome(403, text)
    assert told(bind(scene.server, "probe", {"a": "b"}, path)) == Outcome(0, "")


def groups(server: Server) -> list[tuple[Document, str]]:
    """Return PodGroups with classes in every version that the server has."""
    served = [f"{PODIUM_GROUP}/v1alpha2", f"{PODIUM_GROUP}/v1beta1", *server.release.workload_versions]
    return [
        (
            {
                "apiVersion": api_version,
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": name},
            },
            namespace,
        )
        for api_version in served
        for name in ("low", "high", "a.b")
        for namespace in ("default", "team-a", "team-b", "none")
    ]


def test_groups(scene: Scene) -> None:
    """Groups of both APIs, in every version, get the fields of the mutating webhook."""
    refused = set()
    for document, namespace in groups(scene.server):
        patched, wanted = scene.webhook(document, namespace=namespace)
        assert scene.put(patched, namespace) == wanted, document
        if wanted.code:
            refused.add(document["apiVersion"].partition("/")[0])
    assert refused == {PODIUM_GROUP, NATIVE_GROUP}


@pytest.mark.parametrize("minor", RELEASES)
def test_expressions_fit_the_schemas(minor: str) -> None:
    """The API server's own type check has no warning for any policy, in any served version."""
    shipped = [*defaults(POLICY, Options()), *policies.class_use_policy(Options())]
    documents = [each for each in shipped if each["kind"] == "ValidatingAdmissionPolicy"]
    with exclusive(RELEASES[minor], controllers=True) as server:
        install(server, definitions.crds(Endpoint(url="https://127.0.0.1:9").client("/convert", None)))
        served = [f"{PODIUM_GROUP}/v1alpha2", f"{PODIUM_GROUP}/v1beta1", *server.release.workload_versions]
        knows_kinds(server, {f"{each}, Kind={kind}" for each in served for kind in ("PodGroup", "Workload")})
        install(server, documents)
        names = {each["metadata"]["name"] for each in documents}
        until(lambda: names <= set(checked(server)), "the policies to be checked")
        assert {name: checked(server)[name] for name in names} == dict.fromkeys(names, "")


def knows_kinds(server: Server, kinds: set[str]) -> None:
    """Wait until a policy that is wrong for every kind has a warning; the controller learns kinds late."""
    rules = [
        {
            "apiGroups": [PODIUM_GROUP, NATIVE_GROUP],
            "apiVersions": ["v1alpha2", "v1alpha3", "v1beta1"],
            "operations": ["CREATE"],
            "resources": ["podgroups", "workloads"],
        }
    ]
    attempts = itertools.count()

    def known() -> bool:
        # The type check runs once for each generation.
        expression = f"object.spec.prioritty == {next(attempts)}"
        spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}
        install(server, bound("wrong.example.com", spec)[:1])
        until(lambda: "wrong.example.com" in checked(server), "the check")
        warned = checked(server)["wrong.example.com"]
        assert not warned or "undefined field 'prioritty'" in warned
        return all(kind in warned for kind in kinds)

    until(known, "the kinds to be known")


def checked(server: Server) -> dict[str, str]:
    """Return the warnings of the type check for every policy with a current generation."""
    where = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    return {
        each["metadata"]["name"]: str(each["status"]["typeChecking"].get("expressionWarnings", ""))
        for each in send(server, "GET", where).body["items"]
        if each.get("status", {}).get("observedGeneration") == each["metadata"]["generation"]
    }
