"""Random questions to an allocator: a node, claims for its devices, and what others have of them.

The claims ask for few devices of few, because a search without a solution visits every combination.
"""

import random
from collections.abc import Sequence

from tests.support.devices import offers
from tests.support.devices.offers import GPU, NIC, NODES, ZONES, Object, chance

SELECTORS = (
    f'device.driver == "{GPU}"',
    f'"model" in device.attributes["{GPU}"] && device.attributes["{GPU}"].model == "a"',
    f'device.attributes["{GPU}"].?numa.orValue(0) == 1',
    f'device.attributes["{NIC}"].?healthy.orValue(true)',
    f'device.capacity["{GPU}"].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0',
    f'device.attributes["{GPU}"].?driverVersion.orValue(semver("0.1.0")).isGreaterThan(semver("1.2.0"))',
    'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("").endsWith("1")',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    "true",
)
_WRONG = (
    f'device.attributes["{GPU}"].model == "a"',
    f'device.attributes["{GPU}"].model',
    f'device.capacity["{NIC}"].cores.isLessThan(quantity("6"))',
    "device.driver",
    "device.attributes[",
    'devices.driver == "gpu"',
)
_ATTRIBUTES = (f"{GPU}/model", f"{GPU}/numa", f"{NIC}/numa", "resource.kubernetes.io/pcieRoot")
_TOLERATIONS = (
    {"key": "broken", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    {"key": "broken", "operator": "Exists"},
    {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    {"key": "other", "operator": "Exists"},
)
# The most devices that a case asks for.
_DEVICES = 6


def random_case(seed: int, number: int) -> Object:
    """Return the question of this number of a seed, in the form of a recording, without an answer."""
    question = random_question(random.Random(f"{seed}-{number}"))
    return {"name": f"random-{seed}-{number:04}", **question}


def random_question(rng: random.Random, selectors: Sequence[str] = SELECTORS) -> Object:
    """Return a node's question; most of its selectors are of these, and the first is that of class gpu."""
    slices = offers.slices(rng)
    labels = {"zone": ZONES[NODES[0]], **({"rack": "r"} if chance(rng, 0.5) else {})}
    return {
        "node": {"metadata": {"name": NODES[0], "labels": labels}},
        "slices": slices,
        "classes": _classes(rng, selectors),
        "claims": _claims(rng, selectors),
        "allocated": _allocated(rng, slices),
    }


def _classes(rng: random.Random, known: Sequence[str]) -> list[Object]:
    found: list[Object] = []
    for name, selectors in (("any", []), ("gpu", [known[0]]), ("good", [rng.choice(known[1:])])):
        if chance(rng, 0.003):
            continue
        spec: Object = {"selectors": _cel(selectors)} if selectors else {}
        if chance(rng, 0.3):
            spec["config"] = [
                _opaque(GPU, {"class": name, "number": number}) for number in range(rng.randint(1, 2))
            ]
        found.append({"metadata": {"name": name}, "spec": spec})
    return found


def _claims(rng: random.Random, selectors: Sequence[str]) -> list[Object]:
    """Return up to three claims for up to _DEVICES devices."""
    left = _DEVICES
    found = []
    for number in range(rng.choices((0, 1, 2, 3), (1, 70, 25, 5))[0]):
        requests: list[Object] = []
        for place in range(rng.choices((0, 1, 2, 3), (1, 50, 30, 10))[0]):
            count = min(rng.choices((1, 2, 3), (6, 3, 1))[0], left)
            if not count:
                break
            left -= count
            requests.append(_request(rng, f"r{place}", count, selectors))
        devices: Object = {"requests": requests}
        names = _names(requests)
        if names and chance(rng, 0.3):
            devices["constraints"] = [_constraint(rng, names) for _ in range(rng.choices((1, 2), (4, 1))[0])]
        if names and chance(rng, 0.2):
            devices["config"] = [_configuration(rng, names) for _ in range(rng.randint(1, 2))]
        metadata = {"name": f"claim-{number}", "namespace": "default"}
        found.append({"metadata": metadata, "spec": {"devices": devices}})
    return found


def _request(rng: random.Random, name: str, count: int, selectors: Sequence[str]) -> Object:
    if not chance(rng, 0.25):
        exactly = _requirement(rng, count, selectors)
        if chance(rng, 0.1):
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}
    alternatives = [
        {"name": f"s{place}", **_requirement(rng, rng.randint(1, count), selectors)}
        for place in range(rng.randint(1, 3))
    ]
    return {"name": name, "firstAvailable": alternatives}


def _requirement(rng: random.Random, count: int, known: Sequence[str]) -> Object:
    name = rng.choices(("any", "gpu", "good", "absent"), (120, 60, 30, 1))[0]
    found: Object = {"deviceClassName": name, "allocationMode": "ExactCount", "count": count}
    if chance(rng, 0.08):
        found = {"deviceClassName": name, "allocationMode": "All"}
    elif chance(rng, 0.006):
        found["count"] = 33
    selectors = rng.sample(known, rng.choices((0, 1, 2), (7, 3, 1))[0])
    if chance(rng, 0.03):
        selectors.append(rng.choice(_WRONG))
    if selectors:
        found["selectors"] = _cel(selectors)
    if chance(rng, 0.25):
        found["tolerations"] = rng.sample(_TOLERATIONS, rng.randint(1, 2))
    if chance(rng, 0.15):
        amount = rng.choice(("500Mi", "1Gi", "3Gi", "5Gi", "8Gi", "30Gi"))
        found["capacity"] = {"requests": {"memory": amount}}
        if chance(rng, 0.2):
            found["capacity"]["requests"]["cores"] = rng.choice(("1", "750m", "6"))
    return found


def _cel(expressions: list[str]) -> list[Object]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def _names(requests: list[Object]) -> list[str]:
    """Return the names by which a constraint or a configuration can name requests."""
    subs = [
        f"{request['name']}/{one['name']}"
        for request in requests
        for one in request.get("firstAvailable", ())
    ]
    return [request["name"] for request in requests] + subs


def _constraint(rng: random.Random, names: list[str]) -> Object:
    kind = rng.choices(("matchAttribute", "distinctAttribute"), (3, 1))[0]
    found: Object = {kind: rng.choice(_ATTRIBUTES)}
    if chance(rng, 0.4):
        found["requests"] = rng.sample(names, rng.randint(1, len(names)))
    return found


def _configuration(rng: random.Random, names: list[str]) -> Object:
    found = _opaque(rng.choice((GPU, NIC)), {"mode": rng.choice("xy")})
    if chance(rng, 0.6):
        found["requests"] = rng.sample(names, rng.randint(1, len(names)))
    return found


def _opaque(driver: str, parameters: Object) -> Object:
    return {"opaque": {"driver": driver, "parameters": parameters}}


def _allocated(rng: random.Random, slices: list[Object]) -> Object:
    """Return the devices that other claims have, and what they consume of those that can be shared."""
    found: dict[str, list[Object]] = {"devices": [], "shared": [], "consumed": []}
    for one in slices:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            key = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            if not chance(rng, 0.15) or any(key == other for other in found["devices"]):
                continue
            if not device.get("allowMultipleAllocations"):
                found["devices"].append(key)
                continue
            found["shared"].append({**key, "shareID": f"{rng.getrandbits(128):032x}"})
            amounts = {
                name: rng.choice(("1", "1Gi", "2Gi")) for name in device["capacity"] if chance(rng, 0.8)
            }
            found["consumed"].append({**key, "capacity": amounts})
    return dict(found)
