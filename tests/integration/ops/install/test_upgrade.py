"""`podium upgrade`: its effect on an older installation, and the parts it restores after a failure."""

import asyncio
import copy
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.faults.replicas import Fleet, fleet
from tests.support.faults.writing import new_class, webhook_failures, writing
from tests.support.install.scene import NAMESPACE, json_of, podium, webhook
from tests.support.proxy import Proxy, Refuse, Where
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import NEWEST

from podium import version
from podium.errors import PodiumError
from podium.kube.connection import connect
from podium.ops.doctor.facts import DEFINITIONS
from podium.ops.install import (
    VERSION,
    Action,
    Document,
    InstallOutcome,
    manifests,
)
from podium.ops.installing import Installer, preview
from podium.ops.upgrade import Installed, image, installed, others, require_upgrade, surplus

_OLD = "0.0.9"
_GROUPS = "podgroups.scheduling.podium.dev"
_NEW = version.VERSION
# The machine may be busy.
_ROLLED_SECONDS = 200.0
_IMAGE = "registry.example.com:5000/podium"


def _older(release: str = _OLD) -> list[Document]:
    """Return the manifests of another version, with a role that this version does not have."""
    documents = manifests("scheduler", f"{_IMAGE}:{release}")
    for each in documents:
        if each["kind"] == "Deployment":
            each["metadata"]["labels"][VERSION] = release
    more = copy.deepcopy(next(each for each in documents if each["kind"] == "ClusterRole"))
    more["metadata"]["name"] = "podium-of-old"
    return [*documents, more]


def _serving_more(documents: Sequence[Document]) -> list[Document]:
    """Return manifests that serve groups in another version too."""
    for each in documents:
        if each["metadata"]["name"] == _GROUPS:
            versions = each["spec"]["versions"]
            versions.append({**versions[-1], "name": "v1alpha1", "storage": False})
    return list(documents)


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        ("podium:0.0.9", "podium:2"),
        ("podium", "podium:2"),
        ("registry.example.com:5000/podium", "registry.example.com:5000/podium:2"),
        ("registry.example.com:5000/podium:0.0.9", "registry.example.com:5000/podium:2"),
        ("example.com/podium@sha256:12ab", "example.com/podium:2"),
        ("example.com/podium:0.0.9@sha256:12ab", "example.com/podium:2"),
        ("", None),
    ],
)
def test_the_image_comes_from_where_it_came(reference: str, want: str | None) -> None:
    assert image(Installed({}, "admission", reference), "2") == want


def test_labels_identify_the_installation() -> None:
    """The report has versions by process, the mode and the image; nothing without processes."""
    assert installed(_older()) == Installed(
        dict.fromkeys(("podium-controller", "podium-scheduler", "podium-webhook"), _OLD),
        "scheduler",
        f"{_IMAGE}:{_OLD}",
    )
    assert installed(manifests("admission", None)).mode == "admission"
    without = [each for each in _older() if each["kind"] != "Deployment"]
    assert installed(without) == Installed({}, "scheduler", "")


@pytest.mark.parametrize(
    ("versions", "downgrade", "error"),
    [
        (["0.9.0"], False, ""),
        (["1.0.0", "1.0.0"], False, ""),
        (["0.9.0", "1.0.0"], False, ""),
        (["1.0.0rc1"], False, ""),
        ([""], False, ""),
        (
            ["0.9.0", "1.0.1"],
            False,
            r"1\.0\.1 is installed, newer than this podium 1\.0\.0. .* --allow-downgrade",
        ),
        (["1.10.0"], False, r"1\.10\.0 is installed"),
        (["1.10.0"], True, ""),
        ([], True, "no installation of podium install found"),
    ],
)
def test_a_downgrade_is_refused(versions: Sequence[str], downgrade: bool, error: str) -> None:
    """Versions are compared by number; a version left by half an upgrade is accepted."""
    found = Installed({str(number): each for number, each in enumerate(versions)}, "admission", "podium")
    if error:
        with pytest.raises(PodiumError, match=error):
            require_upgrade(found, "1.0.0", downgrade=downgrade)
    else:
        require_upgrade(found, "1.0.0", downgrade=downgrade)


