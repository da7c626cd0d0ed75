"""The paths of records, plans to record, and a store of objects with an API server's preconditions."""

import itertools
from typing import Any

import msgspec

from podium.api.meta import ObjectMeta
from podium.api.records import (
    MAX_PLANS,
    RECORD_VERSION,
    Party,
    PlanMode,
    PreemptionRecord,
    RecordedPlan,
    Result,
)
from podium.schedulerplugin.history.recordring import MAX_BYTES, Draft, Ring

NAME = "podium-scheduler"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RECORDS = f"/apis/{RECORD_VERSION}/preemptionrecords"


def plan(at: int, mode: str = PlanMode.ENFORCED, **fields: Any) -> RecordedPlan:
    """Make a plan of the second `at` of a day, with a preemptor of its own."""
    hours, rest = divmod(at, 3600)
    time = f"2026-01-01T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}Z"
    given: dict[str, Any] = {"result": Result.EVICTED, "preemptor": party(f"high-{at}"), "unitCount": 1}
    return RecordedPlan(time=time, mode=mode, **{**given, "units": (party(f"low-{at}"),), **fields})


def party(name: str, **fields: Any) -> Party:
    """Return a reference to a pod."""
    return Party("Pod", "team-a", name, f"uid-{name}", **fields)


class Store:
    """The stored objects by name; `write` stores a draft as a leader does."""

    def __init__(self) -> None:
        self.records: dict[str, PreemptionRecord] = {}
        self._versions = itertools.count(1)

    def put(self, draft: Draft) -> str:
        """Store the draft; return the resourceVersion."""
        version = str(next(self._versions))
        sent = msgspec.json.decode(msgspec.json.encode(draft.document()), type=PreemptionRecord)
        assert len(sent.plans) <= MAX_PLANS
        sizes = sum(len(msgspec.json.encode(each)) for each in sent.plans)
        assert sizes <= MAX_BYTES
        metadata = ObjectMeta(name=draft.name, resourceVersion=version)
        self.records[draft.name] = msgspec.structs.replace(sent, metadata=metadata)
        return version

    def write(self, ring: Ring) -> bool:
        """Write one draft of a ring, as a client would; return whether there was one."""
        draft = ring.draft()
        if draft is None:
            return False
        stored = self.records.get(draft.name)
        if (stored.metadata.resourceVersion if stored is not None else "") != draft.version:
            ring.met(draft, stored)
        else:
            ring.saved(draft, self.put(draft))
        return True

    def drain(self, ring: Ring) -> None:
        """Write all drafts."""
        while self.write(ring):
            pass

    def plans(self) -> list[RecordedPlan]:
        """Return all plans that are stored, in the order of the objects."""
        ordered = sorted(self.records.values(), key=lambda each: each.sequence)
        return [each for record in ordered for each in record.plans]


def new_leader(store: Store) -> Ring:
    """Return the ring of the next leader."""
    ring = Ring(NAME)
    ring.restore(list(store.records.values()))
    return ring
