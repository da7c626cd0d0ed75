"""The requests that real API servers send under the generated configurations.

A recording webhook replaces ours, so the tests show the registration alone.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks.recorder import Answer, Recorder, recording, send
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP
from podium.api.saving import SAVES_ON_TERMINATION
from podium.crds import definitions
from podium.rules.policy import Allowance, Policy, RuleLevel
from podium.webhooks.registration import Endpoint, Options, configurations

pytestmark = pytest.mark.server

POLICY = Policy(
    levels={"member-priority": RuleLevel.INHERIT},
    allow=(Allowance(namespaces=("team-*",), pods=("lo[v-x]",), groups=()),),
)
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
POD = {"containers": [{"name": "c", "image": "i"}]}
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
SAVING = {SAVES_ON_TERMINATION: "30s"}
BOTH = ["mutate CREATE v1 pods", "validate CREATE v1 pods"]


class Scene(NamedTuple):
    """A server with a registration, and the recorder."""

    server: Server
    recorder: Recorder

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        """Send a request that must succeed."""
        answer = send(self.server, method, path, body, content_type=content_type)
        assert answer.code in (200, 201), answer
        return answer

    def delete(self, path: str) -> None:
        """Delete objects with finalizers, and wait for the server's cache, which updates read first."""
        self.ask("DELETE", path)

        def gone() -> bool:
            cached = send(self.server, "GET", f"{path}?resourceVersion=0").body
            return "deletionTimestamp" in cached["metadata"]

        until(gone, f"{path} to be seen as deleted")


def apply(server: Server, document: dict[str, Any], path: str) -> None:
    where = f"{path}/{document['metadata']['name']}?fieldManager=test&force=true"
    answer = send(server, "PATCH", where, document, content_type=APPLY)
    assert answer.code in (200, 201), answer
    assert answer.warnings == []


def register(server: Server, recorder: Recorder, *, conversion: bool) -> None:
    endpoint, bundle = Endpoint(url=recorder.url), server.access.authority.read_bytes()
    for crd in definitions.crds(endpoint.client("/convert", bundle) if conversion else None):
        apply(server, crd, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    for each in configurations(POLICY, endpoint, Options(), bundle):
        apply(server, each, f"{CONFIGURATIONS}/{each['kind'].lower()}s")


def classes(server: Server) -> None:
    for name, value in (("low", 1), ("high", 9)):
        body = {"metadata": {"name": name}, "value": value}
        code, answer = server.request("POST", f"/apis/{NATIVE_GROUP}/v1/priorityclasses", body)
        assert code == 201, answer


def groups(api_version: str, plural: str, namespace: str = "default") -> str:
    return f"/apis/{api_version}/namespaces/{namespace}/{plural}"


def document(api_version: str, plural: str, name: str) -> dict[str, Any]:
    kind, spec = {
        "podgroups": ("PodGroup", GANG),
        "workloads": ("Workload", {"podGroupTemplates": [{"name": "t", **GANG}]}),
    }[plural]
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def ready(scene: Scene) -> None:
    """Wait until both configurations and both of Podium's kinds are known to the server."""
    probes = [
        ("/api/v1/namespaces/default/pods", {"metadata": member("probe"), "spec": POD}),
        (
            groups(f"{PODIUM_GROUP}/v1beta1", "podgroups"),
            document(f"{PODIUM_GROUP}/v1beta1", "podgroups", "probe"),
        ),
        (
            groups(f"{PODIUM_GROUP}/v1beta1", "workloads"),
            document(f"{PODIUM_GROUP}/v1beta1", "workloads", "probe"),
        ),
    ]
    for path, body in probes:
        both = {"mutate", "validate"} if "workloads" not in path else {"validate"}

        def known(path: str = path, body: Any = body, both: set[str] = both) -> bool:
            send(scene.server, "POST", f"{path}?dryRun=All", body)
            return {request.split()[0] for request in scene.recorder.take("probe")} == both

        until(known, f"the server to ask about {path}")


@pytest.fixture(scope="module", params=in_turn(__name__))
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Yield each minor with the Workload API and the registration, two classes and a team's namespace."""
    with exclusive(RELEASES[request.param]) as server, recording(server) as recorder:
        register(server, recorder, conversion=True)
        classes(server)
        assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})[0] == 201
        made = Scene(server, recorder)
        ready(made)
        yield made


def member(name: str, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "labels": {GROUP_LABEL: "g"}, **metadata}


