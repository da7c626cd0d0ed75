"""An install that fails, is refused or interrupted, on a real cluster with objects of other users."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.install.scene import (
    GROUPS,
    NAMESPACE,
    UNTRUSTED,
    halted,
    json_of,
    new_group,
    podium,
    settled,
    stock,
)
from tests.support.proxy import Proxy, Refuse, Where
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import NEWEST

from podium.ops.doctor.facts import DEFINITIONS
from podium.ops.install import manifests

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

# One permanent namespace for all tests, because deleting one is slow.
_THEIRS = ("--from-literal=scheduler.yaml=mine", f"--namespace={NAMESPACE}")


@pytest.fixture(scope="module")
def occupied() -> Iterator[Server]:
    """Yield a cluster without Podium, with its namespace and a hand-made ConfigMap."""
    with exclusive(NEWEST, controllers=True) as server:
        server.kubectl("create", "namespace", NAMESPACE)
        server.kubectl("create", "configmap", "podium-scheduler", *_THEIRS)
        yield server


@pytest.fixture(scope="module")
def before(occupied: Server) -> dict[str, Any]:
    """Return the objects on the server; a test leaves them so."""
    return settled(occupied)


def test_a_dry_run_writes_nothing(occupied: Server, before: dict[str, Any], tmp_path: Path) -> None:
    """Every write is a dry run; the table has a line for each object, the diff all of it."""
    with Proxy(occupied).running() as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path)
        table = podium(occupied, "install", "--dry-run", kubeconfig=kubeconfig)
        diff = podium(occupied, "install", "--diff", kubeconfig=kubeconfig)
        writes = [each for each in proxy.writes() if not each.path.endswith("/selfsubjectaccessreviews")]
        assert len(writes) == 2 * len(manifests("admission", None))
        assert all(each.query["dryRun"] == "All" for each in writes)
    new = len(manifests("admission", None)) - 1
    assert table.stderr.endswith(f"\npodium: would be: {new} created, 1 changed\n")
    assert len([line for line in table.stdout.splitlines() if line.endswith(" created")]) == new
    assert len(re.findall("^\\+\\+\\+ ", diff.stdout, re.MULTILINE)) == new + 1
    assert stock(occupied) == before


def test_refused_half_way_it_is_undone(occupied: Server, before: dict[str, Any], tmp_path: Path) -> None:
    """If the server refuses a write that its dry run accepted, new objects and new labels are removed."""
    path = "validatingwebhookconfigurations/podium"
    with (
        Proxy(occupied).running() as proxy,
        proxy.fault(Where(path, "PATCH"), Refuse(403, "Forbidden"), skip=1) as fault,
    ):
        done = podium(occupied, "install", kubeconfig=proxy.kubeconfig(tmp_path), code=1)
    assert fault.hits == 1
    assert re.search(r"podium: not installed: .*the proxy says 403; all changes were undone", done.stderr)
    assert settled(occupied) == before


def test_out_of_time_it_is_undone(occupied: Server, before: dict[str, Any]) -> None:
    done = podium(occupied, "install", "--timeout=1s", code=1)
    assert ": time limit reached (--timeout); all changes were undone" in done.stderr
    assert settled(occupied) == before


def test_interrupted_it_is_undone_but_for_groups(occupied: Server, before: dict[str, Any]) -> None:
    """After Ctrl-C during the wait, a definition with groups of a user stays, and is named."""
    with halted(occupied, "install", at=UNTRUSTED) as process:
        new_group(occupied, "train")
        process.send_signal(signal.SIGINT)
        _, output = process.communicate()
    assert process.returncode == 1
    left = "left: CustomResourceDefinition podgroups.scheduling.podium.dev, because it has objects"
    assert f"\npodium: {left}\n" in output, output
    assert json_of(occupied, f"{GROUPS}/train") is not None
    code, answer = occupied.request("DELETE", f"{DEFINITIONS}/podgroups.scheduling.podium.dev")
    assert code == 200, answer
    until(lambda: json_of(occupied, DEFINITIONS)["items"] == [], "the definition is gone")
    assert settled(occupied) == before


def test_a_conflict_is_refused_before_anything_is_written(occupied: Server, before: dict[str, Any]) -> None:
    """The conflict has exit code 3 with field and owner; an edited ConfigMap of its administrator is kept."""
    service = ("service", "clusterip", "podium-webhook", "--tcp=443:1", f"--namespace={NAMESPACE}")
    occupied.kubectl("create", *service)
    there = stock(occupied)
    done = podium(occupied, "install", "--mode=scheduler", code=3)
    assert re.search(r"^ConfigMap podium-system/podium-scheduler +kept$", done.stdout, re.MULTILINE)
    assert re.search(r"^Service podium-system/podium-webhook +refused$", done.stdout, re.MULTILINE)
    assert ".data.scheduler.yaml" in done.stdout
    assert "kubectl-create" in done.stdout
    assert "for conflicts use --force-conflicts" in done.stderr
    assert stock(occupied) == there
    occupied.kubectl("delete", "service", "podium-webhook", f"--namespace={NAMESPACE}")
    assert settled(occupied) == before
