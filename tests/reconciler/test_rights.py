"""The rights that docs/reconciler.md lists: enough for all that the reconciler does, and each one is used.

A process under an account that has these rights and no other does everything once, through a proxy that hears
what is asked. Then one right at a time is taken away: the process lives, says once what it may not do, and
does the rest.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
import yaml
from tests.autogroups.shapes import ASKING, GROUP_LABEL
from tests.autogroups.test_servers import CRDS, FOREIGN, LETS, controlled, definition
from tests.fixtures.proxy import Call, Proxy, Refuse, Where
from tests.fixtures.servers import Server, exclusive
from tests.live.cluster import CONTAINER, NATIVE
from tests.reconciler.running import (
    PODIUM_API,
    Place,
    Space,
    install,
    launch,
    new_class,
    until,
)
from tests.webhooks.running import ending

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

_PAGE = Path(__file__).parents[2] / "docs" / "reconciler.md"
_NAME, _NAMESPACE = "podium-controller", "podium-system"
_BLOCK = re.compile(r"```yaml\n(apiVersion: rbac\.authorization\.k8s\.io/v1\n.*?)```", re.DOTALL)
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_LEASES = "coordination.k8s.io"
_NATIVE_API = f"{NATIVE_GROUP}/{NATIVE[NEWEST.minor][0]}"
_LOW, _HIGH = "rights-low", "rights-high"
# How often something is asked for in vain before one looks how often that was said.
_REFUSALS = 3
_NUMBERS = itertools.count()
# What every account may ask.
_ANYBODY = re.compile(r"/version|/readyz|/apis(/[^/]+/[^/]+)?|/api/v1")
_RESOURCE = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/[^/]+(?=/))?/(?P<kind>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?"
)


class Right(NamedTuple):
    """One verb on one resource, which is `podgroups/status` of a subresource."""

    group: str
    resource: str
    verb: str


def documents() -> list[dict[str, Any]]:
    """Give the manifests of the page."""
    (block,) = _BLOCK.findall(_PAGE.read_text(encoding="utf-8"))
    return list(yaml.safe_load_all(block))


def rights(rules: Iterable[Mapping[str, Any]]) -> Iterator[Right]:
    """Give each right of some rules by itself."""
    for rule in rules:
        for names in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]):
            yield Right(*names)


def listed() -> set[Right]:
    """Give the rights that the page lists; none is there twice."""
    found = [each for document in documents() for each in rights(document.get("rules", ()))]
    assert len(found) == len(set(found))
    return set(found)


def used(call: Call) -> Right | None:
    """Give the right that a request takes; None for what everybody may."""
    if _ANYBODY.fullmatch(call.path):
        return None
    found = _RESOURCE.fullmatch(unquote(call.path))
    assert found is not None, call.path
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    reading = "get" if found["name"] else "watch" if call.watch else "list"
    resource = f"{found['kind']}/{found['sub']}" if found["sub"] else found["kind"]
    return Right(found["group"] or "", resource, verbs.get(call.method, reading))


class Account(NamedTuple):
    """A service account in its namespace, with the page's rights but for some."""

    server: Server
    namespace: str

    def kubeconfig(self, folder: Path, url: str = "") -> Path:
        """Write a kubeconfig of the account, which leads to `url` if one is given."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{_NAME}/token"
        code, answer = self.server.request("POST", path, {"spec": {"expirationSeconds": 3600}})
        assert code == 201, answer
        text = self.server.kubeconfig.read_text(encoding="utf-8")
        config = yaml.safe_load(text.replace(self.server.url, url or self.server.url))
        config["users"][0]["user"] = {"token": answer["status"]["token"]}
        config["contexts"][0]["context"]["namespace"] = self.namespace
        made = folder / f"{self.namespace}.kubeconfig"
        made.write_text(json.dumps(config), encoding="utf-8")
        return made


def account(server: Server, without: Iterable[Right] = ()) -> Account:
    """Make the account of the page and its roles; one that lacks rights has another namespace."""
    without = set(without)
    namespace = f"{_NAMESPACE}-{next(_NUMBERS)}" if without else _NAMESPACE
    _make(server, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    _make(server, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": _NAME}})
    for document in documents():
        kind = document["kind"]
        everywhere = kind.startswith("Cluster")
        metadata = {"name": namespace if everywhere else _NAME}
        made = {**document, "metadata": metadata}
        if "rules" in document:
            made["rules"] = [
                {
                    "apiGroups": [each.group],
                    "resources": [each.resource],
                    "verbs": [each.verb],
                    **_names(rule),
                }
                for rule in document["rules"]
                for each in rights([rule])
                if each not in without
            ]
        else:
            made["roleRef"] = {**document["roleRef"], "name": metadata["name"]}
            made["subjects"] = [{"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}]
        where = "" if everywhere else f"/namespaces/{namespace}"
        _make(server, f"{_RBAC}{where}/{kind.lower()}s", made)
    return Account(server, namespace)


def _names(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {"resourceNames": rule["resourceNames"]} if "resourceNames" in rule else {}


def _make(server: Server, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    code, answer = server.request("POST", path, body)
    assert code == 201, answer
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has every kind that the reconciler follows, native groups and Podium's."""
    with exclusive(NEWEST) as made:
        install(made)
        for kind in FOREIGN:
            _make(made, CRDS, definition(kind))
        paths = [f"/apis/{version}/{kind.lower()}s" for kind, version in FOREIGN.items()]
        until(lambda: all(made.request("GET", path)[0] == 200 for path in paths), "they are served")
        new_class(made, _LOW, 100)
        new_class(made, _HIGH, 1000)
        yield made


