"""Cases for the rules about PodGroups and Workloads as stored."""

from tests.support.audit.builders import NEW, group_template, member, pod, pod_group, pods, stored, workload
from tests.support.audit.cases.case import GOLD, GROUP, SYSTEM, Table, case

from podium.api.groups import DisruptionMode

ALL = DisruptionMode.POD_GROUP

CASES = Table()
CASES.add(
    "group-missing",
    (GROUP, ""),
    case(
        "the group was never made",
        stored(member("a"), member("b"), pod_group("other")),
        "it does not exist, but it is referenced by 2 live pods: a, b",
    ),
    case(
        "manifests beside an exported group",
        [member("a"), *stored(pod_group("other")), SYSTEM],
        "it is not in the input, but it is referenced by 1 live pod: a",
    ),
    case(
        "a group that manifests lack",
        [member("a")],
        "it is not in the input, but it is referenced by 1 live pod: a",
    ),
    case(
        "a native group of that name is not a Podium one",
        [pod("a", podium="train"), pod_group()],
        "referenced by 1 live pod: a",
    ),
    case("only finished pods reference it", [member("a", phase="Succeeded")]),
    case("only leaving pods reference it", [member("a", terminating=True)]),
    case("it exists", [member("a"), pod_group()]),
)
CASES.add(
    "group-terminating",
    (GROUP, "metadata.deletionTimestamp"),
    case(
        "it is going and pods hold it",
        [pod_group(deleted=NEW), *pods(2)],
        "deletion started 2026-01-02T00:00:00Z, but it is still referenced by 2 live pods",
    ),
    case(
        "it is going with its pods",
        [pod_group(deleted=NEW), member("a", terminating=True), member("b", phase="Failed")],
    ),
    case("it stays", [pod_group(), *pods(2)]),
)
CASES.add(
    "group-unlike-template",
    (GROUP, "spec"),
    case(
        "class, minimum and mode differ",
        [
            workload(group_template(class_name="gold", min_count=8, mode=ALL), name="w"),
            pod_group(class_name="silver", min_count=4, template=("w", "workers")),
        ],
        "priorityClassName silver instead of gold; disruptionMode",
    ),
    case(
        "integer, policy and kind differ",
        [
            workload(group_template(priority=5, policy="Never", min_count=2), name="w"),
            pod_group(priority=None, template=("w", "workers")),
        ],
        "priority unset instead of 5; preemptionPolicy unset instead of Never; schedulingPolicy",
    ),
    case(
        "the template leaves open what differs",
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
    case(
        "there is no such template",
        [workload(group_template("others", min_count=8), name="w"), pod_group(template=("w", "workers"))],
    ),
    case(
        "there is no such Workload",
        [workload(group_template(min_count=8), name="w"), pod_group(template=("v", "workers"))],
    ),
    case(
        "the Workload is of the other API",
        [workload(group_template(min_count=8), name="w", podium=True), pod_group(template=("w", "workers"))],
    ),
)
CASES.add(
    "basic-with-group-disruption",
    (GROUP, "spec.disruptionMode"),
    case(
        "a basic group goes all together",
        [pod_group(mode=ALL), workload(group_template(mode=ALL))],
        "its policy is basic",
        (
            "Workload team-a/train",
            "spec.podGroupTemplates[0].disruptionMode",
            "the policy of template workers",
        ),
    ),
    case(
        "a gang goes all together",
        [
            pod_group(mode=ALL, min_count=2),
            workload(group_template(mode=ALL, min_count=2)),
            pod_group("basic"),
        ],
    ),
    case(
        "a composite template has no policy of its own here",
        [workload(group_template(mode=ALL, composite=True))],
    ),
)
CASES.add(
    "system-class-on-group",
    (GROUP, "spec.priorityClassName"),
    case(
        "a system class",
        [
            pod_group(class_name="system-node-critical"),
            workload(group_template(class_name="system-cluster-critical")),
        ],
        "refuses groups of class system-node-critical",
        (
            "Workload team-a/train",
            "spec.podGroupTemplates[0].priorityClassName",
            "refuses groups of template workers",
        ),
    ),
    case(
        "1.38 takes a system class",
        [
            pod_group(class_name="system-node-critical"),
            pod_group("own", class_name="system-node-critical", podium=True),
            workload(group_template(class_name="system-cluster-critical")),
        ],
        kubernetes="1.38",
    ),
    case("a user's class", [pod_group(class_name="gold"), workload(group_template(class_name="gold"))]),
)
CASES.add(
    "v1alpha2-removed",
    (GROUP, "apiVersion"),
    case(
        "v1alpha2 is gone in 1.37",
        [pod_group(version="v1alpha2"), workload(group_template(), version="v1alpha2"), pod_group("new")],
        "Kubernetes 1.37 does not serve scheduling.k8s.io/v1alpha2",
        ("Workload team-a/train", "apiVersion", "does not serve"),
    ),
    case("v1alpha2 is what 1.36 has", [pod_group(version="v1alpha2")], kubernetes="1.36"),
    case("Podium's v1alpha2 stays", [pod_group(version="v1alpha2", podium=True)]),
)
CASES.add(
    "template-priorities-differ",
    ("Workload team-a/train", "spec"),
    case(
        "templates of two classes",
        [
            workload(
                group_template("a", class_name="gold"),
                group_template("b", class_name="silver"),
                group_template("c", class_name="gold"),
            )
        ],
        "2 priorities: gold (a, c) and silver (b). Kubernetes 1.37 refuses",
    ),
    case(
        "nil and 0 are unlike, as upstream has it",
        [workload(group_template("a", priority=0), group_template("b"))],
        "Kubernetes 1.38 (beta) refuses the Workload",
        kubernetes="1.38",
    ),
    case(
        "1.36 accepts templates of two classes, Podium's own kind never does",
        [
            workload(group_template("a", class_name="gold"), group_template("b"), name="native"),
            workload(group_template("a", class_name="gold"), group_template("b"), podium=True),
        ],
        "Podium refuses the Workload",
        kubernetes="1.36",
    ),
    case(
        "templates of one priority",
        [
            workload(
                group_template("a", class_name="gold", priority=1),
                group_template("b", class_name="gold", priority=1),
            )
        ],
    ),
)
CASES.add(
    "policy-unlike-class",
    (GROUP, "spec.preemptionPolicy"),
    case(
        "another policy than the class has",
        [
            GOLD,
            pod_group(class_name="gold", policy="Never"),
            pod_group("without", policy="Never"),
            workload(group_template(class_name="gold", policy="Never")),
        ],
        "it is Never, and that of its class is PreemptLowerPriority.",
        (
            "Workload team-a/train",
            "spec.podGroupTemplates[0].preemptionPolicy",
            "Kubernetes 1.38 (beta) refuses to create the group.",
        ),
        ("PodGroup team-a/without", "spec.preemptionPolicy", "it is Never"),
        kubernetes="1.38",
    ),
    case(
        "the policy of the class, no policy, an unknown class, and a group of Podium's",
        [
            GOLD,
            pod_group("same", class_name="gold", policy="PreemptLowerPriority"),
            pod_group("none", class_name="gold"),
            pod_group("lost", class_name="lost", policy="Never"),
            pod_group("own", class_name="gold", policy="Never", podium=True),
        ],
        kubernetes="1.38",
    ),
    case("1.37 drops the field without its gate", [GOLD, pod_group(class_name="gold", policy="Never")]),
)
CASES.add(
    "template-policies-differ",
    ("Workload team-a/train", "spec"),
    case(
        "templates of two policies",
        [
            workload(
                group_template("a", policy="Never"), group_template("b"), group_template("c", policy="Never")
            )
        ],
        "its templates have 2 preemptionPolicies: Never (a, c) and none (b). Kubernetes 1.38 (beta) ",
        kubernetes="1.38",
    ),
    case(
        "one policy, and a Workload of Podium's",
        [
            workload(group_template("a", policy="Never"), group_template("b", policy="Never")),
            workload(group_template("a", policy="Never"), group_template("b"), podium=True),
        ],
        kubernetes="1.38",
    ),
    case(
        "1.37 does not compare policies", [workload(group_template("a", policy="Never"), group_template("b"))]
    ),
)
