"""`podium admit` from its options to its exit code, run as a user runs it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.rules.scene import GANG, GOLD, Document, changed, group, pod, priority_class, stored
from tests.support.servers import Server

from podium.cli.commands.admit import command
from podium.errors import PodiumError

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write documents to a file of the test's own; return its path."""

    def written(*documents: Document, name: str = "new.yaml") -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    return written


def run(*arguments: str) -> Result:
    """Run the command; the caller handles a PodiumError."""
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def report(*arguments: str) -> list[dict[str, Any]]:
    """Run the command for JSON and return its results."""
    document = json.loads(run(*arguments, "-o", "json").stdout)
    assert (document["apiVersion"], document["kind"]) == ("cli.podium.dev/v1", "AdmissionReport")
    results: list[dict[str, Any]] = document["results"]
    return results


GOLD_CLASS = priority_class(GOLD, value=1000)
GOLD_GROUP = group({**GANG, "priorityClassName": GOLD})


def test_objects_are_there_for_those_after_them(write: Write) -> None:
    """A class, a group of it and its pod in one file are admitted in the order of creation."""
    member = pod(priorityClassName=GOLD, schedulingGroup={"podGroupName": "g"})
    results = report("-f", write(GOLD_CLASS, GOLD_GROUP, member))
    assert [result["code"] for result in results] == [201, 201, 201]
    assert results[2]["warnings"] == []
    assert results[2]["admitted"]["spec"]["priority"] == 1000


def test_order_counts(write: Write) -> None:
    """A later object does not exist yet for an earlier one."""
    first, second = report("-f", write(GOLD_GROUP, GOLD_CLASS))
    assert (first["code"], second["code"]) == (403, 201)


def test_a_result_says_all(write: Write) -> None:
    """The report has the documented keys and values."""
    (result,) = report("-f", write(GOLD_GROUP))
    assert result == {
        "object": {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "namespace": "default",
            "name": "g",
        },
        "allowed": False,
        "code": 403,
        "reason": "Forbidden",
        "message": 'podgroups.scheduling.k8s.io "g" is forbidden: no PriorityClass with name '
        f"{GOLD} was found",
        "warnings": ["no PriorityClass in the input. Add the stored objects with --existing"],
        "findings": result["findings"],
        "admitted": None,
    }
    (finding,) = result["findings"]
    assert set(finding) == {"rule", "severity", "object", "field", "message", "fix", "fingerprint"}


def test_classes_that_were_given_are_all_there_are(write: Write) -> None:
    """A class outside the list is missing, and there is no note on the input."""
    (result,) = report("-f", write(GOLD_GROUP), "--existing", write(priority_class(value=1), name="old.yaml"))
    assert (result["code"], result["warnings"]) == (403, [])


def test_an_empty_list_says_that_there_are_none(write: Write) -> None:
    """The list has the form that `podium dump` writes."""
    none = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClassList", "items": []}
    (result,) = report("-f", write(GOLD_GROUP), "--existing", write(none, name="old.yaml"))
    assert result["warnings"] == []


def test_existing_objects_take_names(write: Write) -> None:
    """A create of an existing name is refused."""
    existing = write(GOLD_CLASS, stored(GOLD_GROUP), name="old.yaml")
    (result,) = report("-f", write(GOLD_GROUP), "--existing", existing)
    assert result["reason"] == "AlreadyExists"


@pytest.mark.parametrize("option", ["--old", "--existing"])
def test_update_finds_the_stored_object(write: Write, option: str) -> None:
    """An update is selected by identity; without resourceVersion it gets the stored one, as in kubectl."""
    old = stored(group(GANG))
    new = changed(group({**GANG, "priority": 0}), "spec.schedulingPolicy.gang.minCount", 3)
    arguments = ("-f", write(new), "--operation", "update", option, write(old, name="old.yaml"))
    (result,) = report(*arguments)
    assert (result["code"], result["admitted"]["spec"]["schedulingPolicy"]) == (
        200,
        {"gang": {"minCount": 3}},
    )


