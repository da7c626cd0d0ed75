"""Real API servers for tests: one a version and kind for the whole run, shared by all workers.

Servers live in one folder that the main pytest process makes and its xdist workers inherit by an environment
variable. The first worker that needs one starts it (`up` takes a lock and finds a running one). The main
process, which outlives every worker, stops all of them: a crashed worker would falsify any count of users. A
*server* is etcd and kube-apiserver, ready in about 3 s, without controllers: no default ServiceAccounts, no
scheduling, no garbage collection of namespaces. A *cluster* has the controllers, the scheduler and three kwok
nodes too.
"""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import recycling
from tests.support.prepared import prepare
from tests.support.waiting import comes
from tools.devcluster.controlplane import cluster as local
from tools.devcluster.controlplane import process, programs
from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.components import ClusterSettings, names
from tools.devcluster.controlplane.releases import BUILDABLE, NEWEST, RELEASES, Release
from tools.devcluster.controlplane.state import Access, access, load

# Whether to run all cases at length, as `make soak` does.
FULL = os.environ.get("PODIUM_DIFFERENTIAL") == "full"
# The gate without which an API server drops the topology constraint of a group, and all gates of trees.
TOPOLOGY = "TopologyAwareWorkloadScheduling=true"
TREES = f"GenericWorkload=true,{TOPOLOGY},CompositePodGroup=true"

# The variable with the folder of the run's servers.
ROOT = "PODIUM_TEST_SERVERS"
_PREFIX = "podium-test-servers-"
_OWNER = "owner.json"


def in_turn(module: str) -> tuple[str, ...]:
    """Return the minors for tests that all releases pass alike: one in each run, all of them at length.

    The run's seed and the folder of their module decide, so each run has some folders with each minor,
    xdist's workers agree, and modules of a folder use servers again. Without a seed it is the newest minor.
    """
    return _drawn(f" {module.rpartition('.')[0] or module}", RELEASES, RELEASES)


def of_run(minors: Collection[str] = BUILDABLE) -> tuple[str, ...]:
    """Return the minors for tests that know unreleased minors too: one of `minors`, all of them at length.

    All modules of a run draw the same minor, so most runs build no further control plane. Without a seed it
    is the newest released minor.
    """
    return _drawn("", BUILDABLE, minors)


