"""Cases for the rules about the size of gangs."""

from tests.support.audit.builders import (
    NEW,
    container,
    foreign_group,
    node,
    owner,
    pod,
    pod_group,
    pods,
    stored,
)
from tests.support.audit.cases.case import GROUP, Case

from podium.api.podkinds.kind import JobRun
from podium.cluster.state import Readable

NODES: list[Readable] = [node(f"node-{index}", {"cpu": "8", "example.com/gpu": "4"}) for index in range(2)]
FIELD = "spec.schedulingPolicy.gang.minCount"


def gang(min_count: int, *members: Readable) -> list[Readable]:
    return [pod_group(min_count=min_count), *members]


def asking(name: str, cpu: str = "0", gpu: str = "0") -> Readable:
    return pod(name, group="train", requests={"cpu": cpu, "example.com/gpu": gpu})


def asking_each(count: int, **requests: str) -> list[Readable]:
    return [asking(f"pod-{index}", **requests) for index in range(count)]


def coscheduled(name: str, scheduler: str = "other", node: str | None = None, **labels: str) -> Readable:
    labels = labels or {"scheduling.x-k8s.io/pod-group": "train"}
    return pod(name, scheduler=scheduler, node=node, phase="Pending", labels=labels)


CASES = [
    Case(
        "a Job whose last pod comes alone",
        "gang-last-wave",
        [pod_group(min_count=4), owner(group="train", number=4, run=JobRun(1, 4, 5))],
        [
            (
                "Job team-a/train",
                "spec.completions",
                "the last wave of its pods has 1 pod, but minCount",
            )
        ],
    ),
    Case(
        "a Job of whole waves",
        "gang-last-wave",
        [pod_group(min_count=4), owner(group="train", number=4, run=JobRun(1, 4, 8))],
    ),
    Case(
        "a group of coscheduling with fewer pods than minMember",
        "gang-too-few-pods",
        [foreign_group(5), *(coscheduled(f"pod-{at}") for at in range(3))],
        [
            (
                GROUP,
                "spec.minMember",
                "and minMember is 5: the coscheduling plugin of other places none that waits.",
            )
        ],
    ),
    Case(
        "a group of coscheduling with minMember pods",
        "gang-too-few-pods",
        [foreign_group(2), *(coscheduled(f"pod-{at}") for at in range(2))],
    ),
    Case(
        "a group of coscheduling of which all pods have nodes",
        "gang-too-few-pods",
        [foreign_group(5), coscheduled("pod-0", node="node-0")],
    ),
    Case("a group of coscheduling whose pods are to come", "gang-too-few-pods", [foreign_group(5)]),
    Case(
        "a group of coscheduling without minMember",
        "gang-too-few-pods",
        [foreign_group(None), coscheduled("x")],
    ),
    Case(
        "pods of Podium's scheduler, which reads no group of coscheduling",
        "gang-too-few-pods",
        [foreign_group(5), coscheduled("pod-0", "podium-scheduler")],
    ),
    Case(
        "two of four",
        "gang-too-few-pods",
        gang(4, *pods(2)),
        [(GROUP, FIELD, "it has 2 live pods, but minCount is 4")],
    ),
    Case(
        "no pod at all",
        "gang-too-few-pods",
        gang(4),
        [(GROUP, FIELD, "no pod references it, and minCount is 4")],
    ),
    Case("as many as minCount", "gang-too-few-pods", gang(2, *pods(2))),
    Case("a basic group has no minimum", "gang-too-few-pods", [pod_group(), *pods(1)]),
    Case(
        "the rest has finished",
        "gang-too-few-pods",
        gang(2, *pods(1), pod("done", group="train", phase="Succeeded")),
    ),
    Case(
        "a member waits, and others have finished",
        "gang-too-few-pods",
        gang(
            4,
            *pods(1),
            pod("waits", group="train", phase="Pending", node=None),
            *(pod(f"done-{at}", group="train", phase="Succeeded") for at in range(2)),
        ),
        [(GROUP, FIELD, "it has 2 live pods, 2 pods have ended and do not count, and minCount is 4")],
    ),
    Case("the gang has run", "gang-too-few-pods", gang(2, pod("done", group="train", phase="Failed"))),
    Case("the group is going", "gang-too-few-pods", [pod_group(min_count=4, deleted=NEW), *pods(1)]),
    Case(
        "the Job of the gang is suspended, or only its manifest was read",
        "gang-too-few-pods",
        [
            *gang(4),
            owner(group="train", number=4, uid="1", suspended=True),
            pod_group("manifest", min_count=4),
            owner("Job", "other", group="manifest", number=4),
        ],
    ),
    Case(
        "the Job that owns the gang is suspended, and its template does not name the gang",
        "gang-too-few-pods",
        [
            pod_group(min_count=4, owned_by=("batch/v1", "Job", "queued")),
            owner("Job", "queued", uid="1", suspended=True),
        ],
    ),
    Case(
        "the Job of the gang exists and has no pods",
        "gang-too-few-pods",
        [*gang(4), owner(group="train", number=4, uid="1")],
        [(GROUP, FIELD, "no pod references it, and minCount is 4")],
    ),
    # NVIDIA/k8s-dra-driver-gpu: a vendored test file has a Node that a server stored.
    Case(
        "a stored node among manifests",
        "gang-too-large",
        [
            *stored(node("sample", {"cpu": "1"})),
            *gang(1, pod("a", group="train", node=None, requests={"cpu": "8"})),
        ],
    ),
    Case(
        "more devices than there are",
        "gang-too-large",
        [*NODES, *gang(9, *asking_each(9, gpu="1"))],
        [
            (
                GROUP,
                FIELD,
                "9 of its pods must run at once, each with requests of 1 example.com/gpu; there is room for",
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
                FIELD,
                "each with requests of 8,500m cpu; there is room for 0 on 2 schedulable nodes",
            )
        ],
    ),
    Case(
        "pieces that no node has together",
        "gang-too-large",
        [*NODES, *gang(4, *asking_each(4, cpu="5"))],
        [(GROUP, FIELD, "there is room for 2 on 2 schedulable nodes when empty")],
    ),
    Case(
        "members to come are like those there are",
        "gang-too-large",
        [*NODES, *gang(9, asking("pod-0", gpu="1"))],
        [(GROUP, FIELD, "9 of its pods must run at once")],
    ),
    Case(
        "a small leader does not hide the workers",
        "gang-too-large",
        [
            *NODES,
            *gang(4, asking("leader", cpu="1"), *asking_each(3, gpu="3")),
        ],
        [
            (
                GROUP,
                FIELD,
                "3 of its pods must run at once",
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
                FIELD,
                "its members request 14 example.com/gpu; 8 available on 2",
            )
        ],
    ),
    Case(
        "a cordoned node has no room",
        "gang-too-large",
        [
            node("node-0", {"example.com/gpu": "4"}),
            node("node-1", {"example.com/gpu": "4"}, unschedulable=True),
            *gang(5, *asking_each(5, gpu="1")),
        ],
        [(GROUP, FIELD, "there is room for 4 on 1 schedulable node when empty")],
    ),
    Case(
        "nodes take so many pods and no more",
        "gang-too-large",
        [node("node-0", {"cpu": "8", "pods": "2"}), *gang(3, *pods(3))],
        [
            (
                GROUP,
                FIELD,
                "each with requests of nothing; there is room for 2 on 1",
            )
        ],
    ),
    Case(
        "amounts have readable units",
        "gang-too-large",
        [*NODES, *gang(1, pod("a", group="train", requests={"memory": "64Gi", "cpu": "1500m"}))],
        [(GROUP, FIELD, "each with requests of 1,500m cpu and 64Gi memory")],
    ),
    Case(
        "as many devices as there are",
        "gang-too-large",
        [
            *NODES,
            *gang(8, *asking_each(9, gpu="1")),
        ],
    ),
    Case(
        "spare members need no room",
        "gang-too-large",
        [
            *NODES,
            *gang(8, *asking_each(8, gpu="1"), asking("spare", cpu="100")),
        ],
    ),
    Case(
        "a basic group may be of any size",
        "gang-too-large",
        [
            *NODES,
            pod_group(),
            *asking_each(9, gpu="1"),
        ],
    ),
    Case(
        "a node has not told its room",
        "gang-too-large",
        [
            *NODES,
            node("new"),
            *gang(9, *asking_each(9, gpu="1")),
        ],
    ),
    Case("a gang whose pods are not known", "gang-too-large", [*NODES, *gang(900)]),
    Case(
        "a container without requests asks for its limits",
        "gang-too-large",
        [*NODES, *gang(1, pod("a", group="train", containers=[container(None, {"cpu": 9})]))],
        [(GROUP, FIELD, "each with requests of 9 cpu")],
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
        [(GROUP, FIELD, "each with requests of 9 cpu")],
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
        [(GROUP, FIELD, "each with requests of 9 cpu")],
    ),
]
