"""The cases of dynamic filters on a real kube-scheduler: it binds the pod, or has our message for the node.

A resource that only one node has restricts a pod to it: a selector would change the nodes that spread counts.
"""

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.support.filters.builders import NS, container
from tests.support.filters.dynamic_cases import CASES, FEATURES, NODES, Case
from tests.support.filters.dynamic_scene import NAMESPACES, SAYS
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import comes, until
from tools.devcluster.controlplane.releases import RELEASES

pytestmark = pytest.mark.server

Template = dict[str, Any]

# The finalizer that keeps a deleted pod.
HELD = "tests.podium.dev/held"
MERGE = "application/merge-patch+json"


class Pods:
    """The pods of one case on a server, with unique names."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._numbers = itertools.count()

    def create(self, template: Template, *, node: str | None = None, held_to: str | None = None) -> str:
        """Create a pod that is bound to a node, or that only one node can take; return its name."""
        name = f"{'probe' if node is None else 'standing'}-{next(self._numbers)}"
        spec = {
            key: value for key, value in template.items() if key not in ("namespace", "labels", "terminating")
        }
        limits = {} if held_to is None else {only(held_to): "1"}
        containers = [
            {**each, "image": "none", "resources": {"limits": limits}}
            for each in template.get("containers", [container()])
        ]
        # Nodes without a kubelet are soon tainted.
        spec |= {"containers": containers, "nodeName": node, "tolerations": [{"operator": "Exists"}]}
        metadata: dict[str, Any] = {"name": name, "labels": template.get("labels")}
        if template.get("terminating"):
            # Without a finalizer it would soon be gone.
            metadata["finalizers"] = [HELD]
        create(self.server, path(template), {"metadata": metadata, "spec": spec})
        if template.get("terminating"):
            self._delete(f"{path(template)}/{name}")
        return name

    def verdict(self, name: str, template: Template) -> str:
        """Return the node of a bound pod, or the message why it was not bound."""
        found: list[str] = []

        def decided() -> bool:
            _, pod = self.server.request("GET", f"{path(template)}/{name}")
            conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
            if "PodScheduled" in conditions:
                found.append(pod["spec"].get("nodeName") or conditions["PodScheduled"]["message"])
            return bool(found)

        until(decided, f"a verdict on {name}")
        return found[0]

    def ask(self, node: str, template: Template) -> str:
        """Return the verdict on a pod that is created and deleted for it."""
        name = self.create(template, held_to=node)
        message = self.verdict(name, template)
        self._delete(f"{path(template)}/{name}", {"gracePeriodSeconds": 0})
        return message

    def is_on(self, name: str, node: str) -> bool:
        """Return whether a pod of the default namespace is bound to a node."""
        return self.verdict(name, {}) == node

    def there(self) -> dict[str, tuple[str, str]]:
        """Return every pod with its node and its creation time."""
        return {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": (
                pod["spec"].get("nodeName", ""),
                pod["metadata"]["creationTimestamp"],
            )
            for pod in self.server.request("GET", "/api/v1/pods")[1]["items"]
        }

    def may_be_in(self, namespace: str) -> bool:
        """Return whether pods can be created in a namespace: its default account exists."""
        code, _ = self.server.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
        return code == 200

    def clear(self) -> None:
        """Delete every pod."""
        for namespace in NAMESPACES:
            where = path({"namespace": namespace})
            self._delete(where, {"gracePeriodSeconds": 0})
            for pod in self.server.request("GET", where)[1]["items"]:
                if HELD in pod["metadata"].get("finalizers", ()):
                    free = {"metadata": {"finalizers": None}}
                    self.server.request("PATCH", f"{where}/{pod['metadata']['name']}", free, MERGE)
        until(lambda: not self.there(), "every pod to be gone")

    def _delete(self, where: str, options: dict[str, Any] | None = None) -> None:
        code, answer = self.server.request("DELETE", where, options)
        assert code == 200, answer


def only(node: str) -> str:
    """Return the resource that one node has."""
    return f"example.com/{node}"


def path(template: Template) -> str:
    return f"/api/v1/namespaces/{template.get('namespace', NS)}/pods"


def create(server: Server, where: str, body: dict[str, Any]) -> None:
    code, made = server.request("POST", where, body)
    assert code == 201, made


@pytest.fixture(scope="module", params=in_turn(__name__))
def pods(request: pytest.FixtureRequest) -> Iterator[Pods]:
    """Yield a cluster with exactly the cases' nodes and namespaces, all known to its scheduler."""
    with exclusive(RELEASES[request.param], controllers=True) as server:
        for name, labels in NODES.items():
            room = {"cpu": "4", "memory": "4Gi", "pods": "110", only(name): "100"}
            metadata = {"name": name, "labels": {"host": name, **labels}}
            status = {"allocatable": room, "declaredFeatures": FEATURES.get(name)}
            create(server, "/api/v1/nodes", {"metadata": metadata, "status": status})
        for name, namespace in NAMESPACES.items():
            labelled: dict[str, Any] = {"name": name, "labels": namespace.metadata.labels}
            create(server, "/api/v1/namespaces", {"metadata": labelled})
        made = Pods(server)
        for name in NAMESPACES:
            until(partial(made.may_be_in, name), f"the account of {name}")
        for name in NODES:
            probe = made.create({}, held_to=name)
            until(partial(made.is_on, probe, name), f"the scheduler to see node {name}")
        made.clear()
        yield made


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_kube_scheduler_gives_the_same_message_for_each_node(pods: Pods, case: Case) -> None:
    """Node by node, the pod has the expected result; a selector that excludes the node is reported first."""
    for template, node in case.standing:
        pods.create(template, node=node)
    try:
        for node in NODES:
            reasons: list[str] = []
            # The scheduler may see a new pod before the event of another pod.
            ended = comes(partial(agrees, pods, case, node, reasons))
            assert ended, f"of {node} it says {reasons} beside {pods.there()}, not {wanted(case, node)!r}"
    finally:
        pods.clear()


def agrees(pods: Pods, case: Case, node: str, reasons: list[str]) -> bool:
    reasons.append(pods.ask(node, case.pod))
    return re.search(wanted(case, node), reasons[-1]) is not None


def wanted(case: Case, node: str) -> str:
    """Return a pattern of the expected message for a node, also for a bind."""
    if not case.pod.get("nodeSelector", {}).items() <= NODES[node].items():
        return re.escape("node(s) didn't match Pod's node affinity/selector")
    if node in case.says:
        return rf"\b1 {re.escape(SAYS[case.says[node]])}[,.]"
    return f"^{node}$"
