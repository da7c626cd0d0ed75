"""Names of other tenants are never shown: with --tenant, and to accounts that may not read them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.calling import Podium
from tests.support.why import (
    disrupted,
    event,
    file,
    node,
    party,
    plan,
    pod,
    podium,
    record,
    uid_of,
    unscheduled,
)

from podium.answers.accounts.disruptions import Victim, departures, gains
from podium.api.records import Party, PlanMode, PreemptionRecord, RecordedPlan
from podium.documents.reading import Past

__all__ = ["podium"]

FOREIGN = ("xenon", "quartz", "walrus")
UID = uid_of("walrus").replace("walrus", "7")


def foreign(**rest: Any) -> dict[str, Any]:
    """Return a preemptor of another namespace, whose UID reveals nothing."""
    return party("Pod", "xenon", "walrus", priority=9) | {"uid": UID} | rest


MESSAGE = f"podium-scheduler: preempting to accommodate a higher priority pod (UID {UID})"
WALRUS = pod("walrus", namespace="xenon", priority=9, node="n1", metadata={"uid": UID})
CASES: dict[str, list[dict[str, Any]]] = {
    "a preemptor of a record": [record(plan(foreign(), party("Pod", "a", "x")))],
    "a preemptor that was read": [pod("x", disrupted("PreemptionByScheduler", MESSAGE), node="n1"), WALRUS],
    "a preemptor that an event names": [
        event("x", "Preempted", f"Preempted by pod {UID} on node n1", "default-scheduler"),
        WALRUS,
    ],
    "others of a plan": [
        record(plan(party("Pod", "a", "x"), party("Pod", "xenon", "quartz"))),
        pod("x", node="n1"),
    ],
    "victims of a plan that would help": [
        pod("x", unscheduled("0/1 nodes are available"), priority=5, cpu="4"),
        pod("quartz", namespace="xenon", node="n1", cpu="4"),
        node(),
    ],
    "those whose leaving is awaited": [
        pod("x", unscheduled("0/1 nodes are available"), priority=5, cpu="4"),
        pod(
            "quartz",
            namespace="xenon",
            node="n1",
            cpu="4",
            metadata={"deletionTimestamp": "2026-11-21T09:00:00Z", "uid": "7"},
        ),
        node(),
    ],
}


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
@pytest.mark.parametrize("objects", CASES.values(), ids=list(CASES))
def test_others_are_uids(podium: Podium, objects: list[dict[str, Any]], output: str) -> None:
    """No name of another namespace is in the output or on stderr."""
    run = podium("pod", "a/x", "-f", file(objects), "--tenant", "a", "-o", output)
    assert run.code == 0, run.stderr
    for name in FOREIGN:
        assert name not in run.stdout
        assert name not in run.stderr


def test_the_uid_and_the_priority_are_told(podium: Podium) -> None:
    objects = CASES["a preemptor of a record"]
    answer = podium("pod", "a/x", "-f", file(objects), "--tenant", "a", "-o", "json").json
    whom = answer["departures"][0]["preemptor"]
    assert whom == {"kind": "Pod", "namespace": "", "name": "", "uid": UID, "priority": 9}


def test_without_a_tenant_names_are_told(podium: Podium) -> None:
    """An account that has the files may read them."""
    run = podium("pod", "a/x", "-f", file(CASES["a preemptor of a record"]))
    assert "for Pod xenon/walrus" in run.stdout


def test_no_other_namespace_is_offered(podium: Podium) -> None:
    """Neither the tenant's own object in another namespace is suggested, nor another tenant's."""
    run = podium("pod", "a/walrus", "-f", file([WALRUS]), "--tenant", "a")
    assert (run.code, "xenon" in run.stderr) == (1, False)


def test_a_tenant_asks_about_its_own(podium: Podium) -> None:
    run = podium("pod", "xenon/walrus", "-f", file([WALRUS]), "--tenant", "a")
    assert run.code == 2
    assert "xenon/walrus is not in namespace a, which --tenant names" in run.stderr


SPACES = st.sampled_from(["a", "b", "c"])
PARTIES = st.builds(
    lambda kind, namespace, at: Party(kind, namespace, f"{namespace}-name-{at}", f"uid-{at}"),
    st.sampled_from(["Pod", "PodGroup"]),
    SPACES,
    st.integers(0, 3),
)
PLANS = st.builds(
    lambda mode, preemptor, units, at: RecordedPlan(
        time=f"2026-11-21T08:0{at}:00Z", mode=mode, result="Evicted", preemptor=preemptor, units=tuple(units)
    ),
    st.sampled_from(PlanMode),
    PARTIES,
    st.lists(PARTIES, max_size=3),
    st.integers(0, 9),
)


@given(plans=st.lists(PLANS, max_size=6), readable=st.sets(SPACES), reader=PARTIES)
def test_no_record_tells_a_name_that_may_not_be_told(
    plans: list[RecordedPlan], readable: set[str], reader: Party
) -> None:
    """In every record, preemptors have names if these may be read, and other victims never."""
    victim = Victim(reader.kind, reader.namespace, reader.name)
    past = Past(records=(PreemptionRecord(plans=plans),))
    found = departures((), None, [victim], past, readable.__contains__, lambda _uid: None)
    for each in found:
        assert each.preemptor is not None
        assert not each.preemptor.name or each.preemptor.namespace in readable
        assert set(each.pods) <= {reader.name}
    names = {party.name for plan in plans for party in (plan.preemptor, *plan.units)}
    assert not any(name in str(gains([victim], past.records)) for name in names)
