"""`podium whatif` from its arguments to its exit code, on small files and on a real server."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.calling import Podium, calling
from tests.support.connection.cluster import READ_ONLY, create, create_class, kubeconfig_of
from tests.support.servers import Server, exclusive
from tools.devcluster.controlplane.releases import RELEASES

FORMATS = ("table", "json", "yaml", "html")
EXAMPLES = Path(__file__).parents[4] / "examples"

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1, creationTimestamp: "2026-11-21T08:00:00Z"}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}, nodeInfo: {kubeletVersion: v1.37.0}}
"""


def pod(
    name: str, cpu: int = 1, priority: int = 0, node: str = "", *, namespace: str = "a", extra: str = ""
) -> str:
    """Make a pod; a pod with a node is running."""
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: a, uid: uid-of-{len(name)}-{priority}}}
spec:
  priority: {priority}
  containers: [{{name: main, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
{f"  nodeName: {node}" if node else ""}
{extra}
"""


LOW = pod("low", 3, node="n1")
CLUSTER = NODE + LOW + pod("small") + pod("high", 3, 5) + pod("huge", 9, 9)
GROUP = """\
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: ring, namespace: a}
spec:
  schedulingPolicy: {gang: {minCount: 1}}
  priority: 7
"""
MEMBER = pod("ring-0", 2, 7, extra="  schedulingGroup: {podGroupName: ring}")


@pytest.fixture
def podium(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Podium:
    """Call `podium whatif` in an empty folder."""
    return calling("whatif", monkeypatch, tmp_path)


def file(text: str, name: str = "cluster.yaml") -> str:
    Path(name).write_text(text, "utf-8")
    return name


# --- exit codes -------------------------------------------------------------------------------------------

CODES: dict[str, tuple[list[str], int]] = {
    "fits": (["--pod", "a/small"], 0),
    "fits after preemption": (["--pod", "a/high"], 0),
    "as many victims as allowed": (["--pod", "a/high", "--max-victims", "1"], 0),
    "more victims than allowed": (["--pod", "a/high", "--max-victims", "0"], 3),
    "does not fit": (["--pod", "a/huge"], 3),
    "a pod that does not exist": (["--pod", "a/nobody"], 1),
    "wrong usage": (["--pod", "a/high", "--group", "a/high"], 2),
    "the other direction": (["--victim", "a/low"], 0),
}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize(("arguments", "code"), CODES.values(), ids=list(CODES))
def test_exit_code_is_the_same_in_every_format(
    podium: Podium, arguments: Sequence[str], code: int, output: str
) -> None:
    """The exit code is 0 if it fits, 3 if not or with too many victims, 2 for usage, 1 for failures."""
    run = podium("-f", file(CLUSTER), *arguments, "-o", output)
    assert run.code == code
    assert bool(run.stdout) == (code in (0, 3))


def test_too_many_victims_are_said(podium: Podium) -> None:
    """The report is written in full, and stderr explains the exit code 3."""
    run = podium("-f", file(CLUSTER), "--pod", "a/high", "--max-victims", "0", "-o", "json")
    assert run.json["outcome"] == "FitsAfterPreemption"
    assert run.stderr.endswith("podium: 1 pod would be preempted, more than --max-victims 0\n")


def test_output_file_gets_what_standard_output_would(podium: Podium) -> None:
    """With --output-file stdout stays empty."""
    cluster = file(CLUSTER)
    direct = podium("-f", cluster, "--pod", "a/high", "-o", "json")
    run = podium("-f", cluster, "--pod", "a/high", "-o", "json", "--output-file", "plan.json")
    assert run.stdout == ""
    assert Path("plan.json").read_text("utf-8") == direct.stdout


# --- defaults -------------------------------------------------------------------------------------------

INFO = "---\napiVersion: cli.podium.dev/v1\nkind: ClusterInfo\nscheduling: true\nserver: {version}\n"
OLDER, NEWER = (INFO.format(version=version) for version in ("v1.36.3", "v1.41.2"))
CLOSED = INFO.format(version="v1.37.0") + "unread: {PodGroup: not served by this cluster}\n"
PODIUM = pod("ours", extra="  schedulerName: podium-scheduler")
RULES: dict[str, tuple[str, list[str], str, str]] = {
    "asked for": (CLUSTER, ["--semantics", "kep"], "kep", "set by --semantics"),
    "podium-scheduler": (
        CLUSTER + GROUP + PODIUM,
        ["--pod", "a/ours"],
        "kep",
        "its scheduler is podium-scheduler",
    ),
    "groups, by kubelet": (CLUSTER + GROUP, [], "1.37", "the newest kubelet of 1 node"),
    "groups, by server": (
        CLUSTER + GROUP + INFO.format(version="v1.36.3"),
        [],
        "1.36",
        "the API server is v1.36.3",
    ),
    "a newer server": (
        CLUSTER + GROUP + INFO.format(version="v1.41.2"),
        [],
        "1.38",
        "the API server is v1.41.2; 1.38 is the nearest known minor",
    ),
    "no groups": (CLUSTER, [], "pods", "no object of the Workload API in the input"),
    "a dump of a closed cluster": (
        CLUSTER + CLOSED,
        [],
        "pods",
        "the cluster of the dump does not serve the Workload API",
    ),
}


@pytest.mark.parametrize(("text", "arguments", "semantics", "why"), RULES.values(), ids=list(RULES))
def test_the_rules_follow_the_scheduler_of_the_pods(
    podium: Podium, text: str, arguments: Sequence[str], semantics: str, why: str
) -> None:
    """Pods of Podium's scheduler are planned by the spec, others by their release; the report explains it."""
    target = () if "--pod" in arguments else ("--pod", "a/high")
    run = podium("-f", file(text), *target, *arguments, "-o", "json")
    assert run.json["semantics"] == semantics
    assert f"podium: semantics {semantics} ({why})\n" in run.stderr
    table = podium("-f", file(text), *target, *arguments).stdout.replace("\n", " ")
    assert f"(semantics {semantics}: {why})" in table[:300]


TIMES: dict[str, tuple[str, list[str], str]] = {
    "as asked": (
        CLUSTER,
        ["--now", "2026-01-31T12:00:00+01:00"],
        "2026-01-31T11:00:00Z (set by --now)",
    ),
    "the newest in a dump": (CLUSTER, [], "2026-11-21T08:00:00Z (the newest time in the input)"),
    "a condition's": (
        CLUSTER
        + pod("late", node="n1")
        + "status: {startTime: 2026-11-21T08:30:00Z, conditions: "
        + "[{type: Ready, status: 'True', lastTransitionTime: '2026-11-21T09:30:00Z'}]}\n",
        [],
        "2026-11-21T09:30:00Z (the newest time in the input)",
    ),
    # kubernetes/kubernetes#95752: else a victim in a file is never overdue.
    "an event's": (
        CLUSTER
        + "---\napiVersion: v1\nkind: Event\nmetadata: {name: x.1, namespace: a}\n"
        + "firstTimestamp: '2026-11-21T08:30:00Z'\nlastTimestamp: '2026-11-21T09:30:00Z'\n",
        [],
        "2026-11-21T09:30:00Z (the newest time in the input)",
    ),
    "an event that does not decode": (
        CLUSTER + "---\napiVersion: v1\nkind: Event\nmetadata: {name: x.1}\nlastTimestamp: {}\n",
        [],
        "2026-11-21T08:00:00Z (the newest time in the input)",
    ),
    "the begin of a deletion": (
        CLUSTER
        + pod("late", node="n1").replace(
            "metadata: {",
            "metadata: {deletionTimestamp: '2026-11-21T09:30:30Z', deletionGracePeriodSeconds: 30, ",
        ),
        [],
        "2026-11-21T09:30:00Z (the newest time in the input)",
    ),
    "a node's condition": (
        CLUSTER
        + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n9}\nstatus: {conditions: "
        + "[{type: Ready, status: Unknown, lastTransitionTime: '2026-11-21T09:30:00Z'}]}\n",
        [],
        "2026-11-21T09:30:00Z (the newest time in the input)",
    ),
    "none that is one": (
        CLUSTER.replace("2026-11-21T08:00:00Z", "2026-13-41T08:00:00Z"),
        [],
        "Z (now, because the input has no time)",
    ),
}


@pytest.mark.parametrize(("text", "arguments", "expected"), TIMES.values(), ids=list(TIMES))
def test_time_of_the_plan(podium: Podium, text: str, arguments: Sequence[str], expected: str) -> None:
    """The time is the newest of the dump, or a given time; the report names it."""
    table = podium("-f", file(text), "--pod", "a/high", *arguments).stdout
    assert expected in table.replace("\n", " ")


def test_added_objects_are_planned_for(podium: Podium) -> None:
    """A single target of --add needs no name; its objects are planned together with the cluster's."""
    gold = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 7\n"
    named = [
        text.replace("priority: 7", "priority: 7\n  priorityClassName: gold") for text in (GROUP, MEMBER)
    ]
    added = file(gold + "".join(named), "add.yaml")
    run = podium("-f", file(CLUSTER), "--add", added, "-o", "json")
    assert run.code == 0, run.stderr
    assert [each["pod"] for each in run.json["placements"]] == ["a/ring-0"]
    assert [unit["name"] for unit in run.json["victims"]] == ["low"]
    assert run.json["semantics"] == "1.37"


def test_a_plan_without_a_name_lists_pending_groups_and_pods(podium: Podium) -> None:
    """The message names a few pending groups and pods, and no running ones."""
    cluster = file(NODE + LOW + GROUP + MEMBER + "".join(pod(f"wait-{each}") for each in range(9)))
    run = podium("-f", cluster)
    assert run.code == 2
    assert run.stderr == (
        "podium: no target: use --pod or --group, or -A for all; pending groups: a/ring; "
        "pending pods: a/wait-0, a/wait-1, a/wait-2, a/wait-3, a/wait-4 and 4 more\n"
    )


def test_all_that_add_brings_is_planned(podium: Podium) -> None:
    """Pods are planned one after another, and --pod chooses one of them."""
    added = file(pod("one") + pod("two"), "add.yaml")
    run = podium("-f", file(NODE), "--add", added, "-o", "json")
    assert run.code == 0
    assert [each["pod"] for each in run.json["placements"]] == ["a/one", "a/two"]
    assert [each["name"] for each in run.json["workloads"]] == ["one", "two"]
    run = podium("-f", "cluster.yaml", "--add", added, "--pod", "a/two", "-o", "json")
    assert (run.code, [each["pod"] for each in run.json["placements"]]) == (0, ["a/two"])
    assert run.json["workloads"] == []


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (pod("one", 1, 7, extra="  priorityClassName: gold"), {"withoutPreemption": 1, "withPreemption": 4}),
        (pod("one"), {"withoutPreemption": 1, "withPreemption": 1}),
        (pod("one", 9), {"withoutPreemption": 0, "withPreemption": 0}),
    ],
    ids=["with a victim", "without a victim", "none"],
)
def test_the_largest_number_of_replicas_is_found(podium: Podium, text: str, most: dict[str, int]) -> None:
    """The plan of that number, or of one that does not fit, is in the same report."""
    gold = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 7\n"
    added = file(gold + text, "add.yaml")
    run = podium("-f", file(NODE + LOW), "--add", added, "--max", "-o", "json")
    assert run.json["replicas"] == most
    assert (run.code, len(run.json["placements"])) == (0 if any(most.values()) else 3, most["withPreemption"])
    run = podium("-f", "cluster.yaml", "--add", added, "--replicas", "5", "-o", "json")
    assert (run.code, run.json["replicas"]) == (3, None)


