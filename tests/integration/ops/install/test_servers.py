"""`podium install` and `uninstall` on real clusters: complete, repeated, and killed half way."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import Place, Space, drop_class, new_class
from tests.support.install.scene import (
    GROUPS,
    MERGE,
    UNTRUSTED,
    halted,
    json_of,
    new_group,
    podium,
    podium_process,
    reconciler,
    settled,
    webhook,
)
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import FINALIZER, NATIVE_GROUP
from podium.ops.doctor.facts import DEFINITIONS
from podium.ops.install import key_of, manifests

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

_KINDS = {"1.36": ("1.36", True), "1.37 without gates": ("1.37", False), "1.37": ("1.37", True)}
_OLDER = "/apis/scheduling.podium.dev/v1alpha2"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/podium"


@pytest.fixture(scope="module", params=_KINDS)
def bare(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a cluster without Podium; a test leaves it so."""
    minor, workload_api = _KINDS[request.param]
    with exclusive(RELEASES[minor], workload_api=workload_api, controllers=True) as server:
        yield server


@pytest.fixture
def divided(bare: Server) -> Iterator[list[Space]]:
    """Yield a namespace with a native group and a divergent pod, if there are native groups."""
    spaces = []
    if bare.settings.workload_api:
        spaces = [Space(Place(bare, f"{NATIVE_GROUP}/{NATIVE[bare.release.minor][0]}"), "default")]
    for space in spaces:
        new_class(bare, "high", 1000)
        space.group("gang", "high")
        space.pod("odd", "gang", schedulerName="nobody")
    yield spaces
    for space in spaces:
        space.end("odd")
        space.remove_group("gang")
        drop_class(bare, "high")


@pytest.mark.parametrize("bare", ["1.36", "1.37 without gates"], indirect=True)
def test_from_nothing_to_nothing(bare: Server, divided: list[Space], tmp_path: Path) -> None:
    """An install works, a second one changes nothing, and an uninstall restores the former state.

    The reconciler's condition of a native group is removed too.
    """
    before = settled(bare)
    documents = manifests("scheduler", None)
    with webhook(bare, tmp_path):
        done = podium(bare, "install", "--mode=scheduler")
        assert "podium: Deployment podium-system/podium-webhook is available\n" in done.stderr
        assert f"podium: installed: {len(documents)} created\n" in done.stderr
        assert all(json_of(bare, key_of(each).path) is not None for each in documents)
        (meant,) = [each for each in documents if key_of(each).path == _REGISTRATION]
        assert _failure_policies(json_of(bare, _REGISTRATION)) == _failure_policies(meant)
        again = podium(bare, "install", "--mode=scheduler")
        assert f"podium: installed: {len(documents)} unchanged\n" in again.stderr
        assert podium(bare, "install", "--mode=scheduler", "--diff").stdout == ""
        with reconciler(bare, tmp_path / "reconciler"):
            for space in divided:
                space.expect("gang", "True", "PriorityMismatch")
    podium(bare, "uninstall", "--delete-groups", "--yes")
    assert settled(bare) == before


def _failure_policies(configuration: Any) -> dict[str, str]:
    return {each["name"]: each["failurePolicy"] for each in configuration["webhooks"]}


@pytest.mark.parametrize("bare", ["1.37"], indirect=True)
def test_groups_outlive_it(bare: Server, tmp_path: Path) -> None:
    """Groups are kept and readable without the webhook; after another install they are converted again.

    The first install is killed half way and run again; the second is run twice at once.
    """
    before = settled(bare)
    with halted(bare, "install", at=UNTRUSTED):
        pass
    assert set(_failure_policies(json_of(bare, _REGISTRATION)).values()) == {"Ignore"}
    new_group(bare, "train", FINALIZER, "example.com/theirs")
    with webhook(bare, tmp_path):
        podium(bare, "install")
        assert json_of(bare, _OLDER) is not None
        assert podium(bare, "install", "--diff").stdout == ""
        shown = podium(bare, "install", "--diff", "--image=example.com/podium:9")
        assert "\n+        image: example.com/podium:9\n" in shown.stdout
    podium(bare, "uninstall", code=1)  # there is no user to confirm
    gone = podium(bare, "uninstall", "--yes")
    assert "keep CustomResourceDefinition podgroups.scheduling.podium.dev with 1 objects" in gone.stdout
    group = json_of(bare, f"{GROUPS}/train")
    assert group["metadata"]["finalizers"] == ["example.com/theirs"]
    assert json_of(bare, _OLDER) is None
    assert "podium: nothing to remove\n" in podium(bare, "uninstall", "--yes").stderr
    with webhook(bare, tmp_path / "again"), ThreadPoolExecutor() as pool:
        assert len(list(pool.map(lambda _: podium_process(bare, "install"), range(2)))) == 2
    until(lambda: json_of(bare, _OLDER) is not None, "v1alpha2 is served again")
    _unregister(bare)
    free = {"metadata": {"finalizers": None}}
    until(lambda: bare.request("PATCH", f"{GROUPS}/train", free, MERGE)[0] == 200, "theirs is released")
    podium(bare, "uninstall", "--delete-groups", "--yes")
    assert json_of(bare, DEFINITIONS)["items"] == []
    assert settled(bare) == before


def _unregister(server: Server) -> None:
    """The webhook cannot be reached from here, so the group is changed without it."""
    for kind in ("mutating", "validating"):
        code, answer = server.request("DELETE", _REGISTRATION.replace("validating", kind))
        assert code == 200, answer
