"""Verdicts of commands on inputs that once gave a false success."""

import json
from pathlib import Path

import pytest
from tests.support.calling import call

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
"""
EVENTS = """
apiVersion: v1
kind: EventList
items: []
"""
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml}
spec:
  replicatedJobs:
  - name: driver
    template: {spec: {template: {spec: {priorityClassName: high, containers: [{name: a, image: b}]}}}}
  - name: worker
    template: {spec: {template: {spec: {priorityClassName: low, containers: [{name: a, image: b}]}}}}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [(SERVICE, "reads (skipped: 1 v1 Service). Check the path."), (EVENTS, "reads. Check the path.")],
    ids=["a kind that is not read", "an empty list"],
)
@pytest.mark.parametrize("command", ["audit", "preflight --to 1.37", "admit"])
def test_a_command_that_read_nothing_is_an_error(
    command: str, text: str, expected: str, tmp_path: Path
) -> None:
    """A wrong path in a pipeline must not look like a clean cluster."""
    (tmp_path / "input.yaml").write_text(text, "utf-8")
    done = call(f"podium {command} -f input.yaml", tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert f"The input has no object that podium {command.split(maxsplit=1)[0]} {expected}" in done.stderr


def test_an_audit_of_a_folder_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {cpus: 1}}\n"
    (tmp_path / "deploy/pod.yaml").write_text(pod, "utf-8")
    done = call("podium audit -f deploy", tmp_path)
    problem = "deploy/pod.yaml, document 1, line 3: metadata.annotations[cpus]: expected string, got integer"
    assert done.code == 2
    assert f"podium audit reads (skipped: 1 document, such as {problem}). Check the path." in done.stderr


def test_admit_shows_each_refusal_with_its_own_field(tmp_path: Path) -> None:
    """Two templates lack their classes; the message of the verdict names the first class."""
    (tmp_path / "input.yaml").write_text(JOBSET, "utf-8")
    done = call("podium admit -f input.yaml --kubernetes 1.37", tmp_path)
    shown = " ".join(done.stdout.split())
    path = "template.spec.template.spec.priorityClassName"
    assert f"spec.replicatedJobs[0].{path}: Create the PriorityClass" in shown
    assert f"spec.replicatedJobs[1].{path}: no PriorityClass with name low was found. Create" in shown
    report = json.loads(call("podium admit -f input.yaml --kubernetes 1.37 -o json", tmp_path).stdout)
    fields = [finding["field"] for finding in report["results"][0]["findings"]]
    assert fields == [f"spec.replicatedJobs[{at}].{path}" for at in (0, 1)]


COMPOSITE = """
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: all, namespace: ml}
spec: {workloadRef: {workloadName: w, templateName: all}, schedulingPolicy: {basic: {}}}
"""
LEAVING = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g, namespace: ml, uid: u, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {schedulingPolicy: {basic: {}}}
"""
MEMBER = """
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ml}
spec: {schedulingGroup: {podGroupName: g}, containers: [{name: a, image: b}]}
"""


@pytest.mark.parametrize(
    ("kubernetes", "message"),
    [
        ("1.36", "Kubernetes 1.36 refuses it."),
        ("1.37", "Kubernetes 1.37 refuses it unless the gate CompositePodGroup is on."),
        ("1.38", "Kubernetes 1.38 (beta) refuses it unless the gate CompositePodGroup is on."),
    ],
)
def test_a_composite_group_alone_is_a_finding_of_the_audit(
    kubernetes: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "input.yaml").write_text(COMPOSITE, "utf-8")
    done = call(f"podium audit -f input.yaml --kubernetes {kubernetes} -o json", tmp_path)
    (found,) = json.loads(done.stdout)["findings"]
    assert (done.code, found["rule"], found["object"]["kind"]) == (
        0,
        "composite-kind-gated",
        "CompositePodGroup",
    )
    assert message in found["message"]
    assert ("; not released yet: the rules are those of 1.38.0-beta.0" in done.stderr) is (
        kubernetes == "1.38"
    )


