"""A user without the rights to install, upgrade or uninstall gets a line with them before any step."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import kubeconfig_of
from tests.support.install.scene import NAMESPACE, podium
from tests.support.proxy import Proxy, Refuse, Where
from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.releases import NEWEST

from podium.ops.install import rendered

pytestmark = pytest.mark.server

# API groups of an install, except those of Deployments.
_GROUPS = (
    *("", "admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io"),
    *("policy", "rbac.authorization.k8s.io", "scheduling.podium.dev"),
)


def _may(*verbs: str, groups: Sequence[str] = ("*",), resource: str = "*", **names: Any) -> dict[str, Any]:
    return {"apiGroups": groups, "resources": [resource], "verbs": verbs, **names}


_NOTHING = [_may("list", groups=[""], resource="pods")]
_READING = _may("get", "list")
_NOT_DEPLOYMENTS = [_READING, _may("*", groups=_GROUPS)]
_NAMED = _may("delete", groups=["apps"], resource="deployments", resourceNames=["podium-webhook"])
_DEPLOYMENTS = f"deployments.apps in {NAMESPACE}"
_ELSE = "Ask a cluster-admin to run it"
# A user's rights, the command, the missing rights in the message, and its remedy.
CASES: dict[str, tuple[list[dict[str, Any]], list[str], str]] = {
    "nothing": (
        _NOTHING,
        ["install"],
        (
            "list/get/create/patch/delete clusterrolebindings.rbac.authorization.k8s.io, "
            "list/get/create/patch/delete clusterroles.rbac.authorization.k8s.io, "
            f"list/get/create/patch/delete configmaps in {NAMESPACE} and 14 more. "
            f"{_ELSE}, or to apply {rendered('admission')} (docs/install.md)"
        ),
    ),
    "reading, of a dry run": (
        [_READING],
        ["install", "--dry-run", "--mode=scheduler"],
        (
            "create/patch/delete clusterrolebindings.rbac.authorization.k8s.io, "
            "create/patch/delete clusterroles.rbac.authorization.k8s.io, "
            f"create/patch/delete configmaps in {NAMESPACE} and 14 more. "
            f"{_ELSE}, or to apply {rendered('scheduler')} (docs/install.md)"
        ),
    ),
    "what cannot be asked in a dry run, for its namespace is new": (
        _NOT_DEPLOYMENTS,
        ["install"],
        f"create/patch/delete {_DEPLOYMENTS}. {_ELSE}, or to apply {rendered('admission')} (docs/install.md)",
    ),
    "one of two by name": (
        [*_NOT_DEPLOYMENTS, _may("create", "patch", groups=["apps"]), _NAMED],
        ["install"],
        f"delete {_DEPLOYMENTS}. {_ELSE}, or to apply {rendered('admission')} (docs/install.md)",
    ),
    "an upgrade": (_NOT_DEPLOYMENTS, ["upgrade"], f"create/patch/delete {_DEPLOYMENTS}. {_ELSE}"),
    "an uninstall": (_NOT_DEPLOYMENTS, ["uninstall", "--yes"], f"delete {_DEPLOYMENTS}. {_ELSE}"),
    "an uninstall that cannot release groups": (
        [_READING, _may("*", groups=[*_GROUPS[:-1], "apps"])],
        ["uninstall", "--yes"],
        (
            "update compositepodgroups.scheduling.podium.dev, update podgroups.scheduling.podium.dev, "
            f"update preemptionrecords.scheduling.podium.dev and 1 more. {_ELSE}"
        ),
    ),
}


@pytest.fixture(scope="module")
def bare() -> Iterator[Server]:
    with exclusive(NEWEST) as server:
        yield server


@pytest.mark.parametrize(("may", "asked", "expected"), CASES.values(), ids=list(CASES))
def test_missing_rights_are_listed(
    bare: Server, tmp_path: Path, may: list[dict[str, Any]], asked: list[str], expected: str
) -> None:
    """The only requests are access reviews."""
    with Proxy(bare).running() as proxy:
        kubeconfig = kubeconfig_of(bare, "default", may, tmp_path)
        text = kubeconfig.read_text("utf-8").replace(bare.url, proxy.url)
        kubeconfig.write_text(text, "utf-8")
        done = podium(bare, *asked, kubeconfig=kubeconfig, code=1)
    _, line = done.stderr.splitlines()
    assert line == f"podium: nothing was written: missing permission to {expected}"
    assert done.stdout == ""
    assert {each.path.rpartition("/")[2] for each in proxy.calls} == {"version", "selfsubjectaccessreviews"}


def test_groups_that_are_kept_take_no_right(bare: Server, tmp_path: Path) -> None:
    """The right to delete the definitions is checked only if they are to be deleted."""
    rest = _may("*", groups=[*(each for each in _GROUPS if each != "apiextensions.k8s.io"), "apps"])
    kubeconfig = kubeconfig_of(bare, "default", [_READING, _may("update"), rest], tmp_path)
    done = podium(bare, "uninstall", "--yes", kubeconfig=kubeconfig)
    assert done.stderr.endswith("podium: nothing to remove\n")
    done = podium(bare, "uninstall", "--yes", "--delete-groups", kubeconfig=kubeconfig, code=1)
    assert "missing permission to delete customresourcedefinitions.apiextensions.k8s.io. Ask" in done.stderr


def test_a_role_gives_no_more_than_its_maker_has(bare: Server, tmp_path: Path) -> None:
    """The dry run refuses a user with the right to write roles but without the rights of Podium's roles."""
    may = [_READING, _may("create", "patch", "delete")]
    kubeconfig = kubeconfig_of(bare, "default", may, tmp_path)
    done = podium(bare, "install", kubeconfig=kubeconfig, code=3)
    assert re.search(r"^ClusterRole podium-webhook +refused$", done.stdout, re.MULTILINE)
    assert "attempting to grant RBAC permissions" in " ".join(done.stdout.split())
    assert done.stderr.endswith("use --force-conflicts; for forbidden objects ask a cluster-admin\n")
    assert bare.request("GET", f"/api/v1/namespaces/{NAMESPACE}")[0] == 404


def test_a_server_without_access_reviews_is_tried_by_dry_run(bare: Server, tmp_path: Path) -> None:
    """If the API server refuses access reviews, the command relies on the dry run."""
    with (
        Proxy(bare).running() as proxy,
        proxy.fault(Where("selfsubjectaccessreviews", "POST"), Refuse(403, "Forbidden")) as fault,
    ):
        done = podium(bare, "install", "--dry-run", kubeconfig=proxy.kubeconfig(tmp_path))
    assert fault.hits == 1
    assert "podium: would be: " in done.stderr
