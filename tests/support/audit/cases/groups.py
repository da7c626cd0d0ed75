"""Cases for the rules about PodGroups and Workloads as stored."""

from tests.support.audit.builders import NEW, group_template, pod, pod_group, pods, stored, workload
from tests.support.audit.cases.case import GOLD, GROUP, SYSTEM, Case

from podium.api.groups import DisruptionMode

ALL = DisruptionMode.POD_GROUP

CASES = [
    Case(
        "the group was never made",
        "group-missing",
        stored(pod("a", group="train"), pod("b", group="train"), pod_group("other")),
        [(GROUP, "", "it does not exist, but it is referenced by 2 live pods: a, b")],
    ),
    Case(
        "manifests beside an exported group",
        "group-missing",
        [pod("a", group="train"), *stored(pod_group("other")), SYSTEM],
        [(GROUP, "", "it is not in the input, but it is referenced by 1 live pod: a")],
    ),
    Case(
        "a group that manifests lack",
        "group-missing",
        [pod("a", group="train")],
        [(GROUP, "", "it is not in the input, but it is referenced by 1 live pod: a")],
    ),
    Case(
        "a native group of that name is not a Podium one",
        "group-missing",
        [pod("a", podium="train"), pod_group()],
        [(GROUP, "", "referenced by 1 live pod: a")],
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
                "deletion started 2026-01-02T00:00:00Z, but it is still referenced by 2 live pods",
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
                "priorityClassName silver instead of gold; disruptionMode",
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
                "priority unset instead of 5; preemptionPolicy unset instead of Never; schedulingPolicy",
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
                "the policy of template workers",
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
        "a composite template has no policy of its own here",
        "basic-with-group-disruption",
        [workload(group_template(mode=ALL, composite=True))],
    ),
    Case(
        "a system class",
        "system-class-on-group",
        [
            pod_group(class_name="system-node-critical"),
            workload(group_template(class_name="system-cluster-critical")),
        ],
        [
            (GROUP, "spec.priorityClassName", "refuses groups of class system-node-critical"),
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[0].priorityClassName",
                "refuses groups of template workers",
            ),
        ],
    ),
    Case(
        "1.38 takes a system class",
        "system-class-on-group",
        [
            pod_group(class_name="system-node-critical"),
            pod_group("own", class_name="system-node-critical", podium=True),
            workload(group_template(class_name="system-cluster-critical")),
        ],
        [],
        "1.38",
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
                "2 priorities: gold (a, c) and silver (b). Kubernetes 1.37 refuses",
            )
        ],
    ),
    Case(
        "another policy than the class has",
        "policy-unlike-class",
        [
            GOLD,
            pod_group(class_name="gold", policy="Never"),
            pod_group("without", policy="Never"),
            workload(group_template(class_name="gold", policy="Never")),
        ],
        [
            (GROUP, "spec.preemptionPolicy", "it is Never, and that of its class is PreemptLowerPriority."),
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[0].preemptionPolicy",
                "Kubernetes 1.38 (beta) refuses to create the group.",
            ),
            ("PodGroup team-a/without", "spec.preemptionPolicy", "it is Never"),
        ],
        "1.38",
    ),
    Case(
        "the policy of the class, no policy, an unknown class, and a group of Podium's",
        "policy-unlike-class",
        [
            GOLD,
            pod_group("same", class_name="gold", policy="PreemptLowerPriority"),
            pod_group("none", class_name="gold"),
            pod_group("lost", class_name="lost", policy="Never"),
            pod_group("own", class_name="gold", policy="Never", podium=True),
        ],
        [],
        "1.38",
    ),
    Case(
        "1.37 drops the field without its gate",
        "policy-unlike-class",
        [GOLD, pod_group(class_name="gold", policy="Never")],
    ),
    Case(
        "templates of two policies",
        "template-policies-differ",
        [
            workload(
                group_template("a", policy="Never"), group_template("b"), group_template("c", policy="Never")
            )
        ],
        [
            (
                "Workload team-a/train",
                "spec",
                "its templates have 2 preemptionPolicies: Never (a, c) and none (b). Kubernetes 1.38 (beta) ",
            )
        ],
        "1.38",
    ),
    Case(
        "one policy, and a Workload of Podium's",
        "template-policies-differ",
        [
            workload(group_template("a", policy="Never"), group_template("b", policy="Never")),
            workload(group_template("a", policy="Never"), group_template("b"), podium=True),
        ],
        [],
        "1.38",
    ),
    Case(
        "1.37 does not compare policies",
        "template-policies-differ",
        [workload(group_template("a", policy="Never"), group_template("b"))],
    ),
    Case(
        "nil and 0 are unlike, as upstream has it",
        "template-priorities-differ",
        [workload(group_template("a", priority=0), group_template("b"))],
        [("Workload team-a/train", "spec", "Kubernetes 1.38 (beta) refuses the Workload")],
        "1.38",
    ),
    Case(
        "1.36 accepts templates of two classes, Podium's own kind never does",
        "template-priorities-differ",
        [
            workload(group_template("a", class_name="gold"), group_template("b"), name="native"),
            workload(group_template("a", class_name="gold"), group_template("b"), podium=True),
        ],
        [("Workload team-a/train", "spec", "Podium refuses the Workload")],
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
