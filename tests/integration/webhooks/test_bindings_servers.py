"""With the component confined-binds on real API servers, a stolen token binds the scheduler's pods only."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.support.connection.cluster import CONTAINER
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks.recorder import Answer, send
from tests.support.webhooks.running import Running, running
from tools.devcluster.controlplane.releases import RELEASES

pytestmark = pytest.mark.server

_NAMESPACE, _NAME = "podium-system", "podium-scheduler"
_ACCOUNT = f"system:serviceaccount:{_NAMESPACE}:{_NAME}"
_PODS = "/api/v1/namespaces/default/pods"
_REFUSED = "spec.schedulerName is default-scheduler, and this account binds only pods of podium-scheduler"


class Scene(NamedTuple):
    """A server, and the webhook that it calls for binds."""

    server: Server
    webhook: Running

    def pod(self, scheduler: str) -> dict[str, Any]:
        spec = {"schedulerName": scheduler, "containers": [CONTAINER]}
        code, made = self.server.request("POST", _PODS, {"metadata": {"generateName": "p-"}, "spec": spec})
        assert code == 201, made
        assert isinstance(made, dict)
        metadata = made["metadata"]
        assert isinstance(metadata, dict)
        return metadata

    def bind(self, pod: dict[str, Any], user: str = _ACCOUNT) -> Answer:
        binding = {
            "metadata": {"name": pod["name"], "uid": pod["uid"]},
            "target": {"kind": "Node", "name": "n"},
        }
        path = f"{_PODS}/{pod['name']}/binding"
        return send(self.server, "POST", path, {"apiVersion": "v1", "kind": "Binding", **binding}, user=user)


@pytest.fixture(scope="module", params=in_turn(__name__))
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yield a server whose registration has the webhook of binds."""
    with exclusive(RELEASES[request.param]) as server:
        server.kubectl(
            "create", "clusterrolebinding", "scheduler", "--clusterrole=admin", f"--user={_ACCOUNT}"
        )
        binds = "--verb=create", "--resource=pods/binding"
        server.kubectl("create", "clusterrole", "binds", *binds)
        server.kubectl("create", "clusterrolebinding", "binds", "--clusterrole=binds", f"--user={_ACCOUNT}")
        assert server.request("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})[0] == 201
        option = f"--confine-binds={_NAMESPACE}/{_NAME}"
        with running(server, tmp_path_factory.mktemp("webhook"), option) as webhook:
            made_scene = Scene(server, webhook)
            until(lambda: _REFUSED in _message(_stolen(made_scene)), "the webhook is asked")
            yield made_scene


def _stolen(scene: Scene) -> Answer:
    return scene.bind(scene.pod("default-scheduler"))


def _message(answer: Answer) -> str:
    return str(answer.body.get("message", ""))


def test_a_stolen_token_binds_no_pod_of_another_scheduler(scene: Scene) -> None:
    pod = scene.pod("default-scheduler")
    refused = scene.bind(pod)
    assert (refused.code, _REFUSED in _message(refused)) == (403, True)
    assert scene.bind(pod, "").code == 201


def test_it_binds_its_own_pods(scene: Scene) -> None:
    assert scene.bind(scene.pod("podium-scheduler")).code == 201


def test_a_binding_of_another_uid_is_refused(scene: Scene) -> None:
    """A bind by UID is refused for a later pod of the same name."""
    pod = scene.pod("podium-scheduler")
    refused = scene.bind({**pod, "uid": "another"})
    assert (refused.code, "the Binding names the UID another" in _message(refused)) == (403, True)


def test_nothing_is_bound_without_an_answer(scene: Scene) -> None:
    """Runs last: it stops the webhook.

    Binds of other accounts still work.
    """
    own = scene.pod("podium-scheduler")
    scene.webhook.stop()
    refused = scene.bind(own)
    assert (refused.code, "failed calling webhook" in _message(refused)) == (500, True)
    assert scene.bind(own, "").code == 201
