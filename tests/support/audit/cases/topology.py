"""Cases for the rules about the topology constraint of a group."""

from typing import Any

from tests.support.audit.builders import node, pod, pod_group
from tests.support.audit.cases.case import GROUP, Case

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
    *(racked("a1", "a"), racked("b1", "b"), racked("b2", "b"), racked("free", None, "64")),
]


CASES = [
    Case(
        "no node has the label",
        MISSING,
        [racked("n", None), group(2), *waiting(2)],
        [(GROUP, KEY, f"no node has the label {RACK}, so no domain exists for its pods.")],
    ),
    Case(
        "a basic group, and one of Podium, without pods",
        MISSING,
        [racked("n", None), group(), group(podium=True, name="other")],
        [("PodGroup team-a/other", KEY, "no node has"), (GROUP, KEY, "no node has")],
    ),
    Case("one node has it", MISSING, [*NODES, group(2), *waiting(2)]),
    Case("a cordoned node has it", MISSING, [racked("n", "a", unschedulable=True), group(2), *waiting(2)]),
    Case("a cluster without nodes", MISSING, [group(2), *waiting(2)]),
    Case("no constraint", MISSING, [racked("n", None), pod_group(min_count=2), *waiting(2)]),
    Case(
        "five pods, and the largest rack holds four",
        LARGER,
        [*NODES, group(5), *waiting(5)],
        [
            (
                GROUP,
                LEAST,
                (
                    "5 of its pods must run at once, each with requests of 2 cpu; there is room for 4 on 2 "
                    f"schedulable nodes of {RACK}=b when empty. Of 2 domains this is the nearest."
                ),
            )
        ],
    ),
    Case(
        "one rack",
        LARGER,
        [
            racked("a1", "a"),
            racked("free", None, "64"),
            group(3, podium=True),
            *waiting(3, group="", podium="train"),
        ],
        [(GROUP, LEAST, f"of {RACK}=a when empty. No other domain of {RACK} has a schedulable node.")],
    ),
    Case(
        "accelerators are in several racks",
        LARGER,
        [
            *(racked("a1", "a", "64", "4"), racked("b1", "b", "64", "4"), racked("c1", "c", "640")),
            *(group(2), *waiting(2, "1", gpu="3")),
        ],
        [
            (
                GROUP,
                LEAST,
                f"each with requests of 1 cpu and 3 {GPU}; there is room for 1 on 1 schedulable node of",
            )
        ],
    ),
    Case(
        "members of several sizes",
        LARGER,
        [*NODES, group(3), member("x", "4"), member("y", "3"), member("z", "2")],
        [(GROUP, LEAST, f"its members request 9 cpu; 8 available on 2 schedulable nodes of {RACK}=b.")],
    ),
    Case(
        "missing members are like the others",
        LARGER,
        [*NODES, group(5), *waiting(1)],
        [(GROUP, LEAST, "5 of its pods must run at once")],
    ),
    Case(
        "a member that runs binds the others to a small rack",
        LARGER,
        [*NODES, group(3), member("r", on="a1"), *waiting(2)],
        [
            (
                GROUP,
                LEAST,
                (
                    "2 of its pods must run at once, each with requests of 2 cpu; there is room for 1 on 1 "
                    f"schedulable node of {RACK}=a when empty. Running members hold their room, and bind "
                    "the others to this domain: 1."
                ),
            )
        ],
    ),
    Case(
        "nodes of a cordoned rack do not count",
        LARGER,
        [*NODES, racked("c1", "c", "64", unschedulable=True), group(5), *waiting(5)],
        [(GROUP, LEAST, "Of 2 domains this is the nearest.")],
    ),
    Case("the largest rack holds all", LARGER, [*NODES, group(4), *waiting(4)]),
    Case("minCount can do without the rest", LARGER, [*NODES, group(4), *waiting(9)]),
    Case(
        "the rack of the running member is large enough",
        LARGER,
        [*NODES, group(4), member("r", on="b1"), *waiting(3)],
    ),
    Case(
        "enough members run",
        LARGER,
        [*NODES, group(2), member("r", on="a1"), member("s", on="a1"), *waiting(9)],
    ),
    Case(
        "a member that runs has more than its node now has",
        LARGER,
        [racked("a1", "a"), racked("a2", "a"), group(2), member("r", "9", on="a1"), member("w", "4")],
    ),
    Case(
        "members of another size may be missing",
        LARGER,
        [*NODES, group(5), member("r", "1", on="a1"), *waiting(1)],
    ),
    Case(
        "a leader of another size is terminating",
        LARGER,
        [*NODES, group(5), member("r", "0", on="b1", terminating=True), *waiting(4)],
    ),
    Case(
        "members in several racks",
        LARGER,
        [*NODES, group(5), member("r", on="a1"), member("s", on="b1"), *waiting(3)],
    ),
    Case("a member runs in no rack", LARGER, [*NODES, group(5), member("r", on="free"), *waiting(4)]),
    Case(
        "a member runs on a node that was not read",
        LARGER,
        [*NODES, group(5), member("r", on="gone"), *waiting(4)],
    ),
    Case(
        "a node that has not reported its size",
        LARGER,
        [*NODES, racked("c1", "c", allocatable=None), group(9), *waiting(9)],
    ),
    Case(
        "every node of the label is cordoned",
        LARGER,
        [racked("n", "a", unschedulable=True), NODES[-1], group(5), *waiting(5)],
    ),
    Case("a basic group", LARGER, [*NODES, group(), *waiting(9)]),
    Case("a gang without a constraint", LARGER, [*NODES, pod_group(min_count=9), *waiting(9)]),
    Case(
        "members in two racks",
        STRADDLING,
        [*NODES, group(3), member("r", on="a1"), member("s", on="b1"), member("t", on="b2")],
        [(GROUP, KEY, f"2 pods in {RACK}=b and 1 pod in {RACK}=a.")],
    ),
    Case(
        "a member in a rack and one in none",
        STRADDLING,
        [*NODES, group(), member("r", on="a1"), member("s", on="free")],
        [(GROUP, KEY, f"1 pod on nodes without {RACK}")],
    ),
    Case(
        "all members in one rack", STRADDLING, [*NODES, group(2), member("s", on="b1"), member("t", on="b2")]
    ),
    Case(
        "a finished member elsewhere",
        STRADDLING,
        [*NODES, group(1), member("s", on="b1"), member("t", on="a1", phase="Succeeded")],
    ),
    Case("no node has the label any more", STRADDLING, [racked("n", None), group(1), member("s", on="n")]),
    Case("no member runs", STRADDLING, [*NODES, group(2), *waiting(2)]),
    Case("no constraint", STRADDLING, [*NODES, pod_group(), member("r", on="a1"), member("s", on="b1")]),
]
CASES += [
    Case(
        "1.38 has no domain without a name",
        MISSING,
        [racked("n", ""), group(2), *waiting(2)],
        [(GROUP, KEY, f"no node has the label {RACK}, so no domain exists")],
        "1.38",
    ),
    Case("1.37 has one", MISSING, [racked("n", ""), group(2), *waiting(2)]),
    Case(
        "Podium has none",
        MISSING,
        [racked("n", ""), group(2, podium=True), *waiting(2, group="", podium="train")],
        [(GROUP, KEY, f"no node has the label {RACK}, so no domain exists")],
    ),
    Case(
        "a member on a node whose label is empty, in 1.38",
        STRADDLING,
        [*NODES, racked("e", ""), group(2), member("a", on="b1"), member("b", on="e")],
        [(GROUP, KEY, f"1 pod in {RACK}=b and 1 pod on nodes without {RACK}.")],
        "1.38",
    ),
    Case("all members are there, in 1.37", STRADDLING, [racked("e", ""), group(1), member("a", on="e")]),
]