def test_preflight_knows_a_composite_group(tmp_path: Path) -> None:
    (tmp_path / "input.yaml").write_text(COMPOSITE, "utf-8")
    done = call("podium preflight -f input.yaml --from 1.36 --to 1.37 -o json", tmp_path)
    (found,) = json.loads(done.stdout)["findings"]
    assert found["rule"] == "composite-kind-gated"
    # 1.38 serves it behind the same gate.
    done = call("podium preflight -f input.yaml --from 1.37 --to 1.38 -o json", tmp_path)
    assert json.loads(done.stdout)["findings"] == []
    assert "podium: Kubernetes 1.38; not released yet" in done.stderr


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--kubernetes 1.36", 404),
        ("--kubernetes 1.37", 404),
        ("--kubernetes 1.37 --feature-gates CompositePodGroup=true", 201),
        ("--kubernetes 1.37 --feature-gates CompositePodGroup=true,GenericWorkload=false", 404),
    ],
)
def test_admit_refuses_a_composite_group_unless_its_gate_is_on(
    options: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "input.yaml").write_text(COMPOSITE, "utf-8")
    done = call(f"podium admit -f input.yaml -o json {options}", tmp_path)
    (result,) = json.loads(done.stdout)["results"]
    assert result["code"] == code


@pytest.mark.parametrize(
    ("kubernetes", "gate"), [("1.36", "CompositePodGroup"), ("1.38", "PodGroupPreemptionPolicy")]
)
def test_a_gate_that_a_minor_does_not_know_is_a_usage_error(
    kubernetes: str, gate: str, tmp_path: Path
) -> None:
    (tmp_path / "input.yaml").write_text(COMPOSITE, "utf-8")
    done = call(f"podium admit -f input.yaml --kubernetes {kubernetes} --feature-gates {gate}=true", tmp_path)
    assert done.code == 2
    assert f"does not know {gate}: kube-apiserver does not start with it" in done.stderr


@pytest.mark.parametrize(
    ("stored", "new"), [("v1beta1", "v1beta1"), ("v1alpha3", "v1beta1"), ("v1beta1", "v1alpha3")]
)
def test_a_composite_group_of_1_38_is_updated_in_both_versions(stored: str, new: str, tmp_path: Path) -> None:
    for name, version in (("old.yaml", stored), ("input.yaml", new)):
        (tmp_path / name).write_text(COMPOSITE.replace("v1alpha3", version), "utf-8")
    gates = "TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
    options = f"--operation UPDATE --old old.yaml --kubernetes 1.38 --feature-gates {gates}"
    done = call(f"podium admit -f input.yaml -o json {options}", tmp_path)
    (result,) = json.loads(done.stdout)["results"]
    assert (result["code"], result["message"]) == (200, "")


def test_a_stored_group_of_an_unknown_version_is_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(LEAVING.replace("v1beta1", "v9"), "utf-8")
    (tmp_path / "input.yaml").write_text(LEAVING, "utf-8")
    done = call("podium admit -f input.yaml --operation UPDATE --old old.yaml --kubernetes 1.38", tmp_path)
    assert done.code in {0, 3}, done.stderr


@pytest.mark.parametrize("kubernetes", ["1.37", "1.38"])
def test_a_new_pod_of_a_leaving_group_is_allowed(kubernetes: str, tmp_path: Path) -> None:
    (tmp_path / "stored.yaml").write_text(LEAVING, "utf-8")
    (tmp_path / "input.yaml").write_text(MEMBER, "utf-8")
    options = f"--existing stored.yaml --kubernetes {kubernetes}"
    done = call(f"podium admit -f input.yaml -o json {options}", tmp_path)
    (result,) = json.loads(done.stdout)["results"]
    assert result["code"] == 201
    table = call(f"podium admit -f input.yaml {options}", tmp_path).stdout
    assert ("Kubernetes 1.38 (beta), rules podium." in table) is (kubernetes == "1.38")


CLAIMING = """
apiVersion: v1
kind: Node
metadata: {name: node}
status: {allocatable: {cpu: 4, pods: 9}}
---
apiVersion: v1
kind: Pod
metadata: {name: claims, namespace: shop}
spec:
  containers: []
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
status: {phase: Pending}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: standard}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: shop}
spec: {containers: [{name: main, resources: {requests: {cpu: 8}}}]}
status: {phase: Pending}
"""