DEPLOYMENT = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold}
value: 7
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: gold
      containers: [{name: main, image: web, resources: {requests: {cpu: "3"}}}]
"""


@pytest.mark.parametrize(("replicas", "shared"), [(64, True), (2, False)])
def test_a_plan_that_pods_share_is_marked(podium: Podium, replicas: int, shared: bool) -> None:
    """The scheduler takes equal pods one by one, so its victims may differ from those of one plan for all."""
    nodes = [
        f"---\n{NODE}".replace("n1", f"n{at}") + pod(f"low-{at}", 3, node=f"n{at}") for at in range(replicas)
    ]
    added = file(DEPLOYMENT, "add.yaml")
    options = ("--semantics", "kep", "--replicas", str(replicas), "-o", "json")
    run = podium("-f", file("".join(nodes)), "--add", added, *options)
    assert (run.code, len(run.json["victims"])) == (0, replicas)
    assert ("equal pods planned at once" in run.json["message"]) == shared


LATER = """\
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: later, namespace: a}
spec: {schedule: "0 0 * * *", jobTemplate: {spec: {template: {spec: {containers: [{name: main}]}}}}}
"""


@pytest.mark.parametrize(
    ("text", "code", "outcome"),
    [(pod("tiny"), 4, "NotJudged"), (pod("big", 9), 3, "DoesNotFit")],
    ids=["the others fit", "another does not fit"],
)
def test_an_object_without_a_plan_is_not_judged(podium: Podium, text: str, code: int, outcome: str) -> None:
    """The plan has a row for it with the reason. An object that does not fit decides the exit code."""
    given = ("-f", file(CLUSTER), "--add", file(LATER + text, "add.yaml"))
    run = podium(*given, "-o", "json")
    report = json.loads(run.stdout)
    assert (run.code, report["outcome"]) == (code, outcome)
    row = report["workloads"][-1]
    assert (row["kind"], row["outcome"], row["pods"]) == ("CronJob", "NotJudged", 0)
    problem = "add.yaml, document 1, line 5: spec.jobTemplate: creates its Jobs later. Add the Job instead"
    assert row["message"] == problem
    assert problem in podium(*given, "-o", "html").stdout.replace("\n", " ")
    run = podium(*given, "--strict")
    assert (run.code, run.stderr) == (1, f"podium: {problem}\n")


@pytest.mark.parametrize("name", ["ring", "a/ring"])
def test_a_group_of_another_project_has_no_plan(podium: Podium, name: str) -> None:
    group = """\
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: ring, namespace: a}
spec: {minMember: 2}
"""
    run = podium("-f", file(CLUSTER + group), "--group", name)
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.startswith("podium: PodGroup a/ring is of Volcano, whose groups have no plan. ")


def test_a_folder_is_added_as_other_input_is_read(podium: Podium) -> None:
    """-R reads its subfolders, the last of two equal objects counts, and --strict refuses duplicates."""
    Path("add/deep").mkdir(parents=True)
    file(pod("twin"), "add/a.yaml")
    file(pod("twin", 9), "add/b.yaml")
    file(pod("deep"), "add/deep/c.yaml")
    given = ("-f", file(CLUSTER), "--add", "add", "-o", "json")
    run = podium(*given)
    assert (run.code, json.loads(run.stdout)["workloads"]) == (3, [])
    assert (
        "in the input twice, the last one counts: Pod a/twin (add/a.yaml, document 1; add/b.yaml"
        in run.stderr
    )
    rows = json.loads(podium(*given, "-R").stdout)["workloads"]
    assert sorted(row["name"] for row in rows) == ["deep", "twin"]
    run = podium(*given, "--strict")
    assert run.code == 1
    assert "Pod a/twin is in the input twice" in run.stderr


@pytest.mark.parametrize(
    "options", [("--replicas", "2"), ("--max",), ("--add", "a.yaml", "--max", "--replicas", "2")]
)
def test_numbers_of_replicas_need_one_file(podium: Podium, options: tuple[str, ...]) -> None:
    assert podium("-f", file(NODE), *options).code == 2


def test_a_pod_and_a_group_of_one_name_want_a_kind(podium: Podium) -> None:
    """--victim finds the object by its name; --kind chooses between a pod and a group."""
    member = pod("ring", 1, 7, "n1", extra="  schedulingGroup: {podGroupName: ring}")
    cluster = file(NODE + GROUP + member)
    assert podium("-f", cluster, "--victim", "a/ring").code == 2
    for kind in ("pod", "group"):
        run = podium("-f", cluster, "--victim", "a/ring", "--kind", kind, "-o", "json")
        assert run.json["unit"]["name"] == "ring"


def test_configuration_counts(podium: Podium) -> None:
    """The engine uses the settings of the file: victims of another scheduler are excluded."""
    config = "apiVersion: config.podium.dev/v1\nkind: WhatIfConfiguration\nevictOnly: podium-scheduler\n"
    run = podium(
        "-f", file(CLUSTER), "--pod", "a/high", "--config", file(config, "config.yaml"), "-o", "json"
    )
    assert (run.code, run.json["victims"]) == (3, [])
    (unit,) = run.json["spared"]
    assert "only pods of podium-scheduler are evicted" in unit["reason"]


# --- bad input --------------------------------------------------------------------------------------------

CONFIG = "apiVersion: config.podium.dev/v1\nkind: WhatIfConfiguration\n"
PARTIAL = NODE + INFO.format(version="v1.37.0") + "namespace: a\n"
OLD = CLUSTER + "---\napiVersion: cli.podium.dev/v1\nkind: ClusterInfo\nserver: v1.37.0\n"
BAD: dict[str, tuple[dict[str, str], list[str], int, str]] = {
    "no such file": ({}, ["-f", "none.yaml"], 1, "none.yaml: read failed"),
    "no nodes": ({"c.yaml": LOW}, ["-f", "c.yaml"], 2, "the input has no nodes"),
    "a part of a cluster": ({"c.yaml": PARTIAL}, ["-f", "c.yaml"], 1, "a plan needs all pods of the cluster"),
    "a dump without constraints": ({"c.yaml": OLD}, ["-f", "c.yaml"], 1, "a plan needs every"),
    "no such group": (
        {"c.yaml": CLUSTER},
        ["-f", "c.yaml", "--group", "a/x"],
        1,
        "PodGroup a/x not found (PodGroup: not in the input); pending pods: ",
    ),
    "no such group among others": (
        {"c.yaml": CLUSTER + GROUP},
        ["-f", "c.yaml", "--group", "a/x"],
        1,
        "PodGroup a/x not found; pending pods: ",
    ),
    "a group that only its pods name": (
        {"c.yaml": NODE + MEMBER},
        ["-f", "c.yaml", "--group", "a/ring"],
        1,
        "PodGroup a/ring not found (PodGroup: not in the input); add podgroups to",
    ),
    "a pod of a group that was not read": (
        {"c.yaml": NODE + MEMBER},
        ["-f", "c.yaml", "--pod", "a/ring-0"],
        1,
        "Pod a/ring-0 is in a group, but PodGroup a/ring not found (PodGroup: not in",
    ),
    "a pod that runs": (
        {"c.yaml": CLUSTER},
        ["-f", "c.yaml", "--pod", "a/low"],
        1,
        "runs on node n1 already",
    ),
    "no victim": (
        {"c.yaml": CLUSTER},
        ["-f", "c.yaml", "--victim", "a/x"],
        1,
        "pod or PodGroup a/x not found (PodGroup: not in the input)",
    ),
    "a time that is none": (
        {"c.yaml": CLUSTER},
        ["-f", "c.yaml", "--pod", "a/high", "--now", "soon"],
        2,
        "is not a time, such as",
    ),
    "a time in no year": (
        {"c.yaml": CLUSTER},
        ["-f", "c.yaml", "--pod", "a/high", "--now", "0001-01-01T00:00:00+14:00"],
        2,
        "is not a time, such as",
    ),
    "an unknown key": (
        {"c.yaml": CLUSTER, "k.yaml": CONFIG + "budget: strict\n"},
        ["-f", "c.yaml", "--pod", "a/high", "--config", "k.yaml"],
        1,
        "k.yaml, document 1, line 3: budget: Extra inputs are not permitted",
    ),
    "a wrong value": (
        {"c.yaml": CLUSTER, "k.yaml": CONFIG + "budgets: never\n"},
        ["-f", "c.yaml", "--pod", "a/high", "--config", "k.yaml"],
        1,
        "budgets: Input should be 'best-effort' or 'strict'",
    ),
    "--add of an object without pods": (
        {"c.yaml": NODE, "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"},
        ["-f", "c.yaml", "--add", "a.yaml"],
        2,
        "no target among the objects of a.yaml: none is or creates a pending pod or group",
    ),
    "--kind alone": ({"c.yaml": CLUSTER}, ["-f", "c.yaml", "--kind", "pod"], 2, "--kind needs --victim"),
    "a context with files": ({"c.yaml": CLUSTER}, ["-f", "c.yaml", "--context", "x"], 2, "-f reads files"),
    "stdin twice": ({}, ["-f", "-", "--add", "-"], 2, "is given twice"),
    "another's preemptor": (
        {"c.yaml": CLUSTER},
        ["-f", "c.yaml", "--pod", "a/high", "--tenant", "b"],
        2,
        "is not in namespace b, which --tenant names",
    ),
    "another's victim": (
        {"c.yaml": CLUSTER},
        ["-f", "c.yaml", "--victim", "a/low", "--tenant", "b"],
        2,
        "is not in namespace b, which --tenant names",
    ),
}


# Notes on stderr of successful runs too.
NOTES = ("podium: semantics", "podium: skipped")


@pytest.mark.parametrize(("files", "arguments", "code", "expected"), BAD.values(), ids=list(BAD))
def test_bad_input_is_named(
    podium: Podium, files: dict[str, str], arguments: Sequence[str], code: int, expected: str
) -> None:
    """The error is one line with the fault, its place and the remedy; no output, and no traceback."""
    for name, text in files.items():
        file(text, name)
    run = podium(*arguments)
    assert (run.code, run.stdout) == (code, "")
    assert expected in run.stderr
    assert "Traceback" not in run.stderr
    errors = [line for line in run.stderr.splitlines() if not line.startswith(NOTES)]
    assert code == 2 or len(errors) == 1


def test_missing_budgets_and_classes_are_reported(podium: Podium) -> None:
    """A plan without budgets and classes notes their absence."""
    table = podium("-f", file(CLUSTER), "--pod", "a/high").stdout.replace("\n", " ")
    assert "Not read and left out:" in table
    assert "PodDisruptionBudget: not in the input" in table


# --- the examples -----------------------------------------------------------------------------------------


def test_example_is_a_gang_that_preempts_a_gang(podium: Podium) -> None:
    """The whole sweep is evicted, the other group's members one by one; the notebook is spared."""
    run = podium("-f", str(EXAMPLES / "preemption/cluster.yaml"), "--group", "research/train", "-o", "json")
    assert run.code == 0
    assert (run.json["semantics"], run.json["minimalPriority"]) == ("kep", 100)
    taken = [(unit["kind"], unit["namespace"], unit["name"]) for unit in run.json["victims"]]
    assert taken == [
        ("PodGroup", "team-b", "sweep"),
        ("Pod", "team-c", "tune-0"),
        ("Pod", "team-c", "tune-1"),
    ]