FIELD = {"schedulingGroup": {"podGroupName": "g"}}
CREATED: dict[str, tuple[str, dict[str, Any], dict[str, Any], list[str]]] = {
    # namespace, metadata, spec, the requests
    "in no group": ("default", {}, {}, []),
    "in a group by label": ("default", {"labels": {GROUP_LABEL: "g"}}, {}, BOTH),
    "in a group by field": ("default", {}, FIELD, BOTH),
    "in a group by both": ("default", {"labels": {GROUP_LABEL: "g"}}, FIELD, BOTH),
    "labels are null": ("default", {"labels": None}, {}, []),
    "labels are null, in a group by field": ("default", {"labels": None}, FIELD, BOTH),
    "the field is null": ("default", {}, {"schedulingGroup": None}, []),
    "the label is empty": ("default", {"labels": {GROUP_LABEL: ""}}, {}, BOTH),
    "another label": ("default", {"labels": {"app": "g"}}, {}, []),
    "in the system's namespace": ("kube-system", {"labels": {GROUP_LABEL: "g"}}, FIELD, []),
    "in the leases' namespace": ("kube-node-lease", {"labels": {GROUP_LABEL: "g"}}, FIELD, []),
    "of a static pod": (
        "default",
        {"labels": {GROUP_LABEL: "g"}, "annotations": {"kubernetes.io/config.mirror": "h"}},
        {"nodeName": "n"},
        BOTH[1:],
    ),
    "other annotations": ("default", {"labels": {GROUP_LABEL: "g"}, "annotations": {"a": "b"}}, {}, BOTH),
    "it saves its work": ("default", {"annotations": SAVING}, {}, BOTH[1:]),
    "a class where all are allowed": ("default", {}, {"priorityClassName": "high"}, []),
    "a class that is allowed": ("team-a", {}, {"priorityClassName": "low"}, []),
    "a class that is not allowed": ("team-a", {}, {"priorityClassName": "high"}, BOTH[1:]),
    "no class where few are allowed": ("team-a", {}, {}, []),
    "an allowed class, in a group": (
        "team-a",
        {"labels": {GROUP_LABEL: "g"}},
        {"priorityClassName": "low"},
        BOTH,
    ),
}


@pytest.mark.parametrize("case", CREATED)
def test_the_webhook_gets_new_pods(scene: Scene, case: str) -> None:
    """Members, and pods of a class that the namespace may not use, are sent, created or applied."""
    namespace, metadata, spec, requests = CREATED[case]
    where = f"/api/v1/namespaces/{namespace}/pods"
    pod = {"metadata": {"name": "p", **metadata}, "spec": {**POD, **spec}}
    scene.ask("POST", f"{where}?dryRun=All", pod)
    assert scene.recorder.take("p") == requests
    applied = {"apiVersion": "v1", "kind": "Pod", **pod}
    scene.ask("PATCH", f"{where}/p?dryRun=All&fieldManager=test", applied, APPLY)
    assert scene.recorder.take("p") == requests


def test_a_pod_without_a_spec_is_the_servers_business(scene: Scene) -> None:
    """The match conditions do not fail on it, nor on a member without one."""
    where = "/api/v1/namespaces/default/pods"
    for metadata, requests in (({"name": "p"}, []), (member("p"), BOTH[:1])):
        for body in ({"metadata": metadata}, {"metadata": metadata, "spec": None}):
            answer = send(scene.server, "POST", where, body)
            assert (answer.code, "spec.containers: Required value" in answer.body["message"]) == (422, True)
            assert scene.recorder.take("p") == requests


UPDATED: dict[str, tuple[dict[str, Any] | None, dict[str, Any], bool]] = {
    # labels before (of a member, if None), the patch, whether it is sent
    "another label comes": (None, {"metadata": {"labels": {"app": "a"}}}, False),
    "an annotation comes": (None, {"metadata": {"annotations": {"a": "b"}}}, False),
    "a declaration comes": (None, {"metadata": {"annotations": SAVING}}, True),
    "the label is changed": (None, {"metadata": {"labels": {GROUP_LABEL: "other"}}}, True),
    "the label is emptied": (None, {"metadata": {"labels": {GROUP_LABEL: ""}}}, True),
    "the label is removed": (None, {"metadata": {"labels": {GROUP_LABEL: None}}}, True),
    "all labels are removed": (None, {"metadata": {"labels": None}}, True),
    "the label is written again": (None, {"metadata": {"labels": {GROUP_LABEL: "g"}}}, False),
    "the label comes": ({}, {"metadata": {"labels": {GROUP_LABEL: "g"}}}, True),
    "the label comes to others": ({"app": "a"}, {"metadata": {"labels": {GROUP_LABEL: "g"}}}, True),
    "an empty label comes": ({}, {"metadata": {"labels": {GROUP_LABEL: ""}}}, True),
    "others go": ({"app": "a"}, {"metadata": {"labels": None}}, False),
    "the empty label goes": ({GROUP_LABEL: ""}, {"metadata": {"labels": None}}, True),
    "the image changes": (None, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, False),
}


