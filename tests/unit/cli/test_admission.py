"""`podium admit` on manifests as users write them: typos, order, and the objects around them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.calling import call
from tools import podfields

CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n"
CONTAINERS = "containers: [{name: a, image: b}]"
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: t}\n"
    f"spec: {{priorityClassName: high, {CONTAINERS}}}\n"
)
JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: t}\n"
    f"spec: {{template: {{spec: {{restartPolicy: Never, {CONTAINERS}}}}}}}\n"
)
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n"
OTHER = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n"
GROUP = (
    "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g, namespace: t}\n"
    "spec: {schedulingPolicy: {gang: {minCount: 2}}, preemptionPolicy: PreemptLowerPriority}\n"
)


def _admit(folder: Path, text: str, *options: str, existing: str = "") -> tuple[int, dict[str, Any]]:
    (folder / "input.yaml").write_text(text, "utf-8")
    more = ""
    if existing:
        (folder / "existing.yaml").write_text(existing, "utf-8")
        more = " --existing existing.yaml"
    done = call(f"podium admit -f input.yaml -o json{more} {' '.join(options)}", folder)
    assert "Traceback" not in done.stderr
    return done.code, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def _of(kind: str, fields: str) -> str:
    """Return a complete object of a kind whose pods have some fields."""
    head = f"kind: {kind}\nmetadata: {{name: x, namespace: t}}\nspec:\n"
    fields = fields if "containers:" in fields else f"{fields}, {CONTAINERS}"
    match kind:
        case "Pod":
            return f"apiVersion: v1\n{head}  {{{fields}}}\n"
        case "CronJob":
            pods = f"{{template: {{spec: {{restartPolicy: Never, {fields}}}}}}}"
            return f"apiVersion: batch/v1\n{head}  {{schedule: 0 0 * * *, jobTemplate: {{spec: {pods}}}}}\n"
        case _:
            pods = f"{{metadata: {{labels: {{a: b}}}}, spec: {{{fields}}}}}"
            return f"apiVersion: apps/v1\n{head}  {{selector: {{matchLabels: {{a: b}}}}, template: {pods}}}\n"


UNKNOWN = [
    ("Pod", "priorityClasName: high", "spec.priorityClasName", ". Did you mean priorityClassName?"),
    ("Pod", "priorityClassname: high", "spec.priorityClassname", ". Did you mean priorityClassName?"),
    (
        "Pod",
        "schedulingGroups: {podGroupName: g}",
        "spec.schedulingGroups",
        ". Did you mean schedulingGroup?",
    ),
    ("Pod", "colour: red", "spec.colour", ""),
    (
        "Pod",
        "workloadRef: {name: w, podGroup: g}",
        "spec.workloadRef",
        ". Kubernetes 1.35 had it. Since 1.36 it is schedulingGroup.podGroupName",
    ),
    ("Pod", "containers: [{name: a, image: b, imag: c}]", "spec.containers[0].imag", ". Did you mean image?"),
    (
        "Pod",
        "containers: [{name: a, image: b, resources: {request: {cpu: 1}}}]",
        "spec.containers[0].resources.request",
        ". Did you mean requests?",
    ),
    (
        "CronJob",
        "priorityClassname: high",
        "spec.jobTemplate.spec.template.spec.priorityClassname",
        ". Did you mean priorityClassName?",
    ),
    (
        "Deployment",
        "containers: [{name: a, image: b, imag: c}]",
        "spec.template.spec.containers[0].imag",
        ". Did you mean image?",
    ),
]


@pytest.mark.parametrize(("kind", "fields", "path", "hint"), UNKNOWN, ids=[case[1] for case in UNKNOWN])
def test_an_unknown_pod_field_is_a_finding_and_strict_refuses_it(
    kind: str, fields: str, path: str, hint: str, tmp_path: Path
) -> None:
    code, report = _admit(tmp_path, _of(kind, fields))
    (result,) = report["results"]
    assert (code, result["allowed"], result["code"]) == (0, True, 201)
    assert [(each["rule"], each["field"]) for each in result["findings"]] == [("unknown-field", path)]
    assert result["warnings"] == [f'unknown field "{path}"{hint}']
    assert _admit(tmp_path, _of(kind, fields), "--fail-on", "warning")[0] == 3
    code, report = _admit(tmp_path, _of(kind, fields), "--strict")
    (result,) = report["results"]
    assert (code, result["code"], result["reason"]) == (3, 400, "BadRequest")
    assert result["message"] == (
        f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: unknown field "{path}"'
    )


@pytest.mark.parametrize(
    "fields",
    [
        "containers: [{name: a, image: b, env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.x}}}]}]",
        "nodeSelector: {any: key}",
        "containers: [{name: a, image: b, resources: {limits: {example.com/gpu: 1}}}]",
        "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}",
    ],
)
def test_known_fields_and_free_keys_are_no_finding(fields: str, tmp_path: Path) -> None:
    _, report = _admit(tmp_path, _of("Pod", fields))
    assert report["results"][0]["findings"] == []


def test_a_field_of_1_37_is_unknown_to_1_36(tmp_path: Path) -> None:
    text = _of("Pod", "evictionResponders: []")
    assert _admit(tmp_path, text, "--kubernetes", "1.37")[1]["results"][0]["findings"] == []
    (found,) = _admit(tmp_path, text, "--kubernetes", "1.36")[1]["results"][0]["findings"]
    assert found["field"] == "spec.evictionResponders"


BAD_POD = "{priorityClasName: high, containers: [{name: a, image: b}]}"
KNATIVE = "{containerConcurrency: 1, timeoutSeconds: 9, containers: [{image: b, imag: c}]}"
ELSEWHERE = [
    ("v1", "ReplicationController", f"template: {{spec: {BAD_POD}}}", "spec.template.spec.priorityClasName"),
    (
        "ray.io/v1",
        "RayCluster",
        f"headGroupSpec: {{template: {{spec: {BAD_POD}}}}}",
        "spec.headGroupSpec.template.spec.priorityClasName",
    ),
    (
        "batch.volcano.sh/v1alpha1",
        "Job",
        f"tasks: [{{name: a, template: {{spec: {BAD_POD}}}}}]",
        "spec.tasks[0].template.spec.priorityClasName",
    ),
    (
        "grove.io/v1alpha1",
        "PodCliqueSet",
        f"template: {{cliques: [{{name: a, spec: {{podSpec: {BAD_POD}}}}}]}}",
        "spec.template.cliques[0].spec.podSpec.priorityClasName",
    ),
    (
        "serving.knative.dev/v1",
        "Service",
        f"template: {{spec: {KNATIVE}}}",
        "spec.template.spec.containers[0].imag",
    ),
]


@pytest.mark.parametrize(("version", "kind", "spec", "path"), ELSEWHERE, ids=[case[1] for case in ELSEWHERE])
def test_an_unknown_pod_field_of_another_project_is_a_finding(
    version: str, kind: str, spec: str, path: str, tmp_path: Path
) -> None:
    """Nothing else is: a Volcano Job is no batch/v1 Job, and Knative's containers need no name."""
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x, namespace: t}}\nspec: {{{spec}}}\n"
    code, report = _admit(tmp_path, text)
    (result,) = report["results"]
    assert (code, result["code"]) == (0, 201)
    assert [(each["rule"], each["field"]) for each in result["findings"]] == [("unknown-field", path)]


