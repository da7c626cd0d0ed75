"""Cases for the rules about the claims of a gang's members."""

from typing import Any

import msgspec
from tests.support.audit.builders import NS, pod_group
from tests.support.audit.cases.case import GROUP, Table, case
from tests.support.audit.claims import HOST, ZONE, claim, claiming, volume, zoned
from tests.support.devices import scene
from tests.support.filters import builders

from podium.api.claims import ClaimingPod
from podium.cluster.state import Readable

PINNED, SHARED = "gang-pinned", "gang-shares-exclusive-claim"
FIELD = "spec.schedulingPolicy.gang.minCount"
# Zone a has room for two pods of 2 cpu, zone b for four.
NODES: list[Readable] = [zoned("a1", "a"), zoned("b1", "b"), zoned("b2", "b")]
ONCE: dict[str, Any] = {"accessModes": ["ReadWriteOncePod"]}


def in_zone(zone: str, *names: str) -> list[Readable]:
    """Make claims whose volumes are in a zone."""
    return [each for name in names for each in (claim(name, f"v-{name}"), volume(f"v-{name}", ZONE, zone))]


def members(count: int, cpu: str = "2", **fields: Any) -> list[Readable]:
    """Make members p0 and so on, each with a claim of its own: c0 and so on."""
    return [claiming(f"p{at}", f"c{at}", cpu=cpu, **fields) for at in range(count)]


def found(part: str, rule: str = GROUP) -> list[tuple[str, str, str]]:
    return [(rule, FIELD, part)]


def device_claim(*others: str) -> Readable:
    """Make the claim for devices `c`, which these pods use already."""
    made = scene.claim("c", ["n0/gpu-0"] if others else [], others)
    made.metadata.namespace = NS
    return made


def device_users(count: int) -> list[Readable]:
    """Make members p0 and so on that all name the claim for devices `c`."""
    entry = {"name": "x", "resourceClaimName": "c"}
    found = [msgspec.to_builtins(claiming(f"p{at}", cpu="0")) for at in range(count)]
    for each in found:
        each["metadata"]["uid"] = scene.uid_of(each["metadata"]["name"])
        each["spec"]["resourceClaims"] = [entry]
    return [msgspec.convert(each, ClaimingPod) for each in found]


