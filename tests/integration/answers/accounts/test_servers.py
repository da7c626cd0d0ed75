"""`podium why` on real servers: each possible cause of an eviction, a pending gang, a tenant."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench.kubescheduler import scheduling
from click.testing import CliRunner
from tests.support.calling import Podium
from tests.support.connection.cluster import kubeconfig_of
from tests.support.docs.pages import ROOT, commands, pages
from tests.support.scheduling.world import Sandbox, World, world
from tests.support.servers import Server, in_turn
from tests.support.why import podium

from podium.api.records import RECORD_VERSION
from podium.cli.commands.dump import command as dump
from podium.crds import definitions

__all__ = ["podium"]

pytestmark = pytest.mark.server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RECORDS = f"/apis/{RECORD_VERSION}/preemptionrecords"
OTHER = "default-scheduler"
KEPT = {"finalizers": ["example.com/kept"]}
DOCS = (Path(__file__).parents[4] / "docs" / "why.md").read_text("utf-8")
# The rights of a tenant: its own namespace.
(ROLE,) = re.findall(r"^```yaml\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
OWN: list[dict[str, Any]] = yaml.safe_load(ROLE)["rules"]


@pytest.fixture(scope="module", params=in_turn(__name__))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world with both schedulers, and Podium's records."""
    with world(request.param, tmp_path_factory.mktemp("world")) as made:
        code, answer = made.server.request("POST", DEFINITIONS, definitions.records())
        assert code == 201, answer
        with scheduling(made.server), made.scheduling():
            yield made


@pytest.fixture
def sandbox(both: World) -> Iterator[Sandbox]:
    with both.sandbox() as made:
        made.until(lambda: made.server.request("GET", RECORDS)[0] == 200, "records are served")
        yield made


def told(podium: Podium, server: Server, kind: str, name: str, kubeconfig: Path | None = None) -> Any:
    """Run the command for an object, as the administrator or as another user."""
    run = podium(kind, name, "--kubeconfig", str(kubeconfig or server.kubeconfig), "-o", "json")
    assert run.code == 0, run.stderr
    return run.json


def compared(podium: Podium, server: Server, kind: str, name: str) -> Any:
    """Run the command live and on a dump with the past, which must have the same answer."""
    account = told(podium, server, kind, name)
    line = ["--kubeconfig", str(server.kubeconfig), "-A", "--events", "--output-file", "dump.json.gz"]
    done = CliRunner().invoke(dump, line)
    assert done.exit_code == 0, done.stderr
    run = podium(kind, name, "-f", "dump.json.gz", "-o", "json")
    assert run.code == 0, run.stderr
    assert run.json == account
    return account


def marked(sandbox: Sandbox, name: str) -> bool:
    """Return whether a pod is a DisruptionTarget, and being deleted."""
    pod = sandbox.pods()[name]
    kinds = [each["type"] for each in pod["status"].get("conditions", ()) if each["status"] == "True"]
    return "DisruptionTarget" in kinds and "deletionTimestamp" in pod["metadata"]


def preempted(sandbox: Sandbox, scheduler: str) -> str:
    """Let a pod `low` with a finalizer be preempted for `high`; return the node."""
    node = sandbox.node("n0")
    sandbox.pod("low", 4, 1, node="n0", metadata=KEPT, schedulerName=scheduler)
    sandbox.pod("high", 4, 5, schedulerName=scheduler)
    sandbox.until(lambda: marked(sandbox, "low"), "low has to go")
    return node


def group_status(sandbox: Sandbox, name: str) -> str:
    return str(sandbox.ask("GET", sandbox.groups_path(name)).get("status", ""))


def events(sandbox: Sandbox) -> list[str]:
    path = f"/api/v1/namespaces/{sandbox.name}/events"
    return [each["reason"] for each in sandbox.ask("GET", path)["items"]]


def recorded(sandbox: Sandbox) -> bool:
    return any(
        unit["namespace"] == sandbox.name
        for record in sandbox.ask("GET", RECORDS)["items"]
        for each in record["plans"]
        for unit in each["units"]
    )


