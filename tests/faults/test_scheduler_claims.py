"""Pods with delayed claims on real servers, with the real volume controller; killed at every step.

A gang of three has local volumes, a StatefulSet's pods have provisioned ones. Whatever happens, every pod is
bound once with its own volume, on a node that reaches it, and nothing stays reserved.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.support.proxy import Hold, Refuse, Where
from tests.support.scheduling.world import Sandbox, Scheduler, World
from tests.support.volumes.controllers import Provisioner, volume_controller
from tests.support.volumes.manifests import DRIVER, HOST

from podium.api.storage import SELECTED_NODE

# A test that runs alone needs the scheduler too.
pytestmark = [pytest.mark.server, pytest.mark.usefixtures("scheduler")]

GANG = 3
_MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module", autouse=True)
def provisioner(ours: World) -> Iterator[Provisioner]:
    """Run the volume controller and a provisioner beside the schedulers, with two classes."""
    for name, by in (("local", "kubernetes.io/no-provisioner"), ("network", DRIVER)):
        body = {"metadata": {"name": name}, "provisioner": by, "volumeBindingMode": "WaitForFirstConsumer"}
        code, answer = ours.server.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
        assert code == 201, answer
    protection = "persistentvolume-protection-controller"
    with volume_controller(ours.server, protection), Provisioner(ours.server).running() as made:
        yield made


@pytest.fixture
def room(ours: World, provisioner: Provisioner) -> Iterator[Sandbox]:
    """Yield a sandbox with four nodes of one pod each; its volumes are deleted afterwards."""
    provisioner.refused, provisioner.only = set(), None
    with ours.sandbox() as made:
        made.nodes(GANG + 1, 1)
        yield made
        for name in volumes(made):
            made.server.request("DELETE", f"/api/v1/persistentvolumes/{name}")


def claim(sandbox: Sandbox, name: str, of: str, **spec: Any) -> dict[str, Any]:
    """Create a claim, and return a pod's spec with it."""
    body = {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }
    sandbox.ask("POST", f"/api/v1/namespaces/{sandbox.name}/persistentvolumeclaims", body, code=201)
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def disks(sandbox: Sandbox, nodes: Iterable[int] = range(GANG + 1), size: str = "1Gi") -> None:
    """Create a local volume on each of these nodes, and wait until the controller makes it available."""
    for at in nodes:
        expression = {"key": HOST, "operator": "In", "values": [sandbox.full(f"n{at}")]}
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        }
        body = {"metadata": {"name": sandbox.full(f"v{at}-{size.lower()}")}, "spec": spec}
        sandbox.ask("POST", "/api/v1/persistentvolumes", body, code=201)
    sandbox.until(
        lambda: all(each["status"].get("phase") == "Available" for each in volumes(sandbox).values()),
        "the volumes are available",
    )


def claims(sandbox: Sandbox) -> dict[str, Any]:
    """Return the claims of a sandbox, by name."""
    listed = sandbox.ask("GET", f"/api/v1/namespaces/{sandbox.name}/persistentvolumeclaims")["items"]
    return {each["metadata"]["name"]: each for each in listed}


def selected_node(claim: dict[str, Any]) -> str:
    """Return the node for which a claim is provisioned, empty for none."""
    node: str = claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
    return node


def volumes(sandbox: Sandbox) -> dict[str, Any]:
    """Return the volumes of a sandbox, by name: its local ones and those of its claims."""
    listed = sandbox.ask("GET", "/api/v1/persistentvolumes")["items"]
    return {
        each["metadata"]["name"]: each
        for each in listed
        if each["metadata"]["name"].startswith(f"{sandbox.name}-")
        or (each["spec"].get("claimRef") or {}).get("namespace") == sandbox.name
    }


