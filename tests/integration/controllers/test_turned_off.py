"""The reconciler at the end of an installation: groups keep nothing that only it can remove."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.controllers.running import PRIORITY, Place, Space, new_class, place, places, running
from tests.support.waiting import until
from tests.support.webhooks.deployed import NAMESPACE, new_deployment, scale

from podium.api.groups import FINALIZER

pytestmark = pytest.mark.server

_NAME = "podium-controller"
_OPTION = f"--deployment={NAMESPACE}/{_NAME}"


@pytest.fixture(scope="module", params=places(__name__))
def where(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place(request.param) as made:
        assert made.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})[0] == 201
        new_deployment(made.server, replicas=2, available=2, name=_NAME)
        new_class(made.server, "low", 1)
        new_class(made.server, "high", 9)
        yield made


def _marks(group: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether a group has the finalizer, and whether it has a condition of the reconciler's."""
    conditions = (group.get("status") or {}).get("conditions") or ()
    return (
        FINALIZER in group["metadata"].get("finalizers", ()),
        any(each["type"] == PRIORITY for each in conditions),
    )


def test_a_reconciler_that_is_turned_off_releases_its_groups(where: Place, tmp_path: Path) -> None:
    """A restart changes nothing; scaled to 0, groups have neither finalizer nor condition."""
    scale(where.server, 2, _NAME)
    space = Space(where)
    space.group("train", "low")
    space.pod("p", "train", "high")
    path = space.groups_path("train")

    def marks() -> tuple[bool, bool]:
        return _marks(space.ask("GET", path))

    with running(where.server, tmp_path / "first", _OPTION):
        until(lambda: marks() == (not where.native, True), "the group is marked")
    assert marks() == (not where.native, True)
    with running(where.server, tmp_path / "second", _OPTION) as second:
        scale(where.server, 0, _NAME)
        assert second.stop() == 0
        [released] = [each for each in second.events if each["event"] == "groups released"]
        assert (released["groups"] >= 1, released["left"]) == (True, 0)
    assert marks() == (False, False)
    space.ask("DELETE", path)
    assert where.server.request("GET", path)[0] == (404 if not where.native else 200)
