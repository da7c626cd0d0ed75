"""Named clusters for every rule of the audit: what it must find there, and what it must not.

A case without expectations is a negative one. Expectations are (object, field, part of the message), worst
and first as the report has them.
"""

from typing import NamedTuple

from tests.audit.builders import (
    NEW,
    OLD,
    container,
    group_template,
    kueue_workload,
    node,
    owner,
    pod,
    pod_group,
    pods,
    priority_class,
    workload,
)

from podium.api.groups import GROUP_LABEL, DisruptionMode
from podium.state import Readable

GROUP = "PodGroup team-a/train"
PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
OTHER_PREFIX = "preemption-toleration.scheduling.sigs.k8s.io/"

Expected = tuple[str, str, str]


class Case(NamedTuple):
    """One cluster for one rule."""

    name: str
    rule: str
    objects: list[Readable]
    expected: list[Expected] = []
    kubernetes: str = "1.37"


GOLD = priority_class("gold", 1000)
SILVER = priority_class("silver", 500)
ALL = DisruptionMode.POD_GROUP
NODES: list[Readable] = [node(f"node-{index}", {"cpu": "8", "example.com/gpu": "4"}) for index in range(2)]


def gang(min_count: int, *members: Readable) -> list[Readable]:
    return [pod_group(min_count=min_count), *members]


def asking(name: str, **requests: str) -> Readable:
    return pod(
        name,
        group="train",
        requests={key.replace("gpu", "example.com/gpu"): v for key, v in requests.items()},
    )


MEMBER_CASES = [
    Case(
        "one pod differs",
        "pod-priority-differs",
        [pod_group(priority=1000), *pods(3, priority=1000), pod("odd", group="train", priority=0)],
        [
            (
                GROUP,
                "spec.priority",
                "1 of 4 pods do not have priority 1000: 0 (odd). Kubernetes 1.37 does not",
            )
        ],
    ),
    Case(
        "1.36 says that the group's wins",
        "pod-priority-differs",
        [pod_group(priority=1000), pod("odd", group="train")],
        [(GROUP, "spec.priority", "Kubernetes 1.36 silently lets the group's 1000 win")],
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
        [(GROUP, "spec.priority", "Kubernetes 1.38 does not schedule the group")],
        "1.38",
    ),
    Case(
        "a Podium group in doubt may not preempt",
        "pod-priority-differs",
        [pod_group(priority=1000, podium=True), pod("odd", podium="train")],
        [(GROUP, "spec.priority", "evicts nobody")],
    ),
    Case(
        "values are grouped and names counted",
        "pod-priority-differs",
        [pod_group(priority=1000), *pods(5, priority=7), pod("z", group="train", priority=-1)],
        [
            (
                GROUP,
                "spec.priority",
                "6 of 6 pods do not have priority 1000: 7 (pod-0, pod-1, pod-2 and 2 more); -1 (z)",
            )
        ],
    ),
    Case(
        "a recreated class is told",
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
                "PriorityClass gold had another value when new were made than for the group",
            )
        ],
    ),
    Case(
        "a default introduced later is told",
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
                "1 of 3 pods do not have preemptionPolicy PreemptLowerPriority: Never (never)",
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
        [(GROUP, "spec.preemptionPolicy", "One member with Never keeps the whole group from preempting")],
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
                "1 pod of 3 existed before the group (2026-01-02T00:00:00Z): first",
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
                "its pods name 2 schedulers: default-scheduler (a) and other (b). Kubernetes 1.37 does not",
            )
        ],
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
                "1 of 2 pods are scheduled by default-scheduler, which does not read scheduling.podium.dev: a",
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
                "1 member by spec.schedulingGroup carry the label of another group: other (a)",
            )
        ],
    ),
    Case(
        "label and field agree", "membership-conflict", [pod_group(), pod("a", group="train", podium="train")]
    ),
    Case("a label alone", "membership-conflict", [pod_group(podium=True), pod("a", podium="train")]),
]

