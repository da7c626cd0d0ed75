"""Cases for the rules that compare pods with their group."""

from tests.support.audit.builders import NEW, OLD, pod, pod_group, pods, priority_class
from tests.support.audit.cases.case import GOLD, GROUP, Case

from podium.api.groups import GROUP_LABEL, PodGroup
from podium.api.saving import CHECKPOINT, SAVES_ON_NOTICE

ON_NOTICE = {SAVES_ON_NOTICE: "45s"}
JOB = ("Job", "team-a", "train")


def declaring(notice: str) -> PodGroup:
    """Return the group with a declaration for its pods."""
    group = pod_group()
    group.metadata.annotations = {SAVES_ON_NOTICE: notice}
    return group


CASES = [
    Case(
        "one pod differs",
        "pod-priority-differs",
        [pod_group(priority=1000), *pods(3, priority=1000), pod("odd", group="train", priority=0)],
        [
            (
                GROUP,
                "spec.priority",
                "1 of 4 pods does not have priority 1000: 0 (odd). Kubernetes 1.37 does not",
            )
        ],
    ),
    Case(
        "1.36 says that the group's wins",
        "pod-priority-differs",
        [pod_group(priority=1000), pod("odd", group="train")],
        [(GROUP, "spec.priority", "Kubernetes 1.36 silently uses the group's 1000")],
        "1.36",
    ),
    Case(
        "1.35 has no groups",
        "pod-priority-differs",
        [pod_group(priority=1000), pod("odd", group="train")],
        [(GROUP, "spec.priority", "Kubernetes 1.35 reads no PodGroup")],
        "1.35",
    ),
    Case(
        "1.38 refuses too",
        "pod-priority-differs",
        [pod_group(priority=1000), pod("odd", group="train")],
        [(GROUP, "spec.priority", "Kubernetes 1.38 (beta) does not schedule the group")],
        "1.38",
    ),
    Case(
        "a Podium group in doubt may not preempt",
        "pod-priority-differs",
        [pod_group(priority=1000, podium=True), pod("odd", podium="train", scheduler="podium-scheduler")],
        [(GROUP, "spec.priority", "with NoPreemption, the default, the group does not preempt")],
    ),
    Case(
        "a native group that Podium's scheduler places is scheduled",
        "pod-priority-differs",
        [pod_group(priority=1000), pod("odd", group="train", scheduler="podium-scheduler")],
        [(GROUP, "spec.priority", "0 (odd). Podium's scheduler follows its divergencePolicy")],
    ),
    Case(
        "a Podium group whose pods are another scheduler's",
        "pod-priority-differs",
        [pod_group(priority=1000, podium=True), pod("odd", podium="train")],
        [
            (
                GROUP,
                "spec.priority",
                "default-scheduler reads no group of Podium: each pod uses its own priority",
            )
        ],
    ),
    Case(
        "values are grouped and names counted",
        "pod-priority-differs",
        [pod_group(priority=1000), *pods(5, priority=7), pod("z", group="train", priority=-1)],
        [
            (
                GROUP,
                "spec.priority",
                "have priority 1000: 7 (pod-0, pod-1, pod-2 and 2 more); -1 (z).",
            )
        ],
    ),
    Case(
        "two causes in one group are distinguished",
        "pod-priority-differs",
        [
            GOLD,
            pod_group(priority=500, class_name="gold"),
            pod("new", group="train", priority=1000, class_name="gold"),
            pod("none", group="train"),
        ],
        [
            (
                GROUP,
                "spec.priority",
                "when new was created than for the group. The class of none: none; the group's: gold.",
            )
        ],
    ),
    Case(
        "a recreated class is named",
        "pod-priority-differs",
        [
            GOLD,
            pod_group(priority=500, class_name="gold"),
            pod("new", group="train", priority=1000, class_name="gold"),
        ],
        [
            (
                GROUP,
                "spec.priority",
                "PriorityClass gold had another value when the pod was created",
            )
        ],
    ),
    Case(
        "a default introduced later is named",
        "pod-priority-differs",
        [
            priority_class("standard", 100, default=True),
            pod_group(),
            pod("new", group="train", priority=100, class_name="standard"),
        ],
        [(GROUP, "spec.priority", "PriorityClass standard became the default after the group")],
    ),
    Case(
        "equal integers of different classes",
        "pod-priority-differs",
        [
            pod_group(priority=1000, class_name="gold"),
            pod("same", group="train", priority=1000, class_name="other-gold"),
        ],
    ),
    Case(
        "nil is 0", "pod-priority-differs", [pod_group(priority=None), pod("nil", group="train", priority=0)]
    ),
    Case(
        "0 is nil", "pod-priority-differs", [pod_group(priority=0), pod("nil", group="train", priority=None)]
    ),
    Case(
        "a finished pod differs",
        "pod-priority-differs",
        [
            pod_group(priority=1000),
            *pods(2, priority=1000),
            pod("done", group="train", phase="Succeeded"),
            pod("failed", group="train", phase="Failed"),
        ],
    ),
    Case(
        "only a terminating pod differs",
        "pod-priority-differs",
        [
            pod_group(priority=1000),
            *pods(2, priority=1000),
            pod("leaving", group="train", terminating=True),
        ],
    ),
    Case(
        "another namespace's pod differs",
        "pod-priority-differs",
        [
            pod_group(priority=1000),
            pod("far", group="train", namespace="team-b"),
        ],
    ),
    Case("a group without pods", "pod-priority-differs", [pod_group(priority=1000)]),
    Case(
        "pods disagree where the group has no policy",
        "preemption-policy-differs",
        [
            pod_group(),
            pod("a", group="train"),
            pod("b", group="train"),
            pod("never", group="train", policy="Never"),
        ],
        [
            (
                GROUP,
                "spec.preemptionPolicy",
                "does not have preemptionPolicy PreemptLowerPriority: Never (never)",
            )
        ],
    ),
    Case(
        "pods agree but not with the group",
        "preemption-policy-differs",
        [pod_group(policy="Never"), pod("a", group="train"), pod("b", group="train")],
        [(GROUP, "spec.preemptionPolicy", "2 of 2 pods do not have preemptionPolicy Never")],
    ),
    Case(
        "1.36 lets one Never decide",
        "preemption-policy-differs",
        [pod_group(), pod("a", group="train"), pod("never", group="train", policy="Never")],
        [(GROUP, "spec.preemptionPolicy", "One member with Never prevents the whole group from preempting")],
        "1.36",
    ),
    Case(
        "all pods have Never and the group nothing",
        "preemption-policy-differs",
        [
            pod_group(),
            pod("a", group="train", policy="Never"),
            pod("b", group="train", policy="Never"),
        ],
    ),
    Case(
        "a nil policy is PreemptLowerPriority",
        "preemption-policy-differs",
        [
            pod_group(policy="PreemptLowerPriority"),
            pod("a", group="train"),
            pod("b", group="train", policy="PreemptLowerPriority"),
        ],
    ),
    Case(
        "a pod was there first",
        "pod-older-than-group",
        [pod_group(created=NEW), pod("first", group="train", created=OLD), *pods(2)],
        [
            (
                GROUP,
                "metadata.creationTimestamp",
                "1 pod of 3 existed before the group (2026-01-02T00:00:00Z)",
            )
        ],
    ),
    Case(
        "pod and group of one second",
        "pod-older-than-group",
        [pod_group(created=OLD), pod("a", group="train", created=OLD)],
    ),
    Case(
        "an older pod that is leaving",
        "pod-older-than-group",
        [
            pod_group(created=NEW),
            pod("first", group="train", created=OLD, terminating=True),
        ],
    ),
    Case(
        "two schedulers",
        "scheduler-name-mixed",
        [pod_group(), pod("a", group="train"), pod("b", group="train", scheduler="other")],
        [
            (
                GROUP,
                "",
                "2 schedulers: default-scheduler (a) and other (b). Kubernetes 1.37 refuses the rest once",
            )
        ],
    ),
    Case(
        "two schedulers in a gang",
        "scheduler-name-mixed",
        [pod_group(min_count=2), pod("a", group="train"), pod("b", group="train", scheduler="other")],
        [(GROUP, "", "default-scheduler (a) and other (b). Kubernetes 1.37 does not schedule the group")],
    ),
    Case(
        "two schedulers in a gang that none of them can begin in 1.36",
        "scheduler-name-mixed",
        [
            pod_group(min_count=2),
            pod("a", group="train", node=None),
            pod("b", group="train", scheduler="other", node=None),
        ],
        [(GROUP, "", "Kubernetes 1.36 does not schedule the group")],
        "1.36",
    ),
    Case(
        "two schedulers in a gang that 1.36 completes",
        "scheduler-name-mixed",
        [
            pod_group(min_count=2),
            pod("a", group="train", node=None),
            pod("b", group="train", scheduler="other"),
        ],
        [(GROUP, "", "Each scheduler places its own part")],
        "1.36",
    ),
    Case(
        "two schedulers, one of which has begun",
        "scheduler-name-mixed",
        [pod_group(), pod("a", group="train", node=None), pod("b", group="train", scheduler="other")],
        [(GROUP, "", "Kubernetes 1.37 does not schedule the group")],
    ),
    Case(
        "two schedulers in a Podium group",
        "scheduler-name-mixed",
        [
            pod_group(podium=True),
            pod("a", podium="train"),
            pod("b", podium="train", scheduler="podium-scheduler"),
        ],
        [(GROUP, "", "No scheduler sees the whole group")],
    ),
    Case(
        "an absent name is default-scheduler",
        "scheduler-name-mixed",
        [
            pod_group(),
            pod("a", group="train"),
            pod("b", group="train", scheduler="default-scheduler"),
        ],
    ),
    Case(
        "the other scheduler's pod is leaving",
        "scheduler-name-mixed",
        [
            pod_group(),
            pod("a", group="train"),
            pod("b", group="train", scheduler="other", terminating=True),
        ],
    ),
    Case(
        "a Podium group under kube-scheduler",
        "scheduler-ignores-group",
        [
            pod_group(podium=True),
            pod("a", podium="train"),
            pod("b", podium="train", scheduler="podium-scheduler"),
        ],
        [
            (
                GROUP,
                "",
                "which does not read scheduling.podium.dev: 1 of 2 pods (a)",
            )
        ],
    ),
    Case(
        "a Podium group under podium-scheduler",
        "scheduler-ignores-group",
        [
            pod_group(podium=True),
            pod("a", podium="train", scheduler="podium-scheduler"),
        ],
    ),
    Case(
        "a native group under kube-scheduler",
        "scheduler-ignores-group",
        [pod_group(), pod("a", group="train")],
    ),
    Case("a Podium group without pods", "scheduler-ignores-group", [pod_group(podium=True)]),
    Case(
        "label and field differ",
        "membership-conflict",
        [pod_group(), pod("a", group="train", podium="other"), pod("b", group="train", podium="train")],
        [
            (
                GROUP,
                f"metadata.labels[{GROUP_LABEL}]",
                "1 member with the label of another group: other (a)",
            )
        ],
    ),
    Case(
        "label and field agree", "membership-conflict", [pod_group(), pod("a", group="train", podium="train")]
    ),
    Case("a label alone", "membership-conflict", [pod_group(podium=True), pod("a", podium="train")]),
    Case(
        "the pods of a Job, which was asked twice",
        "saving-not-trusted",
        [pod("a", annotations=ON_NOTICE), pod("b", annotations=ON_NOTICE), pod("done", phase="Succeeded")],
        [("Job team-a/train", "", "failed to 2 times in a row: 2 live pods (a, b).")],
        untrusted=frozenset({JOB}),
    ),
    Case(
        "a group that declares for its pods",
        "saving-not-trusted",
        [declaring("45s"), *(pod(f"g-{at}", group="train", owner=None) for at in range(2))],
        [(GROUP, "", "2 live pods (g-0, g-1)")],
        untrusted=frozenset({("PodGroup", "team-a", "train")}),
    ),
    Case(
        "a pod without a declaration, and one of another workload",
        "saving-not-trusted",
        [pod("a"), pod("b", annotations=ON_NOTICE, owner=("batch/v1", "Job", "other"))],
        untrusted=frozenset({JOB}),
    ),
    Case("a pod that is trusted", "saving-not-trusted", [pod("a", annotations=ON_NOTICE)]),
    Case(
        "a wrong duration in the template of a Job is found once",
        "save-declaration",
        [pod(name, annotations={SAVES_ON_NOTICE: "soon"}) for name in ("a", "b")],
        [
            (
                "Job team-a/train",
                f"metadata.annotations[{SAVES_ON_NOTICE}]",
                "'soon' is no duration from 1s to 10m",
            )
        ],
    ),
    Case(
        "a pod and a group",
        "save-declaration",
        [declaring("11m"), pod("lone", owner=None, annotations={CHECKPOINT: "noon"})],
        [
            ("Pod team-a/lone", f"metadata.annotations[{CHECKPOINT}]", "'noon' is no time"),
            (GROUP, f"metadata.annotations[{SAVES_ON_NOTICE}]", "'11m' is no duration"),
        ],
    ),
    Case(
        "right declarations, and a pod that is finished",
        "save-declaration",
        [
            pod("a", annotations=ON_NOTICE),
            pod("b"),
            pod("c", annotations={SAVES_ON_NOTICE: "x"}, phase="Failed"),
        ],
    ),
]
