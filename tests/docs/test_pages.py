"""Every command of the README and of docs/ runs in the page's order, on a server if it needs one.

A test has the name of its page, and prepares the conditions that the page assumes. Processes listen on the
ports that the pages name, so these tests stay in one file: one worker runs them, one after the other.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.controllers import running as controllers
from tests.support.docs.help import LIVE
from tests.support.docs.pagerun import PageRun
from tests.support.docs.pages import Command, pages
from tests.support.install.scene import apply
from tests.support.plugins import install_example
from tests.support.servers import Server, exclusive, of_run
from tests.support.webhooks import deployed
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import NEWEST, RELEASES

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

# The installed custom resources.
_KINDS = """
kubectl apply --server-side -f manifests/crds
kubectl wait --for=condition=established -f manifests/crds
kubectl api-resources >/dev/null
"""
_NATIVE, _OLDER = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"
_PODIUM = "scheduling.podium.dev/v1beta1"


def _group(api: str, name: str, namespace: str = "default") -> dict[str, Any]:
    """Return a group of the class research."""
    spec = {"priorityClassName": "research", "schedulingPolicy": {"gang": {"minCount": 2}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod of team-a."""
    containers = [{"name": "main", "image": "registry.example/train"}]
    spec = {"schedulerName": "podium-scheduler", "containers": containers, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": spec,
    }


def _make(server: Server, *documents: dict[str, Any]) -> None:
    """Make objects, after the class that their groups name."""
    server.kubectl("create", "priorityclass", "research", "--value=1000")
    for each in documents:
        server.kubectl("create", "-f", "-", stdin=each)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a cluster of the newest minor with all of Podium installed and a running webhook."""
    folder = tmp_path_factory.mktemp("installed")
    with exclusive(NEWEST, controllers=True) as server:
        apply(server, rendered("scheduler"))
        with deployed.installed(server, folder):
            yield server


@pytest.fixture(scope="module")
def team(installed: Server) -> Server:
    """Return the same cluster with a team whose gang waits for its second pod."""
    installed.kubectl("create", "namespace", "team-a")
    member = {"schedulingGroup": {"podGroupName": "train"}, "priorityClassName": "research"}
    gang = _group(_NATIVE, "train", "team-a"), _pod("train-0", **member)
    _make(installed, *gang, _group(_PODIUM, "train", "team-a"), _pod("trainer"))
    return installed


@pytest.fixture
def bare() -> Iterator[Server]:
    """Yield an API server without Podium."""
    with exclusive(NEWEST) as server:
        yield server


@pytest.fixture
def cluster() -> Iterator[Server]:
    """Yield a cluster without Podium."""
    with exclusive(NEWEST, controllers=True) as server:
        yield server


@pytest.mark.parametrize("minor", of_run())
def test_readme(page_run: PageRun, bare: Server, minor: str) -> None:
    """The condition of the running gang names its preemptor, with kube-scheduler's message."""
    page_run.at(bare)
    page_run.environ["KUBERNETES"] = minor
    page_run.until("export KUBECONFIG")
    if minor == "1.36":
        page_run.left = [_for_1_36(each) for each in page_run.left]
    assert "preempting to accommodate a higher priority podgroup (UID " in page_run.next()
    page_run.rest()


def _for_1_36(command: Command) -> Command:
    """Return a command as README wants it for 1.36."""
    readme = pages()["readme"].read_text("utf-8")
    found = re.search(r"`kubectl apply -f FILE` is there `(podium convert -f FILE .*)`", readme)
    assert found is not None
    line = found[1].replace("FILE", r"\1")
    return command._replace(text=re.sub(r"kubectl apply -f (examples/\S+)", line, command.text))


def test_admission(page_run: PageRun, installed: Server) -> None:
    page_run.at(installed).given(
        """
        kubectl config rename-context $(kubectl config current-context) prod
        cp examples/admit/gang.yaml new.yaml
        cp new.yaml old.yaml
        cp examples/training-1.37.json.gz dump.json.gz
        """
    )
    page_run.rest()


def test_autogroups(page_run: PageRun, team: Server) -> None:
    page_run.at(team).rest()


def test_ci(page_run: PageRun, installed: Server) -> None:
    """The first two commands pass without new findings."""
    page_run.at(installed)
    for _ in range(3):
        page_run.next(fine=(0,))
    page_run.rest()


