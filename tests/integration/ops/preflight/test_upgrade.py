"""Each finding of preflight for the upgrade to 1.38 comes true on a real cluster; all other objects stay.

The cluster goes from 1.37 to 1.38 and back on one etcd. Each object with a finding is written on 1.37.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from tests.support.connection.cluster import create_class
from tests.support.servers import TREES, Server, exclusive, of_run
from tests.support.upgrades import moved, scheduling
from tests.support.waiting import until
from tools.devcluster.controlplane import programs, readiness
from tools.devcluster.controlplane.components import log
from tools.devcluster.controlplane.releases import BUILDABLE

from podium.cli.commands import convert, preflight, why
from podium.errors import PodiumError

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

Object = dict[str, Any]

OLD, NEW = BUILDABLE["1.37"], BUILDABLE["1.38"]
POLICY = "PodGroupPreemptionPolicy=true"
GROUPS, BETA, ALPHA = "scheduling.k8s.io", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"
PLURALS = {
    "Pod": ("v1", "pods"),
    "PodGroup": (BETA, "podgroups"),
    "CompositePodGroup": (BETA, "compositepodgroups"),
    "Workload": (BETA, "workloads"),
    "Job": ("batch/v1", "jobs"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
}
GANG: Object = {"gang": {"minCount": 1}}
BASIC: Object = {"basic": {}}
GROUP_GANG: Object = {"gang": {"minGroupCount": 1}}
ALL: Object = {"all": {}}
SINGLE: Object = {"single": {}}
ZONE, RACK = "tests.podium.dev/zone", "tests.podium.dev/rack"
TEMPLATE_ANNOTATION = "scheduling.k8s.io/group-template-name"


def path(kind: str, namespace: str, name: str = "", version: str = "") -> str:
    stored, plural = PLURALS[kind]
    root = "/api" if kind == "Pod" else "/apis"
    return f"{root}/{version or stored}/namespaces/{namespace}/{plural}/{name}".rstrip("/")


def create(server: Server, kind: str, namespace: str, name: str, spec: Object, **metadata: Any) -> int:
    """Create an object in the version that 1.37 serves; return the status code."""
    version = ALPHA if kind == "CompositePodGroup" and server.release is OLD else ""
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    code, _ = server.request("POST", path(kind, namespace, version=version), body)
    return code


def label(server: Server, kind: str, namespace: str, name: str) -> int:
    """Update a label of an object; return the status code."""
    merge = "application/merge-patch+json"
    body = {"metadata": {"labels": {"touched": "yes"}}}
    return server.request("PATCH", path(kind, namespace, name), body, merge)[0]


def node(server: Server, name: str, scene: str, cpu: str, **labels: str) -> None:
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    names = {"zone": ZONE, "rack": RACK}
    body = {
        "metadata": {
            "name": name,
            "labels": {"scene": scene, **{names[key]: value for key, value in labels.items()}},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    assert server.request("POST", "/api/v1/nodes", body)[0] == 201


def pod_spec(
    scene: str, cpu: str = "1", *, on: str = "", of: str = "", value: str = "", **more: Any
) -> Object:
    """Return the spec of a pod for the nodes of a scene; `value` is the name of its class."""
    spec: Object = {
        "containers": [
            {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": cpu}}}
        ],
        "nodeSelector": {"scene": scene},
        "terminationGracePeriodSeconds": 0,
        **more,
    }
    optional = {"nodeName": on, "schedulingGroup": of and {"podGroupName": of}, "priorityClassName": value}
    return spec | {field: value for field, value in optional.items() if value}


def spread(**selector: Any) -> list[Object]:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, **selector}]


def workload(**templates: Any) -> Object:
    """Return a Workload with one root template and one template below it."""
    leaf = {"name": "leaf", "schedulingPolicy": GANG, **templates.pop("leaf", {})}
    root = {"name": "root", "schedulingPolicy": GROUP_GANG, "podGroupTemplates": [leaf], **templates}
    return {"compositePodGroupTemplates": [root]}


POLICIES = {
    "podGroupTemplates": [
        {"name": "a", "schedulingPolicy": GANG, "preemptionPolicy": "Never"},
        {"name": "b", "schedulingPolicy": GANG, "preemptionPolicy": "PreemptLowerPriority"},
    ]
}
JOB = {"template": {"spec": {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never"}}}
WHOLE = {"schedulingPolicy": BASIC, "disruptionMode": ALL}


def tree(server: Server, namespace: str, name: str, *, leaf: Object, root: Object | None = None) -> None:
    """Create a tree of one PodGroup."""
    of = {"workloadRef": {"workloadName": name, "templateName": "root"}}
    spec = {"schedulingPolicy": GROUP_GANG, **(root or {}), **of}
    assert create(server, "CompositePodGroup", namespace, f"{name}-root", spec) == 201
    below = {"parentCompositePodGroupName": f"{name}-root", "schedulingPolicy": leaf, **of}
    below["workloadRef"] = {"workloadName": name, "templateName": "leaf"}
    assert create(server, "PodGroup", namespace, f"{name}-leaf", below) == 201


class Cluster(NamedTuple):
    """A cluster of 1.37 with an object of each finding, its namespaces, and its highest class."""

    server: Server
    main: str
    other: str
    high: str

    def placed(self, name: str, namespace: str = "") -> bool:
        """Return whether the scheduler has chosen a node for a pod."""
        _, stored = self.server.request("GET", path("Pod", namespace or self.main, name))
        return "nodeName" in stored["spec"]

    def refusal(self, name: str) -> str:
        """Return the reason and message for which a pod waits, empty if its scheduler has not said so."""
        _, stored = self.server.request("GET", path("Pod", self.main, name))
        refused = [
            f"{condition['reason']}: {condition['message']}"
            for condition in stored["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        return next(iter(refused), "")

    def exists(self, name: str, namespace: str) -> bool:
        code, stored = self.server.request("GET", path("Pod", namespace, name))
        return code == 200 and "deletionTimestamp" not in stored["metadata"]

    def run(self, name: str, spec: Object, namespace: str = "") -> None:
        assert create(self.server, "Pod", namespace or self.main, name, spec) == 201

    def on(self, server: Server) -> "Cluster":
        return self._replace(server=server)


def podium(server: Server, command: Any, *arguments: str) -> Any:
    """Return the report of a command on the cluster, as JSON."""
    done = CliRunner().invoke(command, [*arguments, "--kubeconfig", str(server.kubeconfig), "-o", "json"])
    assert done.stdout, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=of_run((NEW.minor,)))
def old(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield a cluster of 1.37 with the objects, in runs with 1.38."""
    if request.param != NEW.minor:
        pytest.skip(f"the control plane {NEW.minor} is not drawn in this run")
    with exclusive(OLD, apiserver=(f"--feature-gates={TREES},{POLICY}",)) as server:
        namespaces = server.new_namespace(), server.new_namespace()
        cluster = Cluster(server, *namespaces, create_class(server, 100))
        place(cluster, write(cluster))
        yield cluster


