"""The return of a used server to its unused state, so that the next test need not start another.

Stored objects are compared in etcd: new ones are deleted, others get their value back, and the API server
sees both by its watches. Its memory follows from the objects. So it is reset once its informers have seen the
last change, and once it serves its own API versions only.

A server is not reset if a test may have left what nothing shows: with other settings, with a client that is
still connected, and after an admission policy, because the API server looks for changed ones once a second.
"""

import base64
import http.client
import json
import re
import shutil
import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.components import ETCD_SOCKET, ClusterSettings, log
from tools.devcluster.controlplane.process import wait_until
from tools.devcluster.controlplane.state import ControlPlaneState, access, load

_SECONDS = 20.0
_REGISTRY = "/registry/"
# The server renews its identity, whatever tests do.
_IDENTITY = (f"{_REGISTRY}leases/kube-system/apiserver-", f"{_REGISTRY}peerserverleases/")
_SERVICES = f"{_REGISTRY}apiregistration.k8s.io/apiservices/"
# The API server deletes what it made for a CustomResourceDefinition.
_AUTOMATIC = b"kube-aggregator.kubernetes.io/automanaged"
_POLICIES = re.compile(rf"{_REGISTRY}(validating|mutating)admissionpolic")
# The API server logs that it reads the policies of both kinds at its start, and again after each change.
_STARTED, _REFRESHED = "Golang settings", "refreshing policies"
# etcd refuses longer transactions.
_OPERATIONS = 128
# The kinds that the API server's own informers read to answer requests about others, by their place in etcd.
_INFORMED = {
    "deviceclasses/reset": ("resource.k8s.io/v1", "DeviceClass"),
    "clusterrolebindings/reset": ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    "clusterroles/reset": ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    "ingressclasses/reset": ("networking.k8s.io/v1", "IngressClass"),
    "limitranges/default/reset": ("v1", "LimitRange"),
    "minions/reset": ("v1", "Node"),
    "mutatingwebhookconfigurations/reset": (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
    ),
    "namespaces/reset": ("v1", "Namespace"),
    "pods/default/reset": ("v1", "Pod"),
    "priorityclasses/reset": ("scheduling.k8s.io/v1", "PriorityClass"),
    "resourceclaims/default/reset": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourcequotas/default/reset": ("v1", "ResourceQuota"),
    "rolebindings/default/reset": ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    "roles/default/reset": ("rbac.authorization.k8s.io/v1", "Role"),
    "runtimeclasses/reset": ("node.k8s.io/v1", "RuntimeClass"),
    "secrets/default/reset": ("v1", "Secret"),
    "serviceaccounts/default/reset": ("v1", "ServiceAccount"),
    "storageclasses/reset": ("storage.k8s.io/v1", "StorageClass"),
    "validatingwebhookconfigurations/reset": (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
    ),
}
_SAMPLE = re.compile(
    r'^informer_(store_resource_version|queued_items)\{.*resource="(\w+)".*\} (\S+)$', re.MULTILINE
)


class Unused(msgspec.Struct, frozen=True):
    """A server before its first test: settings, stored objects by key, files."""

    settings: ClusterSettings
    objects: dict[str, bytes]
    files: frozenset[str]


def unused(folder: Path) -> Unused:
    """Return what `reset` needs of the server in a folder, which was only started."""
    state = load(folder)
    assert state is not None
    return Unused(state.settings, _objects(folder), _files(folder))


def reset(folder: Path, before: Unused) -> bool:
    """Undo what tests did with a server; return False if that is not possible for certain."""
    state = load(folder)
    if state is None or state.settings != before.settings or not all(map(state.runs, state.components)):
        return False
    if _has_had_policies(folder, before) or _connected(state):
        return False
    with closing(access(folder, state.settings).client()) as client:
        done = (
            wait_until(lambda: _restored(folder, before), seconds=_SECONDS)
            and wait_until(lambda: _extra_versions(client, before) == set(), seconds=_SECONDS)
            and _informed(folder, client)
            and not _changes(folder, before)
        )
    for name in _files(folder) - before.files:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return done


