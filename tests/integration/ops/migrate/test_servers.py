"""Migrations on real servers, both ways: interrupted at any write, raced, refused; pods stay unchanged."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.connection.cluster import READ_ONLY, kubeconfig_of
from tests.support.docs.pages import commands, pages
from tests.support.migrate import Object, membership
from tests.support.proxy import Cut, Proxy, Where
from tests.support.servers import TREES, Server, exclusive, of_run
from tools.devcluster.controlplane.releases import BUILDABLE

from podium.api.reads import Kind
from podium.cli.commands.migrate import command
from podium.cli.inputs import Scope
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import ask_live, load_live
from podium.documents.files import folder
from podium.errors import PodiumError
from podium.kube.connection import Connection
from podium.kube.discovery import discover
from podium.kube.listing import ReadProgress
from podium.ops.migrate import Api, Migration, plan_migration, target_version
from podium.ops.migrating import Done, Migrator

pytestmark = pytest.mark.server

NATIVE = {
    "1.36": "scheduling.k8s.io/v1alpha2",
    "1.37": "scheduling.k8s.io/v1beta1",
    "1.38": "scheduling.k8s.io/v1beta1",
}
COMPOSITE = {"1.37": "scheduling.k8s.io/v1alpha3", "1.38": "scheduling.k8s.io/v1beta1"}
PODIUM = "scheduling.podium.dev/v1beta1"
COMMANDS = [each.text for each in commands(pages()["upgrade"]) if each.text.startswith("podium migrate ")]
PLURALS = {"Workload": "workloads", "PodGroup": "podgroups"}
COMPOSITES = "compositepodgroups"


@pytest.fixture(scope="module", params=of_run())
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server with both APIs; without controllers, so a deleted native group stays terminating."""
    gates = (f"--feature-gates={TREES}",) if request.param in COMPOSITE else ()
    with exclusive(BUILDABLE[request.param], apiserver=gates) as made:
        crds = str(folder("manifests") / "crds")
        made.kubectl("apply", "--server-side", "-f", crds)
        made.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
        yield made


@pytest.fixture
def namespace(server: Server) -> str:
    return server.new_namespace()


def version(server: Server, api: Api) -> str:
    return PODIUM if api is Api.PODIUM else NATIVE[server.release.minor]


def other(api: Api) -> Api:
    return Api.NATIVE if api is Api.PODIUM else Api.PODIUM


def path(api_version: str, namespace: str, kind: str, name: str = "") -> str:
    return f"/apis/{api_version}/namespaces/{namespace}/{PLURALS[kind]}/{name}".rstrip("/")


def create(server: Server, api_version: str, namespace: str, kind: str, body: Object) -> Object:
    whole = {"apiVersion": api_version, "kind": kind, **body}
    code, made = server.request("POST", path(api_version, namespace, kind), whole)
    assert code == 201, made
    assert isinstance(made, dict)
    return made


def fill(server: Server, api: Api, namespace: str) -> None:
    """A Workload with two dependent groups, of which one has a pod; and a group by itself."""
    here, newer = version(server, api), api is Api.PODIUM or server.release.minor != "1.36"
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    mode: Any = {"all": {}} if newer else "PodGroup"
    template = {"name": "worker", **policy}
    llm = {"metadata": {"name": "llm"}, "spec": {"podGroupTemplates": [template]}}
    made = create(server, here, namespace, "Workload", llm)
    owner = {"apiVersion": here, "kind": "Workload", "name": "llm", "uid": made["metadata"]["uid"]}
    ref: Object = {"workloadRef": {"workloadName": "llm", "templateName": "worker"}}
    if not newer:
        ref = {"podGroupTemplateRef": {"workload": {"workloadName": "llm", "podGroupTemplateName": "worker"}}}
    of_llm = {"labels": {"team": "a"}, "ownerReferences": [owner]}
    for name in ("idle", "train"):
        body = {"metadata": {"name": name, **of_llm}, "spec": {**policy, "disruptionMode": mode, **ref}}
        create(server, here, namespace, "PodGroup", body)
    single: Any = {"single": {}} if newer else "Pod"
    basic = {"schedulingPolicy": {"basic": {}}, "disruptionMode": single}
    create(server, here, namespace, "PodGroup", {"metadata": {"name": "alone"}, "spec": basic})
    add_pod(server, namespace, "train-0", "train", api)


