"""Every question to files with records knows which workloads do not save their work as they declare."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.why import file, node, party, plan, pod, record, uid_of

from podium.answers import ClusterReading, audit, read, whatif, why
from podium.api.saving import SAVES_ON_NOTICE
from podium.api.schedulable import SCHEDULING_READS
from podium.cli.inputs import InputFiles, load
from podium.cli.kubeoptions import KubeOptions

GPU = "nvidia.com/gpu"
NAMED = "it declares to save its work, and failed to 2 times in a row"


def cluster(*answers: str) -> list[dict[str, Any]]:
    """Make a node with a pod of a Job that was asked to save its work, and a pod that waits for its room."""
    job = {"kind": "Job", "name": "train", "uid": uid_of("train")}
    victims = [party("Pod", "a", "x", saving=answer, owner=job) for answer in answers]
    owner = {"apiVersion": "batch/v1", **job, "controller": True}
    metadata = {"ownerReferences": [owner], "annotations": {SAVES_ON_NOTICE: "30s"}}
    takes = [{"name": "main", "resources": {"requests": {GPU: "8"}}}]
    status = {"startTime": "2026-11-01T00:00:00Z", "phase": "Running"}
    running = pod("x", node="n1", metadata=metadata, status=status, containers=takes)
    room = node("n1")
    room["status"]["allocatable"][GPU] = "8"
    records = record(*(plan(party("Pod", "a", "high"), victim) for victim in victims))
    return [room, running, pod("high", priority=9, containers=takes), records]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "answers", [("Failed", "Failed"), ("Failed", "Saved")], ids=["not trusted", "trusted"]
)
@pytest.mark.usefixtures("folder")
def test_files_with_records_have_the_workloads_that_are_not_trusted(answers: tuple[str, ...]) -> None:
    """A reading for `why`, and one for `whatif` and `audit`, which do not read records for themselves."""
    name, untrusted = file(cluster(*answers)), answers[1] == "Failed"
    loaded = load(InputFiles([name]), KubeOptions(), reads=SCHEDULING_READS)
    readings = read(name), read(name)._replace(near=loaded, whole=loaded)
    for reading in readings:
        assert reading.near.state.untrusted == (frozenset({("Job", "a", "train")}) if untrusted else set())
        assert _planned(reading) == (untrusted, not untrusted)
        findings = audit(reading, select=["saving-not-trusted"]).findings
        assert [str(finding.object) for finding in findings] == (["Job a/train"] if untrusted else [])
        about = why(reading, ("a", "x"), "pod").account.object.about
        assert any(text.startswith("declares to save its work") for text in about) is untrusted


def _planned(reading: ClusterReading) -> tuple[bool, bool]:
    """Return whether the plan names the workload, and whether it counts on its declaration."""
    made = whatif(reading, ("a", "high"), "pod", now="2026-11-01T01:00:00Z").plan
    assert made.harm is not None
    assert made.harm.acceleratorSeconds + made.harm.acceleratorSecondsSaved == 8 * 3600
    return NAMED in made.victims[0].reason, made.harm.acceleratorSecondsSaved > 0


@pytest.mark.usefixtures("folder")
def test_a_record_that_does_not_decode_is_no_error() -> None:
    """A plan and an audit do without it."""
    objects = cluster("Failed", "Failed")
    objects[-1]["plans"] = "none"
    name = file(objects)
    assert load(InputFiles([name]), KubeOptions()).state.untrusted == frozenset()
    assert json.loads(Path(name).read_text("utf-8"))["items"][-1]["plans"] == "none"
