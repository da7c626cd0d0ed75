"""Fixtures of the history: one world with the custom resource, for schedulers of any name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.folders import Kept
from tests.support.history import DEFINITIONS, RECORDS
from tests.support.scheduling.world import World, world
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.records import RECORD_VERSION
from podium.crds import definitions


@contextmanager
def _recorded(folder: Path) -> Iterator[World]:
    with world(NEWEST.minor, folder) as made:
        code, answer = made.server.request("POST", DEFINITIONS, definitions.records())
        assert code == 201, answer
        until(lambda: made.server.request("GET", RECORDS)[0] == 200, "records are served")
        # Creates within two seconds of the establishment take two seconds, which is the time that a scheduler
        # has to write at its end. The next one would then evict nothing for a minute.
        body = {"apiVersion": RECORD_VERSION, "kind": "PreemptionRecord", "metadata": {"name": "probe"}}
        path = RECORDS.replace("/preemption", "/namespaces/default/preemption")
        code, answer = made.server.request("POST", f"{path}?dryRun=All", {**body, "sequence": 1, "plans": []})
        assert code == 201, answer
        yield made


@pytest.fixture(scope="module")
def recorded(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return a world with a history, which all modules of this folder share."""
    return kept.once("recorded", lambda: _recorded(tmp_path_factory.mktemp("world")))
