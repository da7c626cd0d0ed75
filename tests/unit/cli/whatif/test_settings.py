"""An answer names the settings of its scheduler, and follows them."""

import json
from pathlib import Path

import pytest
from tests.support.calling import Podium, calling

from podium.answers.schedulerfile import read_settings
from podium.answers.schedulersettings import of_scheduler
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.clusterinfo import ClusterInfo, SchedulerFile, of_config_map
from podium.documents.load import load_state
from podium.documents.split import split
from podium.ops.dump import DumpRecorder, lines
from podium.ops.share import pseudonyms
from podium.planner.scores import Weights
from podium.planner.settings import Settings

OURS = "podium-scheduler"
DEFAULTS = f"(defaults of {OURS}"
CONFIG = "  config.yaml: |\n    apiVersion: config.podium.dev/v1\n    kind: SchedulerConfiguration\n"


def pod(name: str, priority: int, scheduler: str = OURS, node: str = "", group: str = "") -> str:
    labels = f", labels: {{scheduling.podium.dev/pod-group: {group}}}" if group else ""
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: a, uid: u-{name}{labels}}}
spec:
  priority: {priority}
  schedulerName: {scheduler}
  containers: [{{name: main, resources: {{requests: {{cpu: "4"}}}}}}]
{f"  nodeName: {node}" if node else ""}
"""


def config_map(*lines: str) -> str:
    """Write the ConfigMap of the scheduler with these lines in its file."""
    head = (
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: podium-scheduler, namespace: podium-system}\n"
    )
    return f"{head}data:\n{CONFIG}" + "".join(f"    {line}\n" for line in lines)


NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}, nodeInfo: {kubeletVersion: v1.37.0}}
"""
GROUP = """\
---
apiVersion: scheduling.podium.dev/v1beta1
kind: PodGroup
metadata: {name: ring, namespace: a}
spec: {schedulingPolicy: {gang: {minCount: 1}}, disruptionMode: {single: {}}, priority: 5}
"""
FOREIGN, OWN = pod("low", 1, "default-scheduler", "n1"), pod("low", 1, node="n1")
# A divergent group, and a lone pod: neither may evict a running pod by default.
DIVIDED, LONE = GROUP + pod("ring-0", 0, group="ring"), pod("lone", 5)
FITS, NOT, BARRED = "FitsAfterPreemption", "DoesNotFit", "NotEligible"


