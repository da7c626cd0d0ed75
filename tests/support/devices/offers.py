"""Random pools of devices, as drivers offer them: for one node, for selected nodes, for all, or by device.

Some pools are stale, incomplete or not valid, some devices share counters, and some can be shared themselves.
"""

import random
from typing import Any

Object = dict[str, Any]

GPU, NIC = "gpu.example.com", "nic.example.com"
NODES = ("node-0", "node-1", "node-2")
ZONES = {"node-0": "a", "node-1": "b", "node-2": "a"}
COUNTERS = ("memory", "slices")
TAINTS = [
    {"key": "broken", "value": "yes", "effect": "NoSchedule"},
    {"key": "broken", "effect": "NoExecute"},
    {"key": "noisy", "value": "no", "effect": "None"},
]


def chance(rng: random.Random, share: float) -> bool:
    """Return True in this share of the calls."""
    return rng.random() < share


def slices(rng: random.Random) -> list[Object]:
    """Return the slices of one to four pools, in random order."""
    names = [(driver, f"pool-{number}") for driver in (GPU, NIC) for number in range(2)]
    chosen = rng.sample(names, rng.choices((1, 2, 3, 4), (2, 4, 3, 1))[0])
    found = [one for driver, pool in chosen for one in _pool(rng, driver, pool)]
    # The allocator orders slices by name and pools by driver and name, not as they are listed.
    order = rng.sample(range(len(found)), len(found))
    for number, one in zip(order, found, strict=True):
        one["metadata"] = {"name": f"slice-{number:02}"}
    return rng.sample(found, len(found))


def _pool(rng: random.Random, driver: str, pool: str) -> list[Object]:
    """Return the slices of one pool: those of its generation, and sometimes others."""
    generation = rng.randint(1, 3)
    counters = _counter_sets(rng) if chance(rng, 0.25) else []
    shapes: list[Object] = [{"sharedCounters": counters}] if counters else []
    prefix = rng.choice(("dev", "gpu"))
    shared = chance(rng, 0.2)
    binding = chance(rng, 0.1)
    placement = _placement(rng)
    most = 20 if chance(rng, 0.03) else 0
    for number in range(rng.choices((1, 2, 3), (6, 3, 1))[0]):
        devices = [
            _device(rng, f"{prefix}-{number}-{place}", counters, shared=shared, binding=binding)
            for place in range(most or rng.choices(range(6), (1, 2, 4, 4, 3, 1))[0])
        ]
        if devices and number and chance(rng, 0.07):
            devices[0]["name"] = f"{prefix}-0-0"
        shapes.append({"devices": devices})
    count = len(shapes) + (rng.choice((-1, 1)) if chance(rng, 0.06) else 0)
    own = _pool_state(pool, generation, count)
    found = [
        _slice(rng, driver, own, shape, _placement(rng) if chance(rng, 0.1) else placement)
        for shape in shapes
    ]
    if chance(rng, 0.15):
        stale = {"devices": [_device(rng, f"old-{place}", []) for place in range(rng.randint(1, 2))]}
        found.append(_slice(rng, driver, _pool_state(pool, generation - 1, 1), stale, placement))
    if chance(rng, 0.07):
        new = {"devices": [_device(rng, "new-0", [])]}
        newer = _pool_state(pool, generation + 1, rng.choice((1, 2)))
        found.append(_slice(rng, driver, newer, new, _placement(rng)))
    return found


def _pool_state(name: str, generation: int, count: int) -> Object:
    return {"name": name, "generation": generation, "resourceSliceCount": max(count, 1)}


def _placement(rng: random.Random) -> Object:
    kind = rng.choices(("here", "there", "zone", "all", "device"), (10, 1, 3, 2, 2))[0]
    if kind == "device":
        return {"perDeviceNodeSelection": True}
    if kind in ("here", "there"):
        return {"nodeName": NODES[0] if kind == "here" else NODES[1]}
    return _anywhere(rng) if kind == "zone" else {"allNodes": True}