GANG_CASES = [
    Case(
        "two of four",
        "gang-too-few-pods",
        gang(4, *pods(2)),
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "it has 2 live pods, but minCount is 4")],
    ),
    Case(
        "no pod at all",
        "gang-too-few-pods",
        gang(4),
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "no pod references it, and minCount is 4")],
    ),
    Case("as many as minCount", "gang-too-few-pods", gang(2, *pods(2))),
    Case("a basic group has no minimum", "gang-too-few-pods", [pod_group(), *pods(1)]),
    Case(
        "the rest has finished",
        "gang-too-few-pods",
        gang(2, *pods(1), pod("done", group="train", phase="Succeeded")),
    ),
    Case("the gang has run", "gang-too-few-pods", gang(2, pod("done", group="train", phase="Failed"))),
    Case("the group is going", "gang-too-few-pods", [pod_group(min_count=4, deleted=NEW), *pods(1)]),
    Case(
        "more devices than there are",
        "gang-too-large",
        [*NODES, *gang(9, *(asking(f"pod-{index}", gpu="1") for index in range(9)))],
        [
            (
                GROUP,
                "spec.schedulingPolicy.gang.minCount",
                "9 of its pods must run at once, each asking for 1 example.com/gpu; 2 schedulable nodes have room for 8",
            )
        ],
    ),
    Case(
        "a pod larger than any node",
        "gang-too-large",
        [*NODES, *gang(1, asking("big", cpu="8500m"))],
        [
            (
                GROUP,
                "spec.schedulingPolicy.gang.minCount",
                "1 of its pods must run at once, each asking for 8,500m cpu; 2 schedulable nodes have room for 0",
            )
        ],
    ),
    Case(
        "pieces that no node has together",
        "gang-too-large",
        [*NODES, *gang(4, *(asking(f"pod-{index}", cpu="5") for index in range(4)))],
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "have room for 2")],
    ),
    Case(
        "members to come are like those there are",
        "gang-too-large",
        [*NODES, *gang(9, asking("pod-0", gpu="1"))],
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "9 of its pods must run at once")],
    ),
    Case(
        "a small leader does not hide the workers",
        "gang-too-large",
        [
            *NODES,
            *gang(4, asking("leader", cpu="1"), *(asking(f"pod-{index}", gpu="3") for index in range(3))),
        ],
        [
            (
                GROUP,
                "spec.schedulingPolicy.gang.minCount",
                "3 of its pods must run at once, each asking for 3 example.com/gpu",
            )
        ],
    ),
    Case(
        "two roles that fit apart and not together",
        "gang-too-large",
        [
            *NODES,
            *gang(
                4,
                *(asking(f"a-{i}", gpu="4") for i in range(2)),
                *(asking(f"b-{i}", gpu="3") for i in range(2)),
            ),
        ],
        [
            (
                GROUP,
                "spec.schedulingPolicy.gang.minCount",
                "its members ask for 14 example.com/gpu; 2 schedulable nodes have 8 in all",
            )
        ],
    ),
    Case(
        "a cordoned node has no room",
        "gang-too-large",
        [
            node("node-0", {"example.com/gpu": "4"}),
            node("node-1", {"example.com/gpu": "4"}, unschedulable=True),
            *gang(5, *(asking(f"pod-{index}", gpu="1") for index in range(5))),
        ],
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "1 schedulable node have room for 4")],
    ),
    Case(
        "nodes take so many pods and no more",
        "gang-too-large",
        [node("node-0", {"cpu": "8", "pods": "2"}), *gang(3, *pods(3))],
        [
            (
                GROUP,
                "spec.schedulingPolicy.gang.minCount",
                "each asking for nothing; 1 schedulable node have room for 2",
            )
        ],
    ),
    Case(
        "as many devices as there are",
        "gang-too-large",
        [
            *NODES,
            *gang(8, *(asking(f"pod-{index}", gpu="1") for index in range(9))),
        ],
    ),
    Case(
        "spare members need no room",
        "gang-too-large",
        [
            *NODES,
            *gang(8, *(asking(f"pod-{index}", gpu="1") for index in range(8)), asking("spare", cpu="100")),
        ],
    ),
    Case(
        "a basic group may be of any size",
        "gang-too-large",
        [
            *NODES,
            pod_group(),
            *(asking(f"pod-{index}", gpu="1") for index in range(9)),
        ],
    ),
    Case(
        "a node has not told its room",
        "gang-too-large",
        [
            *NODES,
            node("new"),
            *gang(9, *(asking(f"pod-{index}", gpu="1") for index in range(9))),
        ],
    ),
    Case("a gang whose pods are not known", "gang-too-large", [*NODES, *gang(900)]),
    Case(
        "a container without requests asks for its limits",
        "gang-too-large",
        [*NODES, *gang(1, pod("a", group="train", containers=[container(None, {"cpu": 9})]))],
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "each asking for 9 cpu")],
    ),
    Case(
        "an init container may be the largest",
        "gang-too-large",
        [
            *NODES,
            *gang(
                1, pod("a", group="train", requests={"cpu": "1"}, init=[container({"cpu": "9"}, name="init")])
            ),
        ],
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "each asking for 9 cpu")],
    ),
    Case(
        "a sidecar runs beside",
        "gang-too-large",
        [
            *NODES,
            *gang(
                1,
                pod(
                    "a",
                    group="train",
                    requests={"cpu": "5"},
                    init=[container({"cpu": "4"}, restart="Always")],
                ),
            ),
        ],
        [(GROUP, "spec.schedulingPolicy.gang.minCount", "each asking for 9 cpu")],
    ),
]

