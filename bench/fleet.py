"""A large live cluster: PodGroups and their pods in a real API server, as many as a large company has.

Creating them through the API would take an hour. The API creates one group and two pods, so they are like all
stored objects (defaults, managedFields). Their copies are written to etcd directly. The stored bytes are
protobuf, where a text can be replaced only by another of the same length.
"""

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from bench import cluster
from tests.support import recycling
from tests.support.servers import Server
from tools.devcluster.controlplane import process, state
from tools.devcluster.controlplane.components import log

from podium.errors import PodiumError

NAMESPACES = 50
MEMBERS = 10
# One of this many groups has a pod of another class.
DIVERGENT_EVERY = 10
# etcd's limits for one transaction: 128 operations, 1.5 MB.
_TOGETHER = 100
_PATIENCE_SECONDS = 300.0
_GRACE_SECONDS = 2.0
# The growth of the heap between collections, in percent (100 is the default), and the size above which it
# does not apply.
_ROOM = {"GOGC": "400", "GOMEMLIMIT": "10GiB"}
# The label of the divergent pods.
DIFFERING = "bench.podium.dev/differs"
_NAMESPACE, _GROUP, _NODE = "hole-ns", "hole-group", "hole-nodes"
_STEP = "step 000000"
_OWNER_UID = "00000000-0000-4000-8000-ffffffffffff"
_CLASS, _OTHER = "research", "research-low"


class Template(NamedTuple):
    """A stored object: key and value in etcd, and its UID."""

    key: bytes
    value: bytes
    uid: str


class Fleet(NamedTuple):
    """The stored objects of a filled cluster.

    `other` is the pod that differs from its group, `ended` the same pod after it has ended.
    """

    server: Server
    groups: int
    group: Template
    same: Template
    other: Template
    ended: Template

    @property
    def divergent(self) -> range:
        """Return the indices of the groups that have a pod of another class: their member 0."""
        return range(0, self.groups, DIVERGENT_EVERY)

    def put_pod(self, group: int, member: int, *, ended: bool = False, step: int = 0) -> None:
        """Store a pod at some step in etcd directly; the API server's watch sees it at once."""
        self._put([self._pod(group, member, ended=ended, step=step)])

    def fill(self) -> None:
        """Store every group and pod and wait until the API server knows them."""
        objects = self._everything()
        while batch := list(islice(objects, _TOGETHER)):
            self._put(batch)
        namespace, _ = group_of(self.groups - 1)
        last = (
            f"/api/v1/namespaces/{namespace}/pods/{pod_name(self.groups - 1, MEMBERS - 1)}?resourceVersion=0"
        )
        known = process.wait_until(
            lambda: self.server.request("GET", last)[0] == 200, seconds=_PATIENCE_SECONDS
        )
        if not known:
            raise PodiumError(f"the API server has no {last} after {_PATIENCE_SECONDS:.0f} s")

    def _everything(self) -> Iterator[tuple[bytes, bytes]]:
        for index in range(self.groups):
            yield _copy(self.group, index, {self.group.uid: f"00000000-0000-4000-8001-{index:012x}"})
            for member in range(MEMBERS):
                yield self._pod(index, member)

    def _pod(self, group: int, member: int, *, ended: bool = False, step: int = 0) -> tuple[bytes, bytes]:
        differs = member == 0 and group in self.divergent
        template = (self.ended if ended else self.other) if differs else self.same
        serial = group * MEMBERS + member
        own = {
            template.key.rpartition(b"/")[2].decode(): pod_name(group, member),
            template.uid: f"00000000-0000-4000-8002-{serial:012x}",
            _NODE: f"node-{serial % 5000:05d}",
            _STEP: f"step {step % 1_000_000:06d}",
        }
        return _copy(template, group, own)

    def _put(self, objects: list[tuple[bytes, bytes]]) -> None:
        puts = [{"requestPut": {"key": _encoded(key), "value": _encoded(value)}} for key, value in objects]
        recycling.etcd(self.server.folder, "kv/txn", {"success": puts})


