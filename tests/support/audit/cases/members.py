"""Cases for the rules that compare pods with their group."""

from tests.support.audit.builders import NEW, OLD, member, pod, pod_group, pods, priority_class
from tests.support.audit.cases.case import GOLD, GROUP, Table, case

from podium.api.groups import GROUP_LABEL, PodGroup
from podium.api.saving import CHECKPOINT, SAVES_ON_NOTICE

ON_NOTICE = {SAVES_ON_NOTICE: "45s"}
JOB = ("Job", "team-a", "train")


def declaring(notice: str) -> PodGroup:
    """Return the group with a declaration for its pods."""
    group = pod_group()
    group.metadata.annotations = {SAVES_ON_NOTICE: notice}
    return group


CASES = Table()
CASES.add(
    "pod-priority-differs",
    (GROUP, "spec.priority"),
    case(
        "one pod differs",
        [pod_group(priority=1000), *pods(3, priority=1000), member("odd", priority=0)],
        "1 of 4 pods does not have priority 1000: 0 (odd). Kubernetes 1.37 does not",
    ),
    case(
        "1.36 says that the group's wins",
        [pod_group(priority=1000), member("odd")],
        "Kubernetes 1.36 silently uses the group's 1000",
        kubernetes="1.36",
    ),
    case(
        "1.35 has no groups",
        [pod_group(priority=1000), member("odd")],
        "Kubernetes 1.35 reads no PodGroup",
        kubernetes="1.35",
    ),
    case(
        "1.38 refuses too",
        [pod_group(priority=1000), member("odd")],
        "Kubernetes 1.38 (beta) does not schedule the group",
        kubernetes="1.38",
    ),
    case(
        "a Podium group in doubt may not preempt",
        [pod_group(priority=1000, podium=True), pod("odd", podium="train", scheduler="podium-scheduler")],
        "with NoPreemption, the default, the group does not preempt",
    ),
    case(
        "a native group that Podium's scheduler places is scheduled",
        [pod_group(priority=1000), member("odd", scheduler="podium-scheduler")],
        "0 (odd). Podium's scheduler follows its divergencePolicy",
    ),
    case(
        "a Podium group whose pods are another scheduler's",
        [pod_group(priority=1000, podium=True), pod("odd", podium="train")],
        "default-scheduler reads no group of Podium: each pod uses its own priority",
    ),
    case(
        "values are grouped and names counted",
        [pod_group(priority=1000), *pods(5, priority=7), member("z", priority=-1)],
        "have priority 1000: 7 (pod-0, pod-1, pod-2 and 2 more); -1 (z).",
    ),
    case(
        "two causes in one group are distinguished",
        [
            GOLD,
            pod_group(priority=500, class_name="gold"),
            member("new", priority=1000, class_name="gold"),
            member("none"),
        ],
        "when new was created than for the group. The class of none: none; the group's: gold.",
    ),
    case(
        "a recreated class is named",
        [GOLD, pod_group(priority=500, class_name="gold"), member("new", priority=1000, class_name="gold")],
        "PriorityClass gold had another value when the pod was created",
    ),
    case(
        "a default introduced later is named",
        [
            priority_class("standard", 100, default=True),
            pod_group(),
            member("new", priority=100, class_name="standard"),
        ],
        "PriorityClass standard became the default after the group",
    ),
    case(
        "equal integers of different classes",
        [pod_group(priority=1000, class_name="gold"), member("same", priority=1000, class_name="other-gold")],
    ),
    case("nil is 0", [pod_group(priority=None), member("nil", priority=0)]),
    case("0 is nil", [pod_group(priority=0), member("nil", priority=None)]),
    case(
        "a finished pod differs",
        [
            pod_group(priority=1000),
            *pods(2, priority=1000),
            member("done", phase="Succeeded"),
            member("failed", phase="Failed"),
        ],
    ),
    case(
        "only a terminating pod differs",
        [pod_group(priority=1000), *pods(2, priority=1000), member("leaving", terminating=True)],
    ),
    case("another namespace's pod differs", [pod_group(priority=1000), member("far", namespace="team-b")]),
    case("a group without pods", [pod_group(priority=1000)]),
)
CASES.add(
    "preemption-policy-differs",
    (GROUP, "spec.preemptionPolicy"),
    case(
        "pods disagree where the group has no policy",
        [pod_group(), member("a"), member("b"), member("never", policy="Never")],
        "does not have preemptionPolicy PreemptLowerPriority: Never (never)",
    ),
    case(
        "pods agree but not with the group",
        [pod_group(policy="Never"), member("a"), member("b")],
        "2 of 2 pods do not have preemptionPolicy Never",
    ),
    case(
        "1.36 lets one Never decide",
        [pod_group(), member("a"), member("never", policy="Never")],
        "One member with Never prevents the whole group from preempting",
        kubernetes="1.36",
    ),
    case(
        "all pods have Never and the group nothing",
        [pod_group(), member("a", policy="Never"), member("b", policy="Never")],
    ),
    case(
        "a nil policy is PreemptLowerPriority",
        [pod_group(policy="PreemptLowerPriority"), member("a"), member("b", policy="PreemptLowerPriority")],
    ),
)
CASES.add(
    "pod-older-than-group",
    (GROUP, "metadata.creationTimestamp"),
    case(
        "a pod was there first",
        [pod_group(created=NEW), member("first", created=OLD), *pods(2)],
        "1 pod of 3 existed before the group (2026-01-02T00:00:00Z)",
    ),
    case("pod and group of one second", [pod_group(created=OLD), member("a", created=OLD)]),
    case(
        "an older pod that is leaving",
        [pod_group(created=NEW), member("first", created=OLD, terminating=True)],
    ),
)
CASES.add(
    "scheduler-name-mixed",
    (GROUP, ""),
    case(
        "two schedulers",
        [pod_group(), member("a"), member("b", scheduler="other")],
        "2 schedulers: default-scheduler (a) and other (b). Kubernetes 1.37 refuses the rest once",
    ),
    case(
        "two schedulers in a gang",
        [pod_group(min_count=2), member("a"), member("b", scheduler="other")],
        "default-scheduler (a) and other (b). Kubernetes 1.37 does not schedule the group",
    ),
    case(
        "two schedulers in a gang that none of them can begin in 1.36",
        [pod_group(min_count=2), member("a", node=None), member("b", scheduler="other", node=None)],
        "Kubernetes 1.36 does not schedule the group",
        kubernetes="1.36",
    ),
    case(
        "two schedulers in a gang that 1.36 completes",
        [pod_group(min_count=2), member("a", node=None), member("b", scheduler="other")],
        "Each scheduler places its own part",
        kubernetes="1.36",
    ),
    case(
        "two schedulers, one of which has begun",
        [pod_group(), member("a", node=None), member("b", scheduler="other")],
        "Kubernetes 1.37 does not schedule the group",
    ),
    case(
        "two schedulers in a Podium group",
        [
            pod_group(podium=True),
            pod("a", podium="train"),
            pod("b", podium="train", scheduler="podium-scheduler"),
        ],
        "No scheduler sees the whole group",
    ),
    case(
        "an absent name is default-scheduler",
        [pod_group(), member("a"), member("b", scheduler="default-scheduler")],
    ),
    case(
        "the other scheduler's pod is leaving",
        [pod_group(), member("a"), member("b", scheduler="other", terminating=True)],
    ),
)
CASES.add(
    "scheduler-ignores-group",
    (GROUP, ""),
    case(
        "a Podium group under kube-scheduler",
        [
            pod_group(podium=True),
            pod("a", podium="train"),
            pod("b", podium="train", scheduler="podium-scheduler"),
        ],
        "which does not read scheduling.podium.dev: 1 of 2 pods (a)",
    ),
    case(
        "a Podium group under podium-scheduler",
        [pod_group(podium=True), pod("a", podium="train", scheduler="podium-scheduler")],
    ),
    case("a native group under kube-scheduler", [pod_group(), member("a")]),
    case("a Podium group without pods", [pod_group(podium=True)]),
)
CASES.add(
    "membership-conflict",
    (GROUP, f"metadata.labels[{GROUP_LABEL}]"),
    case(
        "label and field differ",
        [pod_group(), member("a", podium="other"), member("b", podium="train")],
        "1 member with the label of another group: other (a)",
    ),
    case("label and field agree", [pod_group(), member("a", podium="train")]),
    case("a label alone", [pod_group(podium=True), pod("a", podium="train")]),
)
CASES.add(
    "saving-not-trusted",
    ("Job team-a/train", ""),
    case(
        "the pods of a Job, which was asked twice",
        [pod("a", annotations=ON_NOTICE), pod("b", annotations=ON_NOTICE), pod("done", phase="Succeeded")],
        "failed to 2 times in a row: 2 live pods (a, b).",
        untrusted=frozenset({JOB}),
    ),
    case(
        "a group that declares for its pods",
        [declaring("45s"), *(member(f"g-{at}", owner=None) for at in range(2))],
        (GROUP, "", "2 live pods (g-0, g-1)"),
        untrusted=frozenset({("PodGroup", "team-a", "train")}),
    ),
    case(
        "a pod without a declaration, and one of another workload",
        [pod("a"), pod("b", annotations=ON_NOTICE, owner=("batch/v1", "Job", "other"))],
        untrusted=frozenset({JOB}),
    ),
    case("a pod that is trusted", [pod("a", annotations=ON_NOTICE)]),
)
CASES.add(
    "save-declaration",
    ("Pod team-a/lone", f"metadata.annotations[{CHECKPOINT}]"),
    case(
        "a wrong duration in the template of a Job is found once",
        [pod(name, annotations={SAVES_ON_NOTICE: "soon"}) for name in ("a", "b")],
        (
            "Job team-a/train",
            f"metadata.annotations[{SAVES_ON_NOTICE}]",
            "'soon' is no duration from 1s to 10m",
        ),
    ),
    case(
        "a pod and a group",
        [declaring("11m"), pod("lone", owner=None, annotations={CHECKPOINT: "noon"})],
        "'noon' is no time",
        (GROUP, f"metadata.annotations[{SAVES_ON_NOTICE}]", "'11m' is no duration"),
    ),
    case(
        "right declarations, and a pod that is finished",
        [
            pod("a", annotations=ON_NOTICE),
            pod("b"),
            pod("c", annotations={SAVES_ON_NOTICE: "x"}, phase="Failed"),
        ],
    ),
)