def add_pod(server: Server, namespace: str, name: str, of: str, api: Api) -> str:
    """Make a pod of a group; return its UID."""
    body = membership(of, native=api is Api.NATIVE)
    body["metadata"] |= {"name": name}
    code, made = server.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    assert code == 201, made
    uid: str = made["metadata"]["uid"]
    return uid


def there(server: Server, api: Api, namespace: str, *, leaving: bool = False) -> dict[str, Object]:
    """Return the objects of an API that are terminating or not, by kind and name."""
    found = {}
    for kind in PLURALS:
        _, listed = server.request("GET", path(version(server, api), namespace, kind))
        for item in listed["items"]:
            if ("deletionTimestamp" in item["metadata"]) is leaving:
                found[f"{kind} {item['metadata']['name']}"] = item
    return found


def migrate(kubeconfig: Path, namespace: str, to: Api, *arguments: str) -> Result:
    return CliRunner().invoke(
        command, ["--kubeconfig", str(kubeconfig), "-n", namespace, "--to", str(to), *arguments]
    )


ALL = {"Workload llm", "PodGroup alone", "PodGroup idle", "PodGroup train"}
FREE = {"Workload llm", "PodGroup alone", "PodGroup idle"}


@pytest.mark.parametrize("to", Api)
def test_unused_objects_move_and_the_rest_follows(
    server: Server, namespace: str, tmp_path: Path, to: Api
) -> None:
    """The plan writes nothing; the first run moves free objects, the next one those released since."""
    fill(server, other(to), namespace)
    (before,) = _pods(server, namespace)
    with Proxy(server).running() as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path)
        planned = migrate(kubeconfig, namespace, to)
        assert planned.exit_code == 3, planned.output
        assert proxy.writes() == []
        done = migrate(kubeconfig, namespace, to, "--apply", "-o", "json")
        assert done.exit_code == 3, done.output
        assert all("/pods" not in call.path for call in proxy.writes())
        assert {call.manager for call in proxy.writes(Where(method="PATCH"))} == {"podium-migrate"}
    report = {each["object"]["name"]: each for each in json.loads(done.stdout)["items"]}
    assert {name: each["done"] for name, each in report.items()} == {
        "llm": "copied",
        "alone": "moved",
        "idle": "moved",
        "train": "",
    }
    assert set(there(server, other(to), namespace)) == {"Workload llm", "PodGroup train"}
    copies = there(server, to, namespace)
    assert set(copies) == FREE
    idle, llm = copies["PodGroup idle"]["metadata"], copies["Workload llm"]["metadata"]
    assert idle["labels"] == {"team": "a"}
    assert [(each["apiVersion"], each["uid"]) for each in idle["ownerReferences"]] == [
        (version(server, to), llm["uid"])
    ]
    assert _pods(server, namespace) == [before]

    server.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/train-0?gracePeriodSeconds=0")
    add_pod(server, namespace, "train-0", "train", to)
    finished = migrate(server.kubeconfig, namespace, to, "--apply")
    assert finished.exit_code == 0, finished.output
    assert set(there(server, to, namespace)) == ALL
    assert there(server, other(to), namespace) == {}
    again = migrate(server.kubeconfig, namespace, to, "--apply", "-o", "json")
    assert again.exit_code == 0, again.output
    assert {each["state"] for each in json.loads(again.stdout)["items"]} <= {"being deleted"}


