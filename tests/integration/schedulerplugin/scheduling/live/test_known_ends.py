"""A gang waits for pods that end by themselves instead of evicting them: on real servers."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.scheduling.world import Sandbox

from podium.api.saving import LONGEST_WAIT_FOR_ROOM, RUN_TIME
from podium.api.times import written

pytestmark = pytest.mark.server

WAITS = {LONGEST_WAIT_FOR_ROOM: "10m"}
NAMES = ["low-0", "low-1"]


def declared(_sandbox: Sandbox) -> dict[str, Any]:
    """Return the metadata of pods that declare their run time."""
    return {"annotations": {RUN_TIME: "5m"}}


def of_job(sandbox: Sandbox) -> dict[str, Any]:
    """Start a Job with a deadline, as the Job controller does; return the metadata of its pods."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    spec = {"activeDeadlineSeconds": 300, "template": template}
    path = f"/apis/batch/v1/namespaces/{sandbox.name}/jobs"
    job = sandbox.ask("POST", path, {"metadata": {"name": "eval"}, "spec": spec}, code=201)
    sandbox.ask("PATCH", f"{path}/eval/status", {"status": {"startTime": written(datetime.now(UTC))}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "eval", "uid": job["metadata"]["uid"]}
    return {"ownerReferences": [{**owner, "controller": True}]}


def begin(sandbox: Sandbox, metadata: dict[str, Any], annotations: dict[str, str]) -> list[str]:
    """Fill two nodes with pods that have started, and create a gang for both; return its pods."""
    sandbox.nodes(2)
    for index, name in enumerate(NAMES):
        sandbox.pod(name, 4, 1, node=f"n{index}", metadata=metadata)
    sandbox.until(
        lambda: all("startTime" in sandbox.pods()[name]["status"] for name in NAMES), "the pods have started"
    )
    sandbox.group("gang", 5, 2, annotations=annotations)
    return sandbox.members("gang", 2, 4, 5)


@pytest.mark.parametrize("ending", [declared, of_job], ids=["run time", "deadline of the Job"])
def test_a_gang_waits_for_known_ends(sandbox: Sandbox, ending: Callable[[Sandbox], dict[str, Any]]) -> None:
    """No pod is marked or deleted, and the reserved room is bound once the last pod has ended."""
    names = begin(sandbox, ending(sandbox), WAITS)
    for name in names:
        sandbox.until_message(name, "by the end of 2 pods, before anything is evicted")
    for name in NAMES:
        sandbox.patch(name, {"status": {"phase": "Succeeded"}}, "/status")
    assert sorted(sandbox.until_bound(names).values()) == ["n0", "n1"]
    assert sandbox.touched() == []


def test_a_gang_that_does_not_wait_evicts(sandbox: Sandbox) -> None:
    names = begin(sandbox, declared(sandbox), {})
    sandbox.until_bound(names)
    assert sorted(sandbox.evicted()) == NAMES
