"""kube-scheduler agrees with our sums: a pod fits into exactly its request, and not into one unit less.

Each case has a node with exactly the room that we compute for the pod. For each resource it has another node
that is one unit short. If we counted too little the first pod would stay pending. If we counted too much a
pod would be placed on a node that we call too small.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.support.filters.builders import container
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.minors import minor_of
from podium.api.podrequests import PODS, pod_requests
from podium.api.schedulable import Schedulable

pytestmark = pytest.mark.server

PATH = "/api/v1/namespaces/default/pods"
HEAVY = "heavy"  # the RuntimeClass whose pods have overhead
CASES: dict[str, dict[str, Any]] = {
    "plain": {
        "containers": [container({"cpu": "1500m", "memory": "1Gi"}), container({"cpu": "1"}, name="b")]
    },
    "fractions": {"containers": [container({"memory": "100m"}), container({"memory": "1000m"}, name="b")]},
    "limits": {"containers": [container({"cpu": "1"}, {"cpu": "2", "example.com/gpu": "2"})]},
    "init": {
        "containers": [container({"cpu": "1", "memory": "2Gi"})],
        "initContainers": [container({"cpu": "3", "memory": "1Gi"}, name="init")],
    },
    "sidecars": {
        "containers": [container({"cpu": "1"})],
        "initContainers": [
            container({"cpu": "1"}, name="first", sidecar=True),
            container({"cpu": "5"}, name="init"),
            container({"cpu": "2"}, name="second", sidecar=True),
        ],
    },
    "overhead": {"containers": [container({"cpu": "1", "memory": "1Gi"})], "runtimeClassName": HEAVY},
    "pod-level": {
        "containers": [container({"cpu": "1"}), container(name="b")],
        "resources": {"requests": {"cpu": "3"}, "limits": {"memory": "1Gi"}},
    },
    "disk": {
        "containers": [
            container({"ephemeral-storage": "1500k", "memory": "1Mi"}, {"hugepages-2Mi": "4Mi"}),
        ]
    },
}


@pytest.fixture(scope="module", params=in_turn(__name__))
def cluster(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a cluster with this test's nodes only, because others' pods may use any node."""
    with exclusive(RELEASES[request.param], controllers=True) as server:
        overhead = {"podFixed": {"cpu": "250m", "memory": "120Mi"}}
        heavy = {"metadata": {"name": HEAVY}, "handler": HEAVY, "overhead": overhead}
        create(server, "/apis/node.k8s.io/v1/runtimeclasses", heavy)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        until(lambda: server.request("GET", account)[0] == 200, "the namespace's account")
        yield server


def create(server: Server, path: str, body: dict[str, Any]) -> bytes:
    code, made = server.request("POST", path, body)
    assert code == 201, made
    return msgspec.json.encode(made)


def manifest(name: str, case: str) -> dict[str, Any]:
    """Return the pod of a case, which only the node of the same name may take."""
    spec = CASES[case]
    images = {
        part: [{**each, "image": "none"} for each in spec[part]]
        for part in ("containers", "initContainers")
        if part in spec
    }
    own = {"nodeSelector": {"room": name}, "tolerations": [{"operator": "Exists"}]}
    return {"metadata": {"name": name}, "spec": {**spec, **images, **own}}


def stored(server: Server, name: str, case: str) -> Schedulable:
    return msgspec.json.decode(create(server, PATH, manifest(name, case)), type=Schedulable)


def room(server: Server, name: str, amounts: dict[str, int]) -> None:
    """Make a node with exactly this room."""
    written = {key: f"{amount}m" if key == "cpu" else str(amount) for key, amount in amounts.items()}
    made = {"metadata": {"name": name, "labels": {"room": name}}, "status": {"allocatable": written}}
    create(server, "/api/v1/nodes", made)


def verdict(server: Server, name: str) -> str:
    """Return the node of a bound pod, or the message why it was not bound; empty before either."""
    _, pod = server.request("GET", f"{PATH}/{name}")
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled":
            return str(pod["spec"].get("nodeName") or condition["message"])
    return ""


def minor(server: Server) -> int:
    found = minor_of(server.release.minor)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_pod_takes_exactly_what_kube_scheduler_counts(cluster: Server, case: str) -> None:
    taken = pod_requests(stored(cluster, f"{case}-fits", case), minor(cluster))
    assert taken.unusable == ()
    room(cluster, f"{case}-fits", dict(taken.amounts))
    until(lambda: verdict(cluster, f"{case}-fits") == f"{case}-fits", f"{case} to be placed")
    for name, amount in taken.amounts.items():
        if name == PODS:
            continue
        short = f"{case}-{name.replace('/', '.').lower()}"
        room(cluster, short, {**taken.amounts, name: amount - 1})
        stored(cluster, short, case)
        # Until the scheduler has seen the node, its message reports no node for the pod.
        decided = (short, f"Insufficient {name}")
        until(partial(has_event, cluster, short, decided), f"a verdict on {short}")
        assert f"Insufficient {name}" in verdict(cluster, short)


def has_event(server: Server, name: str, words: tuple[str, ...]) -> bool:
    return any(each in verdict(server, name) for each in words)


@pytest.mark.parametrize("case", [case for case, spec in CASES.items() if "runtimeClassName" not in spec])
def test_defaults_of_a_server_count_in_a_file_too(cluster: Server, case: str) -> None:
    """Requests come from limits; only a server knows a pod's overhead."""
    written = manifest(f"{case}-dry", case)
    defaulted = msgspec.json.decode(create(cluster, f"{PATH}?dryRun=All", written), type=Schedulable)
    assert pod_requests(msgspec.convert(written, Schedulable)) == pod_requests(defaulted)
