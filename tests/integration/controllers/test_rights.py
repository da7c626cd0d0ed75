"""The rights in docs/reconciler-reference.md are enough for all work of the reconciler, and each one is used.

A process under an account with only these rights does everything once, through a proxy that records its
requests. Then one right at a time is removed: the process stays up, logs the missing right once, and does the
rest.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.integration.groups.autogroups.test_servers import CRDS, FOREIGN, LETS, controlled, definition
from tests.support.autogroups import ASKING, GROUP_LABEL
from tests.support.connection.cluster import CONTAINER, NATIVE
from tests.support.controllers.running import PODIUM_API, Place, Space, install, launch, new_class
from tests.support.proxy import Proxy, Refuse, Where
from tests.support.rights import NAMESPACE, Page, Right, asked, make, used
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tests.support.webhooks.running import ending
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.podkinds.leaderworkerset import LWS_GROUP, LWS_NAME
from podium.groups.autogroups import TREE_LABEL

pytestmark = pytest.mark.server

_NAME = "podium-controller"
_PAGE = Page("reconciler-reference.md", _NAME)
_LEASES = "coordination.k8s.io"
_NATIVE_API = f"{NATIVE_GROUP}/{NATIVE[NEWEST.minor][0]}"
_LOW, _HIGH = "rights-low", "rights-high"
# Failed requests before the test counts the log events.
_REFUSALS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a server with every kind that the reconciler watches, native groups and Podium's."""
    with exclusive(NEWEST) as made:
        install(made)
        for kind in FOREIGN:
            make(made, CRDS, definition(kind))
        paths = [f"/apis/{version}/{kind.lower()}s" for kind, version in FOREIGN.items()]
        until(lambda: all(made.request("GET", path)[0] == 200 for path in paths), "they are served")
        new_class(made, _LOW, 100)
        new_class(made, _HIGH, 1000)
        yield made


def divide(where: Place) -> Space:
    """Create a group and a divergent pod in a new namespace."""
    space = Space(where)
    space.group("gang", _HIGH)
    space.pod("other", "gang", _LOW)
    return space