def test_update_converts_the_stored_object(write: Write) -> None:
    """A v1beta1 update changes a stored v1alpha2 object after an upgrade."""
    spec = {**GANG, "disruptionMode": "PodGroup", "priority": 0}
    old = group(spec, "v1alpha2")
    new = group({**GANG, "disruptionMode": {"all": {}}, "priority": 0})
    arguments = ("--operation", "UPDATE", "--old", write(old, name="old.yaml"))
    assert report("-f", write(new), *arguments)[0]["code"] == 200
    other = changed(new, "spec.disruptionMode", {"single": {}})
    assert report("-f", write(other), *arguments)[0]["code"] == 422


def test_update_of_what_is_not_there(write: Write) -> None:
    """A PUT creates nothing."""
    (result,) = report("-f", write(group(GANG)), "--operation", "UPDATE")
    assert (result["code"], result["reason"]) == (404, "NotFound")


def test_second_update_starts_from_the_first(write: Write) -> None:
    """Objects are admitted in order."""
    old = stored(group(GANG))
    first = group({"schedulingPolicy": {"gang": {"minCount": 3}}, "priority": 0})
    second = changed(first, "spec.schedulingPolicy", {"basic": {}})
    arguments = ("--operation", "UPDATE", "--old", write(old, name="old.yaml"))
    assert [result["code"] for result in report("-f", write(first, second), *arguments)] == [200, 422]


def test_templates_are_judged_as_pods(write: Write) -> None:
    """A Job whose pods would be refused is refused."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"priorityClassName": "nope"}}},
    }
    (result,) = report("-f", write(job))
    assert (result["allowed"], result["findings"][0]["field"]) == (
        False,
        "spec.template.spec.priorityClassName",
    )


@pytest.mark.parametrize("rules, code", [("podium", 403), ("upstream", 404)])
def test_podiums_kinds(write: Write, rules: str, code: int) -> None:
    """Upstream accepts the objects; Podium's rules refuse a basic group disrupted as a whole."""
    document = group({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}, native=False)
    assert report("-f", write(document), "--rules", rules)[0]["code"] == code


def test_the_minor_decides_what_is_served(write: Write) -> None:
    """The default is the minor that serves the input, and a dump has the version of its server."""
    document = group(GANG, "v1alpha2")
    info = {"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "server": "v1.36.3"}
    assert report("-f", write(document))[0]["code"] == 201
    assert report("-f", write(document), "--kubernetes", "1.37")[0]["code"] == 404
    assert report("-f", write(document), "--existing", write(info, name="old.yaml"))[0]["code"] == 201


def test_policy_file(write: Write) -> None:
    """Levels and allowances are read from a file."""
    policy = {
        "apiVersion": "config.podium.dev/v1",
        "kind": "AdmissionPolicy",
        "native": {"basic-with-group-disruption": "deny"},
        "allow": [{"namespaces": ["*"], "groups": []}],
    }
    basic = group({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}})
    path = write(policy, name="policy.yaml")
    results = report(
        "-f", write(GOLD_CLASS, basic, {**GOLD_GROUP, "metadata": {"name": "h"}}), "--config", path
    )
    assert [result["code"] for result in results] == [201, 403, 403]


