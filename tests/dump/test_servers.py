"""Dumps of real servers, taken by a user who may only get and list: audited to the report of the server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.dump.compare import anonymous
from tests.fixtures.servers import Server, exclusive
from tests.live.cluster import (
    READ_ONLY,
    create,
    create_class,
    create_group,
    create_pod,
    kubeconfig_of,
)

from podium.cli.audit import command as audit
from podium.cli.dump import command as dump
from podium.controlplane.releases import RELEASES

pytestmark = pytest.mark.server


@pytest.fixture(scope="module", params=RELEASES)
def divergent(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of its own, for the report speaks of all that is on it, with a divergent group."""
    with exclusive(RELEASES[request.param]) as server:
        create(server, "/api/v1/namespaces", {"metadata": {"name": "team"}})
        gold, bronze = create_class(server, 1000), create_class(server, 10)
        create_group(server, "team", "train", gold)
        for number, class_name in enumerate((gold, gold, bronze)):
            job = {"batch.kubernetes.io/job-name": "train", "secret-label": "hunter2"}
            create_pod(
                server, "team", f"train-{number}", class_name, labels=job, annotations={"note": "hunter2"}
            )
        budget = {
            "metadata": {"name": "b"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        create(server, "/apis/policy/v1/namespaces/team/poddisruptionbudgets", budget)
        yield server


def _json(kubeconfig: Path) -> Any:
    done = CliRunner().invoke(audit, ["--kubeconfig", str(kubeconfig), "-A", "-o", "json"])
    assert done.exit_code == 3, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("flags", [[], ["--pseudonyms"]], ids=["plain", "pseudonyms"])
def test_the_audit_of_the_dump_is_the_audit_of_the_server(
    divergent: Server, tmp_path: Path, flags: list[str]
) -> None:
    """And the file has nothing in it that no rule reads."""
    reader = kubeconfig_of(divergent, "team", READ_ONLY, tmp_path)
    path = tmp_path / "dump.json"
    done = CliRunner().invoke(dump, ["--kubeconfig", str(reader), "-A", "-o", str(path), *flags])
    assert done.exit_code == 0, done.stderr
    offline = CliRunner().invoke(audit, ["-f", str(path), "-o", "json", "--strict"])
    assert offline.exit_code == 3
    live, report = _json(reader), json.loads(offline.stdout)
    assert "pod-priority-differs" in {found["rule"] for found in live["findings"]}
    if flags:
        assert anonymous(report) == anonymous(live)
    else:
        assert report == live
    text = path.read_text()
    for secret in ("hunter2", "secret-project", "secret-label"):
        assert secret not in text