GROUP_CASES = [
    Case(
        "the group was never made",
        "group-missing",
        [pod("a", group="train"), pod("b", group="train"), pod_group("other")],
        [(GROUP, "", "2 live pods reference it and it does not exist: a, b")],
    ),
    Case(
        "a native group of that name is not a Podium one",
        "group-missing",
        [pod("a", podium="train"), pod_group()],
        [(GROUP, "", "1 live pod reference it")],
    ),
    Case("only finished pods reference it", "group-missing", [pod("a", group="train", phase="Succeeded")]),
    Case("only leaving pods reference it", "group-missing", [pod("a", group="train", terminating=True)]),
    Case("it exists", "group-missing", [pod("a", group="train"), pod_group()]),
    Case(
        "it is going and pods hold it",
        "group-terminating",
        [pod_group(deleted=NEW), *pods(2)],
        [
            (
                GROUP,
                "metadata.deletionTimestamp",
                "it is being deleted since 2026-01-02T00:00:00Z, and 2 live pods",
            )
        ],
    ),
    Case(
        "it is going with its pods",
        "group-terminating",
        [
            pod_group(deleted=NEW),
            pod("a", group="train", terminating=True),
            pod("b", group="train", phase="Failed"),
        ],
    ),
    Case("it stays", "group-terminating", [pod_group(), *pods(2)]),
    Case(
        "class, minimum and mode differ",
        "group-unlike-template",
        [
            workload(group_template(class_name="gold", min_count=8, mode=ALL), name="w"),
            pod_group(class_name="silver", min_count=4, template=("w", "workers")),
        ],
        [
            (
                GROUP,
                "spec",
                "it is unlike template workers of Workload team-a/w: class silver instead of gold; minCount 4 instead of minCount 8; disruption mode Pod instead of PodGroup",
            )
        ],
    ),
    Case(
        "integer, policy and kind differ",
        "group-unlike-template",
        [
            workload(group_template(priority=5, policy="Never", min_count=2), name="w"),
            pod_group(priority=None, template=("w", "workers")),
        ],
        [
            (
                GROUP,
                "spec",
                "priority 0 instead of 5; preemptionPolicy none instead of Never; basic instead of minCount 2",
            )
        ],
    ),
    Case(
        "the template leaves open what differs",
        "group-unlike-template",
        [
            workload(group_template(min_count=8), name="w"),
            pod_group(
                class_name="gold",
                priority=1000,
                policy="Never",
                min_count=8,
                mode=ALL,
                template=("w", "workers"),
            ),
        ],
    ),
    Case(
        "there is no such template",
        "group-unlike-template",
        [
            workload(group_template("others", min_count=8), name="w"),
            pod_group(template=("w", "workers")),
        ],
    ),
    Case(
        "there is no such Workload",
        "group-unlike-template",
        [
            workload(group_template(min_count=8), name="w"),
            pod_group(template=("v", "workers")),
        ],
    ),
    Case(
        "the Workload is of the other API",
        "group-unlike-template",
        [
            workload(group_template(min_count=8), name="w", podium=True),
            pod_group(template=("w", "workers")),
        ],
    ),
    Case(
        "a basic group goes all together",
        "basic-with-group-disruption",
        [pod_group(mode=ALL), workload(group_template(mode=ALL))],
        [
            (GROUP, "spec.disruptionMode", "its policy is basic"),
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[0].disruptionMode",
                "the policy of template workers is basic",
            ),
        ],
    ),
    Case(
        "a gang goes all together",
        "basic-with-group-disruption",
        [
            pod_group(mode=ALL, min_count=2),
            workload(group_template(mode=ALL, min_count=2)),
            pod_group("basic"),
        ],
    ),
    Case(
        "a system class",
        "system-class-on-group",
        [
            pod_group(class_name="system-node-critical"),
            workload(group_template(class_name="system-cluster-critical")),
        ],
        [
            (GROUP, "spec.priorityClassName", "no group can have class system-node-critical"),
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[0].priorityClassName",
                "every group made from template workers is refused",
            ),
        ],
    ),
    Case(
        "a user's class",
        "system-class-on-group",
        [pod_group(class_name="gold"), workload(group_template(class_name="gold"))],
    ),
    Case(
        "v1alpha2 is gone in 1.37",
        "v1alpha2-removed",
        [pod_group(version="v1alpha2"), workload(group_template(), version="v1alpha2"), pod_group("new")],
        [
            (GROUP, "apiVersion", "Kubernetes 1.37 does not serve scheduling.k8s.io/v1alpha2"),
            ("Workload team-a/train", "apiVersion", "does not serve"),
        ],
    ),
    Case("v1alpha2 is what 1.36 has", "v1alpha2-removed", [pod_group(version="v1alpha2")], [], "1.36"),
    Case("Podium's v1alpha2 stays", "v1alpha2-removed", [pod_group(version="v1alpha2", podium=True)]),
    Case(
        "templates of two classes",
        "template-priorities-differ",
        [
            workload(
                group_template("a", class_name="gold"),
                group_template("b", class_name="silver"),
                group_template("c", class_name="gold"),
            )
        ],
        [
            (
                "Workload team-a/train",
                "spec",
                "its templates have 2 priorities: gold (a, c) and silver (b). Kubernetes 1.37 refuses",
            )
        ],
    ),
    Case(
        "nil and 0 are unlike, as upstream has it",
        "template-priorities-differ",
        [workload(group_template("a", priority=0), group_template("b"))],
        [("Workload team-a/train", "spec", "Kubernetes 1.36 accepts it, 1.37 refuses it")],
        "1.36",
    ),
    Case(
        "templates of one priority",
        "template-priorities-differ",
        [
            workload(
                group_template("a", class_name="gold", priority=1),
                group_template("b", class_name="gold", priority=1),
            ),
        ],
    ),
]