def _pods(server: Server, namespace: str) -> list[tuple[str, str]]:
    _, listed = server.request("GET", f"/api/v1/namespaces/{namespace}/pods")
    return [(pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for pod in listed["items"]]


@pytest.mark.parametrize("to", Api)
def test_a_run_that_is_cut_is_finished_by_the_next(server: Server, tmp_path: Path, to: Api) -> None:
    """Interrupted at each write in turn: every group is in at least one API, and the result is the same."""
    # Each way with each loss: the request on one release, the answer on the other.
    answered = (to is Api.NATIVE) is (server.release.minor == "1.36")
    cuts = 0
    with Proxy(server).running() as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path)
        while True:
            namespace = server.new_namespace()
            fill(server, other(to), namespace)
            writes = Where(path=f"/namespaces/{namespace}/(podgroups|workloads)/.")
            with proxy.fault(writes, Cut(answered=answered), times=1, skip=cuts) as rule:
                cut = migrate(kubeconfig, namespace, to, "--apply")
            if not rule.hits:
                assert cut.exit_code == 3, cut.output
                break
            assert isinstance(cut.exception, PodiumError), cut.output
            assert "Run this again to continue" in str(cut.exception)
            assert set(there(server, to, namespace)) | set(there(server, other(to), namespace)) == ALL
            done = migrate(kubeconfig, namespace, to, "--apply")
            assert done.exit_code == 3, done.output
            assert set(there(server, to, namespace)) == FREE
            assert set(there(server, other(to), namespace)) == {"Workload llm", "PodGroup train"}
            cuts += 1
    assert cuts == 5  # three copies, two deletions


def plan_of(server: Server, namespace: str, to: Api) -> Migration:
    """Make a plan as the command does, so that a test can change the cluster before it is applied."""
    options = KubeOptions(kubeconfig=str(server.kubeconfig), namespace=namespace)
    read = load_live(options, keep=(Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.WORKLOAD))
    minor = int(server.release.minor.removeprefix("1."))
    return plan_migration(read.state, read.documents, target_version(to, minor), minor)


def carry_out(server: Server, migration: Migration, *, trees: bool = True) -> dict[str, Done]:
    """Apply a plan, without `trees` as if no native ones are served; return the result by kind and name."""

    async def run(connection: Connection, _: Scope, watcher: ReadProgress) -> dict[str, Done]:
        found = await discover(connection)
        served = [
            each
            for each in found.served
            if trees or (each.kind, each.api_version) != ("CompositePodGroup", composites(server, Api.NATIVE))
        ]
        migrator = Migrator(connection, found._replace(served=served), watcher)
        await migrator.migrate(migration.moves)
        return {f"{ref.kind} {ref.name}": done for ref, done in migrator.done.items()}

    return ask_live(KubeOptions(kubeconfig=str(server.kubeconfig)), run)


@pytest.mark.parametrize("to", Api)
def test_a_pod_that_came_meanwhile_keeps_its_group(server: Server, namespace: str, to: Api) -> None:
    """The pods are read again before a deletion; the Workload stays with its group."""
    fill(server, other(to), namespace)
    server.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/train-0?gracePeriodSeconds=0")
    migration = plan_of(server, namespace, to)
    add_pod(server, namespace, "late", "idle", other(to))
    done = carry_out(server, migration)
    assert done == {
        "Workload llm": ("copied; some of its groups still exist", True),
        "PodGroup alone": ("moved", False),
        "PodGroup idle": ("copied; a pod uses it now", True),
        "PodGroup train": ("moved", False),
    }
    assert set(there(server, other(to), namespace)) == {"Workload llm", "PodGroup idle"}


def fill_tree(server: Server, namespace: str, api: Api) -> None:
    """Create a Workload and a tree of two levels above two groups."""
    ref = {"workloadRef": {"workloadName": "llm", "templateName": "root"}}
    gang = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    worker = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 2}}}
    root = {"name": "root", **gang, "podGroupTemplates": [worker]}
    spec: Object = {"compositePodGroupTemplates": [root]}
    create(server, version(server, api), namespace, "Workload", {"metadata": {"name": "llm"}, "spec": spec})
    for name, parent in (("z-root", ""), ("inner", "z-root")):
        above = {"parentCompositePodGroupName": parent} if parent else {}
        body = {
            "apiVersion": composites(server, api),
            "kind": "CompositePodGroup",
            "metadata": {"name": name},
        }
        at = f"/apis/{composites(server, api)}/namespaces/{namespace}/{COMPOSITES}"
        code, made = server.request("POST", at, {**body, "spec": {**gang, **ref, **above}})
        assert code == 201, made
    ref = {"workloadRef": {"workloadName": "llm", "templateName": "worker"}}
    for name in "ab":
        spec = {"schedulingPolicy": worker["schedulingPolicy"], **ref, "parentCompositePodGroupName": "inner"}
        body = {"metadata": {"name": name}, "spec": spec}
        create(server, version(server, api), namespace, "PodGroup", body)