def test_other_versions_are_named() -> None:
    assert others(Installed({"a": "1", "b": "2", "c": ""}, "admission", ""), "2") == "1, an unknown version"
    assert others(Installed({"a": "2"}, "admission", ""), "2") == ""


def test_obsolete_objects_are_deleted_but_never_data() -> None:
    """Objects are removed in reverse order, without the definitions and the namespace."""
    inventory = _older()
    assert list(surplus(inventory, inventory)) == []
    gone = [each.key.kind for each in surplus(inventory, [])]
    assert gone[:2] == ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
    assert {each["kind"] for each in inventory} - set(gone) == {"CustomResourceDefinition", "Namespace"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Server]:
    """Yield a cluster without the Workload API, like most clusters, for one installation after the other."""
    with exclusive(NEWEST, workload_api=False, controllers=True) as server:
        yield server


def _install(server: Server, documents: Sequence[Document]) -> list[str]:
    """Install other documents, as `podium install` does; return its output."""
    lines: list[str] = []

    async def run() -> None:
        async with connect(str(server.kubeconfig), None) as connection:
            found = await preview(connection, documents, force=False)
            assert not [each for each in found if each.action is Action.REFUSED]
            installer = Installer(connection, timeout=_ROLLED_SECONDS, force=False, echo=lines.append)
            await installer.install(found, documents)

    asyncio.run(run())
    return lines


def _asked(server: Server, documents: Sequence[Document]) -> list[InstallOutcome]:
    """Return the changes that an install would make."""

    async def run() -> list[InstallOutcome]:
        async with connect(str(server.kubeconfig), None) as connection:
            found = await preview(connection, documents, force=False)
            return [each for each in found if each.action is not Action.UNCHANGED]

    return asyncio.run(run())


def _served(server: Server) -> set[str]:
    definition = json_of(server, f"{DEFINITIONS}/{_GROUPS}")
    return {each["name"] for each in definition["spec"]["versions"] if each["served"]}


def _without_the_stored() -> list[Document]:
    """Return the groups' definition of a version without v1beta1."""
    (definition,) = [each for each in manifests("admission", None) if each["metadata"]["name"] == _GROUPS]
    (older, _) = definition["spec"]["versions"]
    older["storage"] = True
    definition["spec"]["versions"] = [older]
    return [definition]


@pytest.mark.server
@pytest.mark.timeout(600)
def test_from_version_to_version(cluster: Server, tmp_path: Path) -> None:
    """A failed upgrade is undone; a good one replaces process after process; a downgrade needs an option."""
    with webhook(cluster, tmp_path):
        before = _serving_more(_older())
        _install(cluster, before)
        installing = podium(cluster, "install", code=1)
        assert f"podium: {_OLD} is installed. Run podium upgrade\n" in installing.stderr
        dry = podium(cluster, "upgrade", "--dry-run")
        assert re.search(r"^ClusterRole podium-of-old +removed$", dry.stdout, re.MULTILINE)
        # The scheduler's Deployment comes last; the dry run before has sent it once.
        where = Where("deployments/podium-scheduler", "PATCH")
        with (
            Proxy(cluster).running() as proxy,
            proxy.fault(where, Refuse(403, "Forbidden"), skip=1, times=1) as fault,
        ):
            done = podium(cluster, "upgrade", kubeconfig=proxy.kubeconfig(tmp_path), code=1)
        assert fault.hits == 1
        assert "the proxy says 403; all changes were undone" in done.stderr
        assert "podium: restored Deployment podium-system/podium-webhook\n" in done.stderr
        assert _asked(cluster, before) == []
        assert _served(cluster) == {"v1alpha1", "v1alpha2", "v1beta1"}
        done = podium(cluster, "upgrade")
        steps = [line.removeprefix("podium: ") for line in done.stderr.splitlines()]
        rolled = [
            steps.index(f"{what} {NAMESPACE}/podium-{name}{then}")
            for name in ("webhook", "controller", "scheduler")
            for what, then in (("changed Deployment", ""), ("Deployment", " is available"))
        ]
        assert rolled == sorted(rolled)
        assert steps[-2:] == [
            "removed ClusterRole podium-of-old",
            f"upgraded: 4 changed, {len(before) - 5} unchanged, 1 removed",
        ]
        # Objects of older versions only are removed last.
        assert steps.index("changed CustomResourceDefinition " + _GROUPS) > rolled[-1]
        assert _served(cluster) == {"v1alpha2", "v1beta1"}
        assert _asked(cluster, manifests("scheduler", f"{_IMAGE}:{_NEW}")) == []
        assert podium(cluster, "upgrade", "--diff").stdout == ""
        (refused,) = _asked(cluster, _without_the_stored())
        assert (refused.action, refused.key.name) == (Action.REFUSED, _GROUPS)
        assert "status.storedVersions" in refused.why
        _install(cluster, _older("9.9.9"))
        back = podium(cluster, "upgrade", code=1)
        assert f"podium: 9.9.9 is installed, newer than this podium {_NEW}" in back.stderr
        back = podium(cluster, "upgrade", "--allow-downgrade", "--dry-run")
        assert "\npodium: would be: 3 changed, " in back.stderr
    gone = podium(cluster, "uninstall", "--delete-groups", "--yes")
    assert "delete ClusterRole podium-of-old\n" in gone.stdout
    assert json_of(cluster, "/apis/rbac.authorization.k8s.io/v1/clusterroles/podium-of-old") is None