def test_example_adds_a_job(podium: Podium) -> None:
    """The Job is expanded to its pods and their group, which is the target without a name."""
    cluster, job = (str(EXAMPLES / "preemption" / name) for name in ("cluster.yaml", "urgent.yaml"))
    run = podium("-f", cluster, "--add", job, "--max-victims", "2", "-o", "json")
    assert run.code == 0, run.stderr
    assert len(run.json["placements"]) == 2
    assert [unit["name"] for unit in run.json["victims"]] == ["sweep"]


def waiting(dump: Path) -> dict[str, str]:
    """Return the groups that the real scheduler of a dump refused, each with its message."""
    with gzip.open(dump) as text:
        items = json.load(text)["items"]
    refused = {}
    for item in items:
        for condition in item["status"].get("conditions", ()) if item["kind"] == "Pod" else ():
            if condition.get("reason") == "SchedulerError":
                group = item["spec"]["schedulingGroup"]["podGroupName"]
                refused[f"{item['metadata']['namespace']}/{group}"] = condition["message"]
    return refused


def test_groups_refused_by_the_real_scheduler_do_not_fit(podium: Podium) -> None:
    """Groups that kube-scheduler 1.37 left pending for their priorities are refused for the same reason."""
    dump = EXAMPLES / "training-1.37.json.gz"
    refused = waiting(dump)
    assert refused
    for group in refused:
        run = podium("-f", str(dump), "--group", group, "-o", "json")
        assert (run.code, run.json["outcome"]) == (3, "NotEligible"), group
        assert "priority" in run.json["message"]