def write(cluster: Cluster) -> list[str]:
    """Write all objects; return the names of the pods to place."""
    server, main, other, high = cluster
    low, middle = (create_class(server, value) for value in (1, 5))
    node(server, "free", "free", "64")
    node(server, "spread-1", "spread", "8", zone="1")
    node(server, "spread-2", "spread", "1", zone="2")
    node(server, "rack-1", "rack", "8", rack="")
    node(server, "rack-2", "rack", "1", rack="a")
    for minor in ("37", "38"):
        node(server, f"budget-{minor}-1", f"budget-{minor}", "2")
        node(server, f"budget-{minor}-2", f"budget-{minor}", "2")

    specs = {
        ("Workload", "child-policy"): workload(leaf={"schedulingPolicy": BASIC}),
        ("Workload", "child-mode"): workload(disruptionMode=ALL, leaf={"disruptionMode": SINGLE}),
        ("Workload", "policies"): POLICIES,
        ("Workload", "good"): workload(),
        ("PodGroup", "whole"): WHOLE,
        ("PodGroup", "good"): {"schedulingPolicy": GANG, "disruptionMode": ALL},
        ("PodGroup", "racked"): {
            "schedulingPolicy": BASIC,
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        },
        ("PodDisruptionBudget", "keep"): {"selector": {}, "minAvailable": 1},
    }
    for (kind, name), spec in specs.items():
        assert create(server, kind, main, name, spec) == 201, name
    annotations = {TEMPLATE_ANNOTATION: "leaf"}
    assert create(server, "Job", main, "delegated", JOB, annotations=annotations) == 201
    tree(server, main, "unlike", leaf=BASIC)
    tree(server, main, "alike", leaf=GANG)

    for minor in ("37", "38"):
        scene = f"budget-{minor}"
        cluster.run(f"guarded-{minor}", pod_spec(scene, "2", on=f"{scene}-1", value=low))
        cluster.run(f"other-{minor}", pod_spec(scene, "2", on=f"{scene}-2", value=middle), other)
    cluster.run("old", pod_spec("spread", on="spread-1"))
    pending = {
        "spread-0": pod_spec("spread", "2", topologySpreadConstraints=spread(labelSelector={})),
        "unlike-0": pod_spec("free", of="unlike-leaf"),
        "alike-0": pod_spec("free", of="alike-leaf"),
        "rack-0": pod_spec("rack", "2", of="racked"),
        "good-0": pod_spec("free", of="good"),
    }
    for name, spec in pending.items():
        cluster.run(name, spec)
    cluster.run("preemptor-37", pod_spec("budget-37", "2", value=high), other)
    return list(pending)