EXCEEDED = "gang-exceeds-claim"
CASES = Table()
CASES.add(
    PINNED,
    (GROUP, FIELD),
    case(
        "three pods in a zone for two",
        [*NODES, pod_group(min_count=3), *members(3), *in_zone("a", "c0", "c1", "c2")],
        "3 of its pods must run at once, each with requests of 2 cpu; there is room for 2 on 1 "
        "schedulable node when empty. No other node reaches the volumes of claims c0, c1, c2 "
        "(topology.kubernetes.io/zone a).",
    ),
    case(
        "pods of one claim",
        [
            *NODES,
            pod_group(min_count=3),
            *(claiming(f"p{at}", "c", cpu="2") for at in range(3)),
            *in_zone("a", "c"),
        ],
        "volumes of claim c (topology",
    ),
    case(
        "pods of several sizes",
        [
            *(*NODES, pod_group(min_count=3), *in_zone("a", "c0", "c1", "c2")),
            *(claiming(f"p{at}", f"c{at}", cpu=f"{at + 1}") for at in range(3)),
        ],
        "its members request 6 cpu; 4 available on 1 schedulable node. No other node reaches",
    ),
    case(
        "a zone without a schedulable node",
        [
            *(*NODES, zoned("z1", "z", unschedulable=True), pod_group(min_count=2)),
            *(claiming("p0", "c0"), claiming("p1"), *in_zone("z", "c0")),
        ],
        "room for 0 on 0 schedulable nodes when empty. No other node reaches the volumes of claim c0",
    ),
    case(
        "a pod with volumes in two zones",
        [
            *NODES,
            pod_group(min_count=1),
            claiming("p0", "c0", "c1"),
            *in_zone("a", "c0"),
            *in_zone("b", "c1"),
        ],
        "on 0 schedulable nodes when empty. No other node reaches the volumes of claims c0, c1",
    ),
    case(
        "a local volume on a node that is too small",
        [
            *(*NODES, pod_group(min_count=2), claiming("p0", "c0", cpu="5"), claiming("p1")),
            *(claim("c0", "v0"), volume("v0", HOST, "a1")),
        ],
        "1 of its pods must run at once, each with requests of 5 cpu; there is room for 0 on 1",
    ),
    case(
        "more pods fit nowhere than may be left out",
        [*(*NODES, pod_group(min_count=3), *members(4, "5"), *in_zone("a", "c0"), *in_zone("b", "c1"))],
        "for 0 on 1 schedulable node when empty. No other node reaches the volumes of claim c0",
    ),
    case(
        "zone labels of a volume",
        [
            *(
                *NODES,
                pod_group(min_count=3),
                *members(3),
                claim("c0", "v"),
                claim("c1", "v"),
                claim("c2", "v"),
            ),
            builders.volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "a"}),
        ],
        "there is room for 2 on 1 schedulable node when empty.",
    ),
    case(
        "an ephemeral claim",
        [
            *(*NODES, pod_group(min_count=1), claiming("p0", ephemeral=("data",), cpu="5")),
            *(claim("p0-data", "v"), volume("v", ZONE, "a")),
        ],
        "volumes of claim p0-data",
    ),
    case(
        "enough room in the zone",
        [*NODES, pod_group(min_count=4), *members(4), *in_zone("b", "c0", "c1", "c2", "c3")],
    ),
    case(
        "both zones together",
        [*NODES, pod_group(min_count=4), *members(4), *in_zone("a", "c0", "c1"), *in_zone("b", "c2", "c3")],
    ),
    case(
        "minCount can do without the rest",
        [*NODES, pod_group(min_count=2), *members(4), *in_zone("a", "c0", "c1", "c2", "c3")],
    ),
    case(
        "a zone with two values",
        [
            *(*NODES, pod_group(min_count=6), *(claiming(f"p{at}", "c", cpu="2") for at in range(6))),
            *(claim("c", "v"), volume("v", ZONE, "a", "b")),
        ],
    ),
    case(
        "members that run have their nodes",
        [*NODES, pod_group(min_count=3), *members(3, node="z9"), *in_zone("a", "c0", "c1", "c2")],
    ),
    case(
        "too few pods so far", [*NODES, pod_group(min_count=4), *members(3), *in_zone("a", "c0", "c1", "c2")]
    ),
    case(
        "claims that are not bound, or whose volumes are unknown",
        [*NODES, pod_group(min_count=3), *members(3), claim("c0"), claim("c1", "gone")],
    ),
    case(
        "a volume without restrictions, and one that cannot be evaluated",
        [
            *(*NODES, pod_group(min_count=2), *members(2, "4"), claim("c0", "v0"), claim("c1", "v1")),
            *(
                builders.volume("v0"),
                builders.volume("v1", terms=[{"matchExpressions": [{"key": ZONE, "operator": "Near"}]}]),
            ),
        ],
    ),
    case(
        "nodes without any zone label reach a volume with one",
        [
            *(zoned("n1", None), pod_group(min_count=2), *members(2), claim("c0", "v"), claim("c1", "v")),
            builders.volume("v", labels={ZONE: "a"}),
        ],
    ),
    case("a cluster without nodes", [pod_group(min_count=1), *members(1), *in_zone("a", "c0")]),
    case("a basic group", [*NODES, pod_group(), *members(3), *in_zone("a", "c0", "c1", "c2")]),
)
CASES.add(
    SHARED,
    (GROUP, FIELD),
    case(
        "two pods of one claim",
        [pod_group(min_count=2), claiming("p0", "c"), claiming("p1", "c"), claim("c", **ONCE)],
        "2 of its pods name claim c, which one pod at a time may use (ReadWriteOncePod); minCount is 2.",
    ),
    case(
        "several claims",
        [
            *(pod_group(min_count=2), claim("c", **ONCE), claim("d", **ONCE), claim("e", **ONCE)),
            *(claiming("p0", "c", "d"), claiming("p1", "c", "d"), claiming("p2", "d", "e")),
        ],
        "3 of its pods name claim d, which one pod at a time may use (ReadWriteOncePod); "
        "minCount is 2. The same holds for 1 other claim.",
    ),
    case(
        "a pod that names a claim twice",
        [pod_group(min_count=2), claiming("p0", "c", "c"), claiming("p1"), claim("c", **ONCE)],
    ),
    case(
        "a claim that several pods may mount",
        [
            pod_group(min_count=2),
            claiming("p0", "c"),
            claiming("p1", "c"),
            claim("c", accessModes=["ReadWriteOnce"]),
        ],
    ),
    case(
        "a claim of each member, or of other namespaces",
        [
            *(pod_group(min_count=2), *members(2), claim("c0", **ONCE), claim("c1", **ONCE)),
            claiming("other", "c0", namespace="team-b"),
        ],
    ),
    case(
        "members that are over or going",
        [
            *(pod_group(min_count=2), claiming("p0", "c"), claim("c", **ONCE)),
            *(claiming("p1", "c", phase="Succeeded"), claiming("p2", "c", terminating=True)),
        ],
    ),
    case(
        "members that need not run together",
        [pod_group(min_count=1), claiming("p0", "c"), claiming("p1", "c"), claim("c", **ONCE)],
    ),
)
CASES.add(
    EXCEEDED,
    (GROUP, FIELD),
    case(
        "more pods than a claim for devices takes",
        [pod_group(min_count=257), *device_users(257), device_claim()],
        "257 of its pods name ResourceClaim c, which takes 256 of them; minCount is 257.",
    ),
    case(
        "a claim for devices that does not exist yet",
        [pod_group(min_count=257), *device_users(257)],
        "which takes 256 of them",
    ),
    case(
        "other consumers of a claim for devices",
        [pod_group(min_count=100), *device_users(100), device_claim(*(f"other-{at}" for at in range(200)))],
        "100 of its pods name ResourceClaim c, which takes 56 of them",
    ),
    case("as many pods as a claim for devices takes", [pod_group(min_count=256), *device_users(256)]),
    case("minCount without the further pods", [pod_group(min_count=256), *device_users(300)]),
    case("a basic group that shares a claim for devices", [pod_group(), *device_users(300)]),
    case(
        "the members are consumers already",
        [pod_group(min_count=256), *device_users(256), device_claim(*(f"p{at}" for at in range(256)))],
    ),
)