def composites(server: Server, api: Api) -> str:
    return PODIUM if api is Api.PODIUM else COMPOSITE[server.release.minor]


def composites_there(server: Server, api: Api, namespace: str) -> set[str]:
    """Return the names of the composite groups of an API that are not terminating."""
    _, listed = server.request("GET", f"/apis/{composites(server, api)}/namespaces/{namespace}/{COMPOSITES}")
    meta = (each["metadata"] for each in listed.get("items", ()))
    return {each["name"] for each in meta if "deletionTimestamp" not in each}


@pytest.mark.parametrize("to", Api)
def test_a_tree_moves_whole(server: Server, namespace: str, to: Api) -> None:
    """A pod that comes after the plan keeps its whole tree; without the kind the tree stays."""
    if server.release.minor == "1.36" and to is Api.PODIUM:
        return
    fill_tree(server, namespace, other(to))
    names = {"z-root", "inner"}
    if server.release.minor == "1.36":
        refused = migrate(server.kubeconfig, namespace, to, "--apply")
        assert refused.exit_code == 3, refused.output
        assert composites_there(server, other(to), namespace) == names
        assert there(server, to, namespace) == {}
        return
    migration = plan_of(server, namespace, to)
    add_pod(server, namespace, "late", "a", other(to))
    done = carry_out(server, migration)
    assert done.pop("Workload llm") == ("copied; some of its groups still exist", True)
    assert set(done.values()) == {("copied; a pod uses its tree now", True)}
    server.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/late?gracePeriodSeconds=0")
    finished = migrate(server.kubeconfig, namespace, to, "--apply")
    assert finished.exit_code == 0, finished.output
    assert composites_there(server, to, namespace) == names
    assert composites_there(server, other(to), namespace) == set()
    assert set(there(server, to, namespace)) == {"Workload llm", "PodGroup a", "PodGroup b"}
    parents = {
        each["spec"].get("parentCompositePodGroupName") for each in there(server, to, namespace).values()
    }
    assert parents == {None, "inner"}


def test_a_tree_stays_if_its_kind_is_not_served(server: Server, namespace: str) -> None:
    """No group is copied without its composite group."""
    if server.release.minor == "1.36":
        return
    fill_tree(server, namespace, Api.PODIUM)
    hidden = composites(server, Api.NATIVE)
    done = carry_out(server, plan_of(server, namespace, Api.NATIVE), trees=False)
    root = done.pop("CompositePodGroup z-root")
    assert root == (f"not copied: the cluster does not serve {hidden} CompositePodGroup", True)
    assert done.pop("Workload llm")[1]
    assert set(done.values()) == {("not copied, because its tree was not copied whole", True)}
    assert set(there(server, Api.NATIVE, namespace)) == {"Workload llm"}


def test_an_object_changed_after_the_plan_is_not_deleted(server: Server, namespace: str) -> None:
    """The plan is of an earlier state; the next run sees that the copy differs."""
    fill(server, Api.PODIUM, namespace)
    migration = plan_of(server, namespace, Api.NATIVE)
    merge, change = "application/merge-patch+json", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    code, answer = server.request("PATCH", path(PODIUM, namespace, "PodGroup", "idle"), change, merge)
    assert code == 200, answer
    done = carry_out(server, migration)
    assert done["PodGroup idle"] == ("copied; changed since it was read. Run this again", True)
    again = migrate(server.kubeconfig, namespace, Api.NATIVE, "-o", "json")
    assert again.exit_code == 3
    items = {each["object"]["name"]: each for each in json.loads(again.stdout)["items"]}
    assert items["idle"]["state"] == "cannot move"
    assert items["idle"]["why"].endswith("has another object of this name")


