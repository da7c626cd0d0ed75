"""Cases for the rules about the topology constraint of a group."""

from typing import Any

from tests.support.audit.builders import node, pod, pod_group
from tests.support.audit.cases.case import GROUP, Table, case

from podium.api.core import Node, Pod
from podium.cluster.state import Readable

MISSING, LARGER, STRADDLING = "topology-key-missing", "gang-larger-than-domain", "group-straddles-domains"
RACK, GPU = "example.com/rack", "example.com/gpu"
KEY, LEAST = "spec.schedulingConstraints.topology[0].key", "spec.schedulingPolicy.gang.minCount"


def racked(name: str, rack: str | None, cpu: str = "4", gpu: str = "0", **fields: Any) -> Node:
    """Make a node in a rack, or in none."""
    made = node(name, **{"allocatable": {"cpu": cpu, GPU: gpu}, **fields})
    made.metadata.labels = {"kubernetes.io/hostname": name} | ({} if rack is None else {RACK: rack})
    return made


def member(name: str, cpu: str = "2", on: str | None = None, gpu: str = "0", **fields: Any) -> Pod:
    """Make a member of the group train, pending or on a node."""
    phase = {} if on else {"phase": "Pending"}
    return pod(name, requests={"cpu": cpu, GPU: gpu}, **{"group": "train", "node": on, **phase, **fields})


def waiting(count: int, cpu: str = "2", **fields: Any) -> list[Readable]:
    return [member(f"w{at}", cpu, **fields) for at in range(count)]


def group(min_count: int | None = None, **fields: Any) -> Readable:
    return pod_group(min_count=min_count, topology=RACK, **fields)


# Rack a has room for two pods of 2 cpu, rack b for four, and one node for many is in no rack.
NODES: list[Readable] = [
    *(racked("a1", "a"), racked("b1", "b"), racked("b2", "b"), racked("free", None, "64"))
]