@pytest.mark.parametrize(("scheduler", "by"), [("podium-scheduler", "Podium"), (OTHER, "KubeScheduler")])
def test_preempted_by_a_scheduler(podium: Podium, sandbox: Sandbox, scheduler: str, by: str) -> None:
    """The preemptor is named while the victim is terminating, and after it has gone."""
    node = preempted(sandbox, scheduler)
    sandbox.until(lambda: "Preempted" in events(sandbox), "the preemption is recorded")
    sources = ["condition", "event"]
    if by == "Podium":
        sandbox.until(lambda: recorded(sandbox), "the preemption is recorded")
        sources.append("record")
    account = compared(podium, sandbox.server, "pod", f"{sandbox.name}/low")
    (departure,) = account["departures"]
    assert (account["state"], departure["by"], departure["told"]) == ("Leaving", by, sources)
    assert (departure["preemptor"]["name"], departure["node"]) == ("high", node)
    sandbox.free("low")
    sandbox.until(lambda: "low" not in sandbox.pods(), "low has gone")
    account = compared(podium, sandbox.server, "pod", f"{sandbox.name}/low")
    (departure,) = account["departures"]
    assert (account["state"], departure["by"]) == ("Gone", by)
    assert departure["preemptor"]["name"] == "high"


def test_evicted_through_the_api(podium: Podium, sandbox: Sandbox) -> None:
    sandbox.node("n0")
    sandbox.pod("low", 1, 1, node="n0", metadata=KEPT)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "low", "namespace": sandbox.name},
    }
    sandbox.ask("POST", f"{sandbox.pods_path('low')}/eviction", body, code=201)
    sandbox.until(lambda: marked(sandbox, "low"), "low has to go")
    account = told(podium, sandbox.server, "pod", f"{sandbox.name}/low")
    assert [each["by"] for each in account["departures"]] == ["EvictionAPI"]


def test_ended_by_a_kubelet(podium: Podium, sandbox: Sandbox) -> None:
    """The status is that of a kubelet that admits a critical pod."""
    sandbox.node("n0")
    sandbox.pod("low", 1, 1, node="n0")
    sandbox.until(lambda: sandbox.pods()["low"]["status"]["phase"] == "Running", "it runs")
    message = "Pod was preempted by Kubelet to accommodate a critical pod."
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": message,
    }
    status = {"phase": "Failed", "reason": "Preempting", "conditions": [target]}
    sandbox.patch("low", {"status": status}, "/status")
    account = told(podium, sandbox.server, "pod", f"{sandbox.name}/low")
    assert account["state"] == "Finished"
    assert [each["by"] for each in account["departures"]] == ["KubeletCriticalPod"]


def test_a_gang_waits_for_its_pods(podium: Podium, sandbox: Sandbox) -> None:
    """A tenant gets the same answer as an administrator: only the namespace must be readable."""
    sandbox.nodes(1)
    sandbox.group("ring", 5, 3)
    sandbox.members("ring", 2, 1, 5)
    # The answer has the scheduler's messages too, once they are written.
    sandbox.until(lambda: "minCount is 3" in group_status(sandbox, "ring"), "the group says why it waits")
    for name in ("ring-0", "ring-1"):
        sandbox.until_message(name, "minCount is 3")
    account = compared(podium, sandbox.server, "group", f"{sandbox.name}/ring")
    assert account["waiting"][0]["cause"] == "TooFew"
    assert "minCount is 3" in account["summary"]
    assert account["priority"]["placed"] == 5


@pytest.mark.parametrize("scheduler", ["podium-scheduler", OTHER])
def test_a_dump_gives_the_same_answer_for_a_waiting_pod(
    podium: Podium, sandbox: Sandbox, scheduler: str
) -> None:
    """The answer has the scheduler's message, and the outcome of a plan.

    In a dump, only a group shows that its cluster serves the Workload API, and so which rules decide.
    """
    sandbox.group("ring", 5, 3)
    sandbox.node("n0")
    sandbox.pod("late", 40, 1, schedulerName=scheduler)
    sandbox.until_message("late", "nodes are available")
    account = compared(podium, sandbox.server, "pod", f"{sandbox.name}/late")
    assert account["waiting"][0]["cause"] == "SchedulerSays"
    assert account["prospect"]["outcome"] == "DoesNotFit"