# --- start and live ---------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy() -> None:
    """`podium whatif --help` loads no numpy, no client, no YAML and no pydantic."""
    script = (
        "import sys\nfrom podium.cli.main import command\n"
        "command(['whatif', '--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'pydantic', 'aiohttp', 'kubernetes_asyncio', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def alone() -> Iterator[Server]:
    """Yield a server with this module's nodes only."""
    with exclusive(RELEASES["1.37"]) as server:
        yield server


@pytest.mark.server
def test_live_cluster_is_read_and_left_alone(podium: Podium, alone: Server, tmp_path: Path) -> None:
    """Rights to get and list are enough; the plan is for the whole cluster, its version and the current time.

    A bare name is in the context's namespace.
    """
    namespace, other = alone.new_namespace(), alone.new_namespace()
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    create(alone, "/api/v1/nodes", {"metadata": {"name": "only"}, "status": {"allocatable": allocatable}})
    high = create_class(alone, 1000)

    def make(where: str, name: str, class_name: str = "", node: str | None = None) -> None:
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
        spec = {"containers": [container], "priorityClassName": class_name, "nodeName": node}
        create(alone, f"/api/v1/namespaces/{where}/pods", {"metadata": {"name": name}, "spec": spec})

    make(other, "runs", node="only")
    make(namespace, "waits", high)
    reader = kubeconfig_of(alone, namespace, READ_ONLY, tmp_path)
    _, before = alone.request("GET", "/api/v1/pods")
    run = podium("--kubeconfig", str(reader), "--pod", "waits", "-o", "json")
    assert run.code == 0, run.stderr
    assert run.json["semantics"] == "1.37"
    assert [(unit["namespace"], unit["name"]) for unit in run.json["victims"]] == [(other, "runs")]
    assert f"semantics 1.37 (the API server is v{RELEASES['1.37'].version})" in run.stderr
    _, after = alone.request("GET", "/api/v1/pods")
    versions = [
        [item["metadata"]["resourceVersion"] for item in listed["items"]] for listed in (before, after)
    ]
    assert versions[0] == versions[1]
