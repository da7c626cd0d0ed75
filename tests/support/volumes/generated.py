"""Generates small clusters with storage, and the claims of pods, for properties and for the differential.

Sizes, labels and classes are few, so that volumes compete, capacities are short and nodes are alike.
"""

from random import Random
from typing import NamedTuple

from tests.support.volumes.manifests import (
    DRIVER,
    HOST,
    LOCAL,
    ZONE,
    Manifest,
    capacity,
    claim,
    driver,
    node,
    storage_class,
    volume,
)

# Classes with existing volumes, with provisioning in any amount, and with published capacity.
_NETWORK = "network"
_TRACKED = "tracked"
_CLASSES = (LOCAL, _NETWORK, _TRACKED)
_SIZES = ("1Gi", "2Gi", "3Gi", "5Gi")
_ZONES = ("zone-0", "zone-1", "zone-2")


class Generated(NamedTuple):
    """The nodes and the storage of a cluster, and the claims of each of some pods; pods may share claims."""

    nodes: list[Manifest]
    storage: list[Manifest]
    pods: list[list[Manifest]]


def generated(dice: Random, pods: int = 3) -> Generated:
    """Return a cluster."""
    nodes = [node(f"node-{number}", **_zone(dice)) for number in range(dice.randint(1, 6))]
    drivers = [driver(DRIVER, publishes=dice.choice((True, True, True, False, None)))]
    storage = delayed_storage(dice, nodes, DRIVER, "other.example.com")
    shared = delayed_claim(dice, "shared", nodes)
    made = []
    for pod in range(pods):
        own = [
            delayed_claim(dice, f"claim-{pod}-{number}", nodes)
            for number in range(dice.choice((1, 1, 2, 2, 3)))
        ]
        made.append([*own, shared] if dice.random() < 0.3 else own)
    return Generated(nodes, [*drivers, *storage], made)


def delayed_storage(
    dice: Random, nodes: list[Manifest], tracked: str, other: str, prefix: str = "", *, ties: bool = True
) -> list[Manifest]:
    """Return classes, volumes and capacities; names start with the prefix.

    `tracked` is the driver whose class has capacities, `other` that of a class without. If `ties` is false,
    no choice among volumes, or capacities with room, decides what kube-scheduler does.
    """
    classes = [
        storage_class(prefix + LOCAL),
        storage_class(prefix + _NETWORK, other, _topologies(dice)),
        storage_class(prefix + _TRACKED, tracked, _topologies(dice)),
    ]
    volumes = [_volume(dice, prefix, number, nodes) for number in range(dice.randint(2, 14))]
    capacities = [_capacity(dice, prefix, number, nodes) for number in range(dice.randint(0, 5))]
    if not ties:
        _untie(dice, volumes)
        _untie_capacities(capacities, nodes)
    return [*classes, *volumes, *capacities]


def _untie(dice: Random, volumes: list[Manifest]) -> None:
    """Change volumes so that at most one is the best for a claim."""
    named = set()
    for each, size in zip(volumes, dice.sample(range(1, len(volumes) + 3), len(volumes)), strict=True):
        spec = each["spec"]
        spec["capacity"] = {"storage": f"{size}Gi"}
        owner = spec.pop("claimRef", None)
        if owner is not None and owner["name"] not in named:
            spec["claimRef"] = owner
            named.add(owner["name"])


def _untie_capacities(capacities: list[Manifest], nodes: list[Manifest]) -> None:
    """Change the totals of capacities so that each node scores alike with each capacity of its topology.

    Each has a total then, because kube-scheduler 1.37 panics when it scores one without.
    """
    for each in capacities:
        if "maximumVolumeSize" in each:
            each.setdefault("capacity", "10Gi")
    used = [each for each in capacities if "capacity" in each and "nodeTopology" in each]
    reached = [
        host["metadata"]["name"]
        for each in used
        for host in nodes
        if each["nodeTopology"].get("matchLabels", {}).items() <= host["metadata"]["labels"].items()
    ]
    if len(reached) > len(set(reached)):
        for each in used:
            each["capacity"] = used[0]["capacity"]