def test_convert(page_run: PageRun, bare: Server) -> None:
    """The objects are written on 1.36, and recreated on 1.37 with the same class."""
    with exclusive(RELEASES["1.36"]) as older:
        _make(older, _group(_OLDER, "train"))
        page_run.at(older).until("kubectl create")
    _make(bare)
    assert "podgroup.scheduling.k8s.io/train created" in page_run.at(bare).rest()


def test_crds(page_run: PageRun, bare: Server) -> None:
    """The objects exist before the page's first command."""
    page_run.at(bare).given(_KINDS)
    page_run.rest()


def test_doctor(page_run: PageRun, installed: Server) -> None:
    page_run.at(installed).rest()


def test_dump(page_run: PageRun, team: Server) -> None:
    page_run.at(team).rest()


def test_history(page_run: PageRun, bare: Server) -> None:
    """The page shows the output of the last command."""
    page_run.at(bare).given(f"{_KINDS}kubectl create namespace podium-system >/dev/null\n")
    page_run.rest()


def test_install(page_run: PageRun, cluster: Server) -> None:
    """Each way of installing runs on a cluster from which the previous one was removed."""
    page_run.at(cluster)
    page_run.until("kubectl create namespace")
    page_run.given("kubectl delete -f manifests/rendered/scheduler.yaml")
    page_run.until("kubectl apply --server-side -f manifests/rendered/scheduler.yaml")
    page_run.given("kubectl delete namespace podium-system")
    page_run.until("kubectl -n podium-system wait")
    page_run.given("kubectl -n podium-system delete pod --all --grace-period=0 --force")
    page_run.rest()


def test_monitoring(page_run: PageRun, installed: Server) -> None:
    page_run.at(installed).rest()


def test_neighbours(page_run: PageRun) -> None:
    page_run.rest()


