"""Small generated clusters with devices, in the form of upstream's witness: few names, so that they collide.

A case has one node's question: claims with every kind of request, slices with every kind of reach, counters,
taints and shared capacity, and devices in use. Most cases have a solution that needs a step back.
"""

from random import Random
from typing import Any

NODES = ("node-a", "node-b")
_DRIVER = "driver-a"
_MODELS = ("x", "y")
_TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}

Case = dict[str, Any]


def cluster(random: Random) -> Case:
    """Return a case; equal states of `random` give equal cases."""
    slices = [each for at in range(random.randint(1, 3)) for each in _pool(random, f"pool-{at}")]
    random.shuffle(slices)
    named = [
        {"driver": one["spec"]["driver"], "pool": one["spec"]["pool"]["name"], "device": device["name"]}
        for one in slices
        for device in one["spec"].get("devices") or ()
    ]
    return {
        "node": {"metadata": {"name": NODES[0], "labels": {"zone": "z1"}}},
        "slices": slices,
        "classes": _classes(random),
        "claims": [_claim(random, at) for at in range(random.choice((1, 1, 2, 3)))],
        "allocated": {
            "devices": [each for each in named if random.random() < 0.2],
            "shared": [],
            "consumed": [
                {**each, "capacity": {"memory": random.choice(("1", "2"))}}
                for each in named
                if random.random() < 0.1
            ],
        },
    }


def countable(random: Random) -> dict[str, Any]:
    """Return a case that can be counted: devices of two models, and requests for one model or for both."""
    devices = [
        {"name": f"dev-{at}", "attributes": {"model": {"string": random.choice("xy")}}}
        for at in range(random.randint(1, 8))
    ]
    driver = "driver-a"
    used = [
        {"driver": driver, "pool": "pool", "device": each["name"]}
        for each in devices
        if random.random() < 0.3
    ]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    model = {"cel": {"expression": f'device.attributes["{driver}"].model == "x"'}}
    claims = [
        {
            "metadata": {"name": f"claim-{at}"},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": f"r{number}",
                            "exactly": {
                                "deviceClassName": random.choice(("any", "x")),
                                "allocationMode": "ExactCount",
                                "count": random.randint(1, 3),
                            },
                        }
                        for number in range(random.randint(1, 3))
                    ],
                    "constraints": random.choice(([], [{"matchAttribute": f"{driver}/model"}])),
                }
            },
        }
        for at in range(random.randint(1, 2))
    ]
    return {
        "node": {"metadata": {"name": "node-a"}},
        "slices": [
            {
                "metadata": {"name": "slice"},
                "spec": {"driver": driver, "nodeName": "node-a", "pool": pool, "devices": devices},
            }
        ],
        "classes": [
            {"metadata": {"name": "any"}, "spec": {}},
            {"metadata": {"name": "x"}, "spec": {"selectors": [model]}},
        ],
        "claims": claims,
        "allocated": {"devices": used, "shared": [], "consumed": []},
    }


def _pool(random: Random, name: str) -> list[dict[str, Any]]:
    driver = _DRIVER if random.random() < 0.8 else "driver-b"
    parts = random.choice((1, 1, 2))
    counted = random.random() < 0.3
    size = parts + counted - (random.random() < 0.05)
    pool = {"name": name, "generation": 1, "resourceSliceCount": size}
    where = _where(random)
    found = []
    for at in range(parts):
        reach = where if random.random() < 0.7 else _where(random)
        per_device = "perDeviceNodeSelection" in reach
        devices = [
            _device(random, f"dev-{at}-{number}", counted=counted, per_device=per_device)
            for number in range(random.randint(0, 4))
        ]
        spec = {"driver": driver, "pool": pool, "devices": devices, **reach}
        found.append({"metadata": {"name": f"{name}-{at}"}, "spec": spec})
    if counted:
        sets = [{"name": "set", "counters": {"slots": {"value": str(random.randint(1, 5))}}}]
        spec = {"driver": driver, "pool": pool, "sharedCounters": sets, **where}
        found.append({"metadata": {"name": f"{name}-counters"}, "spec": spec})
    if random.random() < 0.1:
        old = {**found[0]["spec"], "pool": {**pool, "generation": 0}}
        found.append({"metadata": {"name": f"{name}-old"}, "spec": old})
    return found


def _where(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {"nodeName": NODES[0]},
            {"nodeName": NODES[0]},
            {"nodeName": NODES[1]},
            {"allNodes": True},
            {"nodeSelector": _in_zone(random)},
            {"perDeviceNodeSelection": True},
        )
    )


def _in_zone(random: Random) -> dict[str, Any]:
    zone = {"key": "zone", "operator": "In", "values": [random.choice(("z1", "z1", "z2"))]}
    return {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}