def place(cluster: Cluster, names: list[str]) -> None:
    """Let the scheduler of 1.37 place the pods, and evict one of a budget with an empty selector."""
    with scheduling(cluster.server, POLICY):
        for name in names:
            until(lambda name=name: cluster.placed(name), f"1.37 places {name}")  # type: ignore[misc]
        # Without the budget, the victim of the lowest priority.
        until(lambda: not cluster.exists("guarded-37", cluster.main), "1.37 evicts the pod of the budget")
    assert cluster.exists("other-37", cluster.other)


@pytest.fixture(scope="module")
def report(old: Cluster) -> Any:
    """Return what preflight says on 1.37."""
    return podium(old.server, preflight.command, "-A", "--to", "1.38")


@pytest.fixture(scope="module")
def trees(old: Cluster) -> list[Object]:
    """Return the trees as kubectl prints them on 1.37."""
    return tree_of(old.server, old.main)


@pytest.fixture(scope="module")
def new(old: Cluster, report: Any, trees: list[Object]) -> Cluster:
    """Return the cluster after the upgrade, without its scheduler."""
    assert report["target"] == NEW.minor, "the report is made before the upgrade"
    assert {item["apiVersion"] for item in trees if item["kind"] == "CompositePodGroup"} == {ALPHA}
    with pytest.raises(PodiumError, match="unrecognized feature gate: PodGroupPreemptionPolicy"):
        moved(old.server, NEW, POLICY)
    return old.on(moved(old.server, NEW))


def test_each_object_is_named_and_no_other(report: Any) -> None:
    findings = {(each["rule"], each["object"]["name"]) for each in report["findings"]}
    assert findings == {
        ("composite-child-policy", "child-policy"),
        ("composite-child-mode", "child-mode"),
        ("composite-groups-unlike", "unlike-leaf"),
        ("template-policies-differ", "policies"),
        ("policy-unlike-class", "policies"),
        ("basic-with-group-disruption", "whole"),
        ("job-delegation-incomplete", "delegated"),
        ("spread-selects-all", "spread-0"),
        ("budget-selects-all", "keep"),
        ("topology-value-empty", "rack-1"),
        ("group-straddles-domains", "racked"),
    }
    assert [each["object"]["name"] for each in report["stopped"]] == ["unlike-leaf"]
    assert report["currentBy"] == f"the API server is v{OLD.version}"


