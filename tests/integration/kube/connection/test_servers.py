"""Reads of real servers need get and list only; kinds without access are named."""

from pathlib import Path

import pytest
from tests.support.connection.cluster import READ_ONLY, create_class, create_group, create_pod, kubeconfig_of
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.groups import DisruptionMode
from podium.api.membership import GroupKey
from podium.api.reads import READS, Reads
from podium.api.schedulable import SCHEDULING_READS
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import load_live
from podium.documents.load import Loaded
from podium.errors import PodiumError
from podium.kube import reading
from podium.kube.connection import connect

pytestmark = pytest.mark.server


def test_created_objects_are_read(server: Server, namespace: str) -> None:
    """A group, its class and its members, in the version that each minor serves."""
    class_name = create_class(server, 1000)
    create_group(server, namespace, "train", class_name)
    for number in range(3):
        create_pod(server, namespace, f"train-{number}", class_name)
    loaded = load_live(KubeOptions(kubeconfig=str(server.kubeconfig), namespace=namespace))
    state = loaded.state
    key = GroupKey(True, namespace, "train")
    assert state.native_served
    assert set(state.members(key)) == {"train-0", "train-1", "train-2"}
    assert {pod.spec.priority for pod in state.pods.values()} == {1000}
    group = state.groups[key]
    assert (group.min_count, group.priority, group.disruption_mode) == (2, 1000, DisruptionMode.POD_GROUP)
    assert state.classes[class_name].value == 1000
    # Other tests may have installed Podium's own kinds on this server.
    absent = dict.fromkeys(("CompositePodGroup", "KueueWorkload"), "not served by this cluster")
    assert {**absent, **state.unread} == absent
    assert loaded.server == f"v{server.release.version}"
    assert loaded.scope == (namespace, "")


def test_real_continue_tokens_join_pages(
    server_137: Server, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of two items need several requests to a real server."""
    monkeypatch.setattr(reading, "MOST_OBJECTS", 2)
    class_name = create_class(server_137, 10)
    for number in range(5):
        create_pod(server_137, namespace, f"p{number}", class_name)
    loaded = load_live(KubeOptions(kubeconfig=str(server_137.kubeconfig), namespace=namespace))
    assert [name for _, name in loaded.state.pods] == ["p0", "p1", "p2", "p3", "p4"]


def test_a_selector_is_the_servers(server_137: Server, namespace: str) -> None:
    """A selector is not parsed here; a mistake in it is reported with the server's message."""
    class_name = create_class(server_137, 10)
    create_pod(server_137, namespace, "a", class_name, labels={"team": "x"})
    create_pod(server_137, namespace, "b", class_name)
    options = KubeOptions(
        kubeconfig=str(server_137.kubeconfig), namespace=namespace, selector="team in (x,y)"
    )
    assert [name for _, name in load_live(options).state.pods] == ["a"]
    with pytest.raises(PodiumError, match="400 BadRequest: unable to parse requirement"):
        load_live(options._replace(selector="team in"))


@pytest.mark.parametrize("reads", [READS, SCHEDULING_READS], ids=["audit", "scheduling"])
def test_get_and_list_are_enough(server_137: Server, namespace: str, tmp_path: Path, reads: Reads) -> None:
    """A user with these rights only reads the same as the administrator."""
    class_name = create_class(server_137, 10)
    create_group(server_137, namespace, "train", class_name)
    create_pod(server_137, namespace, "a", class_name)
    reader = KubeOptions(kubeconfig=str(kubeconfig_of(server_137, namespace, READ_ONLY, tmp_path)))
    admin = KubeOptions(kubeconfig=str(server_137.kubeconfig), namespace=namespace)
    found: list[Loaded] = []

    def alike() -> bool:
        found[:] = [load_live(options, reads) for options in (reader, admin)]
        return found[0].state.unread == found[1].state.unread

    # Another module may define Podium's resources on this server meanwhile.
    until(alike, "both read the same resources")
    by_reader, by_admin = found
    assert by_reader.state.pods == by_admin.state.pods
    assert {type(pod) for pod in by_reader.state.pods.values()} == {reads["v1", "Pod"].type}
    assert by_reader.state.groups == by_admin.state.groups
    assert by_reader.scope == by_admin.scope == (namespace, "")


def test_a_missing_permission_is_named(server_137: Server, namespace: str, tmp_path: Path) -> None:
    """Readable kinds are read; discovery needs no right of its own."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    reader = kubeconfig_of(server_137, namespace, rules, tmp_path)
    unread = load_live(KubeOptions(kubeconfig=str(reader)), SCHEDULING_READS).state.unread
    assert "Pod" not in unread
    # Other tests may have installed Podium's own kinds on this server; then those are named too.
    assert (
        f'missing permission: list podgroups (API group "scheduling.k8s.io") in namespace {namespace}'
    ) in unread["PodGroup"].split("; ")
    assert unread["Node"] == 'missing permission: list nodes (API group "") cluster-wide'
    assert (
        unread["PersistentVolume"] == 'missing permission: list persistentvolumes (API group "") cluster-wide'
    )
    assert unread["PersistentVolumeClaim"] == (
        f'missing permission: list persistentvolumeclaims (API group "") in namespace {namespace}'
    )


def test_without_the_workload_api_its_kinds_are_unread(server_without: Server) -> None:
    """A server without the Workload API, like most clusters, is read."""
    loaded = load_live(KubeOptions(kubeconfig=str(server_without.kubeconfig), all_namespaces=True))
    assert not loaded.state.native_served
    assert loaded.state.unread == {
        "CompositePodGroup": "not served by this cluster",
        "PodGroup": "not served by this cluster",
        "Workload": "not served by this cluster",
        "KueueWorkload": "not served by this cluster",
    }


@pytest.mark.parametrize(
    ("name", "error"),
    [("kubernetes.default.svc", ""), ("other.example", "certificate is not valid for 'other.example'")],
)
async def test_a_write_uses_the_name_of_the_kubeconfig_in_tls(
    server_137: Server, namespace: str, tmp_path: Path, name: str, error: str
) -> None:
    text = server_137.kubeconfig.read_text(encoding="utf-8")
    named = text.replace("server: https", f"tls-server-name: {name}\n    server: https")
    assert named != text
    (tmp_path / "named").write_text(named, encoding="utf-8")
    async with connect(str(tmp_path / "named"), None) as link:
        path, made = f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "made"}}
        if error:
            with pytest.raises(PodiumError, match=error):
                await link.send("POST", path, made)
        else:
            await link.send("POST", path, made)
    code, _ = server_137.request("GET", f"{path}/made")
    assert code == (404 if error else 200)
