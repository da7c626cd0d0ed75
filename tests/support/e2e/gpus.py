"""The driver dra-example-driver on each node of a cluster, and gangs of Jobs whose pods claim its devices.

Each node has two devices. The driver gives a container environment variables by CDI, and a container here
prints them. So a test sees which devices a kubelet has prepared, and not only which ones are allocated.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from tests.support.controllers.history import Seen
from tests.support.e2e import neighbours
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.work import Space, Work, workload
from tests.support.waiting import until
from tools.devcluster.realnode import network
from tools.neighbours.images import DRA_DRIVER

from podium.api.devices import DEVICE_API

# Of a node.
DEVICES = 2
_DRIVER = "gpu.example.com"
_API = f"/apis/{DEVICE_API}"
_CDI = "/var/run/cdi"
# The driver has one file for all claims, with this in its name, and one for each claim.
_COMMON = "common"
_PREPARED = re.compile(r"^GPU_DEVICE_\d+=(.+)$", re.MULTILINE)
_NODE = re.compile(r"^KUBERNETES_NODE_NAME=(.+)$", re.MULTILINE)
# It prints its environment, and fails some time after SIGTERM.
_SHOWS = "env; trap 'sleep %d; exit 1' TERM; sleep 3600 & wait"

Held = frozenset[tuple[str, str]]


@contextlib.contextmanager
def driver(nodes: Nodes) -> Iterator[None]:
    """Run the driver in each node while the block runs; nothing is left of it."""
    documents = DRA_DRIVER.manifests(nodes.server.program("kubectl"))
    neighbours.install(nodes, DRA_DRIVER, documents)
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": documents})
    try:
        expected = DEVICES * nodes.state.settings.real_nodes
        until(lambda: _published(nodes) == expected, "each node has published its devices")
        yield
    finally:
        kubectl = nodes.server.kubectl
        # A driver that still runs would publish its devices again.
        kubectl("delete", "--ignore-not-found", "--cascade=foreground", "-f", "-", stdin=listed)
        kubectl("delete", "resourceslices", "--all")


def _published(nodes: Nodes) -> int:
    code, found = nodes.server.request("GET", f"{_API}/resourceslices")
    assert code == 200, found
    return sum(len(each["spec"]["devices"]) for each in found["items"])


def prepared(nodes: Nodes) -> list[str]:
    """Return the driver's files about claims in all nodes."""
    names = network.node_names(nodes.state.settings.real_nodes)
    found = [each for node in names for each in nodes.on(node, "ls", _CDI).split()]
    return [each for each in found if _COMMON not in each]


def held(claim: dict[str, Any]) -> Held:
    """Return the node and the name of each device of a claim."""
    allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": ()}}
    return frozenset((each["pool"], each["device"]) for each in allocation["devices"]["results"])


def assert_no_device_twice(changes: Iterable[Seen]) -> None:
    """Compare the devices of all claims after each change of one."""
    claims: dict[str, Held] = {}
    for each in changes:
        claims[each.uid] = frozenset() if each.type == "DELETED" else held(each.object)
        counts = Counter(device for devices in claims.values() for device in devices)
        assert set(counts.values()) <= {1}, (each.version, claims)


class DeviceSpace(Space):
    """A namespace with pods of Podium's scheduler, each of which prints the devices that it has."""

    def __init__(self, nodes: Nodes, image: str) -> None:
        """`image` is one with a shell that each node has."""
        super().__init__(nodes)
        self._image = image

    def template(self, name: str, devices: int) -> None:
        """Create a template of claims for so many devices."""
        exactly = {"deviceClassName": _DRIVER, "allocationMode": "ExactCount", "count": devices}
        spec = {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}}
        body = {
            "apiVersion": DEVICE_API,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.post(f"{_API}/namespaces/{self.name}/resourceclaimtemplates", body)

    def pod_of_template(self, name: str, template: str) -> None:
        """Create a pod with a claim of a template."""
        body = {"metadata": {"name": name}, "spec": self._pod(template, linger=0)}
        self.post(f"/api/v1/namespaces/{self.name}/pods", body)

    def gang_of_template(
        self, name: str, count: int, class_name: str, template: str, linger: int = 0
    ) -> None:
        """Create a group, and a Job of its members, each with a claim of a template.

        A member that is told to end runs for `linger` more seconds.
        """
        self.gang(name, count, class_name)
        group = {"schedulingGroup": {"podGroupName": name}, "priorityClassName": class_name}
        spec = {
            "parallelism": count,
            "completions": count,
            "backoffLimit": 100,
            "template": {"spec": {**self._pod(template, linger), **group}},
        }
        self.post(f"/apis/batch/v1/namespaces/{self.name}/jobs", {"metadata": {"name": name}, "spec": spec})

    def resource_claims(self) -> list[dict[str, Any]]:
        """Return the claims of the namespace."""
        code, found = self.server.request("GET", self.resource_claims_path())
        assert code == 200, found
        return list(found["items"])

    def resource_claims_path(self) -> str:
        """Return the path of the namespace's claims."""
        return f"{_API}/namespaces/{self.name}/resourceclaims"

    def devices(self) -> dict[str, Held]:
        """Return the devices that are allocated to each pod, by name."""
        return {
            consumer["name"]: held(claim)
            for claim in self.resource_claims()
            for consumer in claim.get("status", {}).get("reservedFor", ())
        }

    def printed(self, pod: str) -> Held:
        """Return the devices that a running container has, as it prints them."""
        text = self.server.kubectl("-n", self.name, "logs", pod)
        return frozenset((node, device) for node in _NODE.findall(text) for device in _PREPARED.findall(text))

    def _pod(self, template: str, linger: int) -> dict[str, Any]:
        spec = workload(Work(grace_seconds=linger + 5), {})
        container = {
            "name": "work",
            "image": self._image,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", _SHOWS % linger],
            "resources": {"requests": {"cpu": "20m"}, "claims": [{"name": "gpus"}]},
        }
        claim = {"name": "gpus", "resourceClaimTemplateName": template}
        return {**spec, "containers": [container], "resourceClaims": [claim]}
