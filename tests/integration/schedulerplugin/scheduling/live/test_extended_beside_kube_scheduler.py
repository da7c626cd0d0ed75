"""Extended resources of device classes: nodes, claims, statuses and texts equal those of kube-scheduler."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from bench.kubescheduler import scheduling
from tests.support.scheduling.devices import DeviceBox
from tests.support.scheduling.world import Sandbox, World, world
from tests.support.servers import in_turn

from podium.api.devices import IMPLICIT_RESOURCE_PREFIX

pytestmark = pytest.mark.server

OTHER = "default-scheduler"
INSUFFICIENT = "Insufficient example.com/gpu-SANDBOX"
Amounts = dict[str, int]


class Case(NamedTuple):
    """The nodes n0 ..., and the amounts of each container of the pod; `gpu` is the extended resource.

    A node has so many devices, or a device plugin that offers so much. `refused` are the reasons against a
    pod that is not bound.
    """

    devices: tuple[int, ...]
    plugins: tuple[int | None, ...]
    containers: tuple[Amounts, ...]
    init: tuple[Amounts, ...] = ()
    sidecars: tuple[Amounts, ...] = ()
    refused: str = ""


CASES = {
    "a device of a class": Case((2,), (None,), ({"gpu": 1},)),
    "a device plugin": Case((0,), (1,), ({"gpu": 1},)),
    "only the class has enough": Case((2, 0), (None, 1), ({"gpu": 2},)),
    "only the device plugin has enough": Case((1, 0), (None, 2), ({"gpu": 2},)),
    "a device plugin without devices": Case((1,), (0,), ({"gpu": 1},)),
    "the resource of the class's own name": Case((1, 0), (None, 3), ({"class": 1},)),
    "two containers and an init container": Case((4,), (None,), ({"gpu": 1}, {"gpu": 2}), ({"gpu": 4},)),
    "a sidecar and two init containers": Case(
        (4,), (None,), ({"gpu": 1},), ({"gpu": 2}, {"gpu": 3}), ({"gpu": 1},)
    ),
    "both resources of a class": Case((3,), (None,), ({"gpu": 1, "class": 2},)),
    "one resource of each kind": Case((2,), (2,), ({"gpu": 2, "class": 2},)),
    "too few devices": Case((1, 0), (None, None), ({"gpu": 2},), refused="2 cannot allocate all claims"),
    "too few anywhere": Case(
        (1, 0), (None, 1), ({"gpu": 2},), refused=f"1 {INSUFFICIENT}, 1 cannot allocate all claims"
    ),
    "too little of a device plugin": Case((1,), (1,), ({"gpu": 2},), refused=f"1 {INSUFFICIENT}"),
}


class Found(NamedTuple):
    """The outcome for a pod: its node, its claim, and the mappings in its status."""

    node: str
    requests: list[Any]
    results: list[tuple[str, str]]
    mappings: list[Any]
    metadata: dict[str, Any]


def found(sandbox: Sandbox, box: DeviceBox) -> Found:
    """Return the outcome for the pod, without names that differ between sandboxes."""
    pod = sandbox.pods()["p"]
    made: dict[str, Any] = box.extended().get("p", {})
    metadata = made.get("metadata", {})
    allocation = made.get("status", {}).get("allocation", {}).get("devices", {})
    named = pod["status"].get("extendedResourceClaimStatus", {})
    assert named.get("resourceClaimName") == metadata.get("name")
    reserved: list[dict[str, Any]] = made.get("status", {}).get("reservedFor") or []
    assert [each["name"] for each in reserved] == (["p"] if made else [])
    requests = made.get("spec", {}).get("devices", {}).get("requests")
    return Found(
        sandbox.where(pod),
        _plain(requests, sandbox),
        [(each["request"], each["device"]) for each in allocation.get("results") or ()],
        _plain(named.get("requestMappings"), sandbox),
        {name: metadata.get(name) for name in ("annotations", "finalizers", "generateName")},
    )


def _plain(part: Any, sandbox: Sandbox) -> Any:
    if isinstance(part, str):
        return part.replace(sandbox.name, "SANDBOX")
    if isinstance(part, dict):
        return {name: _plain(each, sandbox) for name, each in part.items()}
    return [_plain(each, sandbox) for each in part] if isinstance(part, list | tuple) else part


def outcome(own: World, case: Case, **fields: Any) -> Found:
    """Return the outcome of a case in a sandbox of its own."""
    with own.sandbox() as sandbox:
        box = DeviceBox(sandbox)
        names = {"gpu": box.resource, "class": f"{IMPLICIT_RESOURCE_PREFIX}gpu-{sandbox.name}"}

        def container(name: str, amounts: Amounts, **more: Any) -> dict[str, Any]:
            limits = {names[each]: str(amount) for each, amount in amounts.items()}
            resources = {"requests": {"cpu": "1", **limits}, "limits": limits}
            return {"name": name, "image": "none", "resources": resources, **more}

        for at, (devices, plugin) in enumerate(zip(case.devices, case.plugins, strict=True)):
            box.node(f"n{at}", devices)
            if plugin is not None:
                box.plugin(f"n{at}", plugin)
        init = [container(f"s{at}", each, restartPolicy="Always") for at, each in enumerate(case.sidecars)]
        init += [container(f"i{at}", each) for at, each in enumerate(case.init)]
        containers = [container(f"c{at}", each) for at, each in enumerate(case.containers)]
        sandbox.pod("p", containers=containers, initContainers=init, **fields)

        if not case.refused:
            sandbox.until_bound(["p"])
        else:
            wanted = f"0/{len(case.devices)} nodes are available: {case.refused}."
            sandbox.until_message("p", wanted.replace("SANDBOX", sandbox.name))
        return found(sandbox, box)


@pytest.fixture(scope="module", params=in_turn(__name__))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world with both schedulers."""
    folder = tmp_path_factory.mktemp("world")
    with world(request.param, folder) as made, scheduling(made.server), made.scheduling():
        yield made


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_outcome_is_that_of_kube_scheduler(both: World, case: Case) -> None:
    assert outcome(both, case) == outcome(both, case, schedulerName=OTHER)
