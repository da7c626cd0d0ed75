"""The table of upstream's rules on real servers: a wrong expectation fails."""

import time
from typing import Any

import pytest
from tests.support.rules.cases import CASES, POD_FIXED, Case
from tests.support.rules.scene import VERSIONS, WORKLOAD, Document, changed, classes, pod, template, workload
from tests.support.servers import Server, exclusive, of_run
from tests.unit.rules.test_upstream import field
from tools.devcluster.controlplane.releases import BUILDABLE

PLURALS = {
    "Pod": "pods",
    "PodGroup": "podgroups",
    "PriorityClass": "priorityclasses",
    "Workload": "workloads",
}
DEADLINE = 30.0

pytestmark = pytest.mark.server


def path_of(document: Document) -> str:
    """Return the URL at which objects of a kind are created."""
    api_version, kind = document["apiVersion"], document["kind"]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    namespace = document["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{PLURALS[kind]}" if namespace else f"{root}/{PLURALS[kind]}"


def placed(document: Document, namespace: str) -> Document:
    """Return an object in the test's namespace."""
    if document["kind"] == "PriorityClass":
        return document
    return changed(document, "metadata.namespace", namespace)


def prepare(server: Server, namespace: str, minor: str) -> None:
    """Create the objects that cases refer to, and wait until the server's caches have them."""
    context = [*classes(), placed(workload({"podGroupTemplates": [template()]}, VERSIONS[minor]), namespace)]
    context[-1]["metadata"]["name"] = WORKLOAD
    for document in context:
        code, answer = server.request("POST", path_of(document), document)
        assert code in (201, 409), answer
    for known in classes():
        name = known["metadata"]["name"]
        probe = placed(pod(priorityClassName=name), namespace)
        wait_for(lambda probe=probe: server.request("POST", f"{path_of(probe)}?dryRun=All", probe)[0] == 201)


def wait_for(met: Any) -> None:
    """Repeat until a condition holds, or fail."""
    end = time.monotonic() + DEADLINE
    while not met():
        assert time.monotonic() < end, "the server's caches did not catch up"


def put(server: Server, case: Case, minor: str, namespace: str) -> tuple[int, Document]:
    """Send the case to the server, and remove the objects it made."""
    document = placed(case.build(VERSIONS[minor]), namespace)
    path = path_of(document)
    code, answer = server.request("POST", path, document)
    if code != 201:
        return code, answer
    one = f"{path}/{answer['metadata']['name']}"
    try:
        if not case.edits:
            return code, answer
        new = answer
        for edited, value in case.edits.items():
            new = changed(new, edited, value)
        below = f"/{case.subresource}" if case.subresource else ""
        return server.request("PUT", one + below, new)
    finally:
        if document["kind"] == "PodGroup":
            # No controller runs that would remove the finalizer.
            server.request(
                "PATCH", one, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json"
            )
        server.request("DELETE", one, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})


def disagreements(server: Server, namespace: str, minor: str) -> list[str]:
    """Send every case of a minor to its server; return the cases with another answer."""
    prepare(server, namespace, minor)
    wrong = []
    for case in CASES:
        if minor not in case.minors:
            continue
        code, answer = put(server, case, minor, namespace)
        message = case.message.replace("{v}", VERSIONS[minor])
        text = answer.get("message", "") if code >= 300 else ""
        if POD_FIXED in message:
            text = text.partition("\n")[0]
        if (code, text) != (case.code, message):
            wrong.append(f"{case.id}: {code} {text}")
        elif code < 300:
            wrong += [
                f"{case.id}: {path} is {field(answer, path)!r}"
                for path, value in case.expect.items()
                if field(answer, path) != value
            ]
    return wrong


@pytest.mark.parametrize("minor", of_run())
def test_a_server_answers_as_the_table_says(minor: str) -> None:
    """Every case of a minor passes on a real server without another default class."""
    with exclusive(BUILDABLE[minor]) as server:
        assert disagreements(server, server.new_namespace(), minor) == []
