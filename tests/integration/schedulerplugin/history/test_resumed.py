"""A preemption that one process starts and the next one ends is one plan in the records."""

import time
from typing import Any

import pytest
from tests.support.proxy import Hold
from tests.support.scheduling.world import World
from tests.support.waiting import until

from podium.api.records import RECORD_VERSION

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

VICTIMS = 3


def plans(recorded: World, namespace: str) -> list[dict[str, Any]]:
    code, found = recorded.server.request(
        "GET", f"/apis/{RECORD_VERSION}/namespaces/{namespace}/preemptionrecords"
    )
    assert code == 200, found
    return [plan for record in found["items"] for plan in record["plans"]]


@pytest.mark.parametrize("killed", [False, True], ids=["told to stop", "killed"])
def test_one_plan(recorded: World, killed: bool) -> None:
    """The takeover is between marks and deletes.

    The rate would not allow the plan twice.
    """
    name, namespace = f"podium-{'dead' if killed else 'told'}", recorded.server.new_namespace("records-")
    rate = {} if killed else {"evictionsPerMinute": VICTIMS}
    options: dict[str, Any] = {"schedulerName": name, "recordsNamespace": namespace, **rate}
    with (
        recorded.scheduling(lease=(namespace, "heir"), **options) as scheduler,
        recorded.sandbox(name) as sandbox,
    ):
        sandbox.nodes(1)
        for index in range(VICTIMS):
            sandbox.pod(f"low-{index}", "1300m", 1, node="n0")
        with recorded.proxy.fault(sandbox.deletes, Hold(lost=True)) as held:
            sandbox.pod("first", 4, 5)
            sandbox.until(lambda: held.hits > 0, "the deletes are under way")
            if killed:
                scheduler.kill()
            else:
                assert scheduler.process.stop() == 0
                assert [(each["result"], each.get("podCount", 0)) for each in plans(recorded, namespace)] == [
                    ("Failed", 0)
                ]
        # Times are whole seconds, and a plan of the same second does not count as a continuation.
        stopped = int(time.time())
        until(lambda: int(time.time()) > stopped, "the next second")
        scheduler.again()
        sandbox.until_bound(["first"])
        until(
            lambda: [each["result"] for each in plans(recorded, namespace)] == ["Evicted"],
            "it is written down",
        )
        (plan,) = plans(recorded, namespace)
        assert (plan["unitCount"], plan["podCount"]) == (VICTIMS, VICTIMS)
        assert len(sandbox.evicted()) == VICTIMS