CASES = Table()
CASES.add(
    MISSING,
    (GROUP, KEY),
    case(
        "no node has the label",
        [racked("n", None), group(2), *waiting(2)],
        f"no node has the label {RACK}, so no domain exists for its pods.",
    ),
    case(
        "a basic group, and one of Podium, without pods",
        [racked("n", None), group(), group(podium=True, name="other")],
        ("PodGroup team-a/other", KEY, "no node has"),
        "no node has",
    ),
    case("one node has it", [*NODES, group(2), *waiting(2)]),
    case("a cordoned node has it", [racked("n", "a", unschedulable=True), group(2), *waiting(2)]),
    case("a cluster without nodes", [group(2), *waiting(2)]),
    case("no constraint", [racked("n", None), pod_group(min_count=2), *waiting(2)]),
    case(
        "1.38 has no domain without a name",
        [racked("n", ""), group(2), *waiting(2)],
        f"no node has the label {RACK}, so no domain exists",
        kubernetes="1.38",
    ),
    case("1.37 has one", [racked("n", ""), group(2), *waiting(2)]),
    case(
        "Podium has none",
        [racked("n", ""), group(2, podium=True), *waiting(2, group="", podium="train")],
        f"no node has the label {RACK}, so no domain exists",
    ),
)
CASES.add(
    LARGER,
    (GROUP, LEAST),
    case(
        "five pods, and the largest rack holds four",
        [*NODES, group(5), *waiting(5)],
        "5 of its pods must run at once, each with requests of 2 cpu; there is room for 4 on 2 "
        f"schedulable nodes of {RACK}=b when empty. Of 2 domains this is the nearest.",
    ),
    case(
        "one rack",
        [
            racked("a1", "a"),
            racked("free", None, "64"),
            group(3, podium=True),
            *waiting(3, group="", podium="train"),
        ],
        f"of {RACK}=a when empty. No other domain of {RACK} has a schedulable node.",
    ),
    case(
        "accelerators are in several racks",
        [
            *(racked("a1", "a", "64", "4"), racked("b1", "b", "64", "4"), racked("c1", "c", "640")),
            *(group(2), *waiting(2, "1", gpu="3")),
        ],
        f"each with requests of 1 cpu and 3 {GPU}; there is room for 1 on 1 schedulable node of",
    ),
    case(
        "members of several sizes",
        [*NODES, group(3), member("x", "4"), member("y", "3"), member("z", "2")],
        f"its members request 9 cpu; 8 available on 2 schedulable nodes of {RACK}=b.",
    ),
    case(
        "missing members are like the others",
        [*NODES, group(5), *waiting(1)],
        "5 of its pods must run at once",
    ),
    case(
        "a member that runs binds the others to a small rack",
        [*NODES, group(3), member("r", on="a1"), *waiting(2)],
        "2 of its pods must run at once, each with requests of 2 cpu; there is room for 1 on 1 "
        f"schedulable node of {RACK}=a when empty. Running members hold their room, and bind "
        "the others to this domain: 1.",
    ),
    case(
        "nodes of a cordoned rack do not count",
        [*NODES, racked("c1", "c", "64", unschedulable=True), group(5), *waiting(5)],
        "Of 2 domains this is the nearest.",
    ),
    case("the largest rack holds all", [*NODES, group(4), *waiting(4)]),
    case("minCount can do without the rest", [*NODES, group(4), *waiting(9)]),
    case(
        "the rack of the running member is large enough",
        [*NODES, group(4), member("r", on="b1"), *waiting(3)],
    ),
    case("enough members run", [*NODES, group(2), member("r", on="a1"), member("s", on="a1"), *waiting(9)]),
    case(
        "a member that runs has more than its node now has",
        [racked("a1", "a"), racked("a2", "a"), group(2), member("r", "9", on="a1"), member("w", "4")],
    ),
    case(
        "members of another size may be missing", [*NODES, group(5), member("r", "1", on="a1"), *waiting(1)]
    ),
    case(
        "a leader of another size is terminating",
        [*NODES, group(5), member("r", "0", on="b1", terminating=True), *waiting(4)],
    ),
    case(
        "members in several racks",
        [*NODES, group(5), member("r", on="a1"), member("s", on="b1"), *waiting(3)],
    ),
    case("a member runs in no rack", [*NODES, group(5), member("r", on="free"), *waiting(4)]),
    case(
        "a member runs on a node that was not read", [*NODES, group(5), member("r", on="gone"), *waiting(4)]
    ),
    case(
        "a node that has not reported its size",
        [*NODES, racked("c1", "c", allocatable=None), group(9), *waiting(9)],
    ),
    case(
        "every node of the label is cordoned",
        [racked("n", "a", unschedulable=True), NODES[-1], group(5), *waiting(5)],
    ),
    case("a basic group", [*NODES, group(), *waiting(9)]),
    case("a gang without a constraint", [*NODES, pod_group(min_count=9), *waiting(9)]),
)
CASES.add(
    STRADDLING,
    (GROUP, KEY),
    case(
        "members in two racks",
        [*NODES, group(3), member("r", on="a1"), member("s", on="b1"), member("t", on="b2")],
        f"2 pods in {RACK}=b and 1 pod in {RACK}=a.",
    ),
    case(
        "a member in a rack and one in none",
        [*NODES, group(), member("r", on="a1"), member("s", on="free")],
        f"1 pod on nodes without {RACK}",
    ),
    case("all members in one rack", [*NODES, group(2), member("s", on="b1"), member("t", on="b2")]),
    case(
        "a finished member elsewhere",
        [*NODES, group(1), member("s", on="b1"), member("t", on="a1", phase="Succeeded")],
    ),
    case("no node has the label any more", [racked("n", None), group(1), member("s", on="n")]),
    case("no member runs", [*NODES, group(2), *waiting(2)]),
    case("no constraint", [*NODES, pod_group(), member("r", on="a1"), member("s", on="b1")]),
    case(
        "a member on a node whose label is empty, in 1.38",
        [*NODES, racked("e", ""), group(2), member("a", on="b1"), member("b", on="e")],
        f"1 pod in {RACK}=b and 1 pod on nodes without {RACK}.",
        kubernetes="1.38",
    ),
    case("all members are there, in 1.37", [racked("e", ""), group(1), member("a", on="e")]),
)