@contextlib.contextmanager
def roomy(server: Server) -> Iterator[None]:
    """Make the API server collect garbage rarely, until its end.

    By default it collects whenever its heap has doubled, and gigabytes keep two processors busy for seconds.
    API servers of such clusters have more processors; here every process would wait for this one.
    """
    known = state.load(server.folder)
    assert known is not None
    started = known.components["kube-apiserver"].process
    argv = Path(f"/proc/{started.pid}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
    process.stop([started], grace=_GRACE_SECONDS)
    server.client.close()
    with (server.folder / log("kube-apiserver")).open("ab") as output:
        server_process = subprocess.Popen(
            argv,
            cwd=server.folder,
            env={"PATH": os.defpath, "HOME": str(server.folder), **_ROOM},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        if not process.wait_until(lambda: _is_ready(server), seconds=_PATIENCE_SECONDS):
            raise PodiumError(f"the API server is not ready after {_PATIENCE_SECONDS:.0f} s")
        yield
    finally:
        server_process.kill()
        server_process.wait()


def group_of(index: int) -> tuple[str, str]:
    """Return the namespace and name of a group."""
    return f"team-{index % NAMESPACES:02d}", f"gang-{index:05d}"


def pod_name(group: int, member: int) -> str:
    """Return the name of a pod."""
    return f"gang-{group:05d}-{member}-x7k2p"


def filled(server: Server, groups: int) -> Fleet:
    """Write this many groups, each with its pods, to an empty cluster.

    Raises PodiumError if etcd refuses.
    """
    for name, value in cluster.CLASSES.items():
        document = {"metadata": {"name": name}, "value": value}
        _made(server.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", document))
    for name in (_NAMESPACE, *(f"team-{index:02d}" for index in range(NAMESPACES))):
        _made(server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
    group, pod = cluster.group_document(), cluster.pod_document()
    pod["status"]["message"] = _STEP
    other = {**pod, "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], DIFFERING: ""}}}
    ended = {**other, "status": {**pod["status"], "phase": "Succeeded"}}
    fleet = Fleet(
        server,
        groups,
        _template(server, group, _CLASS, _GROUP),
        _template(server, pod, _CLASS, "hole-pod-one-x7k2p"),
        _template(server, other, _OTHER, "hole-pod-two-x7k2p"),
        _template(server, ended, _OTHER, "hole-pod-end-x7k2p"),
    )
    for template in fleet[2:]:
        recycling.etcd(server.folder, "kv/deleterange", {"key": _encoded(template.key)})
    fleet.fill()
    return fleet


def _template(server: Server, document: dict[str, Any], class_name: str, name: str) -> Template:
    """Create one object through the API, with its status, and return it as stored."""
    text = json.dumps(document)
    holes = {"@group@": _GROUP, "@pod@": name, "@ns@": _NAMESPACE, "@node@": _NODE, "@class@": class_name}
    for hole, value in {**holes, "@uid@": _OWNER_UID}.items():
        text = text.replace(hole, value)
    manifest = json.loads(text)
    # Fields that the API server sets.
    del manifest["spec"]["priority"], manifest["metadata"]["uid"]
    manifest["metadata"].pop("resourceVersion", None)
    version = manifest["apiVersion"]
    path = f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{_NAMESPACE}"
    path += f"/{manifest['kind'].lower()}s"
    made = _made(server.request("POST", path, manifest))
    _made(server.request("PUT", f"{path}/{name}/status", {**made, "status": manifest["status"]}))
    return _stored(server, name, made["metadata"]["uid"])


def _is_ready(server: Server) -> bool:
    with contextlib.suppress(OSError, HTTPException):
        return server.request("GET", "/readyz")[0] == 200
    return False


def _stored(server: Server, name: str, uid: str) -> Template:
    """Return etcd's key and value of an object in our namespace."""
    everything = {"key": _encoded(b"/"), "range_end": _encoded(b"0")}
    for entry in recycling.etcd(server.folder, "kv/range", everything)["kvs"]:
        key = base64.b64decode(entry["key"])
        if key.endswith(f"/{_NAMESPACE}/{name}".encode()):
            return Template(key, base64.b64decode(entry["value"]), uid)
    raise PodiumError(f"etcd has no {_NAMESPACE}/{name}")


def _copy(template: Template, group: int, own: dict[str, str]) -> tuple[bytes, bytes]:
    """Return key and value of a copy for one group."""
    namespace, name = group_of(group)
    owner = f"00000000-0000-4000-8000-{group:012x}"
    key, value = template.key, template.value
    for hole, text in {_NAMESPACE: namespace, _GROUP: name, _OWNER_UID: owner, **own}.items():
        assert len(hole) == len(text), (hole, text)
        key, value = key.replace(hole.encode(), text.encode()), value.replace(hole.encode(), text.encode())
    return key, value


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _made(answer: tuple[int, Any]) -> Any:
    code, document = answer
    if code not in (200, 201):
        raise PodiumError(f"HTTP {code}: {document}")
    return document
