"""The requirements that Podium meets under any input of a tenant, and a cluster to check them in."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.hostile import tenant
from tests.support.hostile.honest import HOST, RESERVED, ZONE, Honest
from tests.support.hostile.installation import Installation, Leadership, Program, current, installation
from tests.support.hostile.kubelets import kubelets
from tests.support.hostile.tenant import Tenant
from tests.support.hostile.watched import MIB, probing
from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.devices import DEVICE_API

# In a process's own time (`watched`): a kubelet's probe times out after this.
LIVE_SECONDS = 1.0
# In addition to the time of a write without a webhook on the same API server.
JUDGED_SECONDS = 1.0
# On a machine of usual speed (`watched`).
BOUND_SECONDS = 10.0
# A pool of small nodes for rows that need many; the honest tenant's pods may not use them.
WIDE, WIDE_NODES = "wide", 60
# A node of a device plugin with a bug, on which no pod may run that does not ask for it.
ODD_NODE, ODD_RESOURCES = "odd", tuple(f"odd.example.com/{number}" for number in range(15_000))
# The longest time that a process may take for one event, in processor time of a machine of usual speed
# (`watched`): four times the longest of all rows there.
CALLBACK_SECONDS = 0.05
# Rows are deleted as collections: deleting single objects takes half of the time of all rows together.
_APISERVER = ("--delete-collection-workers=8",)
_LED = ("scheduler", "controller")
_DEVICES = f"/apis/{DEVICE_API}"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_SCHEDULER = "system:serviceaccount:podium-system:podium-scheduler"
# Labels of pods whose deletion, or status, policies of others deny to the scheduler.
DELETE_DENIED, STATUS_DENIED = "others.example/keep", "others.example/keep-status"


class AttackedCluster:
    """The cluster, and the state of each process before the tenant's writes."""

    def __init__(self, server: Server, podium: Installation, token: str) -> None:
        self.server = server
        self.podium = podium
        self.honest = Honest(server)
        self._token = token
        # Whether a row may have left objects because it did not end.
        self._dirty = False

    @contextlib.contextmanager
    def tenant(self, prefix: str) -> Iterator[Tenant]:
        """Yield a connection of the tenant; its objects' names begin with the prefix."""
        with contextlib.closing(Tenant(self.server, self._token, prefix)) as made:
            yield made

    def widen(self) -> None:
        """Make the pool, with devices on each of its nodes."""
        self._make(f"{_DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        for number in range(WIDE_NODES):
            name = f"{WIDE}-{number}"
            room = {"cpu": "1", "memory": "4Gi", "pods": "110"}
            zone = str(number % 3)
            labels = {HOST: name, ZONE: zone, "pool": WIDE, RESERVED: "yes"}
            body = {
                "metadata": {"name": name, "labels": labels},
                "spec": {"taints": [{"key": "pool", "value": WIDE, "effect": "NoSchedule"}]},
                "status": {"allocatable": room, "capacity": room},
            }
            self._make("/api/v1/nodes", body)
            offered = [
                {"name": f"gpu-{at}", "attributes": {"uuid": {"string": f"{name}-{at}"}}} for at in range(8)
            ]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": offered}
            self._make(f"{_DEVICES}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def offer_oddly(self) -> None:
        """Make a node that offers thousands of resources."""
        room = {"cpu": "1", "memory": "4Gi", "pods": "110", **dict.fromkeys(ODD_RESOURCES, "8")}
        body = {
            "metadata": {"name": ODD_NODE, "labels": {HOST: ODD_NODE, RESERVED: "yes"}},
            "spec": {"taints": [{"key": "odd", "value": "yes", "effect": "NoSchedule"}]},
            "status": {"allocatable": room, "capacity": room},
        }
        self._make("/api/v1/nodes", body)

    def deny(self) -> None:
        """Make the policies of others."""
        for label, operation, resource in (
            (DELETE_DENIED, "DELETE", "pods"),
            (STATUS_DENIED, "UPDATE", "pods/status"),
        ):
            name = label.replace("/", "-")
            rule = {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": [operation],
                "resources": [resource],
            }
            condition = f"request.userInfo.username == '{_SCHEDULER}'"
            denied = f"!('{label}' in oldObject.metadata.?labels.orValue({{}}))"
            spec = {
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "by-the-scheduler", "expression": condition}],
                "validations": [{"expression": denied, "message": f"pods with {label} are kept"}],
            }
            metadata = {"name": name}
            self._make(f"{_ADMISSION}/validatingadmissionpolicies", {"metadata": metadata, "spec": spec})
            binding = {"policyName": name, "validationActions": ["Deny"]}
            self._make(
                f"{_ADMISSION}/validatingadmissionpolicybindings", {"metadata": metadata, "spec": binding}
            )

    def _make(self, path: str, body: Mapping[str, Any]) -> None:
        code, answer = self.server.request("POST", path, body)
        assert code == 201, answer

    def endures(self, write: Callable[[Tenant], None], prefix: str, *, fills: bool = False) -> None:
        """Let a tenant write; check all requirements during the writes, afterwards and after their deletion.

        The tenant's pods fill the nodes themselves, if it `fills`; else the honest tenant's cheap pods do.
        """
        problems: list[str] = []
        self.podium.heal()
        if self._dirty:
            tenant.clear(self.server, tenant.collections(self.server.release))
        self._dirty = True
        if fills:
            self.honest.drain()
        else:
            self.honest.fill()
        before = {name: self.podium.leadership(name) for name in _LED}
        for each in self.podium.processes.values():
            each.begin()
        with probing(list(self.podium.processes.values())) as speed, self.tenant(prefix) as writing:
            try:
                write(writing)
                problems += self._honest_problems(BOUND_SECONDS * speed.slowness())
            finally:
                tenant.clear(self.server, writing.collections)
        self._dirty = False
        problems += self._problems(before, CALLBACK_SECONDS * speed.slowness())
        assert not problems, "\n".join([*problems, str(self.honest.conditions()), self.podium.log])

    def _honest_problems(self, bound_seconds: float) -> Iterator[str]:
        found = self.honest.round(bound_seconds)
        if found.judged - found.plain > JUDGED_SECONDS:
            yield f"an honest write took {found.judged:.2f} s (without the webhook: {found.plain:.2f} s)"
        if found.bound is None:
            yield f"an honest gang was not bound within {bound_seconds:.1f} s: {self.honest.conditions()}"

    def _problems(self, before: dict[str, Leadership], callback_seconds: float) -> Iterator[str]:
        for each in self.podium.processes.values():
            if each.ended:
                yield f"{each.name} ended, exit code {each.running.process.returncode}"
                continue
            slow = [answer for answer in each.answers if answer.own > LIVE_SECONDS or answer.code != 200]
            if slow:
                yield f"{each.name} answered /livez late: {slow}"
            if each.longest_callback > callback_seconds:
                taken = f"{each.longest_callback:.3f} s for one event, of {callback_seconds:.3f} s"
                yield f"{each.name} took {taken}"
            if each.peak > each.limit:
                yield f"{each.name} held {each.peak // MIB} MiB; its limit is {each.limit // MIB} MiB"
        for name, leadership in before.items():
            after = self.podium.leadership(name)
            if after != leadership:
                yield f"another {name} leads: {leadership} became {after}"


@contextlib.contextmanager
def attacked(minor: str, folder: Path, program: Program | None = None) -> Iterator[AttackedCluster]:
    """Yield the cluster of a minor of Kubernetes, with an idle installation, of this checkout by default."""
    with (
        exclusive(RELEASES[minor], apiserver=_APISERVER) as server,
        kubelets(server, folder),
        installation(server, folder, program or current()) as podium,
    ):
        made = AttackedCluster(server, podium, tenant.settle(server))
        made.honest.settle()
        made.widen()
        made.offer_oddly()
        made.deny()
        yield made
