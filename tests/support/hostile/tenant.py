"""A tenant: a ServiceAccount with the ClusterRole `edit` in one namespace, and methods for its writes.

The API server must accept every write, because a refused object cannot reach Podium.
"""

import contextlib
import http.client
import itertools
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from tests.support.connection.cluster import NATIVE
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS
from tools.devcluster.controlplane.releases import Release

from podium.api.devices import DEVICE_API
from podium.api.groups import GROUP_LABEL

# The HTTP client decodes nothing, because an object of a hostile tenant may exceed a decoder's limits.
_TIMEOUT_SECONDS = 60.0
_FORCE = "gracePeriodSeconds=0&propagationPolicy=Background"
# The requested form: names only of a list, metadata only of an object; the whole object if that is refused.
_META = "g=meta.k8s.io;v=v1"
NAMES = f"application/json;as=Table;{_META},application/json"
_BRIEF_LIST = f"application/json;as=PartialObjectMetadataList;{_META},application/json"
BRIEF = f"application/json;as=PartialObjectMetadata;{_META},application/json"


class Answer(NamedTuple):
    """A status code and the undecoded body."""

    code: int
    body: bytes


class Wire:
    """A persistent connection to an API server with a token.

    Not thread-safe.
    """

    def __init__(self, server: Server, token: str) -> None:
        self._token = token
        parts = urlsplit(server.url)
        context = ssl.create_default_context(cafile=str(server.access.authority))
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS, context=context
        )

    def request(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", accept: str = BRIEF
    ) -> Answer:
        """Send one request; a body that is not bytes is sent as JSON."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept, "Content-Type": kind}
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def names(self, path: str) -> list[str]:
        """Return the names of the objects of a collection."""
        answer = self.request("GET", f"{path}?includeObject=None", accept=NAMES)
        assert answer.code == 200, answer.body[:2000]
        return [row["cells"][0] for row in json.loads(answer.body).get("rows", ())]

    def clear(self, path: str) -> None:
        """Request the deletion of all objects of a collection."""
        answer = self.request("DELETE", f"{path}?{_FORCE}", accept=_BRIEF_LIST)
        assert answer.code in (200, 500, 504), answer.body[:2000]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


NAMESPACE = "tenant"
ACCOUNT = "somebody"
MERGE = "application/merge-patch+json"
# A write that the API server had no time for, beside the largest objects on a slow machine, is sent again.
_NO_TIME, _REPETITIONS = 504, 3
# For objects with finalizers, or that another client keeps writing.
_BETWEEN_SECONDS = 0.05
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
# The controller that aggregates these roles into `edit` does not run here.
_PARTS = ("rbac.authorization.k8s.io/aggregate-to-edit", "rbac.authorization.k8s.io/aggregate-to-view")
# The annotation that fills a pod.
PAD = "pad"
# The namespace's administrator allows auto groups.
_ASKING = {"scheduling.podium.dev/auto-groups": "true"}

PODS = "/api/v1/namespaces/tenant/pods"
CLAIMS = "/api/v1/namespaces/tenant/persistentvolumeclaims"
DEVICE_CLAIMS = f"/apis/{DEVICE_API}/namespaces/tenant/resourceclaims"
BUDGETS = "/apis/policy/v1/namespaces/tenant/poddisruptionbudgets"
JOBS = "/apis/batch/v1/namespaces/tenant/jobs"
SETS = "/apis/apps/v1/namespaces/tenant/statefulsets"
GROUPS = "/apis/scheduling.podium.dev/v1beta1/namespaces/tenant/podgroups"
OLD_GROUPS = "/apis/scheduling.podium.dev/v1alpha2/namespaces/tenant/podgroups"
COMPOSITES = "/apis/scheduling.podium.dev/v1beta1/namespaces/tenant/compositepodgroups"
WORKLOADS = "/apis/scheduling.podium.dev/v1beta1/namespaces/tenant/workloads"


def native(release: Release) -> str:
    """Return the path of the namespace in the API server's own Workload API."""
    return f"/apis/scheduling.k8s.io/{NATIVE[release.minor][0]}/namespaces/{NAMESPACE}"


def collections(release: Release) -> tuple[str, ...]:
    """Return all collections that a tenant of these tests writes to."""
    own = (PODS, JOBS, SETS, CLAIMS, DEVICE_CLAIMS, BUDGETS, GROUPS, COMPOSITES, WORKLOADS)
    return (*own, f"{native(release)}/podgroups", f"{native(release)}/workloads")


