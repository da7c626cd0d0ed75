"""The conditions of groups after an uninstall, on real servers: native in 1.36 and 1.37, and Podium's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.controllers.running import PRIORITY, Place, Space, new_class, place, places, running
from tests.support.install.scene import podium
from tests.support.proxy import Proxy, Refuse, Where
from tests.support.rights import Account, make
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.groups import CONTROLLER_MANAGER, SCHEDULER_MANAGER

pytestmark = pytest.mark.server

HIGH = "ends-high"
APPLY = "application/apply-patch+yaml"
STATUS = r"/podgroups/[^/]+/status$"
NOTHING = "podium: nothing to remove\n"


@pytest.fixture(scope="module", params=places(__name__))
def where(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Yield a server of each kind, without Podium's processes but with its conditions."""
    with place(request.param) as made:
        new_class(made.server, HIGH, 1000)
        yield made


@pytest.fixture
def space(where: Place) -> Iterator[Space]:
    """Yield a namespace whose groups have no condition of Podium's at the end."""
    yield Space(where)
    podium(where.server, "uninstall", "--yes")


def test_only_what_lasts_stays(space: Space, tmp_path: Path) -> None:
    """Of our conditions only PodGroupScheduled stays; all conditions of others stay."""
    before = space.group("untouched", HIGH)
    space.group("gang", HIGH)
    for name in ("untouched", "gang"):
        space.pod(f"{name}-0", name)
    with running(space.server, tmp_path / "controller"):
        for name in ("untouched", "gang"):
            space.expect(name, "True", "PriorityMismatch")
    set_conditions(
        space, "gang", SCHEDULER_MANAGER, was_scheduled(space), {"type": "DisruptionTarget", "status": "True"}
    )
    set_conditions(space, "gang", "kubelet", {"type": "Theirs", "status": "True"})
    assert len(space.conditions("gang")) == 4
    gone = podium(space.server, "uninstall", "--yes")
    assert "\nremove conditions that would become stale (2 groups now)\n" in f"\n{gone.stdout}"
    assert "podium: done: removed conditions of 2 groups\n" in gone.stderr
    assert {each.rpartition("Scheduled")[1] or each for each in space.conditions("gang")} == {
        "Scheduled",
        "Theirs",
    }
    after = space.ask("GET", space.groups_path("untouched"))
    assert after.get("status") == before.get("status")
    managers = {each["manager"] for each in after["metadata"]["managedFields"] if "subresource" in each}
    assert managers == set()
    assert NOTHING in podium(space.server, "uninstall", "--yes").stderr


ONE = pytest.mark.parametrize("where", [NEWEST.minor], indirect=True)


@ONE
@pytest.mark.parametrize(
    ("asked", "answer", "stays"),
    [
        pytest.param(
            Where(STATUS, "PATCH"), Refuse(409, "Conflict"), False, id="another client wrote in between"
        ),
        pytest.param(Where("/podgroups/gang$", "GET"), Refuse(404, "NotFound"), True, id="it vanished"),
        pytest.param(Where(STATUS, "PATCH"), Refuse(404, "NotFound"), True, id="deleted during the write"),
    ],
)
def test_concurrent_changes_are_retried_or_done(
    space: Space, tmp_path: Path, asked: Where, answer: Refuse, stays: bool
) -> None:
    """A conflict is retried; a group that no longer exists counts as done."""
    differing(space, "gang")
    with Proxy(space.server).running() as proxy, proxy.fault(asked, answer, times=1) as fault:
        podium(space.server, "uninstall", "--yes", kubeconfig=proxy.kubeconfig(tmp_path))
    assert fault.hits == 1
    assert bool(space.conditions("gang")) is stays


@ONE
def test_a_refused_step_is_reported_and_done_by_the_next_run(space: Space, tmp_path: Path) -> None:
    names = [f"gang-{number}" for number in range(3)]
    for name in names:
        differing(space, name)
    refused = Refuse(503, "ServiceUnavailable")
    with Proxy(space.server).running() as proxy, proxy.fault(Where(STATUS, "PATCH"), refused, skip=1):
        kubeconfig = proxy.kubeconfig(tmp_path)
        left = podium(space.server, "uninstall", "--yes", kubeconfig=kubeconfig, code=3)
    assert "podium: conditions of 2 groups stay: " in left.stderr
    assert sum(space.conditions(name) == {} for name in names) == 1
    again = podium(space.server, "uninstall", "--yes")
    assert "removed conditions of 2 groups\n" in again.stderr
    assert all(space.conditions(name) == {} for name in names)


@ONE
def test_without_the_right_a_line_says_so(space: Space, tmp_path: Path) -> None:
    """Exit code 3: a user without the right to list groups gets a line, and all else is removed."""
    differing(space, "gang")
    kubeconfig = clumsy(space).kubeconfig(tmp_path)
    left = podium(space.server, "uninstall", "--yes", kubeconfig=kubeconfig, code=3)
    assert "podium: conditions of 1 group stay: " in left.stderr
    assert 'cannot patch resource "podgroups/status"' in left.stderr
    assert set(space.conditions("gang")) == {PRIORITY}
    lists = Where("/podgroups$", "GET")
    with Proxy(space.server).running() as proxy, proxy.fault(lists, Refuse(403, "Forbidden")):
        left = podium(space.server, "uninstall", "--yes", kubeconfig=proxy.kubeconfig(tmp_path))
    assert "keep conditions of groups, which cannot be listed: " in left.stdout


def differing(space: Space, name: str) -> None:
    """Create a group with a condition as the reconciler writes it."""
    space.group(name)
    set_conditions(space, name, CONTROLLER_MANAGER, {"type": PRIORITY, "status": "True"})


def was_scheduled(space: Space) -> dict[str, str]:
    initially = not space.place.api.endswith("v1alpha2")
    return {"type": "PodGroupInitiallyScheduled" if initially else "PodGroupScheduled", "status": "True"}


def set_conditions(space: Space, name: str, manager: str, *conditions: dict[str, str]) -> None:
    """Apply conditions to a group as a process of Podium does."""
    rest = {"reason": "Told", "message": "told", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    document: dict[str, Any] = {
        "apiVersion": space.place.api,
        "kind": "PodGroup",
        "status": {"conditions": [{**each, **rest} for each in conditions]},
    }
    path = f"{space.groups_path(name)}/status?fieldManager={manager}&force=true"
    code, answer = space.server.request("PATCH", path, document, APPLY)
    assert code == 200, answer


def clumsy(space: Space) -> Account:
    """Create an account with all rights that are checked before, but not to patch."""
    api = "/apis/rbac.authorization.k8s.io/v1"
    metadata = {"name": space.name}
    make(space.server, f"/api/v1/namespaces/{space.name}/serviceaccounts", {"metadata": metadata})
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "update", "delete"]}
    make(space.server, f"{api}/clusterroles", {"metadata": metadata, "rules": [rule]})
    binding = {
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": space.name},
        "subjects": [{"kind": "ServiceAccount", "name": space.name, "namespace": space.name}],
    }
    make(space.server, f"{api}/clusterrolebindings", binding)
    return Account(space.server, space.name, space.name)