@pytest.mark.parametrize(
    ("target", "code", "outcome"),
    [
        ("--pod shop/claims", 4, "NotJudged"),
        ("--pod shop/large", 3, "DoesNotFit"),
        ("-A", 3, "DoesNotFit"),
    ],
)
def test_a_plan_that_cannot_be_judged_has_its_own_exit_code(
    target: str, code: int, outcome: str, tmp_path: Path
) -> None:
    """If one of several pods does not fit, the exit code is that of a refusal."""
    (tmp_path / "input.yaml").write_text(CLAIMING, "utf-8")
    done = call(f"podium whatif -f input.yaml {target} -o json", tmp_path)
    assert (done.code, json.loads(done.stdout)["outcome"]) == (code, outcome), done.stderr


# kubernetes/kubernetes#140984: a DaemonSet's pod among pods of its priority.
CROWDED = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: n1, priority: 0, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata:
  name: log-x
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: KIND, name: log, uid: d, controller: true}]
spec: {priority: PRIORITY, containers: [{name: c, resources: {requests: {cpu: "CPU"}}}]}
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: Insufficient cpu}]
"""
HIGHER = (
    "to do: name a class above the pods of its node in the template of DaemonSet log, because its pod can "
    "run on no other node"
)
PLAN = "to do: podium whatif --pod shop/log-x lists"


@pytest.mark.parametrize(
    ("values", "shown", "hidden"),
    [
        (("DaemonSet", "0", "2"), [HIGHER, f"{PLAN} the reasons by node"], "victims"),
        (("ReplicaSet", "0", "2"), [f"{PLAN} the reasons by node"], "a class above"),
        (
            ("ReplicaSet", "9", "2"),
            [f"{PLAN} the victims, the spared units, and the reasons by node"],
            "a class above",
        ),
        (("ReplicaSet", "9", "1"), ["It fits without preemption"], PLAN),
    ],
    ids=["of a DaemonSet", "of a ReplicaSet", "with victims", "with room"],
)
def test_why_gives_only_advice_that_helps(
    values: tuple[str, str, str], shown: list[str], hidden: str, tmp_path: Path
) -> None:
    """The plan has no victims to list if nothing has a lower priority."""
    text = CROWDED
    for word, value in zip(("KIND", "PRIORITY", "CPU"), values, strict=True):
        text = text.replace(word, value)
    (tmp_path / "input.yaml").write_text(text, "utf-8")
    words = " ".join(call("podium why pod shop/log-x -f input.yaml", tmp_path).stdout.split())
    for each in shown:
        assert each in words
    assert hidden not in words


# kserve, argo and flyte keep patches in folders whose kustomizations are elsewhere.
DEPLOYMENT_PATCH = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: kserve}
spec: {template: {spec: {containers: [{name: manager, resources: {limits: {cpu: 100m}}}]}}}
"""
JOB_PATCH = """
apiVersion: batch/v1
kind: Job
metadata: {name: setup, namespace: kserve}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: setup, tty: true}]}}}
"""
BUILD = (
    "The object looks like a kustomize patch. If it is one, build it first: kubectl kustomize DIR | podium "
    "admit -f -"
)


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        (DEPLOYMENT_PATCH, "spec.selector"),
        (JOB_PATCH, "spec.template.spec.containers[0].image"),
    ],
    ids=["Deployment", "Job"],
)
def test_a_refused_object_that_may_be_a_patch_says_so_once(patch: str, field: str, tmp_path: Path) -> None:
    (tmp_path / "input.yaml").write_text(patch, "utf-8")
    done = call("podium admit -f input.yaml -o json", tmp_path)
    (result,) = json.loads(done.stdout)["results"]
    fixes = [(each["field"], each["fix"]) for each in result["findings"] if "kustomize" in each["fix"]]
    assert (done.code, result["code"], fixes) == (3, 422, [(field, f"Set the field. {BUILD}")])