CLASS_CASES = [
    Case(
        "a deleted class",
        "class-missing",
        [
            SILVER,
            pod("a", priority=1000, class_name="gold"),
            pod_group(priority=1000, class_name="gold"),
            pod("b", priority=500, class_name="silver"),
        ],
        [
            (
                "PriorityClass gold",
                "",
                "it does not exist, but 1 live pod (team-a/a) and 1 PodGroup (team-a/train) name it and store 1000",
            )
        ],
    ),
    Case("a finished pod had it", "class-missing", [pod("a", class_name="gold", phase="Succeeded")]),
    Case(
        "system classes are always there",
        "class-missing",
        [pod("a", class_name="system-node-critical", priority=2000001000)],
    ),
    Case("no class at all", "class-missing", [pod("a"), pod_group()]),
    Case(
        "a class was recreated",
        "class-value-changed",
        [
            GOLD,
            *(pod(f"p-{value}", priority=value, class_name="gold") for value in (1000, 500, 7)),
            pod_group(priority=500, class_name="gold"),
            owner("Deployment", "web", api_version="apps/v1"),
        ],
        [
            (
                "PriorityClass gold",
                "value",
                "its value is 1000, but 2 live pods (team-a/p-500, team-a/p-7) and 1 PodGroup (team-a/train) of this class store 7 and 500",
            )
        ],
    ),
    Case(
        "an integer that was never stored",
        "class-value-changed",
        [GOLD, pod("a", priority=None, class_name="gold")],
    ),
    Case("an integer that agrees", "class-value-changed", [GOLD, pod("a", priority=1000, class_name="gold")]),
    Case(
        "a nil value is 0",
        "class-value-changed",
        [priority_class("zero"), pod("a", priority=0, class_name="zero")],
    ),
    Case("a class that is gone", "class-value-changed", [pod("a", priority=1, class_name="gold")]),
    Case(
        "three defaults",
        "default-class-duplicate",
        [
            priority_class("b", 5, default=True),
            priority_class("a", 5, default=True),
            priority_class("c", 9, default=True),
        ],
        [
            ("PriorityClass b", "globalDefault", "beside a (5), which is used instead of its 5"),
            ("PriorityClass c", "globalDefault", "beside a (5), which is used instead of its 9"),
        ],
    ),
    Case("one default", "default-class-duplicate", [priority_class("b", 5, default=True), GOLD]),
    Case(
        "no default, and a group mixes",
        "default-class-missing",
        [GOLD, pod_group(priority=1000, class_name="gold"), pod("a", group="train")],
        [
            (
                "PriorityClass (default)",
                "globalDefault",
                "in 1 group some of group and pods name a class and some have none, which is priority 0: team-a/train",
            )
        ],
    ),
    Case(
        "no default, and every group is of one mind",
        "default-class-missing",
        [
            GOLD,
            pod_group(priority=1000, class_name="gold"),
            pod("a", group="train", class_name="gold", priority=1000),
            pod_group("plain"),
            pod("b", group="plain"),
            pod("lone"),
        ],
    ),
    Case(
        "a default, and a group mixes",
        "default-class-missing",
        [
            priority_class("standard", 1, default=True),
            pod_group(class_name="gold"),
            pod("a", group="train"),
        ],
    ),
    Case(
        "a class nobody names",
        "class-unused",
        [
            GOLD,
            SILVER,
            priority_class("by-template"),
            priority_class("by-workload"),
            priority_class("by-group"),
            priority_class("standard", default=True),
            priority_class("system-node-critical", 2000001000),
            pod("a", class_name="silver", priority=500),
            owner(class_name="by-template"),
            workload(group_template(class_name="by-workload")),
            pod_group(class_name="by-group"),
        ],
        [("PriorityClass gold", "", "no live pod, group or template that was read names it.")],
    ),
    Case(
        "a class only finished pods name",
        "class-unused",
        [GOLD, pod("a", class_name="gold", priority=1000, phase="Succeeded")],
        [("PriorityClass gold", "", "no live pod")],
    ),
    Case(
        "half are at the top",
        "top-class-share",
        [
            GOLD,
            SILVER,
            *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(10)),
            *(pod(f"low-{index}", class_name="silver", priority=500) for index in range(10)),
            *(
                pod(f"system-{index}", class_name="system-node-critical", priority=2000001000)
                for index in range(9)
            ),
        ],
        [
            (
                "PriorityClass gold",
                "",
                "50% of pods (10 of 20, system classes left out) have the highest priority in use, 1000 (gold)",
            )
        ],
    ),
    Case(
        "fewer than half are at the top",
        "top-class-share",
        [
            GOLD,
            SILVER,
            *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(10)),
            *(pod(f"low-{index}", class_name="silver", priority=500) for index in range(11)),
        ],
    ),
    Case("few pods", "top-class-share", [GOLD, SILVER, pod("top", class_name="gold", priority=1000)]),
    Case(
        "one level",
        "top-class-share",
        [
            GOLD,
            *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(30)),
        ],
    ),
]

