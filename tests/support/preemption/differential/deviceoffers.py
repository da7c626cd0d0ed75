"""Random pools of devices, as drivers offer them: for a node, for selected nodes, for all, or by device.

Some pools of a node are stale, incomplete or not valid. A pool for all nodes is seen by the nodes of other
cases, so it is complete and valid. So is a pool with counters, whose counters 1.36 reads for all nodes. No
pools of two drivers have one name, because 1.36 confuses their counters.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.preemption.differential.generator import CASE_LABEL, Object

ZONE = "zone"
_TAINTS = (
    {"key": "broken", "value": "yes", "effect": "NoSchedule"},
    {"key": "broken", "effect": "NoExecute"},
    {"key": "noisy", "value": "no", "effect": "None"},
)
_COUNTERS = ("memory", "slices")


class DeviceOffer(NamedTuple):
    """A device in a slice, and the nodes that can use it: a name, a node selector, or None for all."""

    driver: str
    pool: str
    device: Object
    where: str | Object | None


class DeviceOffers:
    """Makes the slices of a case with two drivers; `offers` are their devices."""

    def __init__(self, dice: random.Random, name: str) -> None:
        self.dice, self.name = dice, name
        self.gpu, self.nic = f"gpu.{name}.example.com", f"nic.{name}.example.com"
        # Each slice has a name and a spec.
        self.slices: list[tuple[str, Object]] = []
        self.offers: list[DeviceOffer] = []

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def some(self, *weights: int) -> int:
        """Return a number from 0 on by weights."""
        return self.dice.choices(range(len(weights)), weights)[0]

    def make(self, nodes: Sequence[str]) -> None:
        """Make the pools of each node, and perhaps one for several nodes."""
        for node in nodes:
            for driver in (self.gpu, self.nic):
                for number in range(self.some(1, 8, 1) if driver == self.gpu else self.some(6, 4)):
                    prefix = "" if driver == self.gpu else "nic-"
                    self.pool(driver, f"{prefix}{node}-{number}", node)
        if self.chance(0.35):
            kind = self.dice.choice(("zone", "zone", "all", "device"))
            driver = self.dice.choice((self.gpu, self.nic))
            self.pool(driver, self.dice.choice(("a-shared", "z-shared")), kind, nodes)

    def pool(self, driver: str, name: str, where: str, nodes: Sequence[str] = ()) -> None:
        """Make a pool of one to three slices; some pools of a node are stale, incomplete or not valid."""
        local = not nodes
        generation, shares = self.dice.randint(1, 3), self.chance(0.15)
        counters = self.counter_sets() if self.chance(0.2) else []
        shapes: list[Object] = [{"sharedCounters": counters}] if counters else []
        for number in range(self.some(0, 7, 2, 1)):
            devices = [
                self.device(driver, f"dev-{number}-{place}", counters, shares=shares)
                for place in range(self.some(1, 3, 4, 3, 2))
            ]
            if local and number and not counters and devices and self.chance(0.1):
                devices[0]["name"] = "dev-0-0"
            shapes.append({"devices": devices})
        wrong = local and not counters and self.chance(0.05)
        state = {"name": name, "generation": generation, "resourceSliceCount": len(shapes) + wrong}
        for shape in shapes:
            self.resource_slice(driver, state, shape, where, nodes)
        if local and self.chance(0.08):
            newer = self.chance(0.3) and not counters
            other = state | {"generation": generation + (1 if newer else -1), "resourceSliceCount": 1}
            devices = [self.device(driver, f"other-{place}", [], shares=False) for place in range(2)]
            self.resource_slice(driver, other, {"devices": devices}, where, nodes)

    def resource_slice(
        self, driver: str, pool: Object, shape: Object, where: str, nodes: Sequence[str]
    ) -> None:
        """Make a slice for a node, or for the nodes of a kind."""
        place: Object = {"nodeName": where}
        if nodes:
            kinds: Object = {"all": {"allNodes": True}, "device": {"perDeviceNodeSelection": True}}
            place = kinds.get(where, {"nodeSelector": self.zone()})
        for device in shape.get("devices", ()):
            if where == "device":
                own = {"nodeName": self.dice.choice(nodes)} if self.chance(0.5) else {"allNodes": True}
                device |= {"nodeSelector": self.zone()} if self.chance(0.3) else own  # noqa: PLW2901 - in place
            chosen = device if where == "device" else place
            nodes_of = chosen.get("nodeName") or chosen.get("nodeSelector")
            self.offers.append(DeviceOffer(driver, pool["name"], device, nodes_of))
        # Slices count in the order of their names, which is not the order in which they are made.
        name = f"{self.name}-{self.dice.randrange(100):02}-{len(self.slices):02}"
        self.slices.append((name, {"driver": driver, "pool": pool, **place, **shape}))

    def zone(self) -> Object:
        """Return a selector of the nodes of a zone of this case."""
        own = {"key": CASE_LABEL, "operator": "In", "values": [self.name]}
        zones = {"key": ZONE, "operator": "In", "values": self.dice.choice((["zone-0"], ["zone-1"]))}
        return {"nodeSelectorTerms": [{"matchExpressions": [own, zones]}]}

    def counter_sets(self) -> list[Object]:
        return [
            {
                "name": f"set-{number}",
                "counters": {name: {"value": str(self.dice.choice((2, 4, 8)))} for name in _COUNTERS},
            }
            for number in range(self.dice.randint(1, 2))
        ]

    def device(self, driver: str, name: str, counters: Sequence[Object], *, shares: bool) -> Object:
        attributes: Object = {
            "model": {"string": self.dice.choice("ab")},
            "numa": {"int": self.dice.randint(0, 1)},
            "driverVersion": {"version": self.dice.choice(("1.0.0", "1.2.3", "2.0.0-beta.1"))},
            "resource.kubernetes.io/pcieRoot": {"string": self.dice.choice(("pci0", "pci1"))},
            "healthy": {"bool": self.chance(0.7)},
        }
        memory: Object = {"value": self.dice.choice(("10Gi", "20Gi", "40Gi"))}
        made: Object = {
            "name": name,
            "attributes": {key: each for key, each in attributes.items() if not self.chance(0.1)},
            "capacity": {"memory": memory},
        }
        if driver == self.gpu and self.chance(0.1):
            made["attributes"][f"{driver}/numa"] = made["attributes"].pop("numa", {"int": 1})
        taken = [self.consumption(each) for each in counters if self.chance(0.8)]
        made |= {"consumesCounters": taken} if taken else {}
        if self.chance(0.12):
            made["taints"] = self.dice.sample(_TAINTS, self.dice.randint(1, 2))
        if shares and self.chance(0.8):
            made["allowMultipleAllocations"] = True
            if self.chance(0.5):
                memory["requestPolicy"] = self.dice.choice(
                    (
                        {"default": "5Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "2Gi"}},
                        {"default": "4Gi", "validValues": ["4Gi", "8Gi"]},
                        {"default": "2Gi"},
                    )
                )
        return made

    def consumption(self, counters: Object) -> Object:
        names = self.dice.sample(_COUNTERS, self.dice.randint(1, 2))
        taken = {name: {"value": str(self.dice.randint(1, 3))} for name in names}
        return {"counterSet": counters["name"], "counters": taken}
