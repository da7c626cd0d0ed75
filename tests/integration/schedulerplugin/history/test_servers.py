"""The custom resource and the history on real API servers: accepted, bounded, and written by the leader."""

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.support.history import DEFINITIONS, NAME, party, plan
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import RELEASES

from podium.api import times
from podium.api.records import (
    MAX_PLANS,
    MAX_RESOURCES,
    MAX_TEXT,
    MAX_UNITS,
    RECORD_VERSION,
    Owner,
    Party,
    PlanMode,
    PreemptionRecord,
    RecordedPlan,
)
from podium.cli.main import command
from podium.crds import definitions
from podium.kube.connection import Connection, connect
from podium.schedulerplugin.history.writer import History

pytestmark = pytest.mark.server

# Every field, and every limit.
LARGEST = plan(
    0,
    PlanMode.OBSERVED,
    message="x" * MAX_TEXT,
    domain="cluster",
    units=tuple(
        Party("Pod", "n" * 63, f"{at:0>253}", "u" * 36, -(2**31), 5000, Owner("Job", "j" * 253, "u" * 36))
        for at in range(MAX_UNITS)
    ),
    unitCount=5000,
    podCount=5000,
    accelerators={f"example.com/{at:0>63}": 8 for at in range(MAX_RESOURCES)},
    violations=3,
    acceleratorSeconds=2**53,
    milliseconds=1,
)


@pytest.fixture(scope="module", params=in_turn(__name__))
def own(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server with the custom resource and nothing else of Podium."""
    with exclusive(RELEASES[request.param], workload_api=False) as server:
        code, answer = server.request("POST", DEFINITIONS, definitions.records())
        assert code == 201, answer
        path = f"{DEFINITIONS}/{answer['metadata']['name']}"
        until(lambda: "Established" in conditions(server, path), "the kind is established")
        assert conditions(server, path) == {"Established", "NamesAccepted"}
        served = f"/apis/{RECORD_VERSION}/preemptionrecords"
        until(lambda: server.request("GET", served)[0] == 200, "records are served")
        yield server


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait, without a requirement on time, because the machine may be busy."""
    monkeypatch.setattr("podium.schedulerplugin.history.writer._LAST_SECONDS", 60.0)
    monkeypatch.setattr("podium.schedulerplugin.history.writer._RESTORE_SECONDS", 60.0)


def conditions(server: Server, path: str) -> set[str]:
    """Return the conditions that are true; a non-structural schema would be an unexpected one."""
    code, read = server.request("GET", path)
    assert code == 200, read
    return {each["type"] for each in read["status"].get("conditions") or () if each["status"] == "True"}


def path_of(namespace: str) -> str:
    return f"/apis/{RECORD_VERSION}/namespaces/{namespace}/preemptionrecords"


def create(server: Server, namespace: str, *plans: Any) -> tuple[int, Any]:
    body = {
        "apiVersion": RECORD_VERSION,
        "kind": "PreemptionRecord",
        "metadata": {"generateName": "record-"},
        "sequence": 1,
        "plans": msgspec.to_builtins(plans),
    }
    return server.request("POST", path_of(namespace) + "?fieldValidation=Strict", body)


def test_every_field_at_its_limit_is_stored(own: Server) -> None:
    """Nothing is pruned, and the largest possible plan fits."""
    code, stored = create(own, own.new_namespace(), LARGEST)
    assert code == 201, stored
    assert msgspec.convert(stored["plans"], list[RecordedPlan]) == [LARGEST]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message", "x" * (MAX_TEXT + 1)),
        ("mode", "Maybe"),
        ("podCount", -1),
        ("time", "yesterday"),
        ("units", [msgspec.to_builtins(party("a"))] * (MAX_UNITS + 1)),
    ],
)
def test_a_request_over_a_limit_is_refused(own: Server, field: str, value: Any) -> None:
    code, refused = create(own, "default", {**msgspec.to_builtins(plan(0)), field: value})
    assert code == 422
    assert f"plans[0].{field}" in refused["message"]


def test_more_plans_than_one_object_holds_are_refused(own: Server) -> None:
    code, refused = create(own, "default", *[plan(0)] * (MAX_PLANS + 1))
    assert code == 422
    assert "plans" in refused["message"]


def test_records_are_listed_with_the_rest_of_podium(own: Server) -> None:
    """The category lists them, with the last plan."""
    namespace = own.new_namespace()
    assert create(own, namespace, plan(0))[0] == 201
    header, line = own.kubectl("get", "podium", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "PREEMPTOR", "VICTIMS", "RESULT", "LAST", "AGE"]
    assert line.split()[1:3] == ["high-0", "Evicted"]


