"""Two versions of Podium side by side, in an upgrade and in the downgrade after it.

The manifests are applied, then the webhook is replaced, then the others, one replica after the other. Each
new one is ready before the old one is asked to stop. An honest tenant must not notice any step.
"""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.hostile.attacked import BOUND_SECONDS, AttackedCluster, attacked
from tests.support.hostile.honest import LOW
from tests.support.hostile.installation import Program, current
from tests.support.hostile.tenant import GROUPS, OLD_GROUPS, Tenant
from tests.support.servers import in_turn
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.webhooks.deployed import LOCAL_URL

# The earlier Podium is taken from this checkout's history: its own code and manifests on our interpreter.
_ROOT = Path(__file__).parents[2]
# The commit of the earlier Podium, until a release can be installed: what ran before this one.
EARLIER = "026acef5bac54fbc5f6a696bd705a2591b89199d"
_SOURCES = ("core", "webhooks", "controllers", "planner", "schedulerplugin", "cli")
_MANIFESTS = "manifests/rendered/scheduler.yaml"
# Without `site`, so that the editable installation of this checkout is not on the path.
_SCRIPT = """#!{interpreter} -S
import os
import sys
sys.path[:0] = {path!r}
from podium.cli.main import main
from podium.webhooks import registration
class Local(registration.Endpoint, frozen=True, kw_only=True):
    def client(self, path, bundle):
        return _Endpoint(url=os.environ[{local!r}]).client(path, bundle)
_Endpoint = registration.Endpoint
if {local!r} in os.environ:
    registration.Endpoint = Local
main()
"""


def earlier(folder: Path) -> Program:
    """Return the earlier Podium, unpacked into a folder; skip the test in a checkout without history."""
    archive = ["git", "archive", EARLIER, *_SOURCES, _MANIFESTS, "docs/glossary.md"]
    packed = subprocess.run(archive, cwd=_ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"no earlier version in this checkout: {packed.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    path = [*(str(folder / each) for each in _SOURCES), sysconfig.get_path("purelib")]
    script = folder / "podium"
    script.write_text(_SCRIPT.format(interpreter=sys.executable, path=path, local=LOCAL_URL), "utf-8")
    script.chmod(0o755)
    documents = yaml.load_all((folder / _MANIFESTS).read_bytes(), Loader=yaml.CSafeLoader)
    return Program(script, (str(script),), list(documents))


pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the earlier Podium."""
    return earlier(tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module", params=in_turn(__name__))
def cluster(
    request: pytest.FixtureRequest, before: Program, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AttackedCluster]:
    """Yield a cluster with the earlier Podium."""
    with attacked(request.param, tmp_path_factory.mktemp("attacked"), before) as made:
        yield made


def _write(tenant: Tenant) -> None:
    """Use what both versions know: groups of both APIs, one with a class that changes nothing of it later."""
    group = tenant.group(2, priorityClassName=LOW)
    for _ in range(2):
        tenant.pod(group=group, priorityClassName=LOW)
    tenant.patch(GROUPS, group, {"metadata": {"labels": {"a": "b"}}})
    tenant.patch(OLD_GROUPS, group, {"metadata": {"labels": {"a": "c"}}})
    tenant.native_group(2)


def _moved(cluster: AttackedCluster, program: Program) -> None:
    """Move every process to a program, in the order of an installation; check each step."""
    podium = cluster.podium
    podium.apply(program)
    cluster.endures(_write, "manifests")
    leader = podium.leading()
    (standby,) = {"scheduler-0", "scheduler-1"} - {leader}
    for name in ("webhook-0", "controller-0", standby, leader):
        former = podium.replace(name, program)
        # The Lease of the last one changes hands while a gang preempts.
        gang = cluster.honest.round(BOUND_SECONDS)
        assert former.process.wait(PATIENCE_SECONDS) == 0, former.log
        assert gang.bound is not None, f"{name}: {cluster.honest.conditions()}\n{podium.log}"
        podium.wait_led()
        cluster.endures(_write, name)


def test_an_upgrade_and_a_downgrade_stop_no_work(cluster: AttackedCluster, before: Program) -> None:
    """At each step groups are judged, and a gang preempts, by whatever versions run then."""
    _moved(cluster, current())
    _moved(cluster, before)