@pytest.mark.parametrize(
    ("version", "kind", "now"),
    [
        ("extensions/v1beta1", "Deployment", "apps/v1"),
        ("apps/v1beta2", "StatefulSet", "apps/v1"),
        ("extensions/v1beta1", "Job", "batch/v1"),
        ("batch/v1beta1", "CronJob", "batch/v1"),
    ],
)
def test_a_removed_version_is_refused(version: str, kind: str, now: str, tmp_path: Path) -> None:
    code, report = _admit(
        tmp_path, f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{}}\n"
    )
    (result,) = report["results"]
    assert (code, result["code"]) == (3, 404)
    assert result["message"] == f'no matches for kind "{kind}" in version "{version}"'
    (finding,) = result["findings"]
    assert finding["fix"].startswith(f"Write apiVersion: {now}")


OLD_GROUP = (
    "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: old, namespace: t}\n"
    "spec: {schedulingPolicy: {gang: {minCount: 2}}}\n"
)


@pytest.mark.parametrize(
    ("text", "options", "allowed"),
    [
        (OLD_GROUP, (), [True]),
        (OLD_GROUP, ("--kubernetes", "1.37"), [False]),
        (f"{OLD_GROUP}---\n{GROUP}", (), [False, True]),
    ],
    ids=["only 1.36 serves it", "as requested", "no minor serves both"],
)
def test_groups_of_1_36_are_judged_for_1_36(
    text: str, options: tuple[str, ...], allowed: list[bool], tmp_path: Path
) -> None:
    _, report = _admit(tmp_path, text, *options)
    assert [result["allowed"] for result in report["results"]] == allowed


def test_the_table_of_pod_fields_is_that_of_the_recorded_servers() -> None:
    """`make podfields` writes it."""
    assert podfields.TABLE.read_text("utf-8") == podfields.text()