def test_a_tenant_is_told_no_name_of_others(
    podium: Podium, both: World, sandbox: Sandbox, tmp_path: Path
) -> None:
    """The answer has the UID alone, and the missing rights; an administrator reads the name."""
    with both.sandbox() as theirs:
        sandbox.node("n0")
        sandbox.pod("low", 4, 1, node="n0", metadata=KEPT)
        made = theirs.pod("secret", 4, 5, nodeSelector={"sandbox": sandbox.name})
        sandbox.until(lambda: marked(sandbox, "low"), "low has to go")
        sandbox.until(lambda: recorded(sandbox), "the preemption is recorded")
        sandbox.pod("late", 4, 1)
        sandbox.until_message("late", "0/1 nodes are available")
        tenant = kubeconfig_of(sandbox.server, sandbox.name, OWN, tmp_path, everywhere=False)
        run = podium("pod", f"{sandbox.name}/low", "--kubeconfig", str(tenant), "-o", "json")
        (departure,) = run.json["departures"]
        assert departure["by"] == "Podium"
        assert (departure["preemptor"]["name"], departure["preemptor"]["uid"]) == (
            "",
            made["metadata"]["uid"],
        )
        assert theirs.name not in run.stdout + run.stderr
        assert any("missing permission: list preemptionrecords" in each for each in run.json["unknown"])
        # By a bare name: the context has the namespace.
        late = told(podium, sandbox.server, "pod", "late", tenant)
        assert [each["cause"] for each in late["waiting"]] == ["SchedulerSays"]
        assert any("missing permission: list nodes" in each for each in late["unknown"])
        elsewhere = podium("pod", f"{theirs.name}/secret", "--kubeconfig", str(tenant))
        assert elsewhere.code == 1
        refused = f'list pods (API group "") in namespace {theirs.name}'
        assert (
            f"pods of namespace {theirs.name} cannot be read: missing permission: {refused}"
            in elsewhere.stderr
        )
        admin = told(podium, sandbox.server, "pod", f"{sandbox.name}/low")
        assert admin["departures"][0]["preemptor"]["name"] == "secret"
        assert (
            told(podium, sandbox.server, "pod", f"{sandbox.name}/late")["prospect"]["outcome"] == "DoesNotFit"
        )


def test_the_commands_of_the_documentation(podium: Podium, sandbox: Sandbox, tmp_path: Path) -> None:
    """The examples run live with their namespace, and on kubectl's output, events included."""
    node = preempted(sandbox, OTHER)
    sandbox.until(lambda: "Preempted" in events(sandbox), "the preemption is recorded")
    sandbox.group("train", 5, 2)
    sandbox.pod("train-0", 1, 5, group="train")
    lines = [
        each.text.replace("team-a", sandbox.name).replace(" examples/", f" {ROOT}/examples/")
        for each in commands(pages()["why"])
    ]
    config = ("--kubeconfig", str(sandbox.server.kubeconfig))
    (written,) = (line for line in lines if line.startswith("kubectl "))
    command, _, name = written.removeprefix("kubectl ").partition(" > ")
    Path(name).write_text(sandbox.server.kubectl(*command.split()), "utf-8")
    (whole,) = (shlex.split(line, comments=True)[2:] for line in lines if line.startswith("podium dump "))
    assert CliRunner().invoke(dump, [*whole, *config]).exit_code == 0
    questions = [line for line in lines if line.startswith("podium why ")]
    assert len(questions) == len(lines) - 2
    for line in questions:
        run = podium(*shlex.split(line, comments=True)[2:], *(() if " -f " in line else config))
        assert run.code == 0, f"{line}: {run.stderr}"
    (departure,) = podium("pod", f"{sandbox.name}/low", "-f", name, "-o", "json").json["departures"]
    assert (departure["by"], departure["node"], departure["told"]) == (
        "KubeScheduler",
        node,
        ["condition", "event"],
    )