TOLERATION_CASES = [
    Case(
        "no number",
        "toleration-unreadable",
        [priority_class("low", 1, annotations={f"{PREFIX}toleration-seconds": "1h"})],
        [("PriorityClass low", f"metadata.annotations[{PREFIX}toleration-seconds]", "'1h' is no integer")],
    ),
    Case(
        "numbers",
        "toleration-unreadable",
        [
            priority_class(
                "low",
                1,
                annotations={
                    f"{PREFIX}toleration-seconds": "-1",
                    f"{PREFIX}minimum-preemptable-priority": "10000",
                },
            ),
        ],
    ),
    Case(
        "other annotations", "toleration-unreadable", [priority_class("low", 1, annotations={"note": "1h"})]
    ),
    Case(
        "seconds alone",
        "toleration-without-effect",
        [priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "600"})],
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{PREFIX}minimum-preemptable-priority]",
                "every preemptor of value 8 has at least 9",
            )
        ],
    ),
    Case(
        "a minimum alone",
        "toleration-without-effect",
        [priority_class("low", 8, annotations={f"{PREFIX}minimum-preemptable-priority": "100"})],
        [("PriorityClass low", f"metadata.annotations[{PREFIX}toleration-seconds]", "it lasts 0 seconds")],
    ),
    Case(
        "a minimum above and seconds",
        "toleration-without-effect",
        [
            priority_class(
                "low",
                8,
                annotations={
                    f"{PREFIX}toleration-seconds": "600",
                    f"{PREFIX}minimum-preemptable-priority": "10",
                },
            ),
        ],
    ),
    Case(
        "what does not parse is another rule's",
        "toleration-without-effect",
        [
            priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "x"}),
        ],
    ),
    Case(
        "the proposal's prefix",
        "toleration-prefix",
        [priority_class("low", 8, annotations={f"{OTHER_PREFIX}toleration-seconds": "600; reboot"})],
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{OTHER_PREFIX}toleration-seconds]",
                f"the plugin does not read {OTHER_PREFIX}toleration-seconds",
            )
        ],
    ),
    Case(
        "the plugin's prefix",
        "toleration-prefix",
        [
            priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "600"}),
        ],
    ),
]

