"""Checks around the rules give a real server's answer: strict decoding, absent namespaces, taken names."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.servers import Server

from podium.cli.commands.admit import command

PATHS = {"Pod": "/api/v1/namespaces/{}/pods", "Job": "/apis/batch/v1/namespaces/{}/jobs"}
CONTAINERS: list[dict[str, Any]] = [{"name": "a", "image": "b"}]


def _pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": CONTAINERS, **spec}}


def _job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never", **spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}


def _answers(server: Server, document: dict[str, Any], path: Path) -> list[tuple[int, str, str]]:
    """Return code, reason and message of the server's strict answer, and of Podium's."""
    query = "?fieldValidation=Strict&dryRun=All"
    where = PATHS[document["kind"]].format(document["metadata"]["namespace"])
    code, status = server.request("POST", f"{where}{query}", document)
    path.write_text(json.dumps(document), "utf-8")
    live = ("--existing", "live", "--kubeconfig", str(server.kubeconfig))
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
    assert server.request("POST", PATHS["Job"].format(namespace), document)[0] == 201
    theirs, ours = _answers(server, document, tmp_path / "a.json")
    assert ours == theirs