def settle(server: Server) -> str:
    """Create the namespace and the account; return its token."""
    _made(server, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": _ASKING}})
    _made(server, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    code, roles = server.request("GET", f"{_RBAC}/clusterroles")
    assert code == 200, roles
    for role in roles["items"]:
        labels, name = role["metadata"].get("labels", {}), role["metadata"]["name"]
        if any(labels.get(part) == "true" for part in _PARTS) and "rules" in role:
            subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
            body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
            _made(server, f"{_RBAC}/namespaces/{NAMESPACE}/rolebindings", body)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    token: str = _made(server, path, {"spec": {"expirationSeconds": 36000}})["status"]["token"]
    return token


def _made(server: Server, path: str, body: Mapping[str, Any]) -> Any:
    code, answer = server.request("POST", path, body)
    assert code == 201, answer
    return answer


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    """Return a container without requests."""
    return {"name": name, "image": "none", **fields}


class Tenant:
    """The writes of one row, on a connection of their own; names begin with the row's."""

    def __init__(self, server: Server, token: str, prefix: str) -> None:
        self.server = server
        self.prefix = prefix
        self._token = token
        self._wire = Wire(server, token)
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.collections: set[str] = set()

    def close(self) -> None:
        """Stop the background work, and close the connection."""
        self._over.set()
        for each in self._threads:
            each.join()
        self._wire.close()

    def meanwhile(self, act: Callable[[threading.Event], None]) -> None:
        """Run a function on a thread; `close` sets its event and waits for it."""
        thread = threading.Thread(target=act, args=(self._over,), name=f"tenant {self.prefix}")
        self._threads.append(thread)
        thread.start()

    @contextlib.contextmanager
    def another(self, prefix: str) -> Iterator["Tenant"]:
        """Yield another connection, for another thread; its writes are counted here."""
        with contextlib.closing(Tenant(self.server, self._token, prefix)) as made:
            made.collections = self.collections
            yield made

    @property
    def native_groups(self) -> str:
        """The collection of the API server's own PodGroups."""
        return f"{native(self.server.release)}/podgroups"

    @property
    def native_workloads(self) -> str:
        """The collection of the API server's own Workloads."""
        return f"{native(self.server.release)}/workloads"

    def name(self, suffix: str = "") -> str:
        """Return a name that this row has not used."""
        return f"{self.prefix}-{suffix or next(self._numbers)}"

    def write(self, method: str, path: str, body: Any = None, *, kind: str = MERGE) -> None:
        """Send a write, which must be accepted; again if the API server had no time for it."""
        answer = self.tried(method, path, body, kind=kind)
        accepted = {200, 201, 202}
        for _ in range(_REPETITIONS):
            if answer.code != _NO_TIME:
                break
            # It may have done the work.
            accepted.add(409 if method == "POST" else 404)
            answer = self.tried(method, path, body, kind=kind)
        assert answer.code in accepted, f"{method} {path}: {answer.code} {answer.body[:2000]!r}"

    def tried(self, method: str, path: str, body: Any = None, *, kind: str = MERGE) -> Answer:
        """Send a write; return the answer."""
        if method == "POST" and path in collections(self.server.release):
            self.collections.add(path)
        return self._wire.request(method, path, body, kind=kind if method == "PATCH" else "application/json")

    def read(self, path: str) -> bytes:
        """Return the whole response of a path."""
        answer = self._wire.request("GET", path, accept="application/json")
        assert answer.code == 200, answer.body[:2000]
        return answer.body

    def create(self, collection: str, body: Mapping[str, Any]) -> str:
        """Create an object, with a new name if it has none; return its name."""
        metadata = dict(body.get("metadata", {}))
        name: str = metadata.setdefault("name", self.name())
        self.write("POST", collection, {**body, "metadata": metadata})
        return name

    def patch(self, collection: str, name: str, body: Any) -> None:
        """Merge into an object."""
        self.write("PATCH", f"{collection}/{name}", body)

    def pod(
        self,
        *containers: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        group: str = "",
        **spec: Any,
    ) -> str:
        """Create a pod of Podium's scheduler; return its name.

        Its requests are those of its containers.
        """
        named = dict(metadata or {})
        if group:
            named["labels"] = {**named.get("labels", {}), GROUP_LABEL: group}
        fields = {
            "schedulerName": "podium-scheduler",
            "tolerations": [{"operator": "Exists"}],
            "containers": list(containers) or [container()],
            **spec,
        }
        return self.create(PODS, {"metadata": named, "spec": fields})

    def group(self, least: int | None = None, *, metadata: Any = None, **spec: Any) -> str:
        """Create one of Podium's groups; return its name."""
        policy: dict[str, Any] = {"basic": {}} if least is None else {"gang": {"minCount": least}}
        body = {
            "apiVersion": "scheduling.podium.dev/v1beta1",
            "kind": "PodGroup",
            "metadata": metadata or {},
            "spec": {"schedulingPolicy": policy, **spec},
        }
        return self.create(GROUPS, body)

    def native_group(self, least: int | None = None, *, metadata: Any = None, **spec: Any) -> str:
        """Create one of the API server's own groups; return its name."""
        policy: dict[str, Any] = {"basic": {}} if least is None else {"gang": {"minCount": least}}
        body = {"metadata": metadata or {}, "spec": {"schedulingPolicy": policy, **spec}}
        return self.create(self.native_groups, body)

    def job(self, template: Mapping[str, Any], *, metadata: Any = None, **spec: Any) -> str:
        """Create a suspended Job; return its name."""
        pod = {
            "metadata": template.get("metadata", {}),
            "spec": {"restartPolicy": "Never", **template["spec"]},
        }
        body = {"metadata": metadata or {}, "spec": {"suspend": True, "template": pod, **spec}}
        return self.create(JOBS, body)


def clear(server: Server, collections: Iterable[str]) -> None:
    """Delete all objects of some collections, with their finalizers."""
    with contextlib.closing(Wire(server, server.access.token)) as wire:
        for path in collections:
            # The answer comes when all objects are deleted; a pause of the same length would double the time.
            began = time.monotonic()
            while not _cleared(wire, path):
                assert time.monotonic() - began < PATIENCE_SECONDS, f"{path} is not empty"
                time.sleep(_BETWEEN_SECONDS)


def _cleared(wire: Wire, path: str) -> bool:
    # An API server ends a request after a minute, and still finishes its work.
    with contextlib.suppress(OSError, http.client.HTTPException):
        wire.clear(path)
    with contextlib.suppress(OSError, http.client.HTTPException):
        left = wire.names(path)
        for name in left:
            # A pod that is full to etcd's byte cannot be deleted.
            metadata = {"finalizers": None, "annotations": {PAD: None}}
            wire.request("PATCH", f"{path}/{name}", {"metadata": metadata}, kind=MERGE)
        return not left
    return False
