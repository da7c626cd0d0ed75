"""What an earlier process of ours had begun when it died: whom it had told to go, and for whom.

The condition DisruptionTarget is written on every victim before the first is deleted, so a process that takes
over finds what was under way by it. It is a hint and no more. Whoever may write a pod's status can write one,
and the cluster has changed since; so it only says which plan to look at first, and that plan has to pass all
that a new one has to pass. One that does not is withdrawn, and planning starts afresh.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from podium.schedulerplugin.preemption.intents import DISRUPTION_TARGET, is_preempted
from podium.schedulerplugin.scheduling.effects import PodRef
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.plans import ref_at

_UID = re.compile(r"\(UID ([^()\s]+)\)$")


class Begun(NamedTuple):
    """The pods that were told to go for one preemptor, by its UID, and were not deleted; by row."""

    preemptor: str
    rows: tuple[int, ...]

    def pods(self, engine: LiveEngine) -> tuple[PodRef, ...]:
        """Name them."""
        return tuple(ref_at(engine, row) for row in self.rows)


def begun(engine: LiveEngine, scheduler: str) -> Iterator[Begun]:
    """Give what a scheduler of that name had begun, by preemptors; pods that are being deleted are done with.

    Only conditions of that scheduler's own form count, which names the preemptor at its end.
    """
    found: dict[str, list[int]] = {}
    snapshot = engine.snapshot
    for _, row in sorted(snapshot.pod_row.items()):
        pod = snapshot.pods[row]
        if snapshot.terminating.item(row) or snapshot.node.item(row) < 0 or not is_preempted(pod):
            continue
        condition = pod.status.condition(DISRUPTION_TARGET) if pod is not None and pod.status else None
        message = (condition.message if condition is not None else None) or ""
        uid = _UID.search(message)
        if uid is not None and message.startswith(f"{scheduler}: "):
            found.setdefault(uid[1], []).append(row)
    for preemptor, rows in sorted(found.items()):
        yield Begun(preemptor, tuple(rows))