def _anywhere(rng: random.Random) -> Object:
    """Return a node selector of one or two terms."""
    by_zone = {"key": "zone", "operator": "In", "values": rng.choice((["a"], ["b"], ["a", "b"]))}
    by_rack = {"key": "rack", "operator": rng.choice(("Exists", "DoesNotExist"))}
    by_name = {"key": "metadata.name", "operator": "In", "values": [rng.choice(NODES)]}
    terms: list[Object] = [{"matchExpressions": [by_zone]}]
    if chance(rng, 0.3):
        terms[0]["matchExpressions"].append(by_rack)
    if chance(rng, 0.06):
        terms.append({"matchFields": [by_name]})
    return {"nodeSelector": {"nodeSelectorTerms": terms}}


def _slice(rng: random.Random, driver: str, pool: Object, shape: Object, placement: Object) -> Object:
    shape = {key: [dict(each) for each in value] for key, value in shape.items()}
    if "perDeviceNodeSelection" in placement:
        for device in shape.get("devices", ()):
            device.update(
                rng.choice(
                    ({"nodeName": NODES[0]}, {"nodeName": NODES[1]}, {"allNodes": True}, _anywhere(rng))
                )
            )
    return {"spec": {"driver": driver, "pool": pool, **placement, **shape}}


def _counter_sets(rng: random.Random) -> list[Object]:
    return [
        {
            "name": f"set-{number}",
            "counters": {name: {"value": str(rng.choice((2, 4, 8)))} for name in COUNTERS},
        }
        for number in range(rng.randint(1, 2))
    ]


def _device(
    rng: random.Random, name: str, counters: list[Object], *, shared: bool = False, binding: bool = False
) -> Object:
    found: Object = {"name": name, "attributes": _attributes(rng), "capacity": _capacity(rng, shared=shared)}
    if counters and chance(rng, 0.8):
        found["consumesCounters"] = [_consumption(rng, each) for each in counters if chance(rng, 0.7)]
    if chance(rng, 0.1):
        found["taints"] = rng.sample(TAINTS, rng.randint(1, 2))
    if binding and chance(rng, 0.7):
        found |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    if binding and chance(rng, 0.3):
        found["bindsToNode"] = True
    if shared and chance(rng, 0.8):
        found["allowMultipleAllocations"] = True
    return {key: value for key, value in found.items() if value not in ([], {})}


def _attributes(rng: random.Random) -> Object:
    found: Object = {
        "model": {"string": rng.choice("ab")},
        "numa": {"int": rng.randint(0, 1)},
        "driverVersion": {"version": rng.choice(("1.0.0", "1.2.3", "2.0.0-beta.1"))},
        "resource.kubernetes.io/pcieRoot": {"string": rng.choice(("pci0", "pci1"))},
    }
    if chance(rng, 0.2):
        found["gpu.example.com/numa"] = found.pop("numa")
    if chance(rng, 0.05):
        found["model"] = {"int": 1}
    if chance(rng, 0.4):
        found["healthy"] = {"bool": chance(rng, 0.5)}
    return {key: value for key, value in found.items() if not chance(rng, 0.05)}


def _capacity(rng: random.Random, *, shared: bool) -> Object:
    memory: Object = {"value": rng.choice(("10Gi", "20Gi", "40Gi"))}
    if shared and chance(rng, 0.5):
        memory["requestPolicy"] = rng.choice(
            (
                {"default": "5Gi", "validRange": {"min": "1Gi", "max": "20Gi", "step": "2Gi"}},
                {"default": "1Gi", "validRange": {"min": "1Gi"}},
                {"default": "4Gi", "validValues": ["4Gi", "8Gi", "16Gi"]},
                {"default": "2Gi"},
            )
        )
    found = {"memory": memory}
    if chance(rng, 0.3):
        found["cores"] = {"value": rng.choice(("4", "8"))}
        if shared and chance(rng, 0.4):
            valid = {"min": "500m", "step": "500m"}
            found["cores"]["requestPolicy"] = {"default": "500m", "validRange": valid}
    return found


def _consumption(rng: random.Random, counters: Object) -> Object:
    named = counters["name"] if not chance(rng, 0.02) else "absent"
    names = [*rng.sample(COUNTERS, rng.randint(1, 2)), *(["absent"] if chance(rng, 0.02) else [])]
    return {"counterSet": named, "counters": {name: {"value": str(rng.randint(1, 3))} for name in names}}