@pytest.mark.parametrize("off", ["off", False], ids=["quoted", "as YAML reads it"])
def test_a_rule_that_is_off(write: Write, off: object) -> None:
    """The level `off` works with and without quotes, although YAML reads it as a boolean."""
    levels = {"levels": {"basic-with-group-disruption": off}}
    path = write(
        {"apiVersion": "config.podium.dev/v1", "kind": "AdmissionPolicy", **levels}, name="policy.yaml"
    )
    document = group({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}, native=False)
    assert report("-f", write(document))[0]["code"] == 403
    assert report("-f", write(document), "--config", path)[0]["code"] == 201


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kind": "Policy"}, "kind: Input should be 'AdmissionPolicy'"),
        ({"levels": {"min-count": "off"}}, "levels: min-count is not one of Podium's rules"),
        ({"levels": {"class-allowed": "inherit"}}, "levels: only member-priority can have the level inherit"),
        ({"levels": {"class-allowed": "never"}}, "levels.class-allowed: Input should be 'deny'"),
        ({"allow": [{"namespaces": []}]}, "allow[0].namespaces: List should have at least 1 item"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_a_bad_policy_file_is_one_line(write: Write, change: Document, message: str) -> None:
    """The line has file, document, line, field and the fault."""
    policy = {"apiVersion": "config.podium.dev/v1", "kind": "AdmissionPolicy", **change}
    path = write(policy, name="policy.yaml")
    with pytest.raises(PodiumError) as caught:
        run("-f", write(pod()), "--config", path)
    assert str(caught.value).startswith(f"{path}, document 1")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_several_policies_are_too_many(write: Write) -> None:
    """A policy file holds one policy."""
    policy = {"apiVersion": "config.podium.dev/v1", "kind": "AdmissionPolicy"}
    with pytest.raises(PodiumError, match="found 2 documents"):
        run("-f", write(pod()), "--config", write(policy, policy, name="policy.yaml"))


def test_table(write: Write) -> None:
    """The table shows verdicts and changes, then the reasons and remedies."""
    spec = {**GANG, "priorityClassName": "gold", "resourceClaims": [{"name": "a"}], "typo": 1}
    nope = changed(pod(priorityClassName="nope"), "metadata.namespace", "team\x1b[31m")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap"}
    result = run("-f", write(priority_class("gold", value=1000), group(spec), nope, config_map))
    assert result.exit_code == 3
    assert result.stdout.splitlines() == [
        "OBJECT              VERDICT  CODE  CHANGES",
        "PriorityClass gold  allowed  201",
        "PodGroup default/g  allowed  201   spec.priority: 1000 (class gold); spec.typo dropped;",
        "                                   spec.resourceClaims dropped",
        "Pod team\\x1b[31m/p  REFUSED  403",
        "",
        "REFUSED",
        'Pod team\\x1b[31m/p: pods "p" is forbidden: no PriorityClass with name nope was found',
        "  spec.priorityClassName: Create the PriorityClass first, or name an existing one.",
        "",
        "WARNINGS",
        'PodGroup default/g: unknown field "spec.typo"',
        "",
        "3 objects: 2 allowed, 1 refused. Kubernetes 1.37, rules podium.",
        (
            "Judged: metadata, priority, group, field names, required fields, selectors and restart "
            "policies. Not"
        ),
        "judged: values of other fields, quotas, permissions and other webhooks.",
    ]
    assert result.stderr == "podium: skipped, no rules for these kinds: 1 v1 ConfigMap\n"


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_exit_code_is_the_same_in_every_format(write: Write, output: str) -> None:
    """The exit code is 0 if all is allowed, 3 if something is refused."""
    assert run("-f", write(GOLD_CLASS), "-o", output).exit_code == 0
    assert run("-f", write(GOLD_GROUP), "-o", output).exit_code == 3


def test_yaml_says_what_json_says(write: Write) -> None:
    """YAML and JSON hold the same report."""
    path = write(GOLD_CLASS, GOLD_GROUP)
    assert yaml.safe_load(run("-f", path, "-o", "yaml").stdout)["results"] == report("-f", path)


def test_output_file(write: Write, tmp_path: Path) -> None:
    """The report is written to the file, and nothing to standard output."""
    target = tmp_path / "report.json"
    result = run("-f", write(GOLD_CLASS), "-o", "json", "--output-file", str(target))
    assert result.stdout == ""
    assert json.loads(target.read_text())["results"][0]["allowed"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "Missing option '-f'"),
        (("-f", "x", "--context", "c"), "need --existing live"),
        (("-f", "x", "--old", "y"), "--old needs --operation UPDATE"),
        (("-f", "x", "--kubernetes", "1.35"), "'1.35' is not one of"),
    ],
)
def test_usage(arguments: tuple[str, ...], message: str) -> None:
    """Wrong usage has exit code 2 and a hint."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "document 1"),
        ("apiVersion: v1\nkind: Pod\nmetadata: 5\n", "metadata: "),
        ("apiVersion: batch/v1\nkind: Job\nspec: {template: 5}\n", "spec.template: "),
    ],
)
def test_input_that_cannot_be_read_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    """The error has file, document and field; there is no report."""
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(PodiumError) as caught:
        run("-f", str(path))
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_pod_that_no_reader_could_read_is_refused(write: Write) -> None:
    """Containers are decoded as on a server, although no rule reads them."""
    (result,) = report("-f", write(pod(containers="main")))
    assert (result["code"], result["reason"]) == (400, "BadRequest")


def test_kinds_without_rules_are_refused_when_strict(write: Write) -> None:
    """Ignored objects are counted separately."""
    with pytest.raises(PodiumError, match="no rules for v1 ConfigMap"):
        run("-f", write({"apiVersion": "v1", "kind": "ConfigMap"}), "--strict")


def test_wrong_type_of_a_judged_field_is_a_verdict(write: Write) -> None:
    """The verdict is the server's answer, not a failure of the tool."""
    (result,) = report("-f", write(group({**GANG, "priority": "high"})))
    assert result["code"] == 400
    assert result["findings"][0]["field"] == "spec.priority"


