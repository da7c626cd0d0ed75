"""Checks outside the rules answer like a real server: fields, strict decoding, namespaces, existing names."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.admission.gated import gated_server
from tests.support.filters import podschema
from tests.support.rules import incomplete
from tests.support.rules.invalid import CASES, CONTAINERS, Invalid
from tests.support.rules.jobs import JOBS
from tests.support.servers import Server, of_run
from tools.devcluster.controlplane.releases import BUILDABLE

from podium.api.minors import minor_of
from podium.api.podkinds.kind import JOB_GATE
from podium.cli.commands.admit import command
from podium.rules.clientchecks import required_errors


def _pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": CONTAINERS, **spec}}


def _job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never", **spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}


def _path(document: dict[str, Any]) -> str:
    version, namespace = document["apiVersion"], document["metadata"]["namespace"]
    api = f"apis/{version}" if "/" in version else f"api/{version}"
    return f"/{api}/namespaces/{namespace}/{document['kind'].lower()}s"


def _answers(
    server: Server, document: dict[str, Any], path: Path, *options: str
) -> list[tuple[int, str, str]]:
    """Return code, reason and message of the server's strict answer, and of Podium's."""
    query = "?fieldValidation=Strict&dryRun=All"
    where = _path(document)
    code, status = server.request("POST", f"{where}{query}", document)
    path.write_text(json.dumps(document), "utf-8")
    live = ("--existing", "live", "--kubeconfig", str(server.kubeconfig), *options)
    done = CliRunner().invoke(command, ["-f", str(path), "--strict", *live, "-o", "json"])
    (result,) = json.loads(done.stdout)["results"]
    return [
        (code, status.get("reason", ""), status.get("message", "")),
        (result["code"], result["reason"], result["message"]),
    ]


@pytest.mark.server
@pytest.mark.parametrize(
    "document",
    [
        _pod(),
        _job(),
        _pod(priorityClasName="high"),
        _pod(zebra=1, apple=2),
        _pod(containers=[{"name": "a", "image": "b", "resources": {"request": {}}}]),
        _pod(workloadRef={"name": "w", "podGroup": "g"}),
        _job(priorityClassname="high"),
        _job(containers=[{"name": "a", "imag": "b"}, {"name": "c", "imag": "d"}]),
    ],
    ids=lambda document: json.dumps(document["spec"])[:60],
)
def test_strict_field_validation_is_the_servers(
    server: Server, namespace: str, document: dict[str, Any], tmp_path: Path
) -> None:
    document = {**document, "metadata": {"name": "x", "namespace": namespace}}
    theirs, ours = _answers(server, document, tmp_path / "a.json")
    assert ours == theirs


@pytest.mark.server
@pytest.mark.parametrize("document", [_pod(), _job()], ids=["Pod", "Job"])
def test_an_absent_namespace_is_the_servers(server: Server, document: dict[str, Any], tmp_path: Path) -> None:
    document = {**document, "metadata": {"name": "x", "namespace": "absent"}}
    theirs, ours = _answers(server, document, tmp_path / "a.json")
    assert ours == theirs


@pytest.mark.server
def test_a_taken_name_is_the_servers(server: Server, namespace: str, tmp_path: Path) -> None:
    document = {**_job(), "metadata": {"name": "x", "namespace": namespace}}
    assert server.request("POST", _path(document), document)[0] == 201
    theirs, ours = _answers(server, document, tmp_path / "a.json")
    assert ours == theirs


@pytest.mark.server
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {json.dumps(case.spec)[:60]}")
def test_a_missing_field_a_selector_and_a_restart_policy_are_the_servers(
    server: Server, namespace: str, case: Invalid, tmp_path: Path
) -> None:
    theirs, ours = _answers(server, case.document(namespace), tmp_path / "a.json")
    assert ours == theirs == ((422, "Invalid", case.message()) if case.errors else (201, "", ""))


@pytest.mark.server
@pytest.mark.parametrize("gates", [(), (JOB_GATE,)], ids=["without the gate", "with the gate"])
@pytest.mark.parametrize("minor", of_run())
def test_new_jobs_with_groups_are_the_servers(minor: str, gates: tuple[str, ...], tmp_path: Path) -> None:
    """spec.scheduling, groups in templates, and annotations that name a template, in Jobs and CronJobs."""
    options = [f"--feature-gates={gate}=true" for gate in gates]
    wrong = []
    with gated_server(BUILDABLE[minor], gates) as server:
        namespace = server.new_namespace()
        for name, case in JOBS.items():
            for kind in ("Job", "CronJob"):
                document = case.document(namespace, kind)
                theirs, ours = _answers(server, document, tmp_path / "a.json", *options)
                if theirs != ours:
                    wrong.append((name, kind, theirs, ours))
    assert wrong == []


@pytest.mark.server
def test_the_recorded_answers_to_missing_fields_are_those_of_the_servers(server: Server) -> None:
    """If this fails, run `make record`."""
    assert incomplete.answers(server) == incomplete.read()[server.release.minor]


@pytest.mark.server
def test_a_field_that_the_server_requires_is_missing_and_one_that_it_does_not_is_not(server: Server) -> None:
    minor, definitions = server.release.minor, podschema.definitions_of(server)
    recorded = incomplete.read()[minor]
    wrong = []
    for api, roots in podschema.ROOTS.items():
        for root in roots:
            kind = root.rpartition(".")[2].removesuffix("Spec")
            head = {"apiVersion": api.partition("/")[2], "kind": kind, "metadata": {"name": "x"}}
            for case in incomplete.incomplete(definitions, root):
                wanted = recorded.get(case.definition, {}).get(case.field)
                errors = required_errors({**head, "spec": case.spec}, minor_of(minor) or 0)
                found = [error.body for error in errors if error.field == case.path]
                if found != ([wanted] if wanted else []):
                    wrong.append((case.path, wanted, found))
    assert wrong == []