def etcd(folder: Path, call: str, body: dict[str, Any]) -> Any:
    """Make one call of etcd's JSON gateway; components.py says where it listens."""
    with closing(_ToSocket(folder / ETCD_SOCKET)) as connection:
        connection.request("POST", f"/v3/{call}", json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
    assert response.status == 200, answer
    return answer


class _ToSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _objects(folder: Path) -> dict[str, bytes]:
    first, last = _REGISTRY.encode(), _REGISTRY[:-1].encode() + b"0"
    answer = etcd(folder, "kv/range", {"key": _encoded(first), "range_end": _encoded(last)})
    pairs = ((base64.b64decode(kv["key"]).decode(), base64.b64decode(kv["value"])) for kv in answer["kvs"])
    return {key: value for key, value in pairs if not key.startswith(_IDENTITY)}


def _write(folder: Path, values: Mapping[str, bytes | None]) -> int:
    """Store values, and delete the keys that have none; return etcd's revision."""
    revision = 0
    operations = [
        {"requestDeleteRange": {"key": _encoded(key.encode())}}
        if value is None
        else {"requestPut": {"key": _encoded(key.encode()), "value": _encoded(value)}}
        for key, value in values.items()
    ]
    for start in range(0, len(operations), _OPERATIONS):
        answer = etcd(folder, "kv/txn", {"success": operations[start : start + _OPERATIONS]})
        revision = int(answer["header"]["revision"])
    return revision


def _changes(folder: Path, before: Unused) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Return the stored and the former value of each changed object."""
    now = _objects(folder)
    return {
        key: (now.get(key), before.objects.get(key))
        for key in sorted(now.keys() | before.objects.keys())
        if now.get(key) != before.objects.get(key)
    }


def _restored(folder: Path, before: Unused) -> bool:
    """Return whether no object has changed; restore those that have."""
    changes = _changes(folder, before)
    _write(
        folder,
        {
            key: former
            for key, (stored, former) in changes.items()
            if not (key.startswith(_SERVICES) and former is None and _AUTOMATIC in (stored or b""))
        },
    )
    return not changes


def _extra_versions(client: Client, before: Unused) -> set[str]:
    """Return the API versions in discovery and OpenAPI that the unused server does not serve."""
    # The API of APIServices is served without one.
    own = {f"v1.{_SERVICES.split('/')[2]}"}
    own |= {key.removeprefix(_SERVICES) for key in before.objects if key.startswith(_SERVICES)}
    groups = client.request("GET", "/apis")[1]["groups"]
    listed = {version["groupVersion"] for group in groups for version in group["versions"]}
    described = {
        path.removeprefix("apis/")
        for path in json.loads(client.exchange("GET", "/openapi/v3", b"", ())[1])["paths"]
        if re.fullmatch("apis/[^/]+/[^/]+", path)
    }
    return {name for name in listed | described if ".".join(reversed(name.split("/"))) not in own}


def _informed(folder: Path, client: Client) -> bool:
    """Return whether the informers have seen a change of each kind that comes after all others."""
    objects = {
        f"{_REGISTRY}{place}": json.dumps(
            {
                "apiVersion": version,
                "kind": kind,
                "metadata": {"name": "reset", "uid": "reset"}
                | ({"namespace": "default"} if "/default/" in place else {}),
            }
        ).encode()
        for place, (version, kind) in _INFORMED.items()
    }
    _write(folder, objects)
    revision = _write(folder, dict.fromkeys(objects))
    # The metrics name them in this way: priorityclasss.
    resources = {f"{kind.lower()}s" for _, kind in _INFORMED.values()}

    def seen() -> bool:
        text = client.exchange("GET", "/metrics", b"", ())[1].decode()
        samples = [sample for sample in _SAMPLE.findall(text) if sample[1] in resources]
        return bool(samples) and all(
            float(value) >= revision if name == "store_resource_version" else float(value) == 0
            for name, _, value in samples
        )

    return wait_until(seen, seconds=_SECONDS)


def _has_had_policies(folder: Path, before: Unused) -> bool:
    """Return whether there is or was an admission policy."""
    logged = (folder / log("kube-apiserver")).read_text(encoding="utf-8", errors="replace")
    is_stored = _POLICIES.search("\n".join(_changes(folder, before))) is not None
    return is_stored or logged.count(_REFRESHED) > 2 * logged.count(_STARTED)


def _connected(state: ControlPlaneState) -> bool:
    """Return whether another process has a connection to the API server, or may have one without /proc."""
    files = Path(f"/proc/{state.components['kube-apiserver'].process.pid}/fd")
    if not files.is_dir():
        return True
    own = set()
    for file in files.iterdir():
        with suppress(FileNotFoundError):  # It was closed meanwhile.
            own.add(str(file.readlink()))
    port = f":{state.settings.ports['kube-apiserver']:04X}"
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    # The remote address, the state (01 is an established connection) and the inode.
    clients = (fields for line in lines if (fields := line.split())[2].endswith(port) and fields[3] == "01")
    return any(f"socket:[{fields[9]}]" not in own for fields in clients)


def _files(folder: Path) -> frozenset[str]:
    return frozenset(path.name for path in folder.iterdir())