def ask_for_a_group(space: Space) -> str:
    """Create a Job whose pod requests a group, as the webhook would label it; return the Job's path."""
    jobs = f"/apis/batch/v1/namespaces/{space.name}/jobs"
    template = {"metadata": {"labels": ASKING}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    body = {"metadata": {"name": "train"}, "spec": {"parallelism": 2, "template": template}}
    space.ask("PATCH", f"/api/v1/namespaces/{space.name}", {"metadata": {"labels": LETS}})
    job = {"apiVersion": "batch/v1", "kind": "Job", **make(space.server, jobs, body)}
    labels = {**ASKING, GROUP_LABEL: "train-job"}
    pod = {"name": "train-0", "labels": labels, "ownerReferences": controlled(job)}
    make(space.server, space.pods_path(), {"metadata": pod, "spec": template["spec"]})
    return f"{jobs}/train"


def ask_for_a_tree(space: Space) -> None:
    """Create a LeaderWorkerSet whose pod requests a tree, and the pod as the webhook would label it."""
    version = FOREIGN["LeaderWorkerSet"]
    labels = {**ASKING, TREE_LABEL: "auto"}
    spec = {"leaderWorkerTemplate": {"size": 1, "workerTemplate": {"metadata": {"labels": labels}}}}
    sets = f"/apis/{version}/namespaces/{space.name}/leaderworkersets"
    lws = {"apiVersion": version, "kind": "LeaderWorkerSet", "metadata": {"name": "serve"}, "spec": spec}
    make(space.server, sets, lws)
    labels |= {GROUP_LABEL: "serve-0-lws", LWS_NAME: "serve", LWS_GROUP: "0"}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve", "uid": "1", "controller": True}
    pod = {"name": "serve-0", "labels": labels, "ownerReferences": [owner]}
    make(space.server, space.pods_path(), {"metadata": pod, "spec": {"containers": [CONTAINER]}})


def count(space: Space, name: str) -> int:
    """Return a group's minCount, 0 if the group does not exist."""
    code, group = space.server.request("GET", space.groups_path(name))
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"]) if code == 200 else 0


def use_each(server: Server, proxy: Proxy, kubeconfig: Path, folder: Path) -> None:
    """List where watches cannot send the initial list, watch, and make every kind of write."""
    podium, native = (Place(server, api) for api in (PODIUM_API, _NATIVE_API))
    lease = (NAMESPACE, _NAME)
    lists = {right for right in _PAGE.listed() if right.verb == "list"}
    with proxy.fault(Where(watch=True), Refuse(422, "Invalid")):
        older = launch(kubeconfig, folder / "older", lease)
        with ending(older):
            older.until(lambda: lists <= asked(proxy), "it lists")
    newer = launch(kubeconfig, folder / "newer", lease, f"--deployment={NAMESPACE}/{_NAME}")
    with ending(newer):
        divide(native).expect("gang", "True", "PriorityMismatch")
        space = divide(podium)
        space.expect("gang", "True", "PriorityMismatch")
        job = ask_for_a_group(space)
        newer.until(lambda: count(space, "train-job") == 2, "a group is made")
        space.ask("PATCH", job, {"spec": {"parallelism": 3}})
        newer.until(lambda: count(space, "train-job") == 3, "its count is changed")
        ask_for_a_tree(space)
        root = f"/apis/{PODIUM_API}/namespaces/{space.name}/compositepodgroups/serve-lws"
        newer.until(lambda: server.request("GET", root)[0] == 200, "a composite group is made")
        space.end("other")
        gone = space.groups_path("gang")
        space.ask("DELETE", gone)
        newer.until(lambda: server.request("GET", gone)[0] == 404, "the group is let go")
        at_the_end = Right("apps", "deployments", "get")
        newer.until(lambda: _PAGE.listed() - {at_the_end} <= asked(proxy), "each right is used")
    assert "error" not in {name for event in newer.events for name in event}


def test_they_are_enough_and_each_is_used(server: Server, tmp_path: Path) -> None:
    """No request is refused, and no other right is used."""
    with Proxy(server).running() as proxy:
        use_each(server, proxy, _PAGE.account(server).kubeconfig(tmp_path, proxy.url), tmp_path)
        assert asked(proxy) - {None} == _PAGE.listed()
        assert [call for call in proxy.calls if call.code == 403] == []


class Lack(NamedTuple):
    """Rights that are removed together: their name in the log, and whether other work continues."""

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
    "composite groups cannot be read": Lack(
        (
            Right(PODIUM_GROUP, "compositepodgroups", "list"),
            Right(PODIUM_GROUP, "compositepodgroups", "watch"),
        ),
        "watch failed",
        goes_on=False,
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
    """The log has the API server's message once and the request is repeated; independent work continues."""
    assert set(lack.rights) <= _PAGE.listed()
    limited = _PAGE.account(server, lack.rights)
    if Right(_LEASES, "leases", "create") not in lack.rights:
        leases = f"/apis/{_LEASES}/v1/namespaces/{limited.namespace}/leases"
        make(server, leases, {"metadata": {"name": _NAME}})
    with Proxy(server).running() as proxy:
        kubeconfig = limited.kubeconfig(tmp_path, proxy.url)
        started = launch(kubeconfig, tmp_path / "one", (limited.namespace, _NAME))
        with ending(started):
            podium = [divide(Place(server, PODIUM_API)) for _ in range(_REFUSALS)]
            for space in podium:
                ask_for_a_group(space)

            def refused() -> list[Right | None]:
                return [used(call) for call in list(proxy.calls) if call.code == 403]

            def logged() -> list[str]:
                # A new resource answers 429 for a moment, which is logged with a reason and without an error.
                return [
                    each["error"]
                    for each in started.events
                    if each["event"] == lack.event and "error" in each
                ]

            started.until(
                lambda: len(refused()) >= _REFUSALS and logged() != [], "it was refused, and says so"
            )
            for right in lack.rights:
                named = f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}"'
                assert len([error for error in logged() if named in error]) <= 1
            assert all("cannot " in error for error in logged())
            if lack.goes_on:
                divide(Place(server, _NATIVE_API)).expect("gang", "True", "PriorityMismatch")
            else:
                assert [space.conditions("gang") for space in podium] == [{}] * len(podium)
            assert set(refused()) <= set(lack.rights)
    assert "Traceback" not in started.log
