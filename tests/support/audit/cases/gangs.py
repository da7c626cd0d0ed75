"""Cases for the rules about the size of gangs."""

from tests.support.audit.builders import (
    NEW,
    container,
    foreign_group,
    member,
    node,
    owner,
    pod,
    pod_group,
    pods,
    stored,
)
from tests.support.audit.cases.case import GROUP, Table, case

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


CASES = Table()
CASES.add(
    "gang-last-wave",
    ("Job team-a/train", "spec.completions"),
    case(
        "a Job whose last pod comes alone",
        [pod_group(min_count=4), owner(group="train", number=4, run=JobRun(1, 4, 5))],
        "the last wave of its pods has 1 pod, but minCount",
    ),
    case(
        "a Job of whole waves", [pod_group(min_count=4), owner(group="train", number=4, run=JobRun(1, 4, 8))]
    ),
)
CASES.add(
    "gang-too-few-pods",
    (GROUP, FIELD),
    case(
        "a group of coscheduling with fewer pods than minMember",
        [foreign_group(5), *(coscheduled(f"pod-{at}") for at in range(3))],
        (
            GROUP,
            "spec.minMember",
            "and minMember is 5: the coscheduling plugin of other places none that waits.",
        ),
    ),
    case(
        "a group of coscheduling with minMember pods",
        [foreign_group(2), *(coscheduled(f"pod-{at}") for at in range(2))],
    ),
    case(
        "a group of coscheduling of which all pods have nodes",
        [foreign_group(5), coscheduled("pod-0", node="node-0")],
    ),
    case("a group of coscheduling whose pods are to come", [foreign_group(5)]),
    case("a group of coscheduling without minMember", [foreign_group(None), coscheduled("x")]),
    case(
        "pods of Podium's scheduler, which reads no group of coscheduling",
        [foreign_group(5), coscheduled("pod-0", "podium-scheduler")],
    ),
    case("two of four", gang(4, *pods(2)), "it has 2 live pods, but minCount is 4"),
    case("no pod at all", gang(4), "no pod references it, and minCount is 4"),
    case("as many as minCount", gang(2, *pods(2))),
    case("a basic group has no minimum", [pod_group(), *pods(1)]),
    case("the rest has finished", gang(2, *pods(1), member("done", phase="Succeeded"))),
    case(
        "a member waits, and others have finished",
        gang(
            4,
            *pods(1),
            member("waits", phase="Pending", node=None),
            *(member(f"done-{at}", phase="Succeeded") for at in range(2)),
        ),
        "it has 2 live pods, 2 pods have ended and do not count, and minCount is 4",
    ),
    case("the gang has run", gang(2, member("done", phase="Failed"))),
    case("the group is going", [pod_group(min_count=4, deleted=NEW), *pods(1)]),
    case(
        "the Job of the gang is suspended, or only its manifest was read",
        [
            *gang(4),
            owner(group="train", number=4, uid="1", suspended=True),
            pod_group("manifest", min_count=4),
            owner("Job", "other", group="manifest", number=4),
        ],
    ),
    case(
        "the Job that owns the gang is suspended, and its template does not name the gang",
        [
            pod_group(min_count=4, owned_by=("batch/v1", "Job", "queued")),
            owner("Job", "queued", uid="1", suspended=True),
        ],
    ),
    case(
        "the Job of the gang exists and has no pods",
        [*gang(4), owner(group="train", number=4, uid="1")],
        "no pod references it, and minCount is 4",
    ),
)
CASES.add(
    "gang-too-large",
    (GROUP, FIELD),
    case(
        "a stored node among manifests",
        [*stored(node("sample", {"cpu": "1"})), *gang(1, member("a", node=None, requests={"cpu": "8"}))],
    ),
    case(
        "more devices than there are",
        [*NODES, *gang(9, *asking_each(9, gpu="1"))],
        "9 of its pods must run at once, each with requests of 1 example.com/gpu; there is room for",
    ),
    case(
        "a pod larger than any node",
        [*NODES, *gang(1, asking("big", cpu="8500m"))],
        "each with requests of 8,500m cpu; there is room for 0 on 2 schedulable nodes",
    ),
    case(
        "pieces that no node has together",
        [*NODES, *gang(4, *asking_each(4, cpu="5"))],
        "there is room for 2 on 2 schedulable nodes when empty",
    ),
    case(
        "members to come are like those there are",
        [*NODES, *gang(9, asking("pod-0", gpu="1"))],
        "9 of its pods must run at once",
    ),
    case(
        "a small leader does not hide the workers",
        [*NODES, *gang(4, asking("leader", cpu="1"), *asking_each(3, gpu="3"))],
        "3 of its pods must run at once",
    ),
    case(
        "two roles that fit apart and not together",
        [
            *NODES,
            *gang(
                4,
                *(asking(f"a-{i}", gpu="4") for i in range(2)),
                *(asking(f"b-{i}", gpu="3") for i in range(2)),
            ),
        ],
        "its members request 14 example.com/gpu; 8 available on 2",
    ),
    case(
        "a cordoned node has no room",
        [
            node("node-0", {"example.com/gpu": "4"}),
            node("node-1", {"example.com/gpu": "4"}, unschedulable=True),
            *gang(5, *asking_each(5, gpu="1")),
        ],
        "there is room for 4 on 1 schedulable node when empty",
    ),
    case(
        "nodes take so many pods and no more",
        [node("node-0", {"cpu": "8", "pods": "2"}), *gang(3, *pods(3))],
        "each with requests of nothing; there is room for 2 on 1",
    ),
    case(
        "amounts have readable units",
        [*NODES, *gang(1, member("a", requests={"memory": "64Gi", "cpu": "1500m"}))],
        "each with requests of 1,500m cpu and 64Gi memory",
    ),
    case("as many devices as there are", [*NODES, *gang(8, *asking_each(9, gpu="1"))]),
    case(
        "spare members need no room", [*NODES, *gang(8, *asking_each(8, gpu="1"), asking("spare", cpu="100"))]
    ),
    case("a basic group may be of any size", [*NODES, pod_group(), *asking_each(9, gpu="1")]),
    case("a node has not told its room", [*NODES, node("new"), *gang(9, *asking_each(9, gpu="1"))]),
    case("a gang whose pods are not known", [*NODES, *gang(900)]),
    case(
        "a container without requests asks for its limits",
        [*NODES, *gang(1, member("a", containers=[container(None, {"cpu": 9})]))],
        "each with requests of 9 cpu",
    ),
    case(
        "an init container may be the largest",
        [*NODES, *gang(1, member("a", requests={"cpu": "1"}, init=[container({"cpu": "9"}, name="init")]))],
        "each with requests of 9 cpu",
    ),
    case(
        "a sidecar runs beside",
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
        "each with requests of 9 cpu",
    ),
)
