"""`podium audit` of manifests: a repository shows the errors of its groups before they are applied."""

from pathlib import Path

from tests.support.calling import Podium

JOB_AGAINST_GROUP = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g, namespace: a}
spec:
  priorityClassName: high
  schedulingPolicy: {gang: {minCount: 8}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: a}
spec:
  parallelism: 4
  template:
    spec:
      priorityClassName: low
      schedulerName: other
      schedulingGroup: {podGroupName: g}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: r, namespace: a}
spec:
  template:
    spec:
      schedulingGroup: {podGroupName: typo}
"""


def test_templates_are_judged_against_their_groups_and_located_in_the_file(podium: Podium) -> None:
    Path("deploy.yaml").write_text(JOB_AGAINST_GROUP, "utf-8")
    run = podium("-f", "deploy.yaml", "-o", "json")
    assert run.code == 3
    assert [(each["rule"], each["object"]["name"]) for each in run.json["findings"]] == [
        ("template-group-missing", "r"),
        ("template-priority-differs", "j"),
        ("template-too-few-pods", "g"),
        ("template-scheduler-unknown", "j"),
    ]
    annotated = podium("-f", "deploy.yaml", "-o", "github").stdout
    lines = JOB_AGAINST_GROUP.splitlines()
    for wrong in ("      priorityClassName: low", "      schedulingGroup: {podGroupName: typo}"):
        assert f"line={lines.index(wrong) + 1}," in annotated
