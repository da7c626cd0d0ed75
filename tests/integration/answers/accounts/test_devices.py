"""`podium why` and `podium audit` read devices, classes and claims of real servers as those of files."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.calling import calling
from tests.support.servers import Server, exclusive, in_turn
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.devices import DEVICE_API, MAX_CONSUMERS

pytestmark = pytest.mark.server

API, DRIVER = f"/apis/{DEVICE_API}", "gpu.example.com"
ROOM = {"cpu": "8", "memory": "8Gi", "pods": "110"}


class DeviceCluster:
    """A server with one node of two devices, and a namespace."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = server.new_namespace("devices-")
        status = {"allocatable": ROOM, "capacity": ROOM}
        self.make("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
        spec = {
            "driver": DRIVER,
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{at}", "attributes": {"model": {"string": "a"}}} for at in range(2)],
        }
        self.make(f"{API}/resourceslices", {"metadata": {"name": "n1"}, "spec": spec})
        self.device_class("gpu", "a")
        self.device_class("misspelt", "b")

    def make(self, path: str, body: dict[str, Any]) -> None:
        """Create an object."""
        code, answer = self.server.request("POST", path, body)
        assert code == 201, answer

    def device_class(self, name: str, model: str) -> None:
        """Create a class of the devices of a model."""
        text = f'device.attributes["{DRIVER}"].model == "{model}"'
        spec = {"selectors": [{"cel": {"expression": text}}]}
        self.make(f"{API}/deviceclasses", {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str, count: int, of: str = "gpu", *, users: int = 0) -> None:
        """Create a claim for so many devices; with users it has the device gpu-0."""
        claims = f"{API}/namespaces/{self.name}/resourceclaims"
        exactly = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
        spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
        self.make(claims, {"metadata": {"name": name}, "spec": spec})
        if users:
            result = {"request": "gpus", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
            consumers = [{"resource": "pods", "name": f"u{at}", "uid": f"u{at}"} for at in range(users)]
            status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
            kind = "application/merge-patch+json"
            code, answer = self.server.request("PATCH", f"{claims}/{name}/status", {"status": status}, kind)
            assert code == 200, answer

    def pod(self, name: str, claim: str) -> None:
        """Create a pending pod that uses a claim."""
        spec = {
            "schedulerName": "podium-scheduler",
            "containers": [{"name": "main", "image": "none"}],
            "resourceClaims": [{"name": "gpus", "resourceClaimName": claim}],
        }
        self.make(f"/api/v1/namespaces/{self.name}/pods", {"metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="module", params=in_turn(__name__))
def offered(request: pytest.FixtureRequest) -> Iterator[DeviceCluster]:
    """Yield the cluster of each minor, with a claim that is in use, and some that find no devices."""
    with exclusive(RELEASES[request.param]) as server:
        made = DeviceCluster(server)
        made.claim("shared", 1, users=MAX_CONSUMERS)
        made.claim("pair", 2)
        made.claim("many", 3)
        made.claim("absent", 1, "absent")
        for name in ("shared", "pair", "many", "absent"):
            made.pod(name, name)
        yield made


WAITS = {
    "pair": ("NoDevices", "request gpus needs 2 devices: 2 devices, 1 in use, 1 free"),
    "many": ("NoDevices", "request gpus needs 3 devices: 2 devices, 1 in use, 1 free"),
    "absent": ("ClaimUnusable", "ResourceClaim absent: request gpus: device class absent does not exist"),
    "shared": ("ClaimUnusable", f"ResourceClaim shared: in use by {MAX_CONSUMERS} consumers"),
}


@pytest.mark.parametrize("name", WAITS)
def test_why_names_what_keeps_devices_from_a_pod(
    offered: DeviceCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, name: str
) -> None:
    podium = calling("why", monkeypatch, tmp_path)
    kubeconfig = str(offered.server.kubeconfig)
    run = podium("pod", f"{offered.name}/{name}", "--kubeconfig", kubeconfig, "-o", "json")
    assert run.code == 0, run.stderr
    cause, text = WAITS[name]
    found = [each["message"] for each in run.json["waiting"] if each["cause"] == cause]
    assert any(text in each for each in found), run.json["waiting"]


def test_the_audit_finds_claims_and_classes_without_devices(
    offered: DeviceCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    podium = calling("audit", monkeypatch, tmp_path)
    run = podium("-A", "--kubeconfig", str(offered.server.kubeconfig), "-o", "json")
    assert run.code == 3, run.stderr
    found = {(each["rule"], each["object"]["name"]) for each in run.json["findings"]}
    assert {each for each in found if "device" in each[0] or each[0].startswith("claim-")} == {
        ("claim-unsatisfiable", "many"),
        ("device-class-missing", "absent"),
        ("device-selector-unmatched", "misspelt"),
    }
