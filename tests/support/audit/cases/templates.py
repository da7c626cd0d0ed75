"""Cases for the rules about pod templates."""

from tests.support.audit.builders import group_template, owner, stored, workload
from tests.support.audit.cases.case import GOLD, SYSTEM, Case

CASES = [
    Case(
        "a class that is not there",
        "template-class-missing",
        stored(
            GOLD,
            owner(class_name="nope", path="spec.replicatedJobs[1].template.spec.template"),
            workload(group_template(class_name="nope")),
        ),
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
        "a class that manifests lack",
        "template-class-missing",
        [
            GOLD,
            SYSTEM,
            owner(class_name="nope", path="spec.replicatedJobs[1].template.spec.template"),
            workload(group_template(class_name="nope")),
        ],
        [
            (
                "Job team-a/train",
                "spec.replicatedJobs[1].template.spec.template.spec.priorityClassName",
                "PriorityClass nope is not in the input. If it does not exist in the cluster",
            ),
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[0].priorityClassName",
                "PriorityClass nope is not in the input. If it does not exist in the cluster",
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
        [("Job team-a/train", "spec.template.spec.priority", "priority 0 is set explicitly")],
    ),
    Case("no number in a template", "template-priority-written", [owner(class_name="gold")]),
    Case(
        "templates of groups with a priority and without its class",
        "template-priority-unresolved",
        [
            GOLD,
            workload(
                group_template(priority=500),
                group_template("fast", class_name="gold", priority=7),
                group_template("slow", priority=1000),
            ),
        ],
        [
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[0].priority",
                "priority 500 is set, but it names no class, which gives 0. Groups of template workers have",
            ),
            (
                "Workload team-a/train",
                "spec.podGroupTemplates[1].priority",
                "priority 7 is set, but class gold has 1000. Groups of template fast have priority 1000, or",
            ),
            ("Workload team-a/train", "spec.podGroupTemplates[2].priority", "priority 1000 is set"),
        ],
    ),
    Case(
        "templates of groups with the priority of their class",
        "template-priority-unresolved",
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
]