@pytest.fixture(params=["whatif", "why"])
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("objects", "of", "extra", "outcome", "settings"),
    [
        pytest.param(FOREIGN + LONE, "pod lone", (), NOT, DEFAULTS, id="evict own is the default"),
        pytest.param(OWN + DIVIDED, "group ring", (), BARRED, DEFAULTS, id="NoPreemption, too"),
        pytest.param(
            *(FOREIGN + LONE + config_map("evict: any"), "pod lone", (), FITS),
            "pods of any scheduler",
            id="by its ConfigMap",
        ),
        pytest.param(
            *(OWN + DIVIDED + config_map("divergencePolicy: UseGroupPriority"), "group ring", (), FITS),
            "(ConfigMap podium-system/podium-scheduler)",
            id="a policy by its ConfigMap",
        ),
        pytest.param(
            *(OWN + LONE + config_map("preemption: off"), "pod lone", (), FITS, "preemption off"),
            id="the mode is named",
        ),
        pytest.param(
            *(OWN + LONE + config_map("weights: {memory: 0, nvidia.com/gpu: 2}"), "pod lone", (), FITS),
            "weights cpu=1 memory=0 accelerators=4 nvidia.com/gpu=2",
            id="weights that are not the defaults",
        ),
        pytest.param(
            *(FOREIGN + LONE + config_map("evict: unknown"), "pod lone", (), NOT),
            "ConfigMap podium-system/podium-scheduler not used",
            id="a ConfigMap that is wrong",
        ),
        pytest.param(
            *(FOREIGN + LONE + config_map("schedulerName: other", "evict: any"), "pod lone", (), NOT),
            DEFAULTS,
            id="the ConfigMap is another scheduler's",
        ),
        pytest.param(
            *(FOREIGN + LONE, "pod lone", ("--config", "own.yaml"), FITS),
            "(own.yaml; else defaults of podium-scheduler)",
            id="--config rules over both",
        ),
    ],
)
def test_the_settings_of_podiums_scheduler(  # noqa: PLR0917 - the columns of a table
    command: str,
    objects: str,
    of: str,
    extra: tuple[str, ...],
    outcome: str,
    settings: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    podium = calling(command, monkeypatch, tmp_path)
    Path("own.yaml").write_text(
        "apiVersion: config.podium.dev/v1\nkind: WhatIfConfiguration\nevictOnly: null\n", "utf-8"
    )
    Path("cluster.yaml").write_text(NODE + objects, "utf-8")
    kind, name = of.split()
    whom = [kind, f"a/{name}"] if command == "why" else [f"--{kind}", f"a/{name}"]
    output = " ".join(podium(*whom, "-f", "cluster.yaml", *extra).stdout.split())
    assert settings in output
    assert "Settings: preemption" in output
    report = podium(*whom, "-f", "cluster.yaml", *extra, "-o", "json").json
    assert (report["prospect"] if command == "why" else report)["outcome"] == outcome


def test_settings_are_no_matter_of_kube_schedulers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The settings apply neither to other schedulers' pods, nor under the rules of a release."""
    podium: Podium = calling("whatif", monkeypatch, tmp_path)
    theirs = pod("lone", 5, "default-scheduler")
    for scheduled, extra in ((theirs, ()), (LONE, ("--semantics", "1.37"))):
        Path("cluster.yaml").write_text(NODE + FOREIGN + config_map() + scheduled, "utf-8")
        output = podium("--pod", "a/lone", "-f", "cluster.yaml", *extra).stdout
        assert "fits after preemption" in output
        assert "Settings:" not in output


def test_a_dump_carries_what_a_plan_depends_on() -> None:
    """With pseudonyms it leaves out labels of nodes and names of schedulers."""
    file = {
        "apiVersion": "config.podium.dev/v1",
        "kind": "SchedulerConfiguration",
        "schedulerName": "ours",
        "reservedNodes": "corp.example/pool",
        "evict": "any",
        "recordsNamespace": "secret",
    }
    data = {"config.yaml": json.dumps(file)}
    found = of_config_map({"metadata": {"name": OURS, "namespace": "x"}, "data": data})
    assert found is not None
    assert found.where == "ConfigMap x/podium-scheduler"
    assert "recordsNamespace" not in found.fields
    info = ClusterInfo(scheduling=True, scheduler=found)
    for rename, label in ((None, "corp.example/pool"), (pseudonyms(b"key"), "")):
        dump = b"".join(lines(DumpRecorder(None), info, rename))  # type: ignore[arg-type] # discovery is not used
        loaded = load_state(split(dump, "d.json"), strict=True, reads=SCHEDULING_READS)
        assert loaded.scheduler is not None
        renamed = loaded.scheduler.fields["schedulerName"]
        assert (renamed == "ours") is (rename is None)
        own = of_scheduler(renamed, loaded)
        assert own is not None
        assert (own.live.engine.evict_only, own.live.engine.reserved) == (None, label)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "no SchedulerConfiguration found"),
        ({"config.yaml": "a: ["}, "config"),
        (
            {"config.yaml": json.dumps({"kind": "Other", "apiVersion": "v1"})},
            "no SchedulerConfiguration found",
        ),
    ],
)
def test_a_config_map_without_a_file_is_named(data: dict[str, str], problem: str) -> None:
    found = of_config_map({"metadata": {"name": OURS, "namespace": "podium-system"}, "data": data})
    assert isinstance(found, SchedulerFile)
    assert found.problem
    assert problem in found.problem or problem == "config"
    assert of_config_map({"metadata": {"name": "other"}}) is None


def test_weights_of_a_file_rule_over_those_of_the_scheduler_one_by_one(tmp_path: Path) -> None:
    """Settings that the file does not name have the scheduler's defaults."""
    path = tmp_path / "own.yaml"
    head = "apiVersion: config.podium.dev/v1\nkind: WhatIfConfiguration\n"
    path.write_text(f"{head}weights: {{memory: 3, example.com/nic: 0}}\n", encoding="utf-8")
    base = Settings(weights=Weights(2, 2, 9, (("example.com/gpu", 5),)))
    named = (("example.com/gpu", 5), ("example.com/nic", 0))
    assert read_settings(str(path), base).weights == Weights(2, 3, 9, named)
