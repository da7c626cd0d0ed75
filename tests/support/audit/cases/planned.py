"""Cases for the group rules over templates of owners without pods."""

from tests.support.audit.builders import (
    group_template,
    owner,
    pod,
    pod_group,
    priority_class,
    with_roles,
    workload,
)
from tests.support.audit.cases.case import GOLD, GROUP, SILVER, Case

from podium.api.reads import Kind

JOB = "Job team-a/train"
CLASS = "spec.template.spec.priorityClassName"
SCHEDULER = "spec.template.spec.schedulerName"
REFERENCE = "spec.template.spec.schedulingGroup.podGroupName"
LABEL = "spec.template.metadata.labels[scheduling.podium.dev/pod-group]"
MIN_COUNT = "spec.schedulingPolicy.gang.minCount"
GOLD_GROUP = pod_group(class_name="gold", priority=None)

CASES = [
    Case(
        "the template names another class than its group",
        "template-priority-differs",
        [GOLD, SILVER, GOLD_GROUP, owner(class_name="silver", group="train")],
        [
            (
                JOB,
                CLASS,
                "has 1000 (class gold). Kubernetes 1.37 does not schedule the group.",
            )
        ],
    ),
    Case(
        "the template names no class",
        "template-priority-differs",
        [GOLD, GOLD_GROUP, owner(group="train")],
        [(JOB, CLASS, "its pods will have priority 0 (no class)")],
    ),
    Case(
        "Kubernetes 1.36 uses the priority of the group",
        "template-priority-differs",
        [GOLD, SILVER, GOLD_GROUP, owner(class_name="silver", group="train")],
        [(JOB, CLASS, "Kubernetes 1.36 silently uses the group's 1000.")],
        "1.36",
    ),
    Case(
        "the values of the classes are not in the input",
        "template-priority-differs",
        [GOLD, GOLD_GROUP, owner(class_name="batch", group="train")],
        [(JOB, CLASS, "it names class batch, but PodGroup team-a/train names class gold. If their values")],
    ),
    Case(
        "the priority that a group stores counts, not its class",
        "template-priority-differs",
        [GOLD, pod_group(class_name="gold", priority=7), owner(class_name="gold", group="train")],
        [(JOB, CLASS, "but PodGroup team-a/train has 7")],
    ),
    Case(
        "a group of Podium",
        "template-priority-differs",
        [
            GOLD,
            SILVER,
            pod_group(podium=True, class_name="gold", priority=None),
            owner(class_name="silver", podium="train", scheduler="podium-scheduler"),
        ],
        [(JOB, CLASS, "divergencePolicy")],
    ),
    Case(
        "two classes of one value",
        "template-priority-differs",
        [GOLD, priority_class("gilt", 1000), GOLD_GROUP, owner(class_name="gilt", group="train")],
    ),
    Case(
        "the class of the group",
        "template-priority-differs",
        [GOLD, GOLD_GROUP, owner(class_name="gold", group="train")],
    ),
    Case(
        "one class that is not in the input",
        "template-priority-differs",
        [GOLD_GROUP, owner(class_name="gold", group="train")],
    ),
    Case(
        "an owner with pods is judged by its pods",
        "template-priority-differs",
        [
            GOLD,
            SILVER,
            GOLD_GROUP,
            owner(class_name="silver", group="train"),
            pod("train-x", group="train", class_name="gold", priority=1000),
        ],
    ),
    Case(
        "an owner that has ended creates no pods",
        "template-priority-differs",
        [GOLD, SILVER, GOLD_GROUP, owner(class_name="silver", group="train", finished=True)],
    ),
    Case(
        "templates of one group for two schedulers",
        "template-scheduler-mixed",
        [
            pod_group(),
            owner("Job", "a", group="train"),
            owner("Job", "b", group="train"),
            owner("Job", "c", group="train", scheduler="other"),
        ],
        [
            (
                "Job team-a/c",
                SCHEDULER,
                "scheduled by other; other templates of PodGroup train name default-sch",
            )
        ],
    ),
    Case(
        "a template of a Podium group for kube-scheduler",
        "template-scheduler-mixed",
        [pod_group(podium=True), owner(podium="train")],
        [
            (
                JOB,
                SCHEDULER,
                "scheduled by default-scheduler; it does not read PodGroup train of scheduling.podium",
            )
        ],
    ),
    Case(
        "templates of one group for one scheduler",
        "template-scheduler-mixed",
        [
            pod_group(),
            owner("Job", "a", group="train", scheduler="other"),
            owner("Job", "b", group="train", scheduler="other"),
            pod_group("p", podium=True),
            owner("Job", "c", podium="p", scheduler="podium-scheduler"),
        ],
    ),
    Case(
        "a scheduler that may not read native groups",
        "template-scheduler-unknown",
        [pod_group(), owner(group="train", scheduler="volcano")],
        [(JOB, SCHEDULER, "unless volcano is a profile of kube-scheduler")],
    ),
    Case(
        "schedulers that read native groups",
        "template-scheduler-unknown",
        [
            pod_group(),
            owner("Job", "a", group="train"),
            owner("Job", "b", group="train", scheduler="podium-scheduler"),
            owner("Job", "c", scheduler="volcano"),
        ],
    ),
    Case(
        "a template names no group of the input",
        "template-group-missing",
        [pod_group(), owner(group="trian"), owner("Job", "labelled", podium="train")],
        [
            ("Job team-a/labelled", LABEL, "PodGroup team-a/train is not in the input."),
            (
                JOB,
                REFERENCE,
                "Without it the pods are never scheduled. Did you mean train?",
            ),
        ],
    ),
    Case(
        "groups that are there, or that a Workload creates",
        "template-group-missing",
        [
            pod_group(),
            owner(group="train"),
            workload(group_template(), name="w"),
            owner("Job", "later", group="w-workers"),
            owner("Job", "none"),
        ],
    ),
    Case(
        "no group was read",
        "group-unread",
        [
            *(
                pod("a", group="train"),
                pod("b", group="train"),
                pod("done", group="other", phase="Succeeded"),
            ),
            *(owner("Job", "c", group="eval"), owner("Job", "d", podium="train")),
            *(pod("lone"), pod("far", group="far", namespace="team-b")),
        ],
        [
            (
                "Namespace team-a",
                "",
                "named by 2 live pods and 2 templates (Job team-a/c, Job team-a/d): eval, train. A pod whose",
            ),
            (
                "Namespace team-b",
                "",
                "no PodGroup was read (not in the input), but PodGroups are named by 1 live pod: far. A pod",
            ),
        ],
        unread={Kind.POD_GROUP: "not in the input"},
    ),
    Case("the groups were read", "group-unread", [pod("a", group="train")]),
    Case(
        "no group is named, or a Workload makes it",
        "group-unread",
        [pod("a"), owner(), workload(group_template(), name="w"), owner("Job", "later", group="w-workers")],
        unread={Kind.POD_GROUP: "not in the input"},
    ),
    Case(
        "minCount is above the pods of the templates",
        "template-too-few-pods",
        [
            pod_group(min_count=8),
            owner(group="train", number=4),
            owner("Job", "more", group="train", number=3),
        ],
        [(GROUP, MIN_COUNT, "minCount is 8, but Job team-a/more creates 3 and Job team-a/train creates 4.")],
    ),
    Case(
        "pods that exist count too",
        "template-too-few-pods",
        [pod_group(min_count=8), owner("Job", "more", group="train", number=3), pod("x", group="train")],
        [(GROUP, MIN_COUNT, "minCount is 8, but Job team-a/more creates 3 and 1 exist.")],
    ),
    Case(
        "enough pods, an unknown number, or no gang",
        "template-too-few-pods",
        [
            pod_group(min_count=8),
            owner("Job", "a", group="train", number=4),
            owner("Job", "b", group="train", number=4),
            pod_group("every-node", min_count=8),
            owner("DaemonSet", "d", group="every-node", number=None),
            pod_group("basic"),
            owner("Job", "c", group="basic", number=0),
        ],
    ),
    Case(
        "roles of two classes",
        "owner-priorities-differ",
        [GOLD, SILVER, with_roles(driver="gold", worker="silver")],
        [
            (
                "JobSet team-a/roles",
                "spec.worker.template.spec.priorityClassName",
                "class gold (1000) in spec.driver.template and class silver (500) in spec.worker.template",
            )
        ],
    ),
    Case(
        "roles of two classes without values",
        "owner-priorities-differ",
        [with_roles(driver="gold", worker="")],
        [
            (
                "JobSet team-a/roles",
                "spec.worker.template.spec.priorityClassName",
                "class gold in spec.driver.template and no class (0) in spec.worker.template",
            )
        ],
    ),
    Case(
        # ray-project/kuberay#4360: the field is that of the role which differs from the others.
        "one of three roles differs",
        "owner-priorities-differ",
        [GOLD, SILVER, with_roles(driver="gold", worker="silver", other="gold")],
        [("JobSet team-a/roles", "spec.worker.template.spec.priorityClassName", "class silver (500)")],
    ),
    Case("roles of one class", "owner-priorities-differ", [GOLD, with_roles(driver="gold", worker="gold")]),
    Case(
        "roles with pods are judged by their pods",
        "owner-priorities-differ",
        [
            with_roles(driver="gold", worker=""),
            pod("roles-driver-0", labels={"jobset.sigs.k8s.io/jobset-name": "roles"}),
        ],
    ),
]
