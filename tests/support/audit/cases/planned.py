"""Cases for the group rules over templates of owners without pods."""

from tests.support.audit.builders import (
    group_template,
    member,
    owner,
    pod,
    pod_group,
    priority_class,
    with_roles,
    workload,
)
from tests.support.audit.cases.case import GOLD, GROUP, SILVER, Table, case

from podium.api.reads import Kind

JOB = "Job team-a/train"
CLASS = "spec.template.spec.priorityClassName"
SCHEDULER = "spec.template.spec.schedulerName"
REFERENCE = "spec.template.spec.schedulingGroup.podGroupName"
LABEL = "spec.template.metadata.labels[scheduling.podium.dev/pod-group]"
MIN_COUNT = "spec.schedulingPolicy.gang.minCount"
GOLD_GROUP = pod_group(class_name="gold", priority=None)

CASES = Table()
CASES.add(
    "template-priority-differs",
    (JOB, CLASS),
    case(
        "the template names another class than its group",
        [GOLD, SILVER, GOLD_GROUP, owner(class_name="silver", group="train")],
        "has 1000 (class gold). Kubernetes 1.37 does not schedule the group.",
    ),
    case(
        "the template names no class",
        [GOLD, GOLD_GROUP, owner(group="train")],
        "its pods will have priority 0 (no class)",
    ),
    case(
        "Kubernetes 1.36 uses the priority of the group",
        [GOLD, SILVER, GOLD_GROUP, owner(class_name="silver", group="train")],
        "Kubernetes 1.36 silently uses the group's 1000.",
        kubernetes="1.36",
    ),
    case(
        "the values of the classes are not in the input",
        [GOLD, GOLD_GROUP, owner(class_name="batch", group="train")],
        "it names class batch, but PodGroup team-a/train names class gold. If their values",
    ),
    case(
        "the priority that a group stores counts, not its class",
        [GOLD, pod_group(class_name="gold", priority=7), owner(class_name="gold", group="train")],
        "but PodGroup team-a/train has 7",
    ),
    case(
        "a group of Podium",
        [
            GOLD,
            SILVER,
            pod_group(podium=True, class_name="gold", priority=None),
            owner(class_name="silver", podium="train", scheduler="podium-scheduler"),
        ],
        "divergencePolicy",
    ),
    case(
        "two classes of one value",
        [GOLD, priority_class("gilt", 1000), GOLD_GROUP, owner(class_name="gilt", group="train")],
    ),
    case("the class of the group", [GOLD, GOLD_GROUP, owner(class_name="gold", group="train")]),
    case("one class that is not in the input", [GOLD_GROUP, owner(class_name="gold", group="train")]),
    case(
        "an owner with pods is judged by its pods",
        [
            GOLD,
            SILVER,
            GOLD_GROUP,
            owner(class_name="silver", group="train"),
            member("train-x", class_name="gold", priority=1000),
        ],
    ),
    case(
        "an owner that has ended creates no pods",
        [GOLD, SILVER, GOLD_GROUP, owner(class_name="silver", group="train", finished=True)],
    ),
)
CASES.add(
    "template-scheduler-mixed",
    ("Job team-a/c", SCHEDULER),
    case(
        "templates of one group for two schedulers",
        [
            pod_group(),
            owner("Job", "a", group="train"),
            owner("Job", "b", group="train"),
            owner("Job", "c", group="train", scheduler="other"),
        ],
        "scheduled by other; other templates of PodGroup train name default-sch",
    ),
    case(
        "a template of a Podium group for kube-scheduler",
        [pod_group(podium=True), owner(podium="train")],
        (
            JOB,
            SCHEDULER,
            "scheduled by default-scheduler; it does not read PodGroup train of scheduling.podium",
        ),
    ),
    case(
        "templates of one group for one scheduler",
        [
            pod_group(),
            owner("Job", "a", group="train", scheduler="other"),
            owner("Job", "b", group="train", scheduler="other"),
            pod_group("p", podium=True),
            owner("Job", "c", podium="p", scheduler="podium-scheduler"),
        ],
    ),
)
CASES.add(
    "template-scheduler-unknown",
    (JOB, SCHEDULER),
    case(
        "a scheduler that may not read native groups",
        [pod_group(), owner(group="train", scheduler="volcano")],
        "unless volcano is a profile of kube-scheduler",
    ),
    case(
        "schedulers that read native groups",
        [
            pod_group(),
            owner("Job", "a", group="train"),
            owner("Job", "b", group="train", scheduler="podium-scheduler"),
            owner("Job", "c", scheduler="volcano"),
        ],
    ),
)
CASES.add(
    "template-group-missing",
    ("Job team-a/labelled", LABEL),
    case(
        "a template names no group of the input",
        [pod_group(), owner(group="trian"), owner("Job", "labelled", podium="train")],
        "PodGroup team-a/train is not in the input.",
        (JOB, REFERENCE, "Without it the pods are never scheduled. Did you mean train?"),
    ),
    case(
        "groups that are there, or that a Workload creates",
        [
            pod_group(),
            owner(group="train"),
            workload(group_template(), name="w"),
            owner("Job", "later", group="w-workers"),
            owner("Job", "none"),
        ],
    ),
)
CASES.add(
    "group-unread",
    ("Namespace team-a", ""),
    case(
        "no group was read",
        [
            *(member("a"), member("b"), pod("done", group="other", phase="Succeeded")),
            *(owner("Job", "c", group="eval"), owner("Job", "d", podium="train")),
            *(pod("lone"), pod("far", group="far", namespace="team-b")),
        ],
        "named by 2 live pods and 2 templates (Job team-a/c, Job team-a/d): eval, train. A pod whose",
        (
            "Namespace team-b",
            "",
            "no PodGroup was read (not in the input), but PodGroups are named by 1 live pod: far. A pod",
        ),
        unread={Kind.POD_GROUP: "not in the input"},
    ),
    case("the groups were read", [member("a")]),
    case(
        "no group is named, or a Workload makes it",
        [pod("a"), owner(), workload(group_template(), name="w"), owner("Job", "later", group="w-workers")],
        unread={Kind.POD_GROUP: "not in the input"},
    ),
)
CASES.add(
    "template-too-few-pods",
    (GROUP, MIN_COUNT),
    case(
        "minCount is above the pods of the templates",
        [
            pod_group(min_count=8),
            owner(group="train", number=4),
            owner("Job", "more", group="train", number=3),
        ],
        "minCount is 8, but Job team-a/more creates 3 and Job team-a/train creates 4.",
    ),
    case(
        "pods that exist count too",
        [pod_group(min_count=8), owner("Job", "more", group="train", number=3), member("x")],
        "minCount is 8, but Job team-a/more creates 3 and 1 exist.",
    ),
    case(
        "enough pods, an unknown number, or no gang",
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
)
CASES.add(
    "owner-priorities-differ",
    ("JobSet team-a/roles", "spec.worker.template.spec.priorityClassName"),
    case(
        "roles of two classes",
        [GOLD, SILVER, with_roles(driver="gold", worker="silver")],
        "class gold (1000) in spec.driver.template and class silver (500) in spec.worker.template",
    ),
    case(
        "roles of two classes without values",
        [with_roles(driver="gold", worker="")],
        "class gold in spec.driver.template and no class (0) in spec.worker.template",
    ),
    case(
        "one of three roles differs",
        [GOLD, SILVER, with_roles(driver="gold", worker="silver", other="gold")],
        "class silver (500)",
    ),
    case("roles of one class", [GOLD, with_roles(driver="gold", worker="gold")]),
    case(
        "roles with pods are judged by their pods",
        [
            with_roles(driver="gold", worker=""),
            pod("roles-driver-0", labels={"jobset.sigs.k8s.io/jobset-name": "roles"}),
        ],
    ),
)
