"""Small clusters for the pages as documents, and what the pages need around them."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.support.why import (
    disrupted,
    group,
    node,
    party,
    plan,
    pod,
    priority_class,
    record,
    unscheduled,
)

from podium.cli.ui.page_data import PageData
from podium.cli.ui.page_parts import PageContext
from podium.documents.reading import read

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
AROUND = PageContext("cluster.json", "2026-11-21T09:00:00Z", 3, "0.1.0", live=False)
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."

Objects = list[dict[str, Any]]
BY_SCHEDULER = "PreemptionByScheduler"


def mixed(name: Callable[[str], str] = str) -> Objects:
    """Return one object of each kind; `name` maps every name, message and class."""
    classes = [priority_class(name("batch"), 100), priority_class(name("high"), 1000)]
    return [
        node("n1", cpu="4"),
        *classes,
        # Waits for the room of four pods of lower priority.
        group(name("train"), least=2, priority=1000, spec={"priorityClassName": name("high")}),
        *(
            pod(
                name(f"train-{each}"),
                unscheduled(name(NO_ROOM)),
                group=name("train"),
                priority=1000,
                cpu="1",
                priorityClassName=name("high"),
            )
            for each in range(2)
        ),
        # Runs, and one of its pods has another priority.
        group(name("sweep"), least=1, priority=100),
        pod(name("sweep-0"), group=name("sweep"), priority=100, node="n1"),
        pod(name("sweep-1"), group=name("sweep"), priority=0, node="n1"),
        # Was preempted, and waits again.
        group(name("again"), disrupted(BY_SCHEDULER, name("for a higher one")), least=1, priority=100),
        pod(name("again-0"), group=name("again"), priority=100),
        # Is terminating.
        pod(
            name("victim"),
            disrupted(BY_SCHEDULER, name("podium-scheduler: preempting")),
            priority=0,
            node="n1",
        ),
        pod(name("lone"), unscheduled(name(NO_ROOM)), priority=5, cpu="9"),
        pod(name("done"), priority=0, node="n1", status={"phase": "Succeeded"}),
        pod(name("orphan"), group=name("nobody"), priority=7),
        record(
            plan(
                party("PodGroup", "a", name("train"), priority=1000, pods=2),
                party("Pod", "a", name("victim")),
                message=name("because"),
                time="2026-11-21T08:30:00Z",
            ),
            plan(party("Pod", "b", name("their")), party("PodGroup", "a", name("sweep")), mode="Observed"),
        ),
    ]


def page_data(objects: Sequence[dict[str, Any]], folder: Path) -> PageData:
    """Read a cluster from a file, as the command does."""
    path = folder / "cluster.json"
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
    return PageData(read(str(path))._replace(at=NOW, source="cluster.json"))