def stored(server: Server, namespace: str) -> list[RecordedPlan]:
    """Return the plans that are stored, by object."""
    code, read = server.request("GET", path_of(namespace))
    assert code == 200, read
    records = msgspec.convert(read["items"], list[PreemptionRecord])
    return [each for record in sorted(records, key=lambda one: one.sequence) for each in record.plans]


def history(connection: Connection, namespace: str, logged: list[str]) -> History:
    return History(
        connection,
        namespace,
        NAME,
        lambda: inf,
        sleep=asyncio.sleep,
        random=random.random,
        log_event=lambda text, fields: logged.append(f"{text}: {fields['error']}"),
    )


async def written(server: Server, namespace: str, *plans: RecordedPlan) -> list[str]:
    """Lead until these are written, and return the log."""
    logged: list[str] = []
    async with connect(str(server.kubeconfig), None) as connection:
        kept = history(connection, namespace, logged)
        await kept.restore()
        task = asyncio.create_task(kept.run())
        await asyncio.sleep(0)
        for each in plans:
            kept.append(each)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return logged


async def test_leaders_one_after_the_other(own: Server) -> None:
    """Each leader continues where the last one ended, in a new object if one is full."""
    namespace = own.new_namespace()
    assert await written(own, namespace, *(plan(at) for at in range(MAX_PLANS - 1))) == []
    assert await written(own, namespace, plan(1000), plan(1001)) == []
    assert stored(own, namespace) == [*(plan(at) for at in range(MAX_PLANS - 1)), plan(1000), plan(1001)]
    code, first = own.request("GET", f"{path_of(namespace)}/{NAME}-00")
    assert (code, len(first["plans"])) == (200, MAX_PLANS)


async def test_two_leaders_at_once_lose_nothing(own: Server) -> None:
    """A former leader writes after its successor: both plans are stored."""
    namespace = own.new_namespace()
    logged: list[str] = []
    async with connect(str(own.kubeconfig), None) as connection:
        earlier = history(connection, namespace, logged)
        await earlier.restore()
        await written(own, namespace, plan(1))
        earlier.append(plan(0))
        task = asyncio.create_task(earlier.run())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (stored(own, namespace), logged) == ([plan(0), plan(1)], [])


async def test_a_record_object_changed_by_a_user_is_written(own: Server) -> None:
    """An object that is labelled or deleted during writes loses no later plan."""
    namespace = own.new_namespace()
    logged: list[str] = []
    async with connect(str(own.kubeconfig), None) as connection:
        kept = history(connection, namespace, logged)
        await kept.restore()
        task = asyncio.create_task(kept.run())
        kept.append(plan(0))
        await asyncio.to_thread(until, lambda: len(stored(own, namespace)) == 1, "one is written")
        own.kubectl("label", "-n", namespace, f"preemptionrecords/{NAME}-00", "of=mine")
        kept.append(plan(1))
        await asyncio.to_thread(until, lambda: len(stored(own, namespace)) == 2, "both are written")
        own.kubectl("delete", "-n", namespace, f"preemptionrecords/{NAME}-00")
        kept.append(plan(2))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (stored(own, namespace), logged) == ([plan(0), plan(1), plan(2)], [])


async def test_a_namespace_that_is_not_there(own: Server) -> None:
    """The log names the missing namespace."""
    (logged,) = await written(own, "nowhere", plan(0))
    assert "nowhere" in logged


def report(server: Server, *args: str) -> Result:
    return CliRunner().invoke(command, ["report", "--kubeconfig", str(server.kubeconfig), *args])


def test_the_report_of_a_live_cluster(own: Server) -> None:
    """The report covers all namespaces, or one."""
    one, other = own.new_namespace(), own.new_namespace()
    now = msgspec.structs.replace(plan(0), time=times.written(datetime.now(UTC)))
    old = msgspec.structs.replace(now, time="2020-01-01T00:00:00Z")
    assert create(own, one, now, old)[0] == create(own, other, now)[0] == 201
    assert json.loads(report(own, "-o", "json", "-n", one).stdout)["plans"] == 1
    assert json.loads(report(own, "-o", "json").stdout)["plans"] == 2
    assert json.loads(report(own, "-o", "json", "-n", one, "--since", "99999d").stdout)["plans"] == 2
