"""Situations of public reports, rebuilt as small files, and what the answer must be.

The reason of each row is from the report. The words are patterns: they state what a reader must learn, not a
sentence. Blanks are one blank, and case does not count.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.calling import call

DATA = Path(__file__).with_name("data")


class Report(NamedTuple):
    """A public report: a command line of podium in the folder `data`, and its expected answer."""

    name: str
    source: str
    reason: str
    line: str
    code: int = 0
    values: Mapping[str, object] = {}
    """Paths of the JSON report and their values; those of a list are compared without their order."""
    words: Sequence[str] = ()
    absent: Sequence[str] = ()


REPORTS = (
    Report(
        "a rollout to a higher class preempts its own pods",
        "kubernetes/kubernetes#109714",
        "maxSurge creates all new pods at once; each preempts an old pod, two of them beyond the budget",
        "whatif -f rollout-own-pods.yaml --add rollout-own-pods-new.yaml",
        values={
            "outcome": "FitsAfterPreemption",
            "victims.name": ["alpine-5d-a", "alpine-5d-b", "alpine-5d-c"],
            "harm.violations": 2,
        },
    ),
    Report(
        "a pod sets a preemption policy without a class",
        "kubernetes/kubernetes#123882",
        "admission computes PreemptLowerPriority without a class; only a class with Never allows the field",
        "admit -f policy-without-class.yaml",
        3,
        {"results.allowed": [False], "results.code": [403]},
        ["PreemptionPolicy .Never. must not be provided", "class[^.]*Never|Never[^.]*class"],
    ),
    Report(
        "the kubelet ended a pod for a critical pod",
        "kubernetes/kubernetes#140653",
        "status.reason Preempting is the kubelet's, and no scheduler preempted the pod",
        "why pod kube-admission/kube-admission-5f9b89fdb5-bbpsp -f kubelet-preempted.yaml",
        values={"state": "Finished", "departures.by": ["KubeletCriticalPod"]},
        words=["kubelet", "critical pod"],
        absent=["preempted by (the )?(kube-|default-)?scheduler"],
    ),
    Report(
        "a pod with the policy Never waits beside pause pods",
        "kubernetes/autoscaler#4111",
        "pause pods have a lower priority, and stay, because the class of the pod never preempts",
        "why pod default/web -f never-beside-pause-pods.yaml",
        values={"state": "Waiting", "prospect.outcome": "NotEligible"},
        words=["preemptionPolicy.{0,4}Never", "class"],
    ),
    Report(
        "a claim keeps the node that was selected for a preempted pod",
        "kubernetes/kubernetes#112347",
        "an unbound claim with selected-node n1 excludes n2, which is free; n1 is full of a higher priority",
        "whatif -f selected-node.yaml --pod default/db-0",
        3,
        {"outcome": "DoesNotFit", "victims": []},
        ["data-db-0"],
    ),
    Report(
        "two victims on a node share one budget",
        "kubernetes/kubernetes#82235",
        "the second victim of n1 violates the budget, so n2 is cheaper despite its higher priority",
        "whatif -f budget-of-both-victims.yaml --pod default/urgent --semantics 1.36",
        values={
            "outcome": "FitsAfterPreemption",
            "placements.node": ["n2"],
            "victims.name": ["batch-1", "batch-2"],
            "harm.violations": 0,
        },
    ),
    Report(
        "a gang repels the pods that it preempts",
        "kai-scheduler/KAI-Scheduler#2115",
        "victims that leave no longer count for a required anti-affinity, so both nodes are cleared",
        "whatif -f anti-affinity-victims.yaml --group default/train --semantics kep",
        values={
            "outcome": "FitsAfterPreemption",
            "placements.node": ["n1", "n2"],
            "victims.name": ["inference-0", "inference-1"],
        },
        words=["anti-affinity"],
    ),
    Report(
        "a spread constraint needs room of headroom pods",
        "kubernetes/kubernetes#117634",
        "zone b would have a skew of 2, so the youngest headroom pod of zone a goes, though zone b has room",
        "whatif -f spread-over-headroom.yaml --add spread-over-headroom-new.yaml",
        values={
            "outcome": "FitsAfterPreemption",
            "placements.node": ["a1"],
            "victims.name": ["headroom-1"],
        },
        words=["topology spread|skew"],
    ),
    Report(
        "the nominated node became unreachable",
        "kubernetes/kubernetes#92600",
        "the pod does not wait for a node that no preemption mends, so node b is preempted",
        "whatif -f nominated-node-tainted.yaml --pod default/high --semantics 1.37",
        values={
            "outcome": "FitsAfterPreemption",
            "placements.node": ["b"],
            "victims.name": ["mid"],
        },
    ),
    Report(
        "a gang Job has parallelism 0",
        "kubernetes/kubernetes#140188",
        "1.37.0 counts a minCount that is left out as at least 1, so the Job is stored",
        "admit -f gang-of-no-parallelism.yaml --kubernetes 1.37 --feature-gates WorkloadWithJob=true",
        values={"results.allowed": [True]},
        absent=["minCount[^.]*must be", "parallelism[^.]*must be"],
    ),
    Report(
        "two classes are the global default",
        "kubernetes/kubernetes#54690",
        "pods without a class get the lower of both values (kubernetes/kubernetes#59987)",
        "audit -f two-defaults.yaml",
        words=["default-class-duplicate", "standard", r"normal \(500\), which is used"],
        absent=["No findings"],
    ),
    Report(
        "a node is at its limit of volumes",
        "volcano-sh/volcano#3191",
        "the limit of attached volumes is met by removing the pod with the volume; n2 is cordoned",
        "whatif -f volume-limit.yaml --pod default/high",
        values={
            "outcome": "FitsAfterPreemption",
            "placements.node": ["n1"],
            "victims.name": ["low"],
        },
        words=["max(imum)? volume count"],
    ),
    Report(
        "an Indexed Job has a group of the controller",
        "kubernetes/enhancements#6153",
        "1.36 made the group of the Job; 1.37 does not serve scheduling.k8s.io/v1alpha2",
        "preflight -f gang-of-indexed-job.yaml --from 1.36 --to 1.37",
        3,
        words=["v1alpha2", "stop Job default/train"],
    ),
    Report(
        "a gang waits for its victim on the nominated node",
        "kubernetes/kubernetes#138710",
        "a group keeps its nominated nodes while its victim leaves, so n2 is not preempted as well",
        "whatif -f gang-waits-for-victim.yaml --group default/train --semantics 1.37",
        values={
            "outcome": "FitsAfterPreemption",
            "placements.node": ["n1", "n1"],
            "victims": [],
        },
        words=["once 1 pod that is leaving already has gone: default/victim"],
    ),
    Report(
        "a default class is younger than the pods",
        "grafana.com/blog, 24 July 2019: a production outage by pod priorities",
        "pods from before the default keep 0; a pod without a class gets its 5000 and preempts one of them",
        "whatif -f default-after-the-pods.yaml --add default-after-the-pods-new.yaml",
        values={
            "outcome": "FitsAfterPreemption",
            "victims.name": ["ingester-7c-b"],
            "victims.priority": [0],
        },
    ),
    Report(
        "a victim belongs to a DaemonSet",
        "kubernetes/kubernetes#141227",
        "the younger of two equal pods goes, a DaemonSet's, whose replacement needs the same node",
        "whatif -f daemonset-victim.yaml --pod default/urgent",
        words=["DaemonSet"],
    ),
    Report(
        "a gang below minCount has finished members",
        "kubernetes/kubernetes#142330",
        "pods that have ended do not count, so the replacement of index 2 never starts",
        "audit -f gang-index-done.yaml",
        words=["gang-too-few-pods"],
        absent=["All checked groups and pods can be scheduled"],
    ),
    Report(
        "a gang below minCount learns why",
        "kubernetes/kubernetes#142330",
        "its owner has created every pod that it may; a lower minCount frees the group",
        "why group default/train -f gang-index-done.yaml",
        words=[
            "(finished|ended|succeeded|completed)[^.]*(do not|not) count",
            "lower|patch|minCount (to|of) 2",
        ],
        absent=["created fewer pods"],
    ),
    Report(
        "a system class is the global default",
        "altindag.dev/posts/k8s-pod-priorities",
        "each pod without a class gets 2000000000, and a CronJob evicted the monitoring",
        "audit -f system-default.yaml",
        3,
        words=["system-cluster-critical[^.]*default|default[^.]*system-cluster-critical"],
        absent=["No findings"],
    ),
    Report(
        "a system class with globalDefault is created",
        "altindag.dev/posts/k8s-pod-priorities",
        "the API server refuses globalDefault on creation, and the name is not at fault",
        "admit -f system-default-update.yaml",
        3,
        words=["globalDefault of system-cluster-critical PriorityClass must be false"],
        absent=["Choose a name that does not begin"],
    ),
    Report(
        "worker groups of one RayCluster have two classes",
        "ray-project/kuberay#4360",
        "the class at fault is that of the first worker group",
        "audit -f ray-mixed.yaml",
        absent=["RayCluster default/etl spec.workerGroupSpecs.1."],
    ),
    Report(
        "the only pod says that it is unschedulable",
        "replicatedhq/troubleshoot, a sample of kubectl get pods",
        "no rule finds a reason, which is no all-clear for a pod that waits",
        "audit -f unschedulable-headline.yaml",
        words=["waits|pending|Unschedulable"],
        absent=["All checked groups and pods can be scheduled"],
    ),
    Report(
        "a bound pod has not started",
        "replicatedhq/troubleshoot, a sample of kubectl get pods",
        "its phase is Pending, and its container waits with ContainerCreating",
        "why pod default/copy -f bound-not-started.yaml",
        absent=["default/copy runs"],
    ),
    Report(
        "a preflight reads a HelmRelease only",
        "repositories of the topic home-ops",
        "nothing was checked, so nothing is known about the upgrade",
        "preflight -f helmrelease-only.yaml --from 1.36 --to 1.37",
        2,
    ),
    Report(
        "a manifest has placeholders of envsubst",
        "aws-samples/awsome-distributed-training",
        "`replicas: $NUM_NODES` is a template, as a file of Helm is",
        "admit -f placeholders.yaml",
        1,
        words=["looks like a template|envsubst"],
    ),
    Report(
        "an Indexed Job is no gang after the upgrade",
        "kubernetes/enhancements#6153",
        "1.36 makes a gang of an Indexed Job by its shape; 1.37 needs spec.scheduling",
        "preflight -f gang-of-indexed-job.yaml --from 1.36 --to 1.37",
        3,
        words=["Job default/train[^.]*gang|gang[^.]*Job default/train", "spec.scheduling"],
    ),
    Report(
        "an audit finds pods that are older than the default class",
        "grafana.com/blog, 24 July 2019: a production outage by pod priorities",
        "pods from before the default have 0; each replacement gets its value and preempts another",
        "audit -f default-after-the-pods.yaml",
        words=["medium", "prod/ingester|2 pods", "priority 0|5000"],
        absent=["No findings"],
    ),
    Report(
        "a pod that the kubelet ended stays until it is deleted",
        "kubernetes/kubernetes#140653",
        "no container starts again, and the ReplicaSet made no other pod",
        "why pod kube-admission/kube-admission-5f9b89fdb5-bbpsp -f kubelet-preempted.yaml",
        words=["delete|recreate|replace"],
    ),
    Report(
        "room is kept for a nominated pod",
        "kubernetes/kubernetes#106780",
        "3 of 4 CPU are kept for p1, which no longer fits there, so p3 has to learn of p1",
        "why pod default/p3 -f nomination-leak.yaml",
        words=[r"default/p1|\bp1\b"],
    ),
    Report(
        "a victim is overdue",
        "kubernetes/kubernetes#95752",
        "the kubelet is gone, so the victim does not end with its grace period",
        "why pod default/urgent -f victim-stuck.yaml",
        words=["default/old", "overdue|past (its|the) grace|longer than|should have ended|kubelet"],
        absent=["at most their grace periods"],
    ),
    Report(
        "a PodGroup of coscheduling has a stale minMember",
        "ray-project/kuberay#5205",
        "three pods of five that the PodGroup of scheduling.x-k8s.io wants",
        "why pod default/ray-w0 -f coscheduling-stale.yaml",
        words=["scheduling.x-k8s.io|coscheduling|minMember|pod-group"],
        absent=["it is in no group"],
    ),
    Report(
        "the last pods of a Job are fewer than minCount",
        "kai-scheduler/KAI-Scheduler#1347",
        "completions 5, parallelism 4 and minCount 4: the fifth pod comes alone",
        "audit -f last-wave.yaml",
        words=["completions|last pods|minCount"],
        absent=["No findings"],
    ),
    Report(
        "a DaemonSet rolls out over full nodes",
        "antfarm.world, kubernetes/kubernetes#77990",
        "one pod of each node goes for the class logging",
        "whatif -f rollout-cluster.yaml --add rollout-ds.yaml",
        words=["3 pods"],
    ),
    Report(
        "a gang has room for one of two members",
        "kubernetes-sigs/scheduler-plugins#930",
        "one node is empty, so cpu is not insufficient on both",
        "whatif -f gang-partial.yaml --group default/g",
        3,
        words=["1 of 2"],
        absent=["2 Insufficient cpu"],
    ),
    Report(
        "a folder of manifests has one stored object",
        "NVIDIA/k8s-dra-driver-gpu",
        "the class comes from the driver's chart; a test Node does not make the folder a cluster",
        "audit -R -f device-folder",
        absent=["gpu.nvidia.com does not exist"],
    ),
    Report(
        "no node has the selected label",
        "GoogleCloudPlatform/kubernetes-engine-samples",
        "a higher priority does not help, so the label comes first",
        "whatif -f selector-lead.yaml --pod default/llm",
        3,
        {"outcome": "DoesNotFit"},
        ["cloud.example.com/accelerator"],
        ["nothing has a lower priority"],
    ),
    Report(
        "a name has no namespace, and the file has one",
        "kubernetes/kubernetes#73861",
        "the only namespace of the file is meant",
        "whatif -f several-victims.yaml --pod big",
        values={"victims.name": ["pause-2", "pause-3"]},
    ),
    Report(
        "a StatefulSet creates its claims",
        "longhorn/longhorn, GoogleCloudPlatform/kubernetes-engine-samples",
        "the controller makes a claim for each pod before it is scheduled",
        "whatif -f claims-cluster.yaml --add statefulset-claims.yaml",
        values={"outcome": "Fits"},
    ),
    Report(
        "a claim comes from a template in the same file",
        "NVIDIA/k8s-dra-driver-gpu, kubernetes-sigs/dra-example-driver",
        "the controller makes the claim, and batch holds both devices",
        "whatif -f devices-cluster.yaml --add claim-template-pod.yaml --semantics kep",
        values={"outcome": "FitsAfterPreemption", "victims.name": ["batch"]},
    ),
    Report(
        "victims of a rollout are named as its own pods",
        "kubernetes/kubernetes#109714",
        "the reader must learn that the Deployment preempts itself, and that maxSurge 0 avoids it",
        "whatif -f rollout-own-pods.yaml --add rollout-own-pods-new.yaml",
        words=["same Deployment|own pods|rollout|maxSurge"],
        absent=["its pods stay"],
    ),
    Report(
        "the annotation selected-node excludes the free node",
        "kubernetes/kubernetes#112347",
        "n2 lacks no volume; the annotation of the claim names n1, where a higher priority would help",
        "whatif -f selected-node.yaml --pod default/db-0",
        3,
        words=["selected-node.*nothing has a lower priority"],
    ),
    Report(
        "a preempted pod does not wait for its provisioner",
        "kubernetes/kubernetes#112347",
        "the selected node is full of a higher priority, so the scheduler asks for no volume",
        "why pod default/db-0 -f selected-node.yaml",
        words=["selected-node"],
        absent=["a volume is awaited", "log of its provisioner"],
    ),
    Report(
        "a nominated node that no longer suits is no reservation",
        "kubernetes/kubernetes#92600",
        "node a is unreachable, so kube-scheduler preempts on b and waits for nothing on a",
        "why pod default/high -f nominated-node-tainted.yaml",
        words=["unreachable|taint"],
        absent=["at most their grace periods"],
    ),
)


@pytest.mark.parametrize("report", REPORTS, ids=[report.name for report in REPORTS])
def test_a_public_report_gets_the_right_answer(report: Report) -> None:
    shown = call(f"podium {report.line}", DATA, COLUMNS="200", NO_COLOR="1")
    text = re.sub(r"\s+", " ", shown.stdout + shown.stderr)
    lacking = [pattern for pattern in report.words if not re.search(pattern, text, re.IGNORECASE)]
    excess = [pattern for pattern in report.absent if re.search(pattern, text, re.IGNORECASE)]
    assert (shown.code, lacking, excess) == (report.code, [], []), text
    if report.values:
        answer = call(f"podium {report.line} -o json", DATA).json
        assert {path: _at(answer, path.split(".")) for path in report.values} == dict(report.values)


def _at(value: object, path: Sequence[str]) -> object:
    """Return what a path of keys leads to; that of a list is the sorted list of its items' values."""
    if not path:
        return value
    if isinstance(value, list):
        return sorted((_at(item, path) for item in value), key=str)
    return _at(value.get(path[0]), path[1:]) if isinstance(value, dict) else None