def test_flags_of_1_37_stop_1_38(report: Any, tmp_path: Path) -> None:
    """Each gate of the steps does, and one that is locked with `=false`."""
    steps = [step["what"] for step in report["steps"] if "--feature-gates" in step["what"]]
    unknown, locked = (step.rpartition(": ")[2].replace(" and ", ", ").split(", ") for step in steps)
    program = str(programs.find(NEW, ["kube-apiserver"], os.environ, sys.stderr)["kube-apiserver"])
    for gate, value, words in (
        *((gate, "true", "unrecognized feature gate") for gate in unknown),
        *((gate, "false", "feature is locked to true") for gate in locked),
    ):
        done = subprocess.run(
            [program, f"--feature-gates={gate}={value}", "--version"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode != 0, gate
        assert words in done.stderr, (gate, done.stderr)


def test_1_38_refuses_the_named_objects_only(new: Cluster) -> None:
    """Create the same again, and update what is stored: status codes by object."""
    server, main = new.server, new.main
    again = {
        ("Workload", "child-policy"): (workload(leaf={"schedulingPolicy": BASIC}), 422, 422),
        ("Workload", "child-mode"): (
            workload(disruptionMode=ALL, leaf={"disruptionMode": SINGLE}),
            422,
            422,
        ),
        ("Workload", "policies"): (POLICIES, 422, 200),
        ("Workload", "good"): (workload(), 201, 200),
        ("PodGroup", "whole"): (WHOLE, 422, 200),
        ("PodGroup", "good"): ({"schedulingPolicy": GANG, "disruptionMode": ALL}, 201, 200),
        ("PodGroup", "racked"): ({"schedulingPolicy": BASIC}, 201, 200),
        ("PodDisruptionBudget", "keep"): ({"selector": {}, "minAvailable": 1}, 201, 200),
    }
    codes = {
        (kind, name): (
            spec,
            create(server, kind, main, f"{name}-again", spec),
            label(server, kind, main, name),
        )
        for (kind, name), (spec, *_) in again.items()
    }
    assert codes == again
    never = {"schedulingPolicy": GANG, "preemptionPolicy": "Never"}
    assert create(server, "PodGroup", main, "of-policies", never) == 403
    annotations = {TEMPLATE_ANNOTATION: "leaf"}
    assert create(server, "Job", main, "again", JOB, annotations=annotations) == 422
    assert label(server, "Job", main, "delegated") == 200
    for name in ("alike", "unlike"):
        assert label(server, "CompositePodGroup", main, f"{name}-root") == 200


def test_only_pods_of_the_findings_wait(new: Cluster) -> None:
    """They are like pods that 1.37 placed; the others are placed as before."""
    specs = {
        "spread-1": pod_spec("spread", "2", topologySpreadConstraints=spread(labelSelector={})),
        "unlike-1": pod_spec("free", of="unlike-leaf"),
        "rack-1": pod_spec("rack", of="racked"),
    }
    good = {
        "unselected": pod_spec("spread", topologySpreadConstraints=spread()),
        "alike-1": pod_spec("free", of="alike-leaf"),
        "good-1": pod_spec("free", of="good"),
        "alone": pod_spec("free"),
    }
    for name, spec in (specs | good).items():
        new.run(name, spec)
    new.run("preemptor-38", pod_spec("budget-38", "2", value=new.high), new.other)
    with scheduling(new.server):
        for name in good:
            until(lambda name=name: new.placed(name), f"1.38 places {name}")  # type: ignore[misc]
        for name in specs:
            until(lambda name=name: new.refusal(name) != "", f"1.38 refuses {name}")  # type: ignore[misc]
        until(lambda: not new.exists("other-38", new.other), "1.38 spares the pod of the budget")
    assert new.exists("guarded-38", new.main)
    assert "didn't match pod topology spread constraints" in new.refusal("spread-1")
    assert "cannot have basic child" in new.refusal("unlike-1")
    # The reason is in a condition that stays True, because the group was scheduled once.
    assert 'parent pod group "racked" encountered an error' in new.refusal("rack-1")


def test_why_names_the_cause_of_a_tree_that_waits(new: Cluster) -> None:
    """An invalid tree, and one whose other group has no room: the messages of pods only name groups."""
    server, main = new.server, new.main
    tree(server, main, "wrong", leaf=BASIC)
    new.run("wrong-0", pod_spec("free", of="wrong-leaf"))
    tree(server, main, "large", leaf=GANG, root={"schedulingPolicy": {"gang": {"minGroupCount": 2}}})
    below = {"parentCompositePodGroupName": "large-root", "schedulingPolicy": GANG}
    below["workloadRef"] = {"workloadName": "large", "templateName": "leaf"}
    assert create(server, "PodGroup", main, "large-other", below) == 201
    new.run("large-0", pod_spec("free", of="large-leaf"))
    new.run("large-1", pod_spec("free", "1000", of="large-other"))
    with scheduling(server):
        for name in ("wrong-0", "large-0", "large-1"):
            until(lambda name=name: new.refusal(name) != "", f"1.38 refuses {name}")  # type: ignore[misc]
        until(lambda: bool(conditions(new, "large-root")), "the root has a condition")
    assert conditions(new, "wrong-root")[0]["reason"] == "CompositePodGroupError"
    cause = "cannot have basic child"
    for target, words in (
        (("pod", f"{main}/wrong-0"), cause),
        (("group", f"{main}/wrong-leaf"), "(PodGroupError): gang parent"),
        (("group", f"{main}/wrong-root"), "(CompositePodGroupError): gang parent"),
        (("pod", f"{main}/large-0"), f"on CompositePodGroup {main}/large-root: "),
    ):
        waiting = podium(server, why.command, *target)["waiting"]
        assert any(words in wait["message"] for wait in waiting), waiting


def tree_of(server: Server, namespace: str) -> list[Object]:
    """Return composite groups, in the version that the server prefers, and groups as kubectl prints them."""
    listed = server.kubectl("get", "compositepodgroups,podgroups", "-n", namespace, "-o", "json")
    items: list[Object] = json.loads(listed)["items"]
    return items


def specs(items: list[Object]) -> dict[tuple[str, str], Object]:
    """Return the specs of objects without what a server adds: priority and preemptionPolicy."""
    added = ("priority", "preemptionPolicy")
    return {
        (item["kind"], item["metadata"]["name"]): {
            key: value for key, value in item["spec"].items() if key not in added
        }
        for item in items
    }


def converted(items: list[Object], namespace: str, minor: str) -> str:
    """Return objects as `podium convert` writes them for a minor, for another namespace."""
    moved_items = [
        {**item, "metadata": {"name": item["metadata"]["name"], "namespace": namespace}} for item in items
    ]
    arguments = ["-f", "-", "--to", BETA, "--kubernetes", minor]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": moved_items})
    done = CliRunner().invoke(convert.command, arguments, input=text)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_converted_trees_are_created_on_1_38(new: Cluster, trees: list[Object]) -> None:
    """1.38 stores a converted tree as it was on 1.37, in v1beta1."""
    namespace = new.server.new_namespace()
    chosen = [item for item in trees if item["metadata"]["name"].startswith("alike-")]
    text = converted(chosen, namespace, NEW.minor)
    assert text.count(f"apiVersion: {BETA}") == len(chosen) == 2
    new.server.kubectl("create", "-f", "-", stdin=text)
    assert specs(tree_of(new.server, namespace)) == specs(chosen)


def conditions(cluster: Cluster, composite: str) -> list[Object]:
    """Return the conditions of a composite group."""
    _, stored = cluster.server.request("GET", path("CompositePodGroup", cluster.main, composite))
    found: list[Object] = stored.get("status", {}).get("conditions", [])
    return found


def test_there_is_a_way_back_without_composite_groups_only(
    new: Cluster, report: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.37 never becomes ready while one is stored as v1beta1; the command of the step deletes them."""
    (step,) = [step for step in report["steps"] if step["what"].startswith("do not go back")]
    for item in tree_of(new.server, new.main):
        if item["kind"] == "CompositePodGroup":
            # Each write stores v1beta1.
            assert label(new.server, item["kind"], new.main, item["metadata"]["name"]) == 200
    logged = new.server.folder / log("kube-apiserver")
    before = logged.stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr(readiness, "_READY_SECONDS", 30.0)
        with pytest.raises(PodiumError, match="kube-apiserver is not ready"):
            moved(new.server, OLD, POLICY)
    text = logged.read_text(encoding="utf-8", errors="replace")[before:]
    assert 'no kind "CompositePodGroup" is registered for version "scheduling.k8s.io/v1beta1"' in text
    server = moved(new.server, NEW)
    alike = [item for item in tree_of(server, new.main) if item["metadata"]["name"].startswith("alike-")]
    delete, get = (command.split()[1:] for command in step["commands"])
    server.kubectl(*delete)
    # No controller runs here to remove the finalizers of those that 1.38 created.
    for item in json.loads(server.kubectl(*get, "-o", "json"))["items"]:
        server.request(
            "PATCH",
            path("CompositePodGroup", item["metadata"]["namespace"], item["metadata"]["name"]),
            {"metadata": {"finalizers": None}},
            "application/merge-patch+json",
        )
    back = new.on(moved(server, OLD, POLICY))
    for kind, name in (("PodGroup", "good"), ("PodGroup", "whole"), ("Workload", "good")):
        assert label(back.server, kind, back.main, name) == 200
    namespace = back.server.new_namespace()
    back.server.kubectl("create", "-f", "-", stdin=converted(alike, namespace, OLD.minor))
    assert specs(tree_of(back.server, namespace)) == specs(alike)
    back.run("back", pod_spec("free", of="good"))
    with scheduling(back.server, POLICY):
        until(lambda: back.placed("back"), "1.37 places pods again")