def test_importing_the_command_is_quick() -> None:
    """No heavy module is imported before it is needed."""
    heavy = ("pydantic", "yaml", "kubernetes_asyncio", "aiohttp", "rich", "numpy")
    code = f"import sys, podium.cli.commands.admit; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.server
def test_live(server: Server, namespace: str, write: Write) -> None:
    """Classes and stored objects are read from the cluster; nothing is written to it."""
    version = "v1alpha2" if server.release.minor == "1.36" else "v1beta1"
    made = changed(group(GANG, version), "metadata.namespace", namespace)
    path = f"/apis/{made['apiVersion']}/namespaces/{namespace}/podgroups"
    code, answer = server.request("POST", path, made)
    assert code == 201
    live = ("--existing", "live", "--kubeconfig", str(server.kubeconfig))
    (taken,) = report("-f", write(made), *live)
    assert taken["reason"] == "AlreadyExists"
    labelled = changed(changed(made, "metadata.labels", {"a": "b"}), "spec.priority", 0)
    new = write(labelled, changed(labelled, "metadata.name", "other"))
    updated, missing = report("-f", new, *live, "--operation", "UPDATE")
    assert (updated["code"], missing["code"]) == (200, 404)
    system = changed(pod(priorityClassName="system-node-critical"), "metadata.namespace", namespace)
    (judged,) = report("-f", write(system), *live)
    assert judged["admitted"]["spec"]["priority"] == 2_000_001_000
    code, after = server.request("GET", f"{path}/g")
    assert (code, after["metadata"]["resourceVersion"]) == (200, answer["metadata"]["resourceVersion"])


@pytest.mark.server
def test_live_without_the_workload_api(server_without: Server, namespace: str, write: Write) -> None:
    """Without the Workload API groups are not found, and a pod's group is dropped."""
    member = changed(pod(schedulingGroup={"podGroupName": "g"}), "metadata.namespace", namespace)
    version = "v1alpha2" if server_without.release.minor == "1.36" else "v1beta1"
    live = ("--existing", "live", "--kubeconfig", str(server_without.kubeconfig))
    refused, admitted = report("-f", write(group(GANG, version), member), *live)
    assert refused["code"] == 404
    assert "schedulingGroup" not in admitted["admitted"]["spec"]


def test_an_integer_beyond_any_width_is_named_by_its_field(tmp_path: Path) -> None:
    """The line names the field, however large the number is."""
    path = tmp_path / "pod.json"
    pod = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": 9999}}'
    path.write_text(pod.replace("9999", "9" * 5000), encoding="utf-8")
    with pytest.raises(PodiumError, match=r"line 1: spec\.priority: integer value out of range"):
        CliRunner().invoke(command, ["-f", str(path)], catch_exceptions=False)
