"""Every command of the README and of docs/ runs in the page's order, on a server if it needs one.

A test has the name of its page, and prepares the conditions that the page assumes. Processes listen on the
ports that the pages name, so these tests stay in one file: one worker runs them, one after the other.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.controllers import running as controllers
from tests.support.docs.help import LIVE
from tests.support.docs.pages import Command
from tests.support.docs.play import Play
from tests.support.install.scene import podium, route, webhook
from tests.support.servers import Server, exclusive

from podium.controlplane.releases import NEWEST, RELEASES

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
    with exclusive(NEWEST, controllers=True) as server, webhook(server, folder) as webhooks:
        podium(server, "install", "--mode=scheduler")
        route(server, webhooks[0].url)
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


def test_readme(play: Play, installed: Server) -> None:
    """The condition of the running gang names its preemptor, with kube-scheduler's message."""
    play.at(installed)
    play.until("export")
    assert "preempting to accommodate a higher priority podgroup (UID " in play.next()
    play.rest()


def test_admission(play: Play, installed: Server) -> None:
    play.at(installed).given(
        """
        kubectl config rename-context $(kubectl config current-context) prod
        cp examples/admit/gang.yaml new.yaml
        cp new.yaml old.yaml
        cp examples/training-1.37.json.gz dump.json.gz
        """
    )
    play.rest()


def test_autogroups(play: Play, team: Server) -> None:
    play.at(team).rest()


def test_ci(play: Play, installed: Server) -> None:
    """The first two commands pass without new findings."""
    play.at(installed)
    for _ in range(3):
        play.next(fine=(0,))
    play.rest()


def test_convert(play: Play, bare: Server) -> None:
    """The objects are written on 1.36, and recreated on 1.37 with the same class."""
    with exclusive(RELEASES["1.36"]) as older:
        _make(older, _group(_OLDER, "train"))
        play.at(older).until("kubectl create")
    _make(bare)
    assert "podgroup.scheduling.k8s.io/train created" in play.at(bare).rest()


def test_crds(play: Play, bare: Server) -> None:
    """The objects exist before the page's first command."""
    play.at(bare).given(_KINDS)
    play.rest()


def test_doctor(play: Play, installed: Server) -> None:
    play.at(installed).rest()


def test_dump(play: Play, team: Server) -> None:
    play.at(team).rest()


def test_history(play: Play, bare: Server) -> None:
    """The page shows the output of the last command."""
    play.at(bare).given(f"{_KINDS}kubectl create namespace podium-system >/dev/null\n")
    play.rest()


def test_install(play: Play, cluster: Server, tmp_path: Path) -> None:
    """Each way of installing runs on a cluster from which the previous one was removed."""
    play.at(cluster)
    with webhook(cluster, tmp_path / "first"):
        play.until("kubectl apply")
    play.given("podium uninstall --delete-groups --yes")
    play.until("kubectl create namespace")
    play.given("podium uninstall --delete-groups --yes")
    play.until("podium upgrade")
    play.given("kubectl delete namespace podium-system")
    with webhook(cluster, tmp_path / "second"):
        play.given("podium install")
        play.until("podium uninstall")
    assert "delete Namespace podium-system" in play.next(answer="y\n")
    assert "delete CustomResourceDefinition" in play.next(answer="y\n")
    play.given("kubectl apply --server-side -f manifests/rendered/admission.yaml")
    play.rest()


def test_monitoring(play: Play, installed: Server) -> None:
    play.at(installed).rest()


