"""Hand-made reports for the renderers: one with hostile names, one without findings, and a large one."""

import msgspec
from tests.support.render.cluster import node, pod, state

from podium.answers.audits.report import (
    AuditReport,
    AuditSummary,
    Blocked,
    BlockedShare,
    Compared,
    DivergentGroup,
    DivergentPod,
    FixShare,
    IgnoredFinding,
    IgnoreShare,
    IgnoreState,
    NotChecked,
    PriorityShare,
)
from podium.api.findings import Finding, ObjectRef, Severity
from podium.cli.render.context import Context, FindingLocation
from podium.cli.render.pictures.clustermap import cluster_map
from podium.rules.rule import Rule

# Texts that a file may hold although no API server would store them: a terminal escape, markup, a
# right-to-left override. Also a workflow command on its own line, characters that XML forbids, an emoji.
HOSTILE = "<script>alert(1)</script>'\"&\x1b[31m\u202egnp\n::error::owned%0A\x00\ufffe \U0001f600"

DIVERGENT = Rule(
    id="divergent-priority",
    severity=Severity.ERROR,
    title="Live pods have another priority than their group",
    why="The scheduler of 1.37 refuses such a group; the one of 1.36 silently takes the group's integer.",
    source="KEP-5710; kube-scheduler 1.37",
)
MISSING = Rule(
    id="group-missing",
    severity=Severity.ERROR,
    title="Pods name a group that does not exist",
    why="They wait until it is created.",
    source="kube-scheduler 1.36 and 1.37",
)
DEFAULTS = Rule(
    id="several-defaults",
    severity=Severity.WARNING,
    title="Several classes are the global default",
    why="Values and names decide which one a pod gets.",
    source="the Priority admission plugin",
)
UNUSED = Rule(
    id="class-unused",
    severity=Severity.INFO,
    title="No object uses a PriorityClass",
    why="A user may choose an unused class by mistake.",
    source="Podium",
)
BUDGETS = Rule(
    id="budget-blocks",
    severity=Severity.WARNING,
    title="A budget allows no disruption",
    why="Preemption passes over its pods as long as it can.",
    source="kube-scheduler",
)
CLEAN = Rule(
    id="template-class-missing",
    severity=Severity.WARNING,
    title="A template names a class that does not exist",
    why="Its pods will be refused.",
    source="the Priority admission plugin",
)
RULES = (DIVERGENT, MISSING, DEFAULTS, UNUSED, BUDGETS, CLEAN)

GROUP_VERSION = "scheduling.k8s.io/v1beta1"


def _divergent(namespace: str, name: str, message: str) -> Finding:
    ref = ObjectRef(GROUP_VERSION, "PodGroup", namespace, name)
    return DIVERGENT.finding(
        ref, "spec.priority", message, "Recreate the pods from a template with class gold."
    )


def sick() -> AuditReport:
    """Return a report with every part filled, lists that the table cuts, and hostile names everywhere."""
    findings = [
        _divergent(
            "team-a",
            "train",
            "2 of 8 live pods have another priority than the group's 1000: 0 (train-3, train-4).",
        ),
        *(
            _divergent(
                "team-b",
                f"sweep-{n}",
                f"1 of 4 live pods has another priority than the group's 500: 0 (sweep-{n}-0).",
            )
            for n in range(7)
        ),
        MISSING.finding(
            ObjectRef("v1", "Pod", "team-c", HOSTILE),
            "spec.schedulingGroup.podGroupName",
            f"names the group {HOSTILE}, which does not exist.",
            f"Create PodGroup team-c/{HOSTILE}, or take the field out.",
        ),
        DEFAULTS.finding(
            ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", "batch"),
            "globalDefault",
            "batch (100) and standard (200) are both the global default; pods without a class get 100.",
            "kubectl patch priorityclass batch --type=merge -p '{\"globalDefault\": false}'",
        ),
        UNUSED.finding(
            ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", "bronze"),
            "",
            "no pod, group or template uses it.",
            "kubectl delete priorityclass bronze",
        ),
    ]
    groups = [
        DivergentGroup(
            apiVersion=GROUP_VERSION,
            namespace="team-a",
            name="train",
            source="PodGroup",
            priority=1000,
            members=8,
            divergent=[DivergentPod("train-3", 0, "worker"), DivergentPod("train-4", 0, "worker")],
        ),
        *(
            DivergentGroup(
                apiVersion=GROUP_VERSION,
                namespace="team-b",
                name=f"sweep-{n}",
                source="PodGroup",
                priority=500,
                members=4,
                divergent=[DivergentPod(f"sweep-{n}-0", 0)],
            )
            for n in range(22)
        ),
        DivergentGroup(
            apiVersion="batch/v1",
            namespace="team-c",
            name=HOSTILE,
            source="inferred",
            priority=-5,
            members=1200,
            divergent=[DivergentPod(f"{HOSTILE}-{n}", 1000, "leader") for n in range(60)]
            + [DivergentPod("last", 7)],
        ),
    ]
    summary = AuditSummary(
        kubernetes="1.37",
        chosenBy="the newest kubelet of 12 nodes",
        errors=9,
        warnings=1,
        infos=1,
        objects={"Pod": 4012, "PodGroup": 120, "Node": 12, "PriorityClass": 6},
        skipped={"ConfigMap": 14, HOSTILE: 1},
        notChecked=[NotChecked("Node", "forbidden: list nodes", [BUDGETS.id])],
        blocked=Blocked(24, 1296, {"nvidia.com/gpu": 512, "amd.com/gpu": 256}),
        blockedByNamespace=[
            BlockedShare("team-c", Blocked(1, 1200, {"amd.com/gpu": 256})),
            BlockedShare("team-b", Blocked(22, 88, {"nvidia.com/gpu": 448})),
            BlockedShare("team-a", Blocked(1, 8, {"nvidia.com/gpu": 64})),
        ],
        blockedByOwner=[
            BlockedShare(f"Job team-c/{HOSTILE}", Blocked(1, 1200, {"amd.com/gpu": 256})),
            BlockedShare("JobSet team-b/sweep", Blocked(22, 88, {"nvidia.com/gpu": 448})),
            *(BlockedShare(f"Job team-a/part-{n}", Blocked(0, 1, {})) for n in range(8)),
        ],
        priorities=[
            PriorityShare(2000001000, ["system-node-critical"], 24),
            PriorityShare(1000, ["gold", HOSTILE], 1268),
            PriorityShare(500, ["silver"], 66),
            PriorityShare(0, [], 2654),
        ],
        fixes=[
            FixShare("Recreate the pods from a template with class gold.", DIVERGENT.id, 8),
            FixShare(f"Create PodGroup team-c/{HOSTILE}, or take the field out.", MISSING.id, 1),
        ],
    )
    return AuditReport(summary=summary, findings=findings, groups=groups)


