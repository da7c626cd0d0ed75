"""The pages of the audit's rules and of the rules of admission, from their tables."""

from podium.audit.table import CHECKS
from podium.audit.table import RULES as AUDIT_RULES
from podium.rules import podiumrules
from podium.rules.table import ADMISSION_RULES

_INTRODUCTION = """\
A rule has one severity, unless a configuration sets another ([ci.md](ci.md)). If a kind that a rule
needs could not be read, the rule does not run, and the report says so. Absent or forbidden kinds never
count as empty ones. Live pods are those that have neither succeeded nor failed. A nil integer is 0.

The report is for one Kubernetes minor: that of `--kubernetes`, else the API server's, else the newest
kubelet's. A control plane is never older than its kubelets. An old kubelet decides only in a cluster's input.

A folder of manifests may have a few objects of a cluster, which have a UID. An object that the input lacks
`does not exist` only if a server has stored most objects of its kind. The object that names it, or most
namespaced objects, must be stored too. Otherwise it `is not in the input`, and rules that need all classes,
devices or nodes of a cluster say nothing.

It begins with the groups that will not be scheduled on that minor. From 1.36 on these are missing native
groups, gangs that are too large for the cluster, and groups whose pods name several schedulers. Gangs that
the nodes which reach their volumes cannot hold count too, and so do groups that no topology domain can hold.
From 1.37 on they are also groups whose pods have another priority, or disagree in preemptionPolicy, and gangs
that a shared claim keeps from minCount. All groups of a tree count if a pod of it has another priority than
the root. From 1.38 on they count also if the groups do not match. Podium's own groups count if they are
missing or too large, or if their claims keep them from minCount. They also count if no topology domain can
hold them.
A group counts with all its live pods and their devices (resources whose name has a domain, such as
`nvidia.com/gpu`). Running pods count too: they run until an eviction or a restart.

Pods that name no PodGroup form inferred groups, by their labels and owners. The sources are Job, JobSet,
LeaderWorkerSet (by replica), TrainJob, the training operator's jobs, Ray, Grove, Kueue, coscheduling,
KAI, Volcano and YuniKorn.
They have `source: inferred`, and the most frequent integer is the expected one."""


def audit_page() -> str:
    """Return docs/rules.md."""
    lines = [
        "# Audit rules",
        "",
        "Every rule of `podium audit`: severity, reason, inputs and source. The rule table generates this",
        "page: edit the rules, and run `make docs`. `podium explain RULE` prints one rule.",
        "",
        _INTRODUCTION,
        "",
        "| Rule | Severity | Finds |",
        "|---|---|---|",
        *(f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.title} |" for rule in AUDIT_RULES),
    ]
    for check in CHECKS:
        rule = check.rule
        needs = ", ".join(sorted(rule.needs)) or "no kind"
        also = f"; also looks at {', '.join(sorted(check.also))}" if check.also else ""
        parts = " or ".join(sorted(check.misled_by))
        limits = f" Not run where only {parts} was read." if parts else ""
        lines += [
            "",
            f"## {rule.id}",
            "",
            f"{rule.title} ({rule.severity}).",
            "",
            rule.why,
            "",
            f"Needs: {needs}{also}.{limits}",
            "",
            f"Source: {rule.source}.",
        ]
    return "\n".join(lines) + "\n"


# The heading at which the generated part of docs/admission-rules.md begins.
HEADING = "## The rules"


def admission_part() -> str:
    """Return the last part of docs/admission-rules.md."""
    lines = [
        HEADING,
        "",
        "Made from the rule table by `make docs`; edit the rules, not this part. Numbers",
        "such as G7 name a row of the list that upstream's behaviour was collected in; tests have them too.",
        "",
        "### Podium's own",
        "",
        "| Rule | Finds | Native kinds | Podium's kinds |",
        "|---|---|---|---|",
        *(
            f"| {rule.cause.rule.id} | {rule.cause.rule.title} | {rule.native} | {rule.podium} |"
            for rule in (*podiumrules.OWN_RULES, *podiumrules.CLASS_RULES)
        ),
        "",
        "### The API server's",
        "",
        "| Rule | Refuses | Why | Source |",
        "|---|---|---|---|",
        *(
            f"| {rule.id} | {rule.title} | {rule.why} | {rule.source} |"
            for rule in ADMISSION_RULES
            if rule not in podiumrules.RULES
        ),
    ]
    return "\n".join(lines) + "\n"