@pytest.mark.parametrize("case", UPDATED)
def test_the_webhook_gets_changed_pods(scene: Scene, case: str) -> None:
    """Writes that add, change or remove the label are sent, through the status too, unless it is deleted."""
    labels, patch, requests = UPDATED[case]
    name = case.replace(" ", "-")
    where = f"/api/v1/namespaces/default/pods/{name}"
    metadata = {
        "name": name,
        "labels": {GROUP_LABEL: "g"} if labels is None else labels,
        "finalizers": ["a.b/c"],
    }
    scene.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": POD})
    scene.recorder.take(name)
    scene.ask("PATCH", f"{where}?dryRun=All", patch, MERGE)
    assert scene.recorder.take(name) == (["validate UPDATE v1 pods"] if requests else [])
    by_status = {"metadata": patch.get("metadata", {}), "status": {"message": "m"}}
    scene.ask("PATCH", f"{where}/status?dryRun=All", by_status, MERGE)
    assert scene.recorder.take(name) == (["validate UPDATE v1 pods/status"] if requests else [])
    scene.delete(where)
    if "spec" not in patch:
        scene.ask("PATCH", where, patch, MERGE)
        scene.ask("PATCH", f"{where}/status", by_status, MERGE)
    scene.ask("PATCH", where, {"metadata": {"finalizers": None}}, MERGE)
    assert scene.recorder.take(name) == []
    assert send(scene.server, "GET", where).code == 404


@pytest.mark.parametrize("namespace", ("default", "kube-system"))
@pytest.mark.parametrize("version", ("v1alpha2", "v1beta1"))
@pytest.mark.parametrize("plural", ("podgroups", "workloads"))
def test_the_webhook_gets_podiums_kinds(scene: Scene, plural: str, version: str, namespace: str) -> None:
    """Every create and update is sent, everywhere and as written; the status and deletions are not."""
    api_version, name = f"{PODIUM_GROUP}/{version}", f"{plural}-{version}"
    where = groups(api_version, plural, namespace)
    body = document(api_version, plural, name)
    body["metadata"]["finalizers"] = ["a.b/c"]
    scene.ask("POST", where, body)
    mutated = [f"mutate CREATE {version} {plural}"] if plural == "podgroups" else []
    assert scene.recorder.take(name) == [*mutated, f"validate CREATE {version} {plural}"]
    updated = [f"{phase} UPDATE {version} {plural}" for phase in ("mutate", "validate")]
    scene.ask("PATCH", f"{where}/{name}", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert scene.recorder.take(name) == updated
    if plural == "podgroups":
        condition = {"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": TIME}
        scene.ask("PATCH", f"{where}/{name}/status", {"status": {"conditions": [condition]}}, MERGE)
        assert scene.recorder.take(name) == []
    scene.delete(f"{where}/{name}")
    scene.ask("PATCH", f"{where}/{name}", {"metadata": {"labels": {"a": "c"}}}, MERGE)
    scene.ask("PATCH", f"{where}/{name}", {"metadata": {"finalizers": None}}, MERGE)
    assert scene.recorder.take(name) == []
    assert send(scene.server, "GET", f"{where}/{name}").code == 404


TIME = "2026-11-21T00:00:00Z"


@pytest.mark.parametrize("plural", ("podgroups", "workloads"))
def test_the_webhook_gets_native_kinds(scene: Scene, plural: str) -> None:
    """Creates and new declarations in every version are sent, but not from the system's namespace."""
    for served in scene.server.release.workload_versions:
        version = served.rpartition("/")[2]
        api_version, name = f"{NATIVE_GROUP}/{version}", f"{plural}-{version}"
        where = groups(api_version, plural)
        scene.ask("POST", where, document(api_version, plural, name))
        assert scene.recorder.take(name) == [f"validate CREATE {version} {plural}"]
        scene.ask("PATCH", f"{where}/{name}", {"metadata": {"labels": {"a": "b"}}}, MERGE)
        assert scene.recorder.take(name) == []
        scene.ask("PATCH", f"{where}/{name}", {"metadata": {"annotations": SAVING}}, MERGE)
        judged = [f"validate UPDATE {version} {plural}"] if plural == "podgroups" else []
        # An API server admits a patch again if its cache was behind.
        assert list(dict.fromkeys(scene.recorder.take(name))) == judged
        scene.ask("DELETE", f"{where}/{name}")
        scene.ask("POST", groups(api_version, plural, "kube-system"), document(api_version, plural, name))
        assert scene.recorder.take(name) == []


@pytest.mark.parametrize("minor", in_turn(__name__))
def test_without_the_workload_api_too(minor: str) -> None:
    """Servers accept the configurations; a mutating webhook sees the field that they drop."""
    with exclusive(RELEASES[minor], workload_api=False) as server, recording(server) as recorder:
        register(server, recorder, conversion=False)
        classes(server)
        scene = Scene(server, recorder)
        ready(scene)
        for metadata, spec, requests in (
            ({}, FIELD, BOTH[:1]),
            ({"labels": {GROUP_LABEL: "g"}}, FIELD, BOTH),
            ({}, {}, []),
        ):
            pod = {"metadata": {"name": "p", **metadata}, "spec": {**POD, **spec}}
            scene.ask("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
            assert recorder.take("p") == requests