def clean() -> AuditReport:
    """Return the report of a cluster without findings."""
    summary = AuditSummary(
        kubernetes="1.37",
        chosenBy="--kubernetes",
        errors=0,
        warnings=0,
        infos=0,
        objects={"Node": 1, "Pod": 1},
        skipped={},
        notChecked=[],
        blocked=Blocked(0, 0, {}),
        blockedByNamespace=[],
        blockedByOwner=[],
        priorities=[PriorityShare(0, [], 1)],
        fixes=[],
    )
    return AuditReport(summary=summary, findings=[], groups=[])


def triaged() -> AuditReport:
    """Return a report whose findings mostly do not count: known, fixed since the baseline, or ignored."""
    whole = sick()
    new, known, ignored = whole.findings[:1], whole.findings[1:9], whole.findings[9:]
    reasons = [(f"agreed {HOSTILE}", "2026-12-31"), ("for ever", "")]
    held = [
        IgnoredFinding(**msgspec.structs.asdict(each), reason=reason, expires=until)
        for each, (reason, until) in zip(ignored, reasons, strict=True)
    ]
    ignores = [
        (DEFAULTS.id, [], f"agreed {HOSTILE}", "2026-12-31", IgnoreState.ACTIVE, 1),
        (UNUSED.id, [HOSTILE, "bronze"], "for ever", "", IgnoreState.ACTIVE, 1),
        (DIVERGENT.id, ["team-a/*", "team-x/*"], "until the migration", "2025-12-31", IgnoreState.EXPIRED, 1),
        (MISSING.id, ["nowhere/*"], "a test", "", IgnoreState.UNUSED, 0),
        (BUDGETS.id, [], "nodes are not read", "", IgnoreState.NOT_CHECKED, 0),
    ]
    summary = msgspec.structs.replace(
        whole.summary,
        errors=1,
        warnings=0,
        infos=0,
        fixes=whole.summary.fixes[:1],
        ignored=len(held),
        ignores=[
            IgnoreShare(rule=a, objects=b, reason=c, expires=d, state=e, findings=f)
            for a, b, c, d, e, f in ignores
        ],
        baseline=Compared(
            name="audit/baseline.json",
            kubernetes="1.36",
            known=len(known),
            gone=1,
            notLookedFor=2,
            newlyChecked=[DIVERGENT.id],
        ),
    )
    gone = [_divergent("team-z", HOSTILE, "1 of 4 live pods has another priority than the group's 500.")]
    return AuditReport(
        summary=summary, findings=new, groups=whole.groups[:1], known=known, ignored=held, gone=gone
    )


def large(number: int) -> AuditReport:
    """Return a report with this many findings over all rules, and half as many divergent groups."""
    findings = sorted(
        (
            RULES[n % len(RULES)].finding(
                ObjectRef(GROUP_VERSION, "PodGroup", f"team-{n % 50}", f"train-{n}"),
                "spec.priority",
                f"2 of 8 live pods have another priority than the group: 0 (train-{n}-3, train-{n}-4).",
                "Recreate the pods from a template with class gold.",
            )
            for n in range(number)
        ),
        key=lambda finding: finding.sort_key,
    )
    groups = [
        DivergentGroup(
            apiVersion=GROUP_VERSION,
            namespace=f"team-{n % 50}",
            name=f"train-{n}",
            source="PodGroup",
            priority=1000,
            members=8,
            divergent=[DivergentPod(f"train-{n}-3", 0), DivergentPod(f"train-{n}-4", 0)],
        )
        for n in range(number // 2)
    ]
    sick_summary = sick().summary
    return AuditReport(summary=sick_summary, findings=findings, groups=groups)


def place(finding: Finding) -> FindingLocation | None:
    """Place divergent groups in a file whose name needs every escape, missing ones in the file as a whole."""
    lines = {DIVERGENT.id: 12, MISSING.id: None}
    return FindingLocation("dumps/week 7,a:b%.json", lines[finding.rule]) if finding.rule in lines else None


def context(*, width: int = 100, colour: bool = False) -> Context:
    """Return a fixed context, so that the output is the same everywhere."""
    return Context(
        rules=RULES,
        input="cluster.json",
        place=place,
        version="0.1.0",
        made="2026-01-02T03:04:05Z",
        width=width,
        colour=colour,
        cluster=cluster_map(
            state(
                [
                    node("node-1"),
                    node("node-2", cordoned=True),
                    pod("a", "node-1", 1000, gpu=4),
                    pod("b", "node-1", 100, gpu=2, leaves=True),
                ]
            )
        ),
    )