def _device(random: Random, name: str, *, counted: bool, per_device: bool) -> dict[str, Any]:
    device: dict[str, Any] = {"name": name, "attributes": {"model": {"string": random.choice(_MODELS)}}}
    if random.random() < 0.8:
        device["attributes"]["numa"] = {"int": random.randint(0, 1)}
    if random.random() < 0.5:
        device["attributes"][f"{_DRIVER}/good"] = {"bool": random.random() < 0.7}
    if random.random() < 0.3:
        device["taints"] = [_TAINT]
    if counted and random.random() < 0.8:
        taken = {"slots": {"value": str(random.randint(0, 2))}}
        device["consumesCounters"] = [{"counterSet": "set", "counters": taken}]
    if random.random() < 0.3:
        device["capacity"] = {"memory": _capacity(random)}
        if random.random() < 0.7:
            device["allowMultipleAllocations"] = True
    if random.random() < 0.1:
        device["bindingConditions"] = ["Attached"]
        device["bindingFailureConditions"] = ["Failed"]
    if per_device:
        device.update(
            random.choice(
                (
                    {"nodeName": NODES[0]},
                    {"nodeName": NODES[1]},
                    {"allNodes": True},
                    {"nodeSelector": _in_zone(random)},
                )
            )
        )
    elif random.random() < 0.05:
        device["bindsToNode"] = True
    return device


def _capacity(random: Random) -> dict[str, Any]:
    policy = random.choice(
        (
            None,
            {"default": "1"},
            {"default": "2", "validValues": ["2", "3"]},
            {"default": "1", "validRange": {"min": "1", "max": "3", "step": "2"}},
            {"default": "500m", "validRange": {"min": "500m", "step": "250m"}},
        )
    )
    capacity: dict[str, Any] = {"value": str(random.randint(2, 4))}
    return capacity if policy is None else {**capacity, "requestPolicy": policy}


def _classes(random: Random) -> list[dict[str, Any]]:
    plain = {"selectors": [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]}
    configured = {
        "selectors": [{"cel": {"expression": f'device.attributes["{_DRIVER}"].model == "x"'}}],
        "config": [{"opaque": {"driver": _DRIVER, "parameters": {"of": "class"}}}],
    }
    found = [("any", {}), ("plain", plain), ("configured", configured)]
    return [{"metadata": {"name": name}, "spec": spec} for name, spec in found if random.random() < 0.98]


def _claim(random: Random, at: int) -> dict[str, Any]:
    requests = [_request(random, f"r{number}") for number in range(random.choice((1, 1, 2, 3)))]
    names = [
        name
        for request in requests
        for name in (
            request["name"],
            *(f"{request['name']}/{each['name']}" for each in request.get("firstAvailable", ())),
        )
    ]
    devices: dict[str, Any] = {"requests": requests}
    if random.random() < 0.4:
        kind = random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint: dict[str, Any] = {kind: f"{_DRIVER}/{random.choice(('numa', 'model'))}"}
        if random.random() < 0.3:
            constraint["requests"] = [random.choice(names)]
        devices["constraints"] = [constraint]
    if random.random() < 0.3:
        chosen = [each for each in names if random.random() < 0.5]
        devices["config"] = [
            {"requests": chosen, "opaque": {"driver": _DRIVER, "parameters": {"of": "claim"}}}
        ]
    return {"metadata": {"name": f"claim-{at}", "namespace": "team"}, "spec": {"devices": devices}}


def _request(random: Random, name: str) -> dict[str, Any]:
    if random.random() < 0.3:
        subrequests = [
            {"name": f"s{number}", **_requirement(random)} for number in range(random.randint(1, 3))
        ]
        return {"name": name, "firstAvailable": subrequests}
    exactly = _requirement(random)
    if random.random() < 0.08:
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _requirement(random: Random) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "deviceClassName": random.choice(("any", "plain", "plain", "configured")),
        "allocationMode": "ExactCount",
        "count": random.choice((1, 1, 2, 3)),
    }
    if random.random() < 0.12:
        wanted["allocationMode"] = "All"
        del wanted["count"]
    if random.random() < 0.3:
        expressions = (
            f'device.attributes["{_DRIVER}"].model == "{random.choice(_MODELS)}"',
            f'device.attributes["{_DRIVER}"].good',
        )
        wanted["selectors"] = [{"cel": {"expression": random.choice((expressions[0], *expressions))}}]
    if random.random() < 0.5:
        wanted["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    if random.random() < 0.15:
        wanted["capacity"] = {"requests": {"memory": random.choice(("1", "2", "1500m"))}}
    return wanted