TEMPLATE_CASES = [
    Case(
        "a class that is not there",
        "template-class-missing",
        [
            GOLD,
            owner(class_name="nope", path="spec.replicatedJobs[1].template.spec.template"),
            workload(group_template(class_name="nope")),
        ],
        [
            (
                "Job team-a/train",
                "spec.replicatedJobs[1].template.spec.template.spec.priorityClassName",
                "PriorityClass nope does not exist",
            ),
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[0].priorityClassName",
                "PriorityClass nope does not exist",
            ),
        ],
    ),
    Case(
        "classes that are there",
        "template-class-missing",
        [
            GOLD,
            owner(class_name="gold"),
            owner("CronJob", "c", class_name="system-node-critical"),
            owner("Job", "none"),
            workload(group_template(class_name="gold")),
        ],
    ),
    Case(
        "a ReplicaSet repeats its Deployment",
        "template-class-missing",
        [
            owner("Deployment", "web", api_version="apps/v1", class_name="nope"),
            owner(
                "ReplicaSet",
                "web-1",
                api_version="apps/v1",
                class_name="nope",
                made_by=("apps/v1", "Deployment", "web"),
            ),
        ],
        [("Deployment team-a/web", "spec.template.spec.priorityClassName", "nope")],
    ),
    Case(
        "a ReplicaSet whose Deployment is not in sight",
        "template-class-missing",
        [
            owner(
                "ReplicaSet",
                "web-1",
                api_version="apps/v1",
                class_name="nope",
                made_by=("apps/v1", "Deployment", "web"),
            )
        ],
        [("ReplicaSet team-a/web-1", "spec.template.spec.priorityClassName", "nope")],
    ),
    Case(
        "a number in a template",
        "template-priority-written",
        [owner(priority=0), owner("Job", "clean", class_name="gold")],
        [("Job team-a/train", "spec.template.spec.priority", "priority 0 is written out")],
    ),
    Case("no number in a template", "template-priority-written", [owner(class_name="gold")]),
]