def test_reconciler(play: Play, team: Server, tmp_path: Path) -> None:
    """The Job gets a group of its size and class, and the pod that differs is reported.

    A second reconciler writes the condition of every group, as its file requires.
    """
    play.at(team).given(
        "kubectl config set-context --current --namespace=team-a\n"
        "printf 'apiVersion: config.podium.dev/v1\\nkind: ControllerConfiguration\\n' > controller.yaml"
    )
    play.until("export")
    printed = play.next()
    assert ["train-job", "2", "1000"] in [line.split() for line in printed.splitlines()]
    assert "does not have priority 1000: 0 (helper)" in printed
    play.until("kubectl wait")
    always = controllers.configuration(tmp_path, writeConditions="always")
    with controllers.running(team, tmp_path / "controller", always):
        assert "condition met" in play.next()
    metadata = {"name": "podium-controller", "namespace": "podium-system"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    team.kubectl("create", "-f", "-", stdin=lease)
    play.rest()


def test_reports(play: Play, team: Server) -> None:
    play.at(team).given("gunzip -c examples/training-1.37.json.gz > cluster.json")
    play.rest()


def test_scheduler(play: Play, installed: Server) -> None:
    """The scheduler first reports evictions only, and carries them out once they are enabled."""
    play.at(installed).given("cp examples/scheduler/careful.yaml scheduler.yaml")
    play.until("export")
    printed = play.next()
    assert "preemption is only observed" in printed
    assert printed.rindex("job.batch/train condition met") > printed.index("preemption is only observed")
    play.rest()


def test_upgrade(play: Play, bare: Server) -> None:
    """Groups move from 1.36 to 1.37, where Podium's move to the native API, or wait for their pods."""
    with exclusive(RELEASES["1.36"]) as older:
        _make(older, _group(_OLDER, "train"))
        play.at(older).until("kubectl create -f out/new")
    bare.kubectl("create", "namespace", "team-a")
    _make(bare)
    play.at(bare).given(_KINDS)
    play.until("podium migrate --to native")
    for name in ("idle", "used"):
        bare.kubectl("create", "-f", "-", stdin=_group(_PODIUM, name, "team-a"))
    user = _pod("user")
    user["metadata"]["labels"] = {"scheduling.podium.dev/pod-group": "used"}
    bare.kubectl("create", "-f", "-", stdin=user)
    assert "podgroup.scheduling.k8s.io/used created" in play.rest()


def test_webhooks(play: Play, bare: Server) -> None:
    """The group gets its class's integer, and the pod its group's class.

    The page removes everything twice: from a broken cluster, and from one without problems.
    """
    play.at(bare).given("kubectl create namespace podium-system; cp examples/webhook/policy.yaml policy.yaml")
    rows = [line.split() for line in play.next().splitlines()]
    assert ["train", "research", "1000"] in rows
    assert ["train-0", "research", "1000"] in rows
    play.until("podium webhook")
    play.environ |= {"POD_NAME": "one", "POD_IP": "127.0.0.1"}
    assert "certificates" in play.next()
    play.until("kubectl get podium")
    play.given("kubectl api-resources")
    play.until("kubectl delete mutatingwebhookconfiguration")
    for _ in range(2):
        play.next()
    play.given("kubectl apply --server-side -f manifests/webhooks")
    play.rest()


def test_ui(play: Play) -> None:
    """tests/integration/cli/ui/test_docs.py runs each command of the page."""
    play.rest()


def test_help(cluster: Server, tmp_path: Path) -> None:
    """The examples in the help of the commands that need a cluster run, in the order of the commands."""
    play = Play(tmp_path, *(Command(line, line) for line in LIVE)).at(cluster)
    play.given(f"{_KINDS}kubectl create namespace team-a\ncp examples/webhook/policy.yaml .")
    cluster.kubectl("create", "-f", "-", stdin=_pod("trainer"))
    play.until("podium install --mode scheduler --image")
    with webhook(cluster, tmp_path / "webhook"):
        play.until("podium uninstall")
    assert "delete Namespace podium-system" in play.next(answer="y\n")
    play.until("podium migrate")
    play.given(_KINDS)
    play.until("podium controller --config")
    play.given(
        "cp examples/scheduler/careful.yaml scheduler.yaml\n"
        "printf 'apiVersion: config.podium.dev/v1\\nkind: ControllerConfiguration\\n' > controller.yaml"
    )
    play.rest()


def test_beside_kube_scheduler(play: Play, team: Server) -> None:
    """Nodes are reserved, and then released."""
    play.at(team).given("kubectl label nodes --all pool=training")
    play.until("kubectl get nodes -L")
    assert play.next().count(" yes") == 3
    play.rest()
    taints = [each["spec"].get("taints") for each in team.request("GET", "/api/v1/nodes")[1]["items"]]
    assert not any(taints)


def test_workloads(play: Play, team: Server) -> None:
    """Each way starts without the objects of the previous one; test_workloads.py uses every server."""
    play.at(team).given("kubectl label namespace default scheduling.podium.dev/auto-groups- || true")
    play.until("kubectl apply -f examples/workloads/podium.yaml")
    play.given("kubectl delete job train")
    play.until("kubectl apply -f examples/workloads/native-1.37.yaml")
    play.given("kubectl delete job train")
    play.until("kubectl apply -f examples/workloads/native-1.36.yaml")
    with exclusive(RELEASES["1.36"]) as older:
        play.at(older).given("kubectl apply -f examples/workloads/class.yaml")
        play.next()
    play.at(team).rest()


def test_whatif(play: Play, team: Server) -> None:
    play.at(team).rest()


def test_why(play: Play, team: Server) -> None:
    """The dump of a real cluster shows why its largest gang is not scheduled."""
    play.at(team).until("podium why group team-ranking")
    assert "kube-scheduler 1.37 refuses it, for it has priority 2000" in play.next()
    play.rest()