def test_plugins(page_run: PageRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip installs only what a registry has; a folder on the path is as good."""
    folder = page_run.folder / "installed"
    install_example(monkeypatch, folder)
    page_run.environ["PYTHONPATH"] = str(folder)
    assert page_run.left.pop(0).text == "pip install ./examples/plugins/power-feed"
    assert "b-1      2  team-a/train-1, team-a/train-3" in page_run.rest()


def test_real_nodes(page_run: PageRun) -> None:
    page_run.rest()


def test_reconciler(page_run: PageRun, team: Server, tmp_path: Path) -> None:
    """The Job gets a group of its size and class, and the pod that differs is reported.

    A second reconciler writes the condition of every group, as its file requires.
    """
    page_run.at(team).given(
        "kubectl config set-context --current --namespace=team-a\n"
        "printf 'apiVersion: config.podium.dev/v1\\nkind: ControllerConfiguration\\n' > controller.yaml"
    )
    page_run.until("export")
    printed = page_run.next()
    assert ["train-job", "2", "1000"] in [line.split() for line in printed.splitlines()]
    assert "does not have priority 1000: 0 (helper)" in printed
    page_run.until("kubectl wait")
    always = controllers.configuration(tmp_path, writeConditions="always")
    with controllers.running(team, tmp_path / "controller", always):
        assert "condition met" in page_run.next()
    metadata = {"name": "podium-controller", "namespace": "podium-system"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    team.kubectl("create", "-f", "-", stdin=lease)
    page_run.rest()


def test_reports(page_run: PageRun, team: Server) -> None:
    page_run.at(team).given("gunzip -c examples/training-1.37.json.gz > cluster.json")
    page_run.rest()


def test_scheduler(page_run: PageRun, installed: Server) -> None:
    """The scheduler first reports evictions only, and carries them out once they are enabled."""
    page_run.at(installed).given("cp examples/scheduler/careful.yaml scheduler.yaml")
    page_run.until("export")
    printed = page_run.next()
    assert "preemption is only observed" in printed
    assert printed.rindex("job.batch/train condition met") > printed.index("preemption is only observed")
    page_run.rest()


def test_upgrade(page_run: PageRun, bare: Server) -> None:
    """Groups move from 1.36 to 1.37, where Podium's move to the native API, or wait for their pods."""
    with exclusive(RELEASES["1.36"]) as older:
        _make(older, _group(_OLDER, "train"))
        page_run.at(older).until("kubectl create -f out/new")
    bare.kubectl("create", "namespace", "team-a")
    _make(bare)
    page_run.at(bare).given(_KINDS)
    page_run.until("podium migrate --to native")
    for name in ("idle", "used"):
        bare.kubectl("create", "-f", "-", stdin=_group(_PODIUM, name, "team-a"))
    user = _pod("user")
    user["metadata"]["labels"] = {"scheduling.podium.dev/pod-group": "used"}
    bare.kubectl("create", "-f", "-", stdin=user)
    assert "podgroup.scheduling.k8s.io/used created" in page_run.rest()


def test_webhooks(page_run: PageRun, bare: Server) -> None:
    """The group gets its class's integer, and the pod its group's class.

    The page removes everything twice: from a broken cluster, and from one without problems.
    """
    page_run.at(bare).given(
        "kubectl create namespace podium-system; cp examples/webhook/policy.yaml policy.yaml"
    )
    rows = [line.split() for line in page_run.next().splitlines()]
    assert ["train", "research", "1000"] in rows
    assert ["train-0", "research", "1000"] in rows
    page_run.until("podium webhook")
    page_run.given(
        "kubectl apply --server-side -f manifests/chart/files/webhooks\n"
        "kubectl -n podium-system create deployment podium-webhook --image=podium"
    )
    page_run.environ |= {"POD_NAME": "one", "POD_IP": "127.0.0.1"}
    assert "certificates" in page_run.next()
    page_run.until("kubectl get podium")
    page_run.given("kubectl api-resources")
    page_run.until("kubectl delete mutatingwebhookconfiguration")
    for _ in range(2):
        page_run.next()
    page_run.given("kubectl apply --server-side -f manifests/chart/files/webhooks")
    page_run.rest()


def test_ui(page_run: PageRun) -> None:
    """tests/integration/cli/ui/test_docs.py runs each command of the page."""
    page_run.rest()


def test_help(cluster: Server, tmp_path: Path) -> None:
    """The examples in the help of the commands that need a cluster run, in the order of the commands."""
    page_run = PageRun(tmp_path, *(Command(line, line) for line in LIVE)).at(cluster)
    page_run.given(f"{_KINDS}kubectl create namespace team-a\ncp examples/webhook/policy.yaml .")
    cluster.kubectl("create", "-f", "-", stdin=_pod("trainer"))
    page_run.until("podium migrate")
    page_run.given(_KINDS)
    page_run.until("podium controller --config")
    page_run.given(
        "cp examples/scheduler/careful.yaml scheduler.yaml\n"
        "printf 'apiVersion: config.podium.dev/v1\\nkind: ControllerConfiguration\\n' > controller.yaml"
    )
    page_run.rest()


def test_beside_kube_scheduler(page_run: PageRun, team: Server) -> None:
    """Nodes are reserved, and then released."""
    page_run.at(team).given("kubectl label nodes --all pool=training")
    page_run.until("kubectl get nodes -L")
    assert page_run.next().count(" yes") == 3
    page_run.rest()
    taints = [each["spec"].get("taints") for each in team.request("GET", "/api/v1/nodes")[1]["items"]]
    assert not any(taints)


def test_workloads(page_run: PageRun, team: Server) -> None:
    """Each way starts without the objects of the previous one; test_workloads.py uses every server."""
    page_run.at(team).given("kubectl label namespace default scheduling.podium.dev/auto-groups- || true")
    page_run.until("kubectl apply -f examples/workloads/podium.yaml")
    page_run.given("kubectl delete job train")
    page_run.until("kubectl apply -f examples/workloads/native-1.37.yaml")
    page_run.given("kubectl delete job train")
    page_run.until("kubectl apply -f examples/workloads/native-1.36.yaml")
    with exclusive(RELEASES["1.36"]) as older:
        page_run.at(older).given("kubectl apply -f examples/workloads/class.yaml")
        page_run.next()
    page_run.at(team).rest()


def test_whatif(page_run: PageRun, team: Server) -> None:
    page_run.at(team).rest()


def test_why(page_run: PageRun, team: Server) -> None:
    """The dump of a real cluster shows why its largest gang is not scheduled."""
    page_run.at(team).until("podium why group team-ranking")
    assert "kube-scheduler 1.37 refuses it, because it has priority 2000" in page_run.next()
    page_run.rest()
