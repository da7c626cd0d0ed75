"""Cases for the rules about Kueue, bare pods and inferred groups."""

from tests.support.audit.builders import kueue_workload, member, owner, pod, pod_group, priority_class
from tests.support.audit.cases.case import GOLD, Table, case

JOBSET = "jobset.sigs.k8s.io/jobset-name"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
CASES = Table()
CASES.add(
    "kueue-priority-differs",
    ("Workload team-a/w", "spec.priority"),
    case(
        "Kueue orders two workloads the other way, by owner and pod group",
        [
            kueue_workload("w", priority=500, owners=[("jobset.x-k8s.io/v1alpha2", "JobSet", "train")]),
            kueue_workload("v", priority=None),
            owner("Job", "train-0", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "train")),
            pod("a", priority=10, owner=("batch/v1", "Job", "train-0")),
            pod("done", priority=1, owner=("batch/v1", "Job", "train-0"), phase="Succeeded"),
            pod("b", priority=1000, labels={"kueue.x-k8s.io/pod-group-name": "v"}),
        ],
        "Kueue orders it (500) before Workload team-a/v (0), but 1 live pod of it with priority "
        "10 can be preempted by pods of the other with 1000: a",
    ),
    case(
        "Kueue orders several workloads the other way, by annotation, JobSet label and pod",
        [
            kueue_workload("low", priority=1),
            kueue_workload("x", priority=3),
            kueue_workload("y", priority=3, owners=[("jobset.x-k8s.io/v1alpha2", "JobSet", "set")]),
            kueue_workload("z", priority=4, owners=[("v1", "Pod", "alone")]),
            pod("a", priority=9, labels={"kueue.x-k8s.io/pod-group-name": "low"}),
            pod("b", priority=2, annotations={"kueue.x-k8s.io/workload": "x"}),
            pod("c", priority=8, labels={JOBSET: "set"}, owner=("batch/v1", "Job", "set-0")),
            pod("alone", priority=9, owner=None),
        ],
        ("Workload team-a/x", "spec.priority", "with priority 2 can be preempted"),
        ("Workload team-a/y", "spec.priority", "with priority 8 can be preempted"),
    ),
    case(
        "Kueue has other numbers in the same order",
        [
            kueue_workload("w", priority=500, owners=[("batch/v1", "Job", "train")]),
            kueue_workload("v", priority=5, owners=[("batch/v1", "Job", "other")]),
            pod("a", priority=1000),
            pod("other", priority=1000, owner=("batch/v1", "Job", "other")),
        ],
    ),
    case(
        "Kueue has one workload",
        [kueue_workload("w", priority=500, owners=[("batch/v1", "Job", "train")]), pod("a", priority=1000)],
    ),
)
CASES.add(
    "bare-pod-victims",
    ("Namespace team-a", ""),
    case(
        "a bare pod below",
        [
            GOLD,
            pod("top", priority=1000, class_name="gold"),
            pod("bare", owner=None),
            pod("pending", owner=None, node=None),
            pod("done", owner=None, phase="Succeeded"),
            pod("high", owner=None, priority=1000, class_name="gold"),
        ],
        "by priority 1000, and would not be recreated: bare",
    ),
    case(
        "pods without a controller that a queue manages together",
        [
            GOLD,
            pod("top", priority=1000, class_name="gold"),
            pod("kueue", owner=None, labels={"kueue.x-k8s.io/pod-group-name": "g"}),
            pod("label", owner=None, labels={"yunikorn.apache.org/app-id": "a"}),
            pod("annotation", owner=None, annotations={"yunikorn.apache.org/app-id": "a"}),
            pod("old", owner=None, labels={"applicationId": "a"}, scheduler="yunikorn"),
        ],
    ),
    case(
        "pods in an application that YuniKorn made up, or with a label that it does not read",
        [
            GOLD,
            pod("top", priority=1000, class_name="gold"),
            pod("made-up", owner=None, labels={"yunikorn.apache.org/app-id": "yunikorn-team-a-autogen"}),
            pod("unique", owner=None, labels={"yunikorn.apache.org/app-id": "team-a-uniqueautogen"}),
            pod("other", owner=None, labels={"applicationId": "a"}),
        ],
        "3 running pods without a controller",
    ),
    case(
        "only system classes are above",
        [pod("system", priority=2000001000, class_name="system-node-critical"), pod("bare", owner=None)],
    ),
    case(
        "what is above never preempts",
        [
            priority_class("polite", 1000),
            pod("top", priority=1000, class_name="polite", policy="Never"),
            pod("bare", owner=None),
        ],
    ),
)
CASES.add(
    "inferred-priority-differs",
    ("JobSet team-a/train", ""),
    case(
        "a launcher kept the default",
        [
            pod(
                "launcher",
                labels={JOBSET: "train", ROLE: "launcher"},
                owner=("batch/v1", "Job", "train-launcher-0"),
            ),
            *(
                pod(
                    f"w-{index}",
                    priority=1000,
                    labels={JOBSET: "train", ROLE: "worker"},
                    owner=("batch/v1", "Job", "train-worker-0"),
                )
                for index in range(4)
            ),
        ],
        "1 another: launcher 0 (launcher); worker 1000 (w-0, w-1, w-2 and 1 more)",
    ),
    case(
        "all of a JobSet agree",
        [
            pod("a", labels={JOBSET: "train"}),
            pod("b", labels={JOBSET: "train"}),
            pod("c", priority=7, labels={JOBSET: "other"}),
        ],
    ),
    case(
        "pods of a PodGroup form no other group",
        [
            pod_group("train"),
            member("a", labels={JOBSET: "train"}),
            member("b", priority=9, labels={JOBSET: "train"}),
        ],
    ),
    case(
        "a PodGroup elsewhere hides no inferred group",
        [
            pod_group("any"),
            pod("a", labels={JOBSET: "train"}),
            pod("b", labels={JOBSET: "train"}),
            pod("c", priority=9, labels={JOBSET: "train"}),
        ],
        "most of its 3 pods have priority 0, 1 another: 0 (a, b); 9 (c).",
    ),
)
