"""Cases for the rules about pod templates."""

from tests.support.audit.builders import group_template, owner, stored, workload
from tests.support.audit.cases.case import GOLD, SYSTEM, Table, case

CASES = Table()
CASES.add(
    "template-class-missing",
    ("Job team-a/train", "spec.replicatedJobs[1].template.spec.template.spec.priorityClassName"),
    case(
        "a class that is not there",
        stored(
            GOLD,
            owner(class_name="nope", path="spec.replicatedJobs[1].template.spec.template"),
            workload(group_template(class_name="nope")),
        ),
        "PriorityClass nope does not exist",
        (
            "Workload team-a/train",
            "spec.podGroupTemplates[0].priorityClassName",
            "PriorityClass nope does not exist",
        ),
    ),
    case(
        "a class that manifests lack",
        [
            GOLD,
            SYSTEM,
            owner(class_name="nope", path="spec.replicatedJobs[1].template.spec.template"),
            workload(group_template(class_name="nope")),
        ],
        "PriorityClass nope is not in the input. If it does not exist in the cluster",
        (
            "Workload team-a/train",
            "spec.podGroupTemplates[0].priorityClassName",
            "PriorityClass nope is not in the input. If it does not exist in the cluster",
        ),
    ),
    case(
        "classes that are there",
        [
            GOLD,
            owner(class_name="gold"),
            owner("CronJob", "c", class_name="system-node-critical"),
            owner("Job", "none"),
            workload(group_template(class_name="gold")),
        ],
    ),
    case(
        "a ReplicaSet repeats its Deployment",
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
        ("Deployment team-a/web", "spec.template.spec.priorityClassName", "nope"),
    ),
    case(
        "a ReplicaSet whose Deployment is not in sight",
        [
            owner(
                "ReplicaSet",
                "web-1",
                api_version="apps/v1",
                class_name="nope",
                made_by=("apps/v1", "Deployment", "web"),
            )
        ],
        ("ReplicaSet team-a/web-1", "spec.template.spec.priorityClassName", "nope"),
    ),
)
CASES.add(
    "template-priority-written",
    ("Job team-a/train", "spec.template.spec.priority"),
    case(
        "a number in a template",
        [owner(priority=0), owner("Job", "clean", class_name="gold")],
        "priority 0 is set explicitly",
    ),
    case("no number in a template", [owner(class_name="gold")]),
)
CASES.add(
    "template-priority-unresolved",
    ("Workload team-a/train", "spec.podGroupTemplates[0].priority"),
    case(
        "templates of groups with a priority and without its class",
        [
            GOLD,
            workload(
                group_template(priority=500),
                group_template("fast", class_name="gold", priority=7),
                group_template("slow", priority=1000),
            ),
        ],
        "priority 500 is set, but it names no class, which gives 0. Groups of template workers have",
        (
            "Workload team-a/train",
            "spec.podGroupTemplates[1].priority",
            "priority 7 is set, but class gold has 1000. Groups of template fast have priority 1000, or",
        ),
        ("Workload team-a/train", "spec.podGroupTemplates[2].priority", "priority 1000 is set"),
    ),
    case(
        "templates of groups with the priority of their class",
        [
            GOLD,
            workload(
                group_template(class_name="gold", priority=1000),
                group_template("zero", priority=0),
                group_template("unset"),
                group_template("unknown", class_name="nope", priority=3),
            ),
        ],
    ),
)
