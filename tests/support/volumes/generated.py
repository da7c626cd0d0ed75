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
_ZONES = ("a", "b", "c")


class Generated(NamedTuple):
    """The nodes and the storage of a cluster, and the claims of each of some pods; pods may share claims."""

    nodes: list[Manifest]
    storage: list[Manifest]
    pods: list[list[Manifest]]


def generated(dice: Random, prefix: str = "", pods: int = 3, *, ties: bool = True) -> Generated:
    """Return a cluster; names of nodes, volumes, capacities and classes start with the prefix.

    Without ties no two volumes are of one size or name one claim, so no choice of kube-scheduler is random.
    """
    nodes = [node(f"{prefix}node-{number}", **_zone(dice, prefix)) for number in range(dice.randint(1, 6))]
    classes = [
        storage_class(prefix + LOCAL),
        storage_class(prefix + _NETWORK, f"{prefix}other.example.com", _topologies(dice, prefix)),
        storage_class(prefix + _TRACKED, prefix + DRIVER, _topologies(dice, prefix)),
    ]
    drivers = [driver(prefix + DRIVER, publishes=dice.choice((True, True, True, False, None)))]
    volumes = [_volume(dice, prefix, number, nodes) for number in range(dice.randint(2, 14))]
    if not ties:
        _untie(dice, volumes)
    capacities = [_capacity(dice, prefix, number, nodes) for number in range(dice.randint(0, 5))]
    shared = _claim(dice, prefix, "shared", nodes)
    made = []
    for pod in range(pods):
        own = [
            _claim(dice, prefix, f"claim-{pod}-{number}", nodes)
            for number in range(dice.choice((1, 1, 2, 2, 3)))
        ]
        made.append([*own, shared] if dice.random() < 0.3 else own)
    return Generated(nodes, [*classes, *drivers, *volumes, *capacities], made)


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


def _zone(dice: Random, prefix: str) -> dict[str, str]:
    return {"zone": prefix + dice.choice(_ZONES)} if dice.random() < 0.9 else {}


def _topologies(dice: Random, prefix: str) -> list[dict[str, list[str]]]:
    some = [prefix + zone for zone in dice.sample(_ZONES, 2)]
    return dice.choice(([], [], [{ZONE: some}], [{ZONE: some[:1]}, {ZONE: some[1:]}]))


def _volume(dice: Random, prefix: str, number: int, nodes: list[Manifest]) -> Manifest:
    host = dice.choice(nodes)["metadata"]["labels"]
    zone = host.get(ZONE, f"{prefix}none")
    of = dice.choice((LOCAL, LOCAL, LOCAL, _NETWORK, _TRACKED))
    made = volume(
        f"{prefix}volume-{number}",
        dice.choice(_SIZES),
        prefix + of,
        on=dice.choice(
            (
                *(None, [{HOST: [host[HOST]]}], [{HOST: [host[HOST]]}], [{ZONE: [zone]}]),
                *([{ZONE: [zone], HOST: [host[HOST]]}], [{HOST: [host[HOST]]}, {ZONE: [f"{prefix}a"]}]),
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


def _claim(dice: Random, prefix: str, name: str, nodes: list[Manifest]) -> Manifest:
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
