"""A large live cluster: PodGroups and their pods in a real API server, as many as a large company has.

Through the API that would take an hour. One group and two pods are made there, so that they look as stored
objects do (defaults, managedFields), and their copies go straight into etcd, behind the API server's back.
What is stored is protobuf, where a text can be replaced by another of the same length and by no other.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from bench import cluster
from tests.fixtures import faults
from tests.fixtures.servers import Server

from podium.controlplane import process
from podium.errors import PodiumError

NAMESPACES = 50
MEMBERS = 10
# One of so many groups has a pod of another class.
DIVERGENT_EVERY = 10
# What etcd takes in one transaction: 128 operations, 1.5 MB.
_TOGETHER = 100
_PATIENCE_SECONDS = 300.0
_CLASS, _OTHER = "research", "research-low"
_NAMESPACE, _GROUP, _NODE = "hole-ns", "hole-group", "hole-nodes"
_OWNER_UID = "00000000-0000-4000-8000-ffffffffffff"


class Template(NamedTuple):
    """A stored object: key and value in etcd, and its UID."""

    key: bytes
    value: bytes
    uid: str


def group_of(index: int) -> tuple[str, str]:
    """Give the namespace and name of a group."""
    return f"team-{index % NAMESPACES:02d}", f"gang-{index:05d}"


def pod_name(group: int, member: int) -> str:
    """Give the name of a pod; member 0 of a divergent group is the one that differs."""
    return f"gang-{group:05d}-{member}-x7k2p"


def fill(server: Server, groups: int) -> None:
    """Put so many groups, each with its pods, into a cluster. PodiumError when it refuses."""
    for name, value in cluster.CLASSES.items():
        document = {"metadata": {"name": name}, "value": value}
        _made(server.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", document))
    for name in (_NAMESPACE, *(f"team-{index:02d}" for index in range(NAMESPACES))):
        _made(server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
    group = _template(server, cluster.group_document(), _CLASS, _GROUP)
    same, other = (
        _template(server, cluster.pod_document(), class_name, f"hole-pod-{class_name[-3:]}-x7k2p")
        for class_name in (_CLASS, _OTHER)
    )
    for template in (group, same, other):
        faults.etcd(server, "kv/deleterange", {"key": _encoded(template.key)})
    for batch in _batches(_copies(group, same, other, groups)):
        puts = [{"requestPut": {"key": _encoded(key), "value": _encoded(value)}} for key, value in batch]
        faults.etcd(server, "kv/txn", {"success": puts})
    _wait_for(server, groups - 1)


def _template(server: Server, document: dict[str, Any], class_name: str, name: str) -> Template:
    """Make one object through the API, its status too, and give it as it is stored."""
    text = json.dumps(document)
    holes = {"@group@": _GROUP, "@pod@": name, "@ns@": _NAMESPACE, "@node@": _NODE, "@class@": class_name}
    for hole, value in {**holes, "@uid@": _OWNER_UID}.items():
        text = text.replace(hole, value)
    wanted = json.loads(text)
    # The API server's to say.
    del wanted["spec"]["priority"], wanted["metadata"]["uid"]
    wanted["metadata"].pop("resourceVersion", None)
    version = wanted["apiVersion"]
    path = f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{_NAMESPACE}"
    path += f"/{wanted['kind'].lower()}s"
    made = _made(server.request("POST", path, wanted))
    _made(server.request("PUT", f"{path}/{name}/status", {**made, "status": wanted["status"]}))
    return _stored(server, name, made["metadata"]["uid"])


def _stored(server: Server, name: str, uid: str) -> Template:
    """Find what etcd has of an object in our namespace."""
    everything = {"key": _encoded(b"/"), "range_end": _encoded(b"0")}
    for each in faults.etcd(server, "kv/range", everything)["kvs"]:
        key = base64.b64decode(each["key"])
        if key.endswith(f"/{_NAMESPACE}/{name}".encode()):
            return Template(key, base64.b64decode(each["value"]), uid)
    raise PodiumError(f"etcd has no {_NAMESPACE}/{name}")


def _copies(group: Template, same: Template, other: Template, groups: int) -> Iterator[tuple[bytes, bytes]]:
    """Give every key with its value."""
    for index in range(groups):
        namespace, name = group_of(index)
        shared = {_NAMESPACE: namespace, _GROUP: name, _OWNER_UID: f"00000000-0000-4000-8000-{index:012x}"}
        yield _copy(group, {**shared, group.uid: f"00000000-0000-4000-8001-{index:012x}"})
        for member in range(MEMBERS):
            pod = other if member == 0 and index % DIVERGENT_EVERY == 0 else same
            serial = index * MEMBERS + member
            own = {
                pod.key.rpartition(b"/")[2].decode(): pod_name(index, member),
                _NODE: f"node-{serial % 5000:05d}",
                pod.uid: f"00000000-0000-4000-8002-{serial:012x}",
            }
            yield _copy(pod, {**shared, **own})


def _copy(template: Template, replaced: dict[str, str]) -> tuple[bytes, bytes]:
    key, value = template.key, template.value
    for hole, text in replaced.items():
        assert len(hole) == len(text), (hole, text)
        key, value = key.replace(hole.encode(), text.encode()), value.replace(hole.encode(), text.encode())
    return key, value


def _batches(copies: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    left = iter(copies)
    while batch := list(islice(left, _TOGETHER)):
        yield batch


def _wait_for(server: Server, group: int) -> None:
    """Wait until the API server's cache has the last pod."""
    namespace, _ = group_of(group)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod_name(group, MEMBERS - 1)}?resourceVersion=0"
    if not process.wait_until(lambda: server.request("GET", path)[0] == 200, seconds=_PATIENCE_SECONDS):
        raise PodiumError(f"the API server knows no {path} after {_PATIENCE_SECONDS:.0f} s")


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _made(answer: tuple[int, Any]) -> Any:
    code, document = answer
    if code not in (200, 201):
        raise PodiumError(f"HTTP {code}: {document}")
    return document