def assert_sound(sandbox: Sandbox, placed: dict[str, str]) -> None:
    """Check that each pod's claim is bound to a volume of its node, and no other volume names a claim."""
    found, pods = claims(sandbox), sandbox.pods()
    used = []
    for name, node in placed.items():
        mounted = pods[name]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        used.append(found[mounted]["spec"]["volumeName"])
        terms = volumes(sandbox)[used[-1]]["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms[0]["matchExpressions"][0]["values"] == [sandbox.full(node)]
    assert len(set(used)) == len(used)
    reserved = {name for name, each in volumes(sandbox).items() if each["spec"].get("claimRef")}
    assert reserved == set(used)


def gang(sandbox: Sandbox, of: str) -> list[str]:
    """Create a gang with a claim for each member; return the names of the members."""
    sandbox.group("gang", 5, GANG)
    for at in range(GANG):
        sandbox.pod(f"gang-{at}", group="gang", **claim(sandbox, f"c{at}", of))
    return [f"gang-{at}" for at in range(GANG)]


def claim_writes(sandbox: Sandbox, of: str) -> Where:
    """Return the requests that write claims of a class, or its volumes."""
    local = rf"/persistentvolumes/{sandbox.name}-v\d-\dgi$"
    network = rf"/namespaces/{sandbox.name}/persistentvolumeclaims/[^/]+$"
    return Where(local if of == "local" else network, method="PATCH")


# The writes by kind and number.
STEPS = {
    "the first claim": ("claims", 0),
    "the last claim": ("claims", GANG - 1),
    "the first bind": ("binds", 0),
    "the last bind": ("binds", GANG - 1),
}


@pytest.mark.parametrize("arrives", [True, False], ids=["and it arrives", "and it is lost"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("of", ["local", "network"])
def test_killed_while_claims_are_bound(
    of: str, step: str, arrives: bool, room: Sandbox, scheduler: Scheduler
) -> None:
    """The process is killed at this write; the next one binds each claim and each pod once."""
    kind, skip = STEPS[step]
    if of == "local":
        disks(room)
    where = claim_writes(room, of) if kind == "claims" else room.binds
    with room.world.proxy.fault(where, Hold(lost=not arrives), times=1, skip=skip) as held:
        names = gang(room, of)
        room.until(lambda: held.hits == 1, f"{step} is under way")
        scheduler.kill()
    scheduler.again()
    assert_sound(room, room.until_bound(names))


def test_no_member_is_bound_before_all_claims_are(room: Sandbox, provisioner: Provisioner) -> None:
    """One claim is bound, two are not. Other pods are bound meanwhile."""
    provisioner.only = {(room.name, "c1")}
    names = gang(room, "network")

    def bound() -> set[str]:
        return {name for name, each in claims(room).items() if each["status"].get("phase") == "Bound"}

    room.until(lambda: bound() == {"c1"}, "one claim is bound")
    room.until(lambda: all(map(selected_node, claims(room).values())), "each claim has its node")
    room.wait_for_decisions()
    assert not any(room.where(pod) for name, pod in room.pods().items() if name in names)
    provisioner.only = None
    assert_sound(room, room.until_bound(names))


def test_another_node_is_tried_if_the_provisioner_gives_up(room: Sandbox, provisioner: Provisioner) -> None:
    provisioner.only = ()
    room.pod("lone", **claim(room, "c0", "network"))
    chosen = ""

    def has_node() -> bool:
        nonlocal chosen
        chosen = selected_node(claims(room)["c0"])
        return bool(chosen)

    room.until(has_node, "a node is selected")
    provisioner.refused, provisioner.only = {chosen}, None
    placed = room.until_bound(["lone"])
    assert room.full(placed["lone"]) != chosen
    assert_sound(room, placed)


def test_a_refused_write_withdraws_the_others(room: Sandbox) -> None:
    """One volume is refused for ever at first. The others are free again, and later all are bound."""
    disks(room)
    with room.world.proxy.fault(claim_writes(room, "local"), Refuse(403, "Forbidden"), skip=1) as refused:
        names = gang(room, "local")
        room.until_message(names[0], "binding claims failed")
        assert refused.hits
    assert_sound(room, room.until_bound(names))


def test_the_volume_that_another_takes_is_not_taken_from_it(room: Sandbox) -> None:
    """A user reserves the smaller volume before the write arrives. The pod gets the other one."""
    disks(room, [0])
    disks(room, [0], "2Gi")
    here: dict[str, Any] = {"nodeSelector": {HOST: room.full("n0")}}
    with room.world.proxy.fault(claim_writes(room, "local"), Hold(), times=1) as held:
        room.pod("lone", **claim(room, "c0", "local"), **here)
        room.until(lambda: held.hits == 1, "the write is under way")
        taken = room.full("v0-1gi")
        reserved = {"spec": {"claimRef": {"namespace": room.name, "name": "other"}}}
        assert room.server.request("PATCH", f"/api/v1/persistentvolumes/{taken}", reserved, _MERGE)[0] == 200
    room.until_bound(["lone"])
    assert claims(room)["c0"]["spec"]["volumeName"] == room.full("v0-2gi")
    assert volumes(room)[taken]["spec"]["claimRef"]["name"] == "other"


def test_preemption_frees_the_node_that_has_the_volume(room: Sandbox) -> None:
    disks(room, [2])
    for at in range(GANG + 1):
        room.pod(f"low-{at}", 1, 1, node=f"n{at}")
    room.pod("high", 1, 9, **claim(room, "c0", "local"))
    assert room.until_bound(["high"]) == {"high": "n2"}
    assert room.evicted() == ["low-2"]
    assert_sound(room, {"high": "n2"})