def test_a_refused_object_is_left_and_the_rest_moves(server: Server, namespace: str) -> None:
    """A class does not exist: the report has the API server's message, and nothing of the group is lost."""
    fill(server, Api.PODIUM, namespace)
    spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": "nobody-made-it"}
    create(server, PODIUM, namespace, "PodGroup", {"metadata": {"name": "odd"}, "spec": spec})
    done = migrate(server.kubeconfig, namespace, Api.NATIVE, "--apply")
    assert done.exit_code == 3
    assert "PodGroup odd" in there(server, Api.PODIUM, namespace)
    assert "PodGroup idle" in there(server, Api.NATIVE, namespace)
    output = " ".join(done.stdout.split())
    assert "2 objects moved" in output
    assert "1 did not" in output
    assert "not copied: " in output
    assert "no PriorityClass with name nobody-made-it was found" in output


def test_the_rights_of_the_page_are_enough(server: Server, namespace: str, tmp_path: Path) -> None:
    """Planning needs get and list only, and writes nothing; applying needs the rights in docs/upgrade.md."""
    fill(server, Api.NATIVE, namespace)
    kinds = list(PLURALS.values())
    reader = kubeconfig_of(server, namespace, READ_ONLY, tmp_path)
    assert migrate(reader, namespace, Api.PODIUM).exit_code == 3
    refused = migrate(reader, namespace, Api.PODIUM, "--apply", "-o", "json")
    done = [each["done"] for each in json.loads(refused.stdout)["items"] if each["failed"]]
    assert len(done) == 3
    assert all(each.startswith("not copied") for each in done)
    assert there(server, Api.PODIUM, namespace) == {}
    rights = [
        *READ_ONLY,
        {"apiGroups": ["scheduling.podium.dev"], "resources": kinds, "verbs": ["create", "patch"]},
        {"apiGroups": ["scheduling.k8s.io"], "resources": kinds, "verbs": ["delete"]},
    ]
    mover = kubeconfig_of(server, namespace, rights, tmp_path)
    assert migrate(mover, namespace, Api.PODIUM, "--apply").exit_code == 3
    assert set(there(server, Api.PODIUM, namespace)) == FREE
    assert set(there(server, Api.NATIVE, namespace)) == {"Workload llm", "PodGroup train"}


def test_a_cluster_without_the_native_api_says_so(server_without: Server, tmp_path: Path) -> None:
    """The error comes before any plan."""
    refused = migrate(server_without.kubeconfig, "default", Api.NATIVE)
    assert isinstance(refused.exception, PodiumError)
    assert "the cluster does not serve the native Workload API" in str(refused.exception)


def test_there_are_commands() -> None:
    """The page has commands, so the test below is not empty."""
    assert {"--apply" in each for each in COMMANDS} == {True, False}


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_page_run(server: Server, namespace: str, tmp_path: Path, line: str) -> None:
    """Each command runs on a cluster with groups to move, in one namespace; others belong to other tests."""
    to = Api.PODIUM if "--to podium" in line else Api.NATIVE
    fill(server, other(to), namespace)
    here = line.replace(" -A", f" -n {namespace}").replace(" groups", f" {tmp_path}/groups")
    done = CliRunner().invoke(command, [*shlex.split(here)[2:], "--kubeconfig", str(server.kubeconfig)])
    assert done.exit_code == 3, done.output
    assert (set(there(server, to, namespace)) == FREE) is ("--apply" in line)
    if "--output-dir" in line:
        # Objects in use are created by hand after the others have moved.
        assert migrate(server.kubeconfig, namespace, to, "--apply").exit_code == 3
        server.kubectl("create", "-f", str(tmp_path / "groups" / "held"))
        assert set(there(server, to, namespace)) == ALL