def _drawn(salt: str, among: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    if FULL:
        return tuple(known)
    seed = os.environ.get("PODIUM_SEED")
    minor = random.Random(f"{seed}{salt}").choice(tuple(among)) if seed else NEWEST.minor
    return (minor if minor in known else NEWEST.minor,)


# The fixtures that are servers, and the minors that each may start.
_SERVERS = {
    "server_136": ("1.36",),
    "server_137": ("1.37",),
    "server": in_turn("server"),
    "server_without": in_turn("server_without"),
    "cluster_136": ("1.36",),
    "cluster_137": ("1.37",),
    "cluster": in_turn("cluster"),
}


# The answers of an API server that replaces the storage of a kind because its definition has changed
# (kubernetes/kubernetes#53586): clients send their requests again.
_REDEFINED = {429: "storage is (re)initializing", 503: "apiserver is shutting down"}


def is_redefined(code: int, answer: Any) -> bool:
    """Return whether an API server asks to come again because it replaces the storage of a kind."""
    return code in _REDEFINED and isinstance(answer, dict) and answer.get("message") == _REDEFINED[code]


@dataclass(frozen=True)
class Server:
    """A running API server; `request` and `kubectl` act as its administrator."""

    access: Access
    settings: ClusterSettings
    folder: Path  # contains the logs and cluster.json
    client: Client

    @property
    def release(self) -> Release:
        return self.settings.release

    @property
    def url(self) -> str:
        return self.access.url

    @property
    def kubeconfig(self) -> Path:
        return self.access.kubeconfig

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send a request on the kept connection; return the status code and the decoded answer.

        It is sent again while the server replaces the storage of the kind.
        """
        answers: list[tuple[int, Any]] = []

        def is_answered() -> bool:
            answers.append(self.client.request(method, path, body, content_type))
            return not is_redefined(*answers[-1])

        comes(is_answered)
        return answers[-1]

    def program(self, name: str) -> Path:
        """Return the path of a program of this release, built if it does not exist yet."""
        return programs.find(self.release, [name], os.environ, sys.stderr)[name]

    def kubectl(self, *arguments: str, stdin: Any = None) -> str:
        """Run kubectl and return its stdout; `stdin` is text or a document. A failure fails the test."""
        done = subprocess.run(
            [str(self.program("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin if isinstance(stdin, str | None) else json.dumps(stdin),
            env={**os.environ, "KUBECACHEDIR": str(self.folder / "kubectl-cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def new_namespace(self, prefix: str = "test-") -> str:
        """Make a namespace with a random name."""
        code, made = self.request("POST", "/api/v1/namespaces", {"metadata": {"generateName": prefix}})
        assert code == 201, made
        name: str = made["metadata"]["name"]
        return name


@contextlib.contextmanager
def shared(release: Release, *, workload_api: bool = True, controllers: bool = False) -> Iterator[Server]:
    """Yield the run's server of this version and kind, started if needed; it stays until the run ends."""
    kind = f"{'cluster' if controllers else 'server'}{'' if workload_api else '-without'}-{release.minor}"
    wanted = local.WantedCluster(kubernetes=release.minor, workload_api=workload_api, controllers=controllers)
    folder = Path(os.environ[ROOT]) / kind
    state, _ = local.up(folder, wanted, os.environ, sys.stderr)
    reach = access(folder, state.settings)
    with contextlib.closing(reach.client()) as client:
        yield Server(reach, state.settings, folder, client)


@contextlib.contextmanager
def exclusive(
    release: Release, *, workload_api: bool = True, controllers: bool = False, apiserver: tuple[str, ...] = ()
) -> Iterator[Server]:
    """Yield a server for one test, for objects that others must not see, such as a default PriorityClass.

    At the end it is put back for another test, or stopped. `apiserver` are further arguments of its
    kube-apiserver. It works outside pytest too. Inside, a killed run leaves it where the next run finds it.
    """
    wanted = local.WantedCluster(
        kubernetes=release.minor, workload_api=workload_api, controllers=controllers, apiserver=apiserver
    )
    root = Path(os.environ[ROOT]) if ROOT in os.environ else None
    folder = recycling.take(wanted, root) if root else None
    if folder is None:
        folder = Path(tempfile.mkdtemp(dir=root)) / "exclusive"
        if root:
            prepare(folder, wanted, root)
    over: Path | None = folder
    try:
        state, _ = local.up(folder, wanted, os.environ, sys.stderr)
        reach = access(folder, state.settings)
        rewind = recycling.rewinder(wanted, folder, reach)
        with contextlib.closing(reach.client()) as client:
            yield Server(reach, state.settings, folder, client)
        if root and rewind():
            over = recycling.give(wanted, folder, root)
    finally:
        if over:
            _end(over)
            shutil.rmtree(over.parent, ignore_errors=True)


def _end(folder: Path) -> None:
    """Remove a server without its orderly end, for which an API server waits a second."""
    state = load(folder)
    if state is not None:
        process.stop((each.process for each in state.components.values()), grace=0.0)
    local.down(folder, sys.stderr)


@pytest.fixture(scope="session")
def server_136() -> Iterator[Server]:
    """Yield the API server of 1.36 with the Workload API."""
    with shared(RELEASES["1.36"]) as server:
        yield server


@pytest.fixture(scope="session")
def server_137() -> Iterator[Server]:
    """Yield the API server of 1.37 with the Workload API."""
    with shared(RELEASES["1.37"]) as server:
        yield server


@pytest.fixture(scope="session", params=_SERVERS["server"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield an API server with the Workload API."""
    with shared(RELEASES[request.param]) as server:
        yield server


@pytest.fixture(scope="session", params=_SERVERS["server_without"])
def server_without(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield an API server without the Workload API, as in most clusters."""
    with shared(RELEASES[request.param], workload_api=False) as server:
        yield server


@pytest.fixture(scope="session")
def cluster_136() -> Iterator[Server]:
    """Yield a whole cluster of 1.36: controllers, scheduler, three nodes."""
    with shared(RELEASES["1.36"], controllers=True) as server:
        yield server


@pytest.fixture(scope="session")
def cluster_137() -> Iterator[Server]:
    """Yield a whole cluster of 1.37: controllers, scheduler, three nodes."""
    with shared(RELEASES["1.37"], controllers=True) as server:
        yield server


@pytest.fixture(scope="session", params=_SERVERS["cluster"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a whole cluster."""
    with shared(RELEASES[request.param], controllers=True) as server:
        yield server


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a namespace for one test on the one server it uses; its deletion is not waited for."""
    used = [name for name in _SERVERS if name in request.fixturenames]
    if len(used) != 1:
        pytest.fail(f"`namespace` needs exactly one of {', '.join(_SERVERS)}; here: {used}", pytrace=False)
    server: Server = request.getfixturevalue(used[0])
    name = server.new_namespace()
    yield name
    server.request("DELETE", f"/api/v1/namespaces/{name}")


def pytest_configure(config: pytest.Config) -> None:
    """In the main process: create the folder for all of the run's servers."""
    if hasattr(config, "workerinput"):
        return
    _take_down_abandoned()
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    pid = os.getpid()
    (root / _OWNER).write_text(json.dumps([pid, process.start_time(pid)]), encoding="utf-8")
    os.environ[ROOT] = str(root)


def pytest_unconfigure(config: pytest.Config) -> None:
    """In the main process, after the last worker: stop every server."""
    if not hasattr(config, "workerinput") and ROOT in os.environ:
        take_down(Path(os.environ.pop(ROOT)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that uses a server and is not marked: `make unit` would build control planes.

    A marked test in tests/unit is refused too, because tools/test looks for them in the other folders only.
    """
    for item in items:
        marked = next(filter(None, map(item.get_closest_marker, ("server", "browser", "checkout"))), None)
        if marked is not None and item.nodeid.startswith("tests/unit/"):
            raise pytest.UsageError(f"{item.nodeid} is marked `{marked.name}`: move it to tests/integration")
        if item.get_closest_marker("server") is None and uses([item]):
            raise pytest.UsageError(f"{item.nodeid} uses a server and is not marked `server`")


def uses(items: Iterable[pytest.Item]) -> set[str]:
    """Return the server fixtures that tests use."""
    return {name for item in items for name in getattr(item, "fixturenames", ())}.intersection(_SERVERS)


def _parameters(items: Iterable[pytest.Item]) -> set[str]:
    """Return the minors that are parameters of server tests, which may start exclusive servers."""
    calls = [
        item.callspec for item in items if item.get_closest_marker("server") and hasattr(item, "callspec")
    ]
    values = [value for call in calls for value in call.params.values()]
    return {value for value in values if isinstance(value, str) and value in BUILDABLE}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs that the collected tests need before the first test, outside its timeout."""
    used = uses(session.items)
    minors = {minor for name in used for minor in _SERVERS[name]} | _parameters(session.items)
    if session.config.option.collectonly or not minors:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    needed = names(controllers=any(name.startswith("cluster") for name in used))
    with capture.global_and_fixture_disabled():
        for minor in sorted(minors):
            programs.find(BUILDABLE[minor], (*needed, "kubectl"), os.environ, sys.stderr)


def _take_down_abandoned() -> None:
    """Stop the servers of killed runs."""
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
        if owner.stat().st_uid == os.getuid():
            pid, started = json.loads(owner.read_text(encoding="utf-8"))
            if not process.alive(process.Process(pid, started)):
                take_down(owner.parent)


def take_down(root: Path) -> None:
    """Stop every server of a run, and remove its folder."""
    folders = [path.parent for path in root.rglob("cluster.json")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(_end, folders))
    shutil.rmtree(root, ignore_errors=True)
