"""Real servers accept the output of `podium convert` on objects of real servers."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.servers import Server

from podium.cli.commands.convert import command
from podium.documents.files import folder
from podium.documents.yamldoc import load_all

pytestmark = pytest.mark.server

PODIUM = "scheduling.podium.dev/v1beta1"
NATIVE = {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}
KINDS = ("workloads", "podgroups")
ZERO = ("priority", 0)


def manifests(minor: str) -> list[dict[str, Any]]:
    """Return a workload, a group made from it, a pod of the group and a job for the group."""
    older = minor == "1.36"
    ref: dict[str, Any] = {"workloadRef": {"workloadName": "llm", "templateName": "worker"}}
    if older:
        names = {"workloadName": "llm", "podGroupTemplateName": "worker"}
        ref = {"podGroupTemplateRef": {"workload": names}}
    body = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": "PodGroup" if older else {"all": {}},
        "priorityClassName": "system-cluster-critical",
    }
    # On a group a system class is refused, on a template it is not looked up.
    group = {key: value for key, value in body.items() if key != "priorityClassName"}
    pod = {"schedulingGroup": {"podGroupName": "train"}, "containers": [{"name": "main", "image": "main"}]}
    template = {"metadata": {"labels": {"app": "llm"}}, "spec": pod | {"restartPolicy": "Never"}}
    return [
        {
            "apiVersion": NATIVE[minor],
            "kind": "Workload",
            "metadata": {"name": "llm", "labels": {"team": "a"}},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "llm"},
                "podGroupTemplates": [{"name": "worker", **body}],
            },
        },
        {
            "apiVersion": NATIVE[minor],
            "kind": "PodGroup",
            "metadata": {"name": "train", "annotations": {"note": "kept"}},
            "spec": {**ref, **group},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker-0"}, "spec": pod},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "llm"},
            "spec": {"suspend": True, "template": template},
        },
    ]


def listed(items: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def converted(items: list[dict[str, Any]], target: str, namespace: str) -> str:
    """Run the command on kubectl's output for another namespace; nothing is lost."""
    there = [item | {"metadata": item["metadata"] | {"namespace": namespace}} for item in items]
    result = CliRunner().invoke(command, ["-f", "-", "--to", target], input=listed(there))
    assert result.exit_code == 0, result.output
    return result.stdout


def stored(server: Server, namespace: str, group: str) -> list[dict[str, Any]]:
    """Return the workload and the group of an API as kubectl prints them."""
    names = ",".join(f"{kind}.{group}" for kind in KINDS)
    items: list[dict[str, Any]] = json.loads(server.kubectl("get", names, "-n", namespace, "-o", "json"))[
        "items"
    ]
    return items


def specs(items: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return kind and spec of every object, without nulls and without the zero that Priority writes."""
    return [(item["kind"], plain(item["spec"])) for item in items]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: plain(inner) for key, inner in value.items() if inner is not None and (key, inner) != ZERO
        }
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def test_objects_stored_by_1_36_are_created_on_1_37(server_136: Server, server_137: Server) -> None:
    """In an upgrade, objects are dumped from the old server, converted, created on the new one, and back."""
    old, new, again = server_136.new_namespace(), server_137.new_namespace(), server_136.new_namespace()
    server_136.kubectl("create", "-n", old, "-f", "-", stdin=listed(manifests("1.36")[:2]))
    before = stored(server_136, old, "scheduling.k8s.io")
    server_137.kubectl("create", "-f", "-", stdin=converted(before, NATIVE["1.37"], new))
    after = stored(server_137, new, "scheduling.k8s.io")
    assert specs(after) == specs(manifests("1.37")[:2])
    server_136.kubectl("create", "-f", "-", stdin=converted(after, NATIVE["1.36"], again))
    assert specs(stored(server_136, again, "scheduling.k8s.io")) == specs(before)


def test_native_groups_move_to_podiums_and_back(server: Server) -> None:
    """Group, workload, pod and job are created in either API, and the stored objects mean the same."""
    minor = server.release.minor
    crds = str(folder("manifests") / "crds")
    server.kubectl("apply", "--server-side", "--force-conflicts", "-f", crds)
    server.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
    native, podium, back = (server.new_namespace() for _ in range(3))
    server.kubectl("create", "-n", native, "-f", "-", stdin=listed(manifests(minor)))
    before, members = stored(server, native, "scheduling.k8s.io"), manifests(minor)[2:]

    server.kubectl("create", "-f", "-", stdin=converted(before + members, PODIUM, podium))
    there = stored(server, podium, "scheduling.podium.dev")
    assert specs(there) == specs(manifests("1.37")[:2])
    label = "scheduling.podium.dev/pod-group=train"
    assert server.kubectl("get", "pods", "-n", podium, "-l", label, "-o", "name") == "pod/worker-0\n"

    labelled = [*load_all(converted(members, PODIUM, back).encode())]
    server.kubectl("create", "-f", "-", stdin=converted(there + labelled, NATIVE[minor], back))
    assert specs(stored(server, back, "scheduling.k8s.io")) == specs(before)
    pod = json.loads(server.kubectl("get", "pod", "worker-0", "-n", back, "-o", "json"))
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "train"}
    job = json.loads(server.kubectl("get", "job", "llm", "-n", back, "-o", "json"))
    assert job["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": "train"}
