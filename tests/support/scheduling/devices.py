"""Devices of a sandbox on a real server: slices of a driver, a class, claims, and their release."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.proxy import Fault, Where
from tests.support.scheduling.world import Sandbox, World

from podium.api.devices import DEVICE_API, EXTENDED_RESOURCE_CLAIM

_API = f"/apis/{DEVICE_API}"
DRIVER = "gpu.example.com"


class DeviceBox:
    """The devices, the class and the claims of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._class = f"gpu-{sandbox.name}"
        # The extended resource that the class provides.
        self.resource = f"example.com/{self._class}"
        spec = {
            "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
            "extendedResourceName": self.resource,
        }
        self._create("DeviceClass", f"{_API}/deviceclasses", self._class, spec)

    def node(self, name: str, devices: int, cpu: int = 64, **fields: Any) -> None:
        """Make a node with a pool of so many devices, gpu-0, gpu-1 ..., with further fields."""
        full = self._sandbox.node(name, cpu)
        pool = {"name": full, "generation": 1, "resourceSliceCount": 1}
        found = [{"name": f"gpu-{index}", **fields} for index in range(devices)]
        spec = {"driver": DRIVER, "nodeName": full, "pool": pool, "devices": found}
        self._create("ResourceSlice", f"{_API}/resourceslices", full, spec)

    def plugin(self, name: str, amount: int) -> None:
        """Let the device plugin of a node offer so much of the extended resource."""
        amounts = {self.resource: str(amount)}
        path = f"/api/v1/nodes/{self._sandbox.full(name)}/status"
        self._sandbox.ask("PATCH", path, {"status": {"allocatable": amounts, "capacity": amounts}})

    def requesting(
        self, name: str, count: int = 1, priority: int = 5, *, group: str = "", **fields: Any
    ) -> dict[str, Any]:
        """Create a pod that requests so much of the extended resource."""
        amounts = {"cpu": "1", self.resource: str(count)}
        resources = {"requests": amounts, "limits": {self.resource: str(count)}}
        containers = [{"name": "main", "image": "none", "resources": resources}]
        return self._sandbox.pod(name, 1, priority, group=group, **{"containers": containers, **fields})

    def requesting_gang(self, name: str, count: int, priority: int) -> list[str]:
        """Create a gang whose members request one of the extended resource each; return their names."""
        self._sandbox.group(name, priority, count)
        names = [f"{name}-{index}" for index in range(count)]
        for each in names:
            self.requesting(each, 1, priority, group=name)
        return names

    def extended(self) -> dict[str, dict[str, Any]]:
        """Return the claims for extended resources, by pod."""
        return {
            each["metadata"]["ownerReferences"][0]["name"]: each
            for each in self.claims().values()
            if each["metadata"].get("annotations", {}).get(EXTENDED_RESOURCE_CLAIM) == "true"
        }

    def held_by_pods(self) -> dict[str, list[str]]:
        """Return the devices of the claims for extended resources, by pod, as node/device."""
        held = self.held()
        found = {pod: held.get(claim["metadata"]["name"], []) for pod, claim in self.extended().items()}
        return {pod: devices for pod, devices in found.items() if devices}

    def assert_extended(self) -> None:
        """Compare each claim for extended resources with its pod, which runs and names it."""
        pods = self._sandbox.pods()
        for name, claim in self.extended().items():
            assert self._sandbox.where(pods[name]), f"{name} does not run"
            named = pods[name]["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
            assert named == claim["metadata"]["name"]
            consumer = {"resource": "pods", "name": name, "uid": pods[name]["metadata"]["uid"]}
            assert claim["status"]["reservedFor"] == [consumer]
        self.assert_no_device_twice()

    def claim(self, name: str, count: int = 1, *, finalizers: Sequence[str] = (), **devices: Any) -> None:
        """Create a claim for so many devices, with further fields of its `devices`."""
        exactly = {"deviceClassName": self._class, "allocationMode": "ExactCount", "count": count}
        spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}], **devices}}
        self._create("ResourceClaim", self.path(), name, spec, finalizers)

    def _create(
        self, kind: str, path: str, name: str, spec: dict[str, Any], finalizers: Sequence[str] = ()
    ) -> None:
        metadata = {"name": name, "finalizers": list(finalizers)}
        body = {"apiVersion": DEVICE_API, "kind": kind, "metadata": metadata, "spec": spec}
        self._sandbox.ask("POST", path, body, code=201)

    def pod(self, name: str, priority: int = 5, *, group: str = "", count: int = 1, claim: str = "") -> None:
        """Create a pending pod with a claim of its own, or with an existing one."""
        if not claim:
            self.claim(name, count)
        entry = {"name": "gpus", "resourceClaimName": claim or name}
        self._sandbox.pod(name, 1, priority, group=group, resourceClaims=[entry])

    def gang(
        self, name: str, count: int, priority: int, *, devices: int = 1, whole: bool = False
    ) -> list[str]:
        """Create a gang whose members have claims of their own; return their names."""
        self._sandbox.group(name, priority, count, whole=whole)
        names = [f"{name}-{index}" for index in range(count)]
        for each in names:
            self.pod(each, priority, group=name, count=devices)
        return names

    def path(self, name: str = "") -> str:
        """Return the path of the claims, or of one claim."""
        return f"{_API}/namespaces/{self._sandbox.name}/resourceclaims/{name}".rstrip("/")

    def claims(self) -> dict[str, dict[str, Any]]:
        """Return the claims by name."""
        return {each["metadata"]["name"]: each for each in self._sandbox.ask("GET", self.path())["items"]}

    def held(self) -> dict[str, list[str]]:
        """Return the devices of each allocated claim, as node/device."""
        found = {}
        for name, claim in self.claims().items():
            allocation = claim.get("status", {}).get("allocation")
            if allocation is not None:
                found[name] = [
                    f"{each['pool'].removeprefix(self._sandbox.name + '-')}/{each['device']}"
                    for each in allocation["devices"]["results"]
                ]
        return found

    def report(self, claim: str, *conditions: str) -> None:
        """Report conditions of the only device of a claim as true, as its driver does."""
        (result,) = self.claims()[claim]["status"]["allocation"]["devices"]["results"]
        device = {key: result[key] for key in ("driver", "pool", "device")}
        time = "2026-01-01T00:00:00Z"
        device["conditions"] = [
            {"type": each, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": time}
            for each in conditions
        ]
        self._sandbox.ask("PATCH", f"{self.path(claim)}/status", {"status": {"devices": [device]}})

    def release(self) -> list[str]:
        """Deallocate the claims whose pods are gone, as kube-controller-manager does; return their names."""
        uids = {pod["metadata"]["uid"] for pod in self._sandbox.pods().values()}
        released = []
        for name, claim in self.claims().items():
            consumers = claim.get("status", {}).get("reservedFor") or ()
            if consumers and not any(each["uid"] in uids for each in consumers):
                status = {"allocation": None, "reservedFor": None, "devices": None}
                self._sandbox.ask("PATCH", f"{self.path(name)}/status", {"status": status})
                released.append(name)
        return released

    def assert_no_device_twice(self) -> None:
        """Compare the devices of all allocated claims."""
        devices = [each for held in self.held().values() for each in held]
        assert len(set(devices)) == len(devices), self.held()


@contextmanager
def taken_over(
    own: World,
    where: Where,
    cut: Fault,
    begin: Callable[[DeviceBox], list[str]],
    written: Callable[[DeviceBox], bool],
) -> Iterator[tuple[DeviceBox, dict[str, str]]]:
    """Yield a box with two nodes of two devices, and the nodes where a new leader bound its pods.

    `begin` creates the pods and returns their names. The first leader was killed during the write that is
    cut, when `written` was true.
    """
    with own.scheduling() as scheduler, own.sandbox() as sandbox:
        box = DeviceBox(sandbox)
        box.node("n0", 2)
        box.node("n1", 2)
        with own.proxy.fault(where, cut) as fault:
            names = begin(box)
            sandbox.until(lambda: written(box), "the writes before are stored")
            sandbox.until(lambda: fault.hits >= 1, "the write was cut")
            scheduler.kill()
        assert not any(sandbox.where(pod) for pod in sandbox.pods().values())
        scheduler.again()
        yield box, sandbox.until_bound(names)
