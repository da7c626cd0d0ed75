"""The manifests by kubectl: applied, applied again, deleted, and applied again, while clients write.

kwok plays the kubelets, so no image runs: the webhook and the reconciler are processes of this machine, with
the accounts, the arguments and the files of their pods.
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.webhooks.test_lifecycle_servers import PODS, registered, writing
from tests.support.controllers import running as controllers
from tests.support.install.scene import GROUPS, NAMESPACE, settled
from tests.support.rights import Account
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks import deployed
from tests.support.webhooks.running import ending
from tools.devcluster.controlplane.releases import RELEASES
from tools.manifests.render import MANIFESTS

from podium.api.groups import FINALIZER

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

_FILE = f"--filename={MANIFESTS / 'rendered' / 'scheduler.yaml'}"
# As in docs/install.md.
_APPLY = ("apply", "--server-side", _FILE)
_SPARING = ("delete", _FILE, "--selector=app.kubernetes.io/component!=data")
_OFF = ("scale", "deployment", "--all", "--replicas=0", f"--namespace={NAMESPACE}")


@pytest.fixture(params=in_turn(__name__))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with exclusive(RELEASES[request.param], controllers=True) as made:
        yield made


@contextlib.contextmanager
def _processes(server: Server, folder: Path) -> Iterator[None]:
    """Run the processes until the block ends, where they are asked to stop."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(deployed.installed(server, folder / "webhook", deployment=True))
        account = Account(server, NAMESPACE, "podium-controller")
        option = f"--deployment={NAMESPACE}/podium-controller"
        lease = (NAMESPACE, "podium-controller")
        started = controllers.launch(account.kubeconfig(folder), folder / "controller", lease, option)
        stack.enter_context(ending(started))
        started.wait_ready()
        started.wait_leading()
        until(lambda: registered(server) == ["Fail"] * 2, "the registration is closed")
        yield


def _group(server: Server, name: str) -> dict[str, Any] | None:
    code, answer = server.request("GET", f"{GROUPS}/{name}")
    return answer if code == 200 else None


def _finalizers(server: Server, name: str) -> list[str]:
    return list((_group(server, name) or {"metadata": {}})["metadata"].get("finalizers", ()))


def _protected(server: Server, name: str) -> bool:
    return _finalizers(server, name) == [FINALIZER]


def test_it_comes_and_goes_without_a_refused_write(server: Server, tmp_path: Path) -> None:
    """Groups are kept without a finalizer; deleting the data too leaves the cluster as it was."""
    before = settled(server)
    server.kubectl(*_APPLY)
    until(lambda: server.request("GET", GROUPS)[0] == 200, "groups are served")
    with writing(server):
        for life in ("first", "second"):
            folder = tmp_path / life
            folder.mkdir()
            with _processes(server, folder):
                body = {
                    "apiVersion": "scheduling.podium.dev/v1beta1",
                    "kind": "PodGroup",
                    "metadata": {"name": life},
                    "spec": {"schedulingPolicy": {"basic": {}}},
                }
                assert server.request("POST", GROUPS, body)[0] == 201
                until(partial(_protected, server, life), "the group is protected")
                server.kubectl(*_APPLY)
                assert server.kubectl("diff", "--server-side", _FILE) == ""
                server.kubectl(*_OFF)
            assert registered(server) == []
            assert _finalizers(server, life) == []
            server.kubectl(*_SPARING)
            assert _group(server, life) is not None
            server.kubectl(*_APPLY)
        server.kubectl(*_SPARING)
    assert server.request("DELETE", f"{PODS}?gracePeriodSeconds=0")[0] == 200
    server.kubectl("delete", _FILE, "--ignore-not-found")
    assert settled(server) == before
