"""The fix of a divergent group is the audit's, in `podium why` and so in the UI."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.ui.clusters import NOW
from tests.support.why import group, node, pod, priority_class

from podium.cli.main import command
from podium.cli.ui.page_data import PageData
from podium.documents import reading

TRAINING = str(Path(__file__).parents[4] / "examples" / "training-1.37.json.gz")
GROUPS = ("team-vision/ablation", "team-speech/nightly-asr", "team-ranking/retrain")


def report(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(command, [*arguments, "-f", TRAINING, "-o", "json"]).stdout)


@pytest.mark.parametrize("name", GROUPS)
def test_why_and_audit_give_one_advice(name: str) -> None:
    """The fix is the same for the reason of the wait and for the priority, and for each pod of the group."""
    namespace, _, group = name.partition("/")
    audit = report("audit", "--select", "pod-priority-differs")
    (fix,) = (
        each["fix"]
        for each in audit["findings"]
        if (each["object"]["namespace"], each["object"]["name"]) == (namespace, group)
    )
    told = report("why", "group", name)
    assert told["priority"]["fix"] == fix
    assert told["waiting"][0]["fix"] == fix
    (divergent,) = (
        each for each in audit["groups"] if (each["namespace"], each["name"]) == (namespace, group)
    )
    pod = report("why", "pod", f"{namespace}/{divergent['divergent'][0]['pod']}")
    assert pod["priority"]["fix"] == fix


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


@pytest.mark.parametrize(
    ("read", "place"), [(True, "the pod template of Deployment a/web"), (False, "the pods")]
)
def test_the_owner_is_the_topmost_one_or_none(read: bool, place: str, tmp_path: Path) -> None:
    """A live `podium why` does not read owners, and the template of a ReplicaSet is not edited."""
    owned: Any = {"metadata": {"ownerReferences": [owner("ReplicaSet", "web-7d")]}}
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-7d", "namespace": "a", "ownerReferences": [owner("Deployment", "web")]},
    }
    objects = [
        node(),
        priority_class("high", 1000),
        group("ring", least=1, priority=1000, spec={"priorityClassName": "high"}),
        pod("x", group="ring", priority=1000, priorityClassName="high", **owned),
        pod("y", group="ring", priority=0, **owned),
        *([replicas] if read else []),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    answers = PageData(reading.read(str(file))._replace(at=NOW, live=True))
    account = answers.explain("group", ("a", "ring"), NOW).account
    assert account.priority is not None
    assert account.priority.fix == f"set priorityClassName: high in {place}, then recreate the pods"