def divide(where: Place) -> Space:
    """Make a group and a pod that is not as it, in a namespace of their own."""
    space = Space(where)
    space.group("gang", _HIGH)
    space.pod("other", "gang", _LOW)
    return space


def ask_for_a_group(space: Space) -> str:
    """Have a Job whose pod asks for a group, as the webhook would label it; give the path of the Job."""
    jobs = f"/apis/batch/v1/namespaces/{space.name}/jobs"
    template = {"metadata": {"labels": ASKING}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    body = {"metadata": {"name": "train"}, "spec": {"parallelism": 2, "template": template}}
    space.ask("PATCH", f"/api/v1/namespaces/{space.name}", {"metadata": {"labels": LETS}})
    job = {"apiVersion": "batch/v1", "kind": "Job", **_make(space.server, jobs, body)}
    labels = {**ASKING, GROUP_LABEL: "train-job"}
    pod = {"name": "train-0", "labels": labels, "ownerReferences": controlled(job)}
    _make(space.server, space.pods_path(), {"metadata": pod, "spec": template["spec"]})
    return f"{jobs}/train"


def count(space: Space, name: str) -> int:
    """Give a group's minCount, 0 when there is no such group."""
    code, group = space.server.request("GET", space.groups_path(name))
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"]) if code == 200 else 0


def test_they_are_enough_and_each_is_used(server: Server, tmp_path: Path) -> None:
    """The process lists where no watch begins with a list, follows, and writes all that it ever writes."""
    podium, native = (Place(server, api) for api in (PODIUM_API, _NATIVE_API))
    lease = (_NAMESPACE, _NAME)
    with Proxy(server).running() as proxy:
        kubeconfig = account(server).kubeconfig(tmp_path, proxy.url)

        def asked() -> set[Right | None]:
            return {used(call) for call in list(proxy.calls)}

        with proxy.fault(Where(watch=True), Refuse(422, "Invalid")):
            older = launch(kubeconfig, tmp_path / "older", lease)
            with ending(older):
                older.until(lambda: {each for each in listed() if each.verb == "list"} <= asked(), "it lists")
        newer = launch(kubeconfig, tmp_path / "newer", lease)
        with ending(newer):
            divide(native).expect("gang", "True", "PriorityMismatch")
            space = divide(podium)
            space.expect("gang", "True", "PriorityMismatch")
            job = ask_for_a_group(space)
            newer.until(lambda: count(space, "train-job") == 2, "a group is made")
            space.ask("PATCH", job, {"spec": {"parallelism": 3}})
            newer.until(lambda: count(space, "train-job") == 3, "its count is changed")
            space.end("other")
            gone = space.groups_path("gang")
            space.ask("DELETE", gone)
            newer.until(lambda: server.request("GET", gone)[0] == 404, "the group is let go")
            newer.until(lambda: listed() <= asked(), "each right is used")
        assert asked() - {None} == listed()
        assert [call for call in proxy.calls if call.code == 403] == []
    assert "error" not in {name for event in newer.events for name in event}


class Lack(NamedTuple):
    """Rights that are taken away together: what the log calls it, and whether the rest goes on."""

    rights: tuple[Right, ...]
    event: str
    goes_on: bool


LACKS = {
    "pods cannot be read": Lack(
        (Right("", "pods", "list"), Right("", "pods", "watch")), "watch failed", goes_on=False
    ),
    "jobs cannot be read": Lack(
        (Right("batch", "jobs", "list"), Right("batch", "jobs", "watch")), "watch failed", goes_on=False
    ),
    "groups cannot be changed": Lack(
        (Right(PODIUM_GROUP, "podgroups", "patch"),), "write failed", goes_on=True
    ),
    "groups cannot be made": Lack(
        (Right(PODIUM_GROUP, "podgroups", "create"),), "write failed", goes_on=True
    ),
    "conditions cannot be written": Lack(
        (Right(PODIUM_GROUP, "podgroups/status", "patch"),), "write failed", goes_on=True
    ),
    "events cannot be sent": Lack(
        (Right("events.k8s.io", "events", "create"),), "event not sent", goes_on=True
    ),
    "the lease cannot be read": Lack((Right(_LEASES, "leases", "get"),), "lease not reached", goes_on=False),
    "the lease cannot be made": Lack(
        (Right(_LEASES, "leases", "create"),), "lease not reached", goes_on=False
    ),
    "the lease cannot be kept": Lack(
        (Right(_LEASES, "leases", "update"),), "lease not reached", goes_on=False
    ),
}


@pytest.mark.parametrize("lack", LACKS.values(), ids=list(LACKS))
def test_without_one(lack: Lack, server: Server, tmp_path: Path) -> None:
    """It is said once in the API server's words and asked for again; what needs it not goes on."""
    assert set(lack.rights) <= listed()
    limited = account(server, lack.rights)
    if Right(_LEASES, "leases", "create") not in lack.rights:
        leases = f"/apis/{_LEASES}/v1/namespaces/{limited.namespace}/leases"
        _make(server, leases, {"metadata": {"name": _NAME}})
    with Proxy(server).running() as proxy:
        kubeconfig = limited.kubeconfig(tmp_path, proxy.url)
        started = launch(kubeconfig, tmp_path / "one", (limited.namespace, _NAME))
        with ending(started):
            podium = [divide(Place(server, PODIUM_API)) for _ in range(_REFUSALS)]
            for space in podium:
                ask_for_a_group(space)

            def refused() -> list[Right | None]:
                return [used(call) for call in list(proxy.calls) if call.code == 403]

            def said() -> list[str]:
                return [each["error"] for each in started.events if each["event"] == lack.event]

            started.until(lambda: len(refused()) >= _REFUSALS and said() != [], "it was refused, and says so")
            for right in lack.rights:
                named = f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}"'
                assert len([error for error in said() if named in error]) <= 1
            assert all("cannot " in error for error in said())
            if lack.goes_on:
                divide(Place(server, _NATIVE_API)).expect("gang", "True", "PriorityMismatch")
            else:
                assert [space.conditions("gang") for space in podium] == [{}] * len(podium)
            assert set(refused()) <= set(lack.rights)
    assert "Traceback" not in started.log
