"""Victims are asked to save their work, and evicted once they have: on real servers, played by clients."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.scheduling.ledger import is_marked
from tests.support.scheduling.world import Sandbox, World

from podium.api.meta import instant
from podium.api.saving import CHECKPOINT, SAVE_REQUESTED, SAVES_ON_NOTICE
from podium.api.times import written

pytestmark = pytest.mark.server

ON_NOTICE = {"annotations": {SAVES_ON_NOTICE: "1m"}}
SOON = {"annotations": {SAVES_ON_NOTICE: "3s"}}


def requested(pod: dict[str, Any]) -> str:
    """Return when a pod was asked to save its work, empty if it is not."""
    return str(pod["metadata"].get("annotations", {}).get(SAVE_REQUESTED, ""))


def save(sandbox: Sandbox, name: str) -> None:
    """Report a checkpoint, as the workload or its sidecar does."""
    sandbox.patch(name, {"metadata": {"annotations": {CHECKPOINT: written(datetime.now(UTC))}}})


def until_asked(sandbox: Sandbox, *names: str) -> None:
    sandbox.until(lambda: all(requested(sandbox.pods()[name]) for name in names), f"{names} are asked")


def test_a_gang_is_evicted_once_all_of_it_has_saved(sandbox: Sandbox) -> None:
    """It is asked as a whole. Nothing is deleted before the last member has answered."""
    sandbox.nodes(1)
    low = sandbox.running_gang("low", ["n0", "n0"], 2, 1, whole=True)
    for name in low:
        sandbox.patch(name, {"metadata": ON_NOTICE})
    sandbox.pod("high", 4, 5)
    until_asked(sandbox, *low)
    save(sandbox, low[0])
    sandbox.pod("other", 4, 3)
    sandbox.until_message("other", "nodes are available")
    assert sandbox.evicted() == []
    save(sandbox, low[1])
    sandbox.until_bound(["high"])
    assert sorted(sandbox.evicted()) == low


def test_a_workload_that_does_not_answer_is_evicted_at_the_end_of_its_time(sandbox: Sandbox) -> None:
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0", metadata=SOON)
    sandbox.pod("high", 4, 5)
    sandbox.until_bound(["high"])
    (mark,) = sandbox.calls("PATCH", "/status", SAVE_REQUESTED)
    asked = instant(json.loads(mark.body)["metadata"]["annotations"][SAVE_REQUESTED])
    assert datetime.now(UTC) - asked >= timedelta(seconds=3)
    assert sandbox.evicted() == ["low"]


def test_a_workload_goes_on_when_its_room_is_not_needed_any_more(sandbox: Sandbox) -> None:
    """The preemptor finds room elsewhere or leaves: the request and the mark are taken back."""
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0", metadata=ON_NOTICE)
    sandbox.pod("high", 4, 5)
    until_asked(sandbox, "low")
    sandbox.end("high")
    sandbox.until(lambda: not requested(sandbox.pods()["low"]), "low may go on")
    assert not is_marked(sandbox.pods()["low"])
    assert sandbox.evicted() == []


def test_the_next_leader_waits_for_what_is_left(own: World) -> None:
    """The request stays as it is, and nobody else is asked or evicted."""
    with own.sandbox() as sandbox, own.scheduling() as scheduler:
        sandbox.nodes(2)
        sandbox.pod("low", 4, 1, node="n0", metadata=ON_NOTICE)
        sandbox.pod("mid", 4, 3, node="n1")
        sandbox.pod("high", 4, 5)
        until_asked(sandbox, "low")
        before = requested(sandbox.pods()["low"])
        scheduler.kill()
        scheduler.again()
        sandbox.wait_for_decisions()
        assert (requested(sandbox.pods()["low"]), sandbox.evicted()) == (before, [])
        save(sandbox, "low")
        sandbox.until_bound(["high"])
        assert sandbox.evicted() == ["low"]