def _reached_at(documents: Sequence[Document], url: str) -> list[Document]:
    """Return manifests whose webhooks have a URL, because Services do not route here."""
    text = json.dumps(documents)
    return list(json.loads(re.sub(r'"service": \{[^}]*"path": "([^"]+)"[^}]*\}', rf'"url": "{url}\1"', text)))


def _roll(server: Server, replicas: Fleet, wanted: str) -> None:
    """Replace each replica when the webhook's Deployment names a new image, as a cluster does."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/podium-webhook"

    def is_new() -> bool:
        (container,) = json_of(server, path)["spec"]["template"]["spec"]["containers"]
        return bool(container["image"] == wanted)

    until(is_new, "the webhook is to be replaced", _ROLLED_SECONDS)
    for replica in list(replicas.replicas):
        replicas.start()
        assert replicas.end(replica) == 0, replica.log


@pytest.mark.server
@pytest.mark.timeout(600)
def test_no_write_fails_meanwhile(cluster: Server, tmp_path: Path) -> None:
    """Under 50 writes a second, each has its right answer, and the API server counts no failed call."""
    new_class(cluster)
    namespace = cluster.new_namespace()
    until(lambda: _has_account(cluster, namespace), "pods can be made")
    secret = ("default", "podium-webhook-certificates")
    with fleet(cluster, tmp_path, secret=secret) as replicas:
        url = f"https://127.0.0.1:{replicas.balancer.port}"
        _install(cluster, _reached_at(_older(), url))
        counted = webhook_failures(cluster)
        new = f"{_IMAGE}:{_NEW}"
        with writing(cluster, namespace, rate=50, clients=4) as writer, ThreadPoolExecutor() as pool:
            writer.more(100)
            rolled = pool.submit(_roll, cluster, replicas, new)
            output = _install(cluster, _reached_at(manifests("scheduler", new), url))
            rolled.result()
            writer.more(100)
            writer.stop()
        assert "changed Deployment podium-system/podium-webhook" in output
        record = writer.record
        assert not record.failures(), [*map(str, record.failures()), replicas.log]
        assert not record.unanswered()
        for done in (("PodGroup", "create"), ("PodGroup", "convert"), ("Pod", "create"), ("Pod", "leave")):
            assert record.done(*done) > 10, done
        assert webhook_failures(cluster) == counted


def _has_account(server: Server, namespace: str) -> bool:
    return json_of(server, f"/api/v1/namespaces/{namespace}/serviceaccounts/default") is not None