def _zone(dice: Random) -> dict[str, str]:
    return {"zone": dice.choice(_ZONES)} if dice.random() < 0.9 else {}


def _topologies(dice: Random) -> list[dict[str, list[str]]]:
    some = dice.sample(_ZONES, 2)
    return dice.choice(([], [], [{ZONE: some}], [{ZONE: some[:1]}, {ZONE: some[1:]}]))


def _volume(dice: Random, prefix: str, number: int, nodes: list[Manifest]) -> Manifest:
    host = dice.choice(nodes)["metadata"]["labels"]
    zone = host.get(ZONE, "none")
    of = dice.choice((LOCAL, LOCAL, LOCAL, _NETWORK, _TRACKED))
    made = volume(
        f"{prefix}volume-{number}",
        dice.choice(_SIZES),
        prefix + of,
        on=dice.choice(
            (
                *(None, [{HOST: [host[HOST]]}], [{HOST: [host[HOST]]}], [{ZONE: [zone]}]),
                *([{ZONE: [zone], HOST: [host[HOST]]}], [{HOST: [host[HOST]]}, {ZONE: [_ZONES[0]]}]),
            )
        ),
        labels=dice.choice(({}, {"disk": "fast"}, {"disk": "slow"})),
        phase=dice.choice(("Available",) * 6 + ("Released",)),
        claim=dice.choice(("",) * 8 + ("claim-0-0", "claim-1-0")),
        uid=dice.choice(("", "", "claim-0-0", "old")),
        deleting=dice.random() < 0.05,
        volumeMode=dice.choice(("Filesystem",) * 5 + ("Block",)),
        accessModes=dice.choice((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])),
        **dice.choice(({},) * 8 + ({"volumeAttributesClassName": "gold"},)),
    )
    if dice.random() < 0.1:
        expression = {"key": ZONE, "operator": dice.choice(("NotIn", "Exists", "DoesNotExist"))}
        values = [zone] if expression["operator"] == "NotIn" else []
        terms = [{"matchExpressions": [{**expression, "values": values}]}]
        made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return made


def _capacity(dice: Random, prefix: str, number: int, nodes: list[Manifest]) -> Manifest:
    host = dice.choice(nodes)["metadata"]["labels"]
    zone = {ZONE: host[ZONE]} if ZONE in host else None
    topology = dice.choice((None, {}, {HOST: host[HOST]}, {HOST: host[HOST]}, zone, zone))
    total = dice.choice(("0", "2Gi", "4Gi", "6Gi", "10Gi", None))
    largest = dice.choice((None, None, None, "1Gi", "3Gi"))
    return capacity(f"{prefix}capacity-{number}", prefix + _TRACKED, topology, total, largest)


def delayed_claim(dice: Random, name: str, nodes: list[Manifest], prefix: str = "") -> Manifest:
    """Return a claim of one of the classes, whose names start with the prefix; some have a selected node."""
    selected = dice.choice(nodes)["metadata"]["name"] if dice.random() < 0.1 else None
    of = dice.choice(_CLASSES) if selected is None else dice.choice(_CLASSES[1:])
    made = claim(name, dice.choice(_SIZES), prefix + of, selected=selected)
    if dice.random() < 0.2:
        made["spec"]["selector"] = dice.choice(
            (
                {"matchLabels": {"disk": "fast"}},
                {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["slow"]}]},
            )
        )
    if dice.random() < 0.1:
        made["spec"]["volumeMode"] = "Block"
    if dice.random() < 0.1:
        made["spec"]["accessModes"] = ["ReadOnlyMany"]
    if dice.random() < 0.1:
        made["spec"]["volumeAttributesClassName"] = "gold"
    return made