JOBSET = "jobset.sigs.k8s.io/jobset-name"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
NEIGHBOUR_CASES = [
    Case(
        "Kueue has another number, by owner",
        "kueue-priority-differs",
        [
            kueue_workload("w", priority=500, owners=[("jobset.x-k8s.io/v1alpha2", "JobSet", "train")]),
            owner("Job", "train-0", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "train")),
            pod("a", priority=1000, owner=("batch/v1", "Job", "train-0")),
            pod("done", priority=1000, owner=("batch/v1", "Job", "train-0"), phase="Succeeded"),
        ],
        [
            (
                "Workload team-a/w",
                "spec.priority",
                "Kueue queues it by 500, but 1 live pod of it have 1000, by which the scheduler preempts: a",
            )
        ],
    ),
    Case(
        "Kueue has another number, by pod group, annotation and JobSet label",
        "kueue-priority-differs",
        [
            kueue_workload("w", priority=None),
            kueue_workload("x", priority=3),
            kueue_workload("y", priority=3, owners=[("jobset.x-k8s.io/v1alpha2", "JobSet", "set")]),
            kueue_workload("z", priority=3, owners=[("v1", "Pod", "alone")]),
            pod("a", priority=1, labels={"kueue.x-k8s.io/pod-group-name": "w"}),
            pod("b", priority=2, annotations={"kueue.x-k8s.io/workload": "x"}),
            pod("c", priority=2, labels={JOBSET: "set"}, owner=("batch/v1", "Job", "set-0")),
            pod("alone", priority=2, owner=None),
        ],
        [
            ("Workload team-a/w", "spec.priority", "Kueue queues it by 0"),
            ("Workload team-a/x", "spec.priority", "have 2"),
            ("Workload team-a/y", "spec.priority", "preempts: c"),
            ("Workload team-a/z", "spec.priority", "preempts: alone"),
        ],
    ),
    Case(
        "Kueue has the same number",
        "kueue-priority-differs",
        [
            kueue_workload("w", priority=1000, owners=[("batch/v1", "Job", "train")]),
            pod("a", priority=1000),
            pod("other", priority=5, owner=("batch/v1", "Job", "other")),
        ],
    ),
    Case(
        "a bare pod below",
        "bare-pod-victims",
        [
            GOLD,
            pod("top", priority=1000, class_name="gold"),
            pod("bare", owner=None),
            pod("pending", owner=None, node=None),
            pod("done", owner=None, phase="Succeeded"),
            pod("high", owner=None, priority=1000, class_name="gold"),
        ],
        [
            (
                "Namespace team-a",
                "",
                "1 running pod without a controller can be preempted by priority 1000, and nothing makes them again: bare",
            )
        ],
    ),
    Case(
        "only system classes are above",
        "bare-pod-victims",
        [
            pod("system", priority=2000001000, class_name="system-node-critical"),
            pod("bare", owner=None),
        ],
    ),
    Case(
        "what is above never preempts",
        "bare-pod-victims",
        [
            priority_class("polite", 1000, policy="Never"),
            pod("top", priority=1000, class_name="polite"),
            pod("bare", owner=None),
        ],
    ),
    Case(
        "a launcher kept the default",
        "inferred-priority-differs",
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
        [
            (
                "JobSet team-a/train",
                "",
                "1 of its 5 pods do not have priority 1000, which most have: launcher 0 (launcher); worker 1000 (w-0, w-1, w-2 and 1 more)",
            )
        ],
    ),
    Case(
        "all of a JobSet agree",
        "inferred-priority-differs",
        [
            pod("a", labels={JOBSET: "train"}),
            pod("b", labels={JOBSET: "train"}),
            pod("c", priority=7, labels={JOBSET: "other"}),
        ],
    ),
    Case(
        "where there is a PodGroup nothing is inferred",
        "inferred-priority-differs",
        [
            pod_group("any"),
            pod("a", labels={JOBSET: "train"}),
            pod("b", priority=9, labels={JOBSET: "train"}),
        ],
    ),
]

CASES = [
    *MEMBER_CASES,
    *GANG_CASES,
    *GROUP_CASES,
    *CLASS_CASES,
    *TOLERATION_CASES,
    *TEMPLATE_CASES,
    *NEIGHBOUR_CASES,
]