@pytest.mark.parametrize(
    "text", [POD.replace("high", '""'), JOB, GROUP.replace(", preemptionPolicy: PreemptLowerPriority", "")]
)
def test_an_absent_namespace_is_not_found(text: str, tmp_path: Path) -> None:
    code, report = _admit(tmp_path, text, existing=OTHER)
    (result,) = report["results"]
    assert (code, result["code"], result["reason"]) == (3, 404, "NotFound")
    assert result["message"] == 'namespaces "t" not found'
    assert _admit(tmp_path, f"{NAMESPACE}---\n{text}", existing=OTHER)[0] == 0
    assert _admit(tmp_path, text, existing=CLASS)[0] == 0


def test_an_existing_job_is_a_conflict(tmp_path: Path) -> None:
    code, report = _admit(tmp_path, JOB, existing=JOB)
    (result,) = report["results"]
    assert (code, result["code"], result["message"]) == (3, 409, 'jobs.batch "j" already exists')
    assert _admit(tmp_path, JOB, "--operation", "update", existing=JOB)[0] == 0


def test_a_folder_of_stored_objects_names_what_it_skips(tmp_path: Path) -> None:
    (tmp_path / "stored").mkdir()
    (tmp_path / "stored" / "a.yaml").write_text(f"{CLASS}---\n{CLASS}", "utf-8")
    (tmp_path / "stored" / "values.yaml").write_text("replicas: 2\n", "utf-8")
    (tmp_path / "pod.yaml").write_text(POD, "utf-8")
    done = call("podium admit -f pod.yaml --existing stored", tmp_path)
    assert done.code == 0
    assert "skipped 1 document of folders (1 no Kubernetes object: stored/values.yaml" in done.stderr
    assert "in the input twice, the last one counts: PriorityClass high" in done.stderr


def test_a_class_that_comes_later_is_named_with_its_place(tmp_path: Path) -> None:
    text = f"{POD}---\n{CLASS}"
    code, report = _admit(tmp_path, text)
    assert code == 3
    assert report["results"][0]["warnings"] == [
        "PriorityClass high comes later in the input (input.yaml, document 2). Use --order kind"
    ]
    assert _admit(tmp_path, text, "--order", "kind")[0] == 0


def test_a_folder_is_admitted_by_kind_and_on_request_by_file_name(tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    folder.mkdir()
    (folder / "a.yaml").write_text(POD, "utf-8")
    (folder / "b.yaml").write_text(CLASS, "utf-8")
    assert call("podium admit -f deploy", tmp_path).code == 0
    assert call("podium admit -f deploy --order input", tmp_path).code == 3


def test_an_object_of_a_folder_that_does_not_decode_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: 5}\nspec: 1\n", "utf-8"
    )
    done = call("podium admit -f . -o json", tmp_path)
    (result,) = json.loads(done.stdout)["results"]
    assert (done.code, result["code"]) == (3, 400)


def test_of_an_object_twice_the_last_is_judged(tmp_path: Path) -> None:
    code, report = _admit(tmp_path, f"{CLASS}---\n{POD.replace('high', 'absent')}---\n{POD}")
    assert (code, len(report["results"])) == (0, 2)
    assert report["duplicates"] == [
        {"object": "Pod t/p", "replaced": "input.yaml, document 2", "counts": "input.yaml, document 3"}
    ]
    assert _admit(tmp_path, f"{POD}---\n{POD}", "--strict")[0] == 1


def test_a_gate_keeps_the_field_that_is_dropped_without_it(tmp_path: Path) -> None:
    code, report = _admit(tmp_path, GROUP)
    dropped = [each["rule"] for each in report["results"][0]["findings"]]
    assert (code, dropped) == (0, ["gated-field-dropped"])
    gates = ("--feature-gates", "PodGroupPreemptionPolicy=true")
    code, report = _admit(tmp_path, GROUP, *gates)
    assert (code, report["results"][0]["findings"]) == (0, [])
    assert report["results"][0]["admitted"]["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert _admit(tmp_path, GROUP, "--feature-gates", "GenericWorkload=false")[0] == 3


@pytest.mark.parametrize("gates", ["Nonsense=true", "PodGroupPreemptionPolicy", "CompositePodGroup=yes"])
def test_an_unknown_gate_is_a_usage_error(gates: str, tmp_path: Path) -> None:
    code, report = _admit(tmp_path, GROUP, "--feature-gates", gates)
    assert code == 2
    assert "Gates that change a verdict: GenericWorkload, " in report["error"]


def test_the_report_says_what_is_judged(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLASS, "utf-8")
    assert (
        "Judged: metadata, priority, group, field names, required fields, selectors and restart policies. "
        "Not judged: values of other fields, quotas, permissions and other webhooks."
    ) in " ".join(call("podium admit -f a.yaml", tmp_path).stdout.split())
