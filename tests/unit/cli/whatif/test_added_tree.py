"""`podium whatif --add` for a manifest of a tree of composite groups."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from podium.cli.commands.whatif import command

CLUSTER = "examples/preemption/cluster.yaml"
HEAD = """
apiVersion: scheduling.podium.dev/v1beta1
kind: CompositePodGroup
metadata: {name: tree, namespace: research}
spec:
  workloadRef: {workloadName: w, templateName: t}
  schedulingPolicy: {gang: {minGroupCount: 2}}
  priorityClassName: urgent
"""
LEAF = """
---
apiVersion: scheduling.podium.dev/v1beta1
kind: PodGroup
metadata: {name: NAME, namespace: research}
spec:
  parentCompositePodGroupName: tree
  workloadRef: {workloadName: w, templateName: t}
  schedulingPolicy: {gang: {minCount: 1}}
  priorityClassName: urgent
---
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: research}
spec:
  template:
    metadata: {labels: {scheduling.podium.dev/pod-group: NAME}}
    spec:
      schedulerName: podium-scheduler
      priorityClassName: urgent
      restartPolicy: Never
      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: CPUS}}
"""


@pytest.mark.parametrize(("cpus", "code"), [("1", 0), ("97", 3)], ids=["fits", "fits no node"])
def test_a_tree_of_a_manifest_has_one_plan(tmp_path: Path, cpus: str, code: int) -> None:
    """The second group needs CPUS, and the tree needs both groups."""
    leaves = [("first", "1"), ("second", cpus)]
    texts = [LEAF.replace("NAME", name).replace("CPUS", f'"{size}"') for name, size in leaves]
    manifest = tmp_path / "tree.yaml"
    manifest.write_text("".join([HEAD, *texts]))
    done = CliRunner().invoke(command, ["-f", CLUSTER, "--add", str(manifest), "-o", "json"])
    assert done.exit_code == code, done.output
    plan = json.loads(done.stdout)
    assert plan["workloads"] == []
    assert len(plan["placements"]) == (2 if code == 0 else 0)
