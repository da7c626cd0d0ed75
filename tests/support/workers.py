"""The schedule of xdist's workers: a folder's tests stay together, and those that take minutes start first.

Tests of a folder share servers and ports. On two workers, a fixture of the session would start its servers
twice, and two pages of docs/ would listen on one port. A long folder that started last would leave the other
workers idle. Shared servers stay until the run ends, so the folders that need them come last. In a folder
whose modules share nothing, each module is assigned by itself. The end-to-end tests that share a cluster have
its release and its part of the tests in their names.
"""

import re

import pytest
from tests.support.servers import uses
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The longest first.
_SCHEDULER = "tests/integration/schedulerplugin"
_MANIFESTS = "tests/integration/manifests"
_LONG = (
    *("tests/faults", "tests/docs", "tests/conformance/parity", _MANIFESTS),
    *(f"{_SCHEDULER}/scheduling/live", "tests/hostile"),
    *("tests/integration/webhooks", "tests/integration/repository"),
    *("tests/integration/controllers", f"{_SCHEDULER}/scheduling"),
    *(f"{_SCHEDULER}/history", "tests/integration/ops/doctor", "tests/integration/groups/autogroups"),
    "tests/integration/devcluster",
)
# Each module of these folders has clusters of its own.
_BY_MODULE = (_MANIFESTS,)
_BY_CLUSTER = "tests/e2e"
_CLUSTER = re.compile(r"1\.\d+-[a-z]+")


class Folders(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A scheduler that gives the next folder, or module of _BY_MODULE, to a free worker."""

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(nodeid)
        if folder.startswith(_BY_CLUSTER):
            cluster = _CLUSTER.search(nodeid)
            return cluster[0] if cluster else folder
        return nodeid.partition("::")[0] if folder in _BY_MODULE else folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Folders | None:
    """Make `--dist loadscope` assign folders."""
    return Folders(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long folders first and those with shared servers last.

    `--no-loadscope-reorder` keeps this order.
    """
    sharing = {_folder(item.nodeid) for item in items if uses([item])}

    def rank(item: pytest.Item) -> tuple[int, bool]:
        folder = _folder(item.nodeid)
        return (_LONG.index(folder) if folder in _LONG else len(_LONG), folder in sharing)

    items.sort(key=rank)


def _folder(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[0]
